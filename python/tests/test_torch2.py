"""What only PyTorch 2 has: opcheck, and torch.compile without graph breaks."""

import pytest
import torch

import posenc

two = pytest.mark.skipif(
    tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 4), reason="needs PyTorch 2.4"
)


def rows(*heads, tokens=9, head_dim=8, grad=True):
    return [torch.randn(2, h, tokens, head_dim, requires_grad=grad) for h in heads]


@two
@pytest.mark.parametrize("spec", ["none", "rope", "rope + alibi", "t5", "cope(npos_max=4)"])
def test_opcheck_attention(spec):
    q, k, v = rows(4, 2, 2)
    count = sum(
        torch.Size(p.shape).numel() for p in posenc.Spec(spec).parameters(8, 4) if p.trainable
    )
    flat = torch.randn(count, requires_grad=count > 0)
    options = ([], spec, True, -1, -1, None, None, None, None, None, None, 0.0, 0, False)
    torch.library.opcheck(torch.ops.posenc._attention.default, (q, k, v, flat, *options))


@two
def test_opcheck_others():
    q, k, v = rows(4, 2, 2)
    none = torch.empty(0)
    torch.library.opcheck(torch.ops.posenc._rope.default, (q, k, none, "rope", None, False))
    alpha = torch.zeros(4, requires_grad=True)
    learnable = "rope(schedule=learnable)"
    torch.library.opcheck(torch.ops.posenc._rope.default, (q, k, alpha, learnable, None, False))
    options = ("rope", "elu", 1e-3, True, None, None, None, None, None)
    torch.library.opcheck(torch.ops.posenc._linear_attention.default, (q, k, v, none, *options))
    torch.library.opcheck(torch.ops.posenc.t5_buckets.default, (torch.arange(-5, 5), "t5"))


@two
def test_opcheck_paged_cache():
    q = torch.randn(2, 4, 1, 8)
    pool = torch.randn(6, 16, 2, 8)
    table = torch.tensor([[5, 0], [3, 1]], dtype=torch.int32)
    options = ([], "rope", True, -1, -1, None, None, None, None, None, None, 0.0, 0, False)
    torch.library.opcheck(
        torch.ops.posenc._attention_cache.default,
        (q, pool, pool, None, None, table, torch.tensor([20, 32]), torch.empty(0), *options),
        test_utils=("test_schema", "test_faketensor"),
    )


def compiled_equals_eager(run, leaves):
    eager = run(*leaves)
    eager_gradients = torch.autograd.grad(eager.square().sum(), leaves)
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")(*leaves)
    gradients = torch.autograd.grad(compiled.square().sum(), leaves)
    assert torch.allclose(compiled, eager, atol=1e-6)
    for a, b in zip(gradients, eager_gradients):
        assert torch.allclose(a, b, atol=1e-5)


@two
@pytest.mark.parametrize("spec", ["rope", "rope + alibi", "rope + cope(npos_max=4)"])
def test_compile_without_graph_breaks(spec):
    q, k, v = rows(4, 2, 2)
    e = torch.randn(8, 4, requires_grad=True)
    leaves = [q, k, v] + ([e] if "cope" in spec else [])

    def run(q, k, v, *values):
        params = {"cope.pos_emb": values[0]} if values else None
        return posenc.attention(q, k, v, spec, params, causal=True)

    compiled_equals_eager(run, leaves)


@two
def test_compile_rope_and_linear_attention():
    q, k, v = rows(4, 4, 4)
    compiled_equals_eager(lambda q, k: sum(x.sum(2) for x in posenc.rope(q, k)), [q, k])
    compiled_equals_eager(
        lambda q, k, v: posenc.linear_attention(q, k, v, "rope", causal=True), [q, k, v]
    )


@two
def test_compile_a_module():
    module = posenc.nn.Attention(16, 4, "rope + t5 + cope(npos_max=4)", kv_heads=2, causal=True)
    x = torch.randn(2, 9, 16)
    eager = module(x)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")(x)
    assert torch.allclose(compiled, eager, atol=1e-6)
