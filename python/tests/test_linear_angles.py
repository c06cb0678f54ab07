"""Linear attention with rotations by an input: against sums over all pairs in float64, and against rope."""

import pytest
import torch

import posenc


def rotate(x, angles, interleaved):
    """Complex numbers: another way to say it."""
    pairs = angles.shape[-1]
    head, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    if interleaved:
        z = torch.view_as_complex(head.reshape(*head.shape[:-1], pairs, 2).contiguous())
    else:
        z = torch.complex(head[..., :pairs].contiguous(), head[..., pairs:].contiguous())
    z = z * torch.polar(torch.ones_like(angles), angles)
    turned = torch.view_as_real(z).flatten(-2) if interleaved else torch.cat([z.real, z.imag], -1)
    return torch.cat([turned, rest], -1)


def by_pairs(q, k, v, angles, form, seen, interleaved=False, epsilon=1e-3):
    group, missing = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    k, v, angles = (x.repeat_interleave(group, 1) for x in (k, v, angles))
    own = angles[:, :, missing:]
    if form == "cosine":
        unit = [torch.nn.functional.normalize(rotate(x, a, interleaved), dim=-1) for x, a in ((q, own), (k, angles))]
        top = bottom = 1 + unit[0] @ unit[1].transpose(-1, -2)
    else:
        phi = (lambda x: torch.nn.functional.elu(x) + 1) if form == "elu" else (lambda x: torch.relu(x) + epsilon)
        top = rotate(phi(q), own, interleaved) @ rotate(phi(k), angles, interleaved).transpose(-1, -2)
        bottom = phi(q) @ phi(k).transpose(-1, -2)
    top, bottom = top * seen, bottom * seen
    return (top @ v) / bottom.sum(-1, keepdim=True)


@pytest.mark.parametrize("form", ["elu", "relu", "cosine"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries, keys", [(300, 300), (7, 150)])
def test_agrees_with_sums_over_pairs(form, causal, queries, keys):
    torch.manual_seed(0)
    q = torch.randn(2, 4, queries, 16, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(2, 2, keys, 16, dtype=torch.float64, requires_grad=True) for _ in range(2))
    steps = torch.randn(2, 2, keys, 6, dtype=torch.float64, requires_grad=True)
    seen = torch.ones(queries, keys, dtype=torch.float64)
    seen = seen.tril(keys - queries) if causal else seen
    spec = "rope(angles=input, running=true, rotary_dim=12, layout=interleaved)"
    out = posenc.linear_attention(q, k, v, spec, form=form, causal=causal, inputs={"rope.angles": steps})
    want = by_pairs(q, k, v, steps.cumsum(2), form, seen, interleaved=True)
    assert torch.allclose(out, want, atol=1e-10)
    grad_out = torch.randn_like(out)
    got = torch.autograd.grad(out, [q, k, v, steps], grad_out)
    for one, other in zip(got, torch.autograd.grad(want, [q, k, v, steps], grad_out)):
        assert torch.allclose(one, other, atol=1e-9)


def test_angles_linear_in_the_position_are_rope():
    q, k, v = torch.randn(3, 1, 2, 200, 16).unbind(0)
    frequencies = 10000.0 ** (-torch.arange(8) / 8)
    angles = (torch.arange(200)[:, None] * frequencies).expand(1, 2, 200, 8)
    for spec, name, given in (
        ("rope(angles=input)", "rope.angles", angles),
        ("rope(angles=input_position)", "rope.position", torch.arange(200.0).reshape(1, 1, 200, 1).expand(1, 2, 200, 1)),
    ):
        out = posenc.linear_attention(q, k, v, spec, causal=True, inputs={name: given})
        assert torch.allclose(out, posenc.linear_attention(q, k, v, "rope", causal=True), atol=1e-4)


def test_padding_and_packing_are_sequences_apart():
    q, k, v = torch.randn(3, 1, 2, 90, 8).unbind(0)
    steps = torch.randn(1, 2, 90, 4)
    spec = "rope(angles=input, running=true)"

    def call(a, b, **options):
        rows = (x[:, :, a:b] for x in (q, k, v))
        return posenc.linear_attention(*rows, spec, causal=True, inputs={"rope.angles": steps[:, :, a:b]}, **options)

    packed = call(0, 90, cu_queries=torch.tensor([0, 30, 30, 90]))
    assert torch.allclose(packed, torch.cat([call(0, 30), call(30, 90)], 2), atol=1e-6)
    mask = torch.arange(90)[None] < 60
    assert torch.allclose(call(0, 90, key_mask=mask)[:, :, :60], call(0, 60), atol=1e-6)


def test_module_and_refusals():
    layer = posenc.nn.LinearAttention(32, 4, "rope(angles=input, running=true)", causal=True)
    layer(torch.randn(2, 20, 32)).sum().backward()
    assert layer.angle_proj.weight.grad.abs().sum() > 0
    q = torch.randn(1, 2, 5, 8)
    with pytest.raises(ValueError, match="inputs lacks 'rope.angles'"):
        posenc.linear_attention(q, q, q, "rope(angles=input)")
    with pytest.raises(ValueError, match=r"rope.angles must be \[1, 2, 5, 4\]"):
        posenc.linear_attention(q, q, q, "rope(angles=input)", inputs={"rope.angles": torch.zeros(1, 2, 5, 3)})
    with pytest.raises(ValueError, match="alone in a spec"):
        posenc.linear_attention(q, q, q, "rope + rope(angles=input)", inputs={"rope_2.angles": torch.zeros(1, 2, 5, 4)})
    with pytest.raises(ValueError, match="alibi.slopes"):
        posenc.linear_attention(
            q, q, q, "rope(angles=input)", {"alibi.slopes": torch.ones(2)}, inputs={"rope.angles": torch.zeros(1, 2, 5, 4)}
        )
    with pytest.raises(ValueError, match="reads no inputs"):
        posenc.linear_attention(q, q, q, "rope", inputs={"rope.angles": torch.zeros(1, 2, 5, 4)})
