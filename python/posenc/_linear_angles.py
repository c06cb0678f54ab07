"""Linear attention with rotations by an input: chunks of PyTorch's operations, memory linear in the length."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import torch
from torch import Tensor

from posenc.errors import Error, is_compiling
from posenc.spec import Spec

_CHUNK = 128
_KNOWN = {"angles", "running", "layout", "rotary_dim", "dim_offset", "inverse", "theta"}


def rotates_by_input(spec: Spec) -> bool:
    """Whether an encoding is a rope whose angles are an input.

    >>> rotates_by_input(Spec("rope(angles=input)")), rotates_by_input(Spec("rope"))
    (True, False)
    """
    return any(fields.get("angles", "position") != "position" for fields in _ropes(spec))


def _ropes(spec: Spec) -> list[Mapping[str, Any]]:
    entries = spec.json if isinstance(spec.json, list) else [spec.json]
    named = [entry if isinstance(entry, dict) else {entry: {}} for entry in entries]
    return [fields for entry in named for name, fields in entry.items() if name == "rope"]


def _rope_of(spec: Spec) -> Mapping[str, Any]:
    if len(spec.encodings) != 1:
        raise Error(
            f"[linear_attention] a rope with angles from an input must be alone in a spec, but it is {spec.text}"
        )
    (fields,) = _ropes(spec)
    unknown = sorted(fields.keys() - _KNOWN)
    if unknown:
        raise Error(f"[linear_attention] rope.{unknown[0]} is not for angles from an input in linear attention")
    return fields


def _angles(spec: Spec, fields: Mapping[str, Any], given: Tensor, key_mask: Optional[Tensor], dim: int) -> Tensor:
    """Of all keys of one sequence, float64 [B, Hkv, T, pairs]."""
    x = given.double()
    if fields.get("running", False):
        if key_mask is not None:
            x = x * key_mask.ne(0)[:, None, :, None]
        x = x.cumsum(2)
    if fields["angles"] == "input_position":
        plain = {name: value for name, value in fields.items() if name not in ("angles", "running", "inverse")}
        cos, sin = torch.ops.posenc.rope_tables(Spec([{"rope": plain}]).text, dim, x.shape[1], 2)
        frequencies = torch.atan2(sin, cos)[:, 1]  # at position 1: [groups, pairs]
        frequencies = frequencies.repeat_interleave(x.shape[1] // frequencies.shape[0], 0)
        x = x * frequencies.to(x.device).unsqueeze(1)
    return -x if fields.get("inverse", False) else x


def _rotated(x: Tensor, angles: Tensor, fields: Mapping[str, Any]) -> Tensor:
    return rotated_pairs(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype), fields)


def rotated_pairs(x: Tensor, cos: Tensor, sin: Tensor, fields: Mapping[str, Any]) -> Tensor:
    """x [..., D] with the channels that the fields of a rope name rotated; cos and sin are [..., pairs]."""
    pairs, first = cos.shape[-1], fields.get("dim_offset", 0)
    window = x[..., first : first + 2 * pairs]
    if fields.get("layout", "half") == "interleaved":
        a, b = window[..., 0::2], window[..., 1::2]
        middle = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
    else:
        a, b = window[..., :pairs], window[..., pairs:]
        middle = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
    return torch.cat([x[..., :first], middle, x[..., first + 2 * pairs :]], -1)


def _features(x: Tensor, form: str, epsilon: float) -> Tensor:
    if form == "elu":
        return torch.nn.functional.elu(x) + 1
    return torch.relu(x) + epsilon


def _walk(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """SUM_j <q_i, k_j> v_j over the keys up to i, or over all."""
    if not causal:
        return q @ (k.transpose(-1, -2) @ v)
    tokens = q.shape[2]
    missing = -tokens % _CHUNK
    q, k, v = (torch.nn.functional.pad(x, (0, 0, 0, missing)).unflatten(2, (-1, _CHUNK)) for x in (q, k, v))
    sums = (k.transpose(-1, -2) @ v).cumsum(2)
    before = torch.cat([torch.zeros_like(sums[:, :, :1]), sums[:, :, :-1]], 2)
    inside = (q @ k.transpose(-1, -2)).tril()
    return (inside @ v + q @ before).flatten(2, 3)[:, :, :tokens]


def _sequence(rows: tuple[Tensor, Tensor, Tensor], angles: Tensor, fields, options: Mapping[str, Any]) -> Tensor:
    """One sequence. Queries stand at the last keys."""
    q, k, v = rows
    queries, keys = q.shape[2], k.shape[2]
    if queries > keys:
        raise Error(f"[linear_attention] {queries} queries have angles from {keys} keys; give as many keys")
    group = q.shape[1] // k.shape[1]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    q = torch.nn.functional.pad(q.to(wide), (0, 0, keys - queries, 0))
    k, v, angles = (x.repeat_interleave(group, 1) for x in (k.to(wide), v.to(wide), angles))
    seen = options["key_mask"]
    if seen is not None:
        seen = seen.ne(0)[:, None, :, None]
        k, v = (torch.where(seen, x, torch.zeros((), dtype=wide, device=x.device)) for x in (k, v))
    causal, form = options["causal"], options["form"]
    if form == "cosine":
        one = torch.ones_like(q[..., :1])
        q, k = (torch.nn.functional.normalize(_rotated(x, angles, fields), dim=-1) for x in (q, k))
        q, k = torch.cat([q, one], -1), torch.cat([k, one if seen is None else one * seen], -1)
        top, bottom = _walk(q, k, v, causal), _walk(q, k, one, causal)
    else:
        q, k = _features(q, form, options["epsilon"]), _features(k, form, options["epsilon"])
        k = k if seen is None else k * seen
        top = _walk(_rotated(q, angles, fields), _rotated(k, angles, fields), v, causal)
        bottom = _walk(q, k, torch.ones_like(v[..., :1]), causal)
    out = torch.where(bottom == 0, torch.zeros_like(top), top / torch.where(bottom == 0, 1, bottom))
    return out[:, :, keys - queries :]


def _check(q: Tensor, k: Tensor, v: Tensor, options: Mapping[str, Any]) -> None:
    """Refuses what the operator refuses: it is called on one channel, in float32, because float64 is quadratic."""
    for name, x in (("k", k), ("v", v)):
        if x.dim() == 4 and x.shape[3] != q.shape[3]:
            raise Error(
                f"[linear_attention] {name} must have {q.shape[3]} channels as q has but got {x.shape[3]}", kind="wrong_length"
            )
    if is_compiling() or torch.jit.is_tracing():
        return
    rows = [x[..., :1] for x in (q, k, v)]
    if all(x.dtype == torch.float64 for x in rows):
        rows = [x.float() for x in rows]
    with torch.no_grad():
        torch.ops.posenc.linear_attention(*rows, "none", [], **options)


def linear_attention_by_angles(
    q: Tensor, k: Tensor, v: Tensor, spec: Spec, inputs: Sequence[Tensor], options: Mapping[str, Any]
) -> Tensor:
    """As ``linear_attention``, for one ``rope(angles=input)``; gradients by autograd."""
    fields = _rope_of(spec)
    (declared,), (given,) = spec.inputs(q.shape[3], q.shape[1]), inputs
    _check(q, k, v, options)
    wanted = (k.shape[0], k.shape[1], k.shape[2], declared.channels)
    if tuple(given.shape) != wanted:
        raise Error(f"[linear_attention] {declared.name} must be {list(wanted)} but is {list(given.shape)}")
    of_queries, of_keys = options["cu_queries"], options["cu_keys"]
    cu_q = [0, q.shape[2]] if of_queries is None and of_keys is None else (
        of_queries if of_queries is not None else of_keys).tolist()
    cu_k = [0, k.shape[2]] if of_queries is None and of_keys is None else (
        of_keys if of_keys is not None else of_queries).tolist()
    parts = []
    for (a, b), (c, d) in zip(zip(cu_q, cu_q[1:]), zip(cu_k, cu_k[1:])):
        if a == b:
            continue
        mask = None if options["key_mask"] is None else options["key_mask"][:, c:d]
        angles = _angles(spec, fields, given[:, :, c:d], mask, q.shape[3])
        rows = (q[:, :, a:b], k[:, :, c:d], v[:, :, c:d])
        parts.append(_sequence(rows, angles, fields, {**options, "key_mask": mask}))
    return torch.cat(parts, 2).to(q.dtype) if parts else torch.zeros_like(q)
