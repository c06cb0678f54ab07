"""Code that must not compile does not, and for the stated reason.

The first line of each file is `// expect-error: <regular expression>`; the compiler's diagnostics
must match it. Compilers word things differently: write `one way|the other way`.
"""

import argparse
import re
from pathlib import Path

from compiling import add_compiler_options, compile_source, for_each
from rules_lib import finish

_EXPECT = re.compile(r"//\s*expect-error:\s*(.+?)\s*$")


def check_snippet(args, path):
    """The problem of one file, or None."""
    first_line = path.read_text(encoding="utf-8").split("\n", 1)[0]
    expected = _EXPECT.match(first_line)
    if not expected:
        return f"{path}:1: the first line must be `// expect-error: <regex>`"
    ok, diagnostics = compile_source(args, path)
    if ok:
        return f"{path}:1: compiles, but must fail with: {expected.group(1)}"
    if not re.search(expected.group(1), diagnostics):
        return f"{path}:1: fails, but not with: {expected.group(1)}\n{diagnostics}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_compiler_options(parser)
    parser.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()
    found = for_each(lambda path: check_snippet(args, path), args.files)
    finish("negative", [problem for problem in found if problem], len(args.files))


if __name__ == "__main__":
    main()
