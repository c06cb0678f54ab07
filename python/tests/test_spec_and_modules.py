import pytest
import torch
import torch.utils.checkpoint

import posenc
from catalog_specs import catalog_specs


def test_specs_are_values():
    spec = posenc.Spec("rope(theta=500000)") + "alibi"
    assert str(spec) == "rope(theta=500000) + alibi"
    assert posenc.Spec(spec.json) == spec
    assert posenc.Spec([{"rope": {"theta": 500000}}, "alibi"]).hash == spec.hash
    assert spec.encodings == ["rope", "alibi"]
    assert spec.part("bias") == posenc.Spec("alibi")
    assert posenc.Spec("none") + "none" == posenc.Spec("none")
    with pytest.raises(RuntimeError, match="theta"):
        posenc.Spec("rope(theta=-1)")


def test_parameters_have_names_and_shapes():
    parameters = posenc.Spec("alibi + cope(npos_max=16)").parameters(head_dim=8, heads=4)
    assert [(p.name, p.shape, p.trainable) for p in parameters] == [
        ("alibi.slopes", (4,), False),
        ("cope.pos_emb", (8, 16), True),
    ]


def test_modules_register_stable_names():
    module = posenc.nn.Attention(16, 4, "rope + alibi + t5 + cope(npos_max=4, gate_source=separate)")
    names = [name for name, _ in module.named_parameters()]
    assert names == [
        "q_proj.weight",
        "k_proj.weight",
        "v_proj.weight",
        "out_proj.weight",
        "pos.t5.weight",
        "pos.cope.pos_emb",
        "gate_proj.weight",
    ]
    assert [name for name, _ in module.named_buffers()] == ["pos.alibi.slopes"]


def test_inputs_have_names_and_layers():
    inputs = posenc.Spec("rope + fox + cope(npos_max=4, gate_source=separate)").inputs(head_dim=8, heads=4)
    assert [(i.name, i.channels, i.by_query_head, i.projection) for i in inputs] == [
        ("fox.log_f", 1, True, "forget_proj"),
        ("cope.gate_k", 8, False, "gate_proj"),
    ]
    module = posenc.nn.Attention(32, 4, "fox", kv_heads=2, causal=True)
    assert [name for name, _ in module.named_parameters()][-2:] == ["forget_proj.weight", "forget_proj.bias"]
    module(torch.randn(2, 5, 32)).sum().backward()
    assert module.forget_proj.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("steps", [[1] * 30, [10, 5, 1, 1, 1, 7, 9, 1, 1]], ids=["one", "chunks"])
@pytest.mark.parametrize(
    "spec",
    ["none", "rope + alibi", "rope + cope(npos_max=8)", "rope + xpos", "xpos + fire"]
    + ["cope(npos_max=8, gate_source=separate)", "rope + fox"]
    + catalog_specs("query/key"),
)
def test_a_cache_gives_what_one_pass_gives(spec, steps):
    """The last rows of one pass over the tokens so far, for the frequencies of that length."""
    module = posenc.nn.Attention(32, 4, spec, kv_heads=2, causal=True)
    x = torch.randn(2, sum(steps), 32)
    cache = posenc.nn.KeyValueCache()
    for step in steps:
        end = cache.length + step
        out = module(x[:, end - step : end], cache=cache)
        assert torch.allclose(out, module(x[:, :end])[:, end - step :], atol=1e-5), end


NOT_BY_DECODE_KERNELS = ["rope(values=true)", "grape_ap", "cope(npos_max=8) + cope(npos_max=4)"]


@pytest.mark.parametrize(
    "spec", ["none", "rope + alibi", "xpos + fire", "rope + cope(npos_max=8)", *NOT_BY_DECODE_KERNELS]
)
def test_a_cache_of_another_type_gives_nearly_what_one_pass_gives(spec):
    module = posenc.nn.Attention(32, 4, spec, kv_heads=2, causal=True)
    x = torch.randn(2, 30, 32)
    whole = module(x).detach()
    for dtype, limit in ((torch.float16, 2e-3), (torch.bfloat16, 2e-2), (torch.int8, 2e-2)):
        cache = posenc.nn.KeyValueCache(dtype=dtype)
        steps = x.split([20, 1, 1, 8], dim=1)
        parts = torch.cat([module(step, cache=cache) for step in steps], dim=1)
        assert cache.keys.dtype == cache.values.dtype == dtype and parts.dtype == torch.float32
        error = (parts - whole).abs().max()
        assert 0 < error < limit * whole.abs().max(), (dtype, error)


def test_a_cache_is_restored_as_often_as_wanted():
    """As speculative decoding does: each draft starts from the same tokens."""
    layers = {"rope.angles": posenc.angles.SelectiveSteps(32, 16)}
    module = posenc.nn.Attention(32, 2, "rope(angles=input)", causal=True, input_layers=layers)
    cache = posenc.nn.KeyValueCache()
    module(torch.randn(1, 6, 32), cache=cache)
    state = cache.state()
    drafts = torch.randn(3, 1, 2, 32)
    first = module(drafts[0], cache=cache)
    for draft in (*drafts[1:], drafts[0]):
        cache.restore(state)
        last = module(draft, cache=cache)
    torch.testing.assert_close(last, first, rtol=0, atol=0)


def test_a_cache_on_the_meta_device_has_shapes():
    module = posenc.nn.Attention(32, 4, "rope", causal=True).to("meta")
    assert module(torch.empty(2, 1, 32, device="meta"), cache=posenc.nn.KeyValueCache()).shape == (2, 1, 32)


def test_a_long_cache_of_xpos_gives_what_one_pass_gives():
    module = posenc.nn.Attention(32, 4, "xpos", kv_heads=2, causal=True)
    x = torch.randn(1, 400, 32)
    cache = posenc.nn.KeyValueCache()
    parts = [module(x[:, t : t + 1], cache=cache) for t in range(400)]
    assert torch.allclose(torch.cat(parts, 1), module(x), atol=1e-5)


def test_rotations_that_follow_the_length():
    dynamic = posenc.Spec("rope(schedule=dynamic(factor=2, max_position_embeddings=16)) + alibi")
    assert dynamic.follows_length and dynamic.cacheable_rotation is None
    fixed = dynamic.at_length(40)
    assert fixed.text == "rope(schedule=ntk(factor=4)) + alibi" and not fixed.follows_length
    assert fixed.cacheable_rotation == posenc.Spec("rope(schedule=ntk(factor=4))")
    assert posenc.Spec("xpos").at_length(400).text == "xpos(center=200)"
    rope = posenc.Spec("rope")
    assert rope.at_length(9) is rope and rope.cacheable_rotation == rope
    q = k = v = torch.randn(1, 2, 3, 8)
    with pytest.raises(RuntimeError, match="keys_are_turned needs a rotation that does not follow"):
        posenc.attention_decode(q, k, v, "xpos", keys_are_turned=True)
    posenc.attention_decode(q, k, v, "xpos(center=4)", keys_are_turned=True)


def test_modules_learn():
    module = posenc.nn.Attention(16, 2, "kerple + cope(npos_max=4)")
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-2)
    x, target = torch.randn(4, 10, 16), torch.randn(4, 10, 16)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = (module(x) - target).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    before = posenc.Spec("cope(npos_max=4)").initial_parameters(8, 2)["cope.pos_emb"]
    assert not torch.equal(module.pos.get("cope.pos_emb"), before)


def test_dropout_is_drawn_from_torchs_generator():
    first, second = (posenc.nn.Attention(16, 4, "rope", dropout=0.5, causal=True) for _ in range(2))
    second.load_state_dict(first.state_dict())
    x = torch.randn(2, 12, 16)
    torch.manual_seed(1)
    a, b, again = first(x), second(x), first(x)
    assert not torch.equal(a, b), "two layers share a mask"
    assert not torch.equal(a, again), "two steps share a mask"
    torch.manual_seed(1)
    assert torch.equal(a, first(x))


def test_checkpointing_recomputes_with_the_same_dropout():
    module = posenc.nn.Attention(16, 4, "rope", dropout=0.5, causal=True)
    x = torch.randn(2, 12, 16, requires_grad=True)
    gradients = []
    for checkpointed in (False, True):
        torch.manual_seed(2)
        run = torch.utils.checkpoint.checkpoint if checkpointed else lambda module, x: module(x)
        x.grad = None
        run(module, x).square().sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


def test_linear_attention_is_causal():
    module = posenc.nn.LinearAttention(16, 2, form="cosine", causal=True)
    x = torch.randn(1, 20, 16)
    changed = x.clone()
    changed[:, 15:] += 1
    assert torch.allclose(module(x)[:, :15], module(changed)[:, :15], atol=1e-5)


def test_explain():
    text = posenc.explain("rope + alibi", heads=4, queries=64, keys=64, head_dim=32)
    assert text == (
        "fused, rope while reading rows, toeplitz table (alibi); backward: fused; "
        "memory 37.1 KiB, backward 107.0 KiB"
    )


@pytest.mark.skipif(
    posenc.library_path().name.endswith("_stable.so"), reason="the library for the stable ABI computes on CPUs"
)
def test_explain_on_cuda_names_the_switch_for_float32():
    def path(spec, dtype, head_dim=32):
        shape = {"heads": 4, "queries": 64, "keys": 64, "head_dim": head_dim}
        return posenc.explain(spec, device="cuda", dtype=dtype, **shape)

    assert path("fire", "bfloat16") == "fused on cuda, fire; backward: fused"
    text = path("alibi", "float32")
    assert text.startswith("fused on cuda, float32 as sums of three bfloat16, toeplitz table (alibi)")
    text = path("alibi", "float32", 256)
    assert text.startswith("composed on cuda, scores as tensors: exact float32")
    assert 'torch.set_float32_matmul_precision("high")' in text
    try:
        torch.set_float32_matmul_precision("high")
        text = path("alibi", "float32")
    finally:
        torch.set_float32_matmul_precision("highest")
    assert text.startswith("fused on cuda, float32 as sums of two bfloat16, toeplitz table (alibi)")
    with pytest.raises(RuntimeError, match="dtype must be float32, bfloat16, float16 or float64"):
        path("alibi", "int8")


def test_positional_embeddings():
    module = posenc.nn.PositionalEmbedding("sinusoidal + learned(max_positions=9)", 6)
    assert [name for name, _ in module.named_parameters()] == ["pos.learned.weight"]
    places = torch.tensor([4, 0, 8])
    y = module(torch.zeros(1, 3, 6), places)
    angles = places[:, None] * 10000.0 ** (-torch.arange(0, 6, 2) / 6)
    waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
    assert torch.allclose(y[0], waves + module.pos.get("learned.weight")[places], atol=1e-5)
    y.sum().backward()
    assert module.pos.get("learned.weight").grad.sum() == 18
    with pytest.raises(ValueError, match="positions must be in"):
        module(torch.zeros(1, 1, 6), torch.tensor([9]))
