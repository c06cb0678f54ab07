"""The target posenc_installed builds every file that `cmake --install` takes from the build tree, and no tests."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

# Built by the compiler, a linker or a command; files that CMake itself writes when it configures are there already.
_INSTALLED = re.compile(r'file\(INSTALL DESTINATION [^)]*?TYPE (?:STATIC_LIBRARY|SHARED_LIBRARY|EXECUTABLE)[^)]*?"([^"]+)"')
_TESTS = ("tests/", "benchmarks/")


def installed_files(build):
    """The libraries and programs that the scripts of `cmake --install` copy."""
    scripts = [p for p in build.rglob("cmake_install.cmake") if "tests" not in p.relative_to(build).parts]
    found = {match for script in scripts for match in _INSTALLED.findall(script.read_text(encoding="utf-8"))}
    return {unversioned(Path(file).relative_to(build)) for file in found if Path(file).is_relative_to(build)}


def unversioned(path):
    """libposenc_c.so.2 and its links are one library."""
    return re.sub(r"\.so[.\d]*$", ".so", str(path))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--ninja", required=True)
    args = parser.parse_args()
    done = subprocess.run([args.ninja, "-C", args.build, "-t", "inputs", "posenc_installed"], check=True,
                          capture_output=True, text=True)
    inputs = {unversioned(file) for file in done.stdout.splitlines()}
    files = installed_files(args.build)
    problems = [f"{file}: installed, but posenc_installed does not build it" for file in sorted(files - inputs)]
    problems += [f"{file}: posenc_installed builds it" for file in sorted(inputs) if file.startswith(_TESTS)]
    print("\n".join(problems + [f"targets: {len(files)} files installed, {len(problems)} problem(s)"]))
    sys.exit(1 if problems or not files else 0)


if __name__ == "__main__":
    main()
