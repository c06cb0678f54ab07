"""Rows of cuda_table.py about float32 as sums of bfloat16 numbers, FIRE, terms per token, and CoPE with gates of other
keys and long tables."""

import math
from contextlib import contextmanager

import torch

from cuda_timing import (
    both, eager_cope, guarded, milliseconds, params_of, peak_bytes, row, rows, sdpa, with_backward)

import posenc

HEADS = 16


@contextmanager
def precision(name):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def apart(got, want):
    got, want = got.detach().double(), want.detach().double()
    return ((got - want).norm() / want.norm()).item()


def checked(ours, theirs, most):
    """How far apart the results are; nothing is timed that computes something else."""
    with torch.no_grad():
        far = apart(ours(), theirs())
    torch.cuda.empty_cache()
    assert far < most, f"results are {far} apart"
    return far


def float32_rows(args):
    for dim in (64,) if args.quick else (64, 128):
        q, k, v = rows(8, HEADS, 4096, dim, dtype=torch.float32)
        grad_out = torch.randn_like(q)

        def theirs():
            return sdpa(q, k, v)

        baselines, results = {}, {}
        for setting in ("highest", "high"):
            with precision(setting):
                baselines[setting] = both(theirs, [q, k, v], grad_out, 2, 3)
                with torch.no_grad():
                    results[setting] = theirs()
        print(f"{'':4}sdpa with tf32 is {apart(results['high'], results['highest']):.1e} from its float32")
        for spec in ("none", "alibi(trainable=true)", "cope"):
            guarded(f"float32 {spec} D{dim}", lambda: float32_row(
                spec, (q, k, v), grad_out, baselines, results["highest"]))


def float32_row(spec, inputs, grad_out, baselines, exact):
    q, k, v = inputs
    dim = q.shape[3]
    params = params_of(spec, HEADS, dim)
    leaves = [*inputs, *params.values()]

    def call():
        return posenc.attention(q, k, v, spec, params, causal=True)

    name = spec.split("(")[0]
    for setting, theirs in baselines.items():
        with precision(setting):
            if spec == "none":
                print(f"{'':4}ours ({setting}) is {checked(call, lambda: exact, 1e-3):.1e} from sdpa's float32")
            ours = both(call, leaves, grad_out, 2, 3)
            mine = peak_bytes(with_backward(call, leaves, grad_out))
        for index, what in enumerate(("forward", "with backward")):
            row(f"float32 {setting} {name} D{dim} {what}, over sdpa", f"{ours[index]:.3f} ms",
                f"sdpa {theirs[index]:.3f} ms", ours[index] / theirs[index])
    other = peak_bytes(with_backward(lambda: sdpa(q, k, v), leaves[:3], grad_out))
    row(f"float32 {name} D{dim}: peak memory over sdpa's", f"{mine / 2**20:.0f} MiB",
        f"sdpa {other / 2**20:.0f} MiB", mine / other)


def eager_fire(q, k, v, params, threshold):
    """The bias in float32 for every pair, added to scores of the inputs' type."""
    places = torch.arange(q.shape[2], device="cuda", dtype=torch.float32)
    c = params["fire.c"].abs()
    reach = torch.maximum(places, params["fire.threshold_scale"].abs() * threshold)
    distance = (places[:, None] - places[None, :]).abs()
    ratio = torch.log1p(c * distance) / (torch.log1p(c * reach) + 1e-6)[:, None]
    hidden = torch.relu(ratio[..., None] * params["fire.w1"] + params["fire.b1"])
    bias = (hidden @ params["fire.w2"].t() + params["fire.b2"]).permute(2, 0, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias.to(q.dtype)
    hidden_keys = distance.new_ones(distance.shape, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden_keys, -math.inf).softmax(-1) @ v


def fire_rows(args):
    """Trained, with a threshold that most places are beyond."""
    spec = "fire(init_threshold=512)"
    for dim in (64,) if args.quick else (64, 128):
        inputs = rows(8, HEADS, 4096, dim)
        grad_out = torch.randn_like(inputs[0])
        params = params_of(spec, HEADS, dim)
        fixed = {n: x.detach() for n, x in params.items()}

        def call(*x, values=params):
            return posenc.attention(*x, spec, values, causal=True)

        def eager(*x):
            return eager_fire(*x, params, 512.0)

        plain = both(lambda: posenc.attention(*inputs, causal=True), inputs, grad_out)
        theirs = both(lambda: sdpa(*inputs), inputs, grad_out)
        leaves = [*inputs, *params.values()]
        ours = both(lambda: call(*inputs), leaves, grad_out)
        for index, (what, bar) in enumerate((("forward", 1.6), ("with backward, trained", 2.0))):
            row(f"fire D{dim} {what}", f"{ours[index]:.3f} ms", f"sdpa {theirs[index]:.3f} ms",
                ours[index] / theirs[index], bar)
            row(f"fire D{dim} {what}, over our plain kernel", f"{ours[index]:.3f} ms",
                f"none {plain[index]:.3f} ms", ours[index] / plain[index])
        frozen = milliseconds(
            with_backward(lambda: call(*inputs, values=fixed), inputs, grad_out), 3, 3)
        row(f"fire D{dim} with backward, fixed, over our plain kernel", f"{frozen:.3f} ms",
            f"none {plain[1]:.3f} ms", frozen / plain[1])
        if dim == 64 and not args.quick:
            against_eager("fire D64", call, eager, (inputs, list(params.values())), grad_out, ours[1])


def token_rows(args):
    """Forget gates of mean 0.97, and a bias per key."""
    for dim in (64,) if args.quick else (64, 128):
        inputs = rows(8, HEADS, 4096, dim)
        grad_out = torch.randn_like(inputs[0])
        plain = both(lambda: posenc.attention(*inputs, causal=True), inputs, grad_out)
        theirs = both(lambda: sdpa(*inputs), inputs, grad_out)
        gates = torch.nn.functional.logsigmoid(torch.randn(8, HEADS, 4096, device="cuda") + 3.5)
        for spec, name, values in (("fox", "fox.log_f", gates),
                                   ("key_bias", "key_bias.value", torch.randn_like(gates))):
            given = values.requires_grad_()

            def call(spec=spec, name=name, given=given):
                return posenc.attention(*inputs, spec, causal=True, inputs={name: given})

            ours = both(call, [*inputs, given], grad_out)
            for index, what in enumerate(("forward", "with backward")):
                row(f"{spec} D{dim} {what}, over our plain kernel", f"{ours[index]:.3f} ms",
                    f"none {plain[index]:.3f} ms", ours[index] / plain[index], 1.05)
                row(f"{spec} D{dim} {what}", f"{ours[index]:.3f} ms",
                    f"sdpa {theirs[index]:.3f} ms", ours[index] / theirs[index])


def against_eager(name, call, eager, leaves, grad_out, ours):
    """Results are compared with eager's in float32: in bfloat16 its sums of gates lose whole positions."""
    inputs, params = leaves
    first = [x[:1].detach() for x in inputs]
    checked(lambda: call(*first), lambda: eager(*(x.float() for x in first)), 1e-2)
    mine = with_backward(lambda: call(*inputs), [*inputs, *params], grad_out)
    other = with_backward(lambda: eager(*inputs), [*inputs, *params], grad_out)
    bytes_mine, bytes_other = peak_bytes(mine), peak_bytes(other)
    time = milliseconds(other, 2, 1, 0)
    row(f"{name} with backward: times faster than eager", f"{ours:.3f} ms", f"eager {time:.1f} ms",
        time / ours)
    row(f"{name}: peak memory over eager's", f"{bytes_mine / 2**20:.0f} MiB",
        f"eager {bytes_other / 2**20:.0f} MiB", bytes_mine / bytes_other)
    torch.cuda.empty_cache()


def gate_rows(args):
    """CoPE compared with the tuned kernel with gates from the scores and 64 positions."""
    q, k, v, gate_k = rows(8, HEADS, 4096, 64, 4)
    grad_out = torch.randn_like(q)
    tuned = None
    for spec in ("cope", "cope(gate_source=separate)", "cope(gate_source=value)", "cope(npos_max=1024)"):
        inputs = [q, k, v, gate_k] if "separate" in spec else [q, k, v]
        positions = 1024 if "1024" in spec else 64
        e = (0.1 * torch.randn(64, positions, device="cuda")).requires_grad_()

        def call(q, k, v, other=None):
            gates = {"cope.gate_k": other} if other is not None else None
            return posenc.attention(q, k, v, spec, {"cope.pos_emb": e}, inputs=gates, causal=True)

        def eager(q, k, v, other=None):
            return eager_cope(q, k, v, e, v if "value" in spec else other)

        ours = both(lambda: call(*inputs), [*inputs, e], grad_out, 3, 3)
        tuned = tuned or ours
        for index, what in enumerate(("forward", "with backward")):
            row(f"{spec} {what}, over the tuned kernel", f"{ours[index]:.3f} ms",
                f"cope {tuned[index]:.3f} ms", ours[index] / tuned[index])
        if spec != "cope" and not args.quick:
            guarded(spec, lambda: against_eager(spec, call, eager, (inputs, [e]), grad_out, ours[1]))
