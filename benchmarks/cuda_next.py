"""Rows of cuda_table.py about rotations by given angles, softcap, and FoX with pruning."""

import torch

from cuda_timing import in_turn, milliseconds, row, rows, with_backward

import posenc

HEADS = 16


def device_time(call, name, repeats=10):
    """Milliseconds per call of the kernels whose name contains `name`."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(repeats):
            call()
        torch.cuda.synchronize()
    found = [e for e in profile.events() if name in e.name]
    assert found, f"no kernel is called {name}"
    total = sum(getattr(e, "device_time", None) or e.cuda_time for e in found)
    return total / repeats / 1e3


def angle_rows(args):
    """Attention sees one key here: the rotation is a kernel of its own, which the profiler times."""
    q, k, v = rows(8, HEADS, 4096, 128)
    grad_out = torch.randn_like(q)
    to = [torch.empty_like(q), torch.empty_like(k)]

    def copy():
        for x, y in zip(to, (q, k)):
            x.copy_(y)

    with torch.no_grad():
        copied = milliseconds(copy)
    rate = 4 * q.numel() * 2 / copied  # bytes read and written, per millisecond
    for spec, name, width in (("rope(angles=input)", "rope.angles", 64),
                              ("rope(angles=input, layout=interleaved)", "rope.angles", 64),
                              ("rope(angles=input_position)", "rope.position", 1)):
        given = (10 * torch.randn(8, HEADS, 4096, width, device="cuda")).requires_grad_()

        def call():
            return posenc.attention(q, k, v, spec, inputs={name: given}, causal=True, window_left=0)

        moved = 4 * q.numel() * 2 + 4 * given.numel()
        with torch.no_grad():
            forward = device_time(call, "rope_angles_kernel")
        row(f"{spec} q+k bf16 [8,16,4096,128]: share of the copy rate", f"{forward:.3f} ms",
            f"copy {copied:.3f} ms", moved / forward / rate, 0.85, True)
        # Forward, the rotation again before the backward, and the backward: rows and gradients read, gradients written.
        step = device_time(with_backward(call, [q, k, v, given], grad_out), "rope_angles_kernel")
        backward = step - 2 * forward
        moved = 6 * q.numel() * 2 + 8 * given.numel()
        row(f"{spec} gradient: share of the copy rate", f"{backward:.3f} ms", f"copy {copied:.3f} ms",
            moved / backward / rate, 0.75, True)


def softcap_rows(args):
    for dim in (64, 128):
        inputs = rows(8, HEADS, 4096, dim)
        grad_out = torch.randn_like(inputs[0])

        def plain():
            return posenc.attention(*inputs, causal=True)

        for spec in ("softcap", "alibi + softcap"):
            def capped(spec=spec):
                return posenc.attention(*inputs, spec, causal=True)

            with torch.no_grad():
                ours, none = in_turn(capped, plain)
            row(f"{spec} D{dim} forward, over our plain kernel", f"{ours:.3f} ms", f"none {none:.3f} ms", ours / none)
            ours, none = in_turn(with_backward(capped, inputs, grad_out), with_backward(plain, inputs, grad_out), 5)
            row(f"{spec} D{dim} with backward, over our plain kernel", f"{ours:.3f} ms", f"none {none:.3f} ms",
                ours / none, 1.15 if spec == "softcap" else None)


def prune_rows(args):
    """FoX with gates of mean 0.97, with and without pruning, and no gates at all."""
    tokens = 32768
    for dim in (64, 128):
        inputs = rows(1, HEADS, tokens, dim)
        grad_out = torch.randn_like(inputs[0])
        log_f = torch.nn.functional.logsigmoid(torch.randn(1, HEADS, tokens, 1, device="cuda") + 3.9)
        log_f = log_f.requires_grad_()

        def fox(spec):
            return posenc.attention(*inputs, spec, inputs={"fox.log_f": log_f}, causal=True)

        def plain():
            return posenc.attention(*inputs, causal=True)

        with torch.no_grad():
            apart = ((fox("fox(prune=true)") - fox("fox")).norm() / fox("fox").norm()).item()
            assert apart < 1e-2, f"results are {apart} apart"
            ours, none = in_turn(lambda: fox("fox(prune=true)"), plain, 3, 3)
            whole = milliseconds(lambda: fox("fox"), 3, 3)
        row(f"fox(prune=true) D{dim} T {tokens} forward: times faster than none", f"{ours:.3f} ms",
            f"none {none:.3f} ms", none / ours, 2.0, True)
        row(f"fox(prune=true) D{dim} T {tokens} forward: times faster than fox", f"{ours:.3f} ms",
            f"fox {whole:.3f} ms", whole / ours)
        ours, none = in_turn(with_backward(lambda: fox("fox(prune=true)"), [*inputs, log_f], grad_out),
                             with_backward(plain, inputs, grad_out), 3, 2)
        row(f"fox(prune=true) D{dim} T {tokens} with backward: times faster than none", f"{ours:.3f} ms",
            f"none {none:.3f} ms", none / ours, 2.0, True)
