"""Softcap on the GPU: the fused kernels against the float64 reference on the CPU."""

import warnings

import pytest
import torch

import posenc
from test_cuda import compare, error, pytestmark  # noqa: F401 (skips without a GPU)

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
SPECS = ["softcap(cap=2)", "rope + softcap(cap=50)", "alibi(trainable=true) + softcap(cap=2)", "t5 + softcap(cap=2) + sink"]


def slack(dtype):
    """The hardware's tanh is within 2**-11: as much as float16 rounds."""
    return 2.0 if dtype == torch.float16 else 1.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [64, 128, 40])
@pytest.mark.parametrize("spec", SPECS)
def test_agrees_with_the_reference(spec, head_dim, dtype):
    compare(spec, 301, 301, dtype, slack(dtype), head_dim=head_dim, causal=True)


@pytest.mark.parametrize("spec", ["softcap(cap=2)", "alibi(trainable=true) + softcap(cap=2)"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True, "window_left": 50},
        {"causal": True, "key_mask": torch.arange(130).repeat(2, 1) < torch.tensor([[70], [130]])},
        {"causal": True, "cu_queries": torch.tensor([0, 60, 63, 130])},
        {"causal": True, "head_dim": 256},
    ],
)
def test_masks(spec, options):
    compare(spec, 130, 130, torch.bfloat16, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("queries", [1, 5, 40])
def test_few_queries(queries, dtype):
    compare("softcap(cap=2)", queries, 400, dtype, slack(dtype), causal=True)


@pytest.mark.parametrize("spec", ["fire(width=8, init_threshold=20) + softcap(cap=2)", "cope(npos_max=8) + softcap(cap=2)"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_with_other_terms(spec, dtype):
    compare(spec, 130, 130, dtype, causal=True)


def test_a_high_cap_is_none():
    q, k, v = (torch.randn(1, 4, 300, 64, device="cuda") for _ in range(3))
    capped = posenc.attention(q, k, v, "softcap(cap=1000000)", causal=True)
    assert error(capped, posenc.attention(q, k, v, causal=True)) < 1e-5


def test_explain_and_warnings():
    for spec in SPECS:
        text = posenc.explain(spec, heads=4, queries=512, keys=512, head_dim=64, device="cuda", dtype="bfloat16")
        assert text.startswith("fused on cuda") and "softcap" in text and text.endswith("backward: fused")
    q, k, v = (torch.randn(1, 4, 300, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posenc.attention(q, k, v, "softcap", causal=True)
