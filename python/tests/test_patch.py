"""posenc.patch on models of transformers: random tiny ones, the same logits before and after.

Where CUDA operators are registered, the same runs there too.
"""

import copy

import pytest
import torch

import posenc
import hf_families
from hf_families import TOKENS, devices
from catalog_specs import catalog_specs

transformers = pytest.importorskip("transformers", reason="needs the transformers package")

GROUPED = hf_families.SMALL
SMALL = {name: value for name, value in GROUPED.items() if name != "num_key_value_heads"}
MOE = dict(moe_intermediate_size=16, num_experts=4, num_experts_per_tok=2)
T5 = dict(
    vocab_size=61,
    d_model=32,
    d_kv=8,
    d_ff=48,
    num_layers=2,
    num_heads=4,
    relative_attention_num_buckets=8,
    relative_attention_max_distance=16,
    dropout_rate=0.0,
    decoder_start_token_id=0,
    pad_token_id=0,
    eos_token_id=None,
)
TOKEN_IDS = dict(vocab_size=61, pad_token_id=0, eos_token_id=None)
BLOOM = dict(**TOKEN_IDS, n_layer=2, attention_dropout=0.0, hidden_dropout=0.0)
MPT = dict(**TOKEN_IDS, n_layers=2, max_seq_len=64)
MODELS = {
    "llama": ("LlamaConfig", {**GROUPED, "attention_bias": True}),
    "mistral": ("MistralConfig", {**GROUPED, "sliding_window": 5, "head_dim": 8}),
    "mixtral": ("MixtralConfig", {**GROUPED, "num_local_experts": 2}),
    "qwen2": ("Qwen2Config", GROUPED),
    "qwen2-sliding": (
        "Qwen2Config",
        {**GROUPED, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    ),
    "qwen2-moe": ("Qwen2MoeConfig", {**GROUPED, **MOE, "shared_expert_intermediate_size": 16}),
    "qwen3": ("Qwen3Config", {**GROUPED, "head_dim": 16}),
    "qwen3-moe": ("Qwen3MoeConfig", {**GROUPED, **MOE, "head_dim": 16}),
    "gpt-neox": ("GPTNeoXConfig", {**SMALL, "hidden_size": 64}),
    "bloom": ("BloomConfig", {**BLOOM, "hidden_size": 32, "n_head": 4}),
    "bloom-6": ("BloomConfig", {**BLOOM, "hidden_size": 48, "n_head": 6}),
    "mpt": ("MptConfig", {**MPT, "d_model": 32, "n_heads": 4}),
    "mpt-6": ("MptConfig", {**MPT, "d_model": 48, "n_heads": 6}),
    "t5": ("T5Config", T5),
    "t5-gated": ("T5Config", {**T5, "feed_forward_proj": "gated-gelu"}),
    "mt5": ("MT5Config", T5),
}
MODELS.update((n, hf_families.FAMILIES[n]) for n in hf_families.PATCHED if n not in MODELS)
GENERATING = [name for name in MODELS if name not in hf_families.ENCODERS]
SCHEDULES = {
    "default": {"rope_theta": 500000.0},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 16},
    "yarn-deepseek": {
        "rope_type": "yarn",
        "factor": 8.0,
        "original_max_position_embeddings": 16,
        "mscale": 1.0,
        "mscale_all_dim": 0.7,
        "beta_fast": 16.0,
    },
    "longrope": {
        "factor": 4.0,
        "short_factor": [1.0, 1.1, 1.2, 1.3],
        "long_factor": [1.0, 2.0, 3.0, 4.0],
        "original_max_position_embeddings": 16,
    },
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
}


@pytest.fixture(params=devices())
def device(request):
    return request.param


def build(name, implementation="eager", **changes):
    kind, fields = MODELS[name]
    if not hasattr(transformers, kind):
        pytest.skip(f"transformers {transformers.__version__} has no {kind}")
    torch.manual_seed(3)
    config = getattr(transformers, kind)(**copy.deepcopy({**fields, **changes}))
    return hf_families.of_config(config, implementation, encoder=name in hf_families.ENCODERS)


def inputs(model, tokens=TOKENS, batch=2, padding=None, device="cpu"):
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(2, 61, (batch, tokens), generator=generator)
    mask = torch.ones_like(ids)
    cut = {"left": slice(0, 4), "right": slice(tokens - 4, tokens), "hole": slice(4, 7), None: None}
    if padding:
        mask[0, cut[padding]] = 0
        ids = ids * mask
    given = {"input_ids": ids.to(device)}
    if padding:
        given["attention_mask"] = mask.to(device)
    if model.config.is_encoder_decoder:
        target = torch.randint(2, 61, (batch, tokens - 3), generator=generator)
        given["decoder_input_ids"] = target.to(device)
    return given


def real_tokens(model, given):
    """Logits of padding mean nothing and are not compared."""
    if model.config.is_encoder_decoder or "attention_mask" not in given:
        return slice(None)
    return given["attention_mask"].bool()


def assert_close(found, expected, bound=1e-5):
    difference = (found - expected).abs().max() / expected.abs().max()
    assert difference <= bound, f"differs by {difference:.2e} of the largest"


def logits(model, given, **options):
    with torch.no_grad():
        return model(**given, **options).logits[real_tokens(model, given)]


@pytest.mark.parametrize("padding", [None, "left", "right", "hole"])
@pytest.mark.parametrize("name", MODELS)
def test_logits(name, padding, device):
    model = build(name).to(device)
    given = inputs(model, padding=padding, device=device)
    expected = logits(model, given, use_cache=False)
    report = posenc.patch(model)
    if name == "llama4" and padding == "hole":
        with pytest.raises(ValueError, match="mask chunked_overlay is not one that posenc can"):
            logits(model, given, use_cache=False)
        return
    assert_close(logits(model, given, use_cache=False), expected)
    assert_close(logits(model, given, use_cache=True), expected)
    attention = [m for m in model.modules() if type(m).__name__.endswith("Attention")]
    outer = ("T5Layer", "MT5Layer", "DebertaV2Attention")
    inner = [m for m in attention if not type(m).__name__.startswith(outer)]
    assert len(report.attention) == len(inner) and not report.untouched
    assert posenc.unpatch(model)
    assert torch.equal(logits(model, given, use_cache=False), expected)


@pytest.mark.parametrize(
    "name",
    ["llama", "gpt-neox", "qwen3", "bloom", "mpt", "t5", "gpt-oss", "llama4", "gemma3", "deberta-v3"]
    + list(hf_families.LATENT_ATTENTION),
)
def test_positions_matter_in_these_tests(name):
    model = build(name)
    given = inputs(model)
    expected = logits(model, given)
    posenc.patch(model, "none")
    found = logits(model, given)
    assert (found - expected).abs().max() > 1e-2 * expected.abs().max()


def gradients(model, given, labels):
    model.zero_grad()
    model(**given, labels=labels).loss.backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def assert_gradients_close(found, expected):
    assert set(found) == set(expected)
    largest = max(g.abs().max() for g in expected.values())
    for name, gradient in expected.items():
        difference = (found[name] - gradient).abs().max()
        bound = 1e-4 * gradient.abs().max() + 1e-6 * largest
        assert difference <= bound, f"{name}: {difference:.2e} of {gradient.abs().max():.2e}"


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("name", MODELS)
def test_gradients(name, padding, device):
    model = build(name).to(device).train()
    given = inputs(model, padding=padding, device=device)
    labels = given.get("decoder_input_ids", given["input_ids"]).clone()
    labels[labels == 0] = -100
    if "decoder_input_ids" not in given and padding == "left":
        labels[0, 4] = -100  # told by a padding token, whose logits mean nothing
    expected = gradients(model, given, labels)
    posenc.patch(model)
    assert_gradients_close(gradients(model, given, labels), expected)


def test_tokens_that_see_nothing_are_as_sdpa_has_them():
    model = build("llama", "sdpa").train()
    given = inputs(model, padding="left")
    expected = gradients(model, given, given["input_ids"])
    posenc.patch(model)
    assert_gradients_close(gradients(model, given, given["input_ids"]), expected)


@pytest.mark.parametrize("how", [{}, {"num_beams": 2}, {"cache_implementation": "static"}])
@pytest.mark.parametrize("name", GENERATING)
def test_generate(name, how, device):
    model = build(name).to(device)
    given = inputs(model, padding="left", device=device)
    given.pop("decoder_input_ids", None)
    options = dict(max_new_tokens=9, do_sample=False, disable_compile=True, **how)
    try:
        expected = model.generate(**given, **options)
    except Exception as problem:
        if "cache_implementation" not in how:
            raise
        pytest.skip(f"transformers does not generate with a static cache here: {problem}")
    posenc.patch(model)
    assert torch.equal(model.generate(**given, **options), expected)


@pytest.mark.parametrize("tokens", [10, 40])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt-neox"])
def test_schedules(name, schedule, tokens, device):
    fields = {"rope_type": schedule, "rope_theta": 10000.0, **SCHEDULES[schedule]}
    dims = {"qwen3": {"head_dim": 8}, "gpt-neox": {"hidden_size": 128}}.get(name, {})
    dims["max_position_embeddings"] = 16
    model = build(name, rope_parameters=fields, **dims).to(device)
    given = inputs(model, tokens, padding="left", device=device)
    before = copy.deepcopy(model)
    posenc.patch(model)
    for _ in range(2):  # the dynamic schedule remembers
        assert_close(logits(model, given), logits(before, given))
    options = dict(max_new_tokens=12, do_sample=False)
    assert torch.equal(model.generate(**given, **options), before.generate(**given, **options))
    short = inputs(model, 9, device=device)
    assert_close(logits(model, short), logits(before, short))


@pytest.mark.parametrize("name", ["llama", "gpt-neox", "bloom", "mpt", "t5", "mistral", "deberta-v3", "deepseek-v3"])
def test_attention_weights(name):
    model = build(name)
    given = inputs(model, padding="right")
    with torch.no_grad():
        expected = model(**given, output_attentions=True)
        posenc.patch(model)
        found = model(**given, output_attentions=True)
    fields = ["attentions"]
    if model.config.is_encoder_decoder:
        fields = ["encoder_attentions", "decoder_attentions", "cross_attentions"]
    for field in fields:
        assert len(getattr(found, field)) == 2
        for one, other in zip(getattr(found, field), getattr(expected, field)):
            if name in hf_families.ENCODERS:  # weights of padding mean nothing
                one, other = (w.transpose(1, 2)[real_tokens(model, given)] for w in (one, other))
            assert torch.allclose(one, other, atol=1e-5)
    assert model(**given).get(fields[0]) is None


def test_packed_sequences():
    model = build("llama")
    ids = inputs(model)["input_ids"]
    positions = torch.tensor(
        [[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6], [0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1]]
    )
    given = {"input_ids": ids, "position_ids": positions}
    expected = logits(model, given, use_cache=False)
    posenc.patch(model)
    assert_close(logits(model, given, use_cache=False), expected)


def test_gradient_checkpointing():
    for name in ("llama", "t5", "deberta-v3"):
        model = build(name).train()
        given = inputs(model)
        ids = given.get("decoder_input_ids", given["input_ids"])
        posenc.patch(model)
        model(**given, labels=ids).loss.backward()
        expected = {n: p.grad.clone() for n, p in model.named_parameters()}
        model.zero_grad()
        model.gradient_checkpointing_enable()
        model(**given, labels=ids).loss.backward()
        for name, parameter in model.named_parameters():
            assert_close(parameter.grad, expected[name])


def test_another_schedule_with_the_same_weights():
    model = build("llama")
    other = build("llama", rope_parameters={"rope_type": "default", "rope_theta": 300.0})
    given = inputs(model, padding="left")
    expected = logits(other, given)
    assert (logits(model, given) - expected).abs().max() > 1e-2 * expected.abs().max()
    report = posenc.patch(model, "rope(theta=300, precision=hf)")
    assert report.specs == {"": posenc.Spec("rope(theta=300, precision=hf)")}
    assert_close(logits(model, given), expected)
    posenc.patch(model)  # and back to its own, without unpatch
    posenc.unpatch(model)
    assert not [name for name in model.state_dict() if ".pos." in name]


def test_parameters_of_encodings_train():
    for name, spec in (("llama", "rope + cope(npos_max=8)"), ("bloom", "rope(schedule=learnable)")):
        model = build(name)
        given = inputs(model)
        names = set(model.state_dict())
        posenc.patch(model, spec)
        model(**given, labels=given["input_ids"]).loss.backward()
        added = {n: p for n, p in model.named_parameters() if ".pos." in n}
        assert len(added) == 2 and all(p.grad.abs().max() > 0 for p in added.values())
        ids = given["input_ids"]
        expected = logits(model, given)
        with torch.no_grad():  # token by token through the cache
            cache, parts = None, []
            for i in range(ids.shape[1]):
                out = model(input_ids=ids[:, i : i + 1], past_key_values=cache, use_cache=True)
                cache = out.past_key_values
                parts.append(out.logits)
        assert_close(torch.cat(parts, 1), expected, 2e-5)
        posenc.unpatch(model)
        assert set(model.state_dict()) == names


CATALOG = catalog_specs()
CATALOG += ["none", "rope + alibi", "rope + cope(npos_max=8)", "xpos + fire", "rope + rope(theta=9)"]
CATALOG += ["rope + fox", "rope + fox + cope(npos_max=8, gate_source=separate)"]


def draw_projections(model):
    """Weights in place of zeros, and gates that forget: inputs differ from token to token."""
    torch.manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".pos." in name and "_proj." in name:
                parameter.copy_(torch.randn_like(parameter) / parameter.shape[-1] ** 0.5)


def step_logits(model, given, tokens, use_cache):
    out = model.generate(
        **given,
        max_new_tokens=tokens,
        do_sample=False,
        disable_compile=True,
        use_cache=use_cache,
        return_dict_in_generate=True,
        output_logits=True,
    )
    return out.sequences, torch.stack(out.logits)


@pytest.mark.parametrize("spec", CATALOG)
@pytest.mark.parametrize("name", ["llama", "gpt-neox", "bloom", "mpt", "t5"])
def test_every_spec_generates_and_trains(name, spec, device):
    """Generation from a cache, with padding and past trained lengths, is a pass over all tokens."""
    if name == "t5" and posenc.Spec(spec).needs_causal:
        pytest.skip("the encoder of T5 is not causal")
    changes = {"hidden_size": 32} if name == "gpt-neox" else {}
    if posenc.Spec(spec).follows_length:  # a second layer reads what was computed at other lengths
        layers = {"bloom": "n_layer", "mpt": "n_layers", "t5": "num_layers"}
        changes[layers.get(name, "num_hidden_layers")] = 1
    model = build(name, **changes).to(device)
    given = inputs(model, padding="left", device=device)
    given.pop("decoder_input_ids", None)
    posenc.patch(model, spec)
    draw_projections(model)
    found_ids, found = step_logits(model, given, 18, use_cache=True)
    expected_ids, expected = step_logits(model, given, 18, use_cache=False)
    assert torch.equal(found_ids, expected_ids)
    assert_close(found, expected, 5e-5)
    model.train()
    given = inputs(model, device=device)
    ids = given.get("decoder_input_ids", given["input_ids"])
    model(**given, labels=ids).loss.backward()
    added = {n: p for n, p in model.named_parameters() if ".pos." in n}
    wanted = [p for p in posenc.Spec(spec).parameters(8, 4) if p.trainable]
    assert bool(added) == bool(wanted or posenc.Spec(spec).inputs(8, 4))
    for parameter, value in added.items():
        if parameter.endswith("gate_proj.weight"):  # the table that its gates read is zero
            continue
        assert value.grad is not None and value.grad.abs().max() > 0, parameter


@pytest.mark.parametrize("spec", ["xpos", "rope(schedule=learnable)", "cope(npos_max=8)"])
@pytest.mark.parametrize(
    "name, how",
    [
        ("llama", {"num_beams": 2}),
        ("llama", {"cache_implementation": "static"}),
        ("mistral", {}),  # a cache with a window of 5
        ("mistral", {"num_beams": 2}),
    ],
)
def test_unrotated_keys_in_other_caches(name, how, spec, device):
    model = build(name, num_hidden_layers=1).to(device)
    given = inputs(model, padding="left", device=device)
    posenc.patch(model, spec)
    options = dict(max_new_tokens=9, do_sample=False, disable_compile=True)
    beams = {key: value for key, value in how.items() if key == "num_beams"}
    expected = model.generate(**given, **options, **beams, use_cache=False)
    assert torch.equal(model.generate(**given, **options, **how), expected)


SPECS_BY_TYPE = {
    "gemma3": {"full_attention": "rope + alibi", "sliding_attention": "rope(theta=100)"},
    "cohere2": {"full_attention": "alibi", "sliding_attention": "rope"},
    "smollm3": {"rope": "rope", "no_rope": "temperature(floor=4, scale=0.5)"},
    "llama4": {"rope": "rope", "no_rope": "none"},
}


@pytest.mark.parametrize(
    "spec", ["rope + alibi", "rope + temperature(floor=4)", "rope + cope(npos_max=8)", "by type"]
)
@pytest.mark.parametrize("name", ["gpt-oss", "gemma2", "falcon-grouped", *SPECS_BY_TYPE])
def test_other_specs_on_layers_of_several_kinds(name, spec, device):
    """Generation from a cache is a pass over all tokens, and all new parameters train."""
    if spec == "by type" and name not in SPECS_BY_TYPE:
        pytest.skip("its layers are all alike")
    model = build(name).to(device)
    given = inputs(model, padding="left", device=device)
    report = posenc.patch(model, SPECS_BY_TYPE[name] if spec == "by type" else spec)
    assert sorted(report.specs) == sorted(SPECS_BY_TYPE.get(name, {"": spec}))
    found = model.generate(**given, max_new_tokens=9, do_sample=False, disable_compile=True)
    mask, ids = given["attention_mask"], found
    for _ in range(found.shape[1] - mask.shape[1]):
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
    places = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 0)
    with torch.no_grad():
        whole = model(ids, attention_mask=mask, position_ids=places, use_cache=False).logits
    first = given["input_ids"].shape[1]
    assert torch.equal(whole[:, first - 1 : -1].argmax(-1), found[:, first:])
    model(**given, labels=given["input_ids"]).loss.backward()
    for parameter, value in model.named_parameters():
        if ".pos." in parameter or parameter.endswith(".sinks"):
            assert value.grad is not None and value.grad.abs().max() > 0, parameter


def test_the_soft_cap_and_the_sinks_of_a_model_stay():
    for name, term in (("gemma2", "softcap(cap=3)"), ("gpt-oss", "sink")):
        model = build(name)
        given = inputs(model)
        expected = logits(model, given)
        own = posenc.hf_specs(model.config)[""]
        assert own.text.endswith(f" + {term}")
        posenc.patch(model, own.part("query/key"))
        assert_close(logits(model, given), expected)


def test_t5_with_specs_of_its_own():
    model = build("t5")
    given = inputs(model)
    own = {"encoder": "t5(num_buckets=8, max_distance=16, bidirectional=true)", "decoder": "alibi"}
    report = posenc.patch(model, own)
    assert sorted(report.specs) == ["decoder", "encoder"]
    model(**given).logits.sum().backward()
    with pytest.raises(ValueError, match=r"one spec or have the keys \['decoder', 'encoder'\]"):
        posenc.patch(model, {"encoder": "alibi"})


@pytest.mark.parametrize("name", hf_families.ENCODERS)
def test_deberta_past_the_farthest_distance(name, device):
    """Row 0 of the table is read there alone."""
    model = build(name, max_position_embeddings=16).to(device)
    given = inputs(model, tokens=40, padding="right", device=device)
    expected = logits(model, given)
    posenc.patch(model)
    assert_close(logits(model, given), expected)


def test_deberta_with_other_encodings(device):
    for spec in ("none", "rope", "alibi", "rope + fox"):
        model = build("deberta-v3").to(device).train()
        given = inputs(model, padding="right", device=device)
        report = posenc.patch(model, spec)
        assert report.specs == {"": posenc.Spec(spec)}
        model(**given, labels=given["input_ids"]).loss.backward()
        assert all(p.grad is not None for n, p in model.named_parameters() if ".pos." in n)


def test_a_patched_model_can_be_copied_and_saved(tmp_path):
    model = build("llama")
    given = inputs(model)
    expected = logits(model, given)
    posenc.patch(model)
    twin = copy.deepcopy(model)
    posenc.unpatch(model)
    assert_close(logits(twin, given), expected)
    assert posenc.unpatch(twin)
    assert twin.config._attn_implementation == "eager"
    posenc.patch(model)
    model.save_pretrained(tmp_path)
    assert "posenc" not in (tmp_path / "config.json").read_text()
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert_close(logits(loaded, given), expected)


@pytest.mark.parametrize("name", ["llama", "bloom", "t5", "deberta-v3"])
def test_double_precision(name):
    model = build(name).double()
    given = inputs(model, padding="right")  # left, transformers itself has no numbers here
    expected = logits(model, given)
    posenc.patch(model)
    assert_close(logits(model, given), expected, 1e-6)
    assert_close(logits(model, given, use_cache=True), expected, 1e-6)


@pytest.mark.parametrize("name", ["llama", "t5", "deberta-v3"])
def test_half_precision(name):
    model = build(name, "sdpa" if name == "llama" else "eager").to(torch.bfloat16)
    given = inputs(model)
    expected = logits(model, given).float()
    posenc.patch(model)
    found = logits(model, given)
    assert found.dtype == torch.bfloat16
    assert_close(found.float(), expected, 0.06)


def test_dropout_is_drawn_from_torchs_seed():
    model = build("llama", attention_dropout=0.5).train()
    given = inputs(model)
    posenc.patch(model)

    def run(seed):
        torch.manual_seed(seed)
        return logits(model, given)

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))


def test_the_report():
    model = build("llama")
    report = posenc.patch(model)
    assert report.model_type == "llama"
    assert report.attention == [f"model.layers.{i}.self_attn" for i in range(2)]
    assert report.rotary == ["model.rotary_emb"]
    lines = str(report).splitlines()
    assert lines[0] == "llama: patched 2 attention modules" and "  rotary embedding: model.rotary_emb" in lines
    assert lines[1].startswith("  spec: rope(")


def test_what_cannot_be_kept_is_refused():
    config = transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=9)
    with pytest.raises(ValueError, match="GPT2LMHeadModel has no .* .it has GPT2Attention.*attn_implementation=.posenc."):
        posenc.patch(transformers.GPT2LMHeadModel(config))
    model = build("llama")
    given = inputs(model)
    posenc.patch(model)
    square = torch.ones(2, 1, TOKENS, TOKENS, dtype=torch.bool).tril()
    with pytest.raises(ValueError, match="attention_mask must be"):
        model(given["input_ids"], attention_mask=square)
    with pytest.raises(ValueError, match="not causal"):
        model(given["input_ids"], is_causal=False)
    model.set_attn_implementation("sdpa")
    with pytest.raises(ValueError, match="set to 'sdpa' after posenc.patch"):
        model(given["input_ids"])
    posenc.unpatch(model)
    model.model.rotary_emb.original_inv_freq *= 0.5
    with pytest.raises(ValueError, match="does not rotate by the frequencies of its config"):
        posenc.patch(model)
    assert model.config._attn_implementation == "eager"
    model(given["input_ids"])


def test_compiled():
    model = build("llama")
    given = inputs(model)
    expected = logits(model, given, use_cache=False)
    posenc.patch(model)
    compiled = torch.compile(model, backend="aot_eager")
    with torch.no_grad():
        found = compiled(**given, use_cache=False).logits
    assert_close(found, expected)
