"""Runs the python blocks of every page, each page in one namespace; `>>>` lines are doctests.

    python_blocks.py --root SOURCE       with posenc on PYTHONPATH
"""

import argparse
import doctest
import os
import runpy
import sys
import tempfile
import traceback
from pathlib import Path

from pages import blocks_of, page_paths, prepare


def problem(block, namespace):
    """What is wrong with a block, or None."""
    if ">>> " in block.body:
        test = doctest.DocTestParser().get_doctest(block.body, namespace, block.page, block.page, block.line)
        said = []
        failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append).failed
        return "".join(said) if failed else None
    try:
        exec(compile("\n" * (block.line - 1) + block.body, block.page, "exec"), namespace)
    except Exception:
        return traceback.format_exc(limit=-2)
    return None


def run_setup(script, _folder):
    runpy.run_path(str(script))


def forget_stand_ins(before):
    """What a setup put in place of a package is for its page alone."""
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "transformers":
            del sys.modules[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    args = parser.parse_args()
    root, count, problems = args.root.resolve(), 0, []
    for path in page_paths(root):
        namespace, modules = {"__name__": "__page__"}, set(sys.modules)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for block in blocks_of(root, path):
                if block.language != "python" or not block.runs:
                    continue
                count += 1
                prepare(block, Path(folder), run_setup)
                wrong = problem(block, namespace)
                if wrong:
                    problems.append(f"{block.place}: {wrong}")
            os.chdir(root)
        forget_stand_ins(modules)
    print("\n".join(problems + [f"python: {count} blocks, {len(problems)} problem(s)"]))
    sys.exit(1 if problems or not count else 0)


if __name__ == "__main__":
    main()
