import math

import pytest
import torch

import posenc

SPECS = [
    "none",
    "rope",
    "rope(layout=interleaved, rotary_dim=4)",
    "rope(schedule=learnable)",
    "xpos",
    "alibi(trainable=true)",
    "t5(num_buckets=6, max_distance=5)",
    "kerple",
    "fire(width=3, init_threshold=2.7)",
    "relative(max_distance=3)",
    "cope(npos_max=3)",
    "cope(npos_max=3, gate_source=value)",
    "rope + alibi + cope(npos_max=3)",
]


def params_of(spec, heads=4, head_dim=8, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    values = posenc.Spec(spec).initial_parameters(head_dim, heads)
    moved = {}
    for name, value in values.items():
        noise = 0.3 * torch.randn(value.shape, generator=generator, dtype=torch.float64)
        start = value.double() + (noise.abs() if name.startswith("kerple") else noise)
        moved[name] = start.to(dtype).requires_grad_()
    return moved


def inputs(tokens=5, dtype=torch.float64, heads=4, kv_heads=2, head_dim=8):
    shapes = [(2, heads, tokens, head_dim)] + [(2, kv_heads, tokens, head_dim)] * 2
    return [torch.randn(s, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]


@pytest.mark.parametrize("spec", SPECS)
def test_gradcheck(spec):
    q, k, v = inputs()
    params = params_of(spec)

    def run(q, k, v, *values):
        return posenc.attention(q, k, v, spec, dict(zip(params, values)), causal=True)

    assert torch.autograd.gradcheck(run, (q, k, v, *params.values()))


@pytest.mark.parametrize("spec", [s for s in SPECS if params_of(s)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_that_nobody_asks_for(spec, dtype):
    q, k, v = inputs(dtype=dtype)
    params = params_of(spec, dtype=dtype)
    fixed = {name: x.detach() for name, x in params.items()}

    def gradients(values, leaves):
        out = posenc.attention(q, k, v, spec, values, causal=True)
        return torch.autograd.grad(out.sum(), leaves)

    want = gradients(params, [q, k, v, *params.values()])
    assert any(g.abs().max() > 0 for g in want[3:])
    for values in (params, fixed):
        for got, same in zip(gradients(values, [q, k, v]), want):
            assert torch.equal(got, same)


@pytest.mark.parametrize("form", ["elu", "relu", "cosine"])
def test_gradcheck_linear(form):
    q, k, v = inputs()

    def run(*tensors):
        return posenc.linear_attention(*tensors, "rope", form=form, epsilon=0.1, causal=True)

    assert torch.autograd.gradcheck(run, (q, k, v))


def test_gradcheck_rope():
    q, k, _ = inputs()
    alpha = params_of("rope(schedule=learnable)")

    def run(q, k, *values):
        return posenc.rope(q, k, "rope(schedule=learnable)", dict(zip(alpha, values)))

    assert torch.autograd.gradcheck(run, (q, k, *alpha.values()))
    assert torch.autograd.gradgradcheck(lambda q, k: posenc.rope(q, k), (q, k))


def test_gradcheck_rerotate():
    _, k, _ = inputs()
    places = torch.arange(5)

    def run(k):
        return posenc.rerotate(k, places, places + 3, "rope", "rope(schedule=linear(factor=2))")

    assert torch.autograd.gradcheck(run, (k,))
    assert torch.autograd.gradgradcheck(run, (k,))


@pytest.mark.parametrize("spec", ["rope", "rope + cope(npos_max=3)"])
def test_shapes_without_values(spec):
    params = {name: p.to("meta", torch.float32) for name, p in params_of(spec).items()}
    q, k, v = (x.detach().float().to("meta") for x in inputs())
    out, weights = posenc.attention(q, k, v, spec, params, return_weights=True)
    assert out.is_meta and weights.is_meta
    assert out.shape == q.shape and weights.shape == (2, 4, 5, 5)
    assert posenc.t5_buckets(torch.zeros(3, 5, dtype=torch.long, device="meta")).shape == (3, 5)


def test_shapes_of_rotations_and_linear_attention_without_values():
    q, k, v = (x.detach().float().to("meta") for x in inputs())
    places = torch.arange(5)
    found = [*posenc.rope(q, k), posenc.rerotate(k, places, places + 3), posenc.linear_attention(q, k, v, "rope")]
    assert all(x.is_meta for x in found)
    assert [x.shape for x in found] == [q.shape, k.shape, k.shape, q.shape]


def test_parity_with_an_eager_alibi():
    q, k, v = inputs(40, torch.float32, kv_heads=4)
    slopes = posenc.alibi_slopes(4).float()
    places = torch.arange(40)
    distance = places[:, None] - places[None, :]
    scores = q @ k.transpose(-1, -2) / math.sqrt(8) - slopes[:, None, None] * distance
    weights = scores.masked_fill(distance < 0, -math.inf).softmax(-1)
    out, looked_at = posenc.attention(q, k, v, "alibi", causal=True, return_weights=True)
    assert torch.allclose(out, weights @ v, atol=1e-5)
    assert torch.allclose(looked_at, weights, atol=1e-5)


def test_the_example_of_the_readme():
    q, k, v = inputs(30, torch.float32)
    e = torch.zeros(8, 64, requires_grad=True)
    out = posenc.attention(
        q, k, v, spec="rope + cope(npos_max=64)", params={"cope.pos_emb": e}, causal=True
    )
    out.square().sum().backward()
    assert e.grad.abs().max() > 0 and q.grad.shape == q.shape


def test_cope_counts_with_open_gates():
    q = torch.full((1, 1, 6, 8), 10.0)
    positions = posenc.cope_positions(q, q, q, "cope(npos_max=4)", params_of("cope(npos_max=4)", 1), causal=True)
    expected = [[min(i - j + 1, 3) if j <= i else 0 for j in range(6)] for i in range(6)]
    assert torch.allclose(positions[0, 0], torch.tensor(expected, dtype=torch.float32), atol=1e-3)


def test_open_gates_are_relative_position_vectors():
    """Shaw et al. 2018, written out: q_i . e[min(i - j + 1, last)] added to the score."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 20, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    e = torch.randn(8, 6, dtype=torch.float64, requires_grad=True)
    spec = "cope(npos_max=6, gate_source=open)"
    i, j = torch.arange(20)[:, None], torch.arange(20)
    vectors = (q @ e).gather(-1, (i - j + 1).clamp(0, 5).expand(2, 3, 20, 20))
    scores = (q @ k.transpose(-1, -2)) / math.sqrt(8) + vectors
    expected = scores.masked_fill(j > i, -math.inf).softmax(-1) @ v
    weight = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * weight).sum(), (q, k, v, e))
    for dtype, limit in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        out = posenc.attention(q.to(dtype), k.to(dtype), v.to(dtype), spec, {"cope.pos_emb": e.to(dtype)}, causal=True)
        torch.testing.assert_close(out, expected.to(dtype), rtol=limit, atol=limit)
        found = torch.autograd.grad((out * weight.to(dtype)).sum(), (q, k, v, e))
        for a, b in zip(found, wanted):
            torch.testing.assert_close(a, b, rtol=10 * limit, atol=10 * limit)


def test_tables_and_buckets():
    cos, sin = posenc.rope_tables(5, 8)
    frequency = 10000 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    assert torch.allclose(cos[0], torch.cos(torch.arange(5.0, dtype=torch.float64)[:, None] * frequency))
    assert torch.allclose(sin**2 + cos**2, torch.ones_like(cos))
    assert posenc.t5_buckets(torch.tensor([0, -1, -200, 3])).tolist() == [0, 1, 31, 0]


def test_decoding_continues_a_cache():
    q, k, v = inputs(33, torch.float32)
    whole = posenc.attention(q, k, v, "rope + alibi", causal=True)
    turned = posenc.rope(q, k)[1]
    last = posenc.attention_decode(q[:, :, -1:], turned, v, "rope + alibi", keys_are_turned=True)
    assert torch.allclose(last, whole[:, :, -1:], atol=1e-5)


CACHED = ["none", "rope + alibi", "cope(npos_max=8)", "fox"]


def decode_arguments(spec, dtype=torch.float32):
    q, k, v = (x.detach() for x in inputs(70, torch.float32))
    parameters = {"cope.pos_emb": torch.randn(q.shape[-1], 8)} if "cope" in spec else {}
    extra = {"fox.log_f": -torch.rand(*q.shape[:2], 70)} if "fox" in spec else {}
    return q[:, :, -2:].to(dtype), k, v, dict(spec=spec, params=parameters, inputs=extra)


@pytest.mark.parametrize("spec", CACHED)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_decoding_reads_a_cache_of_another_type(spec, dtype):
    q, k, v, others = decode_arguments(spec)
    k, v = k.to(dtype), v.to(dtype)
    wide = posenc.attention_decode(q, k.float(), v.float(), **others)
    assert torch.equal(posenc.attention_decode(q, k, v, **others), wide)
    assert torch.equal(posenc.attention_decode(q, k, v.float(), **others), wide)
    found = posenc.attention_decode(q.to(torch.bfloat16), k.float(), v, **others)
    assert found.dtype == torch.bfloat16 and (found.float() - wide).abs().max() < 2.0**-6 * wide.abs().max()


@pytest.mark.parametrize("spec", CACHED)
def test_decoding_reads_int8(spec):
    q, k, v, others = decode_arguments(spec)
    (k8, k_scales), (v8, v_scales) = posenc.quantize_rows(k), posenc.quantize_rows(v)
    assert k8.dtype == torch.int8 and k_scales.shape == (*k.shape[:3], 1)
    near_k, near_v = k8 * k_scales, v8 * v_scales
    assert ((near_k - k).abs() <= 0.501 * k_scales).all()
    want = posenc.attention_decode(q, near_k, near_v, **others)
    cache = dict(k_scales=k_scales, v_scales=v_scales, **others)
    torch.testing.assert_close(posenc.attention_decode(q, k8, v8, **cache), want, rtol=1e-5, atol=1e-5)
    mixed = posenc.attention_decode(q, k8, near_v, k_scales=k_scales, **others)
    torch.testing.assert_close(mixed, want, rtol=1e-5, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(posenc.attention_decode(q, k8, v8, **cache), want, rtol=1e-5, atol=1e-5)
    if spec != "fox":  # inputs stay [B, H, T]
        swapped = [x.transpose(1, 2) for x in (q, k8, v8, k_scales, v_scales)]
        found = posenc.attention_decode(*swapped[:3], k_scales=swapped[3], v_scales=swapped[4], layout="bthd", **others)
        torch.testing.assert_close(found.transpose(1, 2), want, rtol=1e-5, atol=1e-5)


def test_a_cache_that_is_not_read_is_refused():
    q, k, v, _ = decode_arguments("none")
    k8, scales = posenc.quantize_rows(k)
    refused = [
        (lambda: posenc.attention_decode(q, k8, v), "k_scales"),
        (lambda: posenc.attention_decode(q, k, v, k_scales=scales), "k_scales"),
        (lambda: posenc.attention_decode(q, k8, v, k_scales=scales.double()), "k_scales must be Float but got Double"),
        (lambda: posenc.attention_decode(q, k8, v, k_scales=scales[:, :, :3]), "k_scales"),
        (lambda: posenc.attention_decode(k, k8, v, k_scales=scales), "70 queries"),
        (lambda: posenc.attention_decode(q.double(), k, v), "but got Float with queries in Double"),
        (lambda: posenc.attention_decode(q, k.long(), v), "but got Long with queries in Float"),
        (lambda: posenc.attention_decode(q.requires_grad_(), k.half(), v.half()), "has no gradients"),
        (
            lambda: posenc.attention_decode(q.detach(), k8, v, k_scales=scales.clone().requires_grad_()),
            "has no gradients",
        ),
        (lambda: posenc.attention_decode(q.detach(), k.half().to("meta"), v.half()), "k and v must be on cpu"),
        (lambda: posenc.attention(q.detach(), k.half(), v.half()), "k must be Float as q is but got Half"),
        (lambda: posenc.quantize_rows(k.double()), "x must be float32, bfloat16 or float16 but got Double"),
        (lambda: posenc.quantize_rows(k[0]), "got 3 dimensions"),
    ]
    for call, words in refused:
        with pytest.raises(RuntimeError, match=words):
            call()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_storage_types(dtype):
    q, k, v = inputs(50, dtype)
    exact = posenc.attention(q.double(), k.double(), v.double(), "rope + alibi", causal=True)
    out = posenc.attention(q, k, v, "rope + alibi", causal=True)
    assert out.dtype == dtype
    assert (out.double() - exact).abs().max() < 2.0**-8 * exact.abs().max()


def test_mistakes_are_said_in_words():
    q, k, v = inputs(4, torch.float32)
    with pytest.raises(ValueError, match=r"params lacks 'cope.pos_emb' of shape \[8, 64\]"):
        posenc.attention(q, k, v, "cope")
    with pytest.raises(ValueError, match="must have shape"):
        posenc.attention(q, k, v, "cope", {"cope.pos_emb": torch.zeros(3, 3)})
    with pytest.raises(ValueError, match=r"must have shape \[8, 64\] but has \[8, 64, 1\]"):
        posenc.attention(q, k, v, "cope", {"cope.pos_emb": torch.zeros(8, 64, 1)})
    with pytest.raises(ValueError, match="unknown .*slope"):
        posenc.attention(q, k, v, "alibi", {"alibi.slope": torch.zeros(4)})
    with pytest.raises(RuntimeError, match="did you mean"):
        posenc.attention(q, k, v, "allibi")
    # A message that quotes half a character cannot be decoded, and arrived here empty.
    with pytest.raises(RuntimeError, match="needs .* at column 4 but got 'é'"):
        posenc.attention(q, k, v, "ropé")
    with pytest.raises(RuntimeError, match="é"):
        posenc.Spec("rope(" + 300 * "é" + "=1)")
    out = posenc.attention(q, k, v, "rope", causal=True)
    (first,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        first.sum().backward()
