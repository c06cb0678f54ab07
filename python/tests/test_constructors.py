"""Specs from classes: made from the catalogue, equal to the texts, and with the same errors."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import posenc
from posenc import encodings, schedules

ROOT = Path(__file__).resolve().parents[2]
REQUIRED = {"factor": 4, "original_max_position_embeddings": 64, "max_position_embeddings": 64, "short_factor": 1.0,
            "long_factor": 2.0, "low_freq_factor": 1, "high_freq_factor": 4, "sections": [2, 2]}


def test_the_classes_are_those_of_the_catalogue():
    tool = ROOT / "tools/python_constructors.py"
    environment = {**os.environ, "PYTHONPATH": str(Path(posenc.__file__).parents[1])}
    check = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, env=environment)
    assert check.returncode == 0, f"{check.stdout}{check.stderr}run {tool.name}"


@pytest.mark.parametrize("name", encodings.__all__)
def test_without_fields_it_is_the_plain_encoding(name):
    one = getattr(posenc, name)()
    assert isinstance(one, posenc.Spec)
    assert one == posenc.Spec(one.encodings[0] if one.encodings else "none")
    assert "(" not in one.text


@pytest.mark.parametrize("name", schedules.__all__)
def test_schedules_and_axes_are_fields_of_rope(name):
    kind = getattr(posenc, name)
    given = {k: v for k, v in REQUIRED.items() if k in kind.__init__.__code__.co_varnames
             and k not in (kind.__init__.__kwdefaults__ or {})}
    value = kind(**given)
    field = "schedule" if issubclass(kind, schedules.Schedule) else "axes"
    spec = posenc.Rope(**{field: value})
    (entry,) = value.json
    assert entry in spec.text or spec.text == "rope"
    assert value == kind(**given) and hash(value) == hash(kind(**given)) and name in repr(value)


def test_the_sum_is_the_text():
    spec = posenc.Rope(theta=5e5, schedule=posenc.Yarn(4, 8192)) + posenc.Alibi()
    assert spec == posenc.Spec(
        "rope(theta=500000, schedule=yarn(factor=4, original_max_position_embeddings=8192)) + alibi"
    )
    assert posenc.NoPositions() + posenc.Cope(npos_max=16) == posenc.Spec("cope(npos_max=16)")


def test_copies_are_equal():
    one = posenc.Cope(npos_max=16)
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one and isinstance(other, posenc.Spec)


def test_errors_name_the_field():
    with pytest.raises(posenc.Error) as caught:
        posenc.Rope(theta=-1)
    assert (caught.value.kind, caught.value.scope, caught.value.key) == ("out_of_range", "rope", "theta")
    with pytest.raises(TypeError, match="thet"):
        posenc.Rope(thet=1)
