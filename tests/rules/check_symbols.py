"""The built static libraries refer to no symbol that prints or ends the process.

The source rule reads our files; this one sees what macros and inlined headers brought in.
std::terminate is allowed: the compiler emits it for every noexcept function.
"""

import argparse
import re
import subprocess
from pathlib import Path

from rules_lib import finish

FORBIDDEN = {
    "printf", "vprintf", "puts", "putchar", "perror", "__printf_chk", "__vprintf_chk",
    "stdout", "stderr", "std::cout", "std::cerr", "std::clog", "std::wcout", "std::wcerr",
    "abort", "exit", "_exit", "_Exit", "quick_exit", "__assert_fail",
}  # fmt: skip


def undefined_symbols(nm, library):
    """Pairs (object file, symbol) of everything a library takes from elsewhere."""
    out = subprocess.run(
        [nm, "-C", "--undefined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    member = library.name
    for line in out.splitlines():
        if line.endswith(":"):
            member = line[:-1]
        match = re.match(r"\s+[Uvw]\s+(.+)$", line)
        if match:
            yield member, re.sub(r"@.*$", "", match.group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("libraries", type=Path, nargs="+")
    args = parser.parse_args()
    problems = []
    for library in args.libraries:
        for member, symbol in undefined_symbols(args.nm, library):
            if symbol in FORBIDDEN:
                problems.append(f"{library.name}({member}): a library may not use {symbol}")
    finish("symbols", problems, len(args.libraries))


if __name__ == "__main__":
    main()
