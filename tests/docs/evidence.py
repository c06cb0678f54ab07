"""Every page of docs/evidence agrees with its committed runs, and every evidence file has its page.

    evidence.py --root SOURCE --posenc PROGRAM
"""

import argparse
import subprocess
import sys
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--posenc", required=True)
    args = parser.parse_args()
    names = sorted(path.stem for path in (args.root / "configs/evidence").glob("*.yaml"))
    pages = {path.stem for path in (args.root / "docs/evidence").glob("*.md")} - {"README"}
    problems = [f"docs/evidence/{name}.md has no configs/evidence/{name}.yaml" for name in sorted(pages - set(names))]
    index = (args.root / "docs/evidence/README.md").read_text(encoding="utf-8")
    problems += [f"docs/evidence/README.md does not link {name}.md" for name in names if f"({name}.md)" not in index]
    for name in names:
        done = subprocess.run([args.posenc, "reproduce", name, "--check"], cwd=args.root, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            problems.append(f"posenc reproduce {name} --check:\n{done.stdout}")
    print("\n".join(problems + [f"evidence: {len(names)} pages, {len(problems)} problem(s)"]))
    sys.exit(1 if problems or not names else 0)


if __name__ == "__main__":
    main()
