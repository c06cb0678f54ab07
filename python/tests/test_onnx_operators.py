"""Opset 23 of ONNX: RotaryEmbedding and Attention where they compute what posenc does, else older operators."""

import pytest
import torch

import posenc
from onnx_runner import needs, run
from test_onnx import SHORT_FIRE, Layer, exported, tensors

NEWEST = getattr(torch.onnx._constants, "ONNX_MAX_OPSET", 0)
writes_23 = pytest.mark.skipif(NEWEST < 23, reason=f"PyTorch {torch.__version__} writes ONNX up to opset {NEWEST}")
YARN = "rope(schedule=yarn(factor=4, original_max_position_embeddings=8))"
MSCALE = "rope(schedule=yarn(factor=4, original_max_position_embeddings=8, mscale_all_dim=1, softmax_mscale=true))"
BOTH, ROTATES, ATTENDS, NEITHER = {"RotaryEmbedding", "Attention"}, {"RotaryEmbedding"}, {"Attention"}, set()
CAUSAL = {"causal": True}
PADDED = {"key_mask": torch.tensor([[True] * 7, [False] * 2 + [True] * 5])}

# Spec, options, operators, inputs and attributes of Attention.
CASES = [
    ("none", {}, ATTENDS, 3, {"is_causal": None}),
    ("rope", CAUSAL, BOTH, 3, {"is_causal": 1}),
    ("rope(layout=interleaved)", CAUSAL, BOTH, 3, {"is_causal": 1}),
    ("rope(rotary_dim=4)", CAUSAL, BOTH, 3, {"is_causal": 1}),
    ("rope(layout=interleaved, rotary_dim=4, dim_offset=2)", CAUSAL, BOTH, 3, {"is_causal": 1}),
    ("rope(inverse=true)", {"causal": True, "scale": 0.7}, BOTH, 3, {"scale": 0.7}),
    (YARN, CAUSAL, BOTH, 3, {"is_causal": 1}),
    (MSCALE, CAUSAL, BOTH, 3, {"is_causal": 1}),
    ("rope(theta=[10000, 500000])", CAUSAL, ATTENDS, 3, {"is_causal": 1}),
    ("rope", {"causal": True, "window_left": 2}, BOTH, 4, {"is_causal": None}),
    ("rope", {"window_left": 3, "window_right": 1}, BOTH, 4, {"is_causal": None}),
    ("rope", PADDED, BOTH, 4, {"is_causal": None}),
    ("rope", {"causal": True, **PADDED}, BOTH, 4, {"is_causal": None}),
    ("alibi", CAUSAL, ATTENDS, 4, {"is_causal": None}),
    ("alibi", {"causal": True, **PADDED}, ATTENDS, 4, {"is_causal": None}),
    ("t5", {}, ATTENDS, 4, {"is_causal": None}),
    ("kerple", CAUSAL, ATTENDS, 4, {"is_causal": None}),
    (SHORT_FIRE, CAUSAL, ATTENDS, 4, {"is_causal": None}),
    ("rope + alibi", CAUSAL, BOTH, 4, {"is_causal": None}),
    ("rope + softcap(cap=2)", {}, BOTH, 3, {"softcap": 2.0}),
    ("rope + softcap(cap=2)", CAUSAL, ROTATES, None, {}),  # Attention would cap the mask too
    ("alibi + softcap(cap=2)", {}, NEITHER, None, {}),
    ("rope", {"causal": True, "scale": -0.5}, ROTATES, None, {}),
]
NAMES = [f"{spec} {' '.join(options)}" for spec, options, *_ in CASES]


def compared(how, layer, inputs, folder, names="qkv", **options):
    """The description of the graph, after its result was found to be the layer's."""
    model = exported(layer, inputs, opset=23, input_names=list(names), **options)
    (found, *_), graph = run(how, model, dict(zip(names, inputs)), folder)
    torch.testing.assert_close(torch.from_numpy(found), layer(*inputs).detach(), rtol=1e-5, atol=1e-5)
    return graph


def operators_of(graph):
    return BOTH & set(graph["operators"])


@writes_23
@needs("onnx")
@pytest.mark.parametrize(("spec", "options", "operators", "count", "attributes"), CASES, ids=NAMES)
def test_the_operators_and_what_the_reference_computes(spec, options, operators, count, attributes, tmp_path):
    graph = compared("onnx", Layer(spec, **options), tensors(), tmp_path)
    assert graph["opsets"] == [["", 23]] and graph["domains"] == [""]
    assert operators_of(graph) == operators
    assert graph["inputs"].get("Attention") == count
    assert graph["operators"].count("RotaryEmbedding") == 2 * ("RotaryEmbedding" in operators)
    found = graph["attributes"].get("Attention", {})
    assert {name: found.get(name) for name in attributes} == pytest.approx(attributes)


@writes_23
@needs("onnxruntime")
@pytest.mark.parametrize(("spec", "options"), [case[:2] for case in CASES], ids=NAMES)
def test_onnxruntime(spec, options, tmp_path):
    compared("runtime", Layer(spec, **options), tensors(), tmp_path)


@writes_23
@needs("onnx", "onnxruntime")
@pytest.mark.parametrize("how", ["onnx", "runtime"])
@pytest.mark.parametrize("spec", ["rope", "rope + alibi", SHORT_FIRE])
def test_fewer_queries_than_keys(spec, how, tmp_path):
    """The last query is at the last key, which is_causal does not mean."""
    graph = compared(how, Layer(spec, causal=True), tensors(queries=3), tmp_path)
    assert how == "runtime" or graph["inputs"]["Attention"] == 4


@writes_23
@needs("onnx", "onnxruntime")
@pytest.mark.parametrize("spec", ["rope", "rope + t5", SHORT_FIRE])
def test_dynamic_lengths(spec, tmp_path):
    """Inputs with different axes may differ in length, and then causal is a mask."""
    layer, inputs = Layer(spec, causal=True), tensors()
    for axes, queries in (({"q": "t", "k": "t", "v": "t"}, 5), ({"q": "queries", "k": "keys", "v": "keys"}, 2)):
        named = {name: {0: "batch", 2: axis} for name, axis in axes.items()}
        model = exported(layer, inputs, opset=23, input_names=list("qkv"), dynamic_axes=named)
        q, k, v = (x[:1] for x in tensors(queries, 5))
        for how in ("runtime", "onnx"):
            (found, *_), graph = run(how, model, {"q": q, "k": k, "v": v}, tmp_path)
            torch.testing.assert_close(torch.from_numpy(found), layer(q, k, v), rtol=1e-5, atol=1e-5)
        causal = spec == "rope" and axes["q"] == "t"
        assert graph["attributes"]["Attention"].get("is_causal", 0) == int(causal)


@writes_23
@needs("onnx", "onnxruntime")
@pytest.mark.parametrize("how", ["onnx", "runtime"])
def test_queries_without_keys_are_zero(how, tmp_path):
    """Left padding: its own queries see nothing, and no NaN of theirs may reach the next layer."""
    layer = Layer("rope", causal=True, key_mask=torch.tensor([[True] * 7, [False] * 3 + [True] * 4]))
    inputs = tensors()
    assert (layer(*inputs)[1, :, :3] == 0).all()
    compared(how, layer, inputs, tmp_path)


@writes_23
@needs("onnx", "onnxruntime")
@pytest.mark.parametrize("how", ["onnx", "runtime"])
def test_a_module(how, tmp_path):
    layer = posenc.nn.Attention(32, 4, "rope", kv_heads=2, causal=True).eval()
    graph = compared(how, layer, (torch.randn(2, 7, 32),), tmp_path, names="x", dynamic_axes={"x": {0: "b", 1: "t"}})
    assert how == "runtime" or (operators_of(graph) == BOTH and graph["inputs"]["Attention"] == 3)


@writes_23
@needs("onnx", "onnxruntime")
@pytest.mark.parametrize("how", ["onnx", "runtime"])
@pytest.mark.parametrize("spec", ["rope", "rope(layout=interleaved, rotary_dim=4)"])
def test_rotation_alone(spec, how, tmp_path):
    class Turned(torch.nn.Module):
        def forward(self, q, k):
            return posenc.rope(q, k, spec, transposed=True)[0] + posenc.rope(k, k, spec)[1].repeat(1, 2, 1, 1)

    q, k, _ = tensors()
    graph = compared(how, Turned(), (q, k), tmp_path, names="qk")
    assert how == "runtime" or operators_of(graph) == ROTATES


@writes_23
@needs("onnx")
def test_older_opsets_and_float64_have_no_such_operators(tmp_path):
    layer, inputs = Layer("rope", causal=True), tensors()
    model = exported(layer, inputs, opset=20, input_names=list("qkv"))
    assert not operators_of(run("onnx", model, dict(zip("qkv", inputs)), tmp_path)[1])
    assert not operators_of(compared("onnx", layer, [x.double() for x in inputs], tmp_path))


@writes_23
@needs("onnx")
def test_opset_24_is_a_conversion(tmp_path):
    layer, inputs = Layer("rope + alibi", causal=True), tensors()
    with pytest.raises(posenc.Error, match=r"at most 23 .* got 24; use .*convert_version\(model, 24\)"):
        exported(layer, inputs, opset=24)
    model = exported(layer, inputs, opset=23, input_names=list("qkv"))
    (found, *_), graph = run("onnx", model, dict(zip("qkv", inputs)), tmp_path, 24)
    torch.testing.assert_close(torch.from_numpy(found), layer(*inputs), rtol=1e-5, atol=1e-5)
    assert graph["opsets"] == [["", 24]] and operators_of(graph) == BOTH


@pytest.mark.skipif(NEWEST >= 23, reason="this PyTorch writes opset 23")
def test_an_older_pytorch_says_so():
    with pytest.raises(posenc.Error, match=f"at most {NEWEST} .* got 23; use opset_version={NEWEST}, or a PyTorch that"):
        exported(Layer("rope"), tensors(), opset=23)


def test_an_export_that_fails_leaves_no_target():
    with pytest.raises(posenc.Error, match="it has cope"):
        exported(Layer("rope + cope(npos_max=4)"), tensors(), opset=min(NEWEST, 23))
    assert posenc._export_operators._target.opset == 0
