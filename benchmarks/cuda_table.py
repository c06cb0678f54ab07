"""The CUDA kernels compared with PyTorch in the same process: one row per target.

    python3 benchmarks/cuda_table.py [--only rope,attention,bias,cope,long,linear,decode,paged,flex,float32,
                                      fire,tokens,gates,angles,softcap,prune,sticks,relative] [--quick]

Times are medians of CUDA events after warm-up, in milliseconds. A ratio is ours over the reference's,
except where the row says otherwise. Fresh random inputs; nothing is timed on zeros.
"""

import argparse
import json
import math

import torch
import torch.nn.functional as F

from cuda_timing import (  # before posenc, which it finds
    ROWS, both, eager_cope, guarded, in_turn, milliseconds, params_of, peak_bytes, row, rows, sdpa, with_backward)
from cuda_general import fire_rows, float32_rows, gate_rows, token_rows
from cuda_next import angle_rows, prune_rows, softcap_rows
from cuda_sticks import relative_rows, stick_rows

import posenc

def rope_rows(args):
    q, k = rows(8, 32, 4096, 128, 2, grad=False)
    size = 2 * (q.numel() + k.numel()) * 2  # each element read and written once
    to = [torch.empty_like(q), torch.empty_like(k)]

    def copy():
        to[0].copy_(q)
        to[1].copy_(k)

    copied = milliseconds(copy)
    turned = milliseconds(lambda: posenc.rope(q, k))
    row("rope q+k bf16 [8,32,4096,128]: share of the copy rate", f"{turned:.3f} ms",
        f"copy {copied:.3f} ms", copied / turned, 0.90, True)
    print(f"{'':4}copy {size / copied / 1e9:.2f} TB/s, rope {size / turned / 1e9:.2f} TB/s")
    other = milliseconds(lambda: posenc.rope(q, k, "rope(layout=interleaved)"))
    row("rope interleaved, the same", f"{other:.3f} ms", f"copy {copied:.3f} ms", copied / other,
        0.90, True)
    x, y = [z.transpose(1, 2).contiguous().transpose(1, 2) for z in (q, k)]
    other = milliseconds(lambda: posenc.rope(x, y))
    row("rope on [B,T,H,D], the same", f"{other:.3f} ms", f"copy {copied:.3f} ms", copied / other)


def attention_rows(args):
    for dim in (64, 128):
        q, k, v = rows(8, 16, 4096, dim)
        grad_out = torch.randn_like(q)
        theirs = both(lambda: sdpa(q, k, v), [q, k, v], grad_out)
        ours = both(lambda: posenc.attention(q, k, v, causal=True), [q, k, v], grad_out)
        args.plain[dim] = (ours, theirs)
        flops = 4 * 8 * 16 * 4096 * 4096 * dim / 2
        row(f"attention none D{dim} forward", f"{ours[0]:.3f} ms", f"sdpa {theirs[0]:.3f} ms",
            ours[0] / theirs[0], 1.5)
        row(f"attention none D{dim} with backward", f"{ours[1]:.3f} ms", f"sdpa {theirs[1]:.3f} ms",
            ours[1] / theirs[1], 1.8)
        print(f"{'':4}forward {flops / ours[0] / 1e9:.0f} TFLOP/s, sdpa {flops / theirs[0] / 1e9:.0f}")


def bias_rows(args):
    for dim in (64,) if args.quick else (64, 128):
        q, k, v = rows(8, 16, 4096, dim)
        grad_out = torch.randn_like(q)

        def plain():
            return posenc.attention(q, k, v, causal=True)

        for spec in ("alibi(trainable=true)", "t5", "kerple", "alibi"):
            trained = spec != "alibi"  # ALiBi's slopes are constants without gradients
            params = params_of(spec, 16, dim) if trained else None
            leaves = [q, k, v, *(params.values() if trained else ())]

            def biased():
                return posenc.attention(q, k, v, spec, params, causal=True)

            name = spec.split("(")[0] if trained else "alibi with fixed slopes"
            with torch.no_grad():
                ours, none = in_turn(biased, plain)
            row(f"{name} D{dim} forward, over our plain kernel", f"{ours:.3f} ms", f"none {none:.3f} ms",
                ours / none, 1.15)
            ours, none = in_turn(with_backward(biased, leaves, grad_out),
                                 with_backward(plain, [q, k, v], grad_out), 5)
            row(f"{name} D{dim} with backward, over our plain kernel", f"{ours:.3f} ms",
                f"none {none:.3f} ms", ours / none, 1.3)


def flex_bias(spec, params, tokens):
    """The same bias for FlexAttention as a user would write it: a formula, or a table of distances."""
    if spec.startswith("alibi"):
        slopes = params["alibi.slopes"]
        return lambda s, b, h, i, j: s - slopes[h] * (i - j)
    if spec.startswith("t5"):
        buckets = posenc.t5_buckets(-torch.arange(tokens, device="cuda"))
        table = params["t5.weight"][buckets].t().contiguous()
        return lambda s, b, h, i, j: s + table[h, torch.where(i >= j, i - j, 0)]
    p, a = params["kerple.p"], params["kerple.a"]
    return lambda s, b, h, i, j: s - p[h] * torch.log(1 + a[h] * (i - j).abs())


def flex_rows(args):
    """Its gradients of what score_mod captures are sums of atomic additions, a second or two for these:
    hence also both without gradients of parameters."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 4096, 4096, device="cuda")
    for dim in (64,) if args.quick else (64, 128):
        q, k, v = rows(8, 16, 4096, dim)
        grad_out = torch.randn_like(q)
        for spec in ("alibi(trainable=true)", "kerple", "t5"):
            for trained in (False,) if args.quick else (False, True):
                guarded(f"{spec} D{dim} flex", lambda: flex_row(
                    spec, (q, k, v), grad_out, trained, flex_attention, causal))


def flex_row(spec, inputs, grad_out, trained, flex_attention, causal):
    q, k, v = inputs
    params = {n: x.detach().requires_grad_(trained) for n, x in params_of(spec, 16, q.shape[3]).items()}
    leaves = [*inputs, *(x for x in params.values() if trained)]
    torch._dynamo.reset()  # past a number of versions it would stop to compile
    flex = torch.compile(flex_attention, dynamic=False)

    # With its own choice of blocks a table does not fit into shared memory.
    options = {"BLOCK_M": 64, "BLOCK_N": 64, "num_stages": 1} if spec == "t5" else None

    def theirs():
        return flex(q, k, v, score_mod=flex_bias(spec, params, 4096), block_mask=causal,
                    kernel_options=options)

    def ours():
        return posenc.attention(q, k, v, spec, params, causal=True)

    with torch.no_grad():  # what is compared computes the same
        apart = ((theirs() - ours()).norm() / ours().norm()).item()
        assert apart < 1e-2, f"results are {apart} apart"
    what = f"{spec.split('(')[0]} D{q.shape[3]}"
    if not trained:
        mine, other = both(ours, leaves, grad_out, 3), both(theirs, leaves, grad_out, 3)
        row(f"{what} forward, over FlexAttention", f"{mine[0]:.3f} ms", f"flex {other[0]:.3f} ms",
            mine[0] / other[0], 1.0)
        row(f"{what} with backward, over FlexAttention", f"{mine[1]:.3f} ms",
            f"flex {other[1]:.3f} ms", mine[1] / other[1], 1.0)
        return
    mine, other = [milliseconds(with_backward(call, leaves, grad_out), 1, 1, 1) for call in (ours, theirs)]
    row(f"{what} with backward, trained, over FlexAttention", f"{mine:.3f} ms",
        f"flex {other:.3f} ms", mine / other, 1.0)


def cope_rows(args):
    for dim in (64, 128):
        q, k, v = rows(8, 16, 4096, dim)
        grad_out = torch.randn_like(q)
        e = (0.1 * torch.randn(dim, 64, device="cuda")).requires_grad_()
        theirs = args.plain[dim][1] if dim in args.plain else both(
            lambda: sdpa(q, k, v), [q, k, v], grad_out)
        eager = math.nan
        if dim == 64 and not args.quick:
            eager = milliseconds(
                with_backward(lambda: eager_cope(q, k, v, e), [q, k, v, e], grad_out), 3, 1, 1)
            torch.cuda.empty_cache()
        for name, shift, bar, faster in (("gates near one half", 0.0, 2.5, 40),
                                         ("gates almost closed", -1.0, 5.0, 20)):
            # Keys along the queries' own direction, reversed, close the gates.
            keys = k if shift == 0.0 else (k.detach() - 6.0).requires_grad_()
            queries = q if shift == 0.0 else (q.detach() * 0.1 + 1.0).requires_grad_()
            leaves = [queries, keys, v, e]

            def call():
                return posenc.attention(queries, keys, v, "cope(npos_max=64)",
                                        {"cope.pos_emb": e}, causal=True)

            ours = both(call, leaves, grad_out)
            row(f"cope D{dim} {name}: with backward, over sdpa", f"{ours[1]:.3f} ms",
                f"sdpa {theirs[1]:.3f} ms", ours[1] / theirs[1], bar)
            row(f"cope D{dim} {name}: forward, over sdpa", f"{ours[0]:.3f} ms",
                f"sdpa {theirs[0]:.3f} ms", ours[0] / theirs[0])
            if not math.isnan(eager):
                row(f"cope D{dim} {name}: times faster than eager", f"{ours[1]:.3f} ms",
                    f"eager {eager:.1f} ms", eager / ours[1], faster, True)
            mine = peak_bytes(with_backward(call, leaves, grad_out))
            other = peak_bytes(with_backward(lambda: sdpa(queries, keys, v), leaves[:3], grad_out))
            row(f"cope D{dim} {name}: peak memory over sdpa's", f"{mine / 2**20:.0f} MiB",
                f"sdpa {other / 2**20:.0f} MiB", mine / other, 1.5)


def long_rows(args):
    q, k, v = rows(1, 16, 131072, 64)
    e = (0.1 * torch.randn(64, 64, device="cuda")).requires_grad_()
    grad_out = torch.randn_like(q)
    step = with_backward(
        lambda: posenc.attention(q, k, v, "cope(npos_max=64)", {"cope.pos_emb": e}, causal=True),
        [q, k, v, e], grad_out)
    peak = peak_bytes(step)
    time = milliseconds(step, 3, 1, 1)
    row("cope B1 H16 T131072 D64, with backward: peak GiB", f"{time:.0f} ms", "",
        peak / 2**30, 8.0, unit=" GiB")


def linear_rows(args):
    before = {}
    for log in range(13, 20):
        tokens = 2**log
        q, k, v = rows(1, 8, tokens, 64)
        grad_out = torch.randn_like(q)

        def call():
            return posenc.linear_attention(q, k, v, "rope", causal=True)

        now = both(call, [q, k, v], grad_out, 3)
        for index, name in enumerate(("forward", "with backward")):
            ratio = now[index] / before[name] if name in before else None
            row(f"linear attention {name} T {tokens}: over half of it", f"{now[index]:.3f} ms", "",
                ratio, 2.1 if ratio else None)
            before[name] = now[index]
        del q, k, v, grad_out
        torch.cuda.empty_cache()


def decode_rows(args):
    batch, heads, kv_heads, keys, dim = 8, 32, 8, 32768, 128
    q = torch.randn(batch, heads, 1, dim, device="cuda", dtype=torch.bfloat16)
    k, v = rows(batch, kv_heads, keys, dim, 2, grad=False)
    size = 2 * k.numel() * 2
    with torch.no_grad():
        to = torch.empty_like(k)
        copied = milliseconds(lambda: to.copy_(k))
        limit = copied * size / (2 * k.numel() * 2)  # the copy moves as many bytes as decoding reads
        theirs = milliseconds(lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
        plain = math.nan
        for spec in ("none", "rope", "alibi", "t5", "cope"):
            params = params_of(spec, heads, dim)
            ours = milliseconds(lambda: posenc.attention_decode(
                q, k, v, spec, params, keys_are_turned=True))
            plain = ours if spec == "none" else plain
            row(f"decode {spec} B8 H32/8 T32768 D128, over sdpa", f"{ours:.3f} ms",
                f"sdpa {theirs:.3f} ms", ours / theirs)
            print(f"{'':4}{size / ours / 1e9:.2f} TB/s read, {limit / ours:.2f} of the copy rate, "
                  f"{ours / plain:.2f} of none")


def paged_rows(args):
    """Pages of 16 to 128 tokens in vLLM's order, over a contiguous cache in the same order."""
    batch, heads, kv_heads, keys, dim = 8, 32, 8, 32768, 128
    q = torch.randn(batch, heads, 1, dim, device="cuda", dtype=torch.bfloat16)
    k, v = rows(batch, keys, kv_heads, dim, 2, grad=False)
    lengths = torch.full((batch,), keys, device="cuda")
    with torch.no_grad():
        for spec in ("none", "rope", "alibi", "cope"):
            params = params_of(spec, heads, dim)
            plain = milliseconds(lambda: posenc.attention_decode(
                q, k.transpose(1, 2), v.transpose(1, 2), spec, params, keys_are_turned=True))
            for page in (16, 128):
                blocks = batch * keys // page
                table = torch.randperm(blocks, device="cuda").to(torch.int32).reshape(batch, -1)
                pools = [x.reshape(blocks, page, kv_heads, dim) for x in (k, v)]
                ours = milliseconds(lambda: posenc.attention_decode(
                    q, *pools, spec, params, keys_are_turned=True, block_table=table,
                    cache_lengths=lengths))
                row(f"decode {spec} pages of {page} B8 H32/8 T32768 D128, over contiguous",
                    f"{ours:.3f} ms", f"{plain:.3f} ms", ours / plain, 1.05)


GROUPS = {"rope": rope_rows, "attention": attention_rows, "bias": bias_rows, "cope": cope_rows,
          "long": long_rows, "linear": linear_rows, "decode": decode_rows, "paged": paged_rows, "flex": flex_rows,
          "float32": float32_rows, "fire": fire_rows, "tokens": token_rows, "gates": gate_rows,
          "angles": angle_rows, "softcap": softcap_rows, "prune": prune_rows,
          "sticks": stick_rows, "relative": relative_rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(GROUPS))
    parser.add_argument("--quick", action="store_true",
                        help="no eager CoPE or FIRE, fewer rows with FlexAttention and with 128 channels")
    parser.add_argument("--json", help="a file to write the rows to")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("SKIPPED: no CUDA device")
        return
    args.plain = {}
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    for name in args.only.split(","):
        guarded(name, lambda: GROUPS[name](args))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(ROWS, file, indent=1)


if __name__ == "__main__":
    main()
