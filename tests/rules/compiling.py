"""Runs the project's compiler on small sources, for the rules about what must (not) compile."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor


def add_compiler_options(parser):
    """The options every compiling rule takes."""
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", action="append", default=[], help="an include directory")
    parser.add_argument("--flag", action="append", default=[], help="one more compiler flag")


def compile_source(args, source, text=None, language="c++", standard="c++20", flags=(), compiler=None):
    """(succeeded, diagnostics) of compiling a file, or `text` under the file's name."""
    command = [compiler or args.compiler, f"-std={standard}", "-fsyntax-only", "-fno-diagnostics-color"]
    command += [f"-I{folder}" for folder in args.include] + args.flag + [*flags, "-x", language]
    command.append("-" if text is not None else str(source))
    environment = dict(os.environ, LC_ALL="C")  # diagnostics in English, quotes in ASCII
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment)
    return done.returncode == 0, done.stderr


def for_each(function, items):
    """The results of function over items, in order, on all cores."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(pool.map(function, items))
