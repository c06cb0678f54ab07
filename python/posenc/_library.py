"""Loads the library that registers the operators. Importing posenc does it."""

from __future__ import annotations

import os
from pathlib import Path

import torch


def library_path() -> Path:
    """The path of the operators' library: $POSENC_LIBRARY, or next to this file."""
    chosen = os.environ.get("POSENC_LIBRARY")
    path = Path(chosen) if chosen else Path(__file__).parent / "_lib" / "libposenc_torch.so"
    if path.is_file():
        return path
    raise ImportError(
        f"posenc's operators are not at {path}; build them (make build leaves a package at "
        "build/release/python), install with pip, or set POSENC_LIBRARY"
    )


torch.ops.load_library(str(library_path()))
