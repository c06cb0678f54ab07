"""Layers that compute the angles of ``rope(angles=input, running=true)`` from hidden states.

Each maps x [B, T, model_dim] to steps [B, T, kv_heads * pairs], which the encoding sums over the tokens. Give one to
:class:`posenc.nn.Attention` in place of its linear layer:

>>> steps = LowRankSteps(512, 8 * 32)  # 8 key heads of 64 channels: 32 pairs each
>>> layer = posenc.nn.Attention(512, 8, "rope(angles=input, running=true)", causal=True, input_layers={"rope.angles": steps})
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LowRankSteps(nn.Module):
    """MapFormer (arXiv 2511.19279): W_out W_in x, signed, through a bottleneck of ``rank`` numbers."""

    def __init__(self, model_dim: int, width: int, rank: int = 2) -> None:
        super().__init__()
        self.into = nn.Linear(model_dim, rank, bias=False)
        self.out = nn.Linear(rank, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.into(x))


class SelectiveSteps(nn.Module):
    """Selective RoPE (arXiv 2511.17388): sigmoid(gate(x)) (W_out silu(conv(W_in x)) + b).

    The convolution reads the last ``kernel`` tokens, so a cache of keys does not suffice to decode: nn.Attention refuses
    one with this layer."""

    def __init__(self, model_dim: int, width: int, rank: int = 16, kernel: int = 4) -> None:
        super().__init__()
        self.into = nn.Linear(model_dim, rank, bias=False)
        self.conv = nn.Conv1d(rank, rank, kernel, groups=rank)
        self.out = nn.Linear(rank, width)
        self.gate = nn.Linear(model_dim, width)
        self.history = kernel - 1

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.pad(self.into(x).transpose(1, 2), (self.history, 0))
        y = nn.functional.silu(self.conv(y)).transpose(1, 2)
        return torch.sigmoid(self.gate(x)) * self.out(y)


class ContextualSteps(nn.Module):
    """CARoPE (arXiv 2507.23083): powers 1 to ``pairs`` of f = 1 / (1 + softplus(W x)), one f per key head."""

    def __init__(self, model_dim: int, kv_heads: int, pairs: int) -> None:
        super().__init__()
        self.frequency = nn.Linear(model_dim, kv_heads)
        self.pairs = pairs

    def forward(self, x: Tensor) -> Tensor:
        f = 1 / (1 + nn.functional.softplus(self.frequency(x).float()))
        powers = torch.arange(1, self.pairs + 1, device=x.device)
        return (f.unsqueeze(-1) ** powers).flatten(-2)
