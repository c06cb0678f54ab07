"""Functions on tensors. q is [B, H, Tq, D], k is [B, Hkv, Tk, D] and v is [B, Hkv, Tk, Dv], and Hkv divides H.

float32, bfloat16 and float16 run the fused kernels with float32 arithmetic; float64 runs the
reference, for gradient checks. Parameters of the encodings come by name in ``params``; constants such
as ALiBi's fixed slopes may be left out.
"""

from __future__ import annotations

from typing import Literal, Optional, Union, overload

import torch
from torch import Tensor

from posenc import _export, _watch
from posenc._arguments import (
    Inputs, Params, SpecLike, inputs_of, parameters_of, prepared, refuse_unpaged, shape_of, text_of
)
from posenc._linear_angles import linear_attention_by_angles, rotates_by_input
from posenc._sdpa import causal_of, dropout_of, heads_first, key_mask_of
from posenc.errors import Error, raises_errors, require_tensors
from posenc.spec import Spec

No = Literal[False]
Maybe = Optional[Tensor]


# The keywords are listed in each, because editors complete by them; python/tests/test_types.py calls with all.
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, spec: SpecLike = ..., params: Params = ..., *, causal: bool = ...,
    window_left: int = ..., window_right: int = ..., key_mask: Maybe = ..., cu_queries: Maybe = ...,
    cu_keys: Maybe = ..., q_positions: Maybe = ..., k_positions: Maybe = ..., inputs: Inputs = ..., bias: Maybe = ...,
    scale: Optional[float] = ..., dropout: float = ..., seed: int = ..., keys_are_turned: bool = ..., layout: str = ...,
    is_causal: Optional[bool] = ..., attn_mask: Maybe = ..., dropout_p: Optional[float] = ..., enable_gqa: bool = ...,
    return_weights: No = ..., return_lse: No = ...,
) -> Tensor: ...
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, spec: SpecLike = ..., params: Params = ..., *, causal: bool = ...,
    window_left: int = ..., window_right: int = ..., key_mask: Maybe = ..., cu_queries: Maybe = ...,
    cu_keys: Maybe = ..., q_positions: Maybe = ..., k_positions: Maybe = ..., inputs: Inputs = ..., bias: Maybe = ...,
    scale: Optional[float] = ..., dropout: float = ..., seed: int = ..., keys_are_turned: bool = ..., layout: str = ...,
    is_causal: Optional[bool] = ..., attn_mask: Maybe = ..., dropout_p: Optional[float] = ..., enable_gqa: bool = ...,
    return_weights: Literal[True], return_lse: Literal[True],
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, spec: SpecLike = ..., params: Params = ..., *, causal: bool = ...,
    window_left: int = ..., window_right: int = ..., key_mask: Maybe = ..., cu_queries: Maybe = ...,
    cu_keys: Maybe = ..., q_positions: Maybe = ..., k_positions: Maybe = ..., inputs: Inputs = ..., bias: Maybe = ...,
    scale: Optional[float] = ..., dropout: float = ..., seed: int = ..., keys_are_turned: bool = ..., layout: str = ...,
    is_causal: Optional[bool] = ..., attn_mask: Maybe = ..., dropout_p: Optional[float] = ..., enable_gqa: bool = ...,
    return_weights: Literal[True], return_lse: No = ...,
) -> tuple[Tensor, Tensor]: ...
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, spec: SpecLike = ..., params: Params = ..., *, causal: bool = ...,
    window_left: int = ..., window_right: int = ..., key_mask: Maybe = ..., cu_queries: Maybe = ...,
    cu_keys: Maybe = ..., q_positions: Maybe = ..., k_positions: Maybe = ..., inputs: Inputs = ..., bias: Maybe = ...,
    scale: Optional[float] = ..., dropout: float = ..., seed: int = ..., keys_are_turned: bool = ..., layout: str = ...,
    is_causal: Optional[bool] = ..., attn_mask: Maybe = ..., dropout_p: Optional[float] = ..., enable_gqa: bool = ...,
    return_weights: No = ..., return_lse: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, spec: SpecLike = ..., params: Params = ..., *, causal: bool = ...,
    window_left: int = ..., window_right: int = ..., key_mask: Maybe = ..., cu_queries: Maybe = ...,
    cu_keys: Maybe = ..., q_positions: Maybe = ..., k_positions: Maybe = ..., inputs: Inputs = ..., bias: Maybe = ...,
    scale: Optional[float] = ..., dropout: float = ..., seed: int = ..., keys_are_turned: bool = ..., layout: str = ...,
    is_causal: Optional[bool] = ..., attn_mask: Maybe = ..., dropout_p: Optional[float] = ..., enable_gqa: bool = ...,
    return_weights: bool, return_lse: bool,
) -> Union[Tensor, tuple[Tensor, ...]]: ...


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
    enable_gqa: bool = True,
) -> Union[Tensor, tuple[Tensor, ...]]:
    """Softmax attention with any spec: softmax(mask(scale <R(i) q_i, R(j) k_j> + biases)) v.

    Args:
        q: queries [B, H, Tq, D].
        k: keys [B, Hkv, Tk, D], where Hkv divides H (grouped heads).
        v: values [B, Hkv, Tk, Dv]. They may have fewer channels than q and k (128 and 192 in DeepSeek V3), or more.
        spec: encodings of sites 2 to 5, as text (``"rope + alibi"``), :class:`posenc.Spec` or a list. Those of site 1
            are for :class:`posenc.nn.PositionalEmbedding`.
        params: the spec's parameters by name, such as ``{"cope.pos_emb": tensor}`` (:meth:`posenc.Spec.parameters`).
        causal: no query sees a later key. With fewer queries than keys the last query is aligned with the last key.
        window_left: keys that a query sees before its own position; -1 is no bound.
        window_right: keys that it sees after its own position; -1 is no bound.
        key_mask: [B, Tk], bool or integers 0 and 1, true where a key is seen. Integers are checked, which waits for
            the GPU.
        cu_queries: cumulative lengths of packed sequences, from 0 to Tq.
        cu_keys: the same for keys, from 0 to Tk.
        q_positions: positions of the queries, [Tq], [B, Tq] or [B, Tq, axes], at most 2^53.
        k_positions: positions of the keys.
        inputs: what the spec reads besides q, k and v, by name (:meth:`posenc.Spec.inputs`); differentiable.
        bias: finite numbers added to the scores: by distance [H, Tq + Tk - 1], for i - j from 1 - Tq to Tk - 1 with the
            queries at the last keys, or by key [B, H, Tk]; differentiable.
        scale: factor of the scores, 1 / sqrt(D) by default.
        dropout: share of the weights that is dropped, in [0, 1).
        seed: of the dropout.
        keys_are_turned: k was rotated before, by :func:`rope`.
        return_weights: also return the weights, from the float64 reference and without gradient.
        return_lse: also return ln SUM exp(scores); of ``stick_breaking`` the logarithm of what is left (on a GPU an
            upper bound of it where that is below -87).
        layout: ``"bhtd"``, or ``"bthd"`` for q, k, v and the output as [B, T, H, D], read in place.
        is_causal: PyTorch's name of ``causal``, for as many queries as keys.
        attn_mask: PyTorch's mask, bool [B, 1, 1, Tk]: it hides keys from all queries.
        dropout_p: PyTorch's name of ``dropout``.
        enable_gqa: accepted for PyTorch's sake; heads may always be grouped.

    Returns:
        The output, shaped as q with the channels of v. With ``return_weights`` a tuple that goes on with the weights
        before dropout [B, H, Tq, Tk], and with ``return_lse`` one that ends with the log-sum-exp [B, H, Tq].

    Calls that no fused kernel serves run through a slower path and warn once, with the reason (:func:`explain`).

    >>> q = torch.randn(1, 8, 128, 64)
    >>> k = v = torch.randn(1, 2, 128, 64)
    >>> posenc.attention(q, k, v, "rope + alibi", causal=True).shape
    torch.Size([1, 8, 128, 64])
    >>> out, weights = posenc.attention(q, k, v, "rope", causal=True, return_weights=True)
    >>> weights.shape
    torch.Size([1, 8, 128, 128])
    """
    require_tensors("attention", q=q, k=k, v=v)
    q, k, v = heads_first(layout, q, k, v)
    causal = causal_of(causal, is_causal, q, k)
    key_mask = key_mask_of(key_mask, attn_mask, k)
    dropout = dropout_of(dropout, dropout_p)
    explicit = q_positions is not None or k_positions is not None
    text, tensors, others = prepared(spec, params, inputs, bias, q, k, v, explicit)
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
    if _export.exports_onnx():
        _export.refuse(dropout=dropout, keys_are_turned=keys_are_turned, return_weights=return_weights,
                       return_lse=return_lse, inputs=others)
        return heads_first(layout, _export.attention(q, k, v, text, tensors, masks))[0]
    if _watch.recorder is not None:
        _watch.recorder.attention(
            Spec(text).text, q.shape[1], keys_are_turned,
            lambda: _watch.weights(q, k, v, Spec(text).text, tensors, others, masks),
        )
    out, lse = torch.ops.posenc.attention(
        q, k, v, text, tensors, others, **masks, dropout=dropout, seed=seed, keys_are_turned=keys_are_turned
    )
    results = heads_first(layout, out)
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
    k_scales: Optional[Tensor] = None,
    v_scales: Optional[Tensor] = None,
    block_table: Optional[Tensor] = None,
    cache_lengths: Optional[Tensor] = None,
    layout: str = "bhtd",
) -> Tensor:
    """Causal attention of one query or few to a cache of keys and values.

    Args:
        q: queries of the newest tokens, [B, H, Tq, D]; the last one is aligned with the last key.
        k: keys of all tokens so far [B, Hkv, Tk, D]. On a CPU, a cache may be float32, bfloat16, float16 or int8,
            whatever the type of q, and then has no gradients.
        v: their values [B, Hkv, Tk, Dv].
        k_scales: scales of int8 keys, float32 [B, Hkv, Tk, 1], from :func:`quantize_rows`. int8 is read for up to
            eight queries and specs whose decoding is fused (:func:`explain`).
        v_scales: scales of int8 values.
        keys_are_turned: the keys were rotated by :func:`rope` before they were cached. It is an error where the
            rotation follows the length (:attr:`posenc.Spec.follows_length`): cache such keys unrotated, or use
            ``spec.at_length(n)``.
        block_table: pages of a paged cache, int32 [B, blocks]: token t of sequence b is in row ``t % page`` of page
            ``block_table[b, t // page]``. k and v are then pools [blocks, page, Hkv, channels] as in vLLM, for any ``layout``,
            and so are the scales [blocks, page, Hkv, 1] and the ``inputs`` [blocks, page, heads, channels]. A pool in
            another order is passed as a view (``pool.transpose(1, 2)``). A CPU reads the pages in place, and so
            does a GPU where its decode kernels serve the call (docs/pytorch.md); elsewhere it gathers them first: a copy of
            the tokens, and one kernel for the sequences of each length. Not with ``bias`` or gradients.
        cache_lengths: tokens of each sequence of a paged cache, int32 or int64 [B]. The last query is aligned with the
            last of them, and Tk of ``key_mask`` and ``k_positions`` is the longest.

    All other arguments are those of :func:`attention`.

    Returns:
        The output, shaped as q with the channels of v.

    >>> q, k, v = torch.randn(1, 8, 1, 64), torch.randn(1, 2, 500, 64), torch.randn(1, 2, 500, 64)
    >>> posenc.attention_decode(q, k, v, "rope").shape
    torch.Size([1, 8, 1, 64])

    A paged cache of two sequences, with 40 and 25 tokens:

    >>> q, k, v = torch.randn(2, 8, 1, 64), torch.randn(10, 16, 2, 64), torch.randn(10, 16, 2, 64)
    >>> table = torch.tensor([[7, 2, 9], [4, 0, 0]], dtype=torch.int32)
    >>> lengths = torch.tensor([40, 25])
    >>> posenc.attention_decode(q, k, v, "rope", block_table=table, cache_lengths=lengths).shape
    torch.Size([2, 8, 1, 64])
    """
    require_tensors("attention_decode", q=q, k=k, v=v)
    paged = block_table is not None
    if paged:
        q = heads_first(layout, q)[0]
        refuse_unpaged(k, v, bias, text_of(spec))
    else:
        q, k, v = heads_first(layout, q, k, v)
        k_scales, v_scales = (None if s is None else heads_first(layout, s)[0] for s in (k_scales, v_scales))
    explicit = q_positions is not None or k_positions is not None
    text, tensors, others = prepared(spec, params, inputs, bias, q, k.transpose(1, 2) if paged else k, v, explicit)
    _export.refuse_operator("attention_decode")
    out = torch.ops.posenc.attention_decode(
        q,
        k,
        v,
        text,
        tensors,
        others,
        window_left=window_left,
        key_mask=key_mask,
        q_positions=q_positions,
        k_positions=k_positions,
        scale=scale,
        keys_are_turned=keys_are_turned,
        k_scales=k_scales,
        v_scales=v_scales,
        block_table=block_table,
        cache_lengths=cache_lengths,
    )
    return heads_first(layout, out)[0]


@raises_errors
def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """int8 rows and their scales, for a cache of keys and values: a quarter of the memory of float32.

    Every row (a token of a head) has the scale max(abs(row)) / 127; an entry is off by at most half of it.

    Args:
        x: keys or values [B, H, T, D] on a CPU.

    Returns:
        int8 rows shaped as x, and float32 scales [B, H, T, 1]: ``rows * scales`` is close to x.

    >>> q, k, v = torch.randn(1, 8, 1, 64), torch.randn(1, 2, 500, 64), torch.randn(1, 2, 500, 64)
    >>> (k8, k_scales), (v8, v_scales) = posenc.quantize_rows(k), posenc.quantize_rows(v)
    >>> posenc.attention_decode(q, k8, v8, "rope", k_scales=k_scales, v_scales=v_scales).shape
    torch.Size([1, 8, 1, 64])
    """
    require_tensors("quantize_rows", x=x)
    if x.is_cuda:
        raise Error("[quantize_rows] x must be on a CPU but is on a GPU, which reads no int8", kind="unsupported")
    return torch.ops.posenc.quantize_rows(x.detach())


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
    layout: str = "bhtd",
) -> Tensor:
    """Linear attention with rotations: time and memory linear in the length.

    Args:
        q: queries [B, H, Tq, D].
        k: keys [B, Hkv, Tk, D].
        v: values, shaped as k.
        spec: encodings of site 2, such as ``rope`` and ``xpos``. ``rope(angles=input)`` and
            ``rope(angles=input_position)`` run as chunks of PyTorch's operations.
        form: ``"elu"`` or ``"relu"`` (feature maps; only the numerator is rotated, equation 19 of the RoPE paper), or
            ``"cosine"``.
        epsilon: added to the features of ``"relu"``.
        layout: ``"bhtd"``, or ``"bthd"`` for q, k, v and the output as [B, T, H, D]. ``inputs`` stay [B, H, T, ...].

    All other arguments are those of :func:`attention`.

    Returns:
        The output, shaped as q.

    >>> q = k = v = torch.randn(1, 4, 300, 32)
    >>> posenc.linear_attention(q, k, v, "rope", causal=True).shape
    torch.Size([1, 4, 300, 32])
    """
    require_tensors("linear_attention", q=q, k=k, v=v)
    q, k, v = heads_first(layout, q, k, v)
    text = text_of(spec)
    if "angles" in text and rotates_by_input(Spec(text)):
        for name, positions in (("q_positions", q_positions), ("k_positions", k_positions)):
            if positions is not None:
                raise Error(f"[linear_attention] {name} is not read with angles from an input; leave it out", kind="conflict")
        options = dict(
            form=form, epsilon=epsilon, causal=causal, key_mask=key_mask, cu_queries=cu_queries, cu_keys=cu_keys
        )
        parameters_of(text, params, *shape_of(q))  # it has none: refuses others
        given = inputs_of(text, inputs, *shape_of(q))
        return heads_first(layout, linear_attention_by_angles(q, k, v, Spec(text), given, options))[0]
    if inputs:
        raise Error(f"[linear_attention] {text} reads no inputs but got {', '.join(sorted(inputs))}")
    _export.refuse_operator("linear_attention")
    out = torch.ops.posenc.linear_attention(
        q,
        k,
        v,
        text,
        parameters_of(text, params, *shape_of(q)),
        form=form,
        epsilon=epsilon,
        causal=causal,
        key_mask=key_mask,
        cu_queries=cu_queries,
        cu_keys=cu_keys,
        q_positions=q_positions,
        k_positions=k_positions,
    )
    return heads_first(layout, out)[0]


@raises_errors
def rope(
    q: Tensor,
    k: Tensor,
    spec: SpecLike = "rope",
    params: Params = None,
    *,
    positions: Optional[Tensor] = None,
    transposed: bool = False,
    layout: str = "bhtd",
) -> tuple[Tensor, Tensor]:
    """Rotates queries and keys in one pass.

    Args:
        q: queries [B, H, T, D].
        k: keys [B, Hkv, T, D].
        spec: one ``rope`` or ``xpos`` with angles from positions.
        params: of ``rope(schedule=learnable)``, by name.
        positions: [T], [B, T] or [B, T, axes]; by default 0, 1, 2, ...
        transposed: apply the transposed rotation, which undoes it where it has no magnitude.
        layout: ``"bhtd"``, or ``"bthd"`` for q, k and the results as [B, T, H, D].

    Returns:
        The rotated queries and keys.

    >>> q, k = torch.randn(2, 1, 4, 16, 32).unbind(0)
    >>> turned_q, turned_k = posenc.rope(q, k, "rope(theta=500000)")
    >>> back_q, back_k = posenc.rope(turned_q, turned_k, "rope(theta=500000)", transposed=True)
    >>> torch.allclose(back_q, q, atol=1e-5)
    True
    """
    require_tensors("rope", q=q, k=k)
    q, k = heads_first(layout, q, k)
    text = text_of(spec)
    tensors = parameters_of(text, params, *shape_of(q))
    if _export.exports_onnx():
        _export.refuse(params=tensors, positions=positions)
        turned_q, turned_k = _export.rope(q, k, text, transposed)
    else:
        turned_q, turned_k = torch.ops.posenc.rope(q, k, text, tensors, positions=positions, transposed=transposed)
    turned_q, turned_k = heads_first(layout, turned_q, turned_k)
    return turned_q, turned_k


@raises_errors
def rerotate(
    k: Tensor,
    from_positions: Tensor,
    to_positions: Tensor,
    spec: SpecLike = "rope",
    to_spec: Optional[SpecLike] = None,
) -> Tensor:
    """Moves cached, rotated keys to other positions, and to another schedule.

    Args:
        k: rotated keys [B, Hkv, T, D].
        from_positions: where they are, [T] or [B, T].
        to_positions: where they go, [T] or [B, T].
        spec: the rotation that they have.
        to_spec: the rotation that they get; by default the same.

    Returns:
        The keys as :func:`rope` would have rotated them at ``to_positions``.

    >>> k = torch.randn(1, 2, 10, 32)
    >>> cached = posenc.rope(k, k, "rope")[1]
    >>> moved = posenc.rerotate(cached, torch.arange(10), torch.arange(10) + 5)
    >>> torch.allclose(moved, posenc.rope(k, k, "rope", positions=torch.arange(5, 15))[1], atol=1e-5)
    True
    """
    require_tensors("rerotate", k=k, from_positions=from_positions, to_positions=to_positions)
    _export.refuse_operator("rerotate")
    return torch.ops.posenc.rerotate(
        k, text_of(spec), from_positions, to_positions, text_of(to_spec) if to_spec is not None else ""
    )
