"""Runs the console blocks of every page and compares what they print with what the page shows.

    console.py --root SOURCE --bin FOLDER_OF_POSENC [PAGE...]

The blocks of a page share one folder. `$ cat NAME` of a file that is not there writes it as shown.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pages import blocks_of, matches, page_paths, prepare


def commands(block):
    """Triples (line, command, what the page shows below it)."""
    found = []
    for number, line in enumerate(block.body.split("\n")[:-1], start=block.line):
        if line.startswith("$ "):
            found.append([number, line[2:], ""])
        elif found:
            found[-1][2] += line + "\n"
    return found


def write_shown_file(command, shown, folder):
    words = command.split()
    if len(words) == 2 and words[0] == "cat" and not (folder / words[1]).exists():
        (folder / words[1]).write_text(shown, encoding="utf-8")


def problem(command, shown, folder, environment):
    """What is wrong with a command, or None. Output that a page leaves out is not compared."""
    write_shown_file(command, shown, folder)
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    mistake = shown.startswith("posenc: ")
    if (done.returncode == 2) != mistake or done.returncode not in (0, 2):
        return f"exit status {done.returncode}, printed:\n{done.stdout}"
    if shown and not matches(shown, done.stdout):
        return f"the page shows\n{shown}but it printed\n{done.stdout}"
    return None


def run_page(root, path, environment):
    """(commands run, problems) of a page."""
    problems, count = [], 0
    setup = lambda script, folder: subprocess.run([sys.executable, script], cwd=folder, check=True)
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks_of(root, path):
            if not block.runs:
                continue
            # A block of Python is set up by the Python that runs it, which has torch (python_blocks.py).
            prepare(block, Path(folder), setup if block.language != "python" else lambda script, folder: None)
            if block.language != "console":
                continue
            for line, command, shown in commands(block):
                count += 1
                wrong = problem(command, shown, Path(folder), environment)
                if wrong:
                    problems.append(f"{block.page}:{line}: {command}\n{wrong}")
    return count, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("pages", nargs="*", type=Path)
    args = parser.parse_args()
    environment = dict(os.environ, PATH=f"{args.bin}:{os.environ['PATH']}", LC_ALL="C.UTF-8")
    total, problems = 0, []
    for path in args.pages or page_paths(args.root):
        count, wrong = run_page(args.root, path.resolve(), environment)
        total += count
        problems += wrong
    print("\n".join(problems + [f"console: {total} commands, {len(problems)} problem(s)"]))
    sys.exit(1 if problems or not total else 0)


if __name__ == "__main__":
    main()
