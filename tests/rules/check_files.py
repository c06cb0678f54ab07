"""Source files stay below 800 lines, and C++ files are named in snake_case."""

import argparse
import re
from pathlib import Path

from rules_lib import SOURCE_SUFFIXES, finish, source_files

MAX_LINES = 800
FOLDERS = ["src", "include", "tests", "benchmarks", "examples", "python", "tools", "cmake", "web"]
SUFFIXES = SOURCE_SUFFIXES | {".py", ".cmake", ".sh", ".js", ".mjs", ".ts", ".css"}
# Highway's own convention for a header compiled once per target is `<op>-inl.h`; and a file that
# proves a package carries the package's name.
_NAME = re.compile(r"^([a-z0-9_]+(-inl)?\.\w+|uses_[\w-]+\.cc)$")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    args = parser.parse_args()
    files = [p for f in FOLDERS for p in source_files(args.root / f, SUFFIXES)]
    problems = []
    for path in files:
        name = path.relative_to(args.root)
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > MAX_LINES:
            problems.append(f"{name}:{MAX_LINES + 1}: {lines} lines, {MAX_LINES} at most")
        if path.suffix in SOURCE_SUFFIXES and not _NAME.match(path.name):
            problems.append(f"{name}:1: the file's name is not snake_case")
    finish("files", problems, len(files))


if __name__ == "__main__":
    main()
