"""Rotary position embedding of queries and keys in one pass, with gradients: whole or partial rotations, from any first
channel and any position, of halves or of interleaved pairs."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from ._ops import add_op_namespace_prefix, ops
from ._register import register

_registered = register(add_op_namespace_prefix("")[: -len("::")])


def rotary(
    q: Tensor,
    k: Tensor,
    *,
    theta: float = 10000.0,
    rotary_dim: int = 0,
    dim_offset: int = 0,
    interleaved: bool = False,
    positions: Optional[Tensor] = None,
    offset: int = 0,
    transposed: bool = False,
) -> tuple[Tensor, Tensor]:
    """Rotates q [B, H, T, D] and k [B, Hkv, T, D].

    Args:
        theta: base of the frequencies.
        rotary_dim: channels that are rotated, an even number; 0 is all from ``dim_offset`` on.
        dim_offset: first channel that is rotated.
        interleaved: pairs are neighbours (GPT-J) instead of the channels of two halves (GPT-NeoX, Llama).
        positions: [T] or [B, T], whole numbers; by default 0, 1, 2, ... from ``offset``.
        offset: position of the first token, the length of a cache.
        transposed: rotate back.
    """
    if offset and positions is not None:
        raise ValueError("[rotary] offset is for the default positions; add it to positions instead")
    if offset:
        positions = torch.arange(offset, offset + q.shape[2], device=q.device)
    layout = "interleaved" if interleaved else "half"
    spec = f"rope(theta={theta!r}, layout={layout}, rotary_dim={rotary_dim}, dim_offset={dim_offset})"
    return rotary_of(q, k, spec, positions=positions, transposed=transposed)


def rotary_of(
    q: Tensor, k: Tensor, spec: str, *, positions: Optional[Tensor] = None, transposed: bool = False
) -> tuple[Tensor, Tensor]:
    """The same for any rotation of posenc, such as ``rope(theta=500000, schedule=llama3(factor=8))``."""
    return ops.rope(q, k, spec, [], positions=positions, transposed=transposed)


def rerotate(k: Tensor, from_positions: Tensor, to_positions: Tensor, spec: str = "rope") -> Tensor:
    """Moves rotated keys of a cache to other positions."""
    return ops.rerotate(k, spec, from_positions, to_positions)


__all__ = ["rerotate", "rotary", "rotary_of"]
