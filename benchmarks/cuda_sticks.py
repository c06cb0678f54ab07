"""Rows of cuda_table.py about stick-breaking and queries times distances."""

import math

import torch

from cuda_general import HEADS, against_eager, checked
from cuda_timing import both, guarded, params_of, peak_bytes, row, rows, sdpa, with_backward

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


def eager_relative(q, k, v, u, table, clips, factor):
    """As transformers writes it: products with all entries, gathered by distance."""
    tokens, extent = q.shape[2], table.shape[-1]
    places = torch.arange(tokens, device="cuda")
    distance = places[:, None] - places[None, :]
    products = (u @ table.to(q.dtype)) * factor
    entry = distance.clamp(0, extent - 1).expand(q.shape[0], q.shape[1], tokens, tokens)
    term = products.gather(-1, entry)
    if not clips:
        term = term.masked_fill(distance >= extent, 0.0)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + term
    return scores.masked_fill(distance < 0, -math.inf).softmax(-1) @ v


def relative_rows(args):
    """Shaw et al. with 128 distances, and 16 numbers per token and head with 1,024."""
    for dim in (64,) if args.quick else (64, 128):
        inputs = rows(8, HEADS, 4096, dim)
        grad_out = torch.randn_like(inputs[0])
        plain = both(lambda: posenc.attention(*inputs, causal=True), inputs, grad_out)
        memory = peak_bytes(with_backward(lambda: posenc.attention(*inputs, causal=True), inputs, grad_out))
        for spec, bar in (("relative_query(extent=128, beyond=clip)", 1.8),
                          ("relative_query(extent=1024, source=input, rank=16)", 1.4)):
            name = f"{'shaw' if 'clip' in spec else 'rank 16, extent 1024'} D{dim}"
            guarded(name, lambda: relative_row(args, spec, name, inputs, grad_out, (plain, memory, bar)))


def relative_row(args, spec, name, inputs, grad_out, reference):
    plain, memory, bar = reference
    dim = inputs[0].shape[3]
    params = params_of(spec, HEADS, dim)
    table = params["relative_query.table"]
    others = rows(8, HEADS, 4096, 16, 1) if "input" in spec else []
    leaves = [*inputs, *others, table]

    def call(q, k, v, u=None):
        return posenc.attention(q, k, v, spec, params, causal=True,
                                inputs=None if u is None else {"relative_query.u": u})

    def eager(q, k, v, u=None):
        factor = 1.0 if u is not None else dim**-0.5
        return eager_relative(q, k, v, q if u is None else u, table, "clip" in spec, factor)

    ours = both(lambda: call(*inputs, *others), leaves, grad_out, 3, 3)
    for index, (what, most) in enumerate((("forward", None), ("with backward", bar))):
        row(f"{name} {what}, over our plain kernel", f"{ours[index]:.3f} ms",
            f"none {plain[index]:.3f} ms", ours[index] / plain[index], most)
    mine = peak_bytes(with_backward(lambda: call(*inputs, *others), leaves, grad_out))
    row(f"{name}: peak memory over our plain kernel's", f"{mine / 2**20:.0f} MiB",
        f"none {memory / 2**20:.0f} MiB", mine / memory, 1.3)
    if dim == 64 and not args.quick:
        against_eager(name, call, eager, ([*inputs, *others], [table]), grad_out, ours[1])
