"""The page of :func:`posenc.view`: records as the report has them (src/show/report/page_maps.cc), and its viewer."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import html
import json
import struct
import zlib
from pathlib import Path
from typing import Any, Sequence

import torch
from torch import Tensor

CELLS = (256, 128, 64, 32)  # most of a side of a map; the first with which all maps fit
BUDGET = 8_000_000  # bytes of all maps together, as base64
_FILES = Path(__file__).parent / "_view"  # made by CMake from web/


def _spans(size: int, cells: int) -> list[tuple[int, int]]:
    return [(i * size // cells, (i + 1) * size // cells) for i in range(cells)]


def pooled(maps: Tensor, cells: int) -> Tensor:
    """[..., T, T] to at most [..., cells, cells], by the greatest value, so that spikes stay."""
    size = maps.shape[-1]
    if size <= cells:
        return maps
    rows = torch.stack([maps[..., a:b, :].amax(-2) for a, b in _spans(size, cells)], -2)
    return torch.stack([rows[..., a:b].amax(-1) for a, b in _spans(size, cells)], -1)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def grey_png(pixels: Tensor) -> bytes:
    """An 8-bit grey picture of bytes [rows, columns]."""
    rows, columns = pixels.shape
    lines = torch.nn.functional.pad(pixels, (1, 0)).contiguous()  # filter 0 before each line
    data = ctypes.string_at(lines.data_ptr(), lines.numel())
    return (b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0))
            + _chunk(b"IDAT", zlib.compress(data, 6)) + _chunk(b"IEND", b""))


def _maps(weights: Tensor, hidden: Tensor, cells: int) -> dict[str, Any]:
    """The heads of a layer below each other: byte 0 is hidden, b from 1 on is high ((b - 1) / 254)^2."""
    maps = pooled(weights.masked_fill(hidden, -1.0), cells)
    highs = maps.flatten(1).amax(1)
    highs = torch.where(highs > 0, highs, torch.ones_like(highs))
    shares = (maps.clamp(min=0) / highs[:, None, None]).clamp(max=1).sqrt()
    pixels = torch.where(maps < 0, torch.zeros_like(maps), 1 + (254 * shares).round()).to(torch.uint8)
    png = base64.b64encode(grey_png(pixels.flatten(0, 1))).decode("ascii")
    return {"kind": "weights", "gamma": 2, "highs": highs.tolist(), "png": "data:image/png;base64," + png}


def _record(view: Any, name: str, cells: int) -> dict[str, Any]:
    layers = [
        {"encoding": spec, "maps": [_maps(weights, hidden, cells)]}
        for spec, weights, hidden in zip(view.specs, view.weights, view._hidden)
    ]
    length = len(view.tokens)
    example = {"task": "text", "length": length, "sample": 0, "step": 0, "instruction": [0, 0],
               "tokens": [_shown(token) for token in view.tokens], "scored": []}
    return {"name": name, "run": name, "key": "text", "cells": min(cells, length), "heads": len(view.heads),
            "layer_numbers": view.layers, "head_numbers": view.heads, "example": example, "layers": layers}


def _shown(token: str) -> str:
    """Tokens of white space would be invisible."""
    return token if token.strip() else token.replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣") or "∅"


def _records(views: Sequence[Any], names: Sequence[str]) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for cells in CELLS:
        records = [_record(view, name, cells) for view, name in zip(views, names)]
        if sum(len(layer["maps"][0]["png"]) for one in records for layer in one["layers"]) <= BUDGET:
            break
    return records


def _script_json(value: Any) -> str:
    """JSON that cannot end the script element that it is in."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(name: str, content: str) -> str:
    return f'<script type="application/json" id="{name}">{content}</script>\n'


def page(views: Sequence[Any], names: Sequence[str]) -> str:
    """One file that loads nothing else."""
    script, style, colors = (
        (_FILES / name).read_text(encoding="utf-8") for name in ("view.js", "view.css", "map_colors.json")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    title = html.escape(" and ".join(names))
    last = views[-1]
    size = f"{len(last.tokens)} tokens, {len(last.layers)} layer{'s' * (len(last.layers) != 1)}"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        f"img-src data:; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="generator" content="posenc view">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header>\n<p class="brand">posenc view</p>\n<h1>Attention of {title}</h1>\n'
        f'<p class="lead">{size}</p>\n</header>\n'
        '<main>\n<h2 id="maps">Weights by layer and head</h2>\n'
        '<section id="attention-view" aria-labelledby="maps"></section>\n</main>\n'
        + _data("color-data", colors)
        + _data("attention-data", _script_json({"records": _records(views, names)}))
        + f"<script>{script}</script>\n</body>\n</html>\n"
    )
