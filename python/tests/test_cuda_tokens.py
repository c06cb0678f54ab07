"""Terms per token (FoX, a bias per key) on the GPU: the fused kernels against the float64 reference on the CPU."""

import pytest
import torch

import posenc
from test_cuda import error, pytestmark  # noqa: F401 (skips without a GPU)

# |got - want| / |want| of outputs and gradients; a gate's gradient is a sum over all pairs that it stands between, in
# which the rounding of the output does not cancel: twice that.
LIMITS = {torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.float32: 2e-4}
INPUTS = {"fox": "fox.log_f", "fox(scaled=true)": "fox.log_f", "key_bias": "key_bias.value"}


def gates(batch, heads, tokens, bias=2.0):
    return torch.nn.functional.logsigmoid(torch.randn(batch, heads, tokens, 1) + bias)


def both(spec, dtype, values, queries=130, keys=130, head_dim=64, kv_heads=2, **options):
    """(out, lse, gradients) of the GPU and of the reference, for the same numbers."""
    batch, heads = values.shape[:2]
    shapes = [(batch, heads, queries, head_dim)] + [(batch, kv_heads, keys, head_dim)] * 2
    rows = [torch.randn(s).to(dtype) for s in shapes]
    grad_out = torch.randn(shapes[0]).to(dtype)
    name = next(INPUTS[s] for s in INPUTS if s in spec)
    found = []
    for device, kind in (("cuda", dtype), ("cpu", torch.float64)):
        leaves = [x.to(device, kind).requires_grad_() for x in rows]
        value = values.to(device, torch.float32 if device == "cuda" else torch.float64)
        leaves.append(value.requires_grad_())
        where = {n: x.to(device) if torch.is_tensor(x) else x for n, x in options.items()}
        params = posenc.Spec(spec).initial_parameters(head_dim, heads)
        params = {n: x.to(device, leaves[3].dtype) for n, x in params.items()}
        out, lse = posenc.attention(*leaves[:3], spec, params, inputs={name: leaves[3]},
                                    return_lse=True, **where)
        found.append((out, lse, torch.autograd.grad(out, leaves, grad_out.to(out))))
    return found


def check(spec, dtype, values, **options):
    got, want = both(spec, dtype, values, **options)
    limit = LIMITS[dtype]
    assert error(got[0], want[0]) < limit, f"out {error(got[0], want[0])}"
    seen = want[1].isfinite()
    assert torch.equal(got[1].cpu().isfinite(), seen)
    assert (got[1].cpu().double()[seen] - want[1][seen]).abs().max() < max(limit, 1e-4)
    for name, g, w in zip(("q", "k", "v", "input"), got[2], want[2]):
        assert error(g, w) < 2 * limit, f"gradient of {name}: {error(g, w)}"


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("head_dim", [64, 128, 40])
@pytest.mark.parametrize("spec", INPUTS)
def test_agrees_with_the_reference(spec, head_dim, dtype):
    check(spec, dtype, gates(2, 4, 301), queries=301, keys=301, head_dim=head_dim, causal=True)


@pytest.mark.parametrize("spec", ["fox", "key_bias", "rope + fox", "alibi(trainable=true) + fox", "fox + sink"])
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
    check(spec, torch.bfloat16, gates(2, 4, options.get("keys", 130)), **options)


@pytest.mark.parametrize("dtype", LIMITS)
def test_is_exact_where_the_sum_is_a_hundred_thousand(dtype):
    values = gates(1, 2, 1000)
    values[:, :, 0] = -1e5  # a running sum in float32 would be off by up to 0.004 from here on
    check("fox", dtype, values, queries=1000, keys=1000, kv_heads=2, causal=True)


def test_strong_gates():
    """Sums are relative to one token of a block of up to 192: there they reach 4,800, of which float32 has 2**-12."""
    values = gates(1, 2, 1000, bias=-25.0)
    got, want = both("fox", torch.bfloat16, values, queries=1000, keys=1000, kv_heads=2, causal=True)
    assert error(got[0], want[0]) < 1e-2
    assert (got[1].cpu().double() - want[1]).abs().max() < 1e-2
    assert error(got[2][2], want[2][2]) < 1e-2  # of the values; what is left of the others is nothing but rounding


def test_explain_says_fused():
    text = posenc.explain("rope + fox", heads=4, queries=512, keys=512, head_dim=64, device="cuda",
                          dtype="bfloat16")
    assert text.startswith("fused on cuda") and "a term per token (fox)" in text
    assert text.endswith("backward: fused")


def test_memory_is_linear():
    peaks = []
    for tokens in (4096, 8192):
        q = torch.randn(1, 8, tokens, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        value = gates(1, 8, tokens).cuda().requires_grad_()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        posenc.attention(q, q, q, "fox", inputs={"fox.log_f": value}, causal=True).sum().backward()
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] < 2.2 * peaks[0]


def test_two_runs_agree_bit_for_bit():
    torch.manual_seed(3)
    first = both("fox", torch.bfloat16, gates(2, 4, 500), queries=500, keys=500, causal=True)[0]
    torch.manual_seed(3)
    again = both("fox", torch.bfloat16, gates(2, 4, 500), queries=500, keys=500, causal=True)[0]
    for a, b in zip(first[2], again[2]):
        assert torch.equal(a, b)


def test_pruning_leaves_out_what_hardly_matters():
    """Gates of mean 0.6: keys some hundred tokens away are left out, and a NaN among them does not show."""
    values = gates(2, 4, 1500, bias=0.5)
    torch.manual_seed(4)
    got, want = both("fox", torch.bfloat16, values, queries=1500, keys=1500, causal=True)
    torch.manual_seed(4)
    pruned = both("fox(prune=true)", torch.bfloat16, values, queries=1500, keys=1500, causal=True)[0]
    assert error(pruned[0], want[0]) < 1e-2
    for g, p in zip(got[2], pruned[2]):
        assert error(p, g) < 1e-2


def test_pruned_values_are_not_read():
    q, k, v = (torch.randn(1, 2, 2000, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    log_f = torch.full((1, 2, 2000, 1), -0.5, device="cuda")
    v[:, :, 0] = float("nan")
    for spec, shows in (("fox", True), ("fox(prune=true)", False), ("fox(prune=true) + alibi", True)):
        out = posenc.attention(q, k, v, spec, inputs={"fox.log_f": log_f}, causal=True)
        assert out[:, :, -1].isnan().any().item() == shows, spec
        assert out[:, :, 5].isnan().all()


def test_explain_says_that_keys_are_left_out():
    shape = {"heads": 4, "queries": 512, "keys": 512, "head_dim": 64, "device": "cuda", "dtype": "bfloat16"}
    assert "faded keys left out" in posenc.explain("rope + fox(prune=true)", **shape)
    assert "faded keys left out" not in posenc.explain("alibi + fox(prune=true)", **shape)
