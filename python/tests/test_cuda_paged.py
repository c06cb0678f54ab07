"""Paged caches on a GPU: read in place by the decode kernels, gathered elsewhere."""

import pytest
import torch

import posenc
from test_cuda import REASON, error
from test_paged import in_pages

pytestmark = pytest.mark.skipif(bool(REASON), reason=f"SKIPPED: {REASON}")

LENGTHS = [1000, 17, 640, 4]
IN_PLACE = ["none", "alibi(trainable=true)", "t5", "cope(npos_max=32)", "alibi + cope(npos_max=16)", "softcap + sink",
            "temperature(kind=log)"]


def problem(spec, dtype=torch.bfloat16, queries=1, dim=64, page=16, lengths=LENGTHS):
    """On the host: q, the paged arguments, parameters."""
    torch.manual_seed(3)
    q = torch.randn(len(lengths), 8, queries, dim).to(dtype)
    k, v = torch.randn(2, len(lengths), 2, max(lengths), dim).to(dtype).unbind(0)
    (k_pool, table), (v_pool, _) = in_pages(k, lengths, page), in_pages(v, lengths, page)
    paged = dict(block_table=table, cache_lengths=torch.tensor(lengths))
    return q, k_pool, v_pool, paged, posenc.Spec(spec).initial_parameters(dim, 8, seed=3)


def on_gpu(q, k_pool, v_pool, paged, params):
    moved = {name: x.cuda() for name, x in paged.items()}
    return q.cuda(), k_pool.cuda(), v_pool.cuda(), moved, {name: x.cuda() for name, x in params.items()}


def decode(spec, q, k_pool, v_pool, paged, params, **options):
    return posenc.attention_decode(q, k_pool, v_pool, spec, params, **paged, **options)


def extra_bytes(call):
    """What a call allocates at its peak."""
    call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize("spec", IN_PLACE)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(1, 64, 16), (1, 128, 32), (3, 64, 128), (8, 256, 16), (2, 40, 64)])
def test_results_of_a_cpu(spec, dtype, shape):
    queries, dim, page = shape
    given = problem(spec, dtype, queries, dim, page)
    want = decode(spec, *given)
    device = on_gpu(*given)
    assert error(decode(spec, *device), want) < 8e-3
    assert error(decode(spec, *device, window_left=100), decode(spec, *given, window_left=100)) < 8e-3
    device[3]["cache_lengths"] = given[3]["cache_lengths"]  # on the host, where the longest is known
    assert error(decode(spec, *device), want) < 8e-3


@pytest.mark.parametrize("spec", ["none", "cope(npos_max=32)"])
def test_bits_of_a_contiguous_cache(spec):
    q, k_pool, v_pool, paged, params = on_gpu(*problem(spec, lengths=[777, 777]))
    paged["cache_lengths"] = paged["cache_lengths"].cpu()
    rows = [pool[paged["block_table"].long()].flatten(1, 2)[:, :777].transpose(1, 2) for pool in (k_pool, v_pool)]
    want = posenc.attention_decode(q, *rows, spec, params)
    assert torch.equal(decode(spec, q, k_pool, v_pool, paged, params), want)


def test_rotated_keys_are_read_in_place():
    spec = "rope + alibi"
    q, k_pool, v_pool, paged, params = problem(spec, lengths=[1000, 17])
    heads_first = k_pool.clone().transpose(1, 2)
    for b, length in enumerate((1000, 17)):
        for n, block in enumerate(paged["block_table"][b, : -(-length // 16)].tolist()):
            ids = torch.arange(16 * n, 16 * n + 16)
            rows = heads_first[block : block + 1]
            heads_first[block] = posenc.rope(rows, rows, "rope", positions=ids)[0][0]
    turned = (q, heads_first.transpose(1, 2), v_pool, paged, params)
    want = decode(spec, *turned, keys_are_turned=True)
    device = on_gpu(*turned)
    assert error(decode(spec, *device, keys_are_turned=True), want) < 8e-3
    assert error(decode(spec, *on_gpu(q, k_pool, v_pool, paged, params)), want) < 1.2e-2  # rotated for the call


def test_pages_in_place_take_no_copy():
    device = on_gpu(*problem("none", lengths=[60000, 50000]))
    cache = 2 * device[1].numel() * device[1].element_size()
    assert extra_bytes(lambda: decode("none", *device)) < cache / 8
    text = posenc.explain("none", heads=8, kv_heads=2, queries=1, keys=60000, head_dim=64, device="cuda", dtype="bfloat16",
                          paged=True)
    assert "pages read in place" in text
    # A mask needs the longest length on the host: gathered.
    mask = torch.ones(2, 60000, dtype=torch.bool, device="cuda")
    assert extra_bytes(lambda: decode("none", *device, key_mask=mask)) > cache / 2


@pytest.mark.parametrize("page", [8, 24])
def test_pages_of_other_sizes_are_gathered(page):
    given = problem("alibi", page=page)
    assert error(decode("alibi", *on_gpu(*given)), decode("alibi", *given)) < 8e-3


@pytest.mark.parametrize("spec", ["none", "cope(npos_max=32)", "sink"])
def test_what_a_table_cannot_name_is_nan(spec):
    q, k_pool, v_pool, paged, params = on_gpu(*problem(spec))
    good = decode(spec, q, k_pool, v_pool, paged, params)
    for wrong in (-1, k_pool.shape[0]):
        table = paged["block_table"].clone()
        table[2, 30] = wrong
        out = decode(spec, q, k_pool, v_pool, {**paged, "block_table": table}, params)
        assert out[2].isnan().all()
        assert torch.equal(out[[0, 1, 3]], good[[0, 1, 3]])
    for wrong in (-1, 16 * paged["block_table"].shape[1] + 1):
        lengths = paged["cache_lengths"].clone()
        lengths[1] = wrong
        out = decode(spec, q, k_pool, v_pool, {**paged, "cache_lengths": lengths}, params)
        assert out[1].isnan().all()
        assert torch.equal(out[[0, 2, 3]], good[[0, 2, 3]])


def test_an_empty_sequence_gives_zeros():
    q, k_pool, v_pool, paged, params = on_gpu(*problem("none"))
    paged["cache_lengths"][3] = 0
    assert decode("none", q, k_pool, v_pool, paged, params)[3].eq(0).all()


def test_a_cuda_graph_replays_with_other_lengths():
    q, k_pool, v_pool, paged, params = on_gpu(*problem("none"))
    for _ in range(2):
        decode("none", q, k_pool, v_pool, paged, params)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = decode("none", q, k_pool, v_pool, paged, params)
    paged["cache_lengths"].copy_(torch.tensor([900, 16, 500, 3]))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, decode("none", q, k_pool, v_pool, paged, params))


@pytest.mark.parametrize("spec", ["rope + alibi", "fire", "fox"])
def test_caches_that_no_kernel_reads_are_gathered(spec):
    q, k_pool, v_pool, paged, params = problem(spec)
    inputs = {
        wanted.name: -torch.rand(*k_pool.shape[:2], 8 if wanted.by_query_head else 2, wanted.channels)
        for wanted in posenc.Spec(spec).inputs(64, 8)
    }
    want = decode(spec, q, k_pool, v_pool, paged, params, inputs=inputs)
    on_device = {name: x.cuda() for name, x in inputs.items()}
    got = decode(spec, *on_gpu(q, k_pool, v_pool, paged, params), inputs=on_device)
    assert error(got, want) < 8e-3
