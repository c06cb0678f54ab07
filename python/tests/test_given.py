"""Biases that the caller gives: tensors, and functions under a name."""

import pytest
import torch

import posenc

HEADS, KV_HEADS, DIM = 4, 2, 8


def rows(queries=7, keys=9, dtype=torch.float32, batch=2):
    torch.manual_seed(1)
    shapes = [(batch, HEADS, queries, DIM)] + [(batch, KV_HEADS, keys, DIM)] * 2
    return [torch.randn(s, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]


def plain(q, k, v, added, hidden):
    """softmax(q k^T / sqrt(D) + added) v from torch's own operations."""
    k, v = (x.repeat_interleave(HEADS // KV_HEADS, 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) / DIM**0.5 + added
    return scores.masked_fill(hidden, -1e30).softmax(-1) @ v  # a row that sees nothing has no NaN


def apart(queries, keys):
    """i - j, with queries at the last keys."""
    return torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)[None, :]


def same(found, wanted, leaves, atol):
    gradient = torch.randn_like(wanted)
    assert torch.allclose(found, wanted, atol=atol)
    for x, y in zip(torch.autograd.grad(found, leaves, gradient), torch.autograd.grad(wanted, leaves, gradient)):
        assert torch.allclose(x, y, atol=20 * atol)


@pytest.mark.parametrize("queries,keys", [(9, 9), (7, 9), (9, 4), (1, 9), (1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [True, False])
def test_a_bias_by_distance(queries, keys, dtype, causal):
    q, k, v = rows(queries, keys, dtype)
    bias = torch.randn(HEADS, queries + keys - 1, dtype=dtype, requires_grad=True)
    distance = apart(queries, keys)
    hidden = (distance < 0) if causal else torch.zeros_like(distance, dtype=torch.bool)
    seen = ~hidden.all(-1)
    found = posenc.attention(q, k, v, bias=bias, causal=causal)
    wanted = plain(q, k, v, bias[:, distance + queries - 1], hidden)
    same(found[:, :, seen], wanted[:, :, seen], [q, k, v, bias], 1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [True, False])
def test_a_bias_by_key(dtype, causal):
    q, k, v = rows(dtype=dtype)
    bias = torch.randn(2, HEADS, 9, dtype=dtype, requires_grad=True)
    distance = apart(7, 9)
    hidden = (distance < 0) if causal else torch.zeros_like(distance, dtype=torch.bool)
    found = posenc.attention(q, k, v, bias=bias, causal=causal)
    same(found, plain(q, k, v, bias[:, :, None, :], hidden), [q, k, v, bias], 1e-5 if dtype == torch.float32 else 1e-12)


def test_given_biases_go_through_the_fused_kernels():
    for spec in ("relative(max_distance=8, bidirectional=true)", "key_bias"):
        path = posenc.explain(spec, heads=HEADS, queries=64, keys=64, head_dim=DIM)
        assert path.startswith("fused") and "; backward: fused" in path, path


def test_a_bias_next_to_encodings_of_the_same_kind():
    q, k, v = rows(9, 9)
    weight = torch.randn(HEADS, 3)
    bias = torch.randn(HEADS, 17)
    spec = "rope + relative(max_distance=2)"
    found = posenc.attention(q, k, v, spec, {"relative.weight": weight}, bias=bias, causal=True)
    clipped = weight[:, torch.arange(-8, 9).clamp(0, 2)]
    wanted = posenc.attention(q, k, v, "rope", bias=bias + clipped, causal=True)
    assert torch.allclose(found, wanted, atol=1e-5)


def test_decoding_with_a_bias():
    q, k, v = rows(1, 9)
    bias = torch.randn(HEADS, 9)
    assert torch.allclose(
        posenc.attention_decode(q, k, v, bias=bias), posenc.attention(q, k, v, bias=bias, causal=True), atol=1e-6
    )


@pytest.mark.parametrize("shape", [(HEADS, 14), (HEADS + 1, 15), (2, HEADS, 8), (2, 1, 9), (9,), (2, HEADS, 7, 9)])
def test_biases_of_another_shape(shape):
    q, k, v = rows()
    with pytest.raises(ValueError, match="bias must be .H, Tq . Tk - 1."):
        posenc.attention(q, k, v, bias=torch.zeros(shape))


def test_a_bias_by_distance_with_positions():
    q, k, v = rows()
    with pytest.raises(ValueError, match="order of the tokens; leave q_positions and k_positions out"):
        posenc.attention(q, k, v, bias=torch.zeros(HEADS, 15), q_positions=torch.arange(7), k_positions=torch.arange(9))


@pytest.fixture
def decay():
    posenc.register(
        "decay",
        bias=lambda d, slope: -torch.nn.functional.softplus(slope)[:, None] * d.clamp(min=0) ** 0.5,
        params={"slope": lambda heads: torch.linspace(-1, 1, heads)},
    )
    yield
    posenc.unregister("decay")


def test_a_registered_bias(decay):
    q, k, v = rows(9, 9)
    slope = torch.randn(HEADS, requires_grad=True)
    found = posenc.attention(q, k, v, "decay", {"decay.slope": slope}, causal=True)
    distance = apart(9, 9)
    added = -torch.nn.functional.softplus(slope)[:, None, None] * distance.clamp(min=0).float() ** 0.5
    same(found, plain(q, k, v, added, distance < 0), [q, k, v, slope], 1e-5)


def test_a_registered_bias_in_a_module(decay):
    module = posenc.nn.Attention(32, HEADS, "rope + decay", kv_heads=KV_HEADS, causal=True)
    assert "pos.decay.slope" in dict(module.named_parameters())
    x = torch.randn(2, 11, 32)
    out = module(x)
    out.sum().backward()
    assert module.pos.decay.slope.grad.abs().sum() > 0
    cache = posenc.nn.KeyValueCache()
    steps = torch.cat([module(x[:, t : t + 1], cache=cache) for t in range(11)], 1)
    assert torch.allclose(steps, out, atol=1e-5)


def test_nothing_of_a_registered_bias_is_ignored(decay):
    q, k, v = rows()
    params = {"decay.slope": torch.ones(HEADS), "decay.slopes": torch.ones(HEADS)}
    with pytest.raises(ValueError, match="params has unknown .'decay.slopes'."):
        posenc.attention(q, k, v, "decay", params)
    with pytest.raises(ValueError, match="can be in a spec once"):
        posenc.attention(q, k, v, "decay + decay", {"decay.slope": torch.ones(HEADS)})
    with pytest.raises(ValueError, match="needs a row of scores, but the spec is rope . decay"):
        posenc.nn.LinearAttention(32, HEADS, "rope + decay")
    with pytest.raises(RuntimeError, match="decay"):
        posenc.linear_attention(q, k, v, "rope + decay")


def test_names_that_cannot_be_registered(decay):
    with pytest.raises(ValueError, match="posenc has an encoding 'rope'"):
        posenc.register("rope", bias=lambda d: d)
    with pytest.raises(ValueError, match="name must be lower case"):
        posenc.register("My bias", bias=lambda d: d)
    with pytest.raises(TypeError, match="bias must be a function"):
        posenc.register("mine", bias=3)
    with pytest.raises(ValueError, match="'mine' is not registered; registered are: decay"):
        posenc.unregister("mine")
    q, k, v = rows()
    with pytest.raises(ValueError, match="params lacks 'decay.slope'"):
        posenc.attention(q, k, v, "decay")
    posenc.register("wrong", bias=lambda d: d[:3])
    try:
        with pytest.raises(ValueError, match="bias of the registered wrong must return .4, 15."):
            posenc.attention(q, k, v, "wrong")
    finally:
        posenc.unregister("wrong")
