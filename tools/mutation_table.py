"""The table of mutations, tests/mutation/*.toml: read, and checked against the tree.

A file of the table has one section per source file:

    ["src/library/encodings/alibi.cc"]
    tests = "encodings: Alibi*.*"
    mutations = [
      { kind = "sign", find = 'return -slope', put = 'return slope' },
      { kind = "bound", find = 'i < heads', put = 'i <= heads', tests = "kernels: *Slopes*" },
    ]

`tests` names a test program and a gtest filter, `python` and what pytest takes, or `docs` and a script of
tests/docs. `find` occurs exactly once in the source file. `make rules` runs the check, so a text that no longer matches is found early.
"""

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

KINDS = {"sign", "bound", "clamp", "mask", "index", "seed", "factor", "constant", "order", "branch",
         "dropped"}
OTHER_RUNNERS = {"python": "posenc_python", "docs": "posenc"}  # what is built for those without gtest
_TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.M)


@dataclass(frozen=True)
class Mutation:
    file: str
    kind: str
    find: str
    put: str
    program: str  # a layer, whose tests are posenc_<layer>_tests, or python, or docs
    selection: str  # a gtest filter, the arguments of pytest, or a script of tests/docs

    @property
    def title(self):
        return f"{self.file}: {self.kind}: {one_line(self.find)} -> {one_line(self.put) or '(nothing)'}"

    @property
    def target(self):
        return OTHER_RUNNERS.get(self.program, f"posenc_{self.program}_tests")


def one_line(text):
    """
    >>> one_line('a +\\n      b')
    'a + b'
    """
    return " ".join(text.split())


def mutation_of(file, section, row):
    program, _, selection = row.get("tests", section.get("tests", "")).partition(":")
    return Mutation(file, row["kind"], row["find"], row["put"], program.strip(), selection.strip())


def read_table(root):
    """All mutations, in the order of the table."""
    mutations = []
    for path in sorted((root / "tests/mutation").glob("*.toml")):
        for file, section in tomllib.loads(path.read_text(encoding="utf-8")).items():
            mutations += [mutation_of(file, section, row) for row in section["mutations"]]
    return mutations


def tests_of(root, layer):
    """The tests of a layer as the sources write them, `Suite.Name`."""
    found = set()
    for path in (root / "tests" / layer).rglob("*_test.cc"):
        found |= {".".join(match) for match in _TEST.findall(path.read_text(encoding="utf-8"))}
    return found


def selects(pattern, test):
    """Whether one pattern of a gtest filter matches a test; a parameterised one has a prefix and a suffix.

    >>> selects('Alibi*.*', 'AlibiSlopes.AreHalved'), selects('All/Rope.Turns/*', 'Rope.Turns')
    (True, True)
    >>> selects('Alibi.*', 'Rope.Turns')
    False
    """
    pattern = re.sub(r"/[^/]*$", "", re.sub(r"^[^./]*/", "", pattern))
    return fnmatchcase(test, pattern)


def problems_of(mutation, source, tests):
    """What is wrong with one mutation, given the text of its source file and the tests of its layer.

    >>> m = Mutation('a.cc', 'sign', '-x', '+x', 'core', 'A.*')
    >>> list(problems_of(m, 'return -x;', {'A.B'}))
    []
    >>> list(problems_of(m, 'return -x * -x;', {'A.B'}))
    ['the text occurs 2 times']
    >>> list(problems_of(m, 'return x;', {'C.B'}))
    ['the text occurs 0 times', 'no test matches A.*']
    """
    if source.count(mutation.find) != 1:
        yield f"the text occurs {source.count(mutation.find)} times"
    if mutation.find == mutation.put:
        yield "the replacement is the text itself"
    if mutation.kind not in KINDS:
        yield f"the kind is not one of {', '.join(sorted(KINDS))}"
    if mutation.program in OTHER_RUNNERS:
        return
    for pattern in mutation.selection.split("-")[0].split(":"):
        if not any(selects(pattern, test) for test in tests):
            yield f"no test matches {pattern}"


def check(root, mutations):
    """The problems of the whole table, one line each."""
    tests = {m.program: tests_of(root, m.program) for m in mutations if m.program not in OTHER_RUNNERS}
    problems = []
    for m in mutations:
        path = root / m.file
        source = path.read_text(encoding="utf-8") if path.is_file() else ""
        problems += [f"{m.title}: {p}" for p in problems_of(m, source, tests.get(m.program, set()))]
    titles = [m.title for m in mutations]
    problems += [f"{title}: listed twice" for title in sorted(set(titles)) if titles.count(title) > 1]
    return problems
