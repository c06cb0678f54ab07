#!/usr/bin/env python3
"""clang-tidy over the units of a build, each once: a unit that was fine is not looked at again while
its sources, every project header they include, the flags and the checks stay as they were.

    tools/tidy.py BUILD REGEX [JOBS]

What was fine is remembered in $XDG_CACHE_HOME/posenc-tidy; TIDY_CACHE=0 looks at everything.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "posenc-tidy"


def dependencies(build):
    """Object file -> what it was compiled from, as ninja knows it."""
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True).stdout
    found, current = {}, None
    for line in text.splitlines():
        if line.startswith("    ") and current is not None:
            current.append(line.strip())
        elif ": #deps" in line:
            current = found[line.split(": #deps")[0]] = []
    return found


def object_of(entry):
    found = re.search(r" -o (\S+)", entry["command"])
    return found[1] if found else None


def sources_of(entry):
    """The sources of a unit: those that a batch of cmake/batches.py includes, else the file itself."""
    unit = pathlib.Path(entry["file"])
    if not re.search(r"_batch_\d+\.cc$", unit.name):
        return [unit]
    folder = ROOT / ("tests" if unit.parent.name == "tests" else "src")
    return [folder / name for name in re.findall(r'^#include "(.*)"$', unit.read_text(), re.MULTILINE)]


def checks_of(source):
    """Every .clang-tidy that speaks for a file."""
    folders = [p for p in source.parents if p == ROOT or ROOT in p.parents]
    return [f / ".clang-tidy" for f in folders if (f / ".clang-tidy").exists()]


def folder_checks(source):
    """The checks that folders switch off: clang-tidy looks for them around the unit, not its sources."""
    files = [f for f in checks_of(source) if f.parent != ROOT]
    return [check for f in files for check in re.findall(r"^Checks: '(.*)'$", f.read_text(), re.MULTILINE)]


def fingerprint(entry, build, sources, version):
    """None where it is not known what the unit includes: then it is looked at."""
    if not sources:
        return None
    inside = {(pathlib.Path(build) / s).resolve() for s in sources}
    inside = sorted(p for p in inside if ROOT in p.parents) + checks_of(sources_of(entry)[0])
    flags = entry["command"].replace(str(ROOT), "").replace(" -Werror", "")  # the one thing presets differ in
    digest = hashlib.sha256(f"{version}\n{flags}\n".encode())
    for path in inside:
        digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def check(entry, build, mark):
    if mark is not None and mark.exists():
        return ""
    checks = ["-bugprone-suspicious-include", *folder_checks(sources_of(entry)[0])]  # a batch includes sources
    command = ["clang-tidy", "--quiet", "-p", build, "--extra-arg=-Wno-unknown-warning-option",
               f"--checks={','.join(checks)}", entry["file"]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return done.stdout + (done.stderr if not done.stdout else "")
    if mark is not None:
        mark.touch()
    return ""


def main():
    build, wanted, jobs = str(pathlib.Path(sys.argv[1]).resolve()), re.compile(sys.argv[2]), int((sys.argv + ["0"])[3])
    entries = json.loads(pathlib.Path(build, "compile_commands.json").read_text())
    entries = {e["file"]: e for e in entries if any(wanted.search(str(s)) for s in sources_of(e))}.values()
    if not entries:
        sys.exit(f"tidy: no file of {build} matches {wanted.pattern}")
    remember = os.environ.get("TIDY_CACHE") != "0"
    CACHE.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True).stdout
    known = dependencies(build) if remember else {}
    with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        running = {}
        for e in entries:
            name = fingerprint(e, build, known.get(object_of(e)), version)
            running[pool.submit(check, e, build, CACHE / name if name else None)] = e
        findings = [f.result() for f in concurrent.futures.as_completed(running)]
    findings = [f for f in findings if f]
    print("\n".join(findings) if findings else f"tidy: {len(entries)} units are fine")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
