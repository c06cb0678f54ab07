"""The checked-in Unicode tables agree with this Python's unicodedata on every character that it knows."""

import argparse
import re
import unicodedata
from pathlib import Path

ROW = re.compile(r"\{((?:0x[0-9a-f]+(?:, )?)+)\}")


def read_tables(text):
    tables = {}
    for name, body in re.findall(r"> k(\w+)Table = \{\{(.*?)\}\};", text, re.S):
        tables[name] = [tuple(int(n, 16) for n in row.split(", ")) for row in ROW.findall("{" + body + "}")]
    return tables


def in_ranges(ranges):
    return {c for first, last, *_ in ranges for c in range(first, last + 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path)
    tables = read_tables(parser.parse_args().tables.read_text(encoding="utf-8"))
    assert len(tables) == 5, sorted(tables)
    known = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    for name, letter in (("Letter", "L"), ("Number", "N")):
        points = in_ranges(tables[name])
        wrong = [hex(c) for c in known if (unicodedata.category(chr(c))[0] == letter) != (c in points)]
        assert not wrong, (name, wrong[:10])
    classes = {c: k for first, last, k in tables["Combining"] for c in range(first, last + 1)}
    wrong = [hex(c) for c in known if unicodedata.combining(chr(c)) != classes.get(c, 0)]
    assert not wrong, ("Combining", wrong[:10])
    pairs = {c: (a, b) for c, a, b in tables["Composing"] + tables["OneWay"]}
    for c in known:
        text = unicodedata.decomposition(chr(c))
        parts = [int(word, 16) for word in text.split()] if text and text[0] != "<" else []
        assert tuple((parts + [0])[:2]) == pairs.get(c, (0, 0)) or not parts and c not in pairs, hex(c)
    for c, a, b in tables["Composing"]:
        assert unicodedata.normalize("NFC", chr(a) + chr(b)) == chr(c), hex(c)
    print(f"{len(known)} characters of Unicode {unicodedata.unidata_version}")


if __name__ == "__main__":
    main()
