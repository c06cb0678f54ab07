"""Every block of code in README, CONTRIBUTING and docs is run by tests/docs, or says why not."""

import argparse
import re
import sys
from pathlib import Path

from rules_lib import finish

sys.path.append(str(Path(__file__).resolve().parent.parent / "docs"))
from pages import CODE, blocks_of, page_paths  # noqa: E402

# Languages that tests/docs runs; other code needs a reason.
RUN = {"c", "cpp", "cmake", "console", "python"}


def problem(block):
    """What is wrong with a block, or None."""
    reason = block.notes.get("not run")
    if reason is not None:
        return None if len(reason.split()) >= 3 else f"`not run: {reason}` gives no reason"
    if block.language in CODE - RUN:
        return f"a block of {block.language} is not run; use console, or say why: <!-- not run: REASON -->"
    if block.language == "console" and not re.match(r"\$ ", block.body):
        return "a console block must start with `$ ` and a command"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    args = parser.parse_args()
    paths = [path for path in page_paths(args.root) if path.is_file()]
    blocks = [block for path in paths for block in blocks_of(args.root, path)]
    problems = [f"{block.place}: {wrong}" for block in blocks if (wrong := problem(block))]
    finish("examples", problems, len(paths))


if __name__ == "__main__":
    main()
