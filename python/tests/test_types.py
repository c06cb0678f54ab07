"""mypy over the package, and what it says of calls."""

import subprocess
import sys
from pathlib import Path

import pytest

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
"""
WORDS = [
    'Revealed type is "posenc.spec.Spec"',
    'Revealed type is "posenc.spec.Spec"',
    'Revealed type is "builtins.str"',
    'Unexpected keyword argument "thetta" for "Rope"',
    'Argument 1 to "Yarn" has incompatible type "str"',
    "No overload variant",
    'Argument 1 to "alibi_slopes" has incompatible type "str"',
]


def mypy(*arguments):
    words = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir=/dev/null", *arguments]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True)


def test_the_package_is_clean_and_wrong_calls_are_found(tmp_path):
    """One run, because each run reads the whole package."""
    (tmp_path / "calls.py").write_text(CALLS)
    done = mypy("python/posenc", str(tmp_path / "calls.py"))
    lines = [line for line in done.stdout.splitlines() if not line.startswith("Found")]
    of_calls = [line for line in lines if "calls.py" in line]
    assert not [line for line in lines if "calls.py" not in line and ": note:" not in line], done.stdout
    for words in WORDS:
        assert any(words in line for line in of_calls), (words, of_calls)
