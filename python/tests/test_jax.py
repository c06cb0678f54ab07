"""posenc.jax against compositions of jax.numpy: values, gradients, jit, vmap and types, on every device that JAX has."""

import os
from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="SKIPPED: jax is not installed")
import jax.numpy as jnp  # noqa: E402

try:
    import posenc.jax
except ImportError as missing:
    if "POSENC_REQUIRE_JAX" in os.environ:  # where a missing library is a failure
        raise
    pytest.skip(f"SKIPPED: {missing}", allow_module_level=True)


def devices():
    found = [jax.devices("cpu")[0]]
    if hasattr(posenc.jax._library, "posenc_jax_attention_cuda"):
        found += [d for d in jax.devices() if d.platform == "gpu"][:1]
    return found


@pytest.fixture(params=devices(), ids=lambda d: d.platform)
def device(request):
    with jax.default_device(request.param):
        yield request.param


B, H, KV, T, D = 2, 4, 2, 33, 16


def rows(seed=0, dtype=jnp.float32, tokens=T):
    keys = jax.random.split(jax.random.key(seed), 4)
    shapes = ((B, H, tokens, D), (B, KV, tokens, D), (B, KV, tokens, D), (B, H, tokens, D))
    return tuple(jax.random.normal(key, shape, dtype) for key, shape in zip(keys, shapes))


def rotated(x, positions):
    """Pairs of channels {p, p + D / 2}, as rope's default has them."""
    inv_freq = 10000.0 ** (-np.arange(0, D, 2) / D)
    angle = positions[..., None] * inv_freq
    cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    a, b = x[..., : D // 2], x[..., D // 2:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def composed(q, k, v, slopes=None, log_f=None, positions=None, window_left=-1, key_mask=None):
    """Causal attention with rope, and with the terms that are given."""
    tokens = q.shape[2]
    positions = jnp.broadcast_to(jnp.arange(tokens), (B, tokens)) if positions is None else positions
    q, k = rotated(q, positions), rotated(k, positions)
    k, v = (jnp.repeat(x, H // KV, axis=1) for x in (k, v))
    scores = jnp.einsum("bhid,bhjd->bhij", q, k, precision="highest") / np.sqrt(D)
    i, j = np.arange(tokens)[:, None], np.arange(tokens)[None]
    if slopes is not None:
        scores = scores - slopes[:, None, None] * (i - j)
    if log_f is not None:
        sums = jnp.cumsum(log_f, -1)
        scores = scores + sums[..., :, None] - sums[..., None, :]
    seen = (j <= i) & ((i - j <= window_left) | (window_left < 0))
    seen = seen[None, None] if key_mask is None else seen[None, None] & key_mask[:, None, None]
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), -1)
    return jnp.einsum("bhij,bhjd->bhid", weights, v, precision="highest")


def close(got, want, tolerance=1e-4):
    want = np.asarray(want, np.float64)
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=0, atol=tolerance * max(1.0, np.abs(want).max()))


def test_values_are_those_of_the_composition(device):
    q, k, v, _ = rows()
    mask = jnp.asarray(np.random.default_rng(0).random((B, T)) < 0.7).at[:, 0].set(True)
    positions = jnp.asarray(np.random.default_rng(1).integers(0, 500, (B, T)))
    attend = partial(posenc.jax.attention, q, k, v, "rope", causal=True)
    close(attend(), composed(q, k, v))
    close(attend(window_left=5), composed(q, k, v, window_left=5))
    close(attend(key_mask=mask), composed(q, k, v, key_mask=mask))
    close(attend(q_positions=positions, k_positions=positions), composed(q, k, v, positions=positions))
    out, lse = attend(return_lse=True)
    assert out.shape == q.shape and lse.shape == (B, H, T) and lse.dtype == jnp.float32


def test_gradients_are_those_of_the_composition(device):
    q, k, v, weights = rows()
    slopes = jnp.asarray([0.5, 0.25, 0.125, 0.0625])
    log_f = jax.nn.log_sigmoid(jax.random.normal(jax.random.key(5), (B, H, T)))

    def ours(q, k, v, slopes, log_f):
        out = posenc.jax.attention(q, k, v, "rope + alibi(trainable=true) + fox", {"alibi.slopes": slopes}, causal=True,
                                   inputs={"fox.log_f": log_f})
        return (out * weights).sum()

    def theirs(*arguments):
        return (composed(*arguments) * weights).sum()

    arguments = (q, k, v, slopes, log_f)
    got = jax.jit(jax.grad(ours, argnums=tuple(range(5))))(*arguments)
    for one, other in zip(got, jax.grad(theirs, argnums=tuple(range(5)))(*arguments)):
        close(one, other, 1e-3)


@pytest.mark.parametrize("spec", ["cope(npos_max=8)", "rope + fire(width=8)", "t5", "rope(schedule=learnable)", "alibi + sink"])
def test_gradients_of_parameters_are_differences(device, spec):
    q, k, v, weights = rows()
    params = posenc.jax.initial_parameters(spec, D, H)
    params = {name: x + 0.1 * jax.random.normal(jax.random.key(3), x.shape) for name, x in params.items()}

    @jax.jit
    def loss(params):
        return (posenc.jax.attention(q, k, v, spec, params, causal=True) * weights).sum()

    direction = {name: jax.random.normal(jax.random.key(4), x.shape) for name, x in params.items()}
    moved = [jax.tree.map(lambda x, d, s=s: x + s * 1e-2 * d, params, direction) for s in (1, -1)]
    difference = (loss(moved[0]) - loss(moved[1])) / 2e-2
    gradient = sum(jax.tree.leaves(jax.tree.map(jnp.vdot, jax.grad(loss)(params), direction)))
    np.testing.assert_allclose(gradient, difference, rtol=0.05, atol=0.1)


def test_batches_of_vmap(device):
    q, k, v, _ = (jnp.stack(pair) for pair in zip(rows(0), rows(1)))
    slopes = jnp.asarray([0.5, 0.25, 0.125, 0.0625])

    def attend(q, k, v, spec="rope", params=None):
        return posenc.jax.attention(q, k, v, spec, params, causal=True)

    close(jax.vmap(attend)(q, k, v), jnp.stack([attend(*x) for x in zip(q, k, v)]))
    trained = partial(attend, spec="alibi(trainable=true)", params={"alibi.slopes": slopes})
    close(jax.vmap(trained)(q, k, v), jnp.stack([trained(*x) for x in zip(q, k, v)]))
    gradients = jax.vmap(jax.grad(lambda *x: attend(*x).sum()))(q, k, v)
    close(gradients[1], jax.grad(lambda *x: attend(*x).sum())(q[1], k[1], v[1]), 1e-3)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_halves(device, dtype):
    q, k, v, _ = rows(dtype=dtype)
    out = posenc.jax.attention(q, k, v, "rope", causal=True)
    assert out.dtype == dtype
    wide = tuple(x.astype(jnp.float32) for x in (q, k, v))
    close(out, composed(*wide), 0.02)
    gradient = jax.grad(lambda q: posenc.jax.attention(q, k, v, "rope", causal=True).astype(jnp.float32).sum())(q)
    assert gradient.dtype == dtype
    close(gradient, jax.grad(lambda q: composed(q, *wide[1:]).sum())(wide[0]), 0.05)


def test_packed_sequences_and_seeds(device):
    q, k, v, _ = (x[:1] for x in rows())
    packed = posenc.jax.attention(q, k, v, "rope", causal=True, cu_queries=jnp.asarray([0, 20, T]))
    alone = posenc.jax.attention(*(x[:, :, 20:] for x in (q, k, v)), "rope", causal=True)
    close(packed[:, :, 20:], alone)
    dropped = jax.jit(lambda seed: posenc.jax.attention(q, k, v, "rope", causal=True, dropout=0.5, seed=seed))
    assert np.array_equal(dropped(1), dropped(1)) and not np.array_equal(dropped(1), dropped(2))


def test_rope(device):
    q, k, _, _ = rows()
    positions = jnp.arange(T)[::-1]
    turned = posenc.jax.rope(q, k, positions=positions)
    close(turned[0], rotated(q, jnp.broadcast_to(positions, (B, T))))
    close(posenc.jax.rope(*turned, positions=positions, transposed=True)[1], k)
    gradient = jax.grad(lambda q: (posenc.jax.rope(q, k, positions=positions)[0] * turned[0]).sum())(q)
    close(gradient, q)

    def loss(alpha):
        return posenc.jax.rope(q, k, "rope(schedule=learnable)", {"rope.alpha": alpha})[0][..., 3].sum()

    (name, alpha), = posenc.jax.initial_parameters("rope(schedule=learnable)", D, H).items()
    assert name == "rope.alpha"
    step = jnp.zeros_like(alpha).at[3].set(1e-2)
    difference = (loss(alpha + step) - loss(alpha - step)) / 2e-2
    np.testing.assert_allclose(jax.grad(loss)(alpha)[3], difference, rtol=0.05, atol=0.1)


def test_mistakes_have_the_librarys_message(device):
    q, k, v, _ = rows()
    with pytest.raises(ValueError, match=r"\[rope\] theta must be in"):
        posenc.jax.attention(q, k, v, "rope(theta=-1)")
    with pytest.raises(ValueError, match=r"params lacks 't5.weight'"):
        posenc.jax.attention(q, k, v, "t5")
    with pytest.raises(ValueError, match=r"q must be \[batch, heads, tokens, channels\]"):
        posenc.jax.attention(q[0], k, v)
    with pytest.raises(Exception, match=r"\[attention\] "):  # of the handler, when the program runs
        jax.block_until_ready(posenc.jax.attention(q, k[:, :, :5], v, "rope"))


def test_values_of_another_width(device):
    q, k, v, weights = rows()
    narrow = v[..., :5]
    if device.platform != "cpu":
        with pytest.raises(Exception, match="values of another width"):
            jax.block_until_ready(posenc.jax.attention(q, k, narrow, "rope", causal=True))
        return

    def loss(attend, v):
        return (attend(v) * weights[..., :5]).sum()

    ours = partial(posenc.jax.attention, q, k, spec="rope", causal=True)
    close(ours(v=narrow), composed(q, k, narrow))
    close(jax.grad(lambda x: loss(lambda v: ours(v=v), x))(narrow), jax.grad(partial(loss, partial(composed, q, k)))(narrow))


def test_slow_calls_warn_once_for_a_shape():
    if jax.default_backend() != "cpu":
        pytest.skip("SKIPPED: calls on a GPU are fused or errors")
    q, k, v, _ = rows(tokens=7)
    params = posenc.jax.initial_parameters("cope(npos_max=4) + cope(npos_max=5)", D, H)
    with pytest.warns(UserWarning, match="is not fused: .*more than one cope"):
        posenc.jax.attention(q, k, v, "cope(npos_max=4) + cope(npos_max=5)", params, causal=True)
