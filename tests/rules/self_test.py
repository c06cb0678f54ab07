"""The rules are proved by what must break them.

A fixture tree holds offending lines, each marked OFFENDS; the rule must exit with 1 and name
exactly these lines. A tree named `good` must pass. Run: self_test.py --compiler c++ --table FILE
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIXTURES = HERE / "fixtures"
OPTIONS = argparse.Namespace(compiler="c++", table="")


def run(rule, *arguments):
    """(exit status, output) of a rule."""
    command = [sys.executable, str(HERE / f"check_{rule}.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def marked_lines(tree):
    """The `file:line` of every line marked OFFENDS."""
    found = set()
    for path in tree.rglob("*"):
        if path.is_file():
            for number, line in enumerate(path.read_text().split("\n"), start=1):
                if "OFFENDS" in line:
                    found.add(f"{path.relative_to(tree)}:{number}")
    return found


def named_lines(output):
    return set(re.findall(r"^(\S+?:\d+): ", output, re.MULTILINE))


class SourceRules(unittest.TestCase):
    """Rules that read sources: the marked lines are found, and nothing else is."""

    def check_pair(self, rule):
        table = ["--table", OPTIONS.table]
        bad = FIXTURES / rule / "bad"
        status, output = run(rule, "--root", bad, *table)
        self.assertEqual(status, 1, output)
        self.assertEqual(named_lines(output), marked_lines(bad), output)
        status, output = run(rule, "--root", FIXTURES / rule / "good", *table)
        self.assertEqual(status, 0, output)

    def test_layers(self):
        self.check_pair("layers")

    def test_printing(self):
        self.check_pair("printing")

    def test_pins(self):
        self.check_pair("pins")

    def test_unknown_layer_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "src/nowhere").mkdir(parents=True)
            status, output = run("layers", "--root", folder, "--table", OPTIONS.table)
        self.assertEqual((status, named_lines(output)), (1, {"src/nowhere:1"}), output)

    def test_layers_that_the_guide_leaves_out_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for layer in ("src/library/core", "src/system"):
                (root / layer).mkdir(parents=True)
            guide = "## Layout\n\n  core/  x\n\n## The layer rule\n\nsystem\n\n## Style\n"
            (root / "CONTRIBUTING.md").write_text(guide)
            status, output = run("layers", "--root", folder, "--table", OPTIONS.table)
        self.assertEqual((status, named_lines(output)), (1, {"CONTRIBUTING.md:1", "CONTRIBUTING.md:5"}), output)
        self.assertIn("does not name the layer system", output)
        self.assertIn("does not name the layer core", output)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            src = Path(folder) / "src"
            src.mkdir()
            (src / "long.cc").write_text("//\n" * 801)
            (src / "just_short_enough.cc").write_text("//\n" * 800)
            (src / "CamelCase.h").write_text("//\n")
            status, output = run("files", "--root", folder)
        self.assertEqual(status, 1, output)
        self.assertEqual(named_lines(output), {"src/long.cc:801", "src/CamelCase.h:1"}, output)


class PackagingRule(unittest.TestCase):
    """A copy of the files that the rule reads, with one mistake at a time."""

    MISTAKES = (
        ("CITATION.cff", "version: 0.", "version: 9.", "CITATION.cff: version is 9."),
        ("CITATION.cff", "license: MIT", "", "CITATION.cff: license is missing"),
        ("CITATION.cff", "- name:", "- alias:", "has no name"),
        ("REUSE.toml", "web/vendor/", "web/gone/", "web/gone/uplot/** names no file"),
        ("LICENSE", "MIT", "BSD", "LICENSES/MIT.txt: differs"),
        ("include/posenc/core/version.h", 'STRING "0.', 'STRING "9.', "is not the version of the three numbers"),
        ("include/posenc/core/version.h", "License-Identifier: MIT", "License: MIT", "version.h: the last line must be"),
        ("packaging/vcpkg/vcpkg.json", '"version": "0.', '"version": "9.', "vcpkg.json: version is 9."),
        ("packaging/debian/changelog", "posenc (0.", "posenc (9.", "control: version is 9."),
        ("packaging/debian/control", "libpng-dev,", "libgif-dev,", "control: lacks libpng-dev"),
        ("packaging/conan/conanfile.py", "highway/", "lowway/", "conanfile.py: lacks highway"),
        ("packaging/conda/recipe.yaml", "- libhwy", "- libway", "recipe.yaml: lacks libhwy"),
        ("packaging/vcpkg/portfile.cmake", "POSENC_BUILD_CLI", "POSENC_CLI", "POSENC_CLI is no option"),
        ("packaging/Containerfile", "tools/deb.sh", "tools/rpm.sh", "tools/rpm.sh does not exist"),
        ("cmake/PosencDependencies.cmake", "posenc_require_RSVG", "posenc_require_GIF", "GIF and the lists"),
        ("tools/packages.txt", "libhwy-dev ", "libway-dev ", "[build] lacks libhwy-dev"),
        ("tools/packages.txt", "[wheel]\n", "libgtest-dev x\n[wheel]\n", "libgtest-dev is for tests alone"),
        ("tools/packages.txt", "[cluster]", "[clusters]", "Makefile: installs [cluster], which is no section"),
        (".ci/run", "setup.sh build wheel test", "setup.sh build wheel", ".ci/run: does not install [test]"),
    )

    def test_each_mistake_is_named(self):
        source = HERE.parent.parent
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            for part in ("packaging", "LICENSES", "tools", "web/vendor", "cmake", "include/posenc/core"):
                shutil.copytree(source / part, root / part)
            for part in ("CITATION.cff", "REUSE.toml", "LICENSE", "CMakeLists.txt", "Makefile", ".ci/run"):
                (root / part).parent.mkdir(exist_ok=True)
                shutil.copyfile(source / part, root / part)
            self.assertEqual(run("packaging", "--root", root)[0], 0)
            for file, old, new, expected in self.MISTAKES:
                text = (root / file).read_text()
                self.assertIn(old, text, file)
                (root / file).write_text(text.replace(old, new))
                status, output = run("packaging", "--root", root)
                (root / file).write_text(text)
                self.assertEqual(status, 1, f"{file}: {new}")
                self.assertIn(expected, output)


class CompilingRules(unittest.TestCase):
    """Rules that call the compiler."""

    def test_headers(self):
        common = ["--compiler", OPTIONS.compiler, "--table", OPTIONS.table]
        status, output = run("headers", "--root", FIXTURES / "headers/bad", *common)
        self.assertEqual(status, 1, output)
        folder = "include/posenc/core"
        expected = {f"{folder}/{name}.h:1" for name in ["not_alone", "no_guard", "warns"]}
        expected |= {f"include/posenc/{name}_c.h:1" for name in ["needs_cpp", "warns"]}
        self.assertEqual(named_lines(output), expected, output)
        status, output = run("headers", "--root", FIXTURES / "headers/good", *common)
        self.assertEqual(status, 0, output)

    def test_headers_with_a_second_compiler(self):
        status, output = self.run_with_clang("echo 'error: not for clang' >&2; exit 1")
        self.assertEqual(status, 1, output)
        self.assertIn("with clang++: error: not for clang", output)

    def run_with_clang(self, script):
        """The rule over good headers, with a stand-in for clang++."""
        with tempfile.TemporaryDirectory() as folder:
            clang = Path(folder) / "clang++"
            clang.write_text(f"#!/bin/sh\n{script}\n")
            clang.chmod(0o755)
            return run("headers", "--root", FIXTURES / "headers/good", "--compiler", OPTIONS.compiler,
                       "--table", OPTIONS.table, "--clang", clang)

    def test_headers_with_another_standard_library(self):
        libcpp = 'case "$*" in *-stdlib=libc++*)'
        status, output = self.run_with_clang(f"{libcpp} if grep -q posenc; then echo 'error: no <format>' >&2; exit 1; fi;; esac")
        self.assertEqual(status, 1, output)
        self.assertIn("with clang++ and libc++: error: no <format>", output)
        status, output = self.run_with_clang(f"{libcpp} exit 1;; esac")
        self.assertEqual(status, 0, output)
        self.assertIn("install libc++-dev", output)

    def test_negative(self):
        for name, expected in [("compiles", "compiles, but must fail"),
                               ("wrong_reason", "fails, but not with"),
                               ("no_expectation", "the first line must be")]:  # fmt: skip
            path = FIXTURES / f"negative/{name}.cc"
            status, output = run("negative", "--compiler", OPTIONS.compiler, path)
            self.assertEqual(status, 1, output)
            self.assertIn(f"{path}:1: {expected}", output)
        good = FIXTURES / "negative/good.cc"
        status, output = run("negative", "--compiler", OPTIONS.compiler, good)
        self.assertEqual(status, 0, output)

    def library_status(self, folder, code):
        """Verdict of the symbol rule on a library made of `code`."""
        source, thing, library = (Path(folder) / n for n in ["thing.cc", "thing.o", "libthing.a"])
        source.write_text(code)
        subprocess.run([OPTIONS.compiler, "-O2", "-c", source, "-o", thing], check=True)
        subprocess.run(["ar", "rcs", library, thing], check=True)
        return run("symbols", library)

    def test_symbols(self):
        with tempfile.TemporaryDirectory() as folder:
            for code, symbol in [
                ('#include <cstdio>\nvoid f() { std::puts("x"); }', "puts"),
                ("#include <cstdlib>\nvoid f() { std::abort(); }", "abort"),
                ("#include <iostream>\nvoid f() { std::cout << 1; }", "std::cout"),
                ("#include <cassert>\nvoid f(int x) { assert(x); }", "__assert_fail"),
            ]:
                status, output = self.library_status(folder, code)
                self.assertEqual(status, 1, output)
                self.assertIn(f"libthing.a(thing.o): a library may not use {symbol}\n", output)
            fine = "void g();\nvoid f() noexcept { g(); }  // refers to std::terminate"
            status, output = self.library_status(folder, fine)
            self.assertEqual(status, 0, output)


    def exports_status(self, folder, code, flags=()):
        """Verdict of the export rule on a shared library made of `code`."""
        header, source, library = (Path(folder) / n for n in ["api.h", "api.cc", "libapi.so"])
        header.write_text("POSENC_C_API int posenc_a(void);\nPOSENC_C_API const char *posenc_b(\n"
                          "    int x);\n// POSENC_C_API int posenc_gone(void);\n")  # fmt: skip
        source.write_text(code)
        command = [OPTIONS.compiler, "-shared", "-fPIC", *flags, source, "-o", library]
        subprocess.run(command, check=True)
        return run("exports", "--header", header, library)

    def test_exports(self):
        both = 'extern "C" int posenc_a() { return 1; }\n'
        both += 'extern "C" const char* posenc_b(int) { return ""; }\n'
        with tempfile.TemporaryDirectory() as folder:
            status, output = self.exports_status(folder, both)
            self.assertEqual(status, 0, output)
            other = "namespace other { int f() { return 1; } }"
            status, output = self.exports_status(folder, both + other)
            self.assertEqual(status, 1, output)
            self.assertIn("libapi.so: exports _ZN5other1fEv, which api.h lacks\n", output)
            status, output = self.exports_status(folder, both + 'extern "C" { int posenc_c = 1; }')
            self.assertEqual(status, 1, output)
            self.assertIn("exports posenc_c,", output)
            status, output = self.exports_status(folder, both.split("\n")[0])
            self.assertEqual(status, 1, output)
            self.assertIn("api.h:2: posenc_b is not exported by libapi.so\n", output)
            status, output = self.exports_status(folder, both, ["-fvisibility=hidden"])
            self.assertEqual(status, 1, output)


class ExamplesRule(unittest.TestCase):
    """The rule that every block of code runs or says why not."""

    def test_blocks(self):
        page = ["# Page", "```console", "$ posenc list", "```", "```bash", "posenc list  # OFFENDS", "```",
                "<!-- not run: needs a GPU -->", "```bash", "posenc bench", "```",
                "<!-- not run: later -->", "```cpp", "int x;  // OFFENDS", "```",
                "```console", "posenc list without a prompt OFFENDS", "```", "```text", "output", "```"]
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "README.md").write_text("\n".join(page) + "\n")
            status, output = run("examples", "--root", folder)
            expected = marked_lines(Path(folder))
        self.assertEqual((status, named_lines(output)), (1, expected), output)


class DocsRule(unittest.TestCase):
    """The rule that asks the program for its list."""

    def test_docs(self):
        with tempfile.TemporaryDirectory() as folder:
            pages = Path(folder) / "docs/encodings"
            pages.mkdir(parents=True)
            (pages / "rope.md").write_text("# RoPE\n")
            readme = Path(folder) / "README.md"
            readme.write_text("line\n" * 150)
            program = Path(folder) / "fake.py"
            program.write_text("""print('{"encodings": [{"name": "rope"}, {"name": "new"}]}')""")
            command = ["--root", folder, "--cli", sys.executable, program]
            status, output = run("docs", *command)
            self.assertEqual((status, named_lines(output)), (1, {"docs/encodings/new.md:1"}))
            (pages / "new.md").write_text("# New\n")
            status, output = run("docs", *command)
            self.assertEqual(status, 0, output)
            readme.write_text("line\n" * 151)
            status, output = run("docs", *command)
            self.assertEqual((status, named_lines(output)), (1, {"README.md:151"}))


class SiteRule(unittest.TestCase):
    """The rule about the pages of the site: this tree passes, and each mistake in a copy of its pages is named."""

    def copy_of_pages(self, folder):
        tree = HERE.parent.parent
        for path in tree.iterdir():
            if path.name not in ("docs", "build") and not path.name.startswith("."):
                (folder / path.name).symlink_to(path)
        shutil.copytree(tree / "docs", folder / "docs",
                        copy_function=lambda a, b: (shutil.copy if a.endswith((".md", ".py")) else os.symlink)(a, b))

    def test_site(self):
        mistakes = {"docs/site/index.md": ("docs/releases\n", "docs/nowhere\n"),
                    "docs/tour.md": ("# A tour", "[a](nowhere.md) [b](../web/build.mjs) [c](tour.md#nowhere)\n# A tour"),
                    "docs/README.md": ("(tour.md)", "(glossary.md)")}
        expected = {"docs/site/index.md:1", "docs/releases.md:1", "docs/tour.md:1"}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.copy_of_pages(folder)
            status, output = run("site", "--root", folder)
            self.assertEqual(status, 0, output)
            for page, (old, new) in mistakes.items():
                text = (folder / page).read_text(encoding="utf-8")
                self.assertIn(old, text)
                (folder / page).write_text(text.replace(old, new, 1), encoding="utf-8")
            status, output = run("site", "--root", folder)
        self.assertEqual((status, named_lines(output)), (1, expected), output)
        for what in ("which is no page", "in no toctree", "no such file", "no such heading", "not in STAGED",
                     "does not link it"):
            self.assertIn(what, output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--table", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
