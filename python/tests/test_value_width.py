"""Values with fewer or more channels than queries and keys: gradients, caches, shapes without values, and PoPE."""

import pytest
import torch

import posenc
from catalog_specs import catalog_specs

TIED = ("values=true", "gate_source=value")
SPECS = [spec for spec in catalog_specs() if not any(tie in spec for tie in TIED)]
WIDTHS = [(8, 5), (8, 24)]


def made(spec, dtype, width, value_dim, queries=6, keys=6):
    """q, k, v, params and inputs of a spec, all with gradients."""
    torch.manual_seed(3)
    shapes = [(2, 4, queries, width), (2, 2, keys, width), (2, 2, keys, value_dim)]
    rows = [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]
    spec = posenc.Spec(spec)
    params = {
        name: (x.double() + 0.1 * torch.rand(x.shape, dtype=torch.float64)).to(dtype).requires_grad_()
        for name, x in spec.initial_parameters(width, 4).items()
    }
    inputs = {
        i.name: -torch.rand(2, 4 if i.by_query_head else 2, keys, i.channels, dtype=torch.float64).to(dtype)
        for i in spec.inputs(width, 4)
    }
    return rows, params, {name: x.requires_grad_() for name, x in inputs.items()}


@pytest.mark.parametrize("spec", ["none", "rope + alibi", "rope + cope(npos_max=3)", "fox + sink", "stick_breaking", "path"])
@pytest.mark.parametrize("width, value_dim", WIDTHS)
def test_gradcheck(spec, width, value_dim):
    rows, params, inputs = made(spec, torch.float64, width, value_dim, 3, 4)

    def run(q, k, v, *others):
        values = dict(zip([*params, *inputs], others))
        given = {name: values[name] for name in params}, {name: values[name] for name in inputs}
        return posenc.attention(q, k, v, spec, given[0], inputs=given[1], causal=True)

    assert torch.autograd.gradcheck(run, (*rows, *params.values(), *inputs.values()))


@pytest.mark.parametrize("width, value_dim", WIDTHS)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.filterwarnings("ignore:.*is not fused")
def test_every_encoding_against_its_own_weights(spec, width, value_dim):
    """The output is the product of the weights, which do not depend on values, and the values."""
    (q, k, v), params, inputs = made(spec, torch.float32, width, value_dim)
    out, weights = posenc.attention(q, k, v, spec, params, inputs=inputs, causal=True, return_weights=True)
    assert out.shape == (2, 4, 6, value_dim)
    torch.testing.assert_close(out, weights @ v.repeat_interleave(2, 1), atol=2e-5, rtol=1e-4)
    leaves = [q, k, v, *params.values(), *inputs.values()]
    wide, same = (torch.cat([v, v.new_zeros(*v.shape[:3], n)], -1) for n in (3, 0))
    found, want = (
        torch.autograd.grad(
            posenc.attention(q, k, x, spec, params, inputs=inputs, causal=True)[..., :value_dim].sin().sum(), leaves,
            allow_unused=True,
        )
        for x in (same, wide)
    )
    for one, other in zip(found, want):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int8])
def test_caches_of_every_type(dtype):
    q, k, v = torch.randn(2, 4, 1, 24), torch.randn(2, 2, 300, 24), torch.randn(2, 2, 300, 16)
    scales = {}
    stored, wide = (k.to(dtype), v.to(dtype)), (k, v)
    if dtype == torch.int8:
        (stored_k, k_scales), (stored_v, v_scales) = posenc.quantize_rows(k), posenc.quantize_rows(v)
        stored, scales = (stored_k, stored_v), dict(k_scales=k_scales, v_scales=v_scales)
        wide = stored_k * k_scales, stored_v * v_scales
    out = posenc.attention_decode(q, *stored, "rope + alibi", **scales)
    want = posenc.attention(q, *(x.float() for x in (wide if scales else stored)), "rope + alibi", causal=True)
    assert out.shape == (2, 4, 1, 16)
    torch.testing.assert_close(out, want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("value_dim", [16, 32])
@pytest.mark.parametrize("tokens_first", [False, True])
def test_shapes_without_values_are_those_of_a_call(value_dim, tokens_first):
    def rows(device):
        shapes = [(2, 4, 7, 24), (2, 2, 7, 24), (2, 2, 7, value_dim)]
        if not tokens_first:
            return [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
        return [torch.randn(b, t, h, d, device=device, requires_grad=True).transpose(1, 2) for b, h, t, d in shapes]

    outs = [posenc.attention(*rows(device), "rope", causal=True) for device in ("cpu", "meta")]
    assert outs[0].shape == outs[1].shape == (2, 4, 7, value_dim)
    assert outs[0].stride() == outs[1].stride()
    q, k, v = (x.detach() for x in rows("meta"))
    assert posenc.attention_decode(q, k, v.bfloat16()).shape == (2, 4, 7, value_dim)


def test_layouts():
    q, k, v = torch.randn(2, 9, 4, 24), torch.randn(2, 9, 2, 24), torch.randn(2, 9, 2, 10)
    out = posenc.attention(q, k, v, "rope", causal=True, layout="bthd")
    heads_first = posenc.attention(*(x.transpose(1, 2) for x in (q, k, v)), "rope", causal=True)
    assert out.shape == (2, 9, 4, 10) and out.is_contiguous()
    assert torch.equal(out.transpose(1, 2), heads_first)


def test_polar_scores():
    """PoPE has twice the channels in queries and keys, and D in values."""
    q, k, v = (torch.randn(2, h, 12, 8, requires_grad=True) for h in (4, 2, 2))
    delta = torch.randn(8)
    out = posenc.attention(*posenc.angles.polar(q, k, delta), v, "rope(layout=interleaved)", scale=8**-0.5, causal=True)
    theta = 10000.0 ** (-torch.arange(8) / 8)
    turn = (torch.arange(12)[:, None] - torch.arange(12))[..., None] * theta + delta
    radii = [torch.nn.functional.softplus(x) for x in (q, k.repeat_interleave(2, 1))]
    scores = torch.einsum("bhic,bhjc,ijc->bhij", *radii, turn.cos()) * 8**-0.5
    hidden = torch.ones(12, 12, dtype=torch.bool).triu(1)
    want = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v.repeat_interleave(2, 1)
    torch.testing.assert_close(out, want, atol=1e-5, rtol=1e-4)
    for one, other in zip(*(torch.autograd.grad(x.sin().sum(), (q, k, v)) for x in (out, want))):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_what_needs_one_width_says_so():
    q, k, v = torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 6)
    for spec in ("rope(values=true)", "cope(npos_max=4, gate_source=value)"):
        params = posenc.Spec(spec).initial_parameters(8, 2)
        name = spec.split("(")[0] + ("(values=true)" if "rope" in spec else "(gate_source=value)")
        for rows in ((q, k, v), (q.double(), k.double(), v.double())):
            with pytest.raises(posenc.Error) as refused:
                posenc.attention(*rows, spec, {n: p.to(rows[0].dtype) for n, p in params.items()}, causal=True)
            assert f"v must have 8 channels as q has with {name} but got 6" in str(refused.value)
    with pytest.raises(posenc.Error, match="v must have 8 channels but got 6|v must have 80 values"):
        posenc.linear_attention(q, k, v)


def test_explain_knows_the_width():
    shapes = dict(heads=8, queries=512, keys=512, head_dim=192)
    narrow, wide = (posenc.explain("rope", **shapes, value_dim=n) for n in (128, 192))
    assert narrow.startswith("fused") and narrow != wide and wide == posenc.explain("rope", **shapes)
    with pytest.raises(posenc.Error, match="value_dim must be >= 0 but got -1"):
        posenc.explain("rope", **shapes, value_dim=-1)
