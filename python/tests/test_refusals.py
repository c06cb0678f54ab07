"""Arguments that an earlier version read as something else, without a word."""

import inspect
import math
import warnings

import pytest
import torch

import posenc


def tensors(tokens=6):
    return [torch.randn(2, 2, tokens, 8) for _ in range(3)]


def attentions(**options):
    """Every function that takes masks and positions, called with the options."""
    q, k, v = tensors()
    return [
        lambda: posenc.attention(q, k, v, "rope", **options),
        lambda: posenc.attention(q, k, v, "rope", return_weights=True, **options),
        lambda: posenc.attention(q.double(), k.double(), v.double(), "rope", **options),
        lambda: posenc.attention_decode(q, k, v, "rope", **options),
        lambda: posenc.linear_attention(q, k, v, "rope", **options),
        lambda: posenc.cope_positions(
            q, k, v, "cope(npos_max=4)", {"cope.pos_emb": torch.zeros(8, 4)}, **options
        ),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_masks_that_are_added_to_scores(dtype):
    seen = torch.tensor([True, True, True, False, False, True]).expand(2, 6)
    added = torch.zeros(2, 6, dtype=dtype).masked_fill(~seen, -math.inf)
    for call in attentions(key_mask=added) + attentions(key_mask=seen.to(dtype)):
        with pytest.raises(RuntimeError, match="key_mask must be bool, or integers 0 and 1, but got"):
            call()


def test_integer_masks_hold_0_and_1():
    seen = torch.tensor([1, 1, 1, 0, 0, 1]).expand(2, 6)
    for call in attentions(key_mask=2 * seen):
        with pytest.raises(RuntimeError, match="but got 2"):
            call()
    module = posenc.nn.Attention(16, 2)
    x = torch.randn(2, 6, 16)
    assert torch.equal(module(x, seen), module(x, seen.bool()))
    with pytest.raises(RuntimeError, match="but got Float"):
        module(x, seen.float())
    with pytest.raises(RuntimeError, match="but got Float"):
        posenc.nn.LinearAttention(16, 2)(x, seen.float())


@pytest.mark.parametrize("spec", ["sinusoidal", "learned", "sinusoidal + rope"])
def test_encodings_of_the_input(spec):
    q, k, v = tensors()
    calls = [
        lambda: posenc.attention(q, k, v, spec),
        lambda: posenc.attention_decode(q, k, v, spec),
        lambda: posenc.linear_attention(q, k, v, spec),
        lambda: posenc.nn.Attention(16, 2, spec),
        lambda: posenc.nn.LinearAttention(16, 2, spec),
        lambda: posenc.explain(spec, heads=2, queries=6, keys=6, head_dim=8),
        lambda: posenc.explain(spec, heads=2, queries=6, keys=6, head_dim=8, device="cuda"),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="nn.PositionalEmbedding"):
            call()


def test_encodings_of_attention_are_not_added_to_the_input():
    with pytest.raises(RuntimeError, match="must have encodings of site 1 only but got rope"):
        posenc.nn.PositionalEmbedding("sinusoidal + rope", 6)
    x = torch.randn(2, 3, 6)
    assert torch.equal(posenc.nn.PositionalEmbedding("none", 6)(x), x)


def test_inputs_that_nothing_reads():
    q, k, v = tensors()
    for call in (posenc.attention, posenc.attention_decode):
        with pytest.raises(ValueError, match="inputs has unknown .'cope.gate_k'.; the spec's are: none"):
            call(q, k, v, "rope", inputs={"cope.gate_k": k})
        with pytest.raises(ValueError, match="inputs lacks 'cope.gate_k'"):
            call(q, k, v, "cope(gate_source=separate)", {"cope.pos_emb": torch.zeros(8, 64)})
    for x in (q, q.double()):
        with pytest.raises(RuntimeError, match="inputs must be none but got 1 tensors"):
            torch.ops.posenc.attention(x, x, x, "rope", [], [x])


def test_windows_below_minus_one():
    q, k, v = tensors()
    for call in (posenc.attention, posenc.attention_decode):
        for dtype in (torch.float32, torch.float64):
            with pytest.raises(RuntimeError, match="window_left must be .* but got -5"):
                call(q.to(dtype), k.to(dtype), v.to(dtype), "alibi", window_left=-5)
    with pytest.raises(ValueError, match="window_left must be -1 .* but is -5"):
        posenc.nn.Attention(16, 2, window_left=-5)


@pytest.mark.parametrize("far", [2**53 + 1, 2**62, -(2**53) - 1])
def test_positions_that_float64_does_not_hold(far):
    places = torch.arange(6)
    places[4] = far
    words = rf"must be in \[-2\^53, 2\^53\] but got {far}"
    for call in attentions(q_positions=places):
        with pytest.raises(RuntimeError, match=words):
            call()
    q, k, _ = tensors()
    with pytest.raises(RuntimeError, match=words):
        posenc.rope(q, k, positions=places)
    with pytest.raises(RuntimeError, match=words):
        posenc.rerotate(k, torch.arange(6), places)
    with pytest.raises(RuntimeError, match=words):
        posenc.nn.PositionalEmbedding("sinusoidal", 8)(torch.zeros(1, 6, 8), places)


def test_rope_is_exact_up_to_the_bound():
    x = torch.randn(1, 1, 1, 8, dtype=torch.float64)
    place = 2**53 - 1
    turned, _ = posenc.rope(x, x, positions=torch.tensor([place]))
    first, second = x[0, 0, 0, 0], x[0, 0, 0, 4]  # of frequency 1: the angle is the position itself
    want = first * math.cos(place) - second * math.sin(place)
    assert abs(turned[0, 0, 0, 0] - want) < 1e-12


def test_one_default_of_causal():
    functions = [posenc.attention, posenc.linear_attention]
    modules = [posenc.nn.Attention, posenc.nn._Projections]
    for call in functions + modules:
        assert inspect.signature(call).parameters["causal"].default is False
    x = torch.randn(1, 6, 16)
    changed = x.clone()
    changed[:, 5] += 1
    for module in (posenc.nn.Attention(16, 2, "rope"), posenc.nn.LinearAttention(16, 2)):
        assert not torch.allclose(module(x)[:, 0], module(changed)[:, 0])
    with pytest.raises(ValueError, match="a cache needs causal attention"):
        posenc.nn.Attention(16, 2)(x, cache=posenc.nn.KeyValueCache())


def test_what_a_cache_does_not_read():
    module = posenc.nn.Attention(16, 2, "rope", causal=True)
    x, cache = torch.randn(1, 6, 16), posenc.nn.KeyValueCache()
    with pytest.raises(ValueError, match="key_mask is not read with a cache"):
        module(x, torch.ones(1, 6, dtype=torch.bool), cache=cache)
    with pytest.raises(ValueError, match="positions is not read with a cache"):
        module(x, positions=torch.arange(6), cache=cache)


def test_heads_that_do_not_divide_the_width():
    for module in (posenc.nn.Attention, posenc.nn.LinearAttention):
        with pytest.raises(ValueError, match=r"multiple of heads \(8\) but is 65"):
            module(65, 8)
    assert posenc.nn.Attention(65, 8, head_dim=16)(torch.zeros(1, 2, 65)).shape == (1, 2, 65)


def test_what_is_not_fused_warns_once():
    q = torch.randn(1, 2, 12, 8)
    spec = "cope(npos_max=5) + cope(npos_max=6)"
    params = posenc.Spec(spec).initial_parameters(8, 2)
    with pytest.warns(UserWarning, match="not fused: reference .*: more than one cope"):
        posenc.attention(q, q, q, spec, params)
    ids = torch.arange(12)
    with pytest.warns(UserWarning, match="biases with explicit positions"):
        posenc.attention(q, q, q, "alibi", q_positions=ids, k_positions=ids)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posenc.attention(q, q, q, spec, params)
        posenc.attention(q, q, q, "alibi")
        posenc.attention(q.double(), q.double(), q.double(), "alibi")  # float64 asks for the reference


@pytest.mark.skipif(
    posenc.library_path().name.endswith("_stable.so"), reason="the library for the stable ABI computes on CPUs"
)
def test_explain_names_the_backward():
    shape = {"heads": 2, "queries": 64, "keys": 64}
    text = posenc.explain("rope", head_dim=8, dtype="float64", **shape)
    assert text == "reference (float64): float64; backward: reference (float64)"
    try:
        torch.set_float32_matmul_precision("high")
        text = posenc.explain("cope(gate_source=value)", head_dim=256, device="cuda", **shape)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert text.startswith("fused on cuda")
    assert "; backward: composed, scores as tensors: float32 with gates of other keys" in text


ANGLES = "rope(angles=input)"


def by_angles(q, k, v, **options):
    return posenc.linear_attention(q, k, v, ANGLES, inputs={"rope.angles": torch.randn(*k.shape[:3], 4)}, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cu_queries": torch.tensor([0, 3]), "cu_keys": torch.tensor([0, 3])}, "must rise from 0 to"),
        ({"cu_queries": torch.tensor([2, 6])}, "must rise from 0 to"),
        ({"cu_queries": torch.tensor([0, 3, 1, 6])}, "must rise from 0 to"),
        ({"cu_queries": torch.tensor([0, 3, 6]), "cu_keys": torch.tensor([0, 6])}, "entries"),
        ({"cu_queries": torch.tensor([0.0, 6.0])}, "must be a list of whole numbers"),
        ({"cu_keys": torch.tensor([], dtype=torch.int64)}, "but is empty"),
        ({"key_mask": torch.zeros(2, 6)}, "key_mask must be bool, or integers 0 and 1, but got Float"),
        ({"key_mask": torch.ones(1, 6, dtype=torch.bool)}, "key_mask must be .* = .2, 6."),
        ({"form": "relu", "epsilon": -1.0}, "epsilon must be > 0"),
        ({"form": "gelu"}, "form must be elu, relu or cosine"),
        ({"q_positions": torch.arange(6)}, "q_positions is not read with angles from an input"),
    ],
)
def test_angles_from_an_input_have_the_checks_of_the_operator(options, words):
    with pytest.raises(RuntimeError, match=words):
        by_angles(*tensors(), **options)


def test_angles_from_an_input_with_wrong_tensors():
    q, k, v = tensors()
    for call, words in [
        (lambda: by_angles(q, k[:1], v[:1]), "batch"),
        (lambda: by_angles(q, k, v[:, :, :4]), "tokens"),
        (lambda: by_angles(q, k[..., :6], v), "k must have 8 channels as q has but got 6"),
        (lambda: by_angles(q, k, v[..., :6]), "v must have 8 channels as q has but got 6"),
        (lambda: by_angles(q, k.double(), v), "k must be Float as q is but got Double"),
        (lambda: posenc.linear_attention(q, k, v, ANGLES, inputs={"rope.angles": 5}), "must be a tensor but got int"),
        (lambda: posenc.linear_attention(q, k, v, ANGLES, inputs=[k]), "inputs must be a dict"),
    ]:
        with pytest.raises((RuntimeError, TypeError), match=words):
            call()
    module = posenc.nn.LinearAttention(16, 2, ANGLES)
    with pytest.raises(RuntimeError, match="key_mask must be"):
        module(torch.randn(2, 6, 16), torch.ones(2, 1, dtype=torch.bool))


def test_a_failed_step_leaves_the_cache_as_it_was():
    x = torch.randn(2, 8, 16)
    for spec in ("rope", "cope(npos_max=4)", "rope + fox"):
        layer, cache = posenc.nn.Attention(16, 2, spec, causal=True), posenc.nn.KeyValueCache()
        whole = layer(x)
        layer(x[:, :3], cache=cache)
        with pytest.raises(ValueError, match="x must have 2 batch entries as the cache has but got 1"):
            layer(x[:1, 3:4], cache=cache)
        with pytest.raises(ValueError, match="give each layer a cache of its own"):
            posenc.nn.Attention(16, 4, spec, causal=True)(x[:, 3:4], cache=cache)
        assert cache.length == 3
        assert torch.allclose(layer(x[:, 3:], cache=cache), whole[:, 3:], atol=1e-5)


@pytest.mark.parametrize("spec", ["rope", "rope + alibi", "cope(npos_max=4) + cope(npos_max=4) + rope", "fox + fox + rope"])
@pytest.mark.filterwarnings("ignore:.*is not fused")
def test_caches_of_specs_and_types_that_the_reference_serves(spec):
    for dtype in (torch.float32, torch.float64):
        layer, cache = posenc.nn.Attention(16, 2, spec, causal=True).to(dtype), posenc.nn.KeyValueCache()
        x = torch.randn(1, 5, 16, dtype=dtype)
        parts = [layer(step, cache=cache) for step in x.split([3, 1, 1], dim=1)]
        assert torch.allclose(torch.cat(parts, dim=1), layer(x), atol=1e-5)


def test_positions_of_embeddings():
    x = torch.randn(2, 3, 8)
    for spec in ("sinusoidal", "learned(max_positions=9)"):
        add = posenc.nn.PositionalEmbedding(spec, 8)
        places = torch.tensor([4, 5, 6])
        for shaped in (places[None], places.expand(2, 3)):
            assert torch.equal(add(x, shaped), add(x, places))
        for shape in ((1,), (2,), (2, 1), (3, 3), (1, 3, 1), (4, 1, 3)):
            with pytest.raises(ValueError, match=r"positions must be \[T\] or \[B, T\] = \[2, 3\]"):
                add(x, torch.zeros(shape, dtype=torch.int64))


def test_biases_that_hide_keys():
    q, k, v = tensors()
    bias = torch.zeros(2, 2, 6)
    bias[:, :, 2] = -math.inf
    for call in (posenc.attention, posenc.attention_decode):
        with pytest.raises(ValueError, match="bias must be finite but has -inf; pass key_mask"):
            call(q, k, v, bias=bias)


def test_empty_packings():
    for call in attentions(cu_queries=torch.tensor([], dtype=torch.int32))[:3]:
        with pytest.raises(RuntimeError, match="cu_queries must rise from 0 to the number of tokens but is empty"):
            call()


def test_sizes_and_types_of_settings():
    with pytest.raises(ValueError, match="queries must be >= 0 but got -1"):
        posenc.explain("rope", heads=4, queries=-1, keys=5, head_dim=8)
    for window in (None, 2.5):
        with pytest.raises(TypeError, match="window_left must be a whole number"):
            posenc.nn.Attention(16, 2, window_left=window)
