"""Compares figures in sentences with the committed runs they are from.

    figures.py --root SOURCE --posenc PROGRAM

A comment right after a number names its source: the folder of the runs, the encoding, the condition, and which
figure of the condition it is (value, low, high or chance; lowest or highest of the seeds). Results that
`posenc eval --out` wrote are named by their files, and their mean is taken:

    RoPE copies 3.1 <!-- docs/evidence/demo; rope; longer 96; value --> % of them
    with YaRN 2.3 <!-- docs/evidence/text-small/schedules/*-yarn.json; rope; longer 1024; value --> bits

A row under another schedule or of a variant is named as in the tables: `rope, yarn`, `rope, model.layers=4`. Shares are
in percent, as right answers: of an error, 100 minus it. `error value` (or low, high, chance, lowest, highest) is the
error itself. The number must be the figure, rounded to as many digits as the page shows.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from pages import page_paths

_MARK = re.compile(r"(-?\d+(?:\.\d+)?)\s*<!-- ([^;>]+); ([^;>]+); (\w+) (\d+); ((?:error )?(?:value|low|high|chance|lowest|highest)) -->")
_ANY_MARK = re.compile(r"<!-- docs/evidence[^>]*-->")


def shown(number, metric, as_error=False):
    """A figure of `posenc compare --json` as pages write it.

    >>> shown(0.25, "error"), shown(0.25, "accuracy"), shown(1.5, "bits_per_byte"), shown(0.25, "error", True)
    (75.0, 25.0, 1.5, 25.0)
    """
    if metric == "error" and not as_error:
        return 100 * (1 - number)
    return 100 * number if metric in ("accuracy", "error") else number


def end_of(which, metric):
    """Which end of the metric's interval a figure is, and whether as an error.

    >>> end_of("low", "error"), end_of("error low", "error"), end_of("low", "accuracy")
    (('high', False), ('low', True), ('low', False))
    """
    as_error = which.startswith("error ")
    which = which.removeprefix("error ")
    # The upper end of a share of right answers is the lower one of its error.
    pairs = {"low": "high", "high": "low", "lowest": "highest", "highest": "lowest"}
    swap = pairs if metric == "error" and not as_error else {}
    return swap.get(which, which), as_error


def row_name(encoding, row):
    """What tables call a row.

    >>> row_name("rope", {}), row_name("rope", {"schedule": "yarn"})
    ('rope', 'rope, yarn')
    """
    return f"{encoding}, {row['schedule']}" if row.get("schedule") else encoding


def entry_name(task, entry):
    """What tables call the rows of an entry.

    >>> entry_name({}, {"encoding": "rope"})
    'rope'
    >>> entry_name({"variants": [{"name": "B", "settings": ["model.layers=4"]}]}, {"encoding": "rope", "variant": "B"})
    'rope, model.layers=4'
    """
    settings = {variant["name"]: variant["settings"] for variant in task.get("variants", [])}
    return ", ".join([entry["encoding"], *settings.get(entry.get("variant"), [])])


def rows_named(results, name, axis, length):
    """The rows of a condition: those of that name, or all of the encoding where none is called so.

    >>> both = {"encoding": "rope", "rows": [{"axis": "a", "length": 2}, {"axis": "a", "length": 2, "schedule": "ntk"}]}
    >>> rows_named(both, "rope, ntk", "a", 2) == both["rows"][1:], rows_named(both, "rope", "a", 2) == both["rows"][:1]
    (True, True)
    """
    rows = [row for row in results["rows"] if row["axis"] == axis and row["length"] == length]
    named = [row for row in rows if row_name(results["encoding"], row) == name]
    return named or (rows if results["encoding"] == name else [])


def file_figure(files, encoding, axis, length, which):
    """The mean over results.json files, or None."""
    values = []
    for results in files:
        for row in rows_named(results, encoding, axis, length):
            end, as_error = end_of(which, results["metric"])
            values.append(shown(row[end], results["metric"], as_error))
    return sum(values) / len(values) if values and len(values) == len(files) else None


def cell_figure(cell, which):
    """A member of a cell, or the least or greatest of its seeds.

    >>> cell_figure({"value": 2, "seeds": [1, 3]}, "value"), cell_figure({"seeds": [1, 3]}, "highest")
    (2, 3)
    """
    ends = {"lowest": min, "highest": max}
    return ends[which](cell["seeds"]) if which in ends else cell[which]


def find_figure(comparison, encoding, axis, length, which):
    """The figure as a page writes it, or None."""
    for task in comparison["tasks"]:
        for entry in task["entries"]:
            for cell in entry["cells"]:
                named = row_name(entry_name(task, entry), cell) == encoding
                if named and cell["axis"] == axis and cell["length"] == length:
                    end, as_error = end_of(which, task["metric"])
                    return shown(cell_figure(cell, end), task["metric"], as_error)
    return None


def agrees(text, figure):
    """Whether a number is a figure, rounded to the digits that it shows.

    >>> agrees("3.1", 3.14), agrees("3", 3.14), agrees("3.2", 3.14), agrees("100", 99.4)
    (True, True, False, False)
    """
    digits = len(text.partition(".")[2])
    return abs(float(text) - figure) <= 0.5 * 10**-digits * (1 + 1e-9)


def check_page(root, path, sources):
    """(figures, problems) of a page."""
    text = path.read_text(encoding="utf-8")
    marks, problems = list(_MARK.finditer(text)), []
    where = lambda start: f"{path.relative_to(root)}:{text.count(chr(10), 0, start) + 1}"
    for mark in marks:
        number, folder, encoding, axis, length, which = mark.groups()
        find = file_figure if folder.endswith(".json") else find_figure
        figure = find(sources(folder), encoding, axis, int(length), which)
        if figure is None:
            problems.append(f"{where(mark.start())}: {folder} has no {encoding} at {axis} {length}")
        elif not agrees(number, figure):
            problems.append(f"{where(mark.start())}: the page says {number}, the runs {figure:.4f} ({mark[0]})")
    known = {mark.end() for mark in marks}
    for mark in _ANY_MARK.finditer(text):
        if mark.end() not in known:
            problems.append(f"{where(mark.start())}: no number before {mark[0]}, or a part is missing")
    return len(marks), problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--posenc", required=True)
    args = parser.parse_args()
    read = {}

    def sources(folder):
        if folder.endswith(".json"):
            return [json.loads(file.read_text()) for file in sorted(args.root.glob(folder))]
        if folder not in read:
            out = subprocess.run([args.posenc, "compare", folder, "--json"], cwd=args.root, check=True,
                                 capture_output=True, text=True).stdout
            read[folder] = json.loads(out)
        return read[folder]

    total, problems = 0, []
    for path in page_paths(args.root):
        count, wrong = check_page(args.root, path, sources)
        total += count
        problems += wrong
    print("\n".join(problems + [f"figures: {total} figures, {len(problems)} problem(s)"]))
    sys.exit(1 if problems or not total else 0)


if __name__ == "__main__":
    main()
