"""Rotations by angles that an input gives, on the GPU: against the float64 reference on the CPU."""

import warnings

import pytest
import torch

import posenc
from test_cuda import error, pytestmark  # noqa: F401 (skips without a GPU)

# |got - want| / |want| of outputs and of gradients. The gradient of a sum of steps adds up the rounding of all tokens
# after it: four times that.
LIMITS = {torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.float32: 2e-4}
SPECS = [
    "rope(angles=input)",
    "rope(angles=input, layout=interleaved, rotary_dim=32, dim_offset=16)",
    "rope(angles=input, inverse=true, rotary_dim=10, dim_offset=3)",
    "rope(angles=input, running=true)",
    "rope(angles=input_position, running=true, theta=[10, 100])",
    "rope + rope(angles=input_position, layout=interleaved)",
    "rope(schedule=learnable) + rope(angles=input) + alibi",
    "rope(angles=input) + temperature(kind=log, floor=2) + fox",
]


def both(spec, dtype, queries=130, keys=130, kv_heads=2, head_dim=64, **options):
    """(out, gradients) of the GPU and of the reference, for the same numbers."""
    shapes = [(2, 4, queries, head_dim)] + [(2, kv_heads, keys, head_dim)] * 2
    leaves = [torch.randn(s).to(dtype) for s in shapes]
    names = []
    for info in posenc.Spec(spec).inputs(head_dim, 4):
        heads = 4 if "fox" in info.name else kv_heads
        names.append(info.name)
        x = torch.randn(2, heads, keys, info.channels)
        leaves.append(torch.nn.functional.logsigmoid(x + 2) if "fox" in info.name else 2 * x)
    grad_out = torch.randn(shapes[0]).to(dtype)
    found = []
    for device, kind in (("cuda", dtype), ("cpu", torch.float64)):
        given = [x.to(device, kind if i < 3 or device == "cpu" else torch.float32).requires_grad_()
                 for i, x in enumerate(leaves)]
        params = posenc.Spec(spec).initial_parameters(head_dim, 4)
        params = {n: x.to(device, torch.float64 if device == "cpu" else torch.float32) for n, x in params.items()}
        where = {n: x.to(device) if torch.is_tensor(x) else x for n, x in options.items()}
        out = posenc.attention(*given[:3], spec, params, inputs=dict(zip(names, given[3:])), **where)
        found.append((out, torch.autograd.grad(out, given, grad_out.to(out))))
    return found


def check(spec, dtype, **options):
    (out, gradients), (want, wanted) = both(spec, dtype, **options)
    assert error(out, want) < LIMITS[dtype], f"out {error(out, want)}"
    for index, (g, w) in enumerate(zip(gradients, wanted)):
        assert g.dtype == (dtype if index < 3 else torch.float32)
        assert error(g, w) < (2 if index < 3 else 4) * LIMITS[dtype], f"gradient {index}: {error(g, w)}"


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("spec", SPECS)
def test_agrees_with_the_reference(spec, dtype):
    check(spec, dtype, causal=True)


@pytest.mark.parametrize("spec", ["rope(angles=input)", "rope(angles=input, running=true)",
                                  "rope(angles=input_position, running=true)"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True, "queries": 40},
        {"causal": True, "queries": 150},  # the first queries have no token of their own
        {"causal": True, "queries": 1},
        {"causal": True, "key_mask": torch.arange(130).repeat(2, 1) < torch.tensor([[70], [130]])},
        {"causal": True, "cu_queries": torch.tensor([0, 60, 63, 130])},
        {"causal": True, "queries": 100, "cu_queries": torch.tensor([0, 40, 43, 100]),
         "cu_keys": torch.tensor([0, 60, 63, 130])},
        {"causal": True, "kv_heads": 4, "head_dim": 128},
    ],
)
def test_masks_and_lengths(spec, options):
    check(spec, torch.float32, **options)


def test_long_sums_are_exact():
    """Sums of 4,096 steps near 3: 12,000 radians, of which float32 has 0.001."""
    tokens = 4096
    steps = 3 + torch.rand(1, 1, tokens, 4)
    q, k, v = (torch.randn(1, 1, tokens, 8) for _ in range(3))
    spec = "rope(angles=input, running=true)"
    found = [posenc.attention(*(x.to(device, kind) for x in (q, k, v)), spec, causal=True,
                              inputs={"rope.angles": steps.to(device, kind)})
             for device, kind in (("cuda", torch.float32), ("cpu", torch.float64))]
    assert error(*found) < 1e-5


def test_explain_and_warnings():
    text = posenc.explain("rope(angles=input)", heads=4, queries=512, keys=512, head_dim=64,
                          device="cuda", dtype="bfloat16")
    assert text.startswith("fused on cuda") and text.endswith("backward: fused")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both("rope(angles=input)", torch.bfloat16, causal=True)


def test_two_runs_agree_bit_for_bit():
    for spec in ("rope(angles=input)", "rope(angles=input_position, running=true)"):
        runs = []
        for _ in range(2):
            torch.manual_seed(3)
            runs.append(both(spec, torch.bfloat16, queries=500, keys=500, causal=True)[0])
        for a, b in zip(runs[0][1], runs[1][1]):
            assert torch.equal(a, b)
