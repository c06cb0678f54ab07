"""Figures of encodings, drawn by the program posenc."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Union

from posenc.errors import Error
from posenc.spec import Spec


def program() -> str:
    """Where posenc is: $POSENC_PROGRAM, next to the package's library, or on the PATH."""
    beside = Path(__file__).parent / "_bin" / "posenc"
    found = os.environ.get("POSENC_PROGRAM") or (str(beside) if beside.is_file() else shutil.which("posenc"))
    if not found or not Path(found).is_file():
        raise Error(
            "[plot] needs the program posenc, which is not on the PATH; build it (make build) and set POSENC_PROGRAM to "
            "build/release/bin/posenc",
            kind="unsupported",
        )
    return found


# What the program says of options that it does not know, with or without a near one.
_OPTION = re.compile(r"posenc plot: (?:The following arguments were not expected:.*?)?--(?P<name>[\w-]+)")
_NEAR = re.compile(r"did you mean '--(\S+)'")


def _error_of(said: str) -> Error:
    """From the first line that the program wrote."""
    message = said.removeprefix("posenc: ")
    option, near = _OPTION.match(message), _NEAR.search(message)
    if option:
        name = option["name"].replace("-", "_")
        hint = "posenc plot KIND --list names what a kind reads"
        if near:
            hint = f"did you mean '{near[1].replace('-', '_')}'?"
        return Error(f"[plot] {name} is not a known keyword; {hint}", kind="unknown_key", key=name)
    return Error(message if message.startswith("[") else f"[plot] {message.removeprefix('posenc plot: ')}")


class Figure:
    """A picture that notebooks show. ``svg`` is its text; :meth:`save` writes .svg, .png, .pdf or .csv."""

    def __init__(self, arguments: list[str]) -> None:
        self._arguments = arguments
        self.svg: str = self._drawn(".svg").decode("utf-8")

    def _drawn(self, ending: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"figure{ending}"
            done = subprocess.run(
                [program(), "plot", *self._arguments, "-o", str(path)], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                lines = (done.stderr or done.stdout).strip().splitlines()
                raise _error_of(lines[0] if lines else f"the program ended with status {done.returncode}")
            return path.read_bytes()

    def save(self, path: Union[str, Path]) -> None:
        ending = Path(path).suffix
        if ending not in (".svg", ".png", ".pdf", ".csv"):
            raise Error(f"[plot] a file must end in .svg, .png, .pdf or .csv but got {str(path)!r}", kind="out_of_range")
        Path(path).write_bytes(self.svg.encode("utf-8") if ending == ".svg" else self._drawn(ending))

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Figure: posenc plot {' '.join(self._arguments)}>"


def plot(kind: str, *encodings: Union[str, Spec], **options: Any) -> Figure:
    """A figure of ``posenc plot``: ``bias``, ``decay``, ``scores``, ... (``posenc plot --list`` names the kinds).

    Args:
        kind: of the figure.
        encodings: what it shows, as text or :class:`posenc.Spec`.
        options: those of the command with underscores: ``head_dim=64``, ``train_length=512``. A list gives an option
            several values: ``text=["a b", "c d"]``.

    Returns:
        A picture that notebooks show, with ``save`` and ``svg``.

    >>> posenc.plot("bias", posenc.Alibi(), "kerple", length=128)            # doctest: +SKIP
    >>> posenc.plot("decay", theta=[10000, 500000]).save("decay.png")        # doctest: +SKIP
    """
    arguments = [kind]
    for one in encodings:
        arguments += ["--encoding", str(one)]
    for name, value in options.items():
        several = value if isinstance(value, (list, tuple)) else [value]
        for one in several or [""]:  # an empty value is an empty list
            arguments += [f"--{name.replace('_', '-')}", str(one).lower() if isinstance(one, bool) else str(one)]
    return Figure(arguments)
