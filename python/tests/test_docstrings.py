"""Docstrings: every public name has one, every function an example, and the examples run."""

import doctest
import inspect
import warnings

import pytest
import torch

import posenc

# Their examples need a model, a folder of runs or the program; other tests call them.
WITHOUT = {"Error", "Figure", "PatchReport", "Parameter", "Input", "View", "catalog", "library_path", "unregister"}
MODULES = [posenc, posenc.angles, posenc.runs]


def public_objects():
    for module in MODULES:
        names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        prefix = "posenc" if module is posenc else module.__name__
        for name in names:
            value = getattr(module, name)
            if callable(value) and getattr(value, "__module__", "").startswith(prefix):
                yield name, value
    yield from ((name, getattr(posenc.nn, name)) for name in posenc.nn.__all__)


OBJECTS = dict(public_objects())


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_it_is_documented(name):
    doc = inspect.getdoc(OBJECTS[name]) or ""
    assert len(doc) > 20, f"{name} needs a docstring"
    encoding = inspect.isclass(OBJECTS[name]) and issubclass(OBJECTS[name], (posenc._construct._Named, posenc.Spec))
    if name not in WITHOUT and not encoding:
        assert ">>>" in doc, f"{name} needs an example"


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    seen = {}
    for name, value in [*OBJECTS.items(), *((m.__name__, m) for m in MODULES)]:
        for test in finder.find(value, name, globs={"torch": torch, "posenc": posenc}):
            if test.examples:
                seen[test.name] = test
    return seen


EXAMPLES = examples()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_example_runs(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        text = []
        runner.run(EXAMPLES[name], out=text.append)
    posenc._given._REGISTERED.pop("linear_decay", None)
    assert runner.failures == 0, "".join(text)


def test_help_shows_arguments_first():
    lines = inspect.getdoc(posenc.attention).splitlines()
    assert lines[0].endswith(".") and "Args:" in lines and "Returns:" in lines
    named = set(inspect.signature(posenc.attention).parameters)
    described = {line.strip().split(":")[0] for line in lines if line.startswith("    ") and ":" in line}
    assert named <= described
