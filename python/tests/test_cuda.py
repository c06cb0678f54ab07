"""Operators on a GPU against the float64 reference on the CPU: every encoding, type and option."""

import math

import pytest
import torch

import posenc
from catalog_specs import catalog_specs
from test_functions import SPECS, params_of

REASON = "no CUDA device"
if torch.cuda.is_available():
    has_kernels = torch._C._dispatch_has_kernel_for_dispatch_key("posenc::_attention", "CUDA")
    REASON = "" if has_kernels else "posenc was built without CUDA"
pytestmark = pytest.mark.skipif(bool(REASON), reason=f"SKIPPED: {REASON}")

MORE_SPECS = [
    "rope(theta=[10000, 500000])",
    "rope(axes=axial(axes=2))",
    "rope(schedule=yarn(factor=4, original_max_position_embeddings=32))",
    "rope(inverse=true)",
    "kerple(kernel=power)",
    "t5(bidirectional=true)",
    "relative(max_distance=20, bidirectional=true)",
    "alibi(bidirectional=true, trainable=true)",
    "cope(npos_max=64)",
    "cope(npos_max=8, variant=alibi)",
    "cope(npos_max=8, logit_scale=sqrt_dim)",
    "cope(npos_max=8, gate_source=separate)",
    "rope + cope(npos_max=64, variant=alibi)",
    "fire(width=16, init_threshold=20) + t5",
    "alibi(trainable=true) + cope(npos_max=16, gates_see_bias=true)",
    "rope + t5 + kerple + cope(npos_max=16)",
    "rope + xpos + alibi",
    "cope(npos_max=8) + cope(npos_max=4)",
    "cope(npos_max=8) + sink",
]
# |got - want| / |want| for outputs, then gradients.
TOLERANCE = {
    torch.bfloat16: (8e-3, 2e-2),
    torch.float16: (1.5e-3, 4e-3),
    torch.float32: (1e-4, 2e-4),
    torch.float64: (1e-9, 1e-8),
}


def error(got, want, least=0.0):
    """|got - want| / |want|, or over `least` where what is wanted is nothing but rounding."""
    assert not torch.isnan(got).any(), "NaN"
    got, want = got.detach().double().cpu(), want.detach().double().cpu()
    scale = max(want.norm().item(), least)
    return (got - want).norm().item() / scale if scale > 0 else got.norm().item()


# The largest error of a row, over its largest number or, where that is more, the root mean square of all (or
# `least`: a single key has gradient 0): limits for outputs and gradients, and the worst that was found. A norm
# hides one wrong row among many.
ROW_TOLERANCE = {
    torch.bfloat16: (5e-2, 1.5e-1),
    torch.float16: (8e-3, 2.5e-2),
    torch.float32: (6e-4, 3e-3),
    torch.float64: (1e-8, 1e-7),
}
WORST_ROWS = {}


def row_error(got, want, least):
    got, want = got.detach().double().cpu(), want.detach().double().cpu()
    typical = want.square().mean().sqrt().item()
    largest = want.abs().amax(-1).clamp_min(max(typical, least))
    return ((got - want).abs().amax(-1) / largest).max().item() if want.numel() else 0.0


def check_rows(what, got, want, dtype, limit, least=1e-30):
    apart = row_error(got, want, least)
    name = (what, str(dtype))
    WORST_ROWS[name] = max(WORST_ROWS.get(name, (0.0, 0.0)), (apart / limit, apart))
    assert apart < limit, f"{what}: a row is off by {apart}"


def problem(spec, tokens, keys, dtype, heads=4, kv_heads=2, head_dim=64, batch=2, spread=1.0,
            table=1.0):
    """Inputs rounded to dtype, the same numbers on the GPU and in float64 on the CPU; parameters times
    `table`."""
    shapes = [(batch, heads, tokens, head_dim)] + [(batch, kv_heads, keys, head_dim)] * 3
    rows = [(spread * torch.randn(s, dtype=torch.float64)).to(dtype) for s in shapes]
    near = [x.double().requires_grad_() for x in rows]
    far = [x.cuda().requires_grad_() for x in rows]
    values = {n: table * x.detach() for n, x in params_of(spec, heads, head_dim).items()}
    kept = torch.float64 if dtype == torch.float64 else torch.float32
    near_params = {n: x.detach().to(kept).double().requires_grad_() for n, x in values.items()}
    far_params = {n: x.detach().to(kept).cuda().requires_grad_() for n, x in values.items()}
    return (near, near_params), (far, far_params)


def inputs_of(spec, gate_k):
    return {"cope.gate_k": gate_k} if "separate" in spec else {}


def run(rows, params, spec, grad_out, **options):
    q, k, v, gate_k = rows
    inputs = inputs_of(spec, gate_k)
    out, lse = posenc.attention(q, k, v, spec, params, inputs=inputs, return_lse=True, **options)
    leaves = [q, k, v, *inputs.values(), *params.values()]
    leaves = [x for x in leaves if x.requires_grad]
    gradients = torch.autograd.grad(out, leaves, grad_out.to(out), allow_unused=True)
    return out, lse, [g if g is not None else torch.zeros_like(x) for g, x in zip(gradients, leaves)]


def moved(options):
    return {n: x.cuda() if isinstance(x, torch.Tensor) else x for n, x in options.items()}


def compare(spec, tokens, keys, dtype, slack=1.0, **options):
    names = ("heads", "kv_heads", "head_dim", "batch", "table")
    shape = {n: options.pop(n) for n in names if n in options}
    near, far = problem(spec, tokens, keys, dtype, **shape)
    grad_out = torch.randn(near[0][0].shape, dtype=torch.float64).to(dtype).double()
    want = run(*near, spec, grad_out, **options)
    got = run(*far, spec, grad_out.cuda(), **moved(options))
    forward, backward = (slack * t for t in TOLERANCE[dtype])
    assert got[0].dtype == dtype and got[0].is_cuda
    assert error(got[0], want[0]) < forward, f"{spec}: out {error(got[0], want[0])}"
    check_rows("out", got[0], want[0], dtype, slack * ROW_TOLERANCE[dtype][0])
    seen = want[1].isfinite()
    assert torch.equal(got[1].cpu().isfinite(), seen)
    assert error(got[1].cpu()[seen], want[1][seen]) < forward
    for index, (g, w) in enumerate(zip(got[2], want[2])):
        if index < 2 and jumps(spec, dtype):
            continue
        # Parameters that softmax cannot see (FIRE's last bias) have no gradient but what the rounding of
        # outputs leaves of the sum over each row; the rest of FIRE's network has it too.
        least = (1e-1 if "fire" in spec else 1e-2) * grad_out.norm().item()
        apart = error(g, w, least=least if index > 2 else 0.0)
        assert apart < (1.5 if index > 2 else 1.0) * backward, f"{spec}: gradient {index}: {apart}"
        if index < 3 and "cope" not in spec:  # whose gradient jumps, in single rows
            least = 1e-2 * grad_out.square().mean().sqrt().item()
            check_rows("dq dk dv".split()[index], g, w, dtype, slack * ROW_TOLERANCE[dtype][1], least)


def expect_same_bits(spec, dtype):
    _, (rows, params) = problem(spec, 300, 300, dtype)
    grad_out = torch.randn(rows[0].shape, device="cuda")
    first = run(rows, params, spec, grad_out, causal=True)
    second = run(rows, params, spec, grad_out, causal=True)
    assert torch.equal(first[0], second[0])
    for a, b in zip(first[2], second[2]):
        assert torch.equal(a, b)


def jumps(spec, dtype):
    """Turned queries and keys are rounded to their type, gates from their scores too, and CoPE's gradient
    jumps where a position passes a whole number: not comparable with a reference that does not round, see
    below."""
    half = dtype in (torch.bfloat16, torch.float16)
    other = "variant=alibi" in spec or "gate_source" in spec
    return half and "rope" in spec and "cope" in spec and not other


@pytest.mark.parametrize("spec", SPECS + MORE_SPECS)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_every_encoding(spec, dtype):
    compare(spec, 67, 67, dtype, causal=True)


PACKED = torch.tensor([0, 1, 40, 40, 130])
PADDING = torch.arange(130).repeat(2, 1) >= torch.tensor([[50], [0]])
MASKS = [
    {},
    {"window_left": 20, "window_right": 3},
    {"causal": True, "window_left": 33},
    {"causal": True, "tokens": 40, "keys": 150},
    {"causal": True, "tokens": 150, "keys": 40},
    {"causal": True, "cu_queries": PACKED},
    {"causal": True, "key_mask": PADDING},
    {"causal": True, "dropout": 0.3, "seed": 7},
]


@pytest.mark.parametrize(
    "spec",
    [
        "none",
        "rope + alibi(trainable=true)",
        "cope(npos_max=16)",
        "fire(width=16, init_threshold=20)",
        "cope(npos_max=16, gate_source=separate)",
    ],
)
@pytest.mark.parametrize(
    "options",
    MASKS
    + [
        {"causal": True, "head_dim": 32},
        {"causal": True, "head_dim": 128, "heads": 2, "kv_heads": 2},
        {"causal": True, "head_dim": 256, "heads": 2, "kv_heads": 1, "batch": 1},
        {"causal": True, "head_dim": 80},
        {"causal": True, "head_dim": 20},
        {"causal": True, "scale": 0.3},
        {"tokens": 1, "keys": 1},
        {"causal": True, "tokens": 257, "keys": 257},
    ],
)
def test_options(spec, options):
    options = {"tokens": 130, "keys": 130, **options}
    compare(spec, options.pop("tokens"), options.pop("keys"), torch.bfloat16, **options)


def test_padding_and_positions():
    mask = torch.ones(2, 130, dtype=torch.bool)
    mask[0, :50] = False
    mask[1, 100:] = False
    compare("cope(npos_max=16)", 130, 130, torch.bfloat16, causal=True, key_mask=mask)
    ids = torch.randint(0, 500, (2, 130))
    for spec in ["rope", "rope + alibi", "fire(width=3, init_threshold=100)"]:
        compare(spec, 130, 130, torch.bfloat16, causal=True, q_positions=ids, k_positions=ids)


@pytest.mark.parametrize(
    "spec", ["none", "rope", "alibi", "t5", "cope(npos_max=16)", "rope + alibi + cope(npos_max=64)"]
)
@pytest.mark.parametrize("tokens", [1, 3, 8])
@pytest.mark.parametrize("head_dim", [64, 128, 40])
def test_decoding(spec, tokens, head_dim):
    near, far = problem(spec, tokens, 1500, torch.bfloat16, head_dim=head_dim, heads=8)
    with torch.no_grad():
        for options in [{}, {"window_left": 700}, {"key_mask": torch.rand(2, 1500) < 0.7}]:
            want = posenc.attention_decode(*near[0][:3], spec, near[1], **options)
            got = posenc.attention_decode(*far[0][:3], spec, far[1], **moved(options))
            assert error(got, want) < TOLERANCE[torch.bfloat16][0]


def test_a_cache_of_turned_keys():
    near, far = problem("rope", 33, 33, torch.float32)
    q, k, v, _ = far[0]
    whole = posenc.attention(q, k, v, "rope + alibi", causal=True)
    turned = posenc.rope(q, k)[1]
    last = posenc.attention_decode(q[:, :, -1:], turned, v, "rope + alibi", keys_are_turned=True)
    assert error(last, whole[:, :, -1:]) < 1e-5
    with pytest.raises(RuntimeError, match="keys_are_turned needs a rotation that does not follow"):
        posenc.attention_decode(q[:, :, -1:], turned, v, "xpos", keys_are_turned=True)


@pytest.mark.parametrize(
    "spec", ["rope + cope(npos_max=8)"] + catalog_specs("query/key", head_dim=16)
)
def test_a_cache_gives_what_one_pass_gives(spec):
    module = posenc.nn.Attention(64, 4, spec, kv_heads=2, causal=True).cuda()
    x = torch.randn(2, 30, 64, device="cuda")
    cache = posenc.nn.KeyValueCache()
    for step in (10, 5, 1, 1, 1, 7, 4, 1):
        end = cache.length + step
        out = module(x[:, end - step : end], cache=cache)
        assert torch.allclose(out, module(x[:, :end])[:, end - step :], atol=1e-4), end


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(
    "spec",
    [
        "rope",
        "rope(layout=interleaved)",
        "rope(rotary_dim=32, dim_offset=16)",
        "rope(layout=interleaved, rotary_dim=10, dim_offset=3)",
        "rope(inverse=true)",
        "rope(theta=[10000, 500000])",
        "rope(axes=axial(axes=2))",
        "xpos",
        "rope(schedule=learnable)",
        "rope(schedule=dynamic(factor=4, max_position_embeddings=32))",
    ],
)
def test_rope(spec, dtype):
    near, far = problem(spec, 50, 50, dtype)
    ids = torch.randint(0, 300, (2, 50, 2) if "axial" in spec else (2, 50))
    for positions in [None, ids, ids.int(), ids[0] if ids.dim() == 2 else ids]:
        results = []
        for rows, params in (near, far):
            given = positions.to(rows[0].device) if positions is not None else None
            q, k = posenc.rope(rows[0], rows[1], spec, params, positions=given)
            leaves = [rows[0], rows[1]] + list(params.values())
            torch.manual_seed(5)
            weights = [torch.randn(x.shape, dtype=torch.float64) for x in (q, k)]
            loss = sum((x.double() * w.to(x.device)).sum() for x, w in zip((q, k), weights))
            results.append([q, k] + list(torch.autograd.grad(loss, leaves)))
        for index, (want, got) in enumerate(zip(*results)):
            assert error(got, want) < 0.6 * TOLERANCE[dtype][1], index
    back = posenc.rope(*posenc.rope(*far[0][:2], "rope"), "rope", transposed=True)
    assert error(back[0], far[0][0]) < TOLERANCE[dtype][1]


def test_rope_strides_and_rerotation():
    x = torch.randn(2, 40, 6, 128, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    out = posenc.rope(x, x[:, :2])
    dense = posenc.rope(x.contiguous(), x[:, :2].contiguous())
    assert torch.equal(out[0], dense[0]) and torch.equal(out[1], dense[1])
    k = torch.randn(2, 2, 9, 16, device="cuda")
    places = torch.arange(9, device="cuda")
    turned = posenc.rope(k, k)[1]
    shifted = posenc.rerotate(turned, places, places + 5)
    assert error(shifted, posenc.rope(k, k, positions=places + 5)[1]) < 1e-6


@pytest.mark.parametrize("form", ["elu", "relu", "cosine"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(
    "options",
    [
        {"causal": True},
        {},
        {"causal": True, "tokens": 70, "keys": 200},
        {"causal": True, "tokens": 200, "keys": 70},
        {"causal": True, "cu_queries": torch.tensor([0, 3, 90, 90, 200])},
        {"causal": True, "head_dim": 128},
        {"causal": True, "spec": "rope(schedule=learnable)"},
        {"causal": True, "spec": "xpos"},
        {"causal": True, "key_mask": torch.arange(200).repeat(2, 1) % 3 > 0},
    ],
)
def test_linear_attention(form, dtype, options):
    options = dict(options)
    spec = options.pop("spec", "rope")
    tokens, keys = options.pop("tokens", 200), options.pop("keys", 200)
    head_dim = options.pop("head_dim", 64)
    near, far = problem(spec, tokens, keys, dtype, head_dim=head_dim)
    weights = torch.randn(near[0][0].shape, dtype=torch.float64)
    results = []
    for rows, params in (near, far):
        given = options if rows is near[0] else moved(options)
        out = posenc.linear_attention(*rows[:3], spec, params, form=form, epsilon=0.1, **given)
        leaves = rows[:3] + list(params.values())
        loss = (out.double() * weights.to(out.device)).sum()
        results.append([out] + list(torch.autograd.grad(loss, leaves)))
    for index, (want, got) in enumerate(zip(*results)):
        assert error(got, want) < TOLERANCE[dtype][min(index, 1)], index


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dtype):
        return x.to(dtype).double()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def rounded_rope_cope(q, k, v, e, dtype):
    """rope + cope in float64, but for the rounding of turned queries and keys."""
    places = torch.arange(q.shape[2], device=q.device)
    frequency = 10000 ** (-torch.arange(0, q.shape[3], 2, device=q.device).double() / q.shape[3])
    angles = places[:, None] * frequency

    def turned(x):
        a, b = x.chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return Rounded.apply(torch.cat([a * cos - b * sin, a * sin + b * cos], -1), dtype)

    scores = turned(q) @ turned(k).transpose(-1, -2) / math.sqrt(q.shape[3])
    hidden = places[:, None] < places[None, :]
    gates = scores.sigmoid().masked_fill(hidden, 0)
    last = e.shape[1] - 1
    positions = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=last)
    low = positions.detach().floor().long()
    table, weight = q @ e, positions - low
    logits = table.gather(-1, low) * (1 - weight) + table.gather(-1, (low + 1).clamp(max=last)) * weight
    return (scores + logits).masked_fill(hidden, -math.inf).softmax(-1) @ v


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("tokens", [67, 260])
def test_gradients_of_rope_with_cope(dtype, tokens):
    spec = "rope + cope(npos_max=16)"
    near, (rows, params) = problem(spec, tokens, tokens, dtype, kv_heads=4)
    exact = [x.detach().cuda().requires_grad_() for x in near[0][:3]]
    e = params["cope.pos_emb"].detach().double().requires_grad_()
    grad_out = torch.randn(rows[0].shape, device="cuda").to(dtype)
    want_out = rounded_rope_cope(*exact, e, dtype)
    want = torch.autograd.grad(want_out, [*exact, e], grad_out.double())
    got = run(rows, params, spec, grad_out, causal=True)
    assert error(got[0], want_out) < TOLERANCE[dtype][0]
    for g, w in zip(got[2], want):
        assert error(g, w) < TOLERANCE[dtype][1]


def eager(q, k, v, bias=None):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias.to(scores)
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v


@pytest.mark.parametrize("spec", ["none", "alibi"])
def test_no_worse_than_eager_in_bfloat16(spec):
    near, far = problem(spec, 500, 500, torch.bfloat16, kv_heads=4)
    places = torch.arange(500.0, device="cuda")
    slopes = posenc.alibi_slopes(4).cuda().float()[:, None, None]
    bias = -slopes * (places[:, None] - places[None, :]).clamp_min(0) if spec == "alibi" else None
    want = posenc.attention(*near[0][:3], spec, causal=True)
    weights = torch.randn(want.shape).bfloat16()
    want_gradients = torch.autograd.grad(want, near[0][:3], weights.double())

    def errors(call):
        out = call(*far[0][:3])
        gradients = torch.autograd.grad(out, far[0][:3], weights.cuda())
        return [error(out, want)] + [error(g, w) for g, w in zip(gradients, want_gradients)]

    ours = errors(lambda *x: posenc.attention(*x, spec, causal=True))
    theirs = errors(lambda *x: eager(*x, bias))
    for mine, other in zip(ours, theirs):
        assert mine <= 1.05 * other


@pytest.mark.parametrize("spec", ["rope + alibi(trainable=true)", "t5", "rope + cope(npos_max=16)"])
def test_two_runs_are_the_same_bits(spec):
    expect_same_bits(spec, torch.bfloat16)


def test_streams_do_not_matter():
    _, (rows, params) = problem("rope + cope(npos_max=16)", 300, 300, torch.bfloat16)
    want = posenc.attention(*rows[:3], "rope + cope(npos_max=16)", params, causal=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        got = posenc.attention(*rows[:3], "rope + cope(npos_max=16)", params, causal=True)
    torch.cuda.current_stream().wait_stream(side)
    assert torch.equal(got, want)


def test_empty_tensors():
    for shape in [(0, 4, 5, 64), (2, 4, 0, 64)]:
        x = torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        out = posenc.attention(x, x, x, "rope + alibi", causal=True)
        assert out.shape == shape
        out.sum().backward()
        assert posenc.rope(x, x)[0].shape == shape


def test_tables_on_the_device():
    relative = torch.arange(-300, 300)
    assert torch.equal(posenc.t5_buckets(relative.cuda()).cpu(), posenc.t5_buckets(relative))
    near, far = problem("cope(npos_max=8)", 20, 20, torch.float32)
    spec = "cope(npos_max=8)"
    want = posenc.cope_positions(*near[0][:3], spec, near[1], causal=True)
    got = posenc.cope_positions(*far[0][:3], spec, far[1], causal=True)
    assert error(got, want) < 1e-6


def test_opcheck():
    _, (rows, params) = problem("t5", 20, 20, torch.bfloat16)
    flat = params["t5.weight"].detach().reshape(-1).requires_grad_()
    options = ([], "t5", True, -1, -1, None, None, None, None, None, None, 0.0, 0, False)
    names = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(
        torch.ops.posenc._attention.default, (*rows[:3], flat, *options), test_utils=names
    )
    none = torch.empty(0, device="cuda")
    torch.library.opcheck(
        torch.ops.posenc._rope.default, (*rows[:2], none, "rope", None, False), test_utils=names
    )


@pytest.mark.parametrize("spec", ["rope + alibi", "rope + cope(npos_max=16)"])
def test_compile(spec):
    _, (rows, params) = problem(spec, 40, 40, torch.bfloat16)

    def call(q, k, v):
        return posenc.attention(q, k, v, spec, params, causal=True)

    eager_out = call(*rows[:3])
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")(*rows[:3])
    assert torch.equal(compiled, eager_out)


def test_autocast_trains():
    module = posenc.nn.Attention(64, 4, "rope + cope(npos_max=16)", causal=True).cuda()
    x = torch.randn(2, 40, 64, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = module(x)
    out.float().square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())
