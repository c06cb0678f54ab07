"""mypy over the package, and what it says of calls."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import posenc

pytest.importorskip("mypy")
ROOT = Path(__file__).resolve().parents[2]

CALLS = """
import posenc, torch
q = torch.randn(1, 2, 3, 4)
reveal_type(posenc.Spec("rope") + posenc.Alibi())
reveal_type(posenc.nn.Attention(4, 2).spec)
reveal_type(posenc.explain("rope", heads=1, queries=1, keys=1, head_dim=2))
posenc.Rope(thetta=1)
posenc.Yarn("4", 8192)
posenc.attention(q, q, q, 3)
posenc.alibi_slopes("8")
posenc.attention(q, q, q, cusal=True)
posenc.attention(q, q, q, causal=True, return_lse="no")
"""
WORDS = [
    'Revealed type is "posenc.spec.Spec"',
    'Revealed type is "posenc.spec.Spec"',
    'Revealed type is "builtins.str"',
    'Unexpected keyword argument "thetta" for "Rope"',
    'Argument 1 to "Yarn" has incompatible type "str"',
    "No overload variant",
    'Argument 1 to "alibi_slopes" has incompatible type "str"',
    'No overload variant of "attention" matches argument types "Any", "Any", "Any", "bool"',
    'No overload variant of "attention" matches argument types "Any", "Any", "Any", "bool", "str"',
]


def every_keyword():
    """A call with each, and another one whose result is a tensor: no overload may lack one."""
    names = [p.name for p in inspect.signature(posenc.attention).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert len(names) > 15
    given = ", ".join(f"{name}=anything" for name in names if not name.startswith("return_"))
    forms = ["", "return_weights=True", "return_lse=True", "return_weights=True, return_lse=True",
             "return_weights=flag, return_lse=flag"]
    calls = [f"posenc.attention(q, q, q, 'rope', None, {given}, {form})" for form in forms]
    return "\n".join(["import typing", "anything: typing.Any = None", "flag: bool = bool(anything)", *calls, ""])


def mypy(*arguments):
    words = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir=/dev/null", *arguments]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True)


def test_the_package_is_clean_and_wrong_calls_are_found(tmp_path):
    """One run, because each run reads the whole package."""
    (tmp_path / "calls.py").write_text(CALLS + every_keyword())
    done = mypy("python/posenc", str(tmp_path / "calls.py"))
    lines = [line for line in done.stdout.splitlines() if not line.startswith("Found")]
    of_calls = [line for line in lines if "calls.py" in line]
    assert not [line for line in lines if "calls.py" not in line and ": note:" not in line], done.stdout
    wrong = [line for line in of_calls if ": error:" in line]
    assert len(wrong) == sum("Revealed" not in words for words in WORDS), wrong
    for words in WORDS:
        assert any(words in line for line in of_calls), (words, of_calls)
