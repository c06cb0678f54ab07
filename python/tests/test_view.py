"""posenc.view: weights of models of every kind, and the page that shows them."""

import base64
import json
import re
import shutil
import struct
import subprocess
import zlib

import pytest
import torch

import posenc
from hf_stand_in import LlamaForCausalLM, Masks, installed
from posenc import _view_page, _watch, hf

IDS = torch.tensor([5, 9, 2, 41, 17, 33, 8])
SEEN = torch.ones(len(IDS), len(IDS)).tril().bool()


class Tokenizer:
    """Letters; ids are those of the alphabet."""

    def __call__(self, text):
        return {"input_ids": [ord(letter) - ord("a") for letter in text]}

    def decode(self, ids):
        return "".join(chr(ord("a") + i) for i in ids)


class Reader(torch.nn.Module):
    """A model of a user: two layers of posenc.nn.Attention with grouped heads."""

    def __init__(self, spec, **options):
        super().__init__()
        self.embed = torch.nn.Embedding(64, 32)
        self.layers = torch.nn.ModuleList(
            posenc.nn.Attention(32, 4, spec, kv_heads=2, causal=True, seed=n, **options) for n in range(2)
        )
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter, std=0.4)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x)
        return x


@pytest.fixture
def llama():
    with installed():
        model = LlamaForCausalLM().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        yield model


def sums_to_one(view):
    rows = view.weights.sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows))


def direct_cope(q, scores, table):
    """Equations 3 to 6 of the CoPE paper, written out."""
    gates = torch.sigmoid(scores) * SEEN
    positions = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=table.shape[1] - 1)
    logits = q @ table
    low, high = positions.floor().long(), positions.ceil().long()
    share = positions - low
    return (1 - share) * logits.gather(-1, low) + share * logits.gather(-1, high)


@pytest.mark.parametrize(
    "spec", ["rope + fox", "alibi + softcap(cap=3) + sink", "stick_breaking", "cope(gate_source=value)"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_those_of_the_reference(spec, dtype):
    """Also with more keys than channels, and of specs that read the values."""
    q, k, v = (torch.randn(1, h, 21, 8, dtype=dtype) for h in (4, 2, 2))
    inputs = {i.name: -torch.rand(1, 4, 21, 1) for i in posenc.Spec(spec).inputs(8, 4)}
    params = posenc.Spec(spec).initial_parameters(8, 4)
    params = {name: torch.randn_like(p) if p.dim() > 1 else p for name, p in params.items()}
    options = dict(causal=True, key_mask=torch.arange(21)[None] > 2, inputs=inputs)
    recorder = _watch.Recorder(21, None, None)
    with recorder.watching(torch.nn.Identity()):
        expected = posenc.attention(q, k, v, spec, params, return_weights=True, **options)[1]
    torch.testing.assert_close(recorder.kept[0].weights[None], expected.float(), atol=1e-5, rtol=1e-4)
    assert bool(recorder.kept[0].hidden[:, :3].all())


@pytest.mark.parametrize("spec", ["rope", "rope + cope(npos_max=4)"])
def test_weights_of_posenc_modules_are_a_direct_softmax(spec):
    model = Reader(spec)
    made = posenc.view(model, IDS)
    assert made.weights.shape == (2, 4, 7, 7) and made.modules == ["layers.0", "layers.1"]
    assert made.tokens == [str(int(i)) for i in IDS] and made.specs[0] == posenc.Spec(spec).text
    layer = model.layers[0]
    x = model.embed(IDS[None])
    q, k = layer._split(layer.q_proj(x), 4), layer._split(layer.k_proj(x), 2)
    turned_q, turned_k = posenc.rope(q, k, "rope")
    scores = turned_q @ turned_k.repeat_interleave(2, 1).transpose(2, 3) / 8**0.5
    if "cope" in spec:
        scores = scores + direct_cope(q, scores, layer.pos()["cope.pos_emb"])
    expected = scores.masked_fill(~SEEN, -torch.inf).softmax(-1)
    torch.testing.assert_close(made.weights[:1], expected.detach(), atol=1e-5, rtol=1e-4)


def test_a_plain_model_keeps_its_weights_when_it_is_patched(llama):
    llama.config._attn_implementation_internal = "sdpa"  # switched to eager for the call
    llama.train()
    before = posenc.view(llama, IDS)
    assert llama.config._attn_implementation == "sdpa" and llama.training
    assert before.modules == [f"model.layers.{n}.self_attn" for n in range(2)] and before.specs == ["", ""]
    sums_to_one(before)
    posenc.patch(llama)
    after = posenc.view(llama, IDS[None], compare=before)
    sums_to_one(after)
    torch.testing.assert_close(after.weights, before.weights, atol=1e-5, rtol=1e-4)
    posenc.patch(llama, "rope + alibi")
    changed = posenc.view(llama, IDS, compare=before)
    assert changed.before is before and (changed.weights - before.weights).abs().max() > 0.01
    assert changed.name == "LlamaForCausalLM: rope + alibi" and not llama.model.layers[0].self_attn._forward_hooks


def test_the_registry(llama):
    """attn_implementation="posenc": the model rotates, posenc attends."""
    before = posenc.view(llama, IDS)
    posenc.register_attention()
    llama.set_attn_implementation("posenc")
    made = posenc.view(llama, IDS)
    assert made.specs == ["none"] * 2 and llama.config._attn_implementation == "posenc"
    torch.testing.assert_close(made.weights, before.weights, atol=1e-5, rtol=1e-4)


def test_the_registry_with_a_mask_that_only_pytorch_can_apply(llama, monkeypatch):
    before = posenc.view(llama, IDS)
    posenc.register_attention()
    llama.set_attn_implementation("posenc")
    monkeypatch.setitem(Masks.known, "posenc", lambda **_: SEEN[None, None])
    hf._warned.clear()
    with pytest.warns(UserWarning, match="PyTorch's attention"):
        made = posenc.view(llama, IDS)
    torch.testing.assert_close(made.weights, before.weights, atol=1e-5, rtol=1e-4)


def test_hidden_keys_are_not_painted():
    made = posenc.view(Reader("none", window_left=1), IDS)
    assert torch.equal(made._hidden[0], ~SEEN.triu(-1))


def test_a_weight_that_vanishes_in_one_head_is_not_hidden():
    layer = posenc.nn.Attention(32, 4, "alibi(trainable=true)", causal=True)
    with torch.no_grad():
        layer.pos.alibi.slopes.copy_(torch.tensor([1000.0, 0.1, 0.1, 0.1]))
    made = posenc.view(layer, torch.randn(7, 32))
    assert made.weights[0, 0, 3, 1] == 0 and torch.equal(made._hidden[0], ~SEEN)


def test_weights_that_a_layer_also_returns_count_once():
    class Layer(torch.nn.Module):
        def forward(self, x):
            q = x[:, None]
            return posenc.attention(q, q, q, "rope", causal=True, return_weights=True)

    assert posenc.view(Layer(), torch.randn(7, 8)).weights.shape == (1, 1, 7, 7)


def test_text_tokens_and_ids():
    model = Reader("rope")
    made = posenc.view(model, "abc", Tokenizer())
    assert made.tokens == ["a", "b", "c"]
    for same in ([("a", 0), ("b", 1), ("c", 2)], torch.tensor([0, 1, 2]), [0, 1, 2]):
        torch.testing.assert_close(posenc.view(model, same).weights, made.weights)
    with pytest.raises(posenc.Error, match="tokenizer=") as caught:
        posenc.view(model, "abc")
    assert caught.value.kind == "missing_key"
    with pytest.raises(posenc.Error, match=r"\[2, 3\]"):
        posenc.view(model, torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(TypeError, match="pairs"):
        posenc.view(model, [("a", 0), 3])


def test_layers_and_heads():
    model = Reader("rope")
    whole = posenc.view(model, IDS)
    part = posenc.view(model, IDS, layers=1, heads=[3, 1])
    assert (part.layers, part.heads) == ([1], [1, 3])
    assert torch.equal(part.weights, whole.weights[1:, [1, 3]])
    record = attention_data(part.html)["records"][0]
    assert record["layer_numbers"] == [1] and record["head_numbers"] == [1, 3]
    for wrong, words in (dict(layers=2), r"\[0, 1\] but got 2"), (dict(heads=4), r"\[0, 3\] but got 4"):
        with pytest.raises(posenc.Error, match=words):
            posenc.view(model, IDS, **wrong)
    with pytest.raises(posenc.Error, match="same layers"):
        posenc.view(model, IDS, compare=part)


def test_what_cannot_be_viewed(monkeypatch):
    with pytest.raises(posenc.Error, match="no self-attention") as caught:
        posenc.view(torch.nn.Embedding(64, 8), IDS)
    assert caught.value.kind == "unsupported"
    with pytest.raises(TypeError, match="torch.nn.Module"):
        posenc.view("rope", IDS)
    monkeypatch.setattr(_watch, "MOST_BYTES", 7 * 7 * 4 * 5)  # five maps
    with pytest.raises(posenc.Error, match="layers= and heads=") as caught:
        posenc.view(Reader("rope"), IDS)
    assert caught.value.kind == "resource" and _watch.recorder is None
    assert posenc.view(Reader("rope"), IDS, layers=[0], heads=[0]).weights.shape == (1, 1, 7, 7)
    monkeypatch.setattr(_watch, "MOST_BYTES", 7 * 7 * 4 * 3)  # less than the heads of a layer, which come together
    with pytest.raises(posenc.Error, match="layers= and heads="):
        posenc.view(Reader("rope"), IDS, layers=[0], heads=[0])


# The page.


def attention_data(page):
    return json.loads(re.search(r'id="attention-data">(.*?)</script>', page)[1])


def test_maps_of_the_page_are_the_weights():
    made = posenc.view(Reader("rope"), IDS)
    (record,) = attention_data(made.html)["records"]
    maps = record["layers"][1]["maps"][0]
    picture = base64.b64decode(maps["png"].split(",")[1])
    width, height = struct.unpack(">II", picture[16:24])
    assert (width, height) == (7, 4 * 7)
    lines = zlib.decompress(picture[41:-16])  # one chunk, with a byte for the filter before each line
    rows = torch.frombuffer(bytearray(lines), dtype=torch.uint8).view(4, 7, 8)[..., 1:].float()
    shown = torch.tensor(maps["highs"])[:, None, None] * ((rows - 1) / 254).clamp(min=0) ** 2
    torch.testing.assert_close(shown, made.weights[1], atol=1 / 254, rtol=0)
    assert bool((rows[:, ~SEEN] == 0).all()) and bool((rows[:, SEEN] > 0).all())


def test_long_maps_are_pooled_by_their_greatest_values(monkeypatch):
    maps = torch.rand(2, 10, 10)
    small = _view_page.pooled(maps, 4)
    assert small.shape == (2, 4, 4) and small[1, 1, 3] == maps[1, 2:5, 7:10].max()
    monkeypatch.setattr(_view_page, "CELLS", (4, 2))
    monkeypatch.setattr(_view_page, "BUDGET", 1)
    (record,) = attention_data(posenc.view(Reader("rope"), IDS).html)["records"]
    assert record["cells"] == 2


def test_tokens_are_harmless(tmp_path):
    evil = "</script><script>alert(1)</script>"
    model = Reader("rope")
    before = posenc.view(model, [(evil, 1), ("\n", 2), ("end", 3)])
    model.__class__.__name__ = "<b>"
    made = posenc.view(model, [(evil, 1), ("\n", 2), ("end", 3)], compare=before)
    made.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<script") == 3 and "alert(1)</script>" not in page and "<b>" not in page
    assert [r["example"]["tokens"] for r in attention_data(page)["records"]] == [[evil, "⏎", "end"]] * 2
    assert "http" not in re.sub(r"http-equiv|http://www.w3.org/\w+/svg", "", page)
    inline = made._repr_html_()
    assert inline.count("<") == 2 and "srcdoc=" in inline
    with pytest.raises(posenc.Error, match="page.pdf"):
        made.save("page.pdf")


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_browser_paints_the_maps(tmp_path):
    model = Reader("rope")
    before = posenc.view(model, IDS, layers=1)
    for layer in model.layers:
        torch.nn.init.normal_(layer.q_proj.weight)
    posenc.view(model, IDS, layers=1, compare=before).save(tmp_path / "page.html")
    shown = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         "--virtual-time-budget=4000", "--dump-dom", (tmp_path / "page.html").as_uri()],
        capture_output=True, text=True, timeout=120,
    ).stdout
    assert all(f'data-panel="{name}"' in shown for name in ("left", "right", "difference"))
    assert 'aria-label="layer 1, head 3"' in shown and "(after)" in shown and "7 tokens" in shown
