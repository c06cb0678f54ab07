"""A NaN or an overflow shows in exactly the rows that see it, on the CPU and, where there is one, a GPU."""

import math

import pytest
import torch

import posenc
from test_functions import SPECS, params_of

DEVICES = ["cpu"]
if torch.cuda.is_available():
    if torch._C._dispatch_has_kernel_for_dispatch_key("posenc::_attention", "CUDA"):
        DEVICES.append("cuda")

pytestmark = pytest.mark.parametrize("device", DEVICES)


def inputs(tokens, dtype, device, heads=4, kv_heads=2, head_dim=8):
    shapes = [(2, heads, tokens, head_dim)] + [(2, kv_heads, tokens, head_dim)] * 2
    return [torch.randn(s).to(device, dtype).requires_grad_() for s in shapes]


def nan_rows(x):
    """Rows that are NaN throughout; a row that is NaN in part fails."""
    nan = x.isnan()
    assert torch.equal(nan.all(-1), nan.any(-1))
    return nan.any(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_keys_that_are_all_nan(device, dtype):
    q, k, v = inputs(8, dtype, device)
    with torch.no_grad():
        k.fill_(math.nan)
    assert posenc.attention(q, k, v, "none").isnan().all()
    assert posenc.linear_attention(q, k, v, "rope").isnan().all()


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tokens, bad", [(64, 40), (300, 299), (300, 130)])
@pytest.mark.parametrize("which", ["k", "v"])
def test_one_bad_token(device, spec, dtype, tokens, bad, which):
    params = {name: x.to(device) for name, x in params_of(spec, dtype=dtype).items()}
    for causal in (True, False):
        q, k, v = inputs(tokens, dtype, device)
        with torch.no_grad():
            (k if which == "k" else v)[0, 1, bad] = math.nan
        out = posenc.attention(q, k, v, spec, params, causal=causal)
        seen = torch.zeros(2, 4, tokens, dtype=torch.bool, device=device)
        seen[0, 2:, bad if causal else 0 :] = True
        assert torch.equal(nan_rows(out), seen)
        out.sum().backward()
        assert torch.equal(nan_rows(q.grad), seen)
        # Every key is seen by the last query, but only in the heads that are NaN.
        dk = torch.zeros(2, 2, tokens, dtype=torch.bool, device=device)
        dk[0, 1] = True
        assert torch.equal(nan_rows(k.grad), dk)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_scale_that_is_nan(device, dtype):
    q, k, v = inputs(20, dtype, device)
    assert posenc.attention(q, k, v, "alibi", scale=math.nan).isnan().all()


def test_scores_that_overflow(device):
    q, k, v = inputs(20, torch.float32, device)
    assert posenc.attention(q * 3e19, k * 3e19, v, "none").isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_nan_in_a_table(device, dtype):
    spec = "t5(num_buckets=6, max_distance=5)"
    params = {name: x.detach().to(device) for name, x in params_of(spec, dtype=dtype).items()}
    params["t5.weight"][2, 3] = math.nan  # bucket 2 of head 3: a distance of 2
    params["t5.weight"].requires_grad_()
    q, k, v = inputs(20, dtype, device)
    out = posenc.attention(q, k, v, spec, params, causal=True)
    seen = torch.zeros(2, 4, 20, dtype=torch.bool, device=device)
    seen[:, 3, 2:] = True
    assert torch.equal(nan_rows(out), seen)
    out.sum().backward()
    assert params["t5.weight"].grad[2, 3].isnan()


def test_padding_may_hold_anything(device):
    mask = torch.ones(2, 200, dtype=torch.bool, device=device)
    mask[1, :70] = False
    hidden = ~mask[:, None, :, None]
    results = []
    for filler in (0.0, math.nan, 3e38, -math.inf):
        torch.manual_seed(3)
        q, k, v = inputs(200, torch.float32, device)
        with torch.no_grad():
            k.masked_fill_(hidden, filler)
            v.masked_fill_(hidden, filler)
        out = posenc.attention(q, k, v, "rope + cope(npos_max=8)", causal=True, key_mask=mask,
                               params={"cope.pos_emb": torch.ones(8, 8, device=device)})
        out.sum().backward()
        results.append((out, q.grad, k.grad, v.grad))
    for other in results[1:]:
        for got, want in zip(other, results[0]):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spec, channels", [("fox", 1), ("rope + fox(bidirectional=true)", 1), ("wall", 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_gates_that_are_nan(device, spec, channels, dtype):
    q, k, v = inputs(20, dtype, device, kv_heads=4)
    name = posenc.Spec(spec).inputs(head_dim=8, heads=4)[0].name
    log_f = torch.full((2, 4, 20, channels), -0.5, device=device, dtype=torch.promote_types(dtype, torch.float32))
    log_f[1, 2, 7, -1] = math.nan

    def call(mask=None):
        return posenc.attention(q, k, v, spec, inputs={name: log_f}, causal=True, key_mask=mask)

    if device == "cpu" or spec == "wall":
        place = "must be at most 0 but got NaN at batch entry 1, head 2, token 7"
        with pytest.raises((RuntimeError, ValueError), match=f"{name} {place}"):
            call()
    else:
        assert call()[1, 2, 7:].isnan().all()
    mask = torch.ones(2, 20, dtype=torch.bool, device=device)
    mask[1, 7] = False
    assert call(mask).isfinite().all()
