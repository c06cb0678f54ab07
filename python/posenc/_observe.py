"""Lets posenc.view see the weights of every attention in a call of a model."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Iterator, Optional

import torch
from torch import Tensor

Seen = list[tuple[str, Tensor]]  # spec and weights of each call

_seen: ContextVar[Optional[Seen]] = ContextVar("posenc_seen", default=None)
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


def watched() -> bool:
    return not _is_compiling() and _seen.get() is not None


def note(spec: str, weights: Tensor) -> None:
    seen = None if _is_compiling() else _seen.get()
    if seen is not None:
        seen.append((spec, weights.detach()))


@contextmanager
def watch() -> Iterator[Seen]:
    """Calls of posenc.attention in this block, in order."""
    seen: Seen = []
    token = _seen.set(seen)
    try:
        yield seen
    finally:
        _seen.reset(token)
