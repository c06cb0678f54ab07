"""Every public header compiles alone, first in a file, and twice in a row (its guard works), without a warning.

A header named *_c.h is for C: it must compile as C99 and as C++11 too. Headers of libtorch have warnings of their
own, so those that include them are only compiled. --clang: a second compiler for all but those, with libstdc++ and,
where it is installed, with libc++.
"""

import argparse
from pathlib import Path

from compiling import add_compiler_options, compile_source, for_each
from rules_lib import finish, read_table, source_files


def layer_of(include_root, header):
    parts = header.relative_to(include_root).parts
    return parts[1] if len(parts) > 2 else None


def languages_of(header, strict):
    """What a header is compiled as: (compiler's name, standard, flags)."""
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"] if strict else []
    languages = [("c++", "c++20", flags)]
    if header.name.endswith("_c.h"):
        languages += [("c", "c99", flags), ("c++", "c++11", flags)]
    return languages


def has_libcpp(args):
    """Whether clang finds the headers of libc++."""
    flags = ["-stdlib=libc++"]
    return bool(args.clang) and compile_source(args, Path("probe"), "#include <vector>\n", flags=flags,
                                               compiler=args.clang)[0]


def compilations(args, header, strict):
    """(name, compiler, language, standard, flags) of all ways in which a header is compiled."""
    for compiler in [args.compiler, *([args.clang] if args.clang and strict else [])]:
        for language, standard, flags in languages_of(header, strict):
            yield Path(compiler).name, compiler, language, standard, flags
    if args.libcpp and strict:
        language, standard, flags = languages_of(header, strict)[0]
        yield f"{Path(args.clang).name} and libc++", args.clang, language, standard, [*flags, "-stdlib=libc++"]


def check_header(args, include_root, root, header, strict):
    """The problem of one header, or None."""
    name = header.relative_to(include_root).as_posix()
    text = f"#include <{name}>\n#include <{name}>\n"
    for how, compiler, language, standard, flags in compilations(args, header, strict):
        ok, diagnostics = compile_source(args, header, text, language, standard, flags, compiler)
        if not ok:
            lines = diagnostics.splitlines()
            first = next((line for line in lines if "error" in line), diagnostics)
            return f"{header.relative_to(root)}:1: does not compile alone as {standard} with {how}: {first}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--table", type=Path, help="default: <root>/cmake/PosencLayers.cmake")
    parser.add_argument("--clang", default="", help="clang++, where there is one")
    parser.add_argument("--torch", action="store_true", help="the flags reach libtorch's headers")
    add_compiler_options(parser)
    args = parser.parse_args()
    include_root = args.root / "include"
    args.include.insert(0, str(include_root))
    args.libcpp = has_libcpp(args)
    if args.clang and not args.libcpp:
        print("headers: libc++ was not found, so headers are not compiled with it; install libc++-dev")

    _, torch_layers = read_table(args.table or args.root / "cmake/PosencLayers.cmake")
    headers = source_files(include_root)
    if not args.torch:
        headers = [h for h in headers if layer_of(include_root, h) not in torch_layers]
    strict = lambda header: layer_of(include_root, header) not in torch_layers
    found = for_each(lambda h: check_header(args, include_root, args.root, h, strict(h)), headers)
    finish("headers", [problem for problem in found if problem], len(headers))


if __name__ == "__main__":
    main()
