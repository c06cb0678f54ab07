"""posenc.patch with encodings that read inputs of each token: FoX, key_bias, CoPE's separate gates.

On the stand-in for a Llama of transformers; test_patch_inputs_hf.py runs transformers itself.
"""

import copy
import math

import pytest
import torch

import posenc
from hf_stand_in import (
    DynamicCache,
    LlamaForCausalLM,
    SlidingCache,
    StaticCache,
    StaticLayer,
    installed,
)
from posenc import _hf_cache
from posenc._hf_attention import Call, attend
from test_patch_stand_in import assert_close, assert_steps_are_one_pass, build, prompt

GATES = "cope(npos_max=8, gate_source=separate)"
SPECS = ["rope + fox", f"rope + {GATES}", "rope + key_bias", f"rope + fox + {GATES}", "fox + alibi"]
BOTH = f"rope + fox + {GATES}"
KINDS = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def transformers():
    with installed():
        yield


def attention_of(model, layer=0):
    return model.model.layers[layer].self_attn


def positions_of(mask):
    return (mask.cumsum(-1) - 1).masked_fill(mask == 0, 0)


# What a patched layer computes.


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def by_hand(model, ids, attention):
    """The stand-in with `attention(module, x)` in the place of its attention."""
    x = model.model.embed_tokens(ids)
    for layer in model.model.layers:
        module, y = layer.self_attn, layer.norms[0](x)
        x = x + module.o_proj(attention(module, y).transpose(1, 2).flatten(2))
        x = x + layer.mlp(layer.norms[1](x))
    return model.lm_head(x)


def projected(module, x):
    projections = ((module.q_proj, 4), (module.k_proj, 2), (module.v_proj, 2))
    return [heads(projection(x), count) for projection, count in projections]


def fox_by_formula(module, x):
    """softmax(q k + c_i - c_j) v, with c the running sum of log sigmoid."""
    q, k, v = projected(module, x)
    q, k = posenc.rope(q, k)
    k, v = (y.repeat_interleave(2, 1) for y in (k, v))
    gates = module.pos.forget_proj
    f = torch.sigmoid(x @ gates.weight.T + gates.bias)
    c = f.log().cumsum(1).transpose(1, 2)
    scores = q @ k.transpose(2, 3) * 8**-0.5 + c[..., :, None] - c[..., None, :]
    future = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
    return scores.masked_fill(future, -math.inf).softmax(-1) @ v


def two_inputs_by_functional(module, x):
    q, k, v = projected(module, x)
    inputs = {
        "fox.log_f": torch.nn.functional.logsigmoid(heads(module.pos.forget_proj(x), 4)),
        "cope.gate_k": heads(module.pos.gate_proj(x), 2),
    }
    params = {"cope.pos_emb": module.pos.cope.pos_emb}
    return posenc.attention(q, k, v, BOTH, params, inputs=inputs, causal=True)


@pytest.mark.parametrize(
    "spec, attention", [("rope + fox", fox_by_formula), (BOTH, two_inputs_by_functional)]
)
def test_logits_are_those_of_a_composition_by_hand(spec, attention):
    model, _ = build(spec)
    ids, _ = prompt()
    with torch.no_grad():
        expected = by_hand(model, ids, attention)
        assert_close(model(ids), expected, 1e-5)
        assert_close(model(ids, cache=DynamicCache()), expected, 1e-5)
        zeros = copy.deepcopy(model)
        for layer in range(2):
            for name, parameter in attention_of(zeros, layer).pos.named_parameters():
                if "_proj.weight" in name:
                    parameter.zero_()
        assert (zeros(ids) - expected).abs().max() > 0.05 * expected.abs().max()  # they matter


# Initial values.


@pytest.mark.parametrize("spec", [f"rope + {GATES}", "rope + key_bias"])
def test_most_projections_start_without_an_effect(spec):
    torch.manual_seed(3)
    model = LlamaForCausalLM().eval()
    ids, mask = prompt()
    with torch.no_grad():
        expected = model(ids, mask)
        posenc.patch(model, spec)
        assert_close(model(ids, mask)[mask.bool()], expected[mask.bool()], 1e-5)


@pytest.mark.parametrize("length", [64, 131072])
def test_forget_gates_start_open(length):
    """A key keeps nine tenths of its weight over the length that the model was trained for."""
    torch.manual_seed(3)
    model = LlamaForCausalLM(max_position_embeddings=length).eval()
    posenc.patch(model, "rope + fox")
    gates = attention_of(model).pos.forget_proj
    assert gates.weight.abs().max() == 0
    kept = torch.nn.functional.logsigmoid(gates.bias.double()) * length
    assert torch.allclose(kept, torch.full_like(kept, -0.1), rtol=0.01)
    ids, _ = prompt(padded=0)
    with torch.no_grad():
        found = model(ids)
        posenc.patch(model)
        assert_close(found, model(ids), 0.05)


def test_open_gates_learn_to_forget():
    """Their gradient is 1 / (10 L) of that of log f, which Adam divides by its size."""
    torch.manual_seed(3)
    model = LlamaForCausalLM(max_position_embeddings=131072)
    posenc.patch(model, "rope + fox")
    added = [p for name, p in model.named_parameters() if ".pos." in name]
    optimiser = torch.optim.Adam(added, lr=0.01)
    ids, _ = prompt(40, padded=0)
    before = copy.deepcopy(added)
    for _ in range(100):
        optimiser.zero_grad()
        logits = model(ids)[:, :-1].flatten(0, 1)
        torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten()).backward()
        optimiser.step()
    assert all((p - q).abs().max() > 0.5 for p, q in zip(added, before))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
def test_projections_have_the_type_of_the_layer(kind):
    model = LlamaForCausalLM().to(kind)
    posenc.patch(model, BOTH)
    for name in ("forget_proj", "gate_proj"):
        assert getattr(attention_of(model).pos, name).weight.dtype == kind
    assert model.to("meta").model.layers[0].self_attn.pos.gate_proj.weight.is_meta


def test_projections_of_a_quantized_layer_have_the_type_of_the_config():
    model = LlamaForCausalLM(dtype=torch.bfloat16)
    for layer in model.model.layers:
        for linear in (m for m in layer.self_attn.modules() if isinstance(m, torch.nn.Linear)):
            linear.weight = torch.nn.Parameter(linear.weight.to(torch.uint8), requires_grad=False)
            linear.bias = None
    posenc.patch(model, "rope + fox")
    assert attention_of(model).pos.forget_proj.weight.dtype == torch.bfloat16


# Parameters of the model.


@pytest.mark.parametrize("cache", [None, DynamicCache], ids=["pass", "cache"])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("spec", SPECS)
def test_gradients_reach_the_projections(spec, kind, cache):
    """transformers fills a cache in training too, unless use_cache=False."""
    model, _ = build(spec, num_hidden_layers=1)
    ids, _ = prompt(20, padded=0)
    exact = copy.deepcopy(model)
    exact(ids).square().sum().backward()
    model.to(kind)(ids, cache=cache() if cache else None).square().sum().backward()
    for name, parameter in model.named_parameters():
        if "_proj" in name and ".pos." in name:
            expected = exact.get_parameter(name).grad
            assert expected.abs().max() > 0
            bound = 1e-4 if kind == torch.float32 else 0.3
            assert (parameter.grad.float() - expected).norm() <= bound * expected.norm(), name


def test_a_state_dict_goes_to_another_patched_model():
    model, _ = build(BOTH)
    other = LlamaForCausalLM().eval()
    posenc.patch(other, BOTH)
    ids, mask = prompt()
    with torch.no_grad():
        assert not torch.allclose(other(ids, mask), model(ids, mask))
        other.load_state_dict(model.state_dict())
        assert torch.equal(other(ids, mask), model(ids, mask))
    names = [name for name in model.state_dict() if ".pos." in name and "layers.1" in name]
    assert [name.split(".pos.")[1] for name in names] == [
        "cope.pos_emb",
        "forget_proj.weight",
        "forget_proj.bias",
        "gate_proj.weight",
    ]


def test_unpatch_puts_everything_back():
    torch.manual_seed(3)
    model = LlamaForCausalLM().eval()
    ids, mask = prompt()
    names = list(model.state_dict())
    parts = [(set(m.__dict__), list(m._modules)) for m in model.modules()]
    with torch.no_grad():
        expected = model(ids, mask)
        posenc.patch(model, BOTH)
        twin = copy.deepcopy(model)
        assert posenc.unpatch(model) and posenc.unpatch(twin)
        for one in (model, twin):
            assert torch.equal(one(ids, mask), expected)
            assert list(one.state_dict()) == names
            assert [(set(m.__dict__), list(m._modules)) for m in one.modules()] == parts


# Caches.


@pytest.mark.parametrize("spec", SPECS)
def test_generation_in_half_precision_is_that_without_a_cache(spec):
    model, _ = build(spec)
    model.bfloat16()
    ids, mask = prompt()
    grown, steps = model.generate(ids, mask, 12)
    for i, logits in enumerate(steps):
        n = ids.shape[1] + i
        seen = torch.cat([mask, mask.new_ones(2, n - mask.shape[1])], 1)
        with torch.no_grad():
            expected = model(grown[:, :n], seen, positions_of(seen))[:, -1]
        assert_close(logits.float(), expected.float(), 0.05)


@torch.no_grad()
def beam_search(model, ids, mask, tokens, cache=None, beams=3):
    """All rows of `ids` start with as many beams; a step keeps the best of each row."""
    rows = ids.shape[0]
    ids, mask = ids.repeat_interleave(beams, 0), mask.repeat_interleave(beams, 0)
    scores = torch.tensor([0.0] + [-math.inf] * (beams - 1)).repeat(rows)
    first = 0
    for _ in range(tokens):
        start = first if cache is not None else 0
        logits = model(ids[:, start:], mask, positions_of(mask)[:, start:], cache)[:, -1]
        first = ids.shape[1]
        best = (scores[:, None] + logits.log_softmax(-1)).reshape(rows, -1).topk(beams)
        order = (best.indices // 61 + beams * torch.arange(rows)[:, None]).flatten()
        if cache is not None:
            cache.change(lambda x: x.index_select(0, order))
        ids = torch.cat([ids[order], (best.indices % 61).reshape(-1, 1)], 1)
        mask = torch.cat([mask, mask.new_ones(mask.shape[0], 1)], 1)
        scores = best.values.flatten()
    return ids


@pytest.mark.parametrize("search", ["greedy", "beams"])
@pytest.mark.parametrize("spec", SPECS)
def test_tokens_are_those_without_a_cache(spec, search):
    """Left padding."""
    model, _ = build(spec)
    ids, mask = prompt()
    if search == "beams":
        found = beam_search(model, ids, mask, 12, DynamicCache())
        assert torch.equal(found, beam_search(model, ids, mask, 12))
        return
    found, _ = model.generate(ids, mask, 12)
    for _ in range(12):
        with torch.no_grad():
            token = model(ids, mask, positions_of(mask))[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, token], 1)
        mask = torch.cat([mask, mask.new_ones(2, 1)], 1)
    assert torch.equal(found, ids)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("change", ["reorder", "crop", "repeat"])
def test_inputs_follow_what_a_cache_does(change, spec):
    model, _ = build(spec)
    ids, _ = prompt(padded=0)
    other = torch.randint(2, 61, (2, 5))
    cache = DynamicCache()
    with torch.no_grad():
        model(ids, cache=cache)
        if change == "reorder":  # beams
            cache.change(lambda x: x.index_select(0, torch.tensor([1, 1])))
            past = ids[[1, 1]]
        elif change == "crop":  # drafts that were rejected
            cache.change(lambda x: x[..., :-5, :])
            past = ids[:, :-5]
        else:
            cache.change(lambda x: x.repeat_interleave(2, 0)[:2])
            past = ids[[0, 0]]
        found = model(other, cache=cache)
        expected = model(torch.cat([past, other], 1))[:, -5:]
    assert_close(found, expected, 1e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_a_window_drops_inputs_with_the_keys(spec):
    model, _ = build(spec, sliding_window=6)
    ids, mask = prompt()
    grown, steps = model.generate(ids, mask, 10, cache=SlidingCache(6))
    assert_steps_are_one_pass(model, grown, mask, steps, ids.shape[1])


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("early", [False, True], ids=["lazy", "allocated"])
def test_a_static_cache(early, spec):
    model, _ = build(spec)
    ids, mask = prompt()
    cache = StaticCache()
    if early:  # as transformers allocates it for prompts in chunks: by the channels of the config
        for layer in cache.layers:
            layer.allocate(2, 2, 8, 8)
    grown, steps = model.generate(ids, mask, 10, chunks=(5,), cache=cache)
    assert_steps_are_one_pass(model, grown, mask, steps, ids.shape[1])


def some_inputs(tokens=4):
    sizes = torch.tensor([1e-6, 1.0, 50.0, 1e4])[:, None, None]
    return {
        "fox.log_f": torch.randn(2, 4, tokens, 1) * sizes,
        "cope.gate_k": torch.randn(2, 2, tokens, 8),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_come_back_bit_for_bit(kind):
    cache, wanted = DynamicCache(), []
    values = torch.randn(2, 2, 12, 8).to(kind)
    for step in range(3):
        inputs = some_inputs()
        inputs["cope.gate_k"] = inputs["cope.gate_k"].to(kind)
        wanted.append(inputs)
        new = values[:, :, 4 * step : 4 * step + 4]
        _, v, read = _hf_cache.update(cache, new, new, inputs, 0, 4 * step)
    assert torch.equal(v, values) and v.stride(2) * v.element_size() % 16 == 0
    for name, x in read.items():
        expected = torch.cat([inputs[name] for inputs in wanted], 2)
        assert x.dtype == expected.dtype and torch.equal(x, expected)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_copies_keep_all_bits(kind):
    """Halves of a float32 may look like a NaN in 16 bits."""
    bits = torch.arange(1 << 16, dtype=torch.int32) + 0x3F8A0000
    log_f = bits.view(torch.float32).reshape(1, 4, -1, 1)
    v = torch.zeros(1, 2, log_f.shape[2], 8, dtype=kind)
    cache = DynamicCache()
    _hf_cache.update(cache, v, v, {"fox.log_f": log_f}, 0, 0)
    order = torch.arange(log_f.shape[2]).flip(0)
    cache.change(lambda x: torch.cat([x, x]).index_select(0, torch.tensor([1])))
    cache.change(lambda x: x.repeat_interleave(2, 0)[torch.tensor([1])].roll(1, 2).roll(-1, 2))
    cache.change(lambda x: torch.zeros_like(x).index_copy_(2, order, x.flip(2)))
    new = {"fox.log_f": torch.zeros(1, 4, 1, 1)}
    read = _hf_cache.update(cache, v[:, :, :1], v[:, :, :1], new, 0, log_f.shape[2])[2]
    assert torch.equal(read["fox.log_f"][:, :, :-1], log_f)


def test_gradients_pass_through_a_cache_of_half_precision():
    """Also of tokens that two calls read."""
    for kind in KINDS[1:]:
        inputs = {name: x.requires_grad_() for name, x in some_inputs().items()}
        inputs = {"fox.log_f": inputs["fox.log_f"]}
        v = torch.randn(2, 2, 4, 8).to(kind)
        cache = DynamicCache()
        weight = torch.randn(2, 4, 4, 1)
        first = _hf_cache.update(cache, v, v, inputs, 0, 0)[2]["fox.log_f"]
        later = {"fox.log_f": torch.zeros(2, 4, 4, 1)}
        both = _hf_cache.update(cache, v, v, later, 0, 4)[2]["fox.log_f"]
        (first * weight).sum().backward(retain_graph=True)
        (both[:, :, :4] * weight * 3).sum().backward()
        assert torch.allclose(inputs["fox.log_f"].grad, 4 * weight, rtol=1e-3)


def test_packed_sequences():
    spec = posenc.Spec(BOTH)
    q, k, v = (torch.randn(2, n, 9, 8) for n in (4, 2, 2))
    inputs = some_inputs(9)
    inputs["fox.log_f"] = -torch.rand(2, 4, 9, 1)
    params = {"cope.pos_emb": torch.randn(8, 8)}
    numbers = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 2, 2, 2, 2]])
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4], [0, 1, 0, 1, 2, 0, 1, 2, 3]])
    mask = (numbers + 1)[:, None, None]
    for cache in (None, DynamicCache()):
        call = Call(spec.text, 8**-0.5, True, params, inputs, mask=mask, positions=positions)
        out, _ = attend(q, k, v, call, cache, 0)
        for row, first, last in ((0, 0, 4), (0, 4, 9), (1, 0, 2), (1, 2, 5), (1, 5, 9)):
            parts = [x[row : row + 1, :, first:last] for x in (q, k, v)]
            own = {name: x[row : row + 1, :, first:last] for name, x in inputs.items()}
            alone, _ = attend(*parts, Call(spec.text, 8**-0.5, True, params, own))
            assert torch.allclose(out[row : row + 1, first:last], alone, atol=1e-5)


# Errors.


class QuantizedLayer(StaticLayer):
    def _quantize(self, tensor, axis):
        raise AssertionError("asked to quantize")


class NarrowLayer(StaticLayer):
    def update(self, k, v):
        return k, v[..., :8]


def test_caches_that_cannot_hold_inputs_are_refused():
    v = torch.randn(2, 2, 4, 8)
    cache = StaticCache(kind=QuantizedLayer)
    with pytest.raises(ValueError, match="a quantized cache would round fox.log_f, cope.gate_k"):
        _hf_cache.update(cache, v, v, some_inputs(), 0, 0)
    assert cache.get_seq_length() == 0
    with pytest.raises(ValueError, match="returned values of 8 channels .* was given 20"):
        _hf_cache.update(StaticCache(kind=NarrowLayer), v, v, some_inputs(), 0, 0)


def test_a_cache_of_another_spec_is_refused():
    cache = StaticCache()
    v = torch.randn(2, 2, 4, 8)
    _hf_cache.update(cache, v, v, {}, 0, 0)
    with pytest.raises(ValueError, match="holds values of 8 channels, .* have 20: .* another spec"):
        _hf_cache.update(cache, v, v, some_inputs(), 0, 4)


def test_weights_of_specs_without_cope_are_returned_with_a_cache():
    inputs = {"fox.log_f": -torch.rand(2, 4, 9, 1)}
    q, k, v = (torch.randn(2, n, 9, 8) for n in (4, 2, 2))
    call = Call("rope + fox", 8**-0.5, True, inputs=inputs, want_weights=True)
    whole = attend(q, k, v, call)[1]
    assert torch.allclose(attend(q, k, v, call, DynamicCache(), 0)[1], whole, atol=1e-5)
