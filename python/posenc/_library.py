"""Loads the library that registers the operators. Importing posenc does it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import torch


PLAIN, STABLE = "libposenc_torch.so", "libposenc_torch_stable.so"
OLDEST_STABLE = (2, 10)  # PyTorch whose stable ABI the second library uses


def library_path() -> Path:
    """The path of the operators' library: $POSENC_LIBRARY, or next to this file.

    Of two libraries there it is the one built for this PyTorch, else the one for the stable ABI of PyTorch.
    """
    chosen = os.environ.get("POSENC_LIBRARY")
    folder = Path(__file__).parent / "_lib"
    path = Path(chosen) if chosen else folder / PLAIN
    if not chosen and (folder / STABLE).is_file() and not (path.is_file() and _is_for_this_torch(folder)):
        path = folder / STABLE
    if path.is_file():
        return path
    raise ImportError(
        f"posenc's operators are not at {path}; build them (make build leaves a package at "
        "build/release/python), install with pip, or set POSENC_LIBRARY"
    )


def _torch_in_words(version: str, cxx11_abi: bool) -> str:
    return f"torch {version} with the {'C++11' if cxx11_abi else 'old C++'} ABI"


def _torch_here() -> tuple[str, bool]:
    return str(torch.__version__), bool(torch._C._GLIBCXX_USE_CXX11_ABI)


def _is_for_this_torch(folder: Path) -> bool:
    """The library and torch exchange C++ objects: their minor version and their ABI have to be the same."""
    record = folder / "built_for.json"
    if not record.is_file():  # a library that POSENC_LIBRARY names
        return True
    built = json.loads(record.read_text(encoding="utf-8"))
    version, cxx11_abi = _torch_here()
    return (built["torch"].split(".")[:2], built["cxx11_abi"]) == (version.split(".")[:2], cxx11_abi)


def _require_matching_torch(folder: Path) -> None:
    if _is_for_this_torch(folder):
        return
    built = json.loads((folder / "built_for.json").read_text(encoding="utf-8"))
    raise ImportError(
        f"posenc was built for {_torch_in_words(built['torch'], built['cxx11_abi'])} but this Python has "
        f"{_torch_in_words(*_torch_here())}; install the former, or build posenc for the latter: "
        "pip install --no-build-isolation . in its source tree"
    )


def _require_stable_abi() -> None:
    version = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    if version is None or tuple(map(int, version.groups())) < OLDEST_STABLE:
        raise ImportError(
            f"this posenc needs PyTorch {'.'.join(map(str, OLDEST_STABLE))} or newer but this Python has "
            f"{torch.__version__}; update torch, or build posenc for this one: pip install --no-build-isolation . in "
            "its source tree"
        )


def _load(path: Path) -> None:
    if path.name == STABLE:
        _require_stable_abi()
    else:
        _require_matching_torch(path.parent)
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(
            f"posenc's operators could not be loaded into torch {torch.__version__}: {error}; build posenc for this "
            "torch: pip install --no-build-isolation . in its source tree"
        ) from None


_path = library_path()
_load(_path)
if _path.name == STABLE:
    from posenc import _stable

    _registered = _stable.register("posenc")
