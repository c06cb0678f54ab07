"""posenc.export_onnx: standard operators that compute what the kernels do, or an error that says why not."""

import io
import warnings

import pytest
import torch

import posenc
from catalog_specs import catalog_specs
from onnx_runner import needs, run

SHORT_FIRE = "fire(init_threshold=3)"  # its biases read positions beyond the third
SPECS = ["none", "rope", "rope(layout=interleaved, rotary_dim=4, dim_offset=2)", "rope(theta=[10000, 500000], inverse=true)",
         "rope(schedule=yarn(factor=4, original_max_position_embeddings=8))", "alibi", "rope + alibi + t5", "kerple",
         "rope + relative(max_distance=3)", SHORT_FIRE, "rope + alibi + softcap(cap=2)",
         "rope(schedule=yarn(factor=4, original_max_position_embeddings=8, mscale_all_dim=1, softmax_mscale=true))"]
BIASES = ["alibi", "fire", "kerple", "relative", "relative_2d", "t5"]
MASKS = [{}, {"causal": True}, {"causal": True, "window_left": 2}, {"window_left": 3, "window_right": 1}, {"padded": True}]


def tensors(queries=7, keys=7):
    return torch.randn(2, 4, queries, 8), torch.randn(2, 2, keys, 8), torch.randn(2, 2, keys, 8)


def params_of(spec):
    values = posenc.Spec(spec).initial_parameters(8, 4)
    return {name: x + 0.1 * torch.rand_like(x) for name, x in values.items()}


@pytest.mark.parametrize("masks", MASKS, ids=str)
@pytest.mark.parametrize("spec", SPECS)
def test_what_is_exported_is_what_the_kernels_compute(spec, masks, monkeypatch):
    options = dict(masks)
    if options.pop("padded", False):
        options["key_mask"] = torch.tensor([[True] * 7, [False] * 2 + [True] * 5])
    params = params_of(spec)
    for queries in (7, 3):
        q, k, v = tensors(queries)
        expected = posenc.attention(q, k, v, spec, params, **options)
        with monkeypatch.context() as exporting:
            exporting.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
            found = posenc.attention(q, k, v, spec, params, **options)
        torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("spec", ["rope", "rope(layout=interleaved, rotary_dim=4)", "rope(inverse=true)"])
def test_rotations(spec, transposed, monkeypatch):
    q, k, _ = tensors()
    expected = posenc.rope(q, k, spec, transposed=transposed)
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    for found, turned in zip(posenc.rope(q, k, spec, transposed=transposed), expected):
        torch.testing.assert_close(found, turned)


class Layer(torch.nn.Module):
    def __init__(self, spec, **options):
        super().__init__()
        self.spec, self.options, self.params = spec, options, params_of(spec)

    def forward(self, q, k, v):
        return posenc.attention(q, k, v, self.spec, self.params, **self.options)


def exported(model, inputs, opset=14, **options):
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        posenc.export_onnx(model, tuple(inputs), buffer, opset_version=opset, **options)
    return buffer.getvalue()


@needs("onnx")
@pytest.mark.parametrize("spec", ["rope", "rope + alibi", "alibi", "rope + softcap(cap=2)", SHORT_FIRE])
def test_the_graph_has_operators_of_onnx_alone(spec, tmp_path):
    layer, inputs = Layer(spec, causal=True), tensors()
    model = exported(layer, inputs, input_names=["q", "k", "v"])
    found, graph = run("onnx", model, dict(zip("qkv", inputs)), tmp_path)
    assert graph["domains"] == [""] and graph["opsets"] == [["", 14]] and graph["outputs"] == 1
    for x in found:
        torch.testing.assert_close(torch.from_numpy(x), layer(*inputs), rtol=2e-5, atol=2e-6)


@needs("onnxruntime")
@pytest.mark.parametrize("spec", ["rope + alibi", "rope", "rope + softcap(cap=2)"])
def test_onnxruntime_computes_the_same(spec, tmp_path):
    layer = posenc.nn.Attention(32, 4, spec, kv_heads=2, causal=True)
    x = torch.randn(2, 7, 32)
    text = exported(layer, (x,), input_names=["x"], dynamic_axes={"x": {0: "batch", 1: "tokens"}})
    for rows in (x, x[:1, :4]):
        (found,), _ = run("runtime", text, {"x": rows}, tmp_path)
        torch.testing.assert_close(torch.from_numpy(found), layer(rows).detach(), rtol=2e-5, atol=2e-6)


@needs("onnx")
def test_a_module_is_exported_with_its_weights(tmp_path):
    layer = posenc.nn.Attention(32, 4, "rope + alibi(trainable=true)", kv_heads=2, causal=True).eval()
    x = torch.randn(2, 7, 32)
    shapes = run("onnx", exported(layer, (x,), input_names=["x"]), {"x": x}, tmp_path)[1]["weights"]
    assert shapes.count([32, 32]) == 2 and shapes.count([32, 16]) == 2


def test_the_exporter_that_traces_is_chosen(monkeypatch):
    """PyTorch has the keyword since 2.5; since 2.9 its default is the other exporter."""
    said = []
    monkeypatch.setattr(torch.onnx, "export", lambda model, args, f, dynamo=True: said.append((f, dynamo)))
    posenc.export_onnx(None, (), "new.onnx")
    monkeypatch.setattr(torch.onnx, "export", lambda model, args, f, opset_version=17: said.append((f, opset_version)))
    posenc.export_onnx(None, (), "old.onnx", opset_version=14, dynamo=False)
    assert said == [("new.onnx", False), ("old.onnx", 14)]
    with pytest.raises(posenc.Error, match="dynamo=True is not supported"):
        posenc.export_onnx(None, (), "new.onnx", dynamo=True)


REFUSED = [
    (Layer("rope + cope(npos_max=4)", causal=True), "it has cope"),
    (Layer("xpos"), "it rotates by xpos"),
    (Layer("softcap + softcap", causal=True), "it has softcap and softcap"),
    (Layer("fox", inputs={"fox.log_f": -torch.rand(2, 4, 7)}), "inputs is not supported"),
    (Layer("rope(schedule=learnable)"), "a trained schedule"),
    (Layer("rope(schedule=dynamic(factor=2, max_position_embeddings=4))"), "spec.at_length"),
    (Layer("rope", return_weights=True), "return_weights is not supported"),
    (Layer("rope", dropout=0.1), "dropout is not supported"),
    (Layer("rope", q_positions=torch.arange(7)), "q_positions is not supported"),
]


@pytest.mark.parametrize(("layer", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_cannot_be_exported_says_so(layer, words):
    with pytest.raises(posenc.Error, match="ONNX export") as error:
        exported(layer, tensors())
    assert words in str(error.value) and error.value.kind == "unsupported"


def test_other_functions_say_so(monkeypatch):
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    q, k, v = tensors()
    places = torch.arange(7)
    for call in (lambda: posenc.linear_attention(q, k, v), lambda: posenc.attention_decode(q, k, v),
                 lambda: posenc.rerotate(k, places, places)):
        with pytest.raises(posenc.Error, match="is not supported in ONNX export; export attention with rope"):
            call()


def test_traces_are_the_same():
    layer = posenc.nn.Attention(32, 4, "rope + cope(npos_max=4)", kv_heads=2, causal=True)
    x = torch.randn(2, 7, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        traced = torch.jit.trace(layer, x)
    torch.testing.assert_close(traced(x), layer(x))


@pytest.mark.parametrize("spec", [s for s in catalog_specs() if not posenc.Spec(s).inputs(8, 4)])
def test_every_spec_is_exported_right_or_refused(spec, monkeypatch):
    """Past the trained lengths of the specs. Which ones are refused is above."""
    params, (q, k, v) = params_of(spec), tensors(40, 40)
    expected = posenc.attention(q, k, v, spec, params, causal=True)
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    try:
        found = posenc.attention(q, k, v, spec, params, causal=True)
    except posenc.Error as error:
        assert error.kind == "unsupported" and "run the model in PyTorch" in str(error)
        assert not set(posenc.Spec(spec).encodings) <= {"none", *BIASES, "softcap"}
        return
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-6)
