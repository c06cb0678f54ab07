"""The encodings of 2024 to 2026 from Python: golden values, and float32 and bfloat16 against the float64 reference."""

import json
import os

import pytest
import torch

import posenc
from posenc import angles
from test_cuda import REASON, error

GOLDEN = os.path.join(os.path.dirname(__file__), "../../tests/golden/next_reference.json")
DEVICES = ["cpu"] + ([] if REASON else ["cuda"])
# |got - want| / |want| of outputs and of gradients.
LIMITS = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
SPECS = [
    "rope(angles=input)",
    "rope + rope(angles=input, running=true, layout=interleaved, rotary_dim=16) + alibi(trainable=true)",
    "rope(angles=input_position, running=true) + cope(npos_max=16)",
    "rope(values=true) + alibi(trainable=true)",
    "rope + temperature(kind=log, floor=20, scale=0.5)",
    "rope + temperature(kind=ssmax) + cope(npos_max=16)",
    "temperature(kind=step, floor=10) + fox + sink",
    "rope + relative_query(extent=20, beyond=clip)",
    "relative_query(extent=40, source=input, rank=8, per_head=true, init_std=0.5) + sink",
    "relative_query(extent=10, bidirectional=true, init_std=0.5) + softcap(cap=2)",
    "rope + relative_query(extent=20, side=key, beyond=clip, bidirectional=true, init_std=0.3)",
    "relative_query(extent=8, buckets=log, max_distance=40, bidirectional=true, per_head=true) + "
    "relative_query(extent=8, buckets=log, max_distance=40, bidirectional=true, side=key)",
    "rope + relative_query(extent=70, vectors=true, per_head=true, init_std=0.3)",
    "relative_2d(height=6, width=9, init_std=1) + relative_2d(height=6, width=9, separable=true)",
    "rope + grape_ap(rank=4) + alibi(trainable=true)",
    "grape_ap(rank=3, separate=true) + sink",
    "rope + fox(bidirectional=true)",
    "stick_breaking",
    "rope + fox + alibi(trainable=true) + stick_breaking",
    "path",
    "path + fox + alibi(trainable=true) + sink",
    "path + temperature(kind=log, floor=20, scale=0.5) + stick_breaking",
    "wall",
    "wall + fox + relative_query(extent=20, beyond=clip)",
]


def tensor(entry, device="cpu", dtype=torch.float32):
    return torch.tensor(entry["values"], dtype=torch.float64).reshape(entry["shape"]).to(device, dtype)


with open(GOLDEN, encoding="utf-8") as file:
    CASES = json.load(file)["cases"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_golden_values(case, device):
    rows = {n: tensor(case[n], device).requires_grad_() for n in "qkv"}
    params = {n: tensor(x, device).requires_grad_() for n, x in case["params"].items()}
    inputs = {n: tensor(x, device).requires_grad_() for n, x in case["inputs"].items()}
    out = posenc.attention(
        rows["q"], rows["k"], rows["v"], case["spec"], params, inputs=inputs, causal=case["causal"]
    )
    assert (out.detach().cpu() - tensor(case["out"])).abs().max() < 3e-5
    out.backward(tensor(case["grad_out"], device))
    for name, x in {**rows, **params, **inputs}.items():
        want = tensor(case["gradients"][name])
        assert ((x.grad.cpu() - want).abs() / (1 + want.abs())).max() < 3e-5, name


def results(spec, device, dtype, rows, params, inputs, grad_out, options):
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    leaves = [x.to(device, dtype).requires_grad_() for x in rows]
    params = {n: x.to(device, wide).requires_grad_() for n, x in params.items()}
    kinds = {i.name: wide if i.float32 else dtype for i in posenc.Spec(spec).inputs(rows[0].shape[3], rows[0].shape[1])}
    inputs = {n: x.to(device, kinds[n]).requires_grad_() for n, x in inputs.items()}
    where = {n: x.to(device) if torch.is_tensor(x) else x for n, x in options.items()}
    out = posenc.attention(*leaves, spec, params, inputs=inputs, **where)
    named = dict(zip("qkv", leaves)) | params | inputs
    gradients = torch.autograd.grad(out, list(named.values()), grad_out.to(out), allow_unused=True)
    return {"out": out, **dict(zip(named, gradients))}


def check(spec, device, dtype, queries=70, keys=70, **options):
    heads, kv_heads, dim = 4, 2, 32
    rows = [torch.randn(2, heads, queries, dim)] + [torch.randn(2, kv_heads, keys, dim) for _ in range(2)]
    rows = [x.to(dtype) for x in rows]
    parsed = posenc.Spec(spec)
    params = {n: x + 0.1 * torch.randn_like(x) for n, x in parsed.initial_parameters(dim, heads).items()}
    inputs = {}
    for i in parsed.inputs(dim, heads):
        shape = (2, heads if i.by_query_head else kv_heads, keys, i.channels)
        inputs[i.name] = torch.randn(shape).to(torch.float32 if i.float32 else dtype)
        if spec.startswith(("path", "wall")) and i.name != "fox.log_f":
            inputs[i.name] = i.activate(inputs[i.name] - i.shift)
    if "fox.log_f" in inputs:
        inputs["fox.log_f"] = -inputs["fox.log_f"].abs() / 4
    grad_out = torch.randn_like(rows[0])
    got = results(spec, device, dtype, rows, params, inputs, grad_out, options)
    want = results(spec, "cpu", torch.float64, rows, params, inputs, grad_out, options)
    for name, value in want.items():
        if value is None or value.norm() < 1e-6:
            continue
        limit = LIMITS[dtype] * (1 if name == "out" else 2)
        assert error(got[name], value) < limit, f"{name}: {error(got[name], value)}"


@pytest.mark.filterwarnings("ignore:.*not fused.*")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spec", ["relative_2d", "rope(axes=axial(axes=2)) + relative_2d", "rope + relative_2d"])
def test_positions_of_two_coordinates(spec, device):
    """Rows from 3 and columns from -2 on: a shift of the image changes relative_2d and axial rotations by nothing."""
    q, k, v = torch.randn(3, 2, 2, 12, 16, device=device).unbind(0)
    spec = spec.replace("relative_2d", "relative_2d(height=3, width=4, init_std=1)")
    params = {n: x.to(device) for n, x in posenc.Spec(spec).initial_parameters(16, 2).items()}
    places = torch.arange(12, device=device)
    points = torch.stack([places // 4 + 3, places % 4 - 2], -1).expand(2, 12, 2)
    out = posenc.attention(q, k, v, spec, params, q_positions=points, k_positions=points)
    wide = {n: x.double() for n, x in params.items()}
    want = posenc.attention(q.double(), k.double(), v.double(), spec, wide, q_positions=points, k_positions=points)
    assert error(out, want) < 1e-5
    origin = points - points[:, :1]
    same = posenc.attention(q, k, v, spec, params, q_positions=origin, k_positions=origin)
    assert error(out, same) < 1e-5
    with pytest.raises(Exception, match="as many coordinates of queries as of keys"):
        posenc.attention(q, k, v, spec, params, q_positions=points, k_positions=places.expand(2, 12))


@pytest.mark.filterwarnings("ignore:.*no fused kernel.*")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("spec", SPECS)
def test_agrees_with_the_reference(spec, dtype, device):
    check(spec, device, dtype, causal=True)


@pytest.mark.filterwarnings("ignore:.*no fused kernel.*")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "options",
    [
        {"causal": True, "window_left": 20},
        {"causal": True, "queries": 3, "keys": 70},
        {"causal": True, "key_mask": torch.arange(70).repeat(2, 1) < torch.tensor([[40], [70]])},
        {"causal": True, "cu_queries": torch.tensor([0, 30, 33, 70])},
        {},
    ],
    ids=["window", "few queries", "padding", "packed", "both sides"],
)
@pytest.mark.parametrize("spec", SPECS)
def test_masks(spec, options, device):
    if posenc.Spec(spec).needs_causal and not options:
        pytest.skip("needs causal attention")
    check(spec, device, torch.float32, **options)


@pytest.mark.parametrize("device", DEVICES)
def test_narrower_values_have_the_bits_of_padded_ones(device):
    q, k, v = (torch.randn(2, 4, 20, d, device=device, requires_grad=True) for d in (24, 24, 16))
    out = posenc.attention(q, k, v, "rope + alibi", causal=True)
    zeros = torch.zeros(2, 4, 20, 8, device=device)
    same = posenc.attention(q, k, torch.cat([v, zeros], -1), "rope + alibi", causal=True)[..., :16]
    assert out.shape == v.shape and torch.equal(out, same)
    for got, want in zip(*(torch.autograd.grad(x.sin().sum(), (q, k, v)) for x in (out, same))):
        assert torch.equal(got, want)
    last = posenc.attention_decode(q[:, :, -1:], k, v, "rope + alibi")
    assert (last - out[:, :, -1:]).abs().max() < 1e-5


@pytest.mark.parametrize("device", DEVICES)
def test_wider_values(device):
    q, k, v = (torch.randn(2, 4, 20, d, device=device, requires_grad=True) for d in (16, 16, 24))
    out = posenc.attention(q, k, v, "rope + alibi", causal=True)
    parts = [posenc.attention(q, k, part, "rope + alibi", causal=True) for part in v.split([16, 8], -1)]
    assert out.shape == v.shape and (out - torch.cat(parts, -1)).abs().max() < 1e-5
    last = posenc.attention_decode(q[:, :, -1:], k, v, "rope + alibi")
    assert (last - out[:, :, -1:]).abs().max() < 1e-5


STEPS = [
    lambda: angles.LowRankSteps(32, 2 * 4),
    lambda: angles.SelectiveSteps(32, 2 * 4),
    lambda: angles.ContextualSteps(32, 2, 4),
]


@pytest.mark.parametrize("make", STEPS, ids=["MapFormer", "Selective RoPE", "CARoPE"])
def test_layers_of_angles(make):
    layer = posenc.nn.Attention(
        32,
        4,
        "rope(angles=input, running=true)",
        kv_heads=2,
        causal=True,
        input_layers={"rope.angles": make()},
    )
    x = torch.randn(2, 12, 32)
    out = layer(x)
    out.sin().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in layer.angle_proj.parameters())
    changed = x.clone()
    changed[:, 8:] += 1
    assert torch.allclose(layer(changed)[:, :8], out[:, :8], atol=1e-6)  # causal
    for chunks in ([7, 1, 1, 1, 1, 1], [1] * 12, [2, 5, 2, 3]):  # shorter and longer than a convolution
        cache = posenc.nn.KeyValueCache()
        steps = torch.cat([layer(part, cache=cache) for part in x.split(chunks, 1)], 1)
        assert torch.allclose(steps, out, atol=1e-5), chunks


def test_selective_steps_keep_the_rows_that_the_next_call_reads():
    steps = angles.SelectiveSteps(32, 8, rank=5, kernel=4)
    x = torch.randn(2, 9, 32)
    whole, _ = steps.resume(x, None)
    first, earlier = steps.resume(x[:, :2], None)
    second, earlier = steps.resume(x[:, 2:], earlier)
    assert torch.equal(whole, steps(x)) and torch.allclose(torch.cat([first, second], 1), whole, atol=1e-6)
    assert torch.allclose(earlier, steps.into(x)[:, -3:], atol=1e-6)
    one = angles.SelectiveSteps(32, 8, kernel=1)
    assert one.resume(x, None)[1].shape == (2, 0, 16) and one(x).shape == (2, 9, 8)


def test_a_layer_that_cannot_go_on_has_no_cache():
    class Mean(torch.nn.Linear):
        history = 3

    layer = posenc.nn.Attention(
        32, 4, "rope(angles=input, running=true)", causal=True, input_layers={"rope.angles": Mean(32, 16)}
    )
    with pytest.raises(posenc.Error, match=r"Mean reads 3 earlier tokens but has no method resume") as caught:
        layer(torch.randn(1, 1, 32), cache=posenc.nn.KeyValueCache())
    assert caught.value.kind == "unsupported"


def test_mixed_angles_depend_on_the_offset_alone():
    """A shift of all positions changes nothing, and with one axis the angles are those of RoPE."""
    q, k, v = torch.randn(3, 1, 4, 12, 16).unbind(0)
    grid = torch.cartesian_prod(torch.arange(3), torch.arange(4))
    layer = angles.MixedAngles(4, 8)
    outs = [
        posenc.attention(q, k, v, "rope(angles=input)", inputs={"rope.angles": layer(grid + shift)})
        for shift in (torch.tensor([0, 0]), torch.tensor([7, -3]))
    ]
    assert (outs[0] - outs[1]).abs().max() < 1e-5
    outs[0].sin().sum().backward()
    assert layer.frequency.grad.abs().max() > 0
    line = angles.MixedAngles(4, 8, axes=1, theta=10000.0)
    line.frequency.data.abs_()
    out = posenc.attention(q, k, v, "rope(angles=input)", inputs={"rope.angles": line(torch.arange(12)[:, None])})
    assert (out - posenc.attention(q, k, v, "rope")).abs().max() < 1e-5
    with pytest.raises(ValueError, match="3 coordinates"):
        layer(torch.zeros(5, 3))


def test_polar_attention_is_its_formula():
    q, k, v = torch.randn(3, 1, 2, 9, 8).unbind(0)
    delta = torch.randn(2, 8)
    q2, k2 = angles.polar(q, k, delta)
    out = posenc.attention(q2, k2, v, "rope(layout=interleaved)", scale=8**-0.5, causal=True)
    theta = 10000 ** (-torch.arange(8) / 8)
    apart = (torch.arange(9)[:, None] - torch.arange(9)[None]).float()
    phase = (apart[..., None] * theta + delta[:, None, None]).cos()  # [H, i, j, c]
    soft = torch.nn.functional.softplus
    scores = torch.einsum("bhic,bhjc,hijc->bhij", soft(q), soft(k), phase) * 8**-0.5
    scores = scores.masked_fill(apart < 0, float("-inf"))
    assert (out - scores.softmax(-1) @ v).abs().max() < 1e-5


def test_input_layers_are_named():
    with pytest.raises(ValueError, match="inputs of the spec are: none"):
        posenc.nn.Attention(32, 4, "rope", input_layers={"rope.angles": angles.LowRankSteps(32, 8)})


def test_bad_inputs_are_named():
    q = torch.randn(1, 2, 5, 8)
    with pytest.raises(Exception, match="rope.angles"):
        posenc.attention(q, q, q, "rope(angles=input)")
    with pytest.raises(Exception, match="relative_query.u"):
        spec = "relative_query(extent=4, source=input, rank=3)"
        params = {"relative_query.table": torch.randn(3, 4)}
        posenc.attention(q, q, q, spec, params, inputs={"relative_query.u": torch.randn(1, 2, 5, 4)})
    with pytest.raises(Exception, match="stick_breaking once and no sink"):
        posenc.attention(q, q, q, "stick_breaking + sink")
    for spec in ("rope(angles=input)", "rope(values=true)"):  # a rotation apart from attention has positions alone
        with pytest.raises(Exception, match="angles from positions"):
            posenc.rope(q, q, spec)
    with pytest.raises(Exception, match="running must be false"):
        posenc.attention(q, q, q, "rope(running=true)")


def dense_scores(name, q, k, inputs):
    """r_ij by the formula, with a matrix for every token: [B, H, T, T], without the scale."""
    length = q.shape[2]
    if name == "path":
        w, b = inputs["path.w"], inputs["path.b"]
        steps = torch.eye(q.shape[3], dtype=q.dtype) - b.unsqueeze(-1) * w.unsqueeze(-1) * w.unsqueeze(-2)
    else:
        steps = torch.diag_embed(inputs["wall.log_f"].exp())
    scores = q.new_zeros(*q.shape[:2], length, length)
    for i in range(length):
        y = q[:, :, i]
        for j in range(i, -1, -1):
            scores[:, :, i, j] = (k[:, :, j] * y).sum(-1)
            y = (steps[:, :, j] @ y.unsqueeze(-1)).squeeze(-1)
    return scores


@pytest.mark.filterwarnings("ignore:.*no fused kernel.*")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["path", "wall"])
def test_chains_are_products_of_matrices(name, device):
    q, k, v = torch.randn(3, 2, 3, 40, 8, dtype=torch.float64).unbind(0)
    inputs = {}
    for i in posenc.Spec(name).inputs(8, 3):
        inputs[i.name] = i.activate(torch.randn(2, 3, 40, i.channels, dtype=torch.float64) - i.shift)
    scores = dense_scores(name, q, k, inputs) / 8**0.5
    hidden = torch.ones(40, 40, dtype=torch.bool).triu(1)
    want = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
    for dtype, limit in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        rows = [x.to(device, dtype) for x in (q, k, v)]
        given = {n: x.to(device, dtype) for n, x in inputs.items()}
        out = posenc.attention(*rows, name, inputs=given, causal=True)
        assert (out.cpu().double() - want).abs().max() < limit


@pytest.mark.filterwarnings("ignore:.*no fused kernel.*")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("spec", ["path", "wall", "path + fox + sink"])
def test_modules_make_the_steps(spec, device):
    torch.manual_seed(3)
    layer = posenc.nn.Attention(32, 4, spec, kv_heads=2, causal=True).to(device)
    x = torch.randn(2, 30, 32, device=device)
    made = layer._token_inputs.make(layer, x)
    if "path" in spec:
        assert (made["path.w"].norm(dim=-1) - 1).abs().max() < 1e-4
        assert made["path.b"].min() > 0 and made["path.b"].max() < 2
    else:
        assert made["wall.log_f"].max() < 0 and made["wall.log_f"].min() > -1e-2
    out = layer(x)
    cache = posenc.nn.KeyValueCache()
    parts = [layer(part, cache=cache) for part in x.split([11, 1, 1, 17], dim=1)]
    assert (torch.cat(parts, 1) - out).abs().max() < 1e-5
    out.square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
    with pytest.raises(ValueError, match="pass causal=True"):
        posenc.nn.Attention(32, 4, spec)


@pytest.mark.parametrize("device", DEVICES)
def test_chains_refuse_what_they_cannot_mean(device):
    q, k, v = torch.randn(3, 1, 2, 5, 8, device=device).unbind(0)
    gates = torch.full((1, 2, 5, 8), -0.1, device=device)
    with pytest.raises((RuntimeError, ValueError), match="set causal=true"):
        posenc.attention(q, k, v, "wall", inputs={"wall.log_f": gates})
    gates[0, 1, 3, 2] = 0.25
    with pytest.raises((RuntimeError, ValueError), match="wall.log_f must be at most 0 but got 0.25"):
        posenc.attention(q, k, v, "wall", inputs={"wall.log_f": gates}, causal=True)
    with pytest.raises((RuntimeError, ValueError), match="do not commute"):
        posenc.attention(q, k, v, "rope + wall", inputs={"wall.log_f": -gates}, causal=True)
