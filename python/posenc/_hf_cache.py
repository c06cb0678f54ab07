"""A cache of Hugging Face that also remembers the inputs of past tokens.

Inputs such as FoX's ``log_f`` are stored as extra channels of the values. Whatever the cache does
to values (reorder for beams, crop, repeat, drop out of a window), it does to the inputs as well.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional

import torch
from torch import Tensor

from posenc.errors import Error

_ALIGNMENT = 16  # bytes: kernels on a GPU copy values whose rows are not aligned to them


class _ToBits(torch.autograd.Function):
    """float32 [..., c] as 16-bit numbers [..., 2c] that hold the same bits. Autograd adds gradients,
    so a gradient is not cut into bits: it is the sum of two 16-bit numbers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype) -> Tensor:
        return x.contiguous().view(dtype).clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.float().unflatten(-1, (-1, 2)).sum(-1), None


class _FromBits(torch.autograd.Function):
    """The inverse of _ToBits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.dtype = x.dtype
        return x.contiguous().view(torch.float32).clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        high = grad.to(ctx.dtype)
        return torch.stack([high, (grad - high.float()).to(ctx.dtype)], -1).flatten(-2)


def _needs_bits(x: Tensor, stored: torch.dtype) -> bool:
    return x.dtype == torch.float32 and stored in (torch.bfloat16, torch.float16)


def _to_channels(x: Tensor, kv_heads: int, dtype: torch.dtype) -> Tensor:
    """[B, H or Hkv, T, c] to [B, Hkv, T, n]: n covers all query heads that share a head of keys."""
    rows = x.unflatten(1, (kv_heads, -1)).transpose(2, 3).flatten(3)
    return _ToBits.apply(rows, dtype) if _needs_bits(x, dtype) else rows.to(dtype)


def _from_channels(rows: Tensor, like: Tensor) -> Tensor:
    rows = _FromBits.apply(rows) if _needs_bits(like, rows.dtype) else rows
    return rows.unflatten(3, (-1, like.shape[3])).transpose(2, 3).flatten(1, 2)


def _with_inputs(v: Tensor, inputs: Mapping[str, Tensor]) -> tuple[Tensor, list[int]]:
    """The values with the inputs behind them, and the number of channels of each part."""
    parts = [v] + [_to_channels(x, v.shape[1], v.dtype) for x in inputs.values()]
    padding = -sum(part.shape[3] for part in parts) % (_ALIGNMENT // v.element_size())
    parts.append(v.new_zeros(*v.shape[:3], padding))
    return torch.cat(parts, 3), [part.shape[3] for part in parts]


def update(
    cache: Any, k: Tensor, v: Tensor, inputs: Mapping[str, Tensor], layer: Optional[int], past: int
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Adds tokens to a cache that holds `past` of them; returns keys, values and inputs of all."""
    if not inputs:
        k, v = cache.update(k, v, layer)
        return k, v, {}
    stored, widths = _with_inputs(v, inputs)
    _prepare(cache, layer, past, stored, inputs)
    k, rows = cache.update(k, stored, layer)
    if rows.shape[3] != stored.shape[3] or rows.dtype != stored.dtype:
        raise Error(
            f"[patch] {type(cache).__name__} returned values of {rows.shape[3]} channels of "
            f"{rows.dtype} but was given {stored.shape[3]} of {stored.dtype}, which hold "
            f"{_names(inputs)}; use DynamicCache or StaticCache, or use_cache=False"
        )
    v, *parts = rows.split(widths, 3)
    read = zip(inputs, parts, inputs.values())  # the last part is padding
    return k, v, {name: _from_channels(part, like) for name, part, like in read}


def _names(inputs: Iterable[str]) -> str:
    return ", ".join(inputs)


def _prepare(
    cache: Any, layer: Optional[int], past: int, stored: Tensor, names: Iterable[str]
) -> None:
    """Refuses caches that cannot hold inputs; widens an empty one that is allocated already."""
    layers = getattr(cache, "layers", None)
    known = isinstance(layers, list) and layer is not None and layer < len(layers)
    one = layers[layer] if known and layers is not None else None
    if "Quantized" in type(cache).__name__ or hasattr(one, "_quantize"):
        raise Error(
            f"[patch] a quantized cache would round {_names(names)}, stored with the values; use "
            "another cache_implementation, or a spec without inputs"
        )
    values = getattr(one, "values", None)
    if one is None or values is None or values.dim() != 4 or values.shape[3] == stored.shape[3]:
        return
    if past:
        raise Error(
            f"[patch] the cache holds values of {values.shape[3]} channels, but values with "
            f"{_names(names)} have {stored.shape[3]}: it was filled with another spec; start with "
            "an empty cache"
        )
    one.values = values.new_zeros(*values.shape[:3], stored.shape[3])
