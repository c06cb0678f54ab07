"""posenc.patch with every spec of the catalogue, on a stand-in for a Llama of transformers."""

import pytest
import torch

import posenc
from catalog_specs import catalog_specs
from hf_stand_in import DynamicCache, LlamaForCausalLM, SlidingCache, installed

SUMS = [
    "none",
    "rope + alibi",
    "rope + cope(npos_max=8)",
    "rope + alibi + cope(npos_max=8)",
    "xpos + cope(npos_max=8)",
    "xpos + fire",
    "rope + fire(init_threshold=9)",
    "alibi + alibi(trainable=true)",
    "cope(npos_max=8) + cope(npos_max=4)",
    "rope + rope(theta=100)",
    "rope(schedule=dynamic(factor=2, max_position_embeddings=16)) + t5 + cope(npos_max=8)",
    "rope(schedule=learnable) + relative + kerple",
    "rope + temperature(floor=4, scale=0.5)",
    "rope + temperature(floor=4, scale=0.5) + softcap(cap=3) + sink",
    "rope + fox",
    "rope + alibi + fox",
    "xpos + fire + key_bias",
    "rope + fox + cope(npos_max=8, gate_source=separate)",
    "fox + fox(scaled=true)",
]
SPECS = SUMS + catalog_specs()


@pytest.fixture(autouse=True)
def transformers():
    with installed():
        yield


def build(spec=None, **fields):
    """Weights large enough for attention to look at positions, and gates that forget.

    One layer for specs that follow the length: in a second one, what earlier tokens passed on was
    computed for their lengths, and one pass computes it for the last."""
    torch.manual_seed(3)
    if spec is not None and posenc.Spec(spec).follows_length:
        fields["num_hidden_layers"] = 1
    model = LlamaForCausalLM(**fields).eval()
    report = posenc.patch(model, spec) if spec is not None else None
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 1.5 / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else 0.1
            parameter.add_(scale * torch.randn_like(parameter))
            if "forget_proj" in name and parameter.dim() == 1:
                parameter.fill_(1.0)
    return model, report


def prompt(tokens=12, padded=4):
    ids = torch.randint(2, 61, (2, tokens), generator=torch.Generator().manual_seed(5))
    mask = torch.ones_like(ids)
    mask[0, :padded] = 0
    return ids * mask, mask


def one_pass(model, ids, mask):
    positions = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 0)
    with torch.no_grad():
        return model(ids, mask, positions)[:, -1]


def assert_close(found, expected, bound=2e-5):
    difference = (found - expected).abs().max() / expected.abs().max()
    assert difference <= bound, f"differs by {difference:.2e} of the largest"


def assert_steps_are_one_pass(model, ids, mask, steps, prompt_tokens):
    for i, logits in enumerate(steps):
        n = prompt_tokens + i
        grown = torch.cat([mask, mask.new_ones(2, n - mask.shape[1])], 1)
        assert_close(logits, one_pass(model, ids[:, :n], grown))


def test_the_stand_in_is_patched_as_a_model_of_transformers():
    model, _ = build()
    ids, mask = prompt()
    expected_ids, expected = model.generate(ids, mask, 20)
    report = posenc.patch(model)
    assert report.attention == [f"model.layers.{i}.self_attn" for i in range(2)]
    assert report.rotary == ["model.rotary_emb"] and not report.untouched
    found_ids, found = model.generate(ids, mask, 20)
    assert torch.equal(found_ids, expected_ids)
    assert_close(torch.stack(found), torch.stack(expected), 1e-4)
    assert posenc.unpatch(model)
    assert torch.equal(model.generate(ids, mask, 20)[0], expected_ids)


@pytest.mark.parametrize("spec", SPECS)
def test_generation_from_a_cache_is_one_pass(spec):
    """Batch 2, one row padded, over the trained lengths of the schedules."""
    model, _ = build(spec)
    ids, mask = prompt()
    grown, steps = model.generate(ids, mask, 18)
    assert_steps_are_one_pass(model, grown, mask, steps, ids.shape[1])


@pytest.mark.parametrize("spec", SPECS)
def test_a_prompt_in_chunks_is_one_pass(spec):
    model, _ = build(spec)
    ids, mask = prompt(20)
    grown, steps = model.generate(ids, mask, 3, chunks=(9, 15))
    assert_steps_are_one_pass(model, grown, mask, steps, ids.shape[1])


@pytest.mark.parametrize("spec", SPECS)
def test_every_spec_trains(spec):
    model, _ = build(spec)
    ids, mask = prompt(20)
    model.train()
    logits = model(ids, mask)[:, 4:]
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 5:].flatten())
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        if ".k_proj.bias" not in name:  # a constant on all scores of a row, without a rotation
            assert parameter.grad.abs().max() > 0, name
    wanted = [p.name for p in posenc.Spec(spec).parameters(8, 4) if p.trainable]
    for declared in posenc.Spec(spec).inputs(8, 4):
        wanted += [f"{declared.projection}.weight"]
        wanted += [f"{declared.projection}.bias"] * declared.has_bias
    attention = model.model.layers[0].self_attn
    found = dict(attention.pos.named_parameters()) if wanted else {}
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if not posenc.Spec(spec).follows_length])
def test_padding_changes_nothing(spec):
    model, _ = build(spec)
    ids, mask = prompt()
    padded = model.generate(ids, mask, 6)[1]
    alone = model.generate(ids[:1, 4:], mask[:1, 4:], 6)[1]
    for one, other in zip(padded, alone):
        assert_close(one[:1], other)


@pytest.mark.parametrize("spec", SPECS)
def test_a_cache_with_a_window(spec):
    model, _ = build(spec, sliding_window=6)
    ids, mask = prompt()
    grown, steps = model.generate(ids, mask, 10, cache=SlidingCache(6))
    assert_steps_are_one_pass(model, grown, mask, steps, ids.shape[1])


def test_positions_that_a_cache_cannot_tell_are_refused():
    model, _ = build("xpos")
    ids, _ = prompt(padded=0)
    cache = DynamicCache()
    with torch.no_grad():
        model(ids, cache=cache)
        with pytest.raises(ValueError, match="position_ids must count tokens from 0"):
            model(ids[:, :1], position_ids=torch.tensor([[100]]), cache=cache)


def test_biases_see_holes_before_a_cached_token():
    model, _ = build("rope + alibi")
    ids, mask = prompt(padded=0)
    mask[0, 9:] = 0  # on the right: a hole, once a token follows
    cache = DynamicCache()
    with torch.no_grad():
        model(ids, mask, (mask.cumsum(-1) - 1), cache)
        later = torch.cat([mask, mask.new_ones(2, 1)], 1)
        with pytest.raises(ValueError, match="must count on by one"):
            model(ids[:, :1], later, torch.tensor([[9], [12]]), cache)


def test_specs_that_cannot_be_served_are_refused():
    with pytest.raises(ValueError, match="sites 2 to 5"):
        build("learned(max_positions=64)")


def test_what_is_not_supported_says_what_to_do():
    with pytest.raises(posenc.Error, match="is_causal=False in the config is not supported; use attn_implementation"):
        posenc.patch(LlamaForCausalLM(is_causal=False))
    model = LlamaForCausalLM()
    posenc.patch(model)
    layer = model.model.layers[0].self_attn
    with pytest.raises(posenc.Error, match=r"head_mask is not supported; call posenc.unpatch\(model\)"):
        rotation = model.model.rotary_emb(torch.zeros(1, 3))
        layer(torch.zeros(1, 3, 32), position_embeddings=rotation, head_mask=torch.ones(4))
    layer.slow_but_exact, layer.pretraining_tp = True, 2
    with pytest.raises(posenc.Error, match="is not supported; set slow_but_exact=False"):
        posenc.patch(model)
