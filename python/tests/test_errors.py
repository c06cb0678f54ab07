"""posenc.Error: its parts, and PyTorch's names of attention's arguments."""

import pytest
import torch

import posenc

Q = torch.randn(2, 4, 6, 8)


def caught(call):
    with pytest.raises(posenc.Error) as error:
        call()
    assert isinstance(error.value, ValueError) and isinstance(error.value, RuntimeError)
    return error.value


def test_parts_of_the_library():
    error = caught(lambda: posenc.Spec("roep"))
    assert (error.kind, error.scope, error.hint) == ("unknown_key", "spec", "did you mean 'rope'?")
    error = caught(lambda: posenc.attention(Q, Q, Q, "rope(theta=-1)"))
    assert (error.kind, error.scope, error.key, error.rule) == ("out_of_range", "rope", "theta", "must be in (1, 1e+30]")
    assert error.value.startswith("-1")


def test_parts_read_from_a_message():
    error = caught(lambda: posenc.attention(Q, Q, Q, key_mask=torch.ones(3, 3, dtype=torch.bool)))
    assert (error.scope, error.key, error.value) == ("attention", "key_mask", "[3, 3]")
    error = caught(lambda: posenc.attention(Q, Q, Q, "cope(npos_max=4)"))
    assert error.kind == "missing_key" and "cope.pos_emb" in error.rule
    error = caught(lambda: posenc.attention(Q, Q, Q[:, :3]))
    assert error.key == "v" and error.value == "3"


@pytest.mark.parametrize("name, call", [
    ("attention", lambda q: posenc.attention(q, Q, Q)),
    ("attention_decode", lambda q: posenc.attention_decode(q, Q, Q)),
    ("linear_attention", lambda q: posenc.linear_attention(q, Q, Q)),
    ("rope", lambda q: posenc.rope(q, Q)),
    ("cope_positions", lambda q: posenc.cope_positions(q, Q, Q, "cope", {"cope.pos_emb": torch.zeros(8, 64)})),
])
def test_the_function_that_was_called_is_the_scope(name, call):
    error = caught(lambda: call(Q[0]))
    assert (error.scope, error.key, error.kind) == (name, "q", "wrong_length")
    assert str(error).startswith(f"[{name}] q must be")
    if name not in ("linear_attention", "rope"):
        with pytest.raises(TypeError, match=rf"^\[{name}\] params must be a dict"):
            {"attention": posenc.attention, "attention_decode": posenc.attention_decode,
             "cope_positions": posenc.cope_positions}[name](Q, Q, Q, "cope", params=3)


def test_a_misspelled_name_gets_the_nearest():
    error = caught(lambda: posenc.attention(Q, Q, Q, "rope + cope", {"cope.posemb": torch.zeros(8, 64)}))
    assert (error.kind, error.scope, error.hint) == ("unknown_key", "attention", "did you mean 'cope.pos_emb'?")
    error = caught(lambda: posenc.attention(Q, Q, Q, "alibi", {"alibi.slope": torch.ones(4)}))
    assert error.hint == "did you mean 'alibi.slopes'?"
    error = caught(lambda: posenc.attention(Q, Q, Q, "fox", inputs={"fox.logf": Q}, causal=True))
    assert error.hint == "did you mean 'fox.log_f'?"
    assert caught(lambda: posenc.attention(Q, Q, Q, "rope", {"xyz": Q})).hint == "the spec's are: none"
    posenc.register("steep", bias=lambda distance, slope: -slope[:, None] * distance, params={"slope": torch.ones})
    try:
        error = caught(lambda: posenc.attention(Q, Q, Q, "rope + steep", {"steep.slop": torch.ones(4)}, causal=True))
    finally:
        posenc.unregister("steep")
    assert error.hint == "did you mean 'steep.slope'?"


def test_an_earlier_error_is_not_mistaken_for_this_one():
    caught(lambda: posenc.Spec("roep"))
    assert caught(lambda: posenc.attention(Q[0], Q, Q)).key == "q"


def test_errors_of_others_pass():
    with pytest.raises(RuntimeError, match="allocate") as error:
        posenc.rope_tables(10**12, 8)
    assert not isinstance(error.value, posenc.Error)


def test_version():
    assert posenc.__version__.count(".") == 2


def test_layout_of_tokens_first():
    x = torch.randn(2, 6, 4, 8, requires_grad=True)
    out = posenc.attention(x, x, x, "rope", causal=True, layout="bthd")
    heads = x.transpose(1, 2)
    assert torch.equal(out, posenc.attention(heads, heads, heads, "rope", causal=True).transpose(1, 2))
    out.square().sum().backward()
    assert x.grad.shape == x.shape
    last = posenc.attention_decode(x[:, -1:], x, x, "rope", layout="bthd")
    assert torch.allclose(last, out[:, -1:], atol=1e-6)
    assert "bthd" in str(caught(lambda: posenc.attention(Q, Q, Q, layout="thd")))


def test_layout_of_tokens_first_elsewhere():
    x = torch.randn(2, 6, 4, 8, requires_grad=True)
    heads = x.transpose(1, 2)
    turned = posenc.rope(x, x[:, :, :2], "rope", layout="bthd")
    for one, other in zip(turned, posenc.rope(heads, heads[:, :2], "rope")):
        assert torch.equal(one, other.transpose(1, 2))
    for options in ({}, {"inputs": {"rope.angles": torch.randn(2, 4, 6, 4)}}):
        spec = "rope(angles=input)" if options else "rope"
        out = posenc.linear_attention(x, x, x, spec, causal=True, layout="bthd", **options)
        expected = posenc.linear_attention(heads, heads, heads, spec, causal=True, **options)
        assert torch.equal(out, expected.transpose(1, 2))
    out.square().sum().backward()
    assert x.grad.shape == x.shape
    params = posenc.Spec("cope(npos_max=4)").initial_parameters(8, 4)
    counted = posenc.cope_positions(x, x, x, "cope(npos_max=4)", params, causal=True, layout="bthd")
    assert torch.equal(counted, posenc.cope_positions(heads, heads, heads, "cope(npos_max=4)", params, causal=True))


@pytest.mark.parametrize("name, call", [
    ("attention_decode", lambda: posenc.attention_decode(Q, Q, Q, layout="thd")),
    ("linear_attention", lambda: posenc.linear_attention(Q, Q, Q, layout="thd")),
    ("rope", lambda: posenc.rope(Q, Q, layout="thd")),
    ("cope_positions", lambda: posenc.cope_positions(Q, Q, Q, layout="thd")),
])
def test_an_unknown_layout(name, call):
    error = caught(call)
    assert (error.scope, error.key, error.kind) == (name, "layout", "out_of_range")


def test_names_of_pytorch():
    plain = posenc.attention(Q, Q, Q, causal=True)
    assert torch.equal(posenc.attention(Q, Q, Q, is_causal=True), plain)
    hidden = torch.tensor([[True] * 5 + [False], [True] * 6])
    by_key = posenc.attention(Q, Q, Q, key_mask=hidden)
    assert torch.equal(posenc.attention(Q, Q, Q, attn_mask=hidden[:, None, None]), by_key)
    drop = posenc.attention(Q, Q, Q, dropout_p=0.5, seed=3)
    assert torch.equal(drop, posenc.attention(Q, Q, Q, dropout=0.5, seed=3))


def test_what_pytorch_means_otherwise():
    error = caught(lambda: posenc.attention(Q[:, :, :2], Q, Q, is_causal=True))
    assert error.kind == "conflict" and "causal=True" in str(error)
    for mask in (torch.ones(6, 6, dtype=torch.bool), torch.zeros(2, 1, 1, 6)):
        assert "causal=True" in caught(lambda: posenc.attention(Q, Q, Q, attn_mask=mask)).hint
    both = dict(key_mask=torch.ones(2, 6, dtype=torch.bool), attn_mask=torch.ones(2, 1, 1, 6, dtype=torch.bool))
    assert caught(lambda: posenc.attention(Q, Q, Q, **both)).kind == "conflict"


def test_modules_print_what_they_compute():
    text = repr(posenc.nn.Attention(32, 4, "rope + alibi(trainable=true)", kv_heads=2, causal=True))
    assert "'rope + alibi(trainable=true)', heads=4, kv_heads=2, head_dim=8, causal=True" in text
    assert "alibi.slopes: [4]" in text
    assert "'sinusoidal', model_dim=8" in repr(posenc.nn.PositionalEmbedding("sinusoidal", 8))
