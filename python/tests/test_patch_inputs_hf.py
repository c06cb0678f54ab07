"""posenc.patch with inputs of each token on models of transformers, with its own caches."""

import copy

import pytest
import torch

import posenc

transformers = pytest.importorskip("transformers", reason="needs the transformers package")

from test_patch import assert_close, build, device  # noqa: E402, F401
from test_patch import draw_projections, inputs, logits  # noqa: E402

GATES = "cope(npos_max=8, gate_source=separate)"
SPECS = ["rope + fox", f"rope + {GATES}", "rope + key_bias", f"rope + fox + {GATES}"]
BOTH = SPECS[-1]
FAMILIES = ["llama", "mistral", "qwen3", "gpt-neox", "bloom", "mpt", "t5"]
GREEDY = dict(max_new_tokens=12, do_sample=False, disable_compile=True)


def patched(name, spec, **changes):
    if name == "gpt-neox":
        changes["hidden_size"] = 32  # rotates pairs of 8 channels
    model = build(name, **changes)
    posenc.patch(model, spec)
    with torch.no_grad():
        for parameter, value in model.named_parameters():
            if ".pos.cope." in parameter:
                value.normal_()
    draw_projections(model)
    return model


def prompt(model, **options):
    given = inputs(model, **options)
    given.pop("decoder_input_ids", None)
    return given


@pytest.mark.parametrize("how", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", FAMILIES)
def test_generate_with_a_cache_is_generate_without(name, spec, how, device):  # noqa: F811
    """Left padding; mistral has a window of 5."""
    model = patched(name, spec).to(device)
    given = prompt(model, padding="left", device=device)
    expected = model.generate(**given, **GREEDY, **how, use_cache=False)
    assert torch.equal(model.generate(**given, **GREEDY, **how), expected)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("chunk", [None, 5])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3"])
def test_static_caches_and_prompts_in_chunks(name, spec, chunk, cache, device):  # noqa: F811
    """A static cache for chunks is allocated before the first call, by the config."""
    model = patched(name, spec).to(device)
    given = prompt(model, padding="left", device=device)
    expected = model.generate(**given, **GREEDY, use_cache=False)
    options = dict(cache_implementation=cache, prefill_chunk_size=chunk)
    assert torch.equal(model.generate(**given, **GREEDY, **options), expected)


@pytest.mark.parametrize("spec", SPECS)
def test_inputs_matter_in_these_tests(spec):
    model = patched("llama", spec)
    given = prompt(model)
    found = logits(model, given)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".pos." in name and "_proj." in name:
                parameter.zero_()
    assert (found - logits(model, given)).abs().max() > 1e-2 * found.abs().max()


@pytest.mark.parametrize("spec", SPECS)
def test_what_a_cache_does_to_values(spec):
    model = patched("llama", spec)
    ids = prompt(model)["input_ids"]
    more = torch.randint(2, 61, (2, 4))
    changes = {
        "reorder": (lambda cache: cache.reorder_cache(torch.tensor([1, 0])), ids[[1, 0]], more),
        "crop": (lambda cache: cache.crop(-5), ids[:, :-5], more),
        "crop all": (lambda cache: cache.crop(-ids.shape[1]), ids[:, :0], more),
        "repeat": (
            lambda cache: cache.batch_repeat_interleave(2),
            ids.repeat_interleave(2, 0),
            more.repeat_interleave(2, 0),
        ),
        "select": (lambda cache: cache.batch_select_indices(torch.tensor([1])), ids[1:], more[1:]),
    }
    for what, (change, past, new) in changes.items():
        cache = transformers.DynamicCache(config=model.config)
        with torch.no_grad():
            model(ids, past_key_values=cache)
            change(cache)
            found = model(new, past_key_values=cache).logits
            expected = model(torch.cat([past, new], 1)).logits[:, -new.shape[1] :]
        assert_close(found, expected, 2e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_half_precision(spec):
    """Steps from a cache are as near to float32 as a pass without one is."""
    model = patched("llama", spec)
    ids = prompt(model)["input_ids"]
    expected = logits(model, {"input_ids": ids}, use_cache=False)
    model.to(torch.bfloat16)
    whole = logits(model, {"input_ids": ids}, use_cache=False).float()
    cache, steps = transformers.DynamicCache(config=model.config), []
    with torch.no_grad():
        for i in range(ids.shape[1]):
            steps.append(model(ids[:, i : i + 1], past_key_values=cache).logits.float())
    error = (whole - expected).norm()
    assert (torch.cat(steps, 1) - expected).norm() <= 2 * error + 0.01 * expected.norm()
    stored = cache.layers[0].values
    assert stored.dtype == torch.bfloat16 and stored.shape[-1] > 8 and stored.shape[-1] % 8 == 0


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_with_and_without_a_cache(name, checkpointing):
    model = patched(name, BOTH).train()
    given = inputs(model)
    labels = given.get("decoder_input_ids", given["input_ids"])

    def gradients(**options):
        model.zero_grad()
        model(**given, labels=labels, **options).loss.backward()
        return {n: p.grad.clone() for n, p in model.named_parameters() if ".pos." in n}

    expected = gradients(use_cache=False)
    assert expected and all(g.abs().max() > 0 for g in expected.values())
    if checkpointing:
        model.gradient_checkpointing_enable()
    for parameter, gradient in gradients(use_cache=not checkpointing).items():
        assert_close(gradient, expected[parameter], 1e-4)


def test_packed_sequences():
    model = patched("llama", BOTH)
    ids = prompt(model)["input_ids"][:1]
    positions = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6]])
    found = logits(model, {"input_ids": ids, "position_ids": positions}, use_cache=False)
    alone = [logits(model, {"input_ids": part}) for part in (ids[:, :5], ids[:, 5:])]
    assert_close(found, torch.cat(alone, 1))


@pytest.mark.parametrize("name", FAMILIES)
def test_state_dicts_and_unpatch(name):
    model = build(name)
    given = inputs(model)
    expected, names = logits(model, given), list(model.state_dict())
    posenc.patch(model, BOTH)
    draw_projections(model)
    found = logits(model, given)
    weights = copy.deepcopy(model.state_dict())
    assert not [n for n in weights if "EncDecAttention.pos" in n]
    posenc.unpatch(model)
    assert list(model.state_dict()) == names
    assert torch.equal(logits(model, given), expected)
    posenc.patch(model, BOTH)
    model.load_state_dict(weights)
    assert torch.equal(logits(model, given), found)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_pretrained_model_hardly_changes(name):
    """Gates keep exp(-0.1) over the trained length, so over 12 of 64 tokens much more."""
    model = build(name)
    given = inputs(model)
    own = posenc.patch(model).specs
    expected = logits(model, given)
    if name == "t5":  # its table is the first layer's own
        own = {"encoder": "t5", "decoder": "t5"}
        posenc.patch(model, own)
        expected = logits(model, given)
    posenc.patch(model, {kind: posenc.Spec(spec) + "fox" for kind, spec in own.items()})
    difference = (logits(model, given) - expected).abs().max()
    assert 0 < difference <= 0.05 * expected.abs().max()


def test_quantized_caches_are_refused():
    from transformers.cache_utils import QuantizedLayer

    class Layer(QuantizedLayer):
        def _quantize(self, tensor, axis):
            return tensor

        def _dequantize(self, tensor):
            return tensor

    model = patched("llama", "rope + fox")
    cache = transformers.DynamicCache()
    cache.layers, cache.layer_class_to_replicate = [Layer(), Layer()], None
    ids = prompt(model)["input_ids"]
    with pytest.raises(ValueError, match="a quantized cache would round fox.log_f"):
        model(ids, past_key_values=cache)
    assert cache.get_seq_length() == 0


def test_a_cache_filled_before_patch_is_refused():
    model = build("llama")
    ids = prompt(model)["input_ids"]
    cache = transformers.DynamicCache(config=model.config)
    model(ids, past_key_values=cache)
    posenc.patch(model, "rope + fox")
    with pytest.raises(ValueError, match="holds values of 8 channels, .* with an empty cache"):
        model(ids, past_key_values=cache)
