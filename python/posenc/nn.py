"""Modules. Parameters of the encodings are registered as ``pos.<encoding>.<parameter>``, the names
that the C++ modules use; constants are buffers."""

from __future__ import annotations

from typing import Mapping, Optional

import torch
from torch import Tensor, nn

from posenc import functional
from posenc._arguments import SpecLike
from posenc._given import split_registered
from posenc._module_parts import EncodingParameters, KeyValueCache, TokenInputs, appended
from posenc.errors import Error, raises_errors, require_tensors, sizes
from posenc.spec import Spec, catalog, require_part
from posenc.tables import explain

__all__ = ["Attention", "EncodingParameters", "KeyValueCache", "LinearAttention", "PositionalEmbedding", "TokenInputs"]


def _require_count(name: str, value: Optional[int]) -> None:
    if value is not None and not isinstance(value, int):
        raise TypeError(f"[Attention] {name} must be a whole number but got {type(value).__name__}")
    if value is not None and value < 1:
        raise Error(f"[Attention] {name} must be >= 1 but got {value}", kind="out_of_range")


def _require_hidden_states(scope: str, x: Tensor, model_dim: int) -> None:
    require_tensors(scope, x=x)
    if x.dim() != 3 or sizes(x)[-1] != model_dim:
        raise Error(
            f"[{scope}] x must be [batch, tokens, {model_dim}] but has shape {list(x.shape)}", kind="wrong_length"
        )


def _require_positions(scope: str, positions: Tensor, x: Tensor) -> None:
    (batch, tokens, _), shape = sizes(x), sizes(positions)
    if positions.dim() in (1, 2) and shape[-1] == tokens and (positions.dim() == 1 or shape[0] in (1, batch)):
        return
    raise Error(
        f"[{scope}] positions must be [T] or [B, T] = [{batch}, {tokens}] but has shape {list(positions.shape)}",
        kind="wrong_length",
    )


@raises_errors
def _sinusoidal_vectors(positions: Tensor, model_dim: int, spec: str) -> Tensor:
    return torch.ops.posenc.sinusoidal_vectors(positions, model_dim, spec)


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
        for name, value in (("model_dim", model_dim), ("heads", heads), ("kv_heads", kv_heads), ("head_dim", head_dim)):
            _require_count(name, value)
        if not head_dim and model_dim % heads != 0:
            raise Error(
                f"[Attention] model_dim must be a multiple of heads ({heads}) but is {model_dim}; "
                "change one of them, or pass head_dim"
            )
        self.model_dim = model_dim
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
        return f"{self._text or 'none'!r}, heads={self.heads}{grouped}, head_dim={self.head_dim}{causal}{self._more_repr()}"

    def _more_repr(self) -> str:
        """What a derived module adds to extra_repr."""
        return ""

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], heads, self.head_dim).transpose(1, 2)

    @staticmethod
    def _merge(out: Tensor) -> Tensor:
        return out.transpose(1, 2).flatten(2)


def _drawn_seed() -> int:
    """From torch's own generator: torch.manual_seed repeats it, torch.utils.checkpoint restores it."""
    return int(torch.randint(2**62, ()))


class Attention(_Projections):
    """Softmax attention with any spec, grouped heads and a cache to decode from.

    Args:
        model_dim: width of the model.
        heads: heads of the queries.
        spec: encodings of sites 2 to 5. Those of site 1 are for :class:`PositionalEmbedding`.
        kv_heads: heads of keys and values, which divide ``heads``; by default as many.
        head_dim: channels of a head, by default ``model_dim / heads``.
        bias: whether the projections have a bias.
        causal: no token sees a later one; needed for a cache.
        window_left: keys that a query sees before its own position; -1 is no bound.
        dropout: share of the weights that is dropped in training, drawn from PyTorch's generator.
        seed: of the encodings' initial values.
        input_layers: modules by the names of the spec's inputs, in place of linear layers (:mod:`posenc.angles`).

    Shape:
        x [B, T, model_dim] to [B, T, model_dim]; key_mask [B, T]; positions [T], [B, T] or [B, T, axes].

    >>> layer = posenc.nn.Attention(64, 4, "rope + alibi", kv_heads=2, causal=True)
    >>> layer(torch.randn(2, 10, 64)).shape
    torch.Size([2, 10, 64])
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
        if not isinstance(window_left, int):
            raise TypeError(f"[Attention] window_left must be a whole number but got {type(window_left).__name__}")
        if window_left < -1:
            raise Error(f"[Attention] window_left must be -1 (no bound) or >= 0 but is {window_left}")
        if self.spec.needs_causal and not causal:
            raise Error(f"[Attention] {self.spec.text} needs causal attention; pass causal=True")
        if isinstance(dropout, (int, float)) and not 0 <= dropout < 1:
            raise Error(f"[Attention] dropout must be in [0, 1) but got {dropout}", kind="out_of_range")
        self.window_left = window_left
        self.dropout = dropout
        self._token_inputs = TokenInputs(self.spec, self.head_dim, heads, self.kv_heads)
        self._token_inputs.add_projections(self, model_dim, bias, layers=input_layers)
        self._paths: dict[tuple[torch.dtype, str], str] = {}

    def _decoding_path(self, q: Tensor) -> str:
        """What reads the cache, as :func:`posenc.explain` says it."""
        kind = q.dtype, q.device.type
        if kind not in self._paths:
            self._paths[kind] = explain(
                self.spec, heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head_dim, queries=1, keys=2,
                device="cuda" if q.device.type == "cuda" else "cpu", dtype=q.dtype,
            )
        return self._paths[kind]

    def _more_repr(self) -> str:
        window = f", window_left={self.window_left}" if self.window_left >= 0 else ""
        return window + (f", dropout={self.dropout}" if self.dropout else "")

    def forward(
        self,
        x: Tensor,
        key_mask: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
        cache: Optional[KeyValueCache] = None,
    ) -> Tensor:
        """Attention of x to itself. With ``cache`` it goes on from the tokens in the cache, without gradients."""
        _require_hidden_states(type(self).__name__, x, self.model_dim)
        if cache is not None:
            if not isinstance(cache, KeyValueCache):
                raise TypeError(f"[Attention] cache must be a posenc.nn.KeyValueCache but got {type(cache).__name__}")
            if key_mask is not None or positions is not None:
                given = "key_mask" if key_mask is not None else "positions"
                raise Error(f"[Attention] {given} is not read with a cache; leave it out", kind="conflict")
            before = cache.state()
            try:
                return self._decode(x, cache)
            except BaseException:
                cache.restore(before)
                raise
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
            raise Error("[Attention] a cache needs causal attention; pass causal=True to Attention", kind="conflict")
        for i in self._token_inputs.declared:
            layer = getattr(self, i.projection)
            if getattr(layer, "history", 0) > 0 and not hasattr(layer, "resume"):
                raise Error(
                    f"[Attention] {type(layer).__name__} reads {layer.history} earlier tokens but has no method "
                    "resume(x, earlier) that goes on from them; add one, or call the layer without a cache",
                    kind="unsupported",
                )
        start, end = cache.length, cache.length + x.shape[1]
        q = self._split(self.q_proj(x), self.heads)
        k = self._split(self.k_proj(x), self.kv_heads)
        path = self._decoding_path(q)
        # The reference, which float64 on a CPU and some specs need, rotates keys itself.
        rotation = None if path.startswith("reference") else self.spec.cacheable_rotation
        if rotation is not None:
            places = torch.arange(start, end, device=x.device)
            k = functional.rope(q, k, rotation, positions=places)[1]
        cache.append(k, self._split(self.v_proj(x), self.kv_heads))
        for name, value in self._token_inputs.make(self, x, cache.earlier).items():
            cache.inputs[name] = appended(cache.inputs.get(name), start, value)
        out = functional.attention_decode(
            q,
            spec=self._text or "none",
            params=self.pos(),
            **cache.rows(x.shape[1], path.startswith("decode")),
            window_left=self.window_left,
            inputs={name: value[:, :, :end] for name, value in cache.inputs.items()},
            keys_are_turned=rotation is not None,
        )
        return self.out_proj(self._merge(out))


_FORMS = ("elu", "relu", "cosine")


class LinearAttention(_Projections):
    """Linear attention with rotations (encodings of site 2): time linear in the length.

    Args:
        model_dim: width of the model.
        heads: heads of the queries.
        spec: the rotations.
        form: ``"elu"``, ``"relu"`` or ``"cosine"`` (:func:`posenc.linear_attention`).
        kv_heads, head_dim, bias, causal, seed, input_layers: as of :class:`Attention`.

    Shape:
        x [B, T, model_dim] to [B, T, model_dim]; key_mask [B, T].

    >>> layer = posenc.nn.LinearAttention(64, 4, "rope", causal=True)
    >>> layer(torch.randn(2, 10, 64)).shape
    torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        model_dim: int,
        heads: int,
        spec: SpecLike = "rope",
        *,
        form: str = "elu",
        kv_heads: Optional[int] = None,
        head_dim: Optional[int] = None,
        bias: bool = False,
        causal: bool = False,
        seed: int = 0,
        input_layers: Optional[Mapping[str, nn.Module]] = None,
    ) -> None:
        if form not in _FORMS:
            raise Error(f"[LinearAttention] form must be one of {', '.join(_FORMS)} but got {form!r}", kind="out_of_range")
        super().__init__(
            model_dim, heads, spec, kv_heads=kv_heads, head_dim=head_dim, bias=bias, causal=causal, seed=seed
        )
        if self._text != self.spec.text and self._text:
            raise Error(f"[LinearAttention] a registered bias needs a row of scores, but the spec is {self._text}")
        fitting = {entry["name"] for entry in catalog()["encodings"] if entry["linear_attention"]}
        for name in self.spec.encodings:
            if name not in fitting:
                raise Error(
                    f"[LinearAttention] {name} needs a row of scores, which linear attention does not have; use "
                    "rotations, or posenc.nn.Attention", kind="unsupported"
                )
        self.form = form
        self._token_inputs = TokenInputs(self.spec, self.head_dim, heads, self.kv_heads)
        self._token_inputs.add_projections(self, model_dim, bias, layers=input_layers)

    def _more_repr(self) -> str:
        return f", form={self.form!r}"

    def forward(self, x: Tensor, key_mask: Optional[Tensor] = None) -> Tensor:
        """Linear attention of x to itself."""
        _require_hidden_states(type(self).__name__, x, self.model_dim)
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
    """Adds encodings of site 1, learned and sinusoidal, to embeddings.

    Args:
        spec: the encodings, such as ``"sinusoidal"`` or ``"learned(max_positions=512)"``.
        model_dim: width of the embeddings.
        seed: of the initial values.

    Shape:
        x [B, T, model_dim] to [B, T, model_dim]; positions [T] or [B, T], by default 0, 1, 2, ...

    >>> add = posenc.nn.PositionalEmbedding("sinusoidal", 64)
    >>> add(torch.zeros(2, 10, 64)).shape
    torch.Size([2, 10, 64])
    """

    def __init__(self, spec: SpecLike, model_dim: int, seed: int = 0) -> None:
        super().__init__()
        self.spec = require_part(Spec(spec), "input")
        self.model_dim = model_dim
        self.pos = EncodingParameters(self.spec, model_dim, 1, model_dim, seed)
        self._parts = [Spec([entry]) for entry in self.spec.json] if self.spec.encodings else []

    def extra_repr(self) -> str:
        return f"{self.spec.text!r}, model_dim={self.model_dim}"

    def forward(self, x: Tensor, positions: Optional[Tensor] = None) -> Tensor:
        """The embeddings with their positions added."""
        _require_hidden_states(type(self).__name__, x, self.model_dim)
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        require_tensors(type(self).__name__, positions=positions)
        _require_positions(type(self).__name__, positions, x)
        tables = iter(self.pos().values())
        for part in self._parts:
            if part.encodings == ["learned"]:
                x = x + self._learned(next(tables), positions)
            else:
                vectors = _sinusoidal_vectors(positions.cpu(), self.model_dim, part.text)
                x = x + vectors.to(device=x.device, dtype=x.dtype)
        return x

    @staticmethod
    def _learned(table: Tensor, positions: Tensor) -> Tensor:
        if positions.is_floating_point():
            raise Error(f"[learned] positions must be whole numbers but got {positions.dtype}")
        if positions.numel() and (positions.min() < 0 or positions.max() >= table.shape[0]):
            raise Error(
                f"[learned] positions must be in [0, {table.shape[0] - 1}] but span "
                f"{int(positions.min())} to {int(positions.max())}"
            )
        return nn.functional.embedding(positions, table)
