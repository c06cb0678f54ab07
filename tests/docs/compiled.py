"""Compiles the c, cpp and cmake blocks of every page against the installed tree, and runs the programs.

    compiled.py --root SOURCE --build BUILD --work FOLDER [--compiler C++] [--launcher CCACHE]

A block with a main is a program; a text block right after it is what it prints. Other blocks of C++ are
compiled together, each as the body of a function. A cmake block is configured as it stands, around
the target that it links.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pages import blocks_of, matches, page_paths

_HEAD = """cmake_minimum_required(VERSION 3.25...4.0)
project(pages LANGUAGES C CXX)
set(CMAKE_C_STANDARD 99)
find_package(posenc REQUIRED COMPONENTS encodings kernels weights posenc_c)
"""


def name_of(block):
    return re.sub(r"\W+", "_", block.place)


def is_program(block):
    return re.search(r"^int main\(", block.body, re.MULTILINE) is not None


def with_place(block, text):
    """Text that the compiler reports under the page's own lines."""
    return f'#line {block.line} "{block.page}"\n{text}'


def snippets(blocks):
    """One source of all blocks of C++ that are no programs."""
    includes = {line for b in blocks for line in re.findall(r"^#include .*$", b.body, re.MULTILINE)}
    text = "#include <posenc/posenc.h>\n" + "".join(f"{line}\n" for line in sorted(includes))
    for block in blocks:
        body = re.sub(r"^#include .*$", "", block.body, flags=re.MULTILINE)
        text += f"void {name_of(block)}();\nvoid {name_of(block)}() {{\n{with_place(block, body)}}}\n"
    return text


def write_program(block, work):
    """Writes a program's source and returns the lines of CMake that build it."""
    name, suffix = name_of(block), {"c": "c", "cpp": "cc"}[block.language]
    (work / f"{name}.{suffix}").write_text(with_place(block, block.body))
    libraries = "posenc::posenc_c m" if block.language == "c" else "posenc::kernels posenc::weights"
    return f"add_executable({name} {name}.{suffix})\ntarget_link_libraries({name} PRIVATE {libraries})\n"


def write_cmake_block(block, work):
    """A folder with the block as it stands, but for the name of its target: two pages may use one."""
    name = name_of(block)
    target = re.search(r"target_link_libraries\((\w+)", block.body)[1]
    (work / name).mkdir()
    (work / name / "main.cc").write_text("int main() {}\n")
    body = re.sub(rf"\b{target}\b", name, block.body)
    (work / name / "CMakeLists.txt").write_text(f"add_executable({name} main.cc)\n{body}")
    return f"add_subdirectory({name})\n"


def write_project(blocks, work):
    lists = _HEAD
    for block in blocks:
        if block.language == "cmake":
            lists += write_cmake_block(block, work)
        elif is_program(block):
            lists += write_program(block, work)
    rest = [b for b in blocks if b.language == "cpp" and not is_program(b)]
    (work / "snippets.cc").write_text(snippets(rest))
    lists += "add_library(snippets OBJECT snippets.cc)\n"
    lists += "target_link_libraries(snippets PRIVATE posenc::kernels posenc::weights)\n"
    (work / "CMakeLists.txt").write_text(lists)


def build(args, work):
    """What went wrong, or None."""
    steps = [["cmake", "--install", args.build, "--prefix", work / "prefix"],
             ["cmake", "-G", "Ninja", "-S", work, "-B", work / "build", "-DCMAKE_BUILD_TYPE=Debug",
              f"-DCMAKE_CXX_COMPILER={args.compiler}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={args.launcher}",
              f"-DCMAKE_PREFIX_PATH={work / 'prefix'};{args.prefixes}"],
             ["cmake", "--build", work / "build"]]
    for step in steps:
        done = subprocess.run(step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            return done.stdout
    return None


def problem(block, shown, work):
    """What is wrong with what a program prints, or None."""
    done = subprocess.run([work / "build" / name_of(block)], stdout=subprocess.PIPE, text=True, timeout=60)
    if done.returncode != 0:
        return f"{block.place}: exit status {done.returncode}"
    if shown is None:
        return f"{block.place}: the page does not show what the program prints (a text block after it)"
    return None if matches(shown, done.stdout) else (
        f"{block.place}: the page shows\n{shown}but the program printed\n{done.stdout}")


def outputs(page_blocks):
    """Pairs (program, the text block after it or None)."""
    following = page_blocks[1:] + [None]
    return [(b, n.body if n is not None and n.language == "text" else None)
            for b, n in zip(page_blocks, following)
            if b.language in ("c", "cpp") and b.runs and is_program(b)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--root", "--build", "--work"):
        parser.add_argument(option, type=Path, required=True)
    for option, default in (("--compiler", "c++"), ("--launcher", ""), ("--prefixes", "")):
        parser.add_argument(option, default=default)
    args = parser.parse_args()
    pages = [blocks_of(args.root, path) for path in page_paths(args.root)]
    blocks = [b for page in pages for b in page if b.language in ("c", "cpp", "cmake") and b.runs]
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    write_project(blocks, args.work)
    failed = build(args, args.work)
    if failed:
        sys.exit(failed)
    wrong = [problem(b, shown, args.work) for page in pages for b, shown in outputs(page)]
    wrong = [w for w in wrong if w]
    print("\n".join(wrong + [f"compiled: {len(blocks)} blocks, {len(wrong)} problem(s)"]))
    sys.exit(1 if wrong or not blocks else 0)


if __name__ == "__main__":
    main()
