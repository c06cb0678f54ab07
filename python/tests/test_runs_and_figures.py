"""Runs as tables, and figures from the program."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import posenc

PROGRAM = Path(os.environ.get("POSENC_PYTHON", "build/release/python")).parent / "bin" / "posenc"
drawn = pytest.mark.skipif(not PROGRAM.is_file(), reason="the program is not built")


@pytest.fixture
def sweep(tmp_path):
    for seed in (0, 1):
        run = tmp_path / "grid" / f"rope-seed{seed}"
        run.mkdir(parents=True)
        (run / "config.yaml").write_text("task: parity\n")
        (run / "status.json").write_text(json.dumps({"state": "finished"}))
        conditions = [{"axis": "train", "length": 64 * n, "factor": n, "value": 1 / n, "low": 0.2, "high": 1} for n in (1, 2)]
        results = {"task": "parity", "encoding": "rope", "seed": seed, "metric": "accuracy", "rows": conditions}
        (run / "results.json").write_text(json.dumps(results))
        (run / "metrics.jsonl").write_text('{"kind": "train", "step": 1, "loss": 0.5}\n')
    stopped = tmp_path / "grid" / "none-seed0"
    stopped.mkdir()
    (stopped / "config.yaml").write_text("task: parity\n")
    (stopped / "status.json").write_text(json.dumps({"state": "stopped"}))
    return tmp_path / "grid"


def test_a_row_per_run_and_condition(sweep):
    rows = list(posenc.runs.rows(sweep))
    assert len(rows) == 5
    assert [r["length"] for r in rows if r["run"] == "rope-seed1"] == [64, 128]
    (stopped,) = [r for r in rows if r["status"] == "stopped"]
    assert stopped["value"] is None and stopped.keys() == rows[-1].keys()
    assert len(list(posenc.runs.rows(sweep / "rope-seed0"))) == 2
    assert [line["loss"] for line in posenc.runs.curves(sweep)] == [0.5, 0.5]


def test_a_frame(sweep):
    pytest.importorskip("pandas")
    table = posenc.runs.load(sweep)
    assert table.groupby("length")["value"].mean().to_dict() == {64: 1.0, 128: 0.5}
    assert set(posenc.runs.load(sweep, "curves")["run"]) == {"rope-seed0", "rope-seed1"}


def test_bad_folders(tmp_path, sweep):
    (tmp_path / "empty").mkdir()
    with pytest.raises(posenc.Error, match="has none"):
        list(posenc.runs.rows(tmp_path / "empty"))
    (tmp_path / "pack.tar.zst").write_text("")
    with pytest.raises(posenc.Error, match="posenc runs unpack"):
        list(posenc.runs.rows(tmp_path / "pack.tar.zst"))
    (sweep / "rope-seed0" / "results.json").write_text("{")
    with pytest.raises(posenc.Error, match="results.json"):
        list(posenc.runs.rows(sweep))
    with pytest.raises(posenc.Error, match="'curves'"):
        posenc.runs.load(sweep, "weights")


@drawn
def test_figures(monkeypatch, tmp_path):
    monkeypatch.setenv("POSENC_PROGRAM", str(PROGRAM))
    figure = posenc.plot("bias", posenc.Alibi(), "kerple", length=16, heads=4)
    assert figure._repr_svg_().lstrip().startswith("<svg") and "kerple" in figure.svg
    for ending in ("svg", "png", "pdf", "csv"):
        figure.save(tmp_path / f"bias.{ending}")
        assert (tmp_path / f"bias.{ending}").stat().st_size > 100
    with pytest.raises(posenc.Error, match=".jpg"):
        figure.save(tmp_path / "bias.jpg")
    with pytest.raises(posenc.Error, match="lenght"):
        posenc.plot("bias", "alibi", lenght=16)
    with pytest.raises(posenc.Error, match="theta"):
        posenc.plot("decay", theta=[-1])


def test_without_the_program(monkeypatch):
    monkeypatch.delenv("POSENC_PROGRAM", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(posenc.Error, match="make build"):
        posenc.plot("bias")


@drawn
def test_several_texts(monkeypatch, tmp_path):
    """Each is one option: a comma in a text does not part it."""
    monkeypatch.setenv("POSENC_PROGRAM", str(PROGRAM))
    figure = posenc.plot("scores", "rope", text=["a fine, b", "c d"])
    words = ["--encoding", "rope", "--text", "a fine, b", "--text", "c d"]
    by_hand = tmp_path / "by_hand.svg"
    subprocess.run([PROGRAM, "plot", "scores", *words, "-o", by_hand], check=True, stdout=subprocess.DEVNULL)
    assert figure.svg == by_hand.read_text() != posenc.plot("scores", "rope", text="c d").svg
    assert posenc.plot("decay", theta=[10000, 500000]).svg == posenc.plot("decay", theta="10000,500000").svg
    assert posenc.plot("decay", theta=(100,)).svg == posenc.plot("decay", theta=100).svg


LIST = "posenc plot KIND --list names what a kind reads"


@drawn
@pytest.mark.parametrize("kind, encoding, options, expected", [
    ("bias", "alibi", dict(lenght=16), ("unknown_key", "plot", "lenght", "did you mean 'length'?")),
    ("bias", "alibi", dict(xyzzy=1), ("unknown_key", "plot", "xyzzy", LIST)),
    ("bias", "alib", {}, ("unknown_key", "spec", "encoding", "did you mean 'alibi'?")),
    ("bias", "rope(", {}, ("syntax", "spec", "", "a spec looks like rope(theta=10000, layout=half) + alibi")),
    ("scores", "rope", dict(text=["a"]), ("wrong_length", "plot", "text", "punctuation marks count as words")),
    ("decay", "rope", dict(theta="x"), ("wrong_type", "plot", "theta[0]", "")),
    ("decay", "rope", dict(theta=[-1]), ("out_of_range", "plot", "theta[0]", "")),
])
def test_errors_of_the_program(monkeypatch, kind, encoding, options, expected):
    monkeypatch.setenv("POSENC_PROGRAM", str(PROGRAM))
    with pytest.raises(posenc.Error) as caught:
        posenc.plot(kind, encoding, **options)
    error = caught.value
    assert (error.kind, error.scope, error.key, error.hint) == expected and "--" not in str(error).split(";")[0]
