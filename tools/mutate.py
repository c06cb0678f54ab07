#!/usr/bin/env python3
"""Changes the sources one place at a time and asks whether a test fails: tools/mutate.py [options]

Each mutation of tests/mutation/*.toml is applied to a copy of the tree (build/mutate/tree), its test
program is built there and the tests that should notice are run. A mutation dies if a test fails, crashes
or runs into the time limit; one that survives names a test that is missing. The copy is configured as
`make build` is but for the SIMD targets, so that the compiler cache has most of what was not changed.

    tools/mutate.py --since main        only files that changed since a revision
    tools/mutate.py --only 'alibi|t5'   only mutations whose line matches
    tools/mutate.py --minutes 10        start none after ten minutes; --resume goes on from there
    tools/mutate.py --check             only whether the table fits the tree: no build
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from mutation_table import Mutation, check, read_table

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build/mutate"
TREE = WORK / "tree"
BUILD = TREE / "build/release"
RESULTS = WORK / "results.json"
SMALLEST_SHARE = 0.95
PYTHONS = ("python3", "/usr/bin/python3")


def git(*arguments):
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"mutate: {' '.join(command[3:])} failed: {done.stderr.strip()}")
    return [line for line in done.stdout.split("\0") if line]


def working_files():
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return {name for name in listed if (ROOT / name).is_file()}


def update_tree():
    """Makes the copy equal to the working tree; files that are equal already keep their times."""
    names = working_files()
    for folder, inside, files in os.walk(TREE):
        if Path(folder) == TREE and "build" in inside:
            inside.remove("build")
        for path in (Path(folder) / file for file in files):
            if path.relative_to(TREE).as_posix() not in names:
                path.unlink()
    for name in names:
        source, target = ROOT / name, TREE / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)


def build(targets, jobs):
    """Whether the targets could be built, and what the build printed."""
    command = ["cmake", "--build", str(BUILD), f"-j{jobs}", "--target", *sorted(targets)]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, errors="replace")
    return done.returncode == 0, done.stdout + done.stderr


@lru_cache(maxsize=None)
def python_with_torch():
    for python in PYTHONS:
        if shutil.which(python) is None:
            continue
        if subprocess.run([python, "-c", "import torch, pytest"], capture_output=True).returncode == 0:
            return python
    return None


def test_command(mutation):
    if mutation.program == "python":
        return [python_with_torch(), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
                *mutation.selection.split()]
    if mutation.program == "docs":
        return [sys.executable, str(TREE / "tests/docs" / mutation.selection), "--root", str(TREE), "--posenc",
                str(BUILD / "bin/posenc")]
    chosen = mutation.selection + ("" if "-" in mutation.selection else "-*Slow*:*OnGpu*")
    return [str(BUILD / "bin" / mutation.target), f"--gtest_filter={chosen}", "--gtest_fail_fast",
            "--gtest_brief=1"]


def run_tests(mutation, limit):
    """(verdict, seconds, output): passed, failed or timeout."""
    environment = os.environ | {"POSENC_PYTHON": str(BUILD / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    start = time.monotonic()
    try:
        done = subprocess.run(test_command(mutation), cwd=TREE / "python/tests", env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit)
    except subprocess.TimeoutExpired:
        return "timeout", time.monotonic() - start, ""
    output = done.stdout.decode(errors="replace")
    return ("failed" if done.returncode else "passed"), time.monotonic() - start, output


def count_of_tests(output):
    """How many tests a runner says it ran.

    >>> count_of_tests('[==========] 12 tests from 3 test suites ran. (5 ms total)')
    12
    >>> count_of_tests('4 passed, 1 skipped in 0.2s'), count_of_tests('no tests ran in 0.01s')
    (4, 0)
    >>> count_of_tests('figures: 7 figures, 0 problem(s)')
    7
    """
    found = re.search(r"(\d+)(?: tests? from| passed| figures)", output)
    return int(found[1]) if found else 0


def baseline(mutations, jobs):
    """Seconds of each selection of tests on the unchanged tree; all of them have to pass."""
    built, output = build({m.target for m in mutations}, jobs)
    if not built:
        sys.exit(f"mutate: the unchanged tree does not build\n{output[-4000:]}")
    seconds = {}
    for m in mutations:
        key = (m.program, m.selection)
        if key in seconds:
            continue
        verdict, seconds[key], output = run_tests(m, 600)
        if verdict != "passed" or count_of_tests(output) == 0:
            sys.exit(f"mutate: {m.program}: {m.selection} does not pass unchanged: {verdict}, "
                     f"{count_of_tests(output)} tests\n{output[-4000:]}")
    return seconds


def prepared(mutations, jobs):
    update_tree()
    subprocess.run(["cmake", "--preset", "release", "-DPOSENC_FEW_SIMD_TARGETS=ON"], cwd=TREE, check=True,
                   stdout=subprocess.DEVNULL)
    return baseline(mutations, jobs)


def try_mutation(mutation, seconds, jobs):
    """killed, timeout, compiler (it does not build) or SURVIVED."""
    path = TREE / mutation.file
    original = path.read_text(encoding="utf-8")
    path.write_text(original.replace(mutation.find, mutation.put), encoding="utf-8")
    try:
        built, _ = build({mutation.target}, jobs)
        if not built:
            return "compiler"
        verdict, _, _ = run_tests(mutation, 30 + 10 * seconds)
    finally:
        path.write_text(original, encoding="utf-8")
    return {"failed": "killed", "passed": "SURVIVED"}.get(verdict, verdict)


def died(verdict):
    return verdict in ("killed", "timeout")


def share_died(verdicts):
    """The share of the mutations that build; one that does not compile tests nothing.

    >>> share_died(['killed', 'timeout', 'SURVIVED', 'compiler', 'killed'])
    0.75
    """
    built = [verdict for verdict in verdicts if verdict != "compiler"]
    return sum(map(died, built)) / len(built) if built else 1.0


def write_results(results):
    rows = [asdict(m) | {"verdict": verdict} for m, verdict in results.items()]
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def earlier_deaths(table):
    """Mutations of the table that died in earlier runs; survivors are tried again."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else []
    known = {Mutation(**{k: v for k, v in row.items() if k != "verdict"}): row["verdict"] for row in rows}
    return {m: known[m] for m in table if died(known.get(m))}


def selected(mutations, options):
    if options.since:
        changed = set(git("diff", "--name-only", "-z", options.since, "--"))
        changed |= set(git("ls-files", "-z", "--others", "--exclude-standard"))
        mutations = [m for m in mutations if m.file in changed]
    return [m for m in mutations if re.search(options.only, m.title)]


def summary(results):
    verdicts = list(results.values())
    for verdict in ("SURVIVED", "compiler"):
        for m, got in results.items():
            if got == verdict:
                print(f"{verdict:9} {m.title}  [{m.program}: {m.selection}]")
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("killed", "timeout", "SURVIVED", "compiler"))
    share = share_died(verdicts)
    print(f"{len(verdicts)} mutations: {counts}; {100 * share:.1f} % died, "
          f"{100 * SMALLEST_SHARE:.0f} % have to")
    return 0 if share >= SMALLEST_SHARE else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", metavar="REV", help="only files that changed since this revision")
    parser.add_argument("--only", metavar="REGEX", default="", help="only mutations that match")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="jobs of a build")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no mutation after these")
    parser.add_argument("--resume", action="store_true", help="leave out what died in earlier runs")
    parser.add_argument("--check", action="store_true", help="only check the table against the tree")
    parser.add_argument("--list", action="store_true", help="only list what would run")
    options = parser.parse_args()
    table = read_table(ROOT)
    problems = check(ROOT, table)
    if problems or options.check:
        print("\n".join(problems) or f"mutation table: {len(table)} mutations fit the tree")
        return 1 if problems else 0
    mutations = selected(table, options)
    if options.list or not mutations:
        print("\n".join(m.title for m in mutations) or "mutate: no mutation is selected")
        return 0
    return run_all(mutations, options, earlier_deaths(table) if options.resume else {})


def run_all(mutations, options, results):
    start = time.monotonic()
    left = [m for m in mutations if m not in results]
    if any(m.program == "python" for m in left) and python_with_torch() is None:
        sys.exit("mutate: no Python with torch and pytest was found; leave python/ out with --only")
    seconds = prepared(left, options.jobs) if left else {}
    for number, m in enumerate(left, start=1):
        begin = time.monotonic()
        if begin - start > 60 * options.minutes:
            print(f"mutate: time is up, {len(left) - number + 1} left; --resume goes on")
            break
        results[m] = try_mutation(m, seconds[m.program, m.selection], options.jobs)
        write_results(results)
        took = time.monotonic() - begin
        print(f"{number:3}/{len(left)} {results[m]:9} {took:5.1f} s  {m.title}", flush=True)
    return summary({m: results[m] for m in mutations if m in results})


if __name__ == "__main__":
    sys.exit(main())
