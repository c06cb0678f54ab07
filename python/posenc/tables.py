"""Tables of encodings, and looks inside: what the kernels compute with, as tensors."""

from __future__ import annotations

from typing import Union

import torch
from torch import Tensor

from posenc._arguments import Inputs, Params, SpecLike, inputs_of, parameters_of, shape_of, text_of
from posenc._sdpa import heads_first
from posenc.errors import Error, raises_errors, require_tensors
from posenc.spec import Spec


@raises_errors
def alibi_slopes(heads: int, spec: SpecLike = "alibi") -> Tensor:
    """The slope of each head of ALiBi.

    Args:
        heads: number of heads.
        spec: one ``alibi``.

    Returns:
        float64 [heads].

    >>> posenc.alibi_slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    return torch.ops.posenc.alibi_slopes(heads, text_of(spec))


@raises_errors
def t5_buckets(relative: Tensor, spec: SpecLike = "t5") -> Tensor:
    """The bucket of T5 of each relative position.

    Args:
        relative: integers of any shape: position of the key minus position of the query.
        spec: one ``t5``.

    Returns:
        int64, shaped as ``relative``.

    >>> posenc.t5_buckets(torch.tensor([0, -1, -20, -200])).tolist()
    [0, 1, 17, 31]
    """
    require_tensors("t5_buckets", relative=relative)
    return torch.ops.posenc.t5_buckets(relative, text_of(spec))


@raises_errors
def rope_tables(
    length: int, head_dim: int, heads: int = 1, spec: SpecLike = "rope"
) -> tuple[Tensor, Tensor]:
    """cos and sin of a rotation at positions 0 to ``length - 1``, times its magnitude.

    Args:
        length: number of positions.
        head_dim: channels of a head.
        heads: number of heads; a list of thetas gives groups of heads their own table.
        spec: one ``rope``.

    Returns:
        Two float64 tensors [groups of heads, length, rotated pairs].

    >>> cos, sin = posenc.rope_tables(128, 64, spec="rope(theta=500000)")
    >>> cos.shape
    torch.Size([1, 128, 32])
    """
    return torch.ops.posenc.rope_tables(text_of(spec), head_dim, heads, length)


@raises_errors
def cope_positions(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spec: SpecLike = "cope",
    params: Params = None,
    *,
    inputs: Inputs = None,
    layout: str = "bhtd",
    **masks: object,
) -> Tensor:
    """CoPE's contextual position of every pair, from the float64 reference.

    Args:
        q: queries [B, H, Tq, D].
        k: keys [B, Hkv, Tk, D].
        v: values, shaped as k.
        spec: a spec with one ``cope``.
        params: its parameters by name.
        inputs: what it reads besides q, k and v, by name.
        layout: ``"bhtd"``, or ``"bthd"`` for q, k and v as [B, T, H, D]; the result is the same.
        masks: ``causal``, ``window_left``, ``key_mask`` and the others of :func:`posenc.attention`.

    Returns:
        [B, H, Tq, Tk]; 0 where a pair is masked.

    >>> q = torch.randn(1, 2, 6, 8)
    >>> params = posenc.Spec("cope(npos_max=4)").initial_parameters(8, 2)
    >>> posenc.cope_positions(q, q, q, "cope(npos_max=4)", params, causal=True).shape
    torch.Size([1, 2, 6, 6])
    """
    require_tensors("cope_positions", q=q, k=k, v=v)
    q, k, v = heads_first(layout, q, k, v)
    text = text_of(spec)
    if "cope" not in Spec(text).encodings:
        raise Error(f"[cope_positions] spec must have a cope but got {text}", kind="unsupported")
    tensors = parameters_of(text, params, *shape_of(q))
    others = inputs_of(text, inputs, *shape_of(q))
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
    device: Union[str, torch.device] = "cpu",
    dtype: Union[str, torch.dtype] = "float32",
    paged: bool = False,
    value_dim: int = 0,
) -> str:
    """Which paths causal attention with a spec and these shapes takes, forward and backward, and why.

    Args:
        spec: the encodings.
        heads: of the queries.
        queries: tokens of q.
        keys: tokens of k and v.
        head_dim: channels of a head.
        kv_heads: heads of the keys; 0 means as many as ``heads``.
        device: ``"cpu"`` or ``"cuda"``.
        dtype: ``float32``, ``bfloat16``, ``float16`` or ``float64``, as text or as PyTorch's.
        paged: for :func:`attention_decode` with a ``block_table``: pages are read in place on a CPU and gathered on a
            GPU.
        value_dim: channels of a head in v; 0 means as many as ``head_dim``.

    >>> print(posenc.explain("rope + alibi", heads=8, queries=128, keys=128, head_dim=64).split(";")[0])
    fused, rope while reading rows, toeplitz table (alibi)
    """
    for name, size in (("queries", queries), ("keys", keys), ("value_dim", value_dim)):
        if size < 0:
            raise Error(f"[explain] {name} must be >= 0 but got {size}", kind="out_of_range")
    where = device.type if isinstance(device, torch.device) else device
    what = str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype
    return torch.ops.posenc.explain(
        text_of(spec), 1, heads, kv_heads or heads, queries, keys, head_dim, where, what, paged, value_dim
    )
