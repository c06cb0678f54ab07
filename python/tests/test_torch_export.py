"""torch.export: programs with a dynamic length that compute what eager calls do, also after a round through a file."""

import io
import re
from pathlib import Path

import pytest
import torch

import posenc

pytestmark = pytest.mark.skipif(
    tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 4), reason="needs PyTorch 2.4"
)
LENGTHS = (9, 2, 30)  # the first is the one that is exported


class Attention(torch.nn.Module):
    def __init__(self, spec, **options):
        super().__init__()
        self.spec, self.options = spec, options
        self.pos = posenc.nn.EncodingParameters(spec, 8, 4)

    def forward(self, q, k, v):
        return posenc.attention(q, k, v, self.spec, self.pos(), **self.options)


class Rope(torch.nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.spec = spec

    def forward(self, q, k):
        return posenc.rope(q, k, self.spec)


def heads(*counts):
    """Makes tensors [2, heads, tokens, 8] for a length."""
    return lambda length: tuple(torch.randn(2, count, length, 8) for count in counts)


def saved_and_loaded(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def exported(module, make, dim):
    """The program for any number of tokens, after a comparison with eager calls before and after a file."""
    inputs = make(LENGTHS[0])
    tokens = torch.export.Dim("tokens", min=2, max=64)
    program = torch.export.export(module, inputs, dynamic_shapes=({dim: tokens},) * len(inputs))
    for found in (program, saved_and_loaded(program)):
        run = found.module()
        for length in LENGTHS:
            given = make(length)
            torch.testing.assert_close(run(*given), module(*given))
    return program


def operators(program):
    return {str(node.target).split(".")[1].lstrip("_") for node in program.graph.nodes if "posenc" in str(node.target)}


@pytest.mark.parametrize("options", [{"causal": True}, {"window_left": 3, "window_right": 2}], ids=str)
@pytest.mark.parametrize("spec", ["none", "rope", "rope + alibi", "rope + t5", "cope(npos_max=4)", "rope + fire"])
def test_attention(spec, options):
    program = exported(Attention(spec, **options), heads(4, 2, 2), dim=2)
    assert operators(program) == {"attention"}


@pytest.mark.parametrize("spec", ["rope", "rope(schedule=dynamic(factor=2, max_position_embeddings=4))", "xpos(center=4)"])
def test_rope(spec):
    program = exported(Rope(spec), heads(4, 2), dim=2)
    assert operators(program) == {"rope"}


@pytest.mark.parametrize("spec", ["rope", "alibi", "rope + cope(npos_max=4)", "rope + fox"])
def test_module(spec):
    layer = posenc.nn.Attention(32, 4, spec, kv_heads=2, causal=True).eval()
    program = exported(layer, lambda length: (torch.randn(2, length, 32),), dim=1)
    assert set(program.state_dict) == set(layer.state_dict())


def test_linear_attention():
    layer = posenc.nn.LinearAttention(32, 4, "rope", causal=True).eval()
    program = exported(layer, lambda length: (torch.randn(2, length, 32),), dim=1)
    assert operators(program) == {"linear_attention"}


def test_a_dynamic_batch_and_a_mask():
    class Masked(torch.nn.Module):
        def forward(self, q, k, v, key_mask):
            return posenc.attention(q, k, v, "rope + alibi", causal=True, key_mask=key_mask)

    def make(batch, length):
        mask = torch.ones(batch, length, dtype=torch.bool)
        mask[0, 0] = False
        return *(torch.randn(batch, 4, length, 8) for _ in range(3)), mask

    batch, tokens = torch.export.Dim("batch", max=16), torch.export.Dim("tokens", min=2, max=64)
    shapes = ({0: batch, 2: tokens},) * 3 + ({0: batch, 1: tokens},)
    program = torch.export.export(Masked(), make(3, 9), dynamic_shapes=shapes)
    for size in ((3, 9), (2, 20), (7, 2)):
        given = make(*size)
        torch.testing.assert_close(program.module()(*given), Masked()(*given))


@pytest.mark.parametrize("spec", ["rope + alibi", "cope(npos_max=4)"])
def test_gradients_of_a_program(spec):
    layer = posenc.nn.Attention(32, 4, spec, kv_heads=2, causal=True)
    x = torch.randn(2, 9, 32)
    layer(x).square().sum().backward()
    expected = {name: p.grad.clone() for name, p in layer.named_parameters()}
    layer.zero_grad()
    torch.export.export(layer, (x,)).module()(x).square().sum().backward()
    for name, p in layer.named_parameters():
        torch.testing.assert_close(p.grad, expected[name])


def test_compile_with_a_dynamic_length():
    attention, make = Attention("rope + alibi", causal=True), heads(4, 2, 2)
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    for length in LENGTHS:
        given = make(length)
        for x in given:
            torch._dynamo.mark_dynamic(x, 2)
        torch.testing.assert_close(compiled(*given), attention(*given))


def test_the_example_of_the_docs(tmp_path, monkeypatch):
    page = Path(__file__).resolve().parents[2] / "docs/pytorch.md"
    (code,) = re.findall(r"```python\n((?:(?!```).)*torch\.export\.save.*?)```", page.read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code, names)  # noqa: S102
    assert names["out"].shape == (1, 300, 64)
