"""Applies the worked example of CONTRIBUTING.md to a copy of the sources, builds it and runs the tests it names.

    worked_example.py --root SOURCE [--work FOLDER] [--jobs N] [--cuda-compiler NVCC]

A step names its file and shows it whole (```cpp) or as a change (```diff, hunks between lines of @@). Whatever is
built is built from the page, so that the page is true.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

_STEP = re.compile(r"^\*\*\d+\. `([^`]+)`\*\*(.*?)(?=^\*\*\d+\. |^## |\Z)", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^```(cpp|diff)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COPIED = ("CMakeLists.txt", "benchmarks", "cmake", "configs", "docs", "examples", "include", "python", "src", "tests", "web")
_TESTS = {
    "encodings": "Bias.*",
    "cases": "*CaseTable*:CaseGradients.*",
    "torch": "ComposedAttention.*:*Attention*",
    "capi": "CAttention.*",
}


def steps(page):
    """(file, kind, text) of each step that shows one.

    >>> steps("**1. `a.h`**: new\\n```cpp\\nint a;\\n```\\n**2. `b.h`**\\n```diff\\n@@\\n x\\n+y\\n```\\n**3. `c.md`**\\n")
    [('a.h', 'cpp', 'int a;\\n'), ('b.h', 'diff', '@@\\n x\\n+y\\n')]
    """
    found = []
    for step in _STEP.finditer(page):
        block = _BLOCK.search(step[2])
        if block:
            found.append((step[1], block[1], block[2]))
    return found


def changed(text, diff):
    """The text with the hunks of a diff applied; each must fit one place.

    >>> changed("a\\nb\\nc\\n", "@@\\n a\\n+x\\n@@\\n-c\\n+d\\n")
    'a\\nx\\nb\\nd\\n'
    """
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE)[1:]:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        after = "".join(line[1:] for line in lines if line[0] in " +")
        if text.count(before) != 1:
            raise SystemExit(f"worked_example: {text.count(before)} places fit the hunk\n{hunk}")
        text = text.replace(before, after)
    return text


def applied(root):
    """The files of the steps with their new texts."""
    files = {}
    for name, kind, text in steps((root / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        path = root / name
        if kind == "diff":
            text = changed(path.read_text(encoding="utf-8"), text)
        elif path.exists():
            raise SystemExit(f"worked_example: {name} is there already; the example must add it")
        files[name] = text
    if len(files) < 3:
        raise SystemExit(f"worked_example: CONTRIBUTING.md must show three files or more but shows {len(files)}")
    print("worked_example: the steps fit:", *files)
    return files


def copy_sources(root, copy):
    copy.mkdir(parents=True)
    for name in _COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
        else:
            shutil.copy2(root / name, copy / name)


def run(*command):
    print("+", *command, flush=True)
    status = subprocess.run([str(word) for word in command], check=False).returncode
    if status != 0:
        raise SystemExit(f"worked_example: {command[0]} ended with {status}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="where to build; without it, only see that the steps fit")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--cuda-compiler", default=shutil.which("nvcc"))
    args = parser.parse_args()
    files = applied(args.root)
    if args.work is None:
        return
    copy, build = args.work / "source", args.work / "build"
    shutil.rmtree(copy, ignore_errors=True)
    copy_sources(args.root, copy)
    for name, text in files.items():
        (copy / name).write_text(text, encoding="utf-8")
    # Little optimisation: compiling takes most of the time.
    run("cmake", "-S", copy, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=",
        "-DPOSENC_FEW_SIMD_TARGETS=ON", "-DPOSENC_BUILD_CLI=OFF", "-DPOSENC_BUILD_BENCHMARKS=OFF")
    run("cmake", "--build", build, "-j", args.jobs, "--target", *[f"posenc_{layer}_tests" for layer in _TESTS])
    for layer, tests in _TESTS.items():
        run(build / "bin" / f"posenc_{layer}_tests", f"--gtest_filter={tests}", "--gtest_brief=1")
    if args.cuda_compiler:
        run(args.cuda_compiler, "-std=c++20", "-arch=sm_90a", "--expt-relaxed-constexpr", f"-I{copy}/include",
            f"-I{copy}/src/library", "-c", copy / "src/library/kernels/cuda/bias_table.cu", "-o", args.work / "bias_table.o")
    print("worked_example: 0 problem(s)")


if __name__ == "__main__":
    sys.exit(main())
