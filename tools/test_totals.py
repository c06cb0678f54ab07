#!/usr/bin/env python3
"""Adds up what test runners said at their ends: tools/test_totals.py LOG...

Reads the closing lines of ctest and of node's test runner in each log and prints one line,
`N passed, N failed, N skipped`. A test that ran in several sections counts in each.

>>> totals('97% tests passed, 3 tests failed out of 100\\n')
(97, 3, 0)

ctest counts a skipped test as passed and names it in a list; it is no pass here.

>>> totals('100% tests passed, 0 tests failed out of 5\\n\\n'
...        'The following tests did not run:\\n\\t  4 - cuda.a (Skipped)\\n\\t  5 - cuda.b (Skipped)\\n')
(3, 0, 2)
>>> totals('# tests 9\\n# pass 6\\n# fail 1\\n# cancelled 1\\n# skipped 1\\n# todo 0\\n')
(6, 2, 1)
>>> totals('\\x1b[34mℹ pass 4\\x1b[39m\\nℹ fail 0\\nℹ cancelled 0\\nℹ skipped 2\\n')
(4, 0, 2)
>>> totals('a compiler stopped here\\n')
(0, 0, 0)
"""

import re
import sys
from pathlib import Path

COLORS = re.compile(r"\x1b\[[0-9;]*m")
CTEST = re.compile(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)$", re.M)
CTEST_SKIPPED = re.compile(r"^\s+\d+ - .* \(Skipped\)$", re.M)
NODE = re.compile(r"^(?:#|ℹ) (pass|fail|cancelled|skipped) (\d+)$", re.M)


def totals(text):
    """(passed, failed, skipped) of one log."""
    text = COLORS.sub("", text)
    skipped = len(CTEST_SKIPPED.findall(text))
    failed = sum(int(bad) for bad, _ in CTEST.findall(text))
    passed = sum(int(count) - int(bad) for bad, count in CTEST.findall(text)) - skipped
    for word, number in NODE.findall(text):
        passed += int(number) if word == "pass" else 0
        failed += int(number) if word in ("fail", "cancelled") else 0
        skipped += int(number) if word == "skipped" else 0
    return passed, failed, skipped


def main():
    sums = [totals(Path(log).read_text(encoding="utf-8", errors="replace")) for log in sys.argv[1:]]
    passed, failed, skipped = (sum(column) for column in zip(*sums)) if sums else (0, 0, 0)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")


if __name__ == "__main__":
    main()
