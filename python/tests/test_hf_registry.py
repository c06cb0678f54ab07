"""attn_implementation="posenc" on models of transformers: random small ones, against eager attention.

Where CUDA operators are registered, the same runs there too.
"""

import pytest
import torch

import posenc
from hf_families import FAMILIES, REGISTERED, apart, build, devices, gradients, gradients_apart, logits
from hf_families import prompt, randomize

transformers = pytest.importorskip("transformers", reason="needs the transformers package")
posenc.register_attention()


@pytest.fixture(params=devices())
def device(request):
    return request.param


def built(name, device="cpu", **changes):
    model = build(name, **changes)
    if model is None:
        pytest.skip(f"transformers {transformers.__version__} has no {FAMILIES[name][0]}")
    return model.to(device)


def switch(model):
    model.set_attn_implementation("posenc")
    assert model.config._attn_implementation == "posenc"
    return model


@pytest.mark.filterwarnings("ignore:.*a mask that is not causal")  # chunks with holes
@pytest.mark.parametrize("padding", [None, "left", "right", "hole"])
@pytest.mark.parametrize("name", REGISTERED)
def test_logits(name, padding, device):
    model = built(name, device)
    given = prompt(padding=padding, device=device)
    expected = logits(model, given, use_cache=False)
    switch(model)
    assert apart(logits(model, given, use_cache=False), expected) <= 2e-5
    assert apart(logits(model, given, use_cache=True), expected) <= 2e-5
    model.set_attn_implementation("eager")
    assert torch.equal(logits(model, given, use_cache=False), expected)


@pytest.mark.parametrize("name", REGISTERED)
def test_the_attention_is_posencs(name, monkeypatch):
    """Every layer calls the registered function, and none of them falls back to PyTorch."""
    calls = []
    model = built(name)
    kernel = posenc.hf.run_kernel
    monkeypatch.setattr(posenc.hf, "run_kernel", lambda *a, **b: calls.append(1) or kernel(*a, **b))
    logits(switch(model), prompt(padding="left"), use_cache=False)
    assert len(calls) == model.config.num_hidden_layers


@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("name", REGISTERED)
def test_gradients(name, padding, device):
    model = built(name, device).train()
    given = prompt(padding=padding, device=device)
    expected = gradients(model, given)
    assert gradients_apart(gradients(switch(model), given), expected) <= 1e-4


@pytest.mark.parametrize("how", [{}, {"num_beams": 2}, {"cache_implementation": "static"}])
@pytest.mark.parametrize("name", REGISTERED)
def test_generate(name, how, device):
    model = built(name, device)
    given = prompt(padding="left", device=device)
    options = dict(max_new_tokens=9, do_sample=False, disable_compile=True, **how)
    try:
        expected = model.generate(**given, **options)
    except Exception as problem:
        if not how:
            raise
        pytest.skip(f"transformers does not generate with {how} here: {problem}")
    assert torch.equal(switch(model).generate(**given, **options), expected)


def test_a_prompt_in_chunks():
    """Windows and chunks of attention across the boundary of two calls."""
    for name in ("gemma2", "llama4", "gpt-oss"):
        model = built(name)
        ids = prompt()["input_ids"]
        results = []
        for implementation in ("eager", "posenc"):
            model.set_attn_implementation(implementation)
            with torch.no_grad():
                first = model(input_ids=ids[:, :7], use_cache=True)
                cache = first.past_key_values
                second = model(input_ids=ids[:, 7:], past_key_values=cache, use_cache=True)
            results.append(torch.cat([first.logits, second.logits], 1))
        assert apart(results[1], results[0]) <= 2e-5, name


def test_packed_sequences():
    positions = [[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6], [0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1]]
    for name in ("llama", "cohere2"):
        model = built(name)
        given = {**prompt(), "position_ids": torch.tensor(positions)}
        expected = logits(model, given, use_cache=False)
        assert apart(logits(switch(model), given, use_cache=False), expected) <= 2e-5


def test_a_mask_of_ones_own():
    """Of four dimensions: it runs through PyTorch, and says so once."""
    model = built("gpt-oss", layer_types=["full_attention"] * 2)
    tokens = prompt()["input_ids"].shape[1]
    square = torch.ones(2, 1, tokens, tokens, dtype=torch.bool).tril()
    square[:, :, 7:, 2:4] = False
    added = torch.zeros(square.shape).masked_fill(~square, torch.finfo(torch.float32).min)
    given = {**prompt(), "attention_mask": added}
    with torch.no_grad():
        expected = model(**given, use_cache=False).logits
        posenc.hf._warned.clear()
        switch(model)
        with pytest.warns(UserWarning, match="GptOssAttention has a mask that is not causal"):
            found = model(**given, use_cache=False).logits
    assert apart(found, expected) <= 2e-5


def test_encoders_look_both_ways(device):
    small = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2)
    config = transformers.BertConfig(
        **small, num_attention_heads=4, max_position_embeddings=64, type_vocab_size=2
    )
    auto = transformers.AutoModel
    model = randomize(auto.from_config(config, attn_implementation="eager").eval()).to(device)
    for padding in (None, "left"):
        given = prompt(padding=padding, device=device)
        with torch.no_grad():
            expected = model(**given).last_hidden_state
            found = switch(model)(**given).last_hidden_state
        assert apart(found, expected) <= 2e-5
        model.set_attn_implementation("eager")


@pytest.mark.filterwarnings("ignore:.*a position bias")
def test_cross_attention_and_biases(device):
    small = dict(vocab_size=61, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    config = transformers.T5Config(
        **small, relative_attention_num_buckets=8, pad_token_id=0, decoder_start_token_id=0
    )
    auto = transformers.AutoModelForSeq2SeqLM
    if not transformers.T5ForConditionalGeneration._can_set_attn_implementation():
        pytest.skip(f"SKIPPED: T5 of transformers {transformers.__version__} has an attention of its own")
    model = randomize(auto.from_config(config, attn_implementation="eager").eval()).to(device)
    given = prompt(padding="right", device=device)
    target = given["input_ids"][:, :7].flip(0)
    with torch.no_grad():
        expected = model(**given, decoder_input_ids=target).logits
        found = switch(model)(**given, decoder_input_ids=target).logits
    assert apart(found, expected) <= 2e-5


def test_half_precision():
    for name in ("llama", "gemma2", "gpt-oss"):
        model = built(name).to(torch.bfloat16)
        given = prompt()
        expected = logits(model, given).float()
        found = logits(switch(model), given)
        assert found.dtype == torch.bfloat16
        assert apart(found.float(), expected) <= 0.1
