"""Layers and functions for rotations by content: the angles of ``rope(angles=input)``, and PoPE.

Layers of steps map x [B, T, model_dim] to [B, T, kv_heads * pairs], which ``rope(angles=input, running=true)`` sums over
the tokens. Give one to :class:`posenc.nn.Attention` in place of its linear layer:

>>> steps = posenc.angles.LowRankSteps(512, 8 * 32)  # 8 key heads of 64 channels: 32 pairs each
>>> spec = "rope(angles=input, running=true)"
>>> layer = posenc.nn.Attention(512, 8, spec, causal=True, input_layers={"rope.angles": steps})
>>> layer(torch.randn(1, 6, 512)).shape
torch.Size([1, 6, 512])
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

from posenc.errors import Error, require_tensors


class LowRankSteps(nn.Module):
    """MapFormer (arXiv 2511.19279): W_out W_in x, signed, through a bottleneck of ``rank`` numbers.

    >>> posenc.angles.LowRankSteps(64, 4 * 8)(torch.randn(1, 5, 64)).shape
    torch.Size([1, 5, 32])
    """

    def __init__(self, model_dim: int, width: int, rank: int = 2) -> None:
        super().__init__()
        self.into = nn.Linear(model_dim, rank, bias=False)
        self.out = nn.Linear(rank, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.into(x))


class SelectiveSteps(nn.Module):
    """Selective RoPE (arXiv 2511.17388): sigmoid(gate(x)) (W_out silu(conv(W_in x)) + b).

    The convolution reads the last ``kernel`` tokens: a :class:`posenc.nn.KeyValueCache` also keeps W_in x of the last
    ``kernel - 1`` of them.

    >>> posenc.angles.SelectiveSteps(64, 4 * 8)(torch.randn(1, 5, 64)).shape
    torch.Size([1, 5, 32])
    """

    def __init__(self, model_dim: int, width: int, rank: int = 16, kernel: int = 4) -> None:
        super().__init__()
        self.into = nn.Linear(model_dim, rank, bias=False)
        self.conv = nn.Conv1d(rank, rank, kernel, groups=rank)
        self.out = nn.Linear(rank, width)
        self.gate = nn.Linear(model_dim, width)
        self.history = kernel - 1

    def forward(self, x: Tensor) -> Tensor:
        return self.resume(x, None)[0]

    def resume(self, x: Tensor, earlier: Optional[Tensor]) -> tuple[Tensor, Tensor]:
        """The steps of tokens that follow others, and what the call after this one gets as ``earlier``.

        Args:
            x: hidden states [B, T, model_dim] of the new tokens.
            earlier: [B, kernel - 1, rank], W_in x of the tokens before them; None for the first call.
        """
        y = self.into(x)
        rows = torch.cat([y.new_zeros(y.shape[0], self.history, y.shape[2]) if earlier is None else earlier, y], 1)
        mixed = nn.functional.silu(self.conv(rows.transpose(1, 2))).transpose(1, 2)
        return torch.sigmoid(self.gate(x)) * self.out(mixed), rows[:, rows.shape[1] - self.history :]


class ContextualSteps(nn.Module):
    """CARoPE (arXiv 2507.23083): powers 1 to ``pairs`` of f = 1 / (1 + softplus(W x)), one f per key head.

    >>> posenc.angles.ContextualSteps(64, kv_heads=4, pairs=8)(torch.randn(1, 5, 64)).shape
    torch.Size([1, 5, 32])
    """

    def __init__(self, model_dim: int, kv_heads: int, pairs: int) -> None:
        super().__init__()
        self.frequency = nn.Linear(model_dim, kv_heads)
        self.pairs = pairs

    def forward(self, x: Tensor) -> Tensor:
        f = 1 / (1 + nn.functional.softplus(self.frequency(x).float()))
        powers = torch.arange(1, self.pairs + 1, device=x.device)
        return (f.unsqueeze(-1) ** powers).flatten(-2)


class MixedAngles(nn.Module):
    """RoPE-Mixed (arXiv 2403.13298): angles of ``rope(angles=input)`` from positions with several axes.

    angle = SUM_a frequency[h, p, a] position[a], with a trained frequency for each key head, pair and axis. They begin
    with the frequencies of RoPE, in directions drawn per head.

    >>> places = torch.cartesian_prod(torch.arange(3), torch.arange(4))
    >>> posenc.angles.MixedAngles(kv_heads=2, pairs=8)(places).shape
    torch.Size([1, 2, 12, 8])
    """

    def __init__(self, kv_heads: int, pairs: int, axes: int = 2, theta: float = 10.0, seed: int = 0) -> None:
        super().__init__()
        magnitude = theta ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
        generator = torch.Generator().manual_seed(seed)
        direction = torch.randn(kv_heads, 1, axes, generator=generator, dtype=torch.float64)
        direction = direction / direction.norm(dim=-1, keepdim=True)
        self.frequency = nn.Parameter((magnitude[None, :, None] * direction).float())

    def forward(self, positions: Tensor) -> Tensor:
        """Positions [T, axes] or [B, T, axes] to angles [B or 1, kv_heads, T, pairs]."""
        if positions.shape[-1] != self.frequency.shape[-1]:
            raise Error(
                f"[MixedAngles] positions must have {self.frequency.shape[-1]} coordinates but has {positions.shape[-1]} coordinates",
                kind="wrong_length",
            )
        positions = positions if positions.dim() == 3 else positions.unsqueeze(0)
        return torch.einsum("hpa,bta->bhtp", self.frequency, positions.to(self.frequency.dtype))


def polar(q: Tensor, k: Tensor, delta: Optional[Tensor] = None) -> tuple[Tensor, Tensor]:
    """PoPE (arXiv 2509.10534): queries and keys with twice the channels, for ``rope(layout=interleaved)``.

    SUM_c softplus(q_c) softplus(k_c) cos((i - j) theta_c + delta_c): a channel is the radius of a pair that rotates with the
    position. ``delta`` is [heads of k, D] or [D], or None for zero. Values keep D channels:

    >>> q = k = v = torch.randn(1, 2, 5, 8)
    >>> q2, k2 = posenc.angles.polar(q, k, delta=torch.zeros(8))
    >>> posenc.attention(q2, k2, v, "rope(layout=interleaved)", scale=8**-0.5, causal=True).shape
    torch.Size([1, 2, 5, 8])
    """
    require_tensors("polar", q=q, k=k)
    if delta is not None and delta.shape[-1] != k.shape[-1]:
        raise Error(
            f"[polar] delta must have {k.shape[-1]} channels as k has but has shape {list(delta.shape)}", kind="wrong_length"
        )
    length_q, length_k = nn.functional.softplus(q), nn.functional.softplus(k)
    turned = torch.zeros(k.shape[-1], device=k.device) if delta is None else delta
    turned = turned.unsqueeze(-2) if turned.dim() == 2 else turned
    zero = torch.zeros_like(length_q)
    pairs_q = torch.stack([length_q, zero], -1)
    pairs_k = torch.stack([length_k * turned.cos().to(k.dtype), -length_k * turned.sin().to(k.dtype)], -1)
    return pairs_q.flatten(-2), pairs_k.flatten(-2)
