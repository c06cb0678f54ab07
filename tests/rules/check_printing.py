"""A library below the command line never prints and never ends the process.

It reports through Status or an exception; what the caller does with it is the caller's choice.
Writing to a file the caller named is fine, so fprintf counts only with stdout or stderr.
The verbs of the program print through src/show/cli/print.h alone, which replaces control characters.
"""

import argparse
import re
from pathlib import Path

from rules_lib import code_lines, finish, layer_folders, source_files

PROGRAM_LAYERS = {"cli", "bench", "web"}  # these talk to a person, and so does a layer's folder program
_NOT_MEMBER = r"(?<![\w.>])(?:std::|::)?"

FORBIDDEN = [
    (r"\bstd::w?(?:cout|cerr|clog)\b", "prints"),
    (r"#\s*include\s*<(?:iostream|print)>", "prints"),
    (_NOT_MEMBER + r"v?printf\s*\(", "prints"),
    (_NOT_MEMBER + r"v?fprintf\s*\(\s*std(?:out|err)\b", "prints"),
    (_NOT_MEMBER + r"(?:puts|putchar|perror)\s*\(", "prints"),
    (r"\bf(?:puts|putc|write)\s*\([^;]*\bstd(?:out|err)\b", "prints"),
    (r"\b(?:fmt|std)::print(?:ln)?\s*\(", "prints"),
    (_NOT_MEMBER + r"(?:abort|terminate)\s*\(", "ends the process"),
    (_NOT_MEMBER + r"(?:exit|_exit|_Exit|quick_exit)\s*\(", "ends the process"),
    (r"(?<![\w.>])assert\s*\(", "ends the process in debug builds"),
    (r"\b__builtin_(?:trap|abort)\b", "ends the process"),
]
FORBIDDEN = [(re.compile(pattern), effect) for pattern, effect in FORBIDDEN]


PRINTER = Path("src/show/cli/print.h")


def matches(path, rules):
    """(line number, what it does, the text) of every line that a rule forbids."""
    for number, line in code_lines(path):
        for pattern, effect in rules:
            match = pattern.search(line)
            if match:
                yield number, effect, match.group(0).strip()
                break


def check_file(root, path):
    """The problems of one file of a library, as strings."""
    for number, effect, text in matches(path, FORBIDDEN):
        yield f"{path.relative_to(root)}:{number}: a library may not do this, it {effect}: {text}"


def check_verb(root, path):
    """The problems of one file of the program, as strings."""
    if path.relative_to(root) == PRINTER:
        return
    for number, _, text in matches(path, [rule for rule in FORBIDDEN if rule[1] == "prints"]):
        yield f"{path.relative_to(root)}:{number}: print through {PRINTER}, not with {text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--table", type=Path, help="default: <root>/cmake/PosencLayers.cmake")
    args = parser.parse_args()
    folders = layer_folders(args.table or args.root / "cmake/PosencLayers.cmake")

    files = source_files(args.root / "include")
    for layer, below in folders.items():
        if layer not in PROGRAM_LAYERS:
            folder = args.root / below
            files += [f for f in source_files(folder) if (folder / "program") not in f.parents]
    verbs = source_files(args.root / "src/show/cli")
    problems = [problem for path in files for problem in check_file(args.root, path)]
    problems += [problem for path in verbs for problem in check_verb(args.root, path)]
    finish("printing", problems, len(files) + len(verbs))


if __name__ == "__main__":
    main()
