"""RotaryEmbedding and Attention of ONNX, which are standard operators since opset 23, for :func:`posenc.export_onnx`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional

import torch
from torch import Tensor

from posenc.errors import Error, sizes

OPSET = 23  # the first one with both operators
_TYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class _Target:
    """What the export that runs writes for."""

    opset: int = 0
    lengths_may_differ: bool = True  # of queries and keys, when the model runs


_target = _Target()


@contextmanager
def target(options: Mapping[str, Any]) -> Iterator[None]:
    """Notes the options of torch.onnx.export for what is traced inside."""
    global _target
    before, _target = _target, _Target(_checked_opset(options), _lengths_may_differ(options))
    try:
        yield
    finally:
        _target = before


def _checked_opset(options: Mapping[str, Any]) -> int:
    opset = options.get("opset_version") or 0
    newest = getattr(getattr(torch.onnx, "_constants", None), "ONNX_MAX_OPSET", opset)
    if opset > newest and newest < OPSET:
        raise Error(
            f"[export_onnx] opset_version must be at most {newest} with PyTorch {torch.__version__} but got {opset}; use "
            f"opset_version={newest}, or a PyTorch that writes opset {OPSET} (2.14 does)",
            kind="unsupported",
        )
    if opset > newest:
        raise Error(
            f"[export_onnx] opset_version must be at most {newest} with PyTorch {torch.__version__} but got {opset}; use "
            f"opset_version={newest}, and convert the model with onnx.version_converter.convert_version(model, {opset})",
            kind="unsupported",
        )
    return opset


def _lengths_may_differ(options: Mapping[str, Any]) -> bool:
    """Whether inputs have different dynamic axes. Their names tell: an axis in a list gets a name of its own."""
    axes = options.get("dynamic_axes") or {}
    if not axes:
        return False

    def names(of: str) -> frozenset[Any]:
        dynamic = axes.get(of, {})
        return frozenset(dynamic.values() if isinstance(dynamic, Mapping) else ((of, axis) for axis in dynamic))

    return len({names(of) for of in options.get("input_names") or axes}) > 1


class _RotaryEmbedding(torch.autograd.Function):
    """The rotation of the first channels of x. The exporter reads only the shape of what forward returns."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor, ids: Tensor, options: Mapping[str, int]) -> Tensor:
        return x.clone()

    @staticmethod
    def symbolic(g: Any, x: Any, cos: Any, sin: Any, ids: Any, options: Mapping[str, int]) -> Any:
        return g.op("RotaryEmbedding", x, cos, sin, ids, **options)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], options: Mapping[str, Any]) -> Tensor:
        return (q[..., :1] * v.shape[3]).expand(-1, -1, -1, v.shape[3]).clone()

    @staticmethod
    def symbolic(g: Any, q: Any, k: Any, v: Any, mask: Any, options: Mapping[str, Any]) -> Any:
        return g.op("Attention", *((q, k, v) if mask is None else (q, k, v, mask)), **options)


def available(x: Tensor) -> bool:
    return _target.opset >= OPSET and x.dtype in _TYPES


def rotated(x: Tensor, cos: Tensor, sin: Tensor, places: Tensor, fields: Mapping[str, Any]) -> Tensor:
    """x [B, H, T, D] at the places [T], by one table for all heads: cos and sin are [H, length, pairs]. A window of
    channels inside of x is cut out and put back."""
    (_, heads, _, dim), width, first = sizes(x), 2 * sizes(cos)[-1], int(fields.get("dim_offset", 0))
    options: dict[str, int] = {"interleaved_i": int(fields.get("layout", "half") == "interleaved")}
    ids = places.unsqueeze(0).expand(x.shape[0], -1)
    if first == 0 and dim % 2 == 0:
        if width < dim:  # ONNX Runtime 1.23 reads num_heads of a partial rotation also with four dimensions
            options = {**options, "rotary_embedding_dim_i": width, "num_heads_i": heads}
        return _RotaryEmbedding.apply(x, cos[0], sin[0], ids, options)
    window = _RotaryEmbedding.apply(x[..., first : first + width], cos[0], sin[0], ids, options)
    return torch.cat([x[..., :first], window, x[..., first + width :]], -1)


def attends(scale: float, cap: Optional[float], masked: bool) -> bool:
    """Whether Attention fits. It takes the root of the scale, and caps scores after masks, which would show hidden keys."""
    return scale > 0 and not (cap is not None and masked)


def attended(q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], hidden: Optional[Tensor], scale: float,
             cap: Optional[float], masks: Mapping[str, Any]) -> Tensor:
    """bias is [1, H, Tq, Tk], hidden [Tq, Tk] or [B, 1, Tq, Tk]."""
    options: dict[str, Any] = {"scale_f": scale, **({} if cap is None else {"softcap_f": cap})}
    others = masks["window_left"] >= 0 or masks["window_right"] >= 0 or masks["key_mask"] is not None
    equal = sizes(q)[2] == sizes(k)[2] and not _target.lengths_may_differ
    if masks["causal"] and equal and bias is None and not others:
        return _Attention.apply(q, k, v, None, {**options, "is_causal_i": 1})
    mask = bias
    if hidden is not None:
        added = torch.zeros_like(hidden, dtype=q.dtype) if bias is None else bias
        # A finite number, because a row of infinities would be NaN.
        mask = added.masked_fill(hidden, torch.finfo(q.dtype).min)
        while mask.dim() < 4:
            mask = mask.unsqueeze(0)
        mask = mask.expand(-1, -1, q.shape[2], -1)  # ONNX Runtime 1.23 reads a row for each query
    if bias is not None:  # ONNX Runtime 1.23 reads no mask by head where heads are grouped
        k, v = (repeated(x, sizes(q)[1]) for x in (k, v))
    out = _Attention.apply(q, k, v, mask, options)
    if masks["key_mask"] is None or hidden is None:
        return out
    return out.masked_fill(hidden.all(-1, keepdim=True), 0.0)


def repeated(x: Tensor, heads: int) -> Tensor:
    """Keys or values [B, Hkv, T, D], once for each of the heads that share them."""
    groups = heads // sizes(x)[1]
    return x if groups == 1 else x.unsqueeze(2).expand(-1, -1, groups, -1, -1).flatten(1, 2)
