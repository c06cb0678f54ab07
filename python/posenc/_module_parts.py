"""What modules are made of: parameters of encodings, layers that make their inputs, and the cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Optional

import torch
from torch import Tensor, nn

from posenc import functional
from posenc._arguments import SpecLike
from posenc._given import Registered
from posenc.errors import Error
from posenc.spec import Input, Spec

_MOST_QUERIES_OF_INT8 = 8
_CACHED = (None, torch.float32, torch.bfloat16, torch.float16, torch.int8)


class EncodingParameters(nn.Module):
    """The parameters of a spec for a shape, at their initial values.

    Args:
        spec: the encodings.
        head_dim: channels of a head.
        heads: number of heads of the queries.
        model_dim: width of the model, for encodings of site 1.
        seed: of the initial values.

    Calling it gives all tensors by name, as ``params`` of :func:`posenc.attention`.

    >>> parameters = posenc.nn.EncodingParameters("rope + cope(npos_max=4)", head_dim=8, heads=2)
    >>> {name: list(x.shape) for name, x in parameters().items()}
    {'cope.pos_emb': [8, 4]}
    """

    def __init__(
        self, spec: SpecLike, head_dim: int, heads: int, model_dim: int = 0, seed: int = 0
    ) -> None:
        super().__init__()
        spec = Spec(spec)
        values = spec.initial_parameters(head_dim, heads, model_dim, seed)
        self._names = [p.name for p in spec.parameters(head_dim, heads, model_dim)]
        for parameter in spec.parameters(head_dim, heads, model_dim):
            encoding, name = parameter.name.split(".", 1)
            if not hasattr(self, encoding):
                self.add_module(encoding, nn.Module())
            module = getattr(self, encoding)
            if parameter.trainable:
                module.register_parameter(name, nn.Parameter(values[parameter.name]))
            else:
                module.register_buffer(name, values[parameter.name])

    def add_registered(self, one: Registered, heads: int) -> None:
        """The parameters of an encoding that :func:`posenc.register` made."""
        self.add_module(one.name, nn.Module())
        for name, initial in one.params.items():
            getattr(self, one.name).register_parameter(name, nn.Parameter(initial(heads)))
            self._names.append(f"{one.name}.{name}")

    def extra_repr(self) -> str:
        return ", ".join(f"{name}: {list(self.get(name).shape)}" for name in self._names)

    def forward(self) -> dict[str, Tensor]:
        """All tensors by name."""
        return {name: self.get(name) for name in self._names}

    def get(self, name: str) -> Tensor:
        encoding, attribute = name.split(".", 1)
        return getattr(getattr(self, encoding), attribute)


class TokenInputs:
    """Makes the inputs that a spec declares (:meth:`posenc.Spec.inputs`) from the hidden states of a layer.

    Args:
        spec: the encodings.
        head_dim: channels of a head.
        heads: heads of the queries.
        kv_heads: heads of the keys.

    The linear layers belong to the module that is passed to the methods, under the names that the spec gives.

    >>> layer, made_by = torch.nn.Module(), posenc.nn.TokenInputs(posenc.Spec("fox"), 8, 4, 2)
    >>> made_by.add_projections(layer, 32)
    >>> made_by.make(layer, torch.randn(1, 5, 32))["fox.log_f"].shape
    torch.Size([1, 4, 5, 1])
    """

    def __init__(self, spec: Spec, head_dim: int, heads: int, kv_heads: int) -> None:
        self.declared = spec.inputs(head_dim, heads)
        self.heads = heads
        self.kv_heads = kv_heads

    def _heads_of(self, declared: Input) -> int:
        return self.heads if declared.by_query_head else self.kv_heads

    def add_projections(
        self,
        module: nn.Module,
        model_dim: int,
        bias: bool = False,
        device: Optional[torch.device] = None,
        dtype: Optional[torch.dtype] = None,
        layers: Optional[Mapping[str, nn.Module]] = None,
    ) -> None:
        """Adds the linear layers to ``module``; ``layers`` has modules by the names of inputs in their place."""
        given = dict(layers or {})
        unknown = given.keys() - {i.name for i in self.declared}
        if unknown:
            names = ", ".join(i.name for i in self.declared) or "none"
            raise Error(f"[Attention] input_layers has unknown {sorted(unknown)[0]!r}; the inputs of the spec are: {names}")
        for i in self.declared:
            if i.name in given:
                module.add_module(i.projection, given[i.name])
                continue
            width, biased = self._heads_of(i) * i.channels, bias or i.has_bias
            layer = nn.Linear(model_dim, width, bias=biased, device=device, dtype=dtype)
            module.add_module(i.projection, layer)

    def make(self, module: nn.Module, x: Tensor, earlier: Optional[dict[str, Tensor]] = None) -> dict[str, Tensor]:
        """x [B, T, model_dim] to tensors [B, heads, T, channels] by name.

        With a cache, ``earlier`` has what layers that read earlier tokens know of them, by name; it is updated. Such a
        layer has ``history``, the number of these tokens, and a method ``resume(x, earlier)`` as
        :class:`posenc.angles.SelectiveSteps` has.
        """
        made = {}
        for i in self.declared:
            layer = getattr(module, i.projection)
            if earlier is not None and getattr(layer, "history", 0) > 0:
                y, earlier[i.name] = layer.resume(x, earlier.get(i.name))
            else:
                y = layer(x)
            y = y.float() if i.float32 and y.dtype != torch.float64 else y
            made[i.name] = i.activate(y.unflatten(-1, (self._heads_of(i), i.channels))).transpose(1, 2)
        return made


@dataclass
class KeyValueCache:
    """Keys and values of the tokens so far, for :class:`Attention`.

    Keys are kept rotated where the spec has one constant rotation (:attr:`posenc.Spec.cacheable_rotation`), else
    unrotated: a call then gives the last rows of one pass over all tokens so far, also where the rotation follows
    the length.

    >>> layer, cache = posenc.nn.Attention(32, 4, "rope", causal=True), posenc.nn.KeyValueCache()
    >>> for token in torch.randn(1, 3, 32).split(1, dim=1):
    ...     y = layer(token, cache=cache)
    >>> cache.length
    3

    ``KeyValueCache(dtype=torch.int8)`` keeps keys and values as :func:`posenc.quantize_rows` rounds them, in a quarter of
    the memory; ``torch.bfloat16`` and ``torch.float16`` in half of it. These types need a CPU.
    """

    dtype: Optional[torch.dtype] = None  #: of the kept keys and values; None: as they are computed
    length: int = 0
    keys: Optional[Tensor] = None
    values: Optional[Tensor] = None
    scales: dict[str, Tensor] = field(default_factory=dict)  #: of int8 ``keys`` and ``values``
    inputs: dict[str, Tensor] = field(default_factory=dict)
    earlier: dict[str, Tensor] = field(default_factory=dict)  #: of layers that make inputs from several tokens

    def __post_init__(self) -> None:
        if self.dtype not in _CACHED:
            raise Error(f"[KeyValueCache] dtype must be one of {_CACHED} but got {self.dtype}", kind="out_of_range")

    def state(self) -> dict[str, object]:
        """For :meth:`restore`. Tokens that come later are written behind those that are there."""
        return _copied(vars(self))

    def restore(self, state: dict[str, object]) -> None:
        """As it was when ``state`` was taken."""
        vars(self).update(_copied(state))

    def _require_fit(self, k: Tensor) -> None:
        if self.keys is None:
            return
        if k.shape[0] != self.keys.shape[0]:
            raise Error(
                f"[Attention] x must have {self.keys.shape[0]} batch entries as the cache has but got {k.shape[0]}",
                kind="wrong_length",
            )
        if k.shape[1::2] != self.keys.shape[1::2]:
            raise Error(
                f"[Attention] cache must have {k.shape[1]} heads of {k.shape[3]} channels but has {self.keys.shape[1]} of "
                f"{self.keys.shape[3]}; give each layer a cache of its own",
                kind="wrong_length",
            )

    def append(self, k: Tensor, v: Tensor) -> None:
        """Keys and values of the next tokens."""
        self._require_fit(k)
        for name, rows in (("keys", k), ("values", v)):
            if self.dtype == torch.int8:
                rows, scales = functional.quantize_rows(rows)
                self.scales[name] = appended(self.scales.get(name), self.length, scales)
            rows = rows if self.dtype is None else rows.to(self.dtype)
            setattr(self, name, appended(getattr(self, name), self.length, rows))
        self.length += k.shape[2]

    def rows(self, queries: int, decodes: bool = True) -> dict[str, Tensor]:
        """What :func:`posenc.attention_decode` takes: decode kernels, which ``decodes`` says, read int8 for few queries."""
        assert self.keys is not None and self.values is not None
        found = {"k": self.keys[:, :, : self.length], "v": self.values[:, :, : self.length]}
        if not self.scales:
            return found
        scales = {name: self.scales[full][:, :, : self.length] for name, full in (("k", "keys"), ("v", "values"))}
        if queries > _MOST_QUERIES_OF_INT8 or not decodes:
            return {name: x * scales[name] for name, x in found.items()}
        return {**found, **{f"{name}_scales": x for name, x in scales.items()}}


def _copied(state: Mapping[str, object]) -> dict[str, object]:
    return {name: dict(x) if isinstance(x, dict) else x for name, x in state.items()}


def appended(buffer: Optional[Tensor], length: int, more: Tensor) -> Tensor:
    """A buffer of twice the tokens where there is no room; the caller narrows it."""
    wanted = length + more.shape[2]
    if buffer is None or buffer.shape[2] < wanted:
        larger = more.new_empty(more.shape[0], more.shape[1], max(2 * wanted, 64), more.shape[3])
        if buffer is not None:
            larger[:, :, :length] = buffer[:, :, :length]
        buffer = larger
    buffer[:, :, length:wanted] = more
    return buffer
