"""The command posenc: runs the program of the package, without importing it and so without waiting for torch."""

import importlib.util
import os
import sys
from pathlib import Path


def main() -> None:
    package = importlib.util.find_spec("posenc")
    program = Path(str(package and package.origin)).parent / "_bin" / "posenc"
    if not program.is_file():
        sys.exit(f"posenc: {program} does not exist; install posenc again")
    os.execv(program, ["posenc", *sys.argv[1:]])
