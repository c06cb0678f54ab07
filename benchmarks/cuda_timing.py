"""What the rows of cuda_table.py are made of: timing, peak memory, and the baselines in PyTorch."""

import math
import os
import sys

sys.path.insert(0, os.environ.get("POSENC_PYTHON", "build/gpu/python"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import posenc  # noqa: E402

ROWS = []


def one_run(call, inner):
    """Milliseconds per call of `inner` calls, queued without waiting in between and behind a pause of the
    device: what the device needs, not what the host needs to launch."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(2_000_000)  # about 1 ms, in which the first calls are queued
    start.record()
    for _ in range(inner):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / inner


def median(times):
    return sorted(times)[len(times) // 2]


def milliseconds(call, repeats=5, inner=10, warm_up=3):
    """The median over runs. Inputs are larger than the cache, or are read as often by all."""
    for _ in range(warm_up):
        call()
    return median([one_run(call, inner) for _ in range(repeats)])


def in_turn(call, other, repeats=9, inner=10, warm_up=3):
    """Medians of two calls whose runs take turns: what drifts, drifts for both."""
    for _ in range(warm_up):
        call()
        other()
    times = [(one_run(call, inner), one_run(other, inner)) for _ in range(repeats)]
    return median([t for t, _ in times]), median([t for _, t in times])


def peak_bytes(call):
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def row(what, ours, reference="", value=None, bar=None, at_least=False, unit="x"):
    """Prints and keeps a row; `value` is what the bar is about."""
    verdict = ""
    if bar is not None and value is not None:
        verdict = "ok" if (value >= bar if at_least else value <= bar) else "MISSED"
    limit = "" if bar is None else f"{'>=' if at_least else '<='} {bar}"
    shown = "" if value is None else f"{value:.2f}{unit}"
    print(f"{what:58} {ours:>12} {reference:>22} {shown:>9} {limit:>8} {verdict}", flush=True)
    ROWS.append({"what": what, "ours": ours, "reference": reference, "value": value, "bar": bar,
                 "at_least": at_least, "verdict": verdict})


def guarded(name, call):
    """A row that cannot run says so; the others still do."""
    try:
        call()
    except Exception as problem:  # noqa: BLE001
        row(f"{name}: {type(problem).__name__}: {str(problem).splitlines()[0][:80]}", "failed")
    torch.cuda.empty_cache()


def rows(batch, heads, tokens, dim, count=3, dtype=torch.bfloat16, grad=True):
    shape = (batch, heads, tokens, dim)
    return [torch.randn(shape, device="cuda", dtype=dtype, requires_grad=grad) for _ in range(count)]


def with_backward(call, leaves, grad_out):
    def step():
        torch.autograd.grad(call(), leaves, grad_out)

    return step


def both(call, leaves, grad_out, inner=10, repeats=5):
    """Forward without a graph, and forward with backward."""

    def forward():
        with torch.no_grad():
            call()

    return milliseconds(forward, repeats, inner), milliseconds(
        with_backward(call, leaves, grad_out), repeats, inner
    )


def params_of(spec, heads, dim, spread=0.1):
    values = posenc.Spec(spec).initial_parameters(dim, heads)
    out = {}
    for name, value in values.items():
        noise = spread * torch.randn(value.shape)
        out[name] = (value + (noise.abs() if "kerple" in name else noise)).cuda().requires_grad_()
    return out


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def eager_cope(q, k, v, e, gate_k=None):
    """CoPE as its listing has it; gates from the scores, or from keys of their own."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    counted = scores if gate_k is None else q @ gate_k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device="cuda").triu(1)
    gates = torch.sigmoid(counted).masked_fill(hidden, 0.0)
    positions = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=e.shape[1] - 1)
    low = positions.floor().long().clamp(max=e.shape[1] - 1)  # bfloat16 has no 1023
    high = (low + 1).clamp(max=e.shape[1] - 1)
    logits = q @ e.to(q.dtype)
    weight = positions - low
    bias = logits.gather(-1, low) * (1 - weight) + logits.gather(-1, high) * weight
    return (scores + bias).masked_fill(hidden, -math.inf).softmax(-1) @ v
