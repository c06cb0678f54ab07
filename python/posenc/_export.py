"""Attention and rotation as standard ONNX operators, for :func:`export_onnx`.

Tables of rotations and biases are computed by the library for the exported length and stored in the graph, so an
exported model takes sequences up to that length. Opset 23 has operators for both; else they are composed of others.
"""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any, Mapping, Optional

import torch
from torch import Tensor

from posenc import _export_operators as operators
from posenc._linear_angles import rotated_pairs
from posenc.errors import Error, is_compiling, untraced
from posenc.spec import Spec

_PAIRS_AT_ONCE = 1 << 20  # of a table of biases by positions
_ROPE_FIELDS = {"theta", "layout", "rotary_dim", "dim_offset", "inverse", "schedule", "precision"}


def export_onnx(model: torch.nn.Module, args: tuple[Any, ...], file: Any, **options: Any) -> None:
    """``torch.onnx.export`` by tracing, which writes standard operators in place of posenc's.

    PyTorch 2.9 and newer export with ``torch.export`` by default, which keeps posenc's own operators. This passes
    ``dynamo=False`` where PyTorch has it. With ``opset_version=23`` rotation and attention are the operators
    RotaryEmbedding and Attention, where they compute exactly what posenc does, else operators of older opsets.

    Args:
        model: the module.
        args: what it is called with, with the longest sequence: tables are stored for its length.
        file: a path, or a file that is open for writing bytes.
        options: of ``torch.onnx.export``, such as ``opset_version`` and ``dynamic_axes``.

    >>> layer = posenc.nn.Attention(32, 4, "rope + alibi", causal=True).eval()
    >>> posenc.export_onnx(layer, (torch.randn(1, 16, 32),), "layer.onnx", opset_version=14)  # doctest: +SKIP
    """
    if options.get("dynamo"):
        raise Error("[export_onnx] dynamo=True is not supported; leave it out", kind="unsupported", key="dynamo")
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        options["dynamo"] = False
    else:
        options.pop("dynamo", None)
    with operators.target(options), warnings.catch_warnings():
        # Operators up to opset 20, which PyTorch's tracer writes, mean the same in opset 23.
        warnings.filterwarnings("ignore", "Exporting to ONNX opset version")
        torch.onnx.export(model, args, file, **options)


def exports_onnx() -> bool:
    return not is_compiling() and torch.onnx.is_in_onnx_export()


def refuse(**asked: Any) -> None:
    """An error for the first argument that is given."""
    for name, value in asked.items():
        if value is None or value is False or (not isinstance(value, Tensor) and value in (0, [])):
            continue
        raise Error(f"[onnx] {name} is not supported in ONNX export; leave it out of the exported call", kind="unsupported")


def refuse_operator(name: str) -> None:
    if exports_onnx():
        raise Error(
            f"[onnx] {name} is not supported in ONNX export; export attention with rope and biases by distance, or run "
            "the model in PyTorch",
            kind="unsupported",
        )


def _unsupported(text: str, why: str) -> Error:
    return Error(
        f"[onnx] spec must be made of one rope, biases without inputs and one softcap for ONNX export but got {text}: "
        f"{why}; use such a spec, or run the model in PyTorch",
        kind="unsupported",
    )


def _rope_fields(text: str) -> Optional[Mapping[str, Any]]:
    """Fields of the rope in a spec, or None without one."""
    spec = Spec(text)
    rotations = spec.part("query/key")
    if not rotations.encodings:
        return None
    if rotations.encodings != ["rope"]:
        raise _unsupported(text, f"it rotates by {' and '.join(rotations.encodings)}")
    if spec.follows_length:
        raise _unsupported(text, "its rotation follows the length, which spec.at_length(n) fixes")
    (entry,) = rotations.json
    fields = entry["rope"] if isinstance(entry, dict) else {}
    unknown = sorted(fields.keys() - _ROPE_FIELDS)
    if unknown or fields.get("schedule") in ("learnable", {"learnable": {}}):
        raise _unsupported(text, f"rope has {unknown[0] if unknown else 'a trained schedule'}")
    return fields


def _rotated(x: Tensor, text: str, fields: Mapping[str, Any], last: Any, transposed: bool = False) -> Tensor:
    """x [B, H, T, D] at the T positions that end before `last`."""
    with untraced():
        heads, length, dim = x.shape[1], int(last), x.shape[3]
        rope = Spec([{"rope": dict(fields)}] if fields else "rope").text
        cos, sin = torch.ops.posenc.rope_tables(rope, dim, heads, length)
        shared, groups = cos.shape[0] == 1, heads // cos.shape[0]
        cos, sin = (t.repeat_interleave(groups, 0).to(x) for t in (cos, -sin if transposed else sin))
    places = torch.arange(last, device=x.device)[last - x.shape[2] :]
    if shared and operators.available(x):
        return operators.rotated(x, cos, sin, places, fields)
    return rotated_pairs(x, cos[:, places], sin[:, places], fields)


def rope(q: Tensor, k: Tensor, text: str, transposed: bool) -> tuple[Tensor, Tensor]:
    fields = _rope_fields(text)
    if fields is None or len(Spec(text).encodings) != 1:
        raise _unsupported(text, "posenc.rope needs one rope")
    return (
        _rotated(q, text, fields, q.shape[2], transposed),
        _rotated(k, text, fields, k.shape[2], transposed),
    )


def _softmax_factor(fields: Mapping[str, Any], dim: int, heads: int) -> float:
    """Of a schedule that changes the scale: the score of equal vectors, over their product after the rotation."""
    rope = Spec([{"rope": dict(fields)}] if fields else "rope").text
    ones = torch.ones(1, heads, 1, dim, dtype=torch.float64)
    _, score = torch.ops.posenc.attention(ones, ones, ones, rope, [], [], scale=1.0)
    cos, sin = torch.ops.posenc.rope_tables(rope, dim, heads, 1)
    turned = rotated_pairs(ones[0, :1], cos[:1], sin[:1], fields)
    return float(score[0, 0, 0] / turned.square().sum())


def _bias_table(text: str, tensors: list[Tensor], heads: int, length: int) -> Optional[Tensor]:
    """float64 [H, 2 length - 1] of the distances 1 - length to length - 1, or [H, length, length] of the positions of
    query and key where biases read those. The score of a single key is its bias."""
    biases = Spec(text).part("bias")
    if not biases.encodings:
        return None
    if biases.inputs(2, heads):
        raise _unsupported(text, "a bias reads an input")
    values = [t.detach().double().cpu() for t in tensors]

    def scores(positions: Tensor, keys: Tensor) -> Tensor:
        zeros = torch.zeros(len(keys), heads, len(positions), 2, dtype=torch.float64)
        one = zeros[:, :, :1]
        places = dict(q_positions=positions.expand(len(keys), -1), k_positions=keys.unsqueeze(1))
        return torch.ops.posenc.attention(zeros, one, one, biases.text, values, [], **places)[1]

    if biases.relative:
        return scores(torch.arange(1 - length, length), torch.zeros(1, dtype=torch.long))[0]
    positions = torch.arange(length)
    chunks = positions.split(max(1, _PAIRS_AT_ONCE // (heads * length)))
    return torch.cat([scores(positions, keys) for keys in chunks]).permute(1, 2, 0)


def _softcap(text: str) -> Optional[float]:
    """Of the encodings that are neither rotations nor biases."""
    others = Spec(text).without("query/key", "bias")
    if not others.encodings:
        return None
    if others.encodings != ["softcap"]:
        names = [name for name in others.encodings if name != "softcap"] or others.encodings
        raise _unsupported(text, f"it has {' and '.join(names)}")
    (entry,) = others.json
    return float(entry["softcap"].get("cap", 50)) if isinstance(entry, dict) else 50.0


def attention(
    q: Tensor, k: Tensor, v: Tensor, text: str, tensors: list[Tensor], masks: Mapping[str, Any]
) -> Tensor:
    """As posenc.attention, from operators that ONNX has."""
    refuse(**{name: masks[name] for name in ("cu_queries", "cu_keys", "q_positions", "k_positions")})
    fields, cap = _rope_fields(text), _softcap(text)
    scale = masks["scale"]
    with untraced():
        length = max(q.shape[2], k.shape[2])
        heads, dim = q.shape[1], q.shape[3]
        table = _bias_table(text, tensors, heads, length)
        scale = float(scale) if scale is not None else 1 / math.sqrt(dim)
        scale *= _softmax_factor(fields, dim, heads) if fields is not None else 1.0
    queries, keys = q.shape[2], k.shape[2]
    if fields is not None:
        q, k = _rotated(q, text, fields, keys), _rotated(k, text, fields, keys)
    places = torch.arange(keys, device=q.device)
    distance = places[keys - queries :].unsqueeze(1) - places
    bias = None
    if table is not None:
        table = table.to(q)
        by_distance = table.dim() == 2
        bias = (table[:, distance + (length - 1)] if by_distance else table[:, keys - queries : keys, :keys]).unsqueeze(0)
    hidden = _hidden(distance, masks)
    if operators.available(q) and operators.attends(scale, cap, bias is not None or hidden is not None):
        return operators.attended(q, k, v, bias, hidden, scale, cap, masks)
    return _composed(q, operators.repeated(k, heads), operators.repeated(v, heads), bias, hidden, scale, cap)


def _composed(q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], hidden: Optional[Tensor], scale: float,
              cap: Optional[float]) -> Tensor:
    scores = (q @ k.transpose(-1, -2)) * scale
    if bias is not None:
        scores = scores + bias
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    if hidden is None:
        return scores.softmax(-1) @ v
    weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.masked_fill(hidden, 0.0) @ v


def _hidden(distance: Tensor, masks: Mapping[str, Any]) -> Optional[Tensor]:
    """Pairs that are masked, or None for none."""
    parts = []
    if masks["causal"]:
        parts.append(distance < 0)
    if masks["window_left"] >= 0:
        parts.append(distance > masks["window_left"])
    if masks["window_right"] >= 0:
        parts.append(distance < -masks["window_right"])
    if masks["key_mask"] is not None:
        parts.append((masks["key_mask"] == 0)[:, None, None, :])
    hidden = None
    for part in parts:
        hidden = part if hidden is None else hidden | part
    return hidden
