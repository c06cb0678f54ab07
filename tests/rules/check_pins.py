"""What CMake fetches is pinned by content: a full commit hash, or a URL with its SHA-256.

A tag or a branch can be moved to other sources without a change in this repository.
"""

import argparse
import re
from pathlib import Path

from rules_lib import finish

_TAG = re.compile(r"\bGIT_TAG\s+(\S+)")
_COMMIT = re.compile(r"^[0-9a-f]{40}$")
_DECLARATION = re.compile(r"\b(?:FetchContent_Declare|ExternalProject_Add)\s*\(([^)]*)\)", re.I)


def cmake_files(root):
    """CMakeLists.txt and *.cmake of the project, without build trees."""
    files = [root / "CMakeLists.txt", *root.glob("cmake/*.cmake")]
    for folder in ["src", "tests", "python", "examples", "benchmarks"]:
        files += [*(root / folder).rglob("CMakeLists.txt"), *(root / folder).rglob("*.cmake")]
    fixtures = root / "tests/rules/fixtures"
    return sorted(path for path in files if path.is_file() and fixtures not in path.parents)


def check_file(root, path):
    """The problems of one file, as strings."""
    text = path.read_text(encoding="utf-8")
    for found in _DECLARATION.finditer(text):
        where = f"{path.relative_to(root)}:{text.count(chr(10), 0, found.start()) + 1}"
        body = found.group(1)
        tag = _TAG.search(body)
        if "GIT_REPOSITORY" in body and (tag is None or not _COMMIT.match(tag.group(1))):
            given = tag.group(1) if tag else "nothing"
            yield f"{where}: GIT_TAG must be a full commit hash, not {given}"
        if re.search(r"\bURL\s", body) and "URL_HASH SHA256=" not in body:
            yield f"{where}: URL needs URL_HASH SHA256=..."


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--table", type=Path, help="not read; every rule takes it")
    args = parser.parse_args()
    files = cmake_files(args.root.resolve())
    problems = [problem for path in files for problem in check_file(args.root.resolve(), path)]
    finish("pins", problems, len(files))


if __name__ == "__main__":
    main()
