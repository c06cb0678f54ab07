"""posenc for JAX: ``attention`` and ``rope`` under jit, grad and vmap, on CPUs and, in builds with CUDA, on GPUs.

>>> import jax, posenc.jax
>>> q = k = v = jax.random.normal(jax.random.key(0), (1, 8, 128, 64))
>>> out = posenc.jax.attention(q, k, v, "rope + alibi", causal=True)

The functions and their arguments are those of :mod:`posenc.functional`, with arrays for tensors. The kernels are called
through XLA's foreign function interface; ``libposenc_jax.so`` has them in builds with ``-DPOSENC_JAX=ON``.
"""

from __future__ import annotations

import ctypes
import json
import os
import warnings
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["attention", "initial_parameters", "rope"]

_HANDLERS = ("attention", "attention_backward", "rope", "rope_frequencies")
_PLATFORMS = {"cpu": "cpu", "cuda": "CUDA"}


def _load() -> ctypes.CDLL:
    """The library, with its handlers known to XLA."""
    path = Path(os.environ.get("POSENC_JAX_LIBRARY") or Path(__file__).parent / "_lib" / "libposenc_jax.so")
    if not path.is_file():
        raise ImportError(f"posenc's library for JAX is not at {path}; build posenc with -DPOSENC_JAX=ON, or set "
                          "POSENC_JAX_LIBRARY")
    library = ctypes.CDLL(str(path))
    library.posenc_jax_describe.restype = ctypes.c_char_p
    library.posenc_jax_initial_parameters.restype = ctypes.c_char_p
    library.posenc_jax_explain.restype = ctypes.c_char_p
    for suffix, platform in _PLATFORMS.items():
        for name in _HANDLERS:
            handler = getattr(library, f"posenc_jax_{name}_{suffix}", None)
            if handler is not None:  # there are none for CUDA in a build without it
                jax.ffi.register_ffi_target(f"posenc_{name}", jax.ffi.pycapsule(handler), platform=platform)
    return library


_library = _load()


def _answer(text: bytes) -> Any:
    found = json.loads(text)
    if "error" in found:
        raise ValueError(found["error"])
    return found


@lru_cache(maxsize=256)
def _describe(spec: str, head_dim: int, heads: int) -> Mapping[str, Any]:
    return _answer(_library.posenc_jax_describe(
        spec.encode(), ctypes.c_int64(head_dim), ctypes.c_int64(heads)))


@lru_cache(maxsize=1024)
def _warn_if_slow(spec: str, q: tuple[int, ...], k: tuple[int, ...], value_dim: int, explicit_positions: bool) -> None:
    """Once for a spec and shapes, where the kernels of CPUs have no fused path."""
    sizes = (ctypes.c_int64 * 7)(q[0], q[1], k[1], q[2], k[2], q[3], value_dim)
    found = _answer(_library.posenc_jax_explain(spec.encode(), sizes, ctypes.c_bool(explicit_positions)))
    if found["slow"]:
        warnings.warn(f"[posenc] attention with '{spec}' is not fused: {found['path']}", stacklevel=3)


def initial_parameters(spec: Any, head_dim: int, heads: int, seed: int = 0) -> dict[str, jax.Array]:
    """The parameters of a spec at the start of training, by name: float32 arrays.

    Constants, such as ALiBi's fixed slopes, are left out: they need not be passed.
    """
    text = str(spec)
    values = _answer(_library.posenc_jax_initial_parameters(
        text.encode(), ctypes.c_int64(head_dim), ctypes.c_int64(heads), ctypes.c_uint64(seed)))["values"]
    wanted = _describe(text, head_dim, heads)["parameters"]
    return {p["name"]: jnp.asarray(x, jnp.float32).reshape(p["shape"])
            for p, x in zip(wanted, values) if p["trainable"]}


def _named(what: str, given: Mapping[str, Any], wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in given]
    unknown = sorted(set(given) - set(wanted))
    if missing or unknown:
        problem = f"lacks {missing[0]!r}" if missing else f"has unknown {unknown}"
        raise ValueError(f"[attention] {what} {problem}; the spec's are: {', '.join(wanted) or 'none'}")


def _parameters(spec: str, q: jax.Array, params: Optional[Mapping[str, Any]]) -> tuple[jax.Array, ...]:
    """In the order of the spec; its constants where the caller gives one of them."""
    given = dict(params or {})
    listed = _describe(spec, q.shape[3], q.shape[1])["parameters"]
    if not any(p["name"] in given for p in listed if not p["trainable"]):
        listed = [p for p in listed if p["trainable"]]
    _named("params", given, [p["name"] for p in listed])
    return tuple(jnp.asarray(given[p["name"]], jnp.float32).reshape(p["shape"]) for p in listed)


def _inputs(spec: str, q: jax.Array, inputs: Optional[Mapping[str, Any]]) -> tuple[jax.Array, ...]:
    """In the order of the spec; one of a single channel may be [B, H, Tk]."""
    given = dict(inputs or {})
    listed = _describe(spec, q.shape[3], q.shape[1])["inputs"]
    _named("inputs", given, [i["name"] for i in listed])
    arrays = []
    for info in listed:
        x = jnp.asarray(given[info["name"]], jnp.float32 if info["float32"] else q.dtype)
        arrays.append(x[..., None] if info["channels"] == 1 and x.ndim == 3 else x)
    return tuple(arrays)


def _positions(x: Any, like: jax.Array) -> Optional[jax.Array]:
    """[B, T, coordinates], from [T], [B, T] or that."""
    if x is None:
        return None
    x = jnp.asarray(x)
    x = x[None] if x.ndim == 1 else x
    x = x[..., None] if x.ndim == 2 else x
    return jnp.broadcast_to(x, (like.shape[0], like.shape[2], x.shape[2]))


def _require_rows(function: str, **arrays: Any) -> None:
    for name, x in arrays.items():
        if x.ndim != 4:
            raise ValueError(f"[{function}] {name} must be [batch, heads, tokens, channels] but has {x.ndim} dimensions")


def _like(arrays: Sequence[jax.Array]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]


class _Options(NamedTuple):
    """What a compiled program has as constants."""

    spec: str
    causal: bool
    window_left: int
    window_right: int
    scale: float  # 0: 1 / sqrt(D)
    dropout: float
    keys_are_turned: bool
    given: int  # which of the optional arrays there are, as src/bindings/jax/arguments.h numbers them


def _call_attention(name: str, results: Sequence[Any], options: _Options, first: tuple, params: tuple,
                    inputs: tuple, optional: tuple) -> Sequence[jax.Array]:
    # The kernels take further dimensions as batches, which parameters, lengths and the seed do not have.
    folds = not params and not options.given & (2 | 4 | 32)
    call = jax.ffi.ffi_call(f"posenc_{name}", results, vmap_method="broadcast_all" if folds else "sequential")
    return call(*first, *params, *inputs, *optional, spec=options.spec, causal=np.int64(options.causal),
                window_left=np.int64(options.window_left), window_right=np.int64(options.window_right),
                scale=np.float64(options.scale), dropout=np.float64(options.dropout),
                keys_are_turned=np.int64(options.keys_are_turned), parameters=np.int64(len(params)),
                given=np.int64(options.given))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(options: _Options, q, k, v, params, inputs, optional):
    out = jax.ShapeDtypeStruct((*q.shape[:3], v.shape[3]), q.dtype)
    lse = jax.ShapeDtypeStruct(q.shape[:3], jnp.float32)
    out, lse = _call_attention("attention", [out, lse], options, (q, k, v), params, inputs, optional)
    return out, lse


def _attention_forward(options, q, k, v, params, inputs, optional):
    out, lse = _attention(options, q, k, v, params, inputs, optional)
    return (out, lse), (q, k, v, params, inputs, optional, out, lse)


def _attention_backward(options, kept, gradients):
    q, k, v, params, inputs, optional, out, lse = kept
    results = _like([q, k, v, *params, *inputs])
    found = _call_attention("attention_backward", results, options, (gradients[0], out, lse, q, k, v), params,
                            inputs, optional)
    dq, dk, dv, *others = found
    return dq, dk, dv, tuple(others[: len(params)]), tuple(others[len(params):]), (None,) * len(optional)


_attention.defvjp(_attention_forward, _attention_backward)


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    spec: Any = "none",
    params: Optional[Mapping[str, Any]] = None,
    *,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    key_mask: Any = None,
    cu_queries: Any = None,
    cu_keys: Any = None,
    q_positions: Any = None,
    k_positions: Any = None,
    inputs: Optional[Mapping[str, Any]] = None,
    scale: Optional[float] = None,
    dropout: float = 0.0,
    seed: Any = 0,
    keys_are_turned: bool = False,
    return_lse: bool = False,
) -> Any:
    """Softmax attention with any spec: softmax(mask(scale <R(i) q_i, R(j) k_j> + biases)) v.

    Differentiable in q, k, v, ``params`` and ``inputs``, once.

    Args:
        q: queries [B, H, Tq, D] in float32, bfloat16 or float16.
        k: keys [B, Hkv, Tk, D], where Hkv divides H (grouped heads).
        v: values [B, Hkv, Tk, Dv]; on a GPU Dv must be D.
        spec: encodings of sites 2 to 5, as text (``"rope + alibi"``) or :class:`posenc.Spec`.
        params: the spec's parameters by name, as :func:`initial_parameters` gives them. Constants may be left out, all of
            them.
        causal: no query sees a later key. With fewer queries than keys the last query is aligned with the last key.
        window_left: keys that a query sees before its own position; -1 is no bound.
        window_right: keys that it sees after its own position; -1 is no bound.
        key_mask: [B, Tk], true where a key is seen.
        cu_queries: cumulative lengths of packed sequences, from 0 to Tq.
        cu_keys: the same for keys, from 0 to Tk.
        q_positions: positions of the queries, [Tq], [B, Tq] or [B, Tq, axes].
        k_positions: positions of the keys.
        inputs: what the spec reads besides q, k and v, by name.
        scale: factor of the scores, 1 / sqrt(D) by default; a number other than 0, not an array.
        dropout: share of the weights that is dropped, in [0, 1).
        seed: of the dropout, a number of 32 bits or an array of one.
        keys_are_turned: k was rotated before, by :func:`rope`.
        return_lse: also return ln SUM exp(scores), without gradient.

    Returns:
        The output [B, H, Tq, Dv]; with ``return_lse`` also the log-sum-exp [B, H, Tq].
    """
    q, k, v = jnp.asarray(q), jnp.asarray(k), jnp.asarray(v)
    _require_rows("attention", q=q, k=k, v=v)
    if scale == 0:
        raise ValueError("[attention] scale must not be 0; leave it out for 1 / sqrt(D)")
    optional = (
        None if key_mask is None else jnp.asarray(key_mask).astype(bool),
        None if cu_queries is None else jnp.asarray(cu_queries),
        None if cu_keys is None else jnp.asarray(cu_keys),
        _positions(q_positions, q),
        _positions(k_positions, k),
        None if dropout == 0.0 else jnp.asarray(seed, jnp.uint32),
    )
    given = sum(1 << n for n, x in enumerate(optional) if x is not None)
    if jax.default_backend() == "cpu":
        explicit = q_positions is not None or k_positions is not None
        _warn_if_slow(str(spec), q.shape, k.shape, v.shape[3], explicit)
    options = _Options(str(spec), bool(causal), int(window_left), int(window_right), float(scale or 0.0), float(dropout),
                       bool(keys_are_turned), given)
    arrays = tuple(x for x in optional if x is not None)
    out, lse = _attention(options, q, k, v, _parameters(options.spec, q, params), _inputs(options.spec, q, inputs), arrays)
    return (out, jax.lax.stop_gradient(lse)) if return_lse else out


class _Rotation(NamedTuple):
    spec: str
    transposed: bool
    has_positions: bool


def _call_rope(name: str, results: Sequence[Any], options: _Rotation, first: tuple, params: tuple,
               positions: tuple) -> Sequence[jax.Array]:
    call = jax.ffi.ffi_call(f"posenc_{name}", results, vmap_method="sequential" if params else "broadcast_all")
    return call(*first, *params, *positions, spec=options.spec, parameters=np.int64(len(params)),
                has_positions=np.int64(options.has_positions), transposed=np.int64(options.transposed))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _rope(options: _Rotation, q, k, params, positions):
    turned_q, turned_k = _call_rope("rope", _like([q, k]), options, (q, k), params, positions)
    return turned_q, turned_k


def _rope_forward(options, q, k, params, positions):
    return _rope(options, q, k, params, positions), (q, k, params, positions)


def _rope_backward(options, kept, gradients):
    q, k, params, positions = kept
    back = options._replace(transposed=not options.transposed)
    dq, dk = _rope(back, *gradients, params, positions)
    none = (None,) * len(positions)
    if not params:
        return dq, dk, (), none
    if options.transposed:
        raise ValueError("[rope] trained frequencies have no gradient through transposed=True")
    dparams = _call_rope("rope_frequencies", _like(params), options, (*gradients, q, k), params, positions)
    return dq, dk, tuple(dparams), none


_rope.defvjp(_rope_forward, _rope_backward)


def rope(
    q: jax.Array,
    k: jax.Array,
    spec: Any = "rope",
    params: Optional[Mapping[str, Any]] = None,
    *,
    positions: Any = None,
    transposed: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Rotates queries and keys in one pass. Differentiable in q, k and, for ``rope(schedule=learnable)``, ``params``.

    Args:
        q: queries [B, H, T, D].
        k: keys [B, Hkv, T, D].
        spec: one ``rope`` or ``xpos`` with angles from positions.
        params: of ``rope(schedule=learnable)``, by name.
        positions: [T], [B, T] or [B, T, axes]; by default 0, 1, 2, ...
        transposed: apply the transposed rotation, which undoes it where it has no magnitude.

    Returns:
        The rotated queries and keys.
    """
    q, k = jnp.asarray(q), jnp.asarray(k)
    _require_rows("rope", q=q, k=k)
    given = _positions(positions, q)
    options = _Rotation(str(spec), bool(transposed), given is not None)
    return _rope(options, q, k, _parameters(options.spec, q, params), () if given is None else (given,))
