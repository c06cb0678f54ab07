"""Loads the library that registers the operators. Importing posenc does it."""

from __future__ import annotations

import json
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


def _torch_in_words(version: str, cxx11_abi: bool) -> str:
    return f"torch {version} with the {'C++11' if cxx11_abi else 'old C++'} ABI"


def _require_matching_torch(path: Path) -> None:
    """The library and torch exchange C++ objects: their minor version and their ABI have to be the same."""
    record = path.parent / "built_for.json"
    if not record.is_file():  # a library that POSENC_LIBRARY names
        return
    built = json.loads(record.read_text(encoding="utf-8"))
    cxx11_abi = bool(torch._C._GLIBCXX_USE_CXX11_ABI)
    version = str(torch.__version__)
    if (built["torch"].split(".")[:2], built["cxx11_abi"]) != (version.split(".")[:2], cxx11_abi):
        raise ImportError(
            f"posenc was built for {_torch_in_words(built['torch'], built['cxx11_abi'])} but this Python has "
            f"{_torch_in_words(version, cxx11_abi)}; install the former, or build posenc for the latter: "
            "pip install --no-build-isolation . in its source tree"
        )


def _load(path: Path) -> None:
    _require_matching_torch(path)
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(
            f"posenc's operators could not be loaded into torch {torch.__version__}: {error}; build posenc for this "
            "torch: pip install --no-build-isolation . in its source tree"
        ) from None


_load(library_path())
