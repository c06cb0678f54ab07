"""Attention with positional encodings, and as an attention function of transformers:
``attn_implementation="<repository>:attention_forward"``."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from ._ops import add_op_namespace_prefix, ops
from ._register import register

_registered = register(add_op_namespace_prefix("")[: -len("::")])


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spec: str = "none",
    parameters: Sequence[Tensor] = (),
    inputs: Sequence[Tensor] = (),
    **options: Any,
) -> Tensor:
    """Softmax attention of q [B, H, Tq, D] to k [B, Hkv, Tk, D] and v [B, Hkv, Tk, Dv] with any spec of posenc, such as
    ``rope + alibi``.

    Args:
        parameters: what the spec trains, in its order: ``cope.pos_emb``, ``sink.logit``.
        inputs: what it reads besides q, k and v, in its order: ``fox.log_f``.
        options: ``causal``, ``window_left``, ``window_right``, ``key_mask``, ``cu_queries``, ``cu_keys``,
            ``q_positions``, ``k_positions``, ``scale``, ``dropout``, ``seed`` and ``keys_are_turned``.
    """
    return ops.attention(q, k, v, spec, list(parameters), list(inputs), **options)[0]


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Optional[Tensor],
    scaling: Optional[float] = None,
    dropout: float = 0.0,
    sliding_window: Optional[int] = None,
    softcap: Optional[float] = None,
    s_aux: Optional[Tensor] = None,
    is_causal: Optional[bool] = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """One layer of a transformers model, whose queries and keys are rotated already.

    Returns the output [B, Tq, H, D]. The mask is [B, Tk], as for FlashAttention, or None.
    """
    if attention_mask is not None and attention_mask.dim() != 2:
        raise ValueError(
            f"[attention_forward] attention_mask must be [batch, keys] but has {attention_mask.dim()} dimensions; use the "
            "mask function of flash_attention_2"
        )
    spec = "none" if softcap is None else f"softcap(cap={float(softcap)!r})"
    if s_aux is not None:
        spec = "sink" if softcap is None else f"{spec} + sink"
    out = attention(
        query, key, value, spec, [] if s_aux is None else [s_aux],
        causal=getattr(module, "is_causal", True) if is_causal is None else is_causal,
        window_left=-1 if sliding_window is None else sliding_window - 1,
        key_mask=None if attention_mask is None else attention_mask.bool(),
        scale=scaling,
        dropout=dropout,
        seed=int(torch.randint(2**62, (1,))) if dropout else 0,
    )
    return out.transpose(1, 2).contiguous(), None


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """int8 rows and their float32 scales, for a cache of keys and values."""
    return ops.quantize_rows(x)


def attention_of_cache(
    q: Tensor, k: Tensor, v: Tensor, spec: str = "none", *, k_scales: Optional[Tensor] = None,
    v_scales: Optional[Tensor] = None, block_table: Optional[Tensor] = None, cache_lengths: Optional[Tensor] = None,
    scale: Optional[float] = None,
) -> Tensor:
    """Causal attention of the newest queries to a cache in int8, bfloat16, float16 or float32.

    With ``block_table`` (int32 [B, blocks]) and ``cache_lengths`` ([B]), k, v and the scales are pools
    [blocks, page, heads, channels].
    """
    if (block_table is None) != (cache_lengths is None):
        alone = "cache_lengths" if block_table is None else "block_table"
        raise ValueError(f"[attention_of_cache] block_table and cache_lengths belong together but got {alone} alone")
    none = q.new_empty(0, dtype=torch.float32)
    return ops._attention_cache(
        q, k, v, k_scales, v_scales, block_table, cache_lengths, none, [], spec, True, -1, -1, None, None, None, None, None,
        scale, 0.0, 0, False
    )


__all__ = ["attention", "attention_forward", "attention_of_cache", "quantize_rows"]
