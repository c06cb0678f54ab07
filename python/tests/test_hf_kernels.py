"""The kernels for Hugging Face's hub, as their `kernels` package loads them: from a folder, under a name of its own."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
import torch

import posenc

FOLDER = Path(os.environ.get("POSENC_HF_KERNELS", Path(posenc.__file__).parents[2] / "hf_kernels"))
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the kernels are not built: -DPOSENC_HF_KERNELS=ON")


@pytest.fixture(scope="module")
def kernel():
    """Loads one by its repository's name."""

    def load(name):
        (variant,) = (FOLDER / name / "build").iterdir()
        module = json.loads((variant / "metadata.json").read_text(encoding="utf-8"))["id"] + "_module"
        if module not in sys.modules:
            spec = importlib.util.spec_from_file_location(module, variant / "__init__.py", submodule_search_locations=[str(variant)])
            sys.modules[module] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[module])
        return sys.modules[module]

    return load


def rows(*heads, grad=True):
    return [torch.randn(2, h, 7, 16, requires_grad=grad) for h in heads]


def equal_with_gradients(a, b, leaves):
    assert torch.allclose(a, b, atol=1e-6)
    for x, y in zip(*(torch.autograd.grad(out.square().sum(), leaves, retain_graph=True) for out in (a, b))):
        assert torch.allclose(x, y, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "spec", "positions"),
    [
        ({}, "rope", None),
        ({"theta": 500000.0, "offset": 5}, "rope(theta=500000)", torch.arange(5, 12)),
        ({"rotary_dim": 8, "dim_offset": 4}, "rope(rotary_dim=8, dim_offset=4)", None),
        ({"interleaved": True, "positions": torch.arange(7) * 3}, "rope(layout=interleaved)", torch.arange(7) * 3),
    ],
)
def test_rotary(kernel, options, spec, positions):
    q, k = rows(4, 2)
    module = kernel("posenc-rotary")
    assert sorted(module.__all__) == ["rerotate", "rotary", "rotary_of"]
    for got, wanted in zip(module.rotary(q, k, **options), posenc.rope(q, k, spec, positions=positions)):
        equal_with_gradients(got, wanted, [q if got.shape[1] == 4 else k])
    back = module.rotary(*module.rotary(q, k, **options), **options, transposed=True)
    assert torch.allclose(back[0], q, atol=1e-5) and torch.allclose(back[1], k, atol=1e-5)


def test_rotary_refuses_offset_with_positions(kernel):
    with pytest.raises(ValueError, match="add it to positions"):
        kernel("posenc-rotary").rotary(*rows(4, 2), offset=1, positions=torch.arange(7))


def test_rotary_compiles_and_its_operators_are_correct(kernel):
    q, k = rows(4, 2)
    module = kernel("posenc-rotary")
    torch.library.opcheck(module.ops._rope.default, (q, k, torch.empty(0), "rope", None, False))
    compiled = torch.compile(lambda q, k: module.rotary(q, k, offset=3), fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(q, k)[0], module.rotary(q, k, offset=3)[0])


def test_attention(kernel):
    q, k, v = rows(4, 2, 2)
    module = kernel("posenc-attention")
    e = torch.randn(16, 8, requires_grad=True)
    for spec, parameters, named in (("rope + alibi", [], None), ("cope(npos_max=8)", [e], {"cope.pos_emb": e})):
        got = module.attention(q, k, v, spec, parameters, causal=True)
        equal_with_gradients(got, posenc.attention(q, k, v, spec, named, causal=True), [q, k, v, *parameters])
    (k8, k_scales), (v8, v_scales) = module.quantize_rows(k.detach()), module.quantize_rows(v.detach())
    with torch.no_grad():
        options = dict(k_scales=k_scales, v_scales=v_scales)
        got = module.attention_of_cache(q[:, :, -1:], k8, v8, **options)
        assert torch.allclose(got, posenc.attention_decode(q[:, :, -1:], k8, v8, **options), atol=1e-6)
        pools = [x.permute(0, 2, 1, 3)[:, :, None].flatten(0, 1).contiguous() for x in (k, v)]  # pages of one token
        count = k.shape[2]
        pages = dict(
            block_table=torch.arange(2 * count, dtype=torch.int32).view(2, count), cache_lengths=torch.tensor([count, 3])
        )
        got = module.attention_of_cache(q[:, :, -1:], *pools, **pages)
        assert torch.allclose(got, posenc.attention_decode(q[:, :, -1:], *pools, "none", **pages), atol=1e-6)
        with pytest.raises(ValueError, match="belong together but got block_table alone"):
            module.attention_of_cache(q[:, :, -1:], *pools, block_table=pages["block_table"])


class Layer(torch.nn.Module):
    is_causal = True


def test_attention_function_of_transformers(kernel):
    q, k, v = rows(4, 2, 2)
    forward = kernel("posenc-attention").attention_forward
    seen = torch.ones(2, 7, dtype=torch.long)
    seen[0, :2] = 0
    sinks = torch.randn(4)
    got, weights = forward(Layer(), q, k, v, seen, scaling=0.3, sliding_window=4, s_aux=sinks)
    wanted = posenc.attention(
        q, k, v, "sink", {"sink.logit": sinks}, causal=True, window_left=3, key_mask=seen.bool(), scale=0.3
    )
    assert weights is None
    equal_with_gradients(got, wanted.transpose(1, 2), [q, k, v])
    got = forward(Layer(), q, k, v, None, softcap=20.0, is_causal=False)[0]
    assert torch.allclose(got, posenc.attention(q, k, v, "softcap(cap=20)").transpose(1, 2), atol=1e-6)
    with pytest.raises(ValueError, match="has 4 dimensions"):
        forward(Layer(), q, k, v, torch.zeros(2, 1, 7, 7))


def test_a_model_of_transformers(kernel):
    transformers = pytest.importorskip("transformers")
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    # What transformers does with attn_implementation="<repository>:attention_forward" after the download.
    ALL_ATTENTION_FUNCTIONS.register("posenc_kernel", kernel("posenc-attention").attention_forward)
    ALL_MASK_ATTENTION_FUNCTIONS.register("posenc_kernel", ALL_MASK_ATTENTION_FUNCTIONS["flash_attention_2"])
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    ids, mask = torch.randint(64, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    mask[0, :3] = 0
    with torch.no_grad():
        model.set_attn_implementation("eager")
        wanted = model(ids, attention_mask=mask).logits
        model.set_attn_implementation("posenc_kernel")
        got = model(ids, attention_mask=mask).logits
    assert torch.allclose(got[0, 3:], wanted[0, 3:], atol=1e-5) and torch.allclose(got[1], wanted[1], atol=1e-5)
