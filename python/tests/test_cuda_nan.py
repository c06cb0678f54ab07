"""NaN on a GPU: it reaches exactly the rows that see it, forward and backward, and what is hidden reaches none."""

import pytest
import torch

import posenc
from test_cuda import MORE_SPECS, REASON, problem, run
from test_functions import SPECS

pytestmark = pytest.mark.skipif(bool(REASON), reason=f"SKIPPED: {REASON}")

TYPES = [torch.bfloat16, torch.float16, torch.float32]
FUSED = [s for s in SPECS + MORE_SPECS if s.count("cope") < 2]
TOKENS = 150
PACKED = torch.tensor([0, 1, 60, 63, TOKENS])
PADDING = torch.rand(2, TOKENS, generator=torch.Generator().manual_seed(3)) < 0.7
MASKS = [
    {"causal": True},
    {},
    {"window_left": 20, "window_right": 3},
    {"causal": True, "window_left": 33},
    {"causal": True, "cu_queries": PACKED},
    {"causal": True, "key_mask": PADDING},
]


def visible(queries, keys, causal=False, window_left=-1, window_right=-1, cu_queries=None, key_mask=None):
    """[batch, queries, keys]: whether a query sees a key."""
    i = torch.arange(queries)[:, None] + keys - queries
    j = torch.arange(keys)[None, :]
    sees = torch.ones(queries, keys, dtype=torch.bool)
    if causal:
        sees &= j <= i
    if window_left >= 0:
        sees &= i - j <= window_left
    if window_right >= 0:
        sees &= j - i <= window_right
    if cu_queries is not None:
        sequence = torch.bucketize(torch.arange(keys), cu_queries[1:], right=True)
        sees &= sequence[:, None] == sequence[None, :]
    sees = sees.repeat(2, 1, 1)
    return sees if key_mask is None else sees & key_mask[:, None, :]


def predicted(where, token, sees, heads, kv_heads):
    """Rows of out, dq, dk and dv that are NaN; batch entry 1, head 0 was poisoned. Values do not enter the
    gradient of values."""
    batch, queries, keys = sees.shape
    out = torch.zeros(batch, heads, queries, dtype=torch.bool)
    dk = torch.zeros(batch, kv_heads, keys, dtype=torch.bool)
    if where in ("q", "grad_out"):
        lost = torch.zeros(queries, dtype=torch.bool)
        lost[token] = sees[1, token].any()
        out[1, 0] = lost
    else:
        lost = sees[1, :, token]
        out[1, : heads // kv_heads] = lost
    dk[1, 0] = sees[1][lost].any(0)
    dv = torch.zeros_like(dk) if where == "v" else dk
    return torch.zeros_like(out) if where == "grad_out" else out, out, dk, dv


def check(spec, dtype, where, token, options, tokens=TOKENS, **shape):
    heads, kv_heads = shape.get("heads", 4), shape.get("kv_heads", 2)
    _, (rows, params) = problem(spec, tokens, tokens, dtype, **shape)
    grad_out = torch.randn(rows[0].shape, device="cuda")
    index = {"q": 0, "k": 1, "v": 2, "gate_k": 3}.get(where)
    moved = {n: x.cuda() if isinstance(x, torch.Tensor) else x for n, x in options.items()}
    clean = run(rows, params, spec, grad_out, **moved)
    with torch.no_grad():
        (grad_out if index is None else rows[index])[1, 0, token, 3] = float("nan")
    got = run(rows, params, spec, grad_out, **moved)
    want = predicted(where, token, visible(tokens, tokens, **options), heads, kv_heads)
    dq, dk, dv = got[2][:3]
    name = f"{spec}, {dtype}, {options.keys()}, NaN in {where}"
    own_gates = "gate_source=value" in spec and where == "v"
    for index, x in enumerate([got[0], dq, dk, dv]):
        if own_gates and index == 3:
            continue
        if "gate_source=value" in spec and index == 3:
            continue  # gates of saturated keys have no gradient
        pattern = x.isnan().any(-1).cpu()
        wrong = (pattern != want[index]).sum().item()
        assert wrong == 0, f"{name}: {wrong} rows of {('out', 'dq', 'dk', 'dv')[index]}"
    keep = ~want[0]
    assert torch.allclose(got[0].cpu()[keep].float(), clean[0].cpu()[keep].float(), rtol=3e-2, atol=3e-2), name
    lost = want[1].any().item()
    for x in got[2][3 + ("separate" in spec) :]:
        assert lost or x.isfinite().all(), f"{name}: a parameter's gradient"


@pytest.mark.parametrize("where", ["q", "k", "v", "grad_out"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("spec", FUSED)
def test_every_encoding(spec, dtype, where):
    check(spec, dtype, where, 70, {"causal": True})


@pytest.mark.parametrize("where", ["q", "k", "v", "grad_out"])
@pytest.mark.parametrize("options", MASKS)
@pytest.mark.parametrize(
    "spec", ["none", "rope + alibi(trainable=true)", "cope(npos_max=16)", "fire(width=16, init_threshold=20)"]
)
def test_every_mask(spec, options, where):
    for token in (5, 61, TOKENS - 1):
        check(spec, torch.bfloat16, where, token, options)


@pytest.mark.parametrize("where", ["q", "k", "v", "grad_out"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("spec", ["none", "t5", "cope(npos_max=16)"])
def test_every_head_dimension(spec, head_dim, where):
    for dtype in TYPES[: 2 if head_dim == 256 else 3]:
        check(spec, dtype, where, 299, {"causal": True}, tokens=300, head_dim=head_dim)
        check(spec, dtype, where, 130, {"causal": True}, tokens=300, head_dim=head_dim)


@pytest.mark.parametrize("dtype", TYPES)
def test_gates(dtype):
    """No key is past the table, where gates no longer count."""
    check("cope(npos_max=300, gate_source=separate)", dtype, "gate_k", 70, {"causal": True})


@pytest.mark.parametrize("spec", [s for s in FUSED if posenc.Spec(s).initial_parameters(64, 4)])
@pytest.mark.parametrize("dtype", TYPES)
def test_parameters(spec, dtype):
    """A parameter that is NaN makes every row NaN, and its own gradient."""
    _, (rows, params) = problem(spec, 70, 70, dtype)
    for name in params:
        poisoned = {n: x.detach().clone().requires_grad_() for n, x in params.items()}
        with torch.no_grad():
            poisoned[name].fill_(float("nan"))
        grad_out = torch.randn(rows[0].shape, device="cuda")
        out, _, gradients = run(rows, poisoned, spec, grad_out, causal=True)
        lost = out.isnan().any(-1)
        if spec == "kerple(kernel=power)" and name == "kerple.p":
            lost = lost[:, :, 2:]  # 0 and 1 to any power are 0 and 1
        assert lost.all(), f"{spec}: {name}"
        own = list(params).index(name) - len(params)
        assert gradients[own].isnan().any(), f"{spec}: gradient of {name}"


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("spec", ["none", "alibi", "rope", "cope(npos_max=16)"])
def test_decoding_with_padding(spec, dtype):
    """Padding of a cache holds anything."""
    _, (rows, params) = problem(spec, 3, 1500, dtype)
    mask = torch.rand(2, 1500, device="cuda") < 0.7
    q, k, v = (x.detach() for x in rows[:3])
    with torch.no_grad():
        want = posenc.attention_decode(q, k, v, spec, params, key_mask=mask)
        for x in (k, v):
            x.masked_fill_(~mask[:, None, :, None], float("nan"))
        got = posenc.attention_decode(q, k, v, spec, params, key_mask=mask)
    assert torch.allclose(got, want, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("form", ["elu", "relu", "cosine"])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_linear_attention(form, where):
    _, (rows, params) = problem("rope", 200, 200, torch.bfloat16)
    index = "qkv".index(where)
    with torch.no_grad():
        rows[index][1, 0, 100, 3] = float("nan")
    out = posenc.linear_attention(*rows[:3], "rope", params, form=form, causal=True)
    pattern = out.isnan().any(-1).cpu()
    want = torch.zeros_like(pattern)
    if where == "q":
        want[1, 0, 100] = True
    else:
        want[1, :2, 100:] = True
    assert torch.equal(pattern, want)
