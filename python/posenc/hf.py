"""attn_implementation="posenc": posenc's attention in any model that uses transformers' registry.

>>> import posenc
>>> posenc.register_attention()
>>> model = AutoModelForCausalLM.from_pretrained("...", attn_implementation="posenc")

The model projects and rotates; posenc computes softmax(mask(q k)) v with grouped heads, windows, chunks,
packed sequences, soft caps and sinks. Masks and biases that its kernels cannot express run through
PyTorch, with one warning.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, Callable, NamedTuple, Optional

import torch
from torch import Tensor, nn

from posenc import _hf_masks, _watch
from posenc._hf_attention import Call, run_kernel
from posenc._hf_masks import Pattern, UnsupportedMask, Visible
from posenc.errors import Error

NAME = "posenc"
_SEEN = "_posenc_seen"  # attribute of the masks made here: what they hide, read without a copy from the GPU
_UNSUPPORTED = ("head_mask", "layer_head_mask", "sinks")
_warned: set[str] = set()


class Seen(NamedTuple):
    """What a mask leaves visible."""

    keys: int
    causal: bool
    padding: Optional[Tensor] = None  # [B, keys], False for padding
    segments: Optional[Tensor] = None  # [B, keys], the packed sequence of each token
    window: Optional[int] = None

    @property
    def unrestricted(self) -> bool:
        return self.padding is None and self.segments is None and self.window is None


def register_attention() -> None:
    """Registers "posenc" with transformers, for ``attn_implementation="posenc"``.

    It registers an attention function and a mask function. Calling it again changes nothing.

    >>> posenc.register_attention()                                                                # doctest: +SKIP
    >>> model = AutoModelForCausalLM.from_pretrained("org/name", attn_implementation="posenc")     # doctest: +SKIP
    """
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface
    except ImportError as error:
        raise ImportError(f"posenc.register_attention needs transformers 5 or newer ({error}); install it") from None

    AttentionInterface.register(NAME, attention_forward)
    AttentionMaskInterface.register(NAME, make_mask)


# Masks.


def _tag(mask: Tensor, seen: Seen) -> Tensor:
    setattr(mask, _SEEN, seen)
    return mask


def _causal_mask(seen: Seen, batch: int, device: Any) -> Tensor:
    """Whole numbers [B, 1, 2, keys]: int32, 0 for padding, or int64, the packed sequence of each token;
    then the window, 0 for none."""
    rows = seen.segments if seen.segments is not None else seen.padding
    if rows is None:
        rows = torch.ones(batch, seen.keys, dtype=torch.int32, device=device)
    rows = rows.to(torch.int64 if seen.segments is not None else torch.int32)
    windows = torch.full_like(rows, seen.window or 0)
    return _tag(torch.stack([rows, windows], 1)[:, None], seen)


def make_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Optional[Callable] = None,
    attention_mask: Optional[Tensor] = None,
    device: Any = "cpu",
    **options: Any,
) -> Optional[Tensor]:
    """What transformers calls to build a mask. None hides nothing but the future."""
    places = ((int(q_offset), q_length), (int(kv_offset), kv_length))
    try:
        pattern = _hf_masks.read_pattern(mask_function)
        seen = _seen(pattern, *places, attention_mask)
    except UnsupportedMask:
        from transformers.masking_utils import sdpa_mask

        options.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
        return sdpa_mask(
            batch_size=batch_size,
            q_length=q_length,
            kv_length=kv_length,
            q_offset=q_offset,
            kv_offset=kv_offset,
            mask_function=mask_function,
            attention_mask=attention_mask,
            device=device,
            **options,
        )
    if not seen.causal:
        row = seen.padding
        if row is None:
            row = torch.ones(batch_size, seen.keys, dtype=torch.bool, device=device)
        return _tag(row[:, None, None, :], seen)
    if seen.unrestricted and seen.keys == kv_length:
        return None
    return _causal_mask(seen, batch_size, device)


def _seen(
    pattern: Pattern, queries: tuple[int, int], keys: tuple[int, int], mask: Optional[Tensor]
) -> Seen:
    """`queries` and `keys` are the first place and the number."""
    if not pattern.causal:
        if any(limit is not None for limit in pattern[1:]):
            raise UnsupportedMask("[posenc] a window or packing without a causal mask")
        return Seen(keys[1], False, _hf_masks.visible_padding(mask, *keys))
    keys = (keys[0], min(keys[1], sum(queries) - keys[0]))  # no further than the last query
    if pattern.segments is not None and (queries != keys or mask is not None):
        raise UnsupportedMask("[posenc] packed sequences with a cache or with padding")
    row = _hf_masks.visible_padding(mask, *keys)
    segments = pattern.segments
    if pattern.chunk is not None:
        row, segments = _hf_masks.chunk_segments(pattern, row, queries, keys)
    window = pattern.window if pattern.window is not None and pattern.window < keys[1] else None
    return Seen(keys[1], True, row, segments, window)


def _read_mask(
    mask: Optional[Tensor], module: nn.Module, keys: int, is_causal: Optional[bool]
) -> Optional[Seen]:
    """None for a mask that has to be applied score by score."""
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    if mask is None:
        return Seen(keys, bool(is_causal))
    seen = getattr(mask, _SEEN, None)
    if isinstance(seen, Seen):
        return seen
    if mask.dim() == 2:
        return Seen(mask.shape[1], bool(is_causal), mask != 0)
    if mask.dim() != 4:
        raise Error(
            f"[posenc] attention_mask has the shape {list(mask.shape)}; it must be [batch, keys] or "
            "[batch, 1, queries, keys]"
        )
    if mask.dtype in (torch.int32, torch.int64) and mask.shape[1:3] == (1, 2):  # ours, copied
        rows, window = mask[:, 0, 0], int(mask[0, 0, 1, 0])
        if mask.dtype == torch.int64:
            return Seen(rows.shape[1], True, None, rows, window or None)
        return Seen(rows.shape[1], True, rows != 0, None, window or None)
    if mask.dtype == torch.bool and mask.shape[1:3] == (1, 1):  # the same keys for all queries
        return Seen(mask.shape[3], False, mask[:, 0, 0])
    return None


# Attention.


@functools.lru_cache(maxsize=64)
def _spec(softcap: Optional[float], sink: bool) -> str:
    parts = [f"softcap(cap={float(softcap)!r})"] if softcap is not None else []
    return " + ".join(parts + ["sink"] * sink) or "none"


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=3)


def attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Optional[Tensor] = None,
    dropout: float = 0.0,
    scaling: Optional[float] = None,
    is_causal: Optional[bool] = None,
    position_bias: Optional[Tensor] = None,
    softcap: Optional[float] = None,
    s_aux: Optional[Tensor] = None,
    **options: Any,
) -> tuple[Tensor, Optional[Tensor]]:
    """What transformers calls for a layer: q, k and v [B, H, T, D] to [B, T, H, D], and the weights where
    they are wanted. The mask says the window of the layer, as it does for eager attention."""
    refused = [name for name in _UNSUPPORTED if options.get(name) is not None]
    if refused:
        raise Error(
            f"[posenc] {type(module).__name__} passes {', '.join(refused)}, which "
            f'attn_implementation="posenc" does not support; use attn_implementation="eager"'
        )
    scale = query.shape[3] ** -0.5 if scaling is None else float(scaling)
    seen = _read_mask(attention_mask, module, key.shape[2], is_causal)
    want_weights = bool(options.get("output_attentions"))
    if seen is None or position_bias is not None:
        what = "a position bias" if position_bias is not None else "a mask that is not causal"
        _warn_once(
            f"[posenc] {type(module).__name__} has {what}, which posenc's kernels cannot express; "
            "this layer runs through PyTorch's attention"
        )
        bias = _score_bias(seen, attention_mask, position_bias, query, key)
        recorder = _watch.recorder
        wanted = want_weights or recorder is not None
        out, weights = _composed(query, key, value, bias, scale, softcap, s_aux, dropout, wanted)
        if recorder is not None and weights is not None:
            made = weights
            recorder.attention(_spec(softcap, s_aux is not None), query.shape[1], False, lambda: made)
        return out, weights if want_weights else None
    call = Call(
        spec=_spec(softcap, s_aux is not None),
        scale=scale,
        causal=seen.causal,
        params={} if s_aux is None else {"sink.logit": s_aux},
        window=seen.window,
        dropout=dropout,
        want_weights=want_weights,
    )
    k, v = key[:, :, : seen.keys], value[:, :, : seen.keys]
    visible = Visible(seen.keys, seen.padding, seen.segments)
    out, weights = run_kernel(query, k, v, call, visible)
    return out.transpose(1, 2).contiguous(), weights


def _score_bias(
    seen: Optional[Seen],
    mask: Optional[Tensor],
    position_bias: Optional[Tensor],
    query: Tensor,
    key: Tensor,
) -> Tensor:
    """Mask and bias as one tensor of the scores' type that is added to them."""
    queries, keys = query.shape[2], key.shape[2]
    if seen is not None:
        mask = _square(seen, queries, keys, key.device)
    assert mask is not None  # without one there is something seen
    lowest = torch.finfo(query.dtype).min
    if mask.dtype == torch.bool:
        hidden = torch.zeros(mask.shape, dtype=query.dtype, device=mask.device)
        mask = hidden.masked_fill(~mask, lowest)
    mask = mask[..., :keys].to(query.dtype)
    return mask if position_bias is None else (position_bias[..., :keys] + mask).clamp(min=lowest)


def _square(seen: Seen, queries: int, keys: int, device: torch.device) -> Tensor:
    """The visible pairs, bool [B or 1, 1, queries, keys]."""
    places = torch.arange(keys, device=device)
    own = torch.arange(seen.keys - queries, seen.keys, device=device)[:, None]
    square = (places < seen.keys).expand(queries, keys)
    if seen.causal:
        square = square & (places <= own)
    if seen.window is not None:
        square = square & (places > own - seen.window)
    square = square[None, None]
    if seen.padding is not None:
        square = square & nn.functional.pad(seen.padding, (0, keys - seen.keys))[:, None, None]
    if seen.segments is not None:
        square = square & (seen.segments[:, None, :, None] == seen.segments[:, None, None])
    return square


def _composed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor,
    scale: float,
    softcap: Optional[float],
    sink: Optional[Tensor],
    dropout: float,
    want_weights: bool,
) -> tuple[Tensor, Optional[Tensor]]:
    """Attention through PyTorch, with a bias of every score."""
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    fused = getattr(nn.functional, "scaled_dot_product_attention", None)
    if fused is not None and softcap is None and sink is None and not want_weights:
        out = fused(q, k, v, attn_mask=bias, dropout_p=dropout, scale=scale)
        return out.transpose(1, 2).contiguous(), None
    scores = (q @ k.transpose(2, 3)) * scale
    if softcap is not None:
        scores = (scores / softcap).tanh() * softcap
    scores = (scores + bias).float()
    if sink is not None:
        logits = sink.float().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, logits], 3)
    weights = scores.softmax(3)[..., : k.shape[2]].to(q.dtype)
    out = nn.functional.dropout(weights, dropout) @ v
    return out.transpose(1, 2).contiguous(), weights if want_weights else None


_disable = getattr(getattr(torch, "compiler", None), "disable", None)
if _disable is not None:  # masks are read in Python: torch.compile breaks its graph here
    attention_forward = _disable(attention_forward)
