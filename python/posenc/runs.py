"""Runs of the lab, read from their directories.

>>> table = posenc.runs.load("runs/grid")                  # doctest: +SKIP
>>> table.pivot_table("value", "encoding", "length")       # doctest: +SKIP

The table has a row per run and evaluated condition; it is a pandas DataFrame.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Union

from posenc.errors import Error

if TYPE_CHECKING:
    import pandas

Folder = Union[str, Path]

_OF_RUN = ("task", "encoding", "seed", "metric", "train_length", "step", "tokens_per_s", "train_seconds", "peak_gpu_bytes",
           "config_hash")
_OF_ROW = ("axis", "length", "factor", "schedule", "beyond_training", "samples", "value", "low", "high", "chance", "loss",
           "scored", "correct")


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Error(f"[{path}] cannot be read: {error}; evaluate the run again with posenc eval", kind="io") from None


def folders(directory: Folder) -> list[Path]:
    """The runs at or below a directory, in order: folders with a config.yaml and a status.json.

    >>> posenc.runs.folders("runs/grid")  # doctest: +SKIP
    [PosixPath('runs/grid/rope-seed0'), PosixPath('runs/grid/rope-seed1')]
    """
    root = Path(directory)
    if not root.is_dir():
        hint = "unpack it with posenc runs unpack" if root.is_file() else "name the folder of a run or of a sweep"
        raise Error(f"[{root}] must be a folder of runs; {hint}", kind="io")
    found = sorted(path.parent for path in root.rglob("status.json") if (path.parent / "config.yaml").is_file())
    if not found:
        raise Error(f"[{root}] must hold runs but has none; name the folder of a run or of a sweep", kind="io")
    return found


def rows(directory: Folder) -> Iterator[dict[str, Any]]:
    """One dict per run and evaluated condition. Runs without results have one, with their status alone.

    >>> best = max(posenc.runs.rows("runs/grid"), key=lambda row: row["value"] or 0)  # doctest: +SKIP
    """
    root = Path(directory)
    for run in folders(root):
        name = str(run.relative_to(root)) if run != root else run.name
        start = {"run": name, "status": _read(run / "status.json").get("state")}
        if not (run / "results.json").is_file():
            yield {**start, **dict.fromkeys(_OF_RUN + _OF_ROW)}
            continue
        results = _read(run / "results.json")
        of_run = {key: results.get(key) for key in _OF_RUN}
        for row in results["rows"]:
            yield {**start, **of_run, **{key: row.get(key) for key in _OF_ROW}}


def curves(directory: Folder) -> Iterator[dict[str, Any]]:
    """One dict per line of metrics.jsonl (``kind`` is ``train`` or ``eval``), with the run's name.

    >>> losses = [line["loss"] for line in posenc.runs.curves("runs/grid") if line["kind"] == "train"]  # doctest: +SKIP
    """
    root = Path(directory)
    for run in folders(root):
        name = str(run.relative_to(root)) if run != root else run.name
        path = run / "metrics.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            yield {"run": name, **json.loads(line)}


def load(directory: Folder, what: str = "results") -> "pandas.DataFrame":
    """A DataFrame of ``results`` (:func:`rows`) or of ``curves`` (:func:`curves`). Needs pandas.

    Args:
        directory: a run, or a folder with runs below it.
        what: ``"results"`` or ``"curves"``.

    >>> posenc.runs.load("runs/grid").groupby("encoding")["value"].mean()  # doctest: +SKIP

    ``value`` is that of the task's metric, with its 95 % interval ``low`` to ``high`` over the rows of the test set.
    """
    if what not in ("results", "curves"):
        raise Error(f"[runs.load] what must be 'results' or 'curves' but got {what!r}", kind="out_of_range")
    made = list(rows(directory) if what == "results" else curves(directory))
    try:
        import pandas
    except ImportError:
        raise ImportError("posenc.runs.load needs pandas; install it, or use posenc.runs.rows") from None
    return pandas.DataFrame(made)
