"""The general kernels of the GPU: float32 as sums of two or three bfloat16 numbers, FIRE, CoPE with gates of other
keys and long tables. Against the float64 reference on the CPU."""

import pytest
import torch

import posenc
from test_cuda import MASKS, MORE_SPECS, REASON, compare, error, expect_same_bits, inputs_of, problem, run
from test_functions import SPECS

pytestmark = pytest.mark.skipif(bool(REASON), reason=f"SKIPPED: {REASON}")

HALVES = [torch.bfloat16, torch.float16]
TYPES = [*HALVES, torch.float32]
FIRE = "fire(width=32, init_threshold=40)"
GATES = [
    "cope(npos_max=16, gate_source=separate)",
    "cope(npos_max=16, gate_source=value)",
    "cope(npos_max=16, gate_source=separate, variant=alibi, logit_scale=sqrt_dim)",
    "rope + cope(npos_max=16, gate_source=separate)",
    "rope + alibi + cope(npos_max=16, gate_source=value)",
]
LONG = [
    "cope(npos_max=300)",
    "cope(npos_max=1024)",
    "cope(npos_max=1024, gate_source=separate)",
    "rope + cope(npos_max=300)",
]


@pytest.fixture(autouse=True)
def high():
    """Two bfloat16 numbers for a float32; tests that want three say so."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


def path(spec, dtype, **shape):
    shape = {"heads": 4, "kv_heads": 2, "queries": 300, "keys": 300, "head_dim": 64, **shape}
    return posenc.explain(spec, device="cuda", dtype=str(dtype).split(".")[1], **shape)


def compare_fused(spec, tokens, keys, dtype, **options):
    """Float32 within 2e-4, or within 1e-3 with CoPE, whose gradient jumps where a position passes a whole
    number; positions past 448 have fewer bits behind the point."""
    assert path(spec, dtype).startswith("fused on cuda")
    slack = 1.0
    if dtype == torch.float32 and "cope" in spec:
        slack = 15.0 if "1024" in spec else 5.0
    compare(spec, tokens, keys, dtype, slack=slack, **options)


@pytest.mark.parametrize("spec", [s for s in SPECS + MORE_SPECS if s.count("cope") < 2])
def test_float32_with_every_encoding(spec):
    compare_fused(spec, 67, 67, torch.float32, causal=True)


@pytest.mark.parametrize(
    "spec",
    ["none", "rope + alibi(trainable=true)", "xpos", "rope + cope(npos_max=16)", FIRE, GATES[0]],
)
@pytest.mark.parametrize(
    "options",
    MASKS
    + [
        {"causal": True, "head_dim": 128, "heads": 2, "kv_heads": 1},
        {"causal": True, "head_dim": 40},
        {"causal": True, "tokens": 1, "keys": 90},
        {"causal": True, "tokens": 257, "keys": 257},
    ],
)
def test_float32_with_every_mask(spec, options):
    options = {"tokens": 130, "keys": 130, **options}
    compare_fused(spec, options.pop("tokens"), options.pop("keys"), torch.float32, **options)


@pytest.mark.parametrize("spec", [s for s in SPECS + MORE_SPECS if s.count("cope") < 2])
def test_exact_float32_with_every_encoding(spec):
    """Within 5e-6 and 1e-5; with CoPE a position may still take the other side of a whole number."""
    torch.set_float32_matmul_precision("highest")
    assert "sums of three" in path(spec, torch.float32)
    compare(spec, 130, 130, torch.float32, slack=1.0 if "cope" in spec else 0.05, causal=True)


def test_float32_is_exact_unless_allowed():
    spec = "alibi(trainable=true)"
    (exact_rows, exact_params), (rows, params) = problem(spec, 260, 260, torch.float32)
    grad_out = torch.randn(rows[0].shape, dtype=torch.float64)
    want = run(exact_rows, exact_params, spec, grad_out, causal=True)
    errors = {}
    for precision in ("high", "highest"):
        torch.set_float32_matmul_precision(precision)
        got = run(rows, params, spec, grad_out.to("cuda", torch.float32), causal=True)
        errors[precision] = error(got[0], want[0])
    assert errors["high"] < 1e-4
    assert errors["highest"] < 2e-6
    assert errors["highest"] < errors["high"] / 4


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("options", MASKS)
def test_fire_trained(dtype, options):
    """Places before and beyond the threshold; all six parameters."""
    options = {"tokens": 130, "keys": 130, **options}
    compare_fused(FIRE, options.pop("tokens"), options.pop("keys"), dtype, **options)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "spec",
    [
        "fire(width=1, init_threshold=30)",
        "fire(width=100, init_threshold=30)",
        "rope + fire(init_threshold=30) + alibi(trainable=true)",
        "fire(init_threshold=30) + cope(npos_max=16)",
        "rope + fire(init_threshold=30) + cope(npos_max=16, gate_source=value)",
    ],
)
def test_fire_beside_others(spec, dtype):
    compare_fused(spec, 150, 150, dtype, causal=True)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("spec", GATES)
@pytest.mark.parametrize("options", [{"causal": True}, *MASKS])
def test_gates_of_other_keys(spec, dtype, options):
    options = {"tokens": 130, "keys": 130, **options}
    compare_fused(spec, options.pop("tokens"), options.pop("keys"), dtype, **options)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("spec", LONG)
def test_long_tables(spec, dtype):
    """Gates near one half: the last rows count past 300. The table is no steeper than trained ones: what
    is rounded in a position is multiplied by its slope, and hundreds of gates read the sum."""
    compare_fused(spec, 700, 700, dtype, causal=True, heads=2, kv_heads=1, batch=1, table=0.1)


@pytest.mark.parametrize("spec", ["alibi(trainable=true)", FIRE, *GATES[:2], LONG[0]])
def test_fixed_parameters_cost_no_gradient(spec):
    """The rows' gradients are the same, whether or not a parameter asks for its own."""
    _, (rows, params) = problem(spec, 150, 150, torch.bfloat16)
    grad_out = torch.randn(rows[0].shape, device="cuda")
    trained = run(rows, params, spec, grad_out, causal=True)
    fixed = {n: x.detach() for n, x in params.items()}
    frozen = run(rows, fixed, spec, grad_out, causal=True)
    assert len(frozen[2]) < len(trained[2])
    for got, want in zip(frozen[2], trained[2]):
        assert error(got, want) < 1e-3


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("spec", ["rope + t5", FIRE, GATES[0], GATES[3], LONG[1]])
def test_two_runs_are_the_same_bits(spec, dtype):
    expect_same_bits(spec, dtype)


def peak_bytes(spec, tokens, dtype, heads):
    shape = (1, heads, tokens, 64)
    rows = [torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True) for _ in range(4)]
    values = posenc.Spec(spec).initial_parameters(64, heads)
    params = {n: x.cuda().requires_grad_() for n, x in values.items()}
    grad_out = torch.randn(shape, device="cuda", dtype=dtype)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run(rows, params, spec, grad_out, causal=True)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize(
    ("spec", "dtype"),
    [
        ("none", torch.float32),
        ("t5", torch.float32),
        ("cope", torch.float32),
        (FIRE, torch.bfloat16),
        (FIRE, torch.float32),
        ("cope(gate_source=separate)", torch.bfloat16),
        ("cope(gate_source=value)", torch.bfloat16),
        ("cope(npos_max=1024)", torch.bfloat16),
    ],
)
def test_memory_is_linear(spec, dtype):
    heads = 4
    torch.cuda.empty_cache()
    half, whole = (peak_bytes(spec, tokens, dtype, heads) for tokens in (4096, 8192))
    scores = heads * 8192**2 * 4
    share = 2 if "1024" in spec else 4
    assert whole < scores / share, f"{whole / 2**20:.0f} MiB of {scores / 2**20:.0f}"
    # CoPE's sums per tile grow with the square until they fill a chunk, which they do not here, and partial
    # tables of biases until they fill their share.
    if "cope" not in spec:
        assert whole < 2.6 * half, f"{whole / half:.2f}"


@pytest.mark.parametrize("spec", [FIRE, GATES[0], GATES[1], LONG[1], "alibi"])
def test_one_query_after_many_keys(spec):
    """Decoding of what the decoding kernels do not know."""
    for dtype in TYPES:
        near, far = problem(spec, 1, 500, dtype)
        inputs = [inputs_of(spec, x[0][3]) for x in (near, far)]
        with torch.no_grad():
            want = posenc.attention_decode(*near[0][:3], spec, near[1], inputs=inputs[0])
            got = posenc.attention_decode(*far[0][:3], spec, far[1], inputs=inputs[1])
        assert error(got, want) < (8e-3 if dtype == torch.bfloat16 else 1.5e-3)
