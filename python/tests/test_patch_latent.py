"""posenc.patch on latent attention: DeepSeek V2, DeepSeek V3 and Mistral 4, where a part of each key is shared by all heads."""

import pytest
import torch

import posenc
from catalog_specs import catalog_specs
from hf_families import LATENT_ATTENTION, YARN, apart, build, logits, prompt
from test_patch import assert_close, draw_projections, step_logits

transformers = pytest.importorskip("transformers", reason="needs the transformers package")
NARROW = dict(qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=6)
OWN = "rope(layout=interleaved, rotary_dim=4, dim_offset=4)"
SPECS = [OWN + " + cope(npos_max=8)", OWN + " + alibi", OWN + " + fox", OWN + " + sink", "rope", "rope + cope(npos_max=8)",
         "none", "alibi", "xpos + fire", OWN + " + temperature(floor=4)"]
READS_VALUES = [spec for spec in catalog_specs() if "values=true" in spec or "gate_source=value" in spec]
CASES = [(name, spec) for name in LATENT_ATTENTION for spec in SPECS]
CASES += [("deepseek-v3", spec) for spec in catalog_specs() if spec not in READS_VALUES]


def built(name, implementation="eager", **changes):
    model = build(name, implementation, **changes)
    if model is None:
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    return model


@pytest.mark.parametrize(("name", "spec"), CASES)
def test_every_spec_generates_and_trains(name, spec):
    """Generation from a cache, with padding, is a pass over all tokens; new parameters train."""
    one = {"num_hidden_layers": 1, "first_k_dense_replace": 0} if posenc.Spec(spec).follows_length else {}
    model = built(name, **NARROW, **one)
    given = prompt(padding="left")
    posenc.patch(model, spec)
    draw_projections(model)
    found_ids, found = step_logits(model, given, 9, use_cache=True)
    expected_ids, expected = step_logits(model, given, 9, use_cache=False)
    assert torch.equal(found_ids, expected_ids)
    assert_close(found, expected, 5e-5)
    ids = prompt()["input_ids"]
    model.train()(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    for parameter, value in model.named_parameters():
        if ".pos." in parameter and not parameter.endswith("gate_proj.weight"):
            assert value.grad is not None and value.grad.abs().max() > 0, parameter


@pytest.mark.parametrize("name", [*LATENT_ATTENTION, "llama"])
def test_a_cache_goes_from_one_to_the_other(name):
    """The model begins and posenc goes on, and the other way round, through the same cache."""
    model = built(name)
    ids = prompt(tokens=20)["input_ids"]
    expected = logits(model, {"input_ids": ids})
    for first in (posenc.unpatch, posenc.patch):
        first(model)
        with torch.no_grad():
            begun = model(input_ids=ids[:, :11], use_cache=True)
            (posenc.patch if first is posenc.unpatch else posenc.unpatch)(model)
            rest = model(input_ids=ids[:, 11:], past_key_values=begun.past_key_values, use_cache=True)
        assert apart(torch.cat([begun.logits, rest.logits], 1), expected) <= 2e-5


@pytest.mark.parametrize("interleave", [True, False])
@pytest.mark.parametrize("name", ["deepseek-v3", "mistral4"])
def test_both_layouts_of_a_config(name, interleave):
    model = built(name, rope_interleave=interleave, q_lora_rank=None)
    given = prompt(padding="left")
    expected = logits(model, given)
    spec = posenc.patch(model).specs[""]
    assert ("interleaved" in spec.text) == interleave and "softmax_mscale" not in spec.text
    assert apart(logits(model, given), expected) <= 1e-5


@pytest.mark.parametrize("name", LATENT_ATTENTION)
@pytest.mark.parametrize("schedule", ["dynamic", "linear", "yarn"])
def test_schedules(name, schedule):
    fields = {"dynamic": {"factor": 2.0}, "linear": {"factor": 4.0}, "yarn": {**YARN, "mscale_all_dim": 0.7}}[schedule]
    fields = {"rope_theta": 10000.0, **fields, "rope_type": schedule}
    if name == "mistral4":
        fields = {"llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 16, **fields}
    for tokens in (9, 40):
        model = built(name, rope_parameters=dict(fields), max_position_embeddings=16)
        given = prompt(tokens)
        expected = logits(model, given)
        posenc.patch(model)
        assert apart(logits(model, given), expected) <= 1e-5


def test_the_config_as_a_spec_of_the_caller():
    """softmax_mscale is in the scale of DeepSeek V3 and in the spec of its config, and counts once."""
    model = built("deepseek-v3")
    given = prompt(padding="left")
    expected = logits(model, given)
    own = posenc.hf_specs(model.config)[""]
    assert "softmax_mscale=true" in own.text
    for spec in (own, posenc.patch(model).specs[""]):
        posenc.patch(model, spec)
        assert apart(logits(model, given), expected) <= 1e-5


@pytest.mark.parametrize("name", LATENT_ATTENTION)
@pytest.mark.parametrize("v_head_dim", [6, 16])
def test_values_of_any_width(name, v_head_dim):
    model = built(name, v_head_dim=v_head_dim)
    given = prompt(padding="left")
    expected = logits(model, given)
    posenc.patch(model)
    assert apart(logits(model, given), expected) <= 1e-5


def test_values_that_cannot_be_read_are_refused():
    """They are narrower than the keys in these models, so a spec has nothing to rotate or to gate by behind them."""
    model = built("deepseek-v3")
    given = prompt()
    expected = logits(model, given)
    assert len(READS_VALUES) == 2
    for spec in READS_VALUES:
        with pytest.raises(posenc.Error, match=r"\[patch\] .* as the keys \(12\) but v_head_dim is 8; use a spec without"):
            posenc.patch(model, spec)
    assert torch.equal(logits(model, given), expected)
    same = built("deepseek-v3", v_head_dim=12)
    posenc.patch(same, READS_VALUES[0])
    assert logits(same, given).isfinite().all()


def test_half_precision():
    for name in LATENT_ATTENTION:
        model = built(name, "sdpa").to(torch.bfloat16)
        expected = logits(model, prompt()).float()
        posenc.patch(model)
        found = logits(model, prompt())
        assert found.dtype == torch.bfloat16
        assert apart(found.float(), expected) <= 0.06
