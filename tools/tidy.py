#!/usr/bin/env python3
"""clang-tidy over the sources of a build, each once: a unit that was fine is not looked at again while
its sources, every project header they include, the flags and the checks stay as they were.

    tools/tidy.py BUILD REGEX [JOBS]

Most of the time goes into headers, so sources share units, more than in the build's own batches: all sources
with torch are read with the flags of all of them, and so are all without. Helpers of the same name get a number
for the time of the check.
What was fine is remembered in $XDG_CACHE_HOME/posenc-tidy; TIDY_CACHE=0 looks at everything.
"""
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "posenc-tidy"
SOURCES_OF_A_UNIT = 60
ONE_SIMD_TARGET = ("-DHWY_COMPILE_ONLY_STATIC",)
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "cmake"))
from batches import batches, unit_text  # noqa: E402


@dataclass
class Unit:
    sources: list
    flags: tuple
    checks: tuple  # those that folders switch off
    objects: set  # of the build, which know what the sources include


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


def flags_and_object(entry):
    """What a compiler is told about any source of a target: no files, and no -Werror, in which presets differ."""
    words = shlex.split(entry["command"])
    compiler = next(i for i, word in enumerate(words) if re.search(r"(\+\+|cc)(-\d+)?$", word))
    flags, output, rest = [], None, iter(words[compiler + 1:])
    for word in rest:
        if word == "-o":
            output = next(rest)
        elif word in ("-MT", "-MF", "-c"):
            next(rest)
        elif word not in ("-MD", "-Werror"):
            flags.append(word)
    return tuple(flags), output


def sources_of(entry):
    """The sources of a unit of the build: those that a batch of cmake/batches.py includes, else the file itself."""
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
    return tuple(check for f in files for check in re.findall(r"^Checks: '(.*)'$", f.read_text(), re.MULTILINE))


def units_of(entries, wanted):
    """Sources with or without torch, by the checks that folders switch off, in as few units as names allow."""
    objects, groups = {}, collections.defaultdict(set)
    flags = collections.defaultdict(dict)
    for entry in entries:
        own_flags, output = flags_and_object(entry)
        torch = any("ATen" in flag for flag in own_flags)
        for source in filter(lambda s: wanted.search(str(s)), sources_of(entry)):
            own_checks = folder_checks(source)
            group = (torch, own_checks)
            objects[source] = output
            groups[group].add(source)
            flags[group] |= dict.fromkeys(in_pairs(own_flags))
    found = []
    for group, sources in groups.items():
        texts = [(source, source.read_text(encoding="utf-8")) for source in sorted(sources)]
        together = batches(texts, SOURCES_OF_A_UNIT)
        together += [[source] for source in sorted(sources.difference(*together))]
        words = tuple(word for flag in flags[group] for word in flag) + ONE_SIMD_TARGET
        found += [Unit(members, words, group[1], {objects[s] for s in members}) for members in together]
    return sorted(found, key=lambda unit: -len(unit.sources))  # long ones first


def in_pairs(flags):
    """Flags, each with its argument.

    >>> in_pairs(("-DA", "-isystem", "b", "-O1"))
    [('-DA',), ('-isystem', 'b'), ('-O1',)]
    """
    rest = iter(flags)
    return [(flag, next(rest)) if flag in ("-isystem", "-include") else (flag,) for flag in rest]


def fingerprint(unit, build, known, version):
    """None where it is not known what the unit includes: then it is looked at."""
    if not all(known.get(name) for name in unit.objects):
        return None
    inside = {(pathlib.Path(build) / s).resolve() for name in unit.objects for s in known[name]}
    inside = sorted(p for p in inside if ROOT in p.parents) + checks_of(unit.sources[0])
    flags = " ".join(unit.flags).replace(str(ROOT), "")
    digest = hashlib.sha256(f"{version}\n{flags}\n".encode())
    for path in inside:
        digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def check(unit, build, number, mark):
    if mark is not None and mark.exists():
        return ""
    file, checks = unit.sources[0], unit.checks
    if len(unit.sources) > 1:
        file = pathlib.Path(build, "tidy", f"unit_{number}.cc")
        file.write_text(unit_text([(s, s.read_text(encoding="utf-8")) for s in unit.sources]))
        checks = ("-bugprone-suspicious-include", *checks)
    command = ["clang-tidy", "--quiet", f"--config-file={ROOT}/.clang-tidy", f"--checks={','.join(checks)}", str(file),
               "--", *unit.flags, "-Wno-unknown-warning-option"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=build)
    if done.returncode != 0:
        return done.stdout + (done.stderr if not done.stdout else "")
    if mark is not None:
        mark.touch()
    return ""


def main():
    build, wanted, jobs = str(pathlib.Path(sys.argv[1]).resolve()), re.compile(sys.argv[2]), int((sys.argv + ["0"])[3])
    units = units_of(json.loads(pathlib.Path(build, "compile_commands.json").read_text()), wanted)
    if not units:
        sys.exit(f"tidy: no file of {build} matches {wanted.pattern}")
    remember = os.environ.get("TIDY_CACHE") != "0"
    CACHE.mkdir(parents=True, exist_ok=True)
    pathlib.Path(build, "tidy").mkdir(exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True).stdout
    known = dependencies(build) if remember else {}
    with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        running = []
        for number, unit in enumerate(units):
            name = fingerprint(unit, build, known, version)
            running.append(pool.submit(check, unit, build, number, CACHE / name if name else None))
        findings = [f.result() for f in concurrent.futures.as_completed(running)]
    findings = [f for f in findings if f]
    files = sum(len(unit.sources) for unit in units)
    print("\n".join(findings) if findings else f"tidy: {files} files in {len(units)} units are fine")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
