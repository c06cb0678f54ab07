"""Modules. Parameters of the encodings are registered as ``pos.<encoding>.<parameter>``, the names
that the C++ modules use; constants are buffers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Optional

import torch
from torch import Tensor, nn

from posenc import functional
from posenc._given import Registered, split_registered
from posenc.errors import Error
from posenc.functional import SpecLike
from posenc.spec import Input, Spec, require_part


class EncodingParameters(nn.Module):
    """The parameters of a spec for a shape."""

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
    """Makes the inputs that a spec declares (:meth:`Spec.inputs`) from the hidden states of a layer.
    The linear layers belong to the module that is passed in, under the names that the spec gives."""

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
        """``layers``: modules by the names of inputs, in place of linear layers."""
        given = dict(layers or {})
        unknown = given.keys() - {i.name for i in self.declared}
        if unknown:
            names = ", ".join(i.name for i in self.declared) or "none"
            raise Error(f"input_layers has {sorted(unknown)[0]!r}, but the inputs of the spec are: {names}")
        for i in self.declared:
            if i.name in given:
                module.add_module(i.projection, given[i.name])
                continue
            width, biased = self._heads_of(i) * i.channels, bias or i.has_bias
            layer = nn.Linear(model_dim, width, bias=biased, device=device, dtype=dtype)
            module.add_module(i.projection, layer)

    def make(self, module: nn.Module, x: Tensor) -> dict[str, Tensor]:
        """x [B, T, model_dim] to tensors [B, heads, T, channels] by name."""
        made = {}
        for i in self.declared:
            y = getattr(module, i.projection)(x)
            y = y.float() if i.float32 and y.dtype != torch.float64 else y
            made[i.name] = i.activate(y.unflatten(-1, (self._heads_of(i), i.channels))).transpose(1, 2)
        return made


@dataclass
class KeyValueCache:
    """Keys and values of the tokens so far. Keys are kept rotated where the spec has one constant
    rotation (:attr:`Spec.cacheable_rotation`), else unrotated: a call then gives the last rows of one
    pass over all tokens so far, also where the rotation follows the length."""

    length: int = 0
    keys: Optional[Tensor] = None
    values: Optional[Tensor] = None
    inputs: dict[str, Tensor] = field(default_factory=dict)


def _append(buffer: Optional[Tensor], length: int, more: Tensor) -> Tensor:
    """A buffer of twice the tokens where there is no room; the caller narrows it."""
    wanted = length + more.shape[2]
    if buffer is None or buffer.shape[2] < wanted:
        larger = more.new_empty(more.shape[0], more.shape[1], max(2 * wanted, 64), more.shape[3])
        if buffer is not None:
            larger[:, :, :length] = buffer[:, :, :length]
        buffer = larger
    buffer[:, :, length:wanted] = more
    return buffer


class _Projections(nn.Module):
    """What softmax and linear attention share: projections, heads, parameters of the encodings."""

    def __init__(
        self,
        model_dim: int,
        heads: int,
        spec: SpecLike = "none",
        *,
        kv_heads: Optional[int] = None,
        head_dim: Optional[int] = None,
        bias: bool = False,
        causal: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not head_dim and model_dim % heads != 0:
            raise Error(
                f"[Attention] model_dim must be a multiple of heads ({heads}) but is {model_dim}; "
                "change one of them, or pass head_dim"
            )
        self.heads = heads
        self.kv_heads = kv_heads or heads
        self.head_dim = head_dim or model_dim // heads
        self.causal = causal
        text, registered = split_registered(spec if isinstance(spec, str) else Spec(spec).text)
        self.spec = require_part(Spec(text), "attention")
        self._text = " + ".join([self.spec.text] * bool(self.spec.encodings) + [one.name for one in registered])
        if heads % self.kv_heads != 0:
            raise Error(f"[Attention] kv_heads must divide heads ({heads}) but is {self.kv_heads}")
        q_dim, k_dim = heads * self.head_dim, self.kv_heads * self.head_dim
        self.q_proj = nn.Linear(model_dim, q_dim, bias=bias)
        self.k_proj = nn.Linear(model_dim, k_dim, bias=bias)
        self.v_proj = nn.Linear(model_dim, k_dim, bias=bias)
        self.out_proj = nn.Linear(q_dim, model_dim, bias=bias)
        self.pos = EncodingParameters(self.spec, self.head_dim, heads, model_dim, seed)
        for one in registered:
            self.pos.add_registered(one, heads)

    def extra_repr(self) -> str:
        grouped = f", kv_heads={self.kv_heads}" if self.kv_heads != self.heads else ""
        causal = ", causal=True" if self.causal else ""
        return f"{self._text or 'none'!r}, heads={self.heads}{grouped}, head_dim={self.head_dim}{causal}"

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, self.head_dim)).transpose(1, 2)

    @staticmethod
    def _merge(out: Tensor) -> Tensor:
        return out.transpose(1, 2).flatten(2)


def _drawn_seed() -> int:
    """From torch's own generator: torch.manual_seed repeats it, torch.utils.checkpoint restores it."""
    return int(torch.randint(2**62, ()))


class Attention(_Projections):
    """Softmax attention with any spec, grouped queries and a cache to decode from.

    ``forward(x)`` with x [B, T, model_dim]; ``forward(x, cache=cache)`` goes on from the cache,
    without gradients, and needs ``causal=True``. The spec has encodings of sites 2 to 5; those of
    site 1 are for :class:`PositionalEmbedding`. ``seed`` is that of the encodings' initial values;
    dropout draws from torch's generator, as torch's own modules do.
    """

    def __init__(
        self,
        model_dim: int,
        heads: int,
        spec: SpecLike = "none",
        *,
        kv_heads: Optional[int] = None,
        head_dim: Optional[int] = None,
        bias: bool = False,
        causal: bool = False,
        window_left: int = -1,
        dropout: float = 0.0,
        seed: int = 0,
        input_layers: Optional[Mapping[str, nn.Module]] = None,
    ) -> None:
        super().__init__(
            model_dim,
            heads,
            spec,
            kv_heads=kv_heads,
            head_dim=head_dim,
            bias=bias,
            causal=causal,
            seed=seed,
        )
        if window_left < -1:
            raise Error(f"[Attention] window_left must be -1 (no bound) or >= 0 but is {window_left}")
        if self.spec.needs_causal and not causal:
            raise Error(f"[Attention] {self.spec.text} needs causal attention; pass causal=True")
        self.window_left = window_left
        self.dropout = dropout
        self._token_inputs = TokenInputs(self.spec, self.head_dim, heads, self.kv_heads)
        self._token_inputs.add_projections(self, model_dim, bias, layers=input_layers)
        self._rotation = self.spec.cacheable_rotation

    def forward(
        self,
        x: Tensor,
        key_mask: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
        cache: Optional[KeyValueCache] = None,
    ) -> Tensor:
        if cache is not None:
            if key_mask is not None or positions is not None:
                given = "key_mask" if key_mask is not None else "positions"
                raise Error(f"{given} is not read with a cache; leave it out")
            return self._decode(x, cache)
        dropout = self.dropout if self.training else 0.0
        out = functional.attention(
            self._split(self.q_proj(x), self.heads),
            self._split(self.k_proj(x), self.kv_heads),
            self._split(self.v_proj(x), self.kv_heads),
            self._text or "none",
            self.pos(),
            causal=self.causal,
            window_left=self.window_left,
            key_mask=key_mask,
            q_positions=positions,
            k_positions=positions,
            inputs=self._token_inputs.make(self, x),
            dropout=dropout,
            seed=_drawn_seed() if dropout > 0 else 0,
        )
        return self.out_proj(self._merge(out))

    @torch.no_grad()
    def _decode(self, x: Tensor, cache: KeyValueCache) -> Tensor:
        if not self.causal:
            raise Error("a cache needs causal attention")
        for i in self._token_inputs.declared:
            layer = getattr(self, i.projection)
            if getattr(layer, "history", 0) > 0:
                raise Error(
                    f"{type(layer).__name__} reads {layer.history} earlier tokens, which a cache does not hold; "
                    "call the layer without a cache"
                )
        start, end = cache.length, cache.length + x.shape[1]
        q = self._split(self.q_proj(x), self.heads)
        k = self._split(self.k_proj(x), self.kv_heads)
        if self._rotation is not None:
            places = torch.arange(start, end, device=x.device)
            k = functional.rope(q, k, self._rotation, positions=places)[1]
        cache.keys = _append(cache.keys, start, k)
        cache.values = _append(cache.values, start, self._split(self.v_proj(x), self.kv_heads))
        for name, value in self._token_inputs.make(self, x).items():
            cache.inputs[name] = _append(cache.inputs.get(name), start, value)
        cache.length = end
        out = functional.attention_decode(
            q,
            cache.keys[:, :, :end],
            cache.values[:, :, :end],
            self._text or "none",
            self.pos(),
            window_left=self.window_left,
            inputs={name: value[:, :, :end] for name, value in cache.inputs.items()},
            keys_are_turned=self._rotation is not None,
        )
        return self.out_proj(self._merge(out))


class LinearAttention(_Projections):
    """Linear attention with encodings of site 2."""

    def __init__(
        self,
        model_dim: int,
        heads: int,
        spec: SpecLike = "rope",
        *,
        form: str = "elu",
        input_layers: Optional[Mapping[str, nn.Module]] = None,
        **options,
    ) -> None:
        super().__init__(model_dim, heads, spec, **options)
        if self._text != self.spec.text and self._text:
            raise Error(f"[LinearAttention] a registered bias needs a row of scores, but the spec is {self._text}")
        self.form = form
        self._token_inputs = TokenInputs(self.spec, self.head_dim, heads, self.kv_heads)
        self._token_inputs.add_projections(self, model_dim, options.get("bias", False), layers=input_layers)

    def forward(self, x: Tensor, key_mask: Optional[Tensor] = None) -> Tensor:
        out = functional.linear_attention(
            self._split(self.q_proj(x), self.heads),
            self._split(self.k_proj(x), self.kv_heads),
            self._split(self.v_proj(x), self.kv_heads),
            self.spec.text,
            self.pos(),
            form=self.form,
            causal=self.causal,
            key_mask=key_mask,
            inputs=self._token_inputs.make(self, x),
        )
        return self.out_proj(self._merge(out))


class PositionalEmbedding(nn.Module):
    """x plus the spec's encodings, which are of site 1: learned and sinusoidal."""

    def __init__(self, spec: SpecLike, model_dim: int, seed: int = 0) -> None:
        super().__init__()
        self.spec = require_part(Spec(spec), "input")
        self.model_dim = model_dim
        self.pos = EncodingParameters(self.spec, model_dim, 1, model_dim, seed)
        self._parts = [Spec([entry]) for entry in self.spec.json] if self.spec.encodings else []

    def extra_repr(self) -> str:
        return f"{self.spec.text!r}, model_dim={self.model_dim}"

    def forward(self, x: Tensor, positions: Optional[Tensor] = None) -> Tensor:
        """x [B, T, model_dim]; positions [T] or [B, T], by default 0, 1, ..."""
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        tables = iter(self.pos().values())
        for part in self._parts:
            if part.encodings == ["learned"]:
                x = x + self._learned(next(tables), positions)
            else:
                vectors = torch.ops.posenc.sinusoidal_vectors(
                    positions.cpu(), self.model_dim, part.text
                )
                x = x + vectors.to(device=x.device, dtype=x.dtype)
        return x

    @staticmethod
    def _learned(table: Tensor, positions: Tensor) -> Tensor:
        if positions.numel() and (positions.min() < 0 or positions.max() >= table.shape[0]):
            raise Error(
                f"[learned] positions must be in [0, {table.shape[0] - 1}] but span "
                f"{int(positions.min())} to {int(positions.max())}"
            )
        return nn.functional.embedding(positions, table)
