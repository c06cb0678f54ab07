"""Calls that a user gets wrong: each is a posenc.Error with its parts, or a TypeError that names the argument."""

import warnings

import pytest
import torch

import posenc
from posenc import _watch

Q = torch.randn(2, 4, 6, 8)
COPE = "cope(npos_max=4)"
X = torch.randn(1, 4, 64)


def attend(spec="rope", params=None, **options):
    return lambda: posenc.attention(Q, options.pop("k", Q), options.pop("v", Q), spec, params, **options)


def embed(spec, positions):
    return posenc.nn.PositionalEmbedding(spec, 64)(X, positions)


def watched(q, k):
    """What posenc.view records of an attention."""
    masks = dict(causal=False, window_left=-1, window_right=-1, key_mask=None, cu_queries=None, cu_keys=None,
                 q_positions=None, k_positions=None, scale=None)
    return _watch.weights(q, k, k, "rope", [], [], masks)


# name, call, kind, key, a part of the text (what to do, where there is a choice)
ERRORS = [
    ("no batch", lambda: posenc.attention(Q[0], Q[0], Q[0]), "wrong_length", "q", "add a dimension"),
    ("another dtype", attend(k=Q.double()), "wrong_type", "k", "k.to(q.dtype)"),
    ("another device", attend(k=Q.to("meta")), "conflict", "k", "k.to(q.device)"),
    ("another batch", attend(k=Q[:1]), "out_of_range", "k", "2 batch entries but got 1"),
    ("fewer values", attend(v=Q[:, :, :3]), "out_of_range", "v", "6 tokens but got 3"),
    ("heads that do not divide", attend(k=Q[:, :3], v=Q[:, :3]), "out_of_range", "kv_heads", "divide the heads (4)"),
    ("an unknown encoding", attend("roep"), "unknown_key", "encoding", "did you mean 'rope'?"),
    ("an unknown field", attend("rope(tehta=3)"), "unknown_key", "tehta", "did you mean 'theta'?"),
    ("a value out of range", attend("rope(theta=-1)"), "out_of_range", "theta", "but got -1"),
    ("a parameter left out", attend(COPE), "missing_key", "params", "posenc.nn, whose modules own"),
    ("a parameter of another spec", attend("alibi", {"alibi.slope": Q}), "unknown_key", "params", "alibi.slopes"),
    ("an input left out", attend("fox", causal=True), "missing_key", "inputs", "fox.log_f"),
    ("a window below -1", attend(window_left=-2), "out_of_range", "window_left", "-1 (no bound)"),
    ("a share above 1", attend(dropout_p=1.5), "out_of_range", "dropout_p", "[0, 1) but got 1.5"),
    ("a mask of floats", attend(key_mask=torch.ones(2, 6)), "wrong_type", "key_mask", "pass mask == 0"),
    ("a mask of pairs", attend(attn_mask=torch.ones(6, 6).bool()), "unsupported", "attn_mask", "causal=True"),
    ("a mask of another shape", attend(key_mask=torch.ones(6).bool()), "wrong_length", "key_mask", "[batch, keys]"),
    ("positions of floats", attend(q_positions=torch.rand(6)), "wrong_type", "q_positions", "q_positions.long()"),
    ("a layout", attend(layout="BTHD"), "out_of_range", "layout", "'bhtd' or 'bthd'"),
    ("a bias of pairs", attend(bias=torch.zeros(6, 6, 6, 6)), "wrong_length", "bias", "[H, Tq + Tk - 1]"),
    ("is_causal with a cache", lambda: posenc.attention(Q[:, :, :1], Q, Q, is_causal=True), "conflict", "is_causal", "causal=True"),
    ("whole numbers", lambda: posenc.rope(Q.long(), Q.long()), "wrong_type", "q", "q.float()"),
    ("two encodings in rope", lambda: posenc.rope(Q, Q, "rope + alibi"), "unsupported", "spec", "one rope or xpos"),
    ("a bias in linear attention", lambda: posenc.linear_attention(Q, Q, Q, "alibi"), "unsupported", "alibi", "row of scores"),
    ("a form", lambda: posenc.linear_attention(Q, Q, Q, form="gelu"), "out_of_range", "form", "elu, relu or cosine"),
    ("positions without CoPE", lambda: posenc.cope_positions(Q, Q, Q, "rope"), "unsupported", "spec", "must have a cope"),
    ("no heads", lambda: posenc.alibi_slopes(0), "out_of_range", "heads", "but got 0"),
    ("buckets of floats", lambda: posenc.t5_buckets(torch.rand(3)), "wrong_type", "relative", "relative.long()"),
    ("an odd width", lambda: posenc.rope_tables(5, 7), "out_of_range", "head_dim", "must be even"),
    ("a device", lambda: posenc.explain("rope", heads=2, queries=3, keys=3, head_dim=8, device="tpu"), "out_of_range", "device", "cpu or cuda"),
    ("a width", lambda: posenc.nn.Attention(65, 8), "out_of_range", "model_dim", "or pass head_dim"),
    ("a module without heads", lambda: posenc.nn.Attention(64, 0), "out_of_range", "heads", ">= 1"),
    ("hidden states", lambda: posenc.nn.Attention(64, 8)(X[..., :63]), "wrong_length", "x", "[batch, tokens, 64]"),
    ("a cache of a type that is not read", lambda: posenc.nn.KeyValueCache(dtype=torch.int64), "out_of_range", "dtype", "must be one of"),
    ("a cache that is not causal", lambda: posenc.nn.Attention(64, 8)(X, cache=posenc.nn.KeyValueCache()), "conflict", "", "pass causal=True"),
    ("a linear module", lambda: posenc.nn.LinearAttention(64, 8, "alibi"), "unsupported", "alibi", "use rotations"),
    ("a form of a module", lambda: posenc.nn.LinearAttention(64, 8, form="x"), "out_of_range", "form", "elu, relu, cosine"),
    ("an encoding of attention", lambda: posenc.nn.PositionalEmbedding("rope", 64), "conflict", "spec", "nn.Attention"),
    ("sinusoids of floats", lambda: embed("sinusoidal", torch.rand(4)), "wrong_type", "positions", "positions.long()"),
    ("sinusoids far away", lambda: embed("sinusoidal", torch.tensor([2**60] * 4)), "out_of_range", "positions", "[-2^53, 2^53]"),
    ("rows of floats", lambda: embed("learned(max_positions=8)", torch.rand(4)), "wrong_type", "positions", "positions.long()"),
    ("recorded weights", lambda: watched(Q, Q[:, :3]), "out_of_range", "kv_heads", "divide the heads (4)"),
    ("recorded weights of float64", lambda: watched(Q.double(), Q[:, :3].double()), "out_of_range", "kv_heads", "divide the heads (4)"),
    ("a site", lambda: posenc.Spec("rope").part("qk"), "out_of_range", "site", "query/key"),
    ("an empty spec", lambda: posenc.Spec(""), "syntax", "", "a spec looks like"),
    ("an empty config", lambda: posenc.hf_specs({}), "missing_key", "num_attention_heads", "num_heads"),
    ("a model without attention", lambda: posenc.patch(torch.nn.Linear(3, 3)), "unsupported", "Linear", 'attn_implementation="posenc"'),
    ("directions of PoPE", lambda: posenc.angles.polar(Q, Q, torch.zeros(3)), "wrong_length", "delta", "8 channels"),
    ("axes", lambda: posenc.angles.MixedAngles(2, 2)(torch.zeros(3, 3)), "wrong_length", "positions", "2 coordinates"),
]

TYPES = [
    (lambda: posenc.attention(Q.numpy(), Q, Q), "q must be a tensor but got ndarray"),
    (lambda: posenc.attention(Q, Q, [1]), "v must be a tensor but got list"),
    (lambda: posenc.attention(Q, Q, Q, torch.ones(6, 6)), "pass masks by name: attn_mask="),
    (attend(None), "write 'none' for no encoding"),
    (attend(causal="yes"), "causal must be True or False but got str"),
    (attend(window_left=2.5), "window_left must be a whole number but got float"),
    (attend(scale="a"), "scale must be a number but got str"),
    (attend(key_mask=[True]), "key_mask must be a tensor but got list"),
    (attend(bias=3), "bias must be a tensor but got int"),
    (attend(COPE, [Q]), "params must be a dict"),
    (attend(COPE, {"cope.pos_emb": 3}), "params['cope.pos_emb'] must be a tensor but got int"),
    (attend(mask=3), "unexpected keyword argument 'mask'"),
    (lambda: posenc.cope_positions(Q, Q, Q, COPE, posenc.Spec(COPE).initial_parameters(8, 4), foo=1), "unexpected keyword argument 'foo'"),
    (lambda: posenc.alibi_slopes("8"), "heads must be a whole number but got str"),
    (lambda: posenc.rerotate(Q, [1], [2]), "from_positions must be a tensor but got list"),
    (lambda: posenc.nn.Attention("64", 8), "model_dim must be a whole number but got str"),
    (lambda: posenc.nn.Attention(64, 8, causal=True)(X, cache={}), "cache must be a posenc.nn.KeyValueCache but got dict"),
    (lambda: posenc.nn.PositionalEmbedding("sinusoidal", 64)(X, [0, 1, 2, 3]), "positions must be a tensor but got list"),
    (lambda: posenc.Spec({1, 2}), "spec must be text, a posenc.Spec or a list but got set"),
    (lambda: posenc.Spec("cope").parameters("a", 2), "head_dim must be a whole number but got str"),
    (lambda: posenc.register("mine", bias=3), "bias must be a function but got int"),
    (lambda: posenc.register(3, bias=len), "name must be text but got int"),
    (lambda: posenc.patch(3), "model must be a torch.nn.Module but got int"),
    (lambda: posenc.unpatch("x"), "model must be a torch.nn.Module but got str"),
]


@pytest.mark.parametrize(("call", "kind", "key", "part"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_errors(call, kind, key, part):
    with pytest.raises(posenc.Error) as caught:
        call()
    error = caught.value
    assert (error.kind, error.key) == (kind, key), str(error)
    assert part in str(error) and error.scope and not str(error).startswith("[kernel]")
    assert not error.hint or str(error).endswith(error.hint)


@pytest.mark.parametrize(("call", "part"), TYPES, ids=[row[1] for row in TYPES])
def test_wrong_types(call, part):
    with pytest.raises(TypeError) as error:
        call()
    assert part in str(error.value)


def test_calls_that_pytorch_has():
    half = torch.nn.functional.pad(Q, (0, 0, 0, 2))[:, :2]
    assert posenc.attention(Q, half, half, enable_gqa=True, dropout_p=0.0, is_causal=False, scale=1.0).shape == Q.shape
    assert sum([posenc.Rope(), posenc.Alibi()]).text == ("rope" + posenc.Alibi()).text == "rope + alibi"
    explained = posenc.explain("rope", heads=2, queries=3, keys=3, head_dim=8, device=torch.device("cpu"), dtype=torch.bfloat16)
    assert "fused" in explained


@pytest.mark.parametrize(("spec", "options", "advice"), [
    ("fire + fire", {}, "use a spec with one of them"),
    ("fire", {"q_positions": torch.arange(6)}, "leave q_positions and k_positions out"),
])
def test_warnings_say_what_to_do(spec, options, advice):
    heads = torch.randn(1, 3, 17, 8)  # shapes of no other test: a kind of call warns once
    options = {name: torch.arange(17) for name in options}
    params = posenc.Spec(spec).initial_parameters(8, 3)
    with pytest.warns(UserWarning, match=advice) as warned:
        posenc.attention(heads, heads, heads, spec, params, **options)
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posenc.attention(heads, heads, heads, spec, params, **options)
