"""Packages say what the tree says: their versions, their dependencies, their licences, and who to cite."""

import argparse
import json
import re
import tomllib
from pathlib import Path

import yaml
from rules_lib import finish

# What posenc_require names, by package manager. Every recipe has those that its build needs.
LIBRARIES = ("fmt", "yaml-cpp", "nlohmann_json", "hwy")
PROGRAMS = ("CLI11", "PNG", "RSVG", "microhttpd")
NAMES = {
    "vcpkg": {"hwy": "highway", "nlohmann_json": "nlohmann-json"},
    "conan": {"hwy": "highway"},
    "conda": {"hwy": "libhwy", "CLI11": "cli11", "PNG": "libpng", "RSVG": "librsvg", "microhttpd": "libmicrohttpd"},
    "debian": {"fmt": "libfmt-dev", "yaml-cpp": "libyaml-cpp-dev", "nlohmann_json": "nlohmann-json3-dev",
               "hwy": "libhwy-dev", "CLI11": "libcli11-dev", "PNG": "libpng-dev", "RSVG": "librsvg2-dev",
               "microhttpd": "libmicrohttpd-dev"},
}
TEST_ONLY = ("libgtest-dev", "googletest", "libbenchmark-dev", "python3-pytest", "python3-mypy", "openmpi-bin", "fish")
SPDX = "// SPDX-License-Identifier: MIT"
CITATION_KEYS = ("cff-version", "message", "title", "authors", "version", "license")
CLONE_ONLY = {"build", "dist", "runs", "node_modules", ".git", "__pycache__"}


def tree_version(root):
    header = (root / "include/posenc/core/version.h").read_text(encoding="utf-8")
    return ".".join(re.search(rf"POSENC_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


def check_header(root):
    """The string of the version is its three numbers."""
    header = (root / "include/posenc/core/version.h").read_text(encoding="utf-8")
    if f'POSENC_VERSION_STRING "{tree_version(root)}"' not in header:
        yield "include/posenc/core/version.h: POSENC_VERSION_STRING is not the version of the three numbers"


def check_citation(root):
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    for key in CITATION_KEYS:
        if not citation.get(key):
            yield f"CITATION.cff: {key} is missing"
    if citation.get("version") != tree_version(root):
        yield f"CITATION.cff: version is {citation.get('version')}, the tree's is {tree_version(root)}"
    for author in citation.get("authors") or []:
        if not {"name", "family-names"} & author.keys():
            yield f"CITATION.cff: the author {author} has no name"


def check_licences(root):
    """Every table of REUSE.toml names files that exist and a licence whose text is in LICENSES."""
    tables = tomllib.loads((root / "REUSE.toml").read_text(encoding="utf-8"))["annotations"]
    for table in tables:
        if not any(root.glob(table["path"])):
            yield f"REUSE.toml: {table['path']} names no file"
        if not (root / "LICENSES" / f"{table['SPDX-License-Identifier']}.txt").is_file():
            yield f"REUSE.toml: LICENSES/{table['SPDX-License-Identifier']}.txt is missing"
    if tables[0]["path"] != "**":
        yield "REUSE.toml: the first table must be of all files, **"
    if (root / "LICENSES/MIT.txt").read_bytes() != (root / "LICENSE").read_bytes():
        yield "LICENSES/MIT.txt: differs from LICENSE"


def check_header_licences(root):
    """Public headers leave the tree when they are installed, so the last line of each states its licence."""
    for header in sorted((root / "include/posenc").rglob("*.h")):
        if not header.read_text(encoding="utf-8").endswith(f"\n{SPDX}\n"):
            yield f"{header.relative_to(root)}: the last line must be {SPDX}"


def recipes(root):
    """(manager, file, version or None where it is read from the header, dependencies) of each recipe."""
    folder = root / "packaging"
    vcpkg = json.loads((folder / "vcpkg/vcpkg.json").read_text(encoding="utf-8"))
    names = {one if isinstance(one, str) else one["name"] for one in vcpkg["dependencies"]}
    yield "vcpkg", folder / "vcpkg/vcpkg.json", vcpkg["version"], names
    conan = (folder / "conan/conanfile.py").read_text(encoding="utf-8")
    compile(conan, "conanfile.py", "exec")
    yield "conan", folder / "conan/conanfile.py", None, set(re.findall(r'requires\("([\w-]+)/', conan))
    conda = yaml.safe_load((folder / "conda/recipe.yaml").read_text(encoding="utf-8"))
    host = {line.split()[0] for line in conda["requirements"]["host"]}
    yield "conda", folder / "conda/recipe.yaml", conda["context"]["version"], host
    changelog = (folder / "debian/changelog").read_text(encoding="utf-8")
    control = (folder / "debian/control").read_text(encoding="utf-8")
    depends = re.search(r"^Build-Depends: (.*?)^\S", control, re.M | re.S).group(1)
    yield ("debian", folder / "debian/control", re.match(r"posenc \((.*)-\d+\)", changelog).group(1),
           set(re.findall(r"([\w+.-]+)(?: \([^)]*\))?,?\n", depends)))


def check_recipes(root):
    for manager, path, version, dependencies in recipes(root):
        where = path.relative_to(root)
        if version not in (None, tree_version(root)):
            yield f"{where}: version is {version}, the tree's is {tree_version(root)}"
        for library in LIBRARIES + (PROGRAMS if manager in ("conda", "debian") else ()):
            name = NAMES[manager].get(library, library)
            if name not in dependencies:
                yield f"{where}: lacks {name}, which cmake/PosencDependencies.cmake requires"


def check_requirements(root):
    """The table of dependencies here is that of the build."""
    text = (root / "cmake/PosencDependencies.cmake").read_text(encoding="utf-8")
    required = set(re.findall(r"^macro\(posenc_require_([\w-]+)\)", text, re.M))
    elsewhere = {"Threads", "GTest", "benchmark", "OpenBLAS", "Torch", "xla_ffi"}  # no recipe needs them, or by another name
    for name in sorted(required ^ elsewhere ^ {*LIBRARIES, *PROGRAMS}):
        yield f"cmake/PosencDependencies.cmake: {name} and the lists of tests/rules/check_packaging.py differ"


def check_files(root):
    """Files that the recipes take from the tree exist, and the options they set are the build's."""
    cmake = (root / "CMakeLists.txt").read_text(encoding="utf-8")
    options = set(re.findall(r"^option\((POSENC_\w+)", cmake, re.M))
    for path in sorted((root / "packaging").rglob("*")):
        if not path.is_file() or CLONE_ONLY & set(path.parts):
            continue
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"-D(POSENC_\w+)=", text):
            if name not in options:
                yield f"{path.relative_to(root)}: {name} is no option of CMakeLists.txt"
        for name in re.findall(r"`((?:tools|packaging|\.\./tools)/[\w./-]+)`|\b(tools/\w+\.sh)\b", text):
            named = (name[0] or name[1]).removeprefix("../")
            if not (root / named).exists():
                yield f"{path.relative_to(root)}: {named} does not exist"


def groups_of(root):
    """The sections of tools/packages.txt: the names of packages in each."""
    groups = {}
    for line in (root / "tools/packages.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            names = groups.setdefault(line.strip("[]"), set())
        elif line and not line.startswith("#"):
            names.update(re.split(r"[|@]", line.split()[0]))
    return groups


def check_groups(root):
    """`make demo` installs what the programs need and no test library; CI installs what every target needs."""
    groups = groups_of(root)
    for name in sorted({*NAMES["debian"].values(), "libtorch-dev", "libgloo-dev"} - groups["build"]):
        yield f"tools/packages.txt: [build] lacks {name}, which the programs need"
    for name in TEST_ONLY:
        found = sorted(group for group in groups if name in groups[group])
        if found != ["test"]:
            yield f"tools/packages.txt: {name} is for tests alone, so it belongs in [test], not in {found}"
    called = {}
    for path in ("Makefile", ".ci/run"):
        calls = re.findall(r"tools/setup\.sh([ a-z]+)", (root / path).read_text(encoding="utf-8"))
        called[path] = {group for words in calls for group in words.split()}
        for group in sorted(called[path] - groups.keys()):
            yield f"{path}: installs [{group}], which is no section of tools/packages.txt"
    for group in ("build", "wheel", "test", "check", "web"):
        if group not in called[".ci/run"]:
            yield f".ci/run: does not install [{group}], and starts on fresh machines"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    root = parser.parse_args().root.resolve()
    checks = (check_header, check_citation, check_licences, check_header_licences, check_recipes, check_requirements,
              check_files, check_groups)
    finish("packaging", [problem for check in checks for problem in check(root)], len(checks))


if __name__ == "__main__":
    main()
