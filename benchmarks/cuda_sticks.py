"""Rows of cuda_table.py about encodings of 2024 to 2026: stick-breaking."""

import math

import torch

from cuda_general import HEADS, against_eager, checked
from cuda_timing import both, guarded, row, rows, sdpa

import posenc


def eager_sticks(q, k, v):
    """Logarithms of what is left in float32: in bfloat16 their sums would lose the nearest keys."""
    scores = (q @ k.transpose(-1, -2)).float() / math.sqrt(q.shape[-1])
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device="cuda").triu(0)
    taken = torch.nn.functional.softplus(scores).masked_fill(hidden, 0.0)
    up_to = taken.flip(-1).cumsum(-1).flip(-1)  # of a key and those after it
    return (scores - up_to).masked_fill(hidden, -math.inf).exp().to(q.dtype) @ v


def stick_rows(args):
    """Scores of unit variance, where a row ends after some hundred keys, and with 6 less, where none does."""
    for dim in (64,) if args.quick else (64, 128):
        for shift, what in ((0.0, "shares near one half"), (-6.0, "shares near 0.003")):
            inputs = rows(8, HEADS, 4096, dim)
            with torch.no_grad():
                inputs[0][..., 0], inputs[1][..., 0] = math.sqrt(dim), shift
            guarded(f"sticks D{dim}, {what}", lambda: stick_row(args, inputs, f"sticks D{dim}, {what}"))


def stick_row(args, inputs, name):
    grad_out = torch.randn_like(inputs[0])

    def call(*x):
        return posenc.attention(*x, "stick_breaking", causal=True)

    first = [x[:1, :4].detach() for x in inputs]
    checked(lambda: call(*first), lambda: eager_sticks(*(x.float() for x in first)), 1e-2)
    theirs = both(lambda: sdpa(*inputs), inputs, grad_out)
    ours = both(lambda: call(*inputs), inputs, grad_out)
    for index, (what, bar) in enumerate((("forward", None), ("with backward", 2.5))):
        row(f"{name} {what}", f"{ours[index]:.3f} ms", f"sdpa {theirs[index]:.3f} ms",
            ours[index] / theirs[index], bar)
    if inputs[0].shape[3] == 64 and not args.quick:
        against_eager(name, call, eager_sticks, (inputs, []), grad_out, ours[1])
