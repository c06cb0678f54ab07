#!/usr/bin/env python3
"""Writes python/posenc/encodings.py and schedules.py, the constructors of specs, from the catalogue of the library.

    PYTHONPATH=build/release/python /usr/bin/python3 tools/python_constructors.py

`--check` compares and writes nothing; python/tests/test_constructors.py does that.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "python" / "posenc"
NAMES = {"none": "NoPositions", "default": "DefaultFrequencies", "single": "SingleAxis"}
HEAD = '''"""{about}

Made by tools/python_constructors.py from the catalogue of the library."""

from __future__ import annotations

from typing import {typing}

from posenc._construct import {bases}
{imports}'''


def class_name(name: str) -> str:
    return NAMES.get(name) or "".join(part.capitalize() for part in re.split(r"[_-]", name))


def written_type(field: dict) -> str:
    kind = field["type"]
    if field["name"] == "schedule":
        return "Union[Schedule, str]"
    if kind.startswith("one of "):
        names = [name.strip() for name in kind[len("one of ") :].split(",")]
        if field["name"] == "axes":
            return "Union[Axes, str]"
        return f"Literal[{', '.join(repr(name) for name in names)}]".replace("'", '"')
    plain = {
        "number": "float",
        "integer": "int",
        "true or false": "bool",
        "number or null": "Optional[float]",
        "number or list": "Union[float, Sequence[float]]",
        "integer or list": "Union[int, Sequence[int]]",
    }
    return plain[kind]


def written_default(field: dict) -> str:
    text, kind = field["default"], field["type"]
    if text in ("null", "true", "false"):
        return {"null": "None", "true": "True", "false": "False"}[text]
    if kind.startswith("one of "):
        return f'"{text}"'
    return "()" if text == "[]" else text


def sentence(text: str) -> str:
    """Written out, and unlike LaTeX safe in a docstring."""
    return text.replace("\\", "\\\\")


def docstring(entry: dict) -> list[str]:
    lines = [sentence(f"{entry['title']}: {entry['formula']}" if entry["formula"] else entry["title"])]
    if entry["paper"]:
        lines += ["", entry["paper"]]
    for index, field in enumerate(entry["fields"]):
        rule = f" ({field['range']})" if field["range"] else ""
        text = f"``{field['name']}``: {sentence(field['doc'])}{rule}"
        lines += [""] * (index == 0) + textwrap.wrap(text, 108, subsequent_indent="    ")
    lines[0] = '"""' + lines[0]
    if len(lines) == 1:
        return [lines[0] + '"""']
    return [*lines, '"""']


def constructor(entry: dict, base: str) -> list[str]:
    required = [f for f in entry["fields"] if f["default"] == "required"]
    optional = [f for f in entry["fields"] if f["default"] != "required"]
    signature = ["self"] + [f"{f['name']}: {written_type(f)}" for f in required]
    signature += ["*"] * bool(optional)
    signature += [f"{f['name']}: {written_type(f)} = {written_default(f)}" for f in optional]
    names = [f["name"] for f in required + optional]
    lines = [f"class {class_name(entry['name'])}({base}):"]
    lines += [f"    {line}".rstrip() for line in docstring(entry)]
    head = f"    def __init__({', '.join(signature)}) -> None:"
    lines.append("")
    if len(head) <= 110:
        lines.append(head)
    else:
        lines += ["    def __init__("] + [f"        {one}," for one in signature] + ["    ) -> None:"]
    given = ", ".join(f"{name}={name}" for name in names)
    call = f'        self._construct("{entry["name"]}"{", " if given else ""}{given})'
    if len(call) > 110:
        call = f'        self._construct(\n            "{entry["name"]}",\n'
        call += "".join(f"            {name}={name},\n" for name in names) + "        )"
    return lines + call.split("\n")


def module(about: str, bases: list[str], imports: list[str], entries: list[tuple[dict, str]]) -> str:
    parts = [constructor(entry, base) for entry, base in entries]
    body = "\n\n\n".join("\n".join(part) for part in parts)
    typing = [name for name in ("Literal", "Optional", "Sequence", "Union") if re.search(rf"\b{name}\[", body)]
    names = sorted(class_name(entry["name"]) for entry, _ in entries)
    exports = "__all__ = [\n" + "".join(f'    "{name}",\n' for name in names) + "]"
    head = HEAD.format(
        about=about,
        typing=", ".join(typing),
        bases=", ".join(sorted(bases)),
        imports="".join(f"{line}\n" for line in imports),
    )
    return f"{head}\n{exports}\n\n\n{body}\n"


def files(catalog: dict) -> dict[Path, str]:
    schedules = [(e, "Schedule") for e in catalog["schedules"]] + [(e, "Axes") for e in catalog["axes"]]
    encodings = [(e, "Encoding") for e in catalog["encodings"]]
    return {
        FOLDER / "schedules.py": module(
            "Schedules of a rotation's frequencies, and its axes: values for the fields of :class:`posenc.Rope`.",
            ["Axes", "Schedule"],
            [],
            schedules,
        ),
        FOLDER / "encodings.py": module(
            "Every encoding as a class. An instance is a :class:`posenc.Spec` of one encoding.",
            ["Axes", "Encoding", "Schedule"],
            [],
            encodings,
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    from posenc.spec import catalog

    stale = 0
    for path, text in files(catalog()).items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if not check:
            path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {'differs from the catalogue' if check else 'written'}")
    return stale if check else 0


if __name__ == "__main__":
    sys.exit(main())
