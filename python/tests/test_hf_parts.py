"""attn_implementation="posenc" without transformers: masks as it makes them, attention against eager."""

import functools
import warnings

import pytest
import torch

import posenc
from posenc import hf
from test_patch_parts import causal_mask_function, of_transformers, packed_sequence_mask_function

HEADS, KV_HEADS, DIM, TOKENS = 4, 2, 8, 11


def and_masks(*mask_functions):
    def and_mask(*places):
        return functools.reduce(torch.logical_and, [mask(*places) for mask in mask_functions])

    return of_transformers(and_mask, "and_masks.<locals>.and_mask")


def sliding_window_overlay(sliding_window):
    def inner_mask(batch_idx, head_idx, q_idx, kv_idx):
        return kv_idx > q_idx - sliding_window

    return of_transformers(inner_mask, "sliding_window_overlay.<locals>.inner_mask")


def chunked_overlay(chunk_size, left_padding):
    def inner_mask(batch_idx, head_idx, q_idx, kv_idx):
        left = left_padding[batch_idx]
        places = (kv_idx - left, q_idx - left)
        key, query = (torch.div(x, chunk_size, rounding_mode="floor") for x in places)
        return key == query

    return of_transformers(inner_mask, "chunked_overlay.<locals>.inner_mask")


@of_transformers
def bidirectional_mask_function(batch_idx, head_idx, q_idx, kv_idx):
    return q_idx >= 0


class Layer(torch.nn.Module):
    is_causal = True


def eager(q, k, v, visible, scale=None, softcap=None, sink=None, bias=0.0):
    """visible [B, Tq, Tk]"""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = (scores / softcap).tanh() * softcap
    scores = (scores + bias).masked_fill(~visible[:, None], torch.finfo(scores.dtype).min)
    if sink is not None:
        scores = torch.cat([scores, sink[None, :, None, None].expand(*scores.shape[:3], 1)], 3)
    return (scores.softmax(-1)[..., : k.shape[2]] @ v).transpose(1, 2)


def square(function, padding, queries=(0, TOKENS), keys=(0, TOKENS)):
    """Every pair of a mask function, [B, Tq, Tk]."""
    batch = torch.arange(2)[:, None, None]
    rows = torch.arange(queries[0], sum(queries))[None, :, None]
    columns = torch.arange(keys[0], sum(keys))[None, None]
    visible = torch.ones(2, queries[1], keys[1], dtype=torch.bool)
    for part in function:
        visible = visible & part(batch, 0, rows, columns)
    return visible if padding is None else visible & padding[:, None, keys[0] : sum(keys)]


def padded(where):
    padding = torch.ones(2, TOKENS, dtype=torch.bool)
    padding[0, {"left": slice(0, 4), "right": slice(7, TOKENS), "hole": slice(4, 6)}[where]] = False
    return padding


def left_padding(padding):
    if padding is None:
        return torch.zeros(2, dtype=torch.long)
    return (padding.cumsum(-1) == 0).sum(-1)


PATTERNS = {
    "causal": lambda padding: [causal_mask_function],
    "window": lambda padding: [sliding_window_overlay(3), causal_mask_function],
    "wide window": lambda padding: [sliding_window_overlay(64), causal_mask_function],
    "chunks": lambda padding: [chunked_overlay(4, left_padding(padding)), causal_mask_function],
    "one chunk": lambda padding: [chunked_overlay(64, left_padding(padding)), causal_mask_function],
    "bidirectional": lambda padding: [bidirectional_mask_function],
}


def rows(queries=TOKENS, keys=TOKENS, value_dim=DIM):
    q = torch.randn(2, HEADS, queries, DIM)
    return q, torch.randn(2, KV_HEADS, keys, DIM), torch.randn(2, KV_HEADS, keys, value_dim)


def made_mask(parts, padding, queries=(0, TOKENS), keys=(0, TOKENS)):
    return hf.make_mask(
        2, queries[1], keys[1], queries[0], keys[0], and_masks(*parts), padding, dtype=torch.float32
    )


def assert_close(found, expected, keep=None):
    keep = slice(None) if keep is None else keep
    assert torch.allclose(found[keep], expected[keep], atol=2e-6)


@pytest.mark.parametrize("padding", [None, "left", "right", "hole"])
@pytest.mark.parametrize("kind", PATTERNS)
def test_masks_hide_what_they_say(kind, padding):
    padding = None if padding is None else padded(padding)
    parts = PATTERNS[kind](padding)
    if kind == "chunks" and padding is not None and padding[0, 0] and padding[0, -1]:
        pytest.importorskip("transformers", reason="builds masks of chunks with holes")
    mask = made_mask(parts, padding)
    q, k, v = rows()
    expected = eager(q, k, v, square(parts, padding))
    keep = None if padding is None else padding
    for given in (mask, None if mask is None else mask.clone()):  # a copy has lost its attribute
        out, weights = hf.attention_forward(Layer(), q, k, v, given)
        assert weights is None and out.shape == (2, TOKENS, HEADS, DIM)
        assert_close(out, expected, keep)


@pytest.mark.parametrize("kind", ["causal", "window", "chunks"])
@pytest.mark.parametrize("past", [0, 2, 5, 8])
def test_one_query_against_a_static_cache(kind, past):
    padding = torch.ones(2, past + 1, dtype=torch.bool)
    padding[0, : min(past, 2)] = False
    parts = PATTERNS[kind](padding)
    places = dict(queries=(past, 1), keys=(0, TOKENS))
    mask = made_mask(parts, padding, **places)
    q, k, v = rows(queries=1)
    longer = torch.nn.functional.pad(padding, (0, TOKENS - padding.shape[1]))
    expected = eager(q, k, v, square(parts, longer, **places))
    assert_close(hf.attention_forward(Layer(), q, k, v, mask)[0], expected)


def test_a_cache_with_a_window():
    """Keys 6 to 10 of a cache that dropped the others."""
    parts = PATTERNS["window"](None)
    places = dict(queries=(8, 3), keys=(6, 5))
    q, k, v = rows(3, 5)
    mask = made_mask(parts, padded("left"), **places)
    expected = eager(q, k, v, square(parts, padded("left"), **places))
    assert_close(hf.attention_forward(Layer(), q, k, v, mask)[0], expected)


def test_packed_sequences():
    packed = torch.tensor([[0] * 4 + [1] * 7, [0] * 9 + [1] * 2])
    q, k, v = rows()
    for kind in ("causal", "window"):
        parts = PATTERNS[kind](None) + [packed_sequence_mask_function(packed)]
        expected = eager(q, k, v, square(parts, None))
        mask = made_mask(parts, None)
        for given in (mask, mask.clone()):
            assert_close(hf.attention_forward(Layer(), q, k, v, given)[0], expected)


@pytest.mark.parametrize("value_dim", [4, DIM, 12])
def test_scores_and_gradients(value_dim):
    """Soft caps, sinks, a scale, grouped heads, and values of another width."""
    tensors = [x.requires_grad_() for x in rows(value_dim=value_dim)]
    sink = torch.randn(HEADS, requires_grad=True)
    visible = square([causal_mask_function], None)
    found, _ = hf.attention_forward(
        Layer(), *tensors, None, scaling=0.7, softcap=5.0, s_aux=sink, sliding_window=None
    )
    expected = eager(*tensors, visible, 0.7, 5.0, sink)
    assert found.shape == (2, TOKENS, HEADS, value_dim)
    assert_close(found, expected)
    out_grad = torch.randn_like(found)
    inputs = [*tensors, sink]
    both = [torch.autograd.grad(out, inputs, out_grad) for out in (found, expected)]
    for one, other in zip(*both):
        assert torch.allclose(one, other, atol=1e-5)


def test_masks_of_two_dimensions():
    q, k, v = rows()
    padding = padded("left")
    visible = square([causal_mask_function], padding)
    out, _ = hf.attention_forward(Layer(), q, k, v, padding.long())
    assert_close(out, eager(q, k, v, visible), padding)
    both_ways, _ = hf.attention_forward(Layer(), q, k, v, padding.long(), is_causal=False)
    assert_close(both_ways, eager(q, k, v, square([bidirectional_mask_function], padding)))


@pytest.mark.parametrize("capped", [False, True])
def test_other_masks_and_biases_go_through_pytorch(capped):
    if not capped and not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        capped = True
    more = dict(softcap=5.0, s_aux=torch.randn(HEADS)) if capped else {}
    names = dict(softcap=more.get("softcap"), sink=more.get("s_aux"))
    q, k, v = rows()
    any_mask = torch.rand(2, 1, TOKENS, TOKENS) < 0.5
    any_mask = any_mask | torch.eye(TOKENS, dtype=torch.bool)
    hf._warned.clear()
    with pytest.warns(UserWarning, match="Layer has a mask that is not causal"):
        out, _ = hf.attention_forward(Layer(), q, k, v, any_mask, **more)
    assert_close(out, eager(q, k, v, any_mask[:, 0], **names))
    with warnings.catch_warnings():  # once per class of layers
        warnings.simplefilter("error")
        added = torch.zeros(any_mask.shape).masked_fill(~any_mask, torch.finfo(torch.float32).min)
        assert_close(hf.attention_forward(Layer(), q, k, v, added, **more)[0], out)
    bias = torch.randn(1, HEADS, TOKENS, TOKENS)
    for mask in (None, made_mask(PATTERNS["window"](None), padded("right"))):
        seen = square(PATTERNS["window" if mask is not None else "causal"](None), None)
        seen = seen if mask is None else seen & padded("right")[:, None]
        found, _ = hf.attention_forward(Layer(), q, k, v, mask, position_bias=bias, **more)
        assert_close(found, eager(q, k, v, seen, bias=bias, **names))


def test_weights_where_they_are_wanted():
    q, k, v = rows()
    mask = made_mask(PATTERNS["window"](None), None)
    out, weights = hf.attention_forward(Layer(), q, k, v, mask, output_attentions=True)
    assert weights.shape == (2, HEADS, TOKENS, TOKENS)
    longer = v.repeat_interleave(HEADS // KV_HEADS, 1)
    assert_close((weights.float() @ longer).transpose(1, 2), out)


def test_what_is_refused():
    q, k, v = rows()
    with pytest.raises(ValueError, match="Layer passes head_mask, which attn_impl.*use attn_impl"):
        hf.attention_forward(Layer(), q, k, v, None, head_mask=torch.ones(HEADS))
    with pytest.raises(ValueError, match=r"has the shape \[2, 11, 11\]; it must be"):
        hf.attention_forward(Layer(), q, k, v, torch.ones(2, TOKENS, TOKENS))


def test_registering_needs_transformers_and_can_be_repeated():
    from hf_stand_in import Masks, Registry, installed

    with installed():
        posenc.register_attention()
        posenc.register_attention()
        assert Registry.known["posenc"] is hf.attention_forward
        assert Masks.known["posenc"] is hf.make_mask
