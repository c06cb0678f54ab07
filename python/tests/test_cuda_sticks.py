"""Stick-breaking on the GPU: the fused kernels against the float64 reference on the CPU."""

import warnings

import pytest
import torch

import posenc
from test_cuda import error, pytestmark  # noqa: F401 (skips without a GPU)

LIMITS = {torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.float32: 2e-4}
SPECS = ["stick_breaking", "rope + alibi + stick_breaking"]


def both(spec, dtype, queries=130, keys=130, head_dim=64, shift=0.0, **options):
    """(out, lse, gradients) of the GPU and of the reference. A negative shift of the scores closes the shares."""
    rows = [torch.randn(2, heads, tokens, head_dim) for heads, tokens in ((4, queries), (2, keys), (2, keys))]
    rows[0][..., 0], rows[1][..., 0] = head_dim**0.5, shift
    rows = [x.to(dtype) for x in rows]
    grad_out = torch.randn(rows[0].shape).to(dtype)
    found = []
    for device, kind in (("cuda", dtype), ("cpu", torch.float64)):
        leaves = [x.to(device, kind).requires_grad_() for x in rows]
        where = {n: x.to(device) if torch.is_tensor(x) else x for n, x in options.items()}
        params = posenc.Spec(spec).initial_parameters(head_dim, 4)
        params = {n: x.to(device, torch.float64 if device == "cpu" else torch.float32) for n, x in params.items()}
        out, lse = posenc.attention(*leaves, spec, params, return_lse=True, **where)
        found.append((out, lse, torch.autograd.grad(out, leaves, grad_out.to(out))))
    return found


def check(spec, dtype, **options):
    got, want = both(spec, dtype, **options)
    limit = LIMITS[dtype]
    assert error(got[0], want[0]) < limit
    seen = want[1].isfinite()
    assert torch.equal(got[1].cpu().isfinite(), seen)
    # Where less than the smallest normal number is left, the logarithm is an upper bound.
    lse = [x.double().cpu()[seen].clamp_min(-87.0) for x in (got[1], want[1])]
    # A sum over the row, whose scores are rounded where a rotation is: relative to its size.
    assert ((lse[0] - lse[1]).abs() / (1 + lse[1].abs())).max() < max(limit, 1e-3)
    for name, g, w in zip("qkv", got[2], want[2]):
        assert error(g, w) < 2 * limit, f"gradient of {name}: {error(g, w)}"


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("head_dim", [64, 128, 40])
@pytest.mark.parametrize("spec", SPECS)
def test_agrees_with_the_reference(spec, head_dim, dtype):
    check(spec, dtype, queries=301, keys=301, head_dim=head_dim, causal=True)


@pytest.mark.parametrize("shift", [-6.0, 0.0, 4.0])
def test_agrees_where_shares_are_closed_or_open(shift):
    check("stick_breaking", torch.bfloat16, queries=700, keys=700, shift=shift, causal=True)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True, "window_left": 50},
        {"causal": True, "queries": 40, "keys": 150},
        {"causal": True, "queries": 1, "keys": 150},
        {"causal": True, "key_mask": torch.arange(130).repeat(2, 1) < torch.tensor([[70], [130]])},
        {"causal": True, "cu_queries": torch.tensor([0, 60, 63, 130])},
    ],
)
def test_masks(spec, options):
    check(spec, torch.bfloat16, **options)


def test_is_fused_and_linear_in_memory():
    shape = {"heads": 4, "queries": 4096, "keys": 4096, "head_dim": 64}
    said = posenc.explain("stick_breaking", device="cuda", dtype="bfloat16", **shape)
    assert said.startswith("fused") and "backward: fused" in said
    rows = [torch.randn(1, 4, 16384, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    torch.cuda.reset_peak_memory_stats()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posenc.attention(*rows, "stick_breaking", causal=True).float().sum().backward()
    assert torch.ops.posenc._last_path() == "fused"
    assert torch.cuda.max_memory_allocated() < 1 << 30  # scores alone would be 4 GiB in float32


def test_two_runs_have_the_same_bits():
    rows = [torch.randn(2, 4, 700, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    grad_out = torch.randn_like(rows[0])
    runs = []
    for _ in range(2):
        out = posenc.attention(*rows, "alibi + stick_breaking", causal=True)
        runs.append([out, *torch.autograd.grad(out, rows, grad_out)])
    assert all(torch.equal(a, b) for a, b in zip(*runs))
