"""Decoding from a paged cache: the results of a contiguous cache with the same tokens, and errors that say what to do."""

import pytest
import torch

import posenc

PAGE = 16


def in_pages(rows, lengths, page=PAGE, seed=0):
    """A pool [blocks, page, heads, channels] with the first tokens of rows [B, heads, T, channels], its table, and NaN
    (or the largest number) in everything that the table does not name."""
    batch, heads, _, channels = rows.shape
    blocks = max(-(-n // page) for n in lengths)
    order = torch.randperm(batch * blocks + 2, generator=torch.Generator().manual_seed(seed))
    poison = float("nan") if rows.is_floating_point() else 127
    pool = torch.full((batch * blocks + 2, page, heads, channels), poison, dtype=rows.dtype)
    table = order[: batch * blocks].reshape(batch, blocks).to(torch.int32)
    for b, length in enumerate(lengths):
        for t in range(length):
            pool[table[b, t // page], t % page] = rows[b, :, t]
        table[b, -(-length // page):] = -1
    return pool, table


def tensors(dtype=torch.float32, batch=3, tokens=50):
    torch.manual_seed(1)
    q = torch.randn(batch, 4, 2, 16)
    k, v = torch.randn(2, batch, 2, tokens, 16).to(dtype).unbind(0)
    return q, k, v


def contiguous(q, k, v, spec, lengths, inputs=None, **options):
    """Each sequence on its own."""
    out = []
    for b, n in enumerate(lengths):
        rows = {name: x[b:b + 1, :, :n] for name, x in (inputs or {}).items()}
        own = {name: x[b:b + 1, ..., :n] if name == "key_mask" else x for name, x in options.items()}
        out.append(posenc.attention_decode(q[b:b + 1], k[b:b + 1, :, :n], v[b:b + 1, :, :n], spec, inputs=rows, **own))
    return torch.cat(out)


@pytest.mark.parametrize("spec", ["none", "rope + alibi", "cope + cope", "grape_ap(rank=3)", "fox + sink"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.filterwarnings("ignore:.*is not fused")
def test_bits_of_a_contiguous_cache(spec, dtype):
    q, k, v = tensors(dtype)
    lengths = [50, 1, 33]
    inputs, pools = {}, {}
    for wanted in posenc.Spec(spec).inputs(16, 4):
        inputs[wanted.name] = -torch.rand(3, 4 if wanted.by_query_head else 2, 50, wanted.channels)
        pools[wanted.name] = in_pages(inputs[wanted.name], lengths)[0]
    params = posenc.Spec(spec).initial_parameters(16, 4, seed=3)
    k_pool, table = in_pages(k, lengths)
    v_pool, _ = in_pages(v, lengths)
    mask = torch.rand(3, 50) < 0.8
    paged = dict(block_table=table, cache_lengths=torch.tensor(lengths))
    for options in ({}, {"window_left": 20}, {"key_mask": mask}):
        want = contiguous(q, k, v, spec, lengths, inputs, params=params, **options)
        got = posenc.attention_decode(q, k_pool, v_pool, spec, params, inputs=pools, **paged, **options)
        assert torch.equal(got, want)
    swapped = posenc.attention_decode(
        q.transpose(1, 2), k_pool, v_pool, spec, params, inputs=pools, layout="bthd", **paged
    )
    assert torch.equal(swapped.transpose(1, 2), contiguous(q, k, v, spec, lengths, inputs, params=params))


def test_cope_with_gate_keys_and_int8():
    q, k, v = tensors()
    lengths = [50, 17, 33]
    paged = dict(cache_lengths=torch.tensor(lengths, dtype=torch.int32))
    (k8, k_scales), (v8, v_scales) = posenc.quantize_rows(k), posenc.quantize_rows(v)
    spec = "rope + cope(npos_max=8, gate_source=value)"
    params = posenc.Spec(spec).initial_parameters(16, 4, seed=3)
    pools = [in_pages(x, lengths) for x in (k8, v8, k_scales, v_scales)]
    got = posenc.attention_decode(
        q, pools[0][0], pools[1][0], spec, params, k_scales=pools[2][0], v_scales=pools[3][0],
        block_table=pools[0][1], **paged
    )
    for b, n in enumerate(lengths):
        want = posenc.attention_decode(
            q[b:b + 1], k8[b:b + 1, :, :n], v8[b:b + 1, :, :n], spec, params,
            k_scales=k_scales[b:b + 1, :, :n], v_scales=v_scales[b:b + 1, :, :n],
        )
        assert torch.equal(got[b:b + 1], want)


def test_positions_and_other_orders_of_a_pool():
    q, k, v = tensors()
    lengths = [50, 50, 20]
    (k_pool, table), (v_pool, _) = in_pages(k, lengths), in_pages(v, lengths)
    paged = dict(block_table=table, cache_lengths=torch.tensor(lengths))
    want = posenc.attention_decode(q, k_pool, v_pool, "rope", **paged)
    heads_first = [pool.transpose(1, 2).contiguous().transpose(1, 2) for pool in (k_pool, v_pool)]
    assert torch.equal(posenc.attention_decode(q, *heads_first, "rope", **paged), want)
    places = torch.arange(50).expand(3, 50)
    ends = torch.tensor([[48, 49], [48, 49], [18, 19]])
    got = posenc.attention_decode(q, k_pool, v_pool, "rope", q_positions=ends, k_positions=places, **paged)
    assert torch.equal(got, want)
    turned = posenc.rope(k, k, "rope")[0]
    got = posenc.attention_decode(q, in_pages(turned, lengths)[0], v_pool, "rope", keys_are_turned=True, **paged)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", ["rope + alibi", "fire", "cope(npos_max=8)"])
def test_float64_gathers_the_pages_as_a_gpu_does(spec):
    q, k, v = (x.double() for x in tensors())
    lengths = [50, 0, 50]
    (k_pool, table), (v_pool, _) = in_pages(k, lengths), in_pages(v, lengths)
    params = {name: x.double() for name, x in posenc.Spec(spec).initial_parameters(16, 4, seed=3).items()}
    mask = torch.rand(3, 50) < 0.8
    paged = dict(block_table=table, cache_lengths=torch.tensor(lengths), key_mask=mask)
    got = posenc.attention_decode(q, k_pool, v_pool, spec, params, **paged)
    narrow = posenc.attention_decode(q.float(), k_pool.float(), v_pool.float(), spec,
                                     {name: x.float() for name, x in params.items()}, **paged)
    torch.testing.assert_close(got.float(), narrow, rtol=1e-5, atol=1e-5)
    for b in (0, 2):
        want = posenc.attention_decode(q[b:b + 1], k[b:b + 1], v[b:b + 1], spec, params, key_mask=mask[b:b + 1])
        torch.testing.assert_close(got[b:b + 1], want, rtol=1e-12, atol=1e-12)
    assert (got[1] == 0).all()
    with pytest.raises(posenc.Error, match="must be a page of the pool"):
        posenc.attention_decode(q, k_pool, v_pool, spec, params, block_table=table + 100, cache_lengths=torch.tensor(lengths))


def test_autocast_reads_a_pool_in_its_type_and_meta_tensors_have_a_shape():
    q, k, v = tensors(torch.bfloat16)
    lengths = [50, 1, 33]
    (k_pool, table), (v_pool, _) = in_pages(k, lengths), in_pages(v, lengths)
    paged = dict(block_table=table, cache_lengths=torch.tensor(lengths))
    want = posenc.attention_decode(q, k_pool, v_pool, "rope", **paged)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(posenc.attention_decode(q, k_pool, v_pool, "rope", **paged), want)
    on_meta = {name: x.to("meta") for name, x in paged.items()}
    out = posenc.attention_decode(q.to("meta"), k_pool.to("meta"), v_pool.to("meta"), "rope", **on_meta)
    assert out.shape == q.shape and out.dtype == q.dtype and out.is_meta


def test_explain():
    shape = dict(heads=8, kv_heads=2, queries=1, keys=4096, head_dim=128)
    text = posenc.explain("rope", paged=True, **shape)
    assert "decode, rope while reading rows, pages read in place; no backward; memory" in text
    text = posenc.explain("rope", paged=True, device="cuda", dtype="bfloat16", **shape)
    assert "pages of rotated keys read in place, others gathered first; no backward; memory 4.0 MiB" in text
    text = posenc.explain("alibi", paged=True, device="cuda", dtype="bfloat16", **shape)
    assert "decode on cuda, toeplitz table (alibi), pages read in place; no backward" in text
    text = posenc.explain("fire", paged=True, device="cuda", dtype="bfloat16", **shape)
    assert "pages gathered first; no backward; memory 4.0 MiB" in text
    assert "pages" not in posenc.explain("rope", **shape)


def test_errors_name_the_argument_and_its_value():
    q, k, v = tensors()
    lengths = [50, 1, 33]
    (k_pool, table), (v_pool, _) = in_pages(k, lengths), in_pages(v, lengths)
    sizes = torch.tensor(lengths)

    def call(q=q, k=k_pool, v=v_pool, spec="rope", table=table, lengths=sizes, **options):
        return posenc.attention_decode(q, k, v, spec, block_table=table, cache_lengths=lengths, **options)

    wrong = table.clone()
    wrong[2, 1] = k_pool.shape[0]
    for words, broken in (
        (r"block_table\[2\]\[1\] must be a page of the pool, 0 to 13, but got 14", lambda: call(table=wrong)),
        (r"block_table\[1\]\[1\] must be a page of the pool, 0 to 13, but got -1",
         lambda: call(lengths=torch.tensor([50, 20, 33]))),
        (r"lengths\[0\] must be from 0 to 4 pages of 16 tokens but got 65",
         lambda: call(lengths=torch.tensor([65, 1, 33]))),
        ("lengths must be in|lengths.0. must be from 0", lambda: call(lengths=torch.tensor([-1, 1, 33]))),
        (r"block_table must be int32 \[3, blocks\] but got Long", lambda: call(table=table.long())),
        (r"block_table must be int32 \[3, blocks\] but got Int \[2, 4\]", lambda: call(table=table[:2])),
        (r"cache_lengths must be whole numbers \[3\] but got Float", lambda: call(lengths=sizes.float())),
        (r"cache_lengths must be whole numbers \[3\] but got Long \[2\]", lambda: call(lengths=sizes[:2])),
        ("belong together but got block_table alone", lambda: call(lengths=None)),
        ("belong together but got cache_lengths alone",
         lambda: posenc.attention_decode(q, k, v, cache_lengths=sizes)),
        (r"k must be \[blocks, page, heads, channels\]", lambda: call(k=k_pool[0])),
        ("k must have contiguous channels but got stride 2", lambda: call(k=k_pool[..., ::2].repeat(1, 1, 1, 1)[..., ::2])),
        ("v must have 14 pages as k has but got 13", lambda: call(v=v_pool[:13])),
        ("v must be a pool .* with 16 tokens to a page, .* but got 8", lambda: call(v=v_pool[:, :8])),
        ("block_table.page must be positive but got 0", lambda: call(k=k_pool[:, :0], v=v_pool[:, :0])),
        ("bias that Python gives", lambda: call(bias=torch.zeros(4, 51))),
        ("inputs lacks 'fox.log_f'", lambda: call(spec="fox")),
        ("fox.log_f must be a pool|inputs must be",
         lambda: call(spec="fox", inputs={"fox.log_f": torch.zeros(3, 4, 50, 1)})),
        ("a paged cache has no gradients", lambda: call(q=q.clone().requires_grad_())),
        ("key_mask must be .batch, keys. = .3, 50.", lambda: call(key_mask=torch.ones(3, 64, dtype=torch.bool))),
    ):
        with pytest.raises(posenc.Error, match=words):
            broken()


@pytest.mark.parametrize("value_dim", [8, 24])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_values_of_another_width(dtype, value_dim):
    q, k, _ = tensors(dtype)
    q = q.double() if dtype == torch.float64 else q
    v = torch.randn(3, 2, 50, value_dim).to(dtype)
    lengths = [50, 1, 33]
    (k_pool, table), (v_pool, _) = in_pages(k, lengths), in_pages(v, lengths)
    got = posenc.attention_decode(q, k_pool, v_pool, "rope", block_table=table, cache_lengths=torch.tensor(lengths))
    assert got.shape == (3, 4, 2, value_dim)
    assert torch.equal(got, contiguous(q, k, v, "rope", lengths))


def test_prompts_of_many_tokens_read_pages_too():
    q, k, v = tensors()
    q = torch.randn(3, 4, 20, 16)
    lengths = [50, 21, 33]
    (k_pool, table), (v_pool, _) = in_pages(k, lengths), in_pages(v, lengths)
    got = posenc.attention_decode(
        q, k_pool, v_pool, "rope + alibi", block_table=table, cache_lengths=torch.tensor(lengths)
    )
    assert torch.equal(got, contiguous(q, k, v, "rope + alibi", lengths))
