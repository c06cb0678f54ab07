"""What explain says is what runs: every encoding of the catalogue and some mixes, on the CPU and where there is one on
a GPU."""

import warnings

import pytest
import torch

import posenc
from test_functions import SPECS, params_of

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
MORE = ["path + fox", "wall", "grape_ap", "relative_2d", "fox(bidirectional=true)",
        "relative_query(side=key)", "relative_query(vectors=true)",
        "cope + cope(npos_max=4)", "fire + fire", "fox + key_bias", "cope + fox", "cope(gate_source=value)",
        "stick_breaking", "rope + fox + stick_breaking", "relative_query(extent=8, beyond=clip)",
        "rope + relative_query(extent=8, source=input, rank=3)", "relative_query(extent=4) + cope(npos_max=4)"]
DTYPES = [torch.float32, torch.bfloat16, torch.float64]
# No kernel on a GPU serves 20 channels; the rotations here are for multiples of 16.
CASES = [(spec, 16) for spec in SPECS + MORE] + [(spec, 20) for spec in SPECS + MORE if "rope" not in spec]


def inputs_of(spec, heads, keys, dim, dtype, device):
    inputs = {}
    for info in posenc.Spec(spec).inputs(dim, heads):
        exact = torch.float32 if info.float32 and dtype != torch.float64 else dtype
        shape = (1, heads, keys, info.channels)
        inputs[info.name] = -torch.rand(shape, device=device).to(exact)
    return inputs


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", [4, 40])
@pytest.mark.parametrize(("spec", "head_dim"), CASES)
def test_explain_says_what_runs(spec, tokens, head_dim, dtype, device):
    q = torch.randn(1, 4, tokens, head_dim, device=device).to(dtype).requires_grad_()
    params = {n: x.to(device) for n, x in params_of(spec, 4, head_dim).items()}
    inputs = inputs_of(spec, 4, tokens, head_dim, dtype, device)
    shape = {"heads": 4, "queries": tokens, "keys": tokens, "head_dim": head_dim}
    said = posenc.explain(spec, device=device, dtype=str(dtype)[6:], **shape)
    forward, _, rest = said.partition("; backward: ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = posenc.attention(q, q, q, spec, params, inputs=inputs, causal=True)
    if dtype == torch.float64 and device == "cpu":
        assert said.startswith("reference (float64): float64")  # an operator of its own, which leaves no trace
        return
    assert forward.startswith(torch.ops.posenc._last_path())
    out.float().sum().backward()
    assert rest.startswith(torch.ops.posenc._last_path(backward=True))
