"""The C library exports the functions of its header, and nothing else.

An additional symbol may clash with that of another library in the same process, and programs may
use it; a missing one is a function that C cannot link.
"""

import argparse
import re
import subprocess
from pathlib import Path

from rules_lib import finish, strip_code


def exported_symbols(nm, library):
    """Names that a shared library defines for others, without their versions."""
    out = subprocess.run(
        [nm, "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    return {re.sub(r"@.*$", "", line.split()[-1]) for line in out.splitlines() if line.strip()}


def declared_functions(header):
    """Pairs of (name, line) of every function that the header marks as part of the interface."""
    text = strip_code(header.read_text(encoding="utf-8"))
    found = re.finditer(r"^\s*POSENC_C_API\b[^;(]*?\b(\w+)\s*\(", text, re.MULTILINE)
    return {match.group(1): text.count("\n", 0, match.start(1)) + 1 for match in found}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--header", type=Path, required=True)
    parser.add_argument("library", type=Path)
    args = parser.parse_args()
    exported = exported_symbols(args.nm, args.library)
    declared = declared_functions(args.header)
    problems = [] if declared else [f"{args.header.name}:1: declares no function"]
    for name in sorted(exported - set(declared)):
        problems.append(f"{args.library.name}: exports {name}, which {args.header.name} lacks")
    for name in sorted(set(declared) - exported):
        where = f"{args.header.name}:{declared[name]}"
        problems.append(f"{where}: {name} is not exported by {args.library.name}")
    for name in sorted(declared):
        if not name.startswith("posenc_"):
            problems.append(f"{args.header.name}:{declared[name]}: {name} must begin with posenc_")
    finish("exports", problems, 1)


if __name__ == "__main__":
    main()
