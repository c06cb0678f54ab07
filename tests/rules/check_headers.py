"""Every public header compiles alone, first in a file, and twice in a row (its guard works), without a warning.

A header named *_c.h is for C: it must compile as C99 and as C++11 too. Headers of libtorch have warnings of their
own, so those that include them are only compiled. --clang: a second compiler for all but those, in one source, with
libstdc++ and, where it is installed, with libc++.
"""

import argparse
from pathlib import Path

from compiling import add_compiler_options, compile_source, for_each
from rules_lib import finish, read_table, source_files

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]


def layer_of(include_root, header):
    parts = header.relative_to(include_root).parts
    return parts[1] if len(parts) > 2 else None


def languages_of(header, flags):
    """What a header is compiled as: (compiler's name, standard, flags)."""
    languages = [("c++", "c++20", flags)]
    if header.name.endswith("_c.h"):
        languages += [("c", "c99", flags), ("c++", "c++11", flags)]
    return languages


def has_libcpp(args):
    """Whether clang finds the headers of libc++."""
    flags = ["-stdlib=libc++"]
    return bool(args.clang) and compile_source(args, Path("probe"), "#include <vector>\n", flags=flags,
                                               compiler=args.clang)[0]


def first_error(diagnostics):
    return next((line for line in diagnostics.splitlines() if "error" in line), diagnostics)


def check_header(args, include_root, root, header, flags):
    """The problem of one header with the first compiler, or None."""
    name = header.relative_to(include_root).as_posix()
    text = f"#include <{name}>\n#include <{name}>\n"
    for language, standard, options in languages_of(header, flags):
        ok, diagnostics = compile_source(args, header, text, language, standard, options)
        if not ok:
            return (f"{header.relative_to(root)}:1: does not compile alone as {standard} with "
                    f"{Path(args.compiler).name}: {first_error(diagnostics)}")
    return None


def second_compilations(args, headers):
    """(how, headers, language, standard, flags) of what the second compiler reads: all headers in one source."""
    for_c = [header for header in headers if header.name.endswith("_c.h")]
    name = Path(args.clang).name
    yield name, headers, "c++", "c++20", STRICT
    if for_c:
        yield name, for_c, "c", "c99", STRICT
        yield name, for_c, "c++", "c++11", STRICT
    if args.libcpp:
        yield f"{name} and libc++", headers, "c++", "c++20", [*STRICT, "-stdlib=libc++"]


def check_together(args, include_root, compilation):
    """The problem of all headers in one source, or None. That each compiles alone is the first compiler's part."""
    how, headers, language, standard, flags = compilation
    names = [header.relative_to(include_root).as_posix() for header in headers]
    text = "".join(f"#include <{name}>\n" for name in names)
    ok, diagnostics = compile_source(args, include_root, text, language, standard, flags, args.clang)
    return None if ok else f"headers do not compile as {standard} with {how}: {first_error(diagnostics)}"


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
    strict = [h for h in headers if layer_of(include_root, h) not in torch_layers]
    flags = lambda header: STRICT if header in strict else []
    second = list(second_compilations(args, strict)) if args.clang else []
    found = for_each(lambda c: check_together(args, include_root, c), second)
    found += for_each(lambda h: check_header(args, include_root, args.root, h, flags(h)), headers)
    finish("headers", [problem for problem in found if problem], len(headers))


if __name__ == "__main__":
    main()
