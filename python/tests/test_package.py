"""What the package says of itself: its versions of Python, and the page of its public names."""

import re
import types
from pathlib import Path

import posenc

ROOT = Path(__file__).resolve().parents[2]


def test_versions_of_python_agree():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    minors = [int(minor) for minor in re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text)]
    assert minors == list(range(minors[0], minors[-1] + 1)) and len(minors) > 3
    assert f'requires-python = ">=3.{minors[0]}"' in text
    assert f'python_version = "3.{minors[0]}"' in text  # what mypy checks the package for


def documented():
    """Names of the directives of the page, and by module what its automodule leaves out or is bounded to."""
    text = (ROOT / "docs/site/api/python.md").read_text(encoding="utf-8")
    names = set(re.findall(r"^\.\. auto(?:function|class):: (\S+)$", text, re.MULTILINE))
    modules = {}
    for match in re.finditer(r"^\.\. automodule:: (\S+)\n((?:   :.*\n)*)", text, re.MULTILINE):
        options = dict(re.findall(r"^   :([\w-]+):(.*)$", match[2], re.MULTILINE))
        modules[match[1]] = {name: set(value.replace(",", " ").split()) for name, value in options.items()}
    return names, modules


def is_documented(name):
    names, modules = documented()
    value = getattr(posenc, name)
    if isinstance(value, types.ModuleType):
        return value.__name__ in modules
    if f"posenc.{name}" in names:
        return True
    options = modules.get(value.__module__, {})
    return "members" in options and (not options["members"] or name in options["members"]) and (
        name not in options.get("exclude-members", ())
    )


def test_every_public_name_is_on_the_page():
    assert sorted(name for name in posenc.__all__ if not is_documented(name)) == []
