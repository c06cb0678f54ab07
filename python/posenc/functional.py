"""Functions on tensors. q is [B, H, Tq, D]; k and v are [B, Hkv, Tk, D], and Hkv divides H.

float32, bfloat16 and float16 run the fused kernels with float32 arithmetic; float64 runs the
reference, for gradient checks. Parameters of the encodings come by name in ``params``; constants such
as ALiBi's fixed slopes may be left out.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, Mapping, Optional, Sequence, Union, overload

import torch
from torch import Tensor

from posenc._given import split_registered, with_given
from posenc._linear_angles import linear_attention_by_angles, rotates_by_input
from posenc._sdpa import causal_of, dropout_of, heads_first, key_mask_of
from posenc.errors import Error, raises_errors
from posenc.spec import Spec, _initial, wanted_inputs, wanted_parameters

SpecLike = Union[str, Spec, Sequence[object]]
Params = Optional[Mapping[str, Tensor]]
Inputs = Optional[Mapping[str, Tensor]]


def _text(spec: SpecLike) -> str:
    return spec if isinstance(spec, str) else Spec(spec).text


def _has_shape(value: Tensor, shape: Sequence[int]) -> bool:
    # Entry by entry: torch.compile cannot compare two tuples here.
    return value.dim() == len(shape) and all(n == m for n, m in zip(value.shape, shape))


def _parameters(spec: str, params: Params, heads: int, head_dim: int) -> list[Tensor]:
    """The tensors in the operators' order; says which are missing, unknown or of a wrong shape."""
    wanted = wanted_parameters(spec, head_dim, heads)
    given = dict(params) if params is not None else {}
    # Constants are said all together or not at all.
    constants = any(name in given for name, _, trainable in wanted if not trainable)
    tensors = []
    for index, (name, shape, trainable) in enumerate(wanted):
        value = given.pop(name, None)
        if value is None and not trainable:
            if constants:
                tensors.append(_initial(spec, head_dim, heads, 0, 0)[index])
            continue
        if value is None:
            raise Error(
                f"[posenc] params lacks {name!r} of shape {list(shape)}; pass it, or use "
                "posenc.nn, whose modules own their parameters"
            )
        if not _has_shape(value, shape):
            raise Error(
                f"[posenc] params[{name!r}] must have shape {list(shape)} "
                f"but has {list(value.shape)}"
            )
        tensors.append(value)
    if given:
        names = ", ".join(name for name, _, _ in wanted) or "none"
        raise Error(f"[posenc] params has unknown {sorted(given)}; the spec's are: {names}")
    return tensors


def _inputs(spec: str, inputs: Inputs, heads: int, head_dim: int) -> list[Tensor]:
    """The tensors in the operators' order; says which are missing or unknown. One of a single channel may
    be [B, H, Tk]."""
    channels = dict(wanted_inputs(spec, head_dim, heads))
    wanted = list(channels)
    given = dict(inputs) if inputs is not None else {}
    missing = [name for name in wanted if name not in given]
    unknown = sorted(name for name in given if name not in wanted)
    if missing or unknown:
        what = f"lacks {missing[0]!r}" if missing else f"has unknown {unknown}"
        raise Error(f"[posenc] inputs {what}; the spec's are: {', '.join(wanted) or 'none'}")
    return [
        given[name].unsqueeze(-1) if channels[name] == 1 and given[name].dim() == 3 else given[name]
        for name in wanted
    ]


_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


def _warn_if_slow(text: str, q: Tensor, k: Tensor, explicit_positions: bool) -> None:
    """Once per kind of call: what no fused kernel serves is slow, or takes memory of Tq x Tk."""
    if _is_compiling() or torch.jit.is_tracing():
        return
    slow = torch.ops.posenc._slow_path(text, q, k, explicit_positions)
    if slow:
        warnings.warn(slow, stacklevel=5)


def _shape(q: Tensor) -> tuple[int, int]:
    if q.dim() != 4:
        raise Error(
            f"[posenc] q must be [batch, heads, tokens, channels] but has {q.dim()} dimensions"
        )
    return q.shape[1], q.shape[3]


def _prepared(
    spec: SpecLike,
    params: Params,
    inputs: Inputs,
    bias: Optional[Tensor],
    q: Tensor,
    k: Tensor,
    explicit_positions: bool,
) -> tuple[str, list[Tensor], list[Tensor]]:
    """Spec, parameters and inputs as the operators take them."""
    shape, text = _shape(q), _text(spec)
    if bias is not None or split_registered(text)[1]:
        text, params, inputs = with_given(
            text, params or {}, inputs or {}, bias, q, k, explicit_positions
        )
    tensors = _parameters(text, params, *shape), _inputs(text, inputs, *shape)
    _warn_if_slow(text, q, k, explicit_positions)
    return text, *tensors


def _widened(v: Tensor, width: int, spec: str) -> Tensor:
    """Values with as many channels as queries: zeros behind them, which change nothing."""
    missing = width - v.shape[-1]
    if missing == 0:
        return v
    if missing < 0:
        raise Error(
            f"[posenc] v has {v.shape[-1]} channels and q has {width}, but v must not be wider; pad q and k with "
            "zeros and pass scale"
        )
    canonical = Spec(spec).text
    for field in ("gate_source=value", "values=true"):
        if field in canonical:
            raise Error(
                f"[posenc] {field} needs as many channels in v as in q ({width}) but v has {v.shape[-1]}"
            )
    return torch.nn.functional.pad(v, (0, missing))


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spec: SpecLike = ...,
    params: Params = ...,
    *,
    return_weights: Literal[False] = ...,
    return_lse: Literal[False] = ...,
    **options: Any,
) -> Tensor: ...


@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, spec: SpecLike = ..., params: Params = ..., **options: Any
) -> tuple[Tensor, ...]: ...


@raises_errors
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spec: SpecLike = "none",
    params: Params = None,
    *,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    key_mask: Optional[Tensor] = None,
    cu_queries: Optional[Tensor] = None,
    cu_keys: Optional[Tensor] = None,
    q_positions: Optional[Tensor] = None,
    k_positions: Optional[Tensor] = None,
    inputs: Inputs = None,
    bias: Optional[Tensor] = None,
    scale: Optional[float] = None,
    dropout: float = 0.0,
    seed: int = 0,
    keys_are_turned: bool = False,
    return_weights: bool = False,
    return_lse: bool = False,
    layout: str = "bhtd",
    is_causal: Optional[bool] = None,
    attn_mask: Optional[Tensor] = None,
    dropout_p: Optional[float] = None,
) -> Union[Tensor, tuple[Tensor, ...]]:
    """softmax(mask(scale <T(i) q_i, T(j) k_j> + biases + content)) v, with any spec.

    ``q`` is [B, H, Tq, D], ``k`` and ``v`` are [B, Hkv, Tk, D], and Hkv divides H; with ``layout="bthd"`` these and the
    output are [B, T, H, D], read in place. Returns the output, shaped as q (with the channels of v).

    >>> q = k = v = torch.randn(1, 8, 128, 64)
    >>> posenc.attention(q, k, v, "rope + alibi", causal=True).shape
    torch.Size([1, 8, 128, 64])

    Masks: ``causal`` (queries aligned with the last keys), windows (-1: no bound), ``key_mask``
    [B, Tk] (False for padding; bool, or integers 0 and 1, which are checked: on a GPU that waits for
    it), packed sequences by cumulative lengths. Positions are [T], [B, T] or [B, T, axes], at most
    2^53. The spec has encodings of sites 2 to 5; those of site 1 are for ``nn.PositionalEmbedding``.
    ``inputs`` holds by name what the spec reads besides (:meth:`Spec.inputs`): ``cope.gate_k``
    [B, Hkv, Tk, D] of ``cope(gate_source=separate)``; gradients reach it as they reach k.
    ``bias`` is added to the scores: by distance, [H, Tq + Tk - 1] for i - j from 1 - Tq to Tk - 1 (queries
    stand at the last keys), or by key, [B, H, Tk]. It is differentiable and goes through the fused kernels;
    it has finite entries (``key_mask`` hides keys).
    ``v`` may have fewer channels than q and k (192 and 128 in DeepSeek V3); the output then has as many as v. Values
    are padded with zeros for the kernels, which costs what the wider values would.
    What no fused kernel serves runs all the same and warns once, with the reason (:func:`explain`).
    ``return_weights`` adds the weights [B, H, Tq, Tk] before dropout, from the float64 reference and
    without gradient: for looking inside, not for speed. ``return_lse`` adds ln SUM exp(scores), or of
    ``stick_breaking`` the logarithm of what is left (on a GPU an upper bound of it where that is below -87).
    PyTorch's names are known: ``is_causal`` (for as many queries as keys), ``dropout_p``, and an ``attn_mask`` that hides
    keys from all queries, bool [B, 1, 1, Tk]. Weights and log-sum-exp are [B, H, Tq, ...] in every layout.
    """
    q, k, v = heads_first(layout, q, k, v)
    causal = causal_of(causal, is_causal, q, k)
    key_mask = key_mask_of(key_mask, attn_mask, k)
    dropout = dropout_of(dropout, dropout_p)
    explicit = q_positions is not None or k_positions is not None
    text, tensors, others = _prepared(spec, params, inputs, bias, q, k, explicit)
    masks = dict(
        causal=causal,
        window_left=window_left,
        window_right=window_right,
        key_mask=key_mask,
        cu_queries=cu_queries,
        cu_keys=cu_keys,
        q_positions=q_positions,
        k_positions=k_positions,
        scale=scale,
    )
    width, v = v.shape[-1], _widened(v, q.shape[-1], text)
    out, lse = torch.ops.posenc.attention(
        q,
        k,
        v,
        text,
        tensors,
        others,
        **masks,
        dropout=dropout,
        seed=seed,
        keys_are_turned=keys_are_turned,
    )
    results = heads_first(layout, out[..., :width])
    if return_weights:
        results += (torch.ops.posenc.attention_weights(q, k, v, text, tensors, others, **masks),)
    if return_lse:
        results += (lse,)
    return results if len(results) > 1 else results[0]


@raises_errors
def attention_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spec: SpecLike = "none",
    params: Params = None,
    *,
    window_left: int = -1,
    key_mask: Optional[Tensor] = None,
    q_positions: Optional[Tensor] = None,
    k_positions: Optional[Tensor] = None,
    inputs: Inputs = None,
    bias: Optional[Tensor] = None,
    scale: Optional[float] = None,
    keys_are_turned: bool = False,
    layout: str = "bhtd",
) -> Tensor:
    """One query or few against a cache of keys and values, causal. Shapes and ``layout`` as of :func:`attention`.

    >>> q, k, v = torch.randn(1, 8, 1, 64), torch.randn(1, 2, 500, 64), torch.randn(1, 2, 500, 64)
    >>> posenc.attention_decode(q, k, v, "rope").shape
    torch.Size([1, 8, 1, 64])

    ``keys_are_turned``: the cached keys are already rotated (by :func:`rope`). An error if the rotation
    depends on the length (:attr:`Spec.follows_length`): cache such keys unrotated, or use
    ``spec.at_length(n)``.
    """
    q, k, v = heads_first(layout, q, k, v)
    explicit = q_positions is not None or k_positions is not None
    text, tensors, others = _prepared(spec, params, inputs, bias, q, k, explicit)
    out = torch.ops.posenc.attention_decode(
        q,
        k,
        _widened(v, q.shape[-1], text),
        text,
        tensors,
        others,
        window_left=window_left,
        key_mask=key_mask,
        q_positions=q_positions,
        k_positions=k_positions,
        scale=scale,
        keys_are_turned=keys_are_turned,
    )
    return heads_first(layout, out[..., : v.shape[-1]])[0]


@raises_errors
def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spec: SpecLike = "rope",
    params: Params = None,
    *,
    form: str = "elu",
    epsilon: float = 1e-3,
    causal: bool = False,
    key_mask: Optional[Tensor] = None,
    cu_queries: Optional[Tensor] = None,
    cu_keys: Optional[Tensor] = None,
    q_positions: Optional[Tensor] = None,
    k_positions: Optional[Tensor] = None,
    inputs: Inputs = None,
) -> Tensor:
    """Linear attention with encodings of site 2: time linear in the length.

    ``form`` is ``elu`` or ``relu`` (feature maps; the numerator alone is rotated, equation 19 of the
    RoPE paper) or ``cosine``. ``rope(angles=input)`` and ``rope(angles=input_position)`` rotate by ``inputs``, as in
    :func:`attention`; they are chunks of PyTorch's operations, with memory linear in the length.
    """
    text = _text(spec)
    if "angles" in text and rotates_by_input(Spec(text)):
        options = dict(
            form=form, epsilon=epsilon, causal=causal, key_mask=key_mask, cu_queries=cu_queries, cu_keys=cu_keys
        )
        _parameters(text, params, *_shape(q))  # it has none: refuses others
        return linear_attention_by_angles(q, k, v, Spec(text), inputs or {}, options)
    if inputs:
        raise Error(f"[linear_attention] {text} reads no inputs but got {', '.join(sorted(inputs))}")
    return torch.ops.posenc.linear_attention(
        q,
        k,
        v,
        text,
        _parameters(text, params, *_shape(q)),
        form=form,
        epsilon=epsilon,
        causal=causal,
        key_mask=key_mask,
        cu_queries=cu_queries,
        cu_keys=cu_keys,
        q_positions=q_positions,
        k_positions=k_positions,
    )


@raises_errors
def rope(
    q: Tensor,
    k: Tensor,
    spec: SpecLike = "rope",
    params: Params = None,
    *,
    positions: Optional[Tensor] = None,
    transposed: bool = False,
) -> tuple[Tensor, Tensor]:
    """Rotates queries and keys in one pass; ``spec`` is a single ``rope`` or ``xpos``."""
    text = _text(spec)
    return torch.ops.posenc.rope(
        q,
        k,
        text,
        _parameters(text, params, *_shape(q)),
        positions=positions,
        transposed=transposed,
    )


@raises_errors
def rerotate(
    k: Tensor,
    from_positions: Tensor,
    to_positions: Tensor,
    spec: SpecLike = "rope",
    to_spec: Optional[SpecLike] = None,
) -> Tensor:
    """Moves rotated keys to other positions, and to another schedule if ``to_spec`` is given."""
    return torch.ops.posenc.rerotate(
        k, _text(spec), from_positions, to_positions, _text(to_spec) if to_spec is not None else ""
    )


@raises_errors
def alibi_slopes(heads: int, spec: SpecLike = "alibi") -> Tensor:
    """The slope of each head, float64 [heads]."""
    return torch.ops.posenc.alibi_slopes(heads, _text(spec))


@raises_errors
def t5_buckets(relative: Tensor, spec: SpecLike = "t5") -> Tensor:
    """The bucket of each relative position, key minus query."""
    return torch.ops.posenc.t5_buckets(relative, _text(spec))


@raises_errors
def rope_tables(
    length: int, head_dim: int, heads: int = 1, spec: SpecLike = "rope"
) -> tuple[Tensor, Tensor]:
    """cos and sin, float64 [groups of heads, length, pairs], magnitude included."""
    return torch.ops.posenc.rope_tables(_text(spec), head_dim, heads, length)


@raises_errors
def cope_positions(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spec: SpecLike = "cope",
    params: Params = None,
    *,
    inputs: Inputs = None,
    **masks: object,
) -> Tensor:
    """CoPE's contextual positions [B, H, Tq, Tk], for looking inside; masks as of attention."""
    text = _text(spec)
    tensors = _parameters(text, params, *_shape(q))
    others = _inputs(text, inputs, *_shape(q))
    return torch.ops.posenc.cope_positions(q, k, v, text, tensors, others, **masks)


@raises_errors
def explain(
    spec: SpecLike,
    *,
    heads: int,
    queries: int,
    keys: int,
    head_dim: int,
    kv_heads: int = 0,
    device: str = "cpu",
    dtype: str = "float32",
) -> str:
    """Which paths a causal attention with this spec and these shapes takes, forward and backward, and
    why."""
    return torch.ops.posenc.explain(
        _text(spec), 1, heads, kv_heads or heads, queries, keys, head_dim, device, dtype
    )
