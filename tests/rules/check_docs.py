"""Every encoding that the program lists has its page docs/encodings/<name>.md, and README fits on a few screens."""

import argparse
import json
import subprocess
from pathlib import Path

from rules_lib import finish


README_LINES = 150


def check_readme(root):
    """The first page stays short: details belong to docs."""
    lines = len((root / "README.md").read_text(encoding="utf-8").splitlines())
    if lines > README_LINES:
        yield f"README.md:{lines}: more than {README_LINES} lines; move details to docs"


def listed_encodings(cli):
    """The names in `posenc list --json`."""
    done = subprocess.run([*cli, "list", "--json"], check=True, capture_output=True, text=True)
    listing = json.loads(done.stdout)
    rows = listing["encodings"] if isinstance(listing, dict) else listing
    return [row["name"] for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--cli", nargs="+", required=True, help="the command that runs posenc")
    args = parser.parse_args()
    names = listed_encodings(args.cli)
    problems = [] if names else ["posenc list --json names no encoding"]
    for name in names:
        page = Path("docs/encodings") / f"{name}.md"
        if not (args.root / page).is_file():
            problems.append(f"{page}:1: missing, but the program lists the encoding {name}")
    problems += check_readme(args.root)
    finish("docs", problems, len(names) + 1)


if __name__ == "__main__":
    main()
