"""Queries times distances on the GPU: the fused kernels against the float64 reference on the CPU."""

import warnings

import pytest
import torch

import posenc
from test_cuda import error, pytestmark  # noqa: F401 (skips without a GPU)

LIMITS = {torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.float32: 2e-4}
SHAW = "relative_query(extent=50, beyond=clip, init_std=0.3)"
INPUT = "relative_query(extent=90, source=input, rank=16, init_std=0.3)"
SPECS = [SHAW, INPUT, f"rope + {SHAW}", f"rope + alibi + {INPUT}",
         "relative_query(extent=20, source=input, rank=5, per_head=true, beyond=clip, init_std=0.3) + sink",
         "relative_query(extent=20, bidirectional=true, init_std=0.3) + stick_breaking"]


def results(spec, device, dtype, rows, params, inputs, grad_out, options):
    wide = torch.float64 if device == "cpu" else torch.float32
    kind = torch.float64 if device == "cpu" else dtype
    leaves = {n: x.to(device, kind).requires_grad_() for n, x in {**rows, **inputs}.items()}
    leaves |= {n: x.to(device, wide).requires_grad_() for n, x in params.items()}
    where = {n: x.to(device) if torch.is_tensor(x) else x for n, x in options.items()}
    out = posenc.attention(leaves["q"], leaves["k"], leaves["v"], spec, {n: leaves[n] for n in params},
                           inputs={n: leaves[n] for n in inputs}, **where)
    return {"out": out, **dict(zip(leaves, torch.autograd.grad(out, list(leaves.values()), grad_out.to(out))))}


def check(spec, dtype, queries=130, keys=130, head_dim=64, **options):
    rows = {n: torch.randn(2, heads, tokens, head_dim).to(dtype)
            for n, heads, tokens in (("q", 4, queries), ("k", 2, keys), ("v", 2, keys))}
    parsed = posenc.Spec(spec)
    params = parsed.initial_parameters(head_dim, 4)
    inputs = {i.name: torch.randn(2, 4, keys, i.channels).to(dtype) for i in parsed.inputs(head_dim, 4)}
    grad_out = torch.randn(2, 4, queries, head_dim).to(dtype)
    got, want = (results(spec, device, dtype, rows, params, inputs, grad_out, options) for device in ("cuda", "cpu"))
    for name, value in want.items():
        limit = LIMITS[dtype] * (1 if name == "out" else 2)
        least = 1e-2 * value.numel() ** 0.5 if name in params else 1e-6
        assert error(got[name], value, least) < limit, f"{name}: {error(got[name], value, least)}"


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("head_dim", [64, 128, 48])
@pytest.mark.parametrize("spec", SPECS)
def test_agrees_with_the_reference(spec, head_dim, dtype):
    check(spec, dtype, queries=201, keys=201, head_dim=head_dim, causal=True)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True, "window_left": 50},
        {"causal": True, "queries": 40, "keys": 150},
        {"causal": True, "queries": 1, "keys": 150},
        {"causal": True, "queries": 150, "keys": 40},
        {"causal": True, "key_mask": torch.arange(130).repeat(2, 1) < torch.tensor([[70], [130]])},
        {"causal": True, "cu_queries": torch.tensor([0, 60, 63, 130])},
    ],
)
def test_masks(spec, options):
    check(spec, torch.bfloat16, **options)


@pytest.mark.parametrize("spec", [SHAW, "relative_query(extent=1024, source=input, rank=16)"])
def test_is_fused_and_linear_in_memory(spec):
    said = posenc.explain(spec, device="cuda", dtype="bfloat16", heads=4, queries=4096, keys=4096, head_dim=64)
    assert said.startswith("fused") and "backward: fused" in said
    rows = [torch.randn(1, 4, 16384, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    params = {n: x.cuda().requires_grad_() for n, x in posenc.Spec(spec).initial_parameters(64, 4).items()}
    inputs = {i.name: torch.randn(1, 4, 16384, i.channels, device="cuda", dtype=torch.bfloat16)
              for i in posenc.Spec(spec).inputs(64, 4)}
    torch.cuda.reset_peak_memory_stats()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posenc.attention(*rows, spec, params, inputs=inputs, causal=True).float().sum().backward()
    assert torch.ops.posenc._last_path() == "fused"
    assert torch.cuda.max_memory_allocated() < 1 << 29  # scores alone would be 4 GiB in float32


@pytest.mark.parametrize("spec", [SHAW, INPUT])
def test_two_runs_have_the_same_bits(spec):
    rows = [torch.randn(2, 4, 700, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    params = {n: x.cuda().requires_grad_() for n, x in posenc.Spec(spec).initial_parameters(64, 4).items()}
    inputs = {i.name: torch.randn(2, 4, 700, i.channels, device="cuda", dtype=torch.bfloat16, requires_grad=True)
              for i in posenc.Spec(spec).inputs(64, 4)}
    leaves = [*rows, *params.values(), *inputs.values()]
    grad_out = torch.randn_like(rows[0])
    runs = []
    for _ in range(2):
        out = posenc.attention(*rows, spec, params, inputs=inputs, causal=True)
        runs.append([out, *torch.autograd.grad(out, leaves, grad_out)])
    assert all(torch.equal(a, b) for a, b in zip(*runs))
