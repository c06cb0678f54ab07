"""Values and gradients of calls for test_stable.py: python3 stable_calls.py FILE saves them, with the library that is loaded."""

import os
import sys

import torch

if __name__ == "__main__":  # else conftest.py has set the path
    sys.path.insert(0, os.environ["POSENC_PYTHON"])

import posenc

SPECS = ("none", "rope", "rope + alibi", "rope + cope(npos_max=16)", "fox", "sink", "xpos(center=4)", "t5", "stick_breaking")
# Two sequences in a row of nine tokens.
PACKED = dict(cu_queries=torch.tensor([0, 4, 9]), cu_keys=torch.tensor([0, 4, 9]))
MASKED = dict(key_mask=torch.arange(9).expand(2, 9) < 7, window_left=3)
PLACED = dict(q_positions=torch.arange(9) * 2, k_positions=torch.arange(9) * 2)


def rows(dtype, *heads, tokens=9):
    return [torch.randn(2, h, tokens, 8, dtype=torch.float64).to(dtype).requires_grad_() for h in heads]


def with_gradients(out, leaves):
    return [out, *torch.autograd.grad(out.square().sum(), leaves)]


def attention(spec, dtype, **options):
    q, k, v = rows(dtype, 4, 2, 2)  # grouped heads
    params = {
        name: (value.double() + 0.1 * torch.randn(value.shape, dtype=torch.float64)).to(dtype).requires_grad_()
        for name, value in posenc.Spec(spec).initial_parameters(8, 4).items()
    }
    inputs = {i.name: -torch.rand(2, 4, 9, i.channels, dtype=torch.float64) for i in posenc.Spec(spec).inputs(8, 4)}
    inputs = {name: x.to(dtype).requires_grad_() for name, x in inputs.items()}
    out = posenc.attention(q, k, v, spec, params, causal=True, inputs=inputs, **options)
    return with_gradients(out, [q, k, v, *params.values(), *inputs.values()])


def widths(value_dim, dtype):
    q, k = rows(dtype, 4, 2)
    v = torch.randn(2, 2, 9, value_dim, dtype=torch.float64).to(dtype).requires_grad_()
    whole = with_gradients(posenc.attention(q, k, v, "rope + alibi", causal=True), [q, k, v])
    return [*whole, posenc.attention_decode(q.detach()[:, :, -1:], k.detach(), v.detach(), "rope")]


def rotation(spec, dtype):
    q, k = rows(dtype, 4, 2)
    params = {name: value.to(dtype).requires_grad_() for name, value in posenc.Spec(spec).initial_parameters(8, 4).items()}
    turned = posenc.rope(q, k, spec, params, positions=torch.arange(3, 12))
    moved = posenc.rerotate(turned[1], torch.arange(3, 12), torch.arange(9), "rope") if not params else turned[1]
    return with_gradients(torch.cat([turned[0], moved], 1), [q, k, *params.values()])


def linear(form, dtype):
    q, k, v = rows(dtype, 4, 2, 2)
    return with_gradients(posenc.linear_attention(q, k, v, "rope", causal=True, form=form), [q, k, v])


def module(dtype):
    torch.manual_seed(2)
    layer, x = posenc.nn.Attention(32, 4, "rope + cope(npos_max=16)", causal=True).to(dtype), torch.randn(2, 9, 32)
    out = with_gradients(layer(x.to(dtype)), list(layer.parameters()))
    cache = posenc.nn.KeyValueCache()
    with torch.no_grad():
        return out + [layer(token, cache=cache) for token in x.to(dtype).split(1, dim=1)]


def decoding(dtype):
    q, k, v = (x.detach() for x in rows(dtype, 4, 2, 2))
    found = [posenc.attention_decode(q[:, :, -1:], k, v, "rope")]
    if dtype == torch.float32:
        (k8, k_scales), (v8, v_scales) = posenc.quantize_rows(k), posenc.quantize_rows(v)
        found.append(posenc.attention_decode(q[:, :, -1:], k8, v8, "rope", k_scales=k_scales, v_scales=v_scales))
        found.append(posenc.attention_decode(q[:, :, -1:], k.bfloat16(), v.bfloat16(), "rope"))
        pools = [torch.cat([x, x.new_zeros(2, 2, 3, 8)], 2).reshape(2, 2, 3, 4, 8).permute(0, 2, 3, 1, 4).flatten(0, 1)
                 for x in (k, v)]  # [6 blocks, page of 4, 2 heads, 8]
        pages = dict(block_table=torch.arange(6, dtype=torch.int32).view(2, 3), cache_lengths=torch.tensor([9, 7]))
        found.append(posenc.attention_decode(q[:, :, -1:], *pools, "rope", **pages))
    return found


def looks(dtype):
    q, k, v = (x.detach() for x in rows(dtype, 4, 2, 2))
    _, weights = posenc.attention(q, k, v, "rope", causal=True, return_weights=True)
    tables = [posenc.alibi_slopes(6), *posenc.rope_tables(5, 8), posenc.t5_buckets(torch.arange(-9, 9))]
    return [weights, *tables, posenc.nn.PositionalEmbedding("sinusoidal", 8)(torch.zeros(1, 5, 8, dtype=dtype))]


def run(dtype):
    """Lists of tensors by the name of the call."""
    calls = {spec: (lambda spec=spec: attention(spec, dtype)) for spec in SPECS}
    calls["packed"] = lambda: attention("rope", dtype, **PACKED)
    calls["masked"] = lambda: attention("rope + alibi", dtype, **MASKED)
    calls["placed"] = lambda: attention("rope", dtype, **PLACED)
    calls["dropout"] = lambda: attention("rope", dtype, dropout=0.25, seed=7)
    calls |= {f"values of {n}": (lambda n=n: widths(n, dtype)) for n in (5, 12)}
    calls |= {f"rotation {s}": (lambda s=s: rotation(s, dtype)) for s in ("rope", "rope(schedule=learnable)")}
    calls |= {f"linear {form}": (lambda form=form: linear(form, dtype)) for form in ("elu", "relu", "cosine")}
    calls |= {"module": lambda: module(dtype), "decoding": lambda: decoding(dtype), "looks": lambda: looks(dtype)}
    found = {}
    for name, call in calls.items():
        torch.manual_seed(1)
        found[name] = [x.detach().double() for x in call()]
    return found


if __name__ == "__main__":
    torch.save({dtype: run(dtype) for dtype in (torch.float32, torch.float64)}, sys.argv[1])
