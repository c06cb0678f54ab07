"""The parts of posenc.patch that need no transformers: masks, caches, lengths."""

import math

import pytest
import torch

import posenc
from catalog_specs import catalog_specs
from posenc._hf_attention import Call, attend, cut
from posenc._hf_masks import make_mask, read_mask, read_pattern
from posenc._hf_rotary import RotaryState, hf_specs

HEADS, KV_HEADS, DIM, TOKENS = 4, 2, 8, 9
SPECS = [
    spec
    for spec in catalog_specs("query/key", "bias", "content", head_dim=DIM)
    if not posenc.Spec(spec).inputs(DIM, HEADS)
]


class Cache:
    """As a cache of transformers behaves, for one layer."""

    def __init__(self):
        self.keys = self.values = None

    def get_seq_length(self, _=0):
        return 0 if self.keys is None else self.keys.shape[2]

    def update(self, k, v, _):
        if self.keys is not None:
            k, v = torch.cat([self.keys, k], 2), torch.cat([self.values, v], 2)
        self.keys, self.values = k, v
        return k, v


def of_transformers(function, name=None):
    function.__module__ = "transformers.masking_utils"
    function.__qualname__ = name or function.__name__
    return function


@of_transformers
def causal_mask_function(batch_idx, head_idx, q_idx, kv_idx):
    return kv_idx <= q_idx


def and_masks(*mask_functions):
    def and_mask(*places):
        return all(mask(*places) for mask in mask_functions)

    return of_transformers(and_mask, "and_masks.<locals>.and_mask")


def packed_sequence_mask_function(packed_sequence_mask):
    def inner_mask(batch_idx, head_idx, q_idx, kv_idx):
        return packed_sequence_mask[batch_idx, q_idx] == packed_sequence_mask[batch_idx, kv_idx]

    return of_transformers(inner_mask, "packed_sequence_mask_function.<locals>.inner_mask")


def assert_same_turn(spec, other, places):
    q, k, _ = rows()
    turned = posenc.rope(q, k, spec, positions=places)
    for one, another in zip(turned, posenc.rope(q, k, other, positions=places)):
        assert torch.allclose(one, another, atol=1e-5)


def rows(batch=2, tokens=TOKENS):
    return [torch.randn(batch, h, tokens, DIM) for h in (HEADS, KV_HEADS, KV_HEADS)]


def eager(q, k, v, visible, bias=0.0, scale=DIM**-0.5):
    """visible [B, 1, Tq, Tk]"""
    k, v = (x.repeat_interleave(HEADS // KV_HEADS, 1) for x in (k, v))
    scores = (q @ k.transpose(-1, -2) * scale + bias).masked_fill(~visible, -math.inf)
    return (scores.softmax(-1).nan_to_num() @ v).transpose(1, 2).flatten(2)


def causal(tokens=TOKENS):
    return torch.ones(tokens, tokens, dtype=torch.bool).tril()[None, None]


def mask_of(padding, q_length=TOKENS, q_offset=0, kv_length=TOKENS, function=causal_mask_function):
    return make_mask(padding.shape[0], q_length, kv_length, q_offset, 0, function, padding)


def test_padding_is_one_row_and_none_where_nothing_is_hidden():
    whole = torch.ones(2, TOKENS, dtype=torch.bool)
    assert mask_of(whole) is None
    padding = whole.clone()
    padding[0, :3] = False
    mask = mask_of(padding)
    assert mask.shape == (2, 1, 1, TOKENS) and mask.dtype == torch.int32
    assert torch.equal(read_mask(mask, TOKENS).padding, padding)
    static = mask_of(whole, q_length=1, q_offset=4, kv_length=20)
    assert read_mask(static, 20).keys == 5


def test_other_masks_are_refused():
    for mask in (torch.ones(2, 1, TOKENS, TOKENS).bool(), torch.zeros(2, 1, 1, TOKENS)):
        with pytest.raises(ValueError, match="attention_mask must be"):
            read_mask(mask, TOKENS)
    with pytest.raises(ValueError, match="not one that posenc can express"):
        read_pattern(of_transformers(lambda *places: True, "chunked_overlay.<locals>.inner_mask"))
    with pytest.raises(ValueError, match="not one that posenc can express"):
        read_pattern(lambda *places: True)
    whole = torch.ones(1, TOKENS, dtype=torch.bool)
    both_ways = of_transformers(lambda *places: True, "bidirectional_mask_function")
    with pytest.raises(ValueError, match="not causal"):
        mask_of(whole, function=both_ways)


@pytest.mark.parametrize("side", ["left", "right", "hole"])
def test_padding_and_positions(side):
    q, k, v = rows()
    padding = torch.ones(2, TOKENS, dtype=torch.bool)
    padding[0, {"left": slice(0, 3), "right": slice(6, 9), "hole": slice(3, 5)}[side]] = False
    positions = (padding.long().cumsum(-1) - 1).clamp(min=0)
    call = Call("rope", DIM**-0.5, True, mask=mask_of(padding), positions=positions)
    out, _ = attend(q, k, v, call)
    turned = posenc.rope(q, k, positions=positions)
    expected = eager(*turned, v, causal() & padding[:, None, None])
    assert torch.allclose(out[padding], expected[padding], atol=1e-5)
    biased = Call("rope + alibi", DIM**-0.5, True, mask=call.mask, positions=positions)
    if side == "hole":
        with pytest.raises(ValueError, match="position_ids must count on"):
            attend(q, k, v, biased)
    else:
        slopes = posenc.alibi_slopes(HEADS).float()[:, None, None]
        bias = slopes * (positions[:, None, None, :] - positions[:, None, :, None])
        expected = eager(*turned, v, causal() & padding[:, None, None], bias)
        assert torch.allclose(attend(q, k, v, biased)[0][padding], expected[padding], atol=1e-5)


@pytest.mark.parametrize("spec", ["none", "rope + alibi", "rope + cope(npos_max=4)"] + SPECS)
def test_a_cache_changes_nothing(spec):
    """Without positions, as BLOOM, MPT and T5 call it; past the trained lengths of schedules."""
    q, k, v = rows(tokens=30)
    params = posenc.Spec(spec).initial_parameters(DIM, HEADS)
    call = Call(spec, DIM**-0.5, True, {name: p + 0.1 for name, p in params.items()})
    cache = Cache()
    for first, last in ((0, 9), (9, 10), (10, 20), (20, 29), (29, 30)):
        found = attend(*(x[:, :, first:last] for x in (q, k, v)), call, cache, 0)[0]
        whole = attend(*(x[:, :, :last] for x in (q, k, v)), call)[0]
        assert torch.allclose(found, whole[:, first:], atol=1e-5)
    rotation = cut(spec).cached
    kept = k if rotation is None else posenc.rope(q, k, rotation)[1]
    assert torch.allclose(cache.keys, kept, atol=1e-6)


def test_a_window_counts_the_query_itself():
    q, k, v = rows()
    out, _ = attend(q, k, v, Call("none", 0.5, True, window=3))
    near = causal() & torch.ones(TOKENS, TOKENS).triu(-2).bool()
    assert torch.allclose(out, eager(q, k, v, near, scale=0.5), atol=1e-5)


def test_packed_sequences():
    q, k, v = rows()
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 2, 2, 2, 2]])
    function = and_masks(causal_mask_function, packed_sequence_mask_function(segments))
    mask = make_mask(2, TOKENS, TOKENS, 0, 0, function)
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4], [0, 1, 0, 1, 2, 0, 1, 2, 3]])
    call = Call("rope", DIM**-0.5, True, mask=mask, positions=positions, want_weights=True)
    out, weights = attend(q, k, v, call)
    same = (segments[:, :, None] == segments[:, None, :])[:, None]
    expected = eager(*posenc.rope(q, k, positions=positions), v, causal() & same)
    assert torch.allclose(out, expected, atol=1e-5)
    assert weights.shape == (2, HEADS, TOKENS, TOKENS)
    assert torch.allclose(weights.sum(-1), torch.ones(2, HEADS, TOKENS), atol=1e-5)
    assert (weights * ~(causal() & same)).abs().max() == 0


def test_weights_past_a_cache():
    q, k, v = rows()
    call = Call("rope", DIM**-0.5, True, want_weights=True)
    whole = attend(q, k, v, call)[1]
    cache = Cache()
    attend(*(x[:, :, :5] for x in (q, k, v)), call, cache, 0)
    rest = attend(*(x[:, :, 5:] for x in (q, k, v)), call, cache, 0)[1]
    assert torch.allclose(rest, whole[:, :, 5:], atol=1e-5)


@pytest.mark.parametrize(
    "spec, params, cause",
    [
        ("rope + cope(npos_max=4)", {"cope.pos_emb": torch.zeros(DIM, 4)}, "cope"),
        ("rope + temperature", {}, "temperature"),
        (
            "rope(schedule=yarn(factor=2, original_max_position_embeddings=8, softmax_mscale=true))",
            {},
            "softmax_mscale=true",
        ),
    ],
)
def test_weights_with_a_cache_are_refused_by_name(spec, params, cause):
    call = Call(spec, 1.0, True, params, want_weights=True)
    with pytest.raises(ValueError, match=f"not supported for specs with {cause}; pass use_cache=False"):
        attend(*rows(), call, Cache(), 0)


def test_only_encodings_that_read_queries_need_them():
    assert cut("rope + fox + grape_ap + relative_query").whole == "grape_ap and relative_query"
    assert cut("rope + fox").whole == cut("rope + alibi").whole == ""


def test_schedules_that_follow_the_length():
    text = "rope(schedule=dynamic(factor=2, max_position_embeddings=16))"
    spec = posenc.Spec(text)
    assert_same_turn(spec.at_length(16), "rope", torch.arange(7, 16))
    settled = spec.at_length(40)
    assert_same_turn(spec, settled, torch.arange(31, 40))
    state = RotaryState(spec, own_spec=False)
    long = state.rotation(torch.tensor([39]))
    assert long.spec == settled.text != state.spec.text and long.length is None
    assert state.rotation(torch.tensor([20])).spec == long.spec  # the longest so far
    assert state.rotation(torch.tensor([3])).spec == spec.at_length(16).text
    own = RotaryState(spec, own_spec=True).rotation(torch.tensor([39]))
    assert own.spec == spec.text and own.length == 40


def test_longrope_settles_by_the_call():
    spec = posenc.Spec(
        "rope(schedule=longrope(short_factor=[1, 1, 1, 2], long_factor=[1, 2, 3, 4], "
        "original_max_position_embeddings=16, factor=4))"
    )
    state = RotaryState(spec, own_spec=False)
    for first in (0, 12):
        places = torch.arange(first, first + TOKENS)
        text = state.rotation(places).spec
        assert text != spec.text
        assert_same_turn(spec, text, places)


def test_specs_of_a_config():
    config = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "rope_theta": 5e5}
    assert hf_specs(config, "exact") == {"": posenc.Spec("rope(theta=500000)")}
    assert "precision=hf" in posenc.hf_specs(config)[""].text
    with pytest.raises(RuntimeError, match="precision must be hf or exact but got 'half'"):
        hf_specs(config, "half")
    with pytest.raises(RuntimeError, match="factor is required"):
        hf_specs({**config, "rope_scaling": {"rope_type": "linear"}})


def test_unknown_models_and_specs():
    with pytest.raises(ValueError, match="Linear has no attention that posenc.patch knows"):
        posenc.patch(torch.nn.Linear(3, 3))
    assert posenc.unpatch(torch.nn.Linear(3, 3)) is False
    with pytest.raises(ValueError, match="sites 2 to 5"):
        cut("learned(max_positions=4)")
