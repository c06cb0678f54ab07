"""SIGKILL at random moments of train, eval, sweep, convert and data: nothing half-written is accepted.

After every kill the files that are in place are whole. A run that is resumed ends with the bits of one that
was left alone, a converted checkpoint is absent or whole, and the next process removes what killed ones left.

    tests/cli/kill_test.py --posenc build/release/bin/posenc --kills 20

KILLS and SEED in the environment stand in for the options. The seed is printed: it fixes the order of the
verbs and the moments, as far as a clock can be repeated.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TEMPORARY = re.compile(r"\.tmp-[0-9a-f]{8}$")
OF_THE_CLOCK = {"seconds", "tokens_per_s", "train_seconds", "data_share", "peak_memory_bytes"}
LAB = ["--threads", "1", "--progress", "quiet"]

CONFIG = """task: {selective_counting: {density: 0.3, cap: 4, max_label: 31}}
model: {encoding: rope + cope(npos_max=8), layers: 2, dim: 16, heads: 2, dropout: 0.1}
train: {length: 16, batch: 8, steps: 120, log_every: 7, eval_every: 20, eval_samples: 16,
        checkpoint_every: 4, keep_last: 3}
eval: {samples: 16, factors: [1, 2]}
"""
SWEEP = """base: config.yaml
out: {out}
grid: {{model.encoding: [none, alibi], seed: [0, 1]}}
"""


def require(holds, *words):
    if not holds:
        raise AssertionError(" ".join(map(str, words)))


# ---- processes ----------------------------------------------------------------------------------------


def descendants(pid):
    """Every process below this one, deepest first."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            found = descendants(int(child)) + [int(child)] + found
    return found


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def kill_after(command, seconds, folder, orphans=False):
    """True where the process was killed; False where it had ended well before."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = process.communicate(timeout=seconds)
        require(process.returncode == 0, command, "ended with", process.returncode, output)
        return False
    except subprocess.TimeoutExpired:
        below = descendants(process.pid)
        process.kill()
        for pid in below if not orphans else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        while not all(gone(pid) for pid in below):  # jobs of a killed sweep save and end
            time.sleep(0.02)
        process.stdout.close()
        process.wait()
        return True


# ---- what must hold of files --------------------------------------------------------------------------


def leftovers(folder):
    return [p for p in Path(folder).rglob("*") if TEMPORARY.search(p.name)]


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def without_clock(value):
    if isinstance(value, dict):
        return {k: without_clock(v) for k, v in value.items() if k not in OF_THE_CLOCK}
    return [without_clock(v) for v in value] if isinstance(value, list) else value


def metrics(run):
    """The rows; a last line without its end is one that the kill tore."""
    path = run / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n") if path.exists() else [b""]
    return [without_clock(json.loads(line)) for line in lines[:-1]]


def checkpoints(run):
    return sorted(p for p in run.glob("checkpoints/step-*") if not TEMPORARY.search(p.name))


def check_run(run):
    """Whatever has its final name is whole."""
    if not (run / "status.json").exists():
        return
    for name in ["status.json", "environment.json", "results.json"]:
        if (run / name).exists():
            json.loads((run / name).read_text())
    require((run / "config.yaml").read_text().endswith("\n"), run, "has a torn config.yaml")
    metrics(run)
    for checkpoint in checkpoints(run):
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        for file in manifest["files"]:
            path = checkpoint / file["name"]
            require(path.stat().st_size == file["size"] and sha256(path) == file["sha256"], path,
                    "is not what its manifest says")


def outcome(run):
    """Weights, moments, rows and results: everything of a run but the clock."""
    last = checkpoints(run)[-1]
    return {
        "step": last.name,
        "tensors": {p.name: sha256(p) for p in sorted(last.glob("*.safetensors"))},
        "metrics": metrics(run),
        "results": without_clock(json.loads((run / "results.json").read_text())),
    }


def differences(got, wanted, path=""):
    """Where two results differ, a line each; the first few of them."""
    if isinstance(got, dict) and isinstance(wanted, dict):
        keys = sorted(set(got) | set(wanted))
        pairs = [(f"{path}/{key}", got.get(key), wanted.get(key)) for key in keys]
    elif isinstance(got, list) and isinstance(wanted, list) and len(got) == len(wanted):
        pairs = [(f"{path}/{i}", a, b) for i, (a, b) in enumerate(zip(got, wanted))]
    else:
        return [] if got == wanted else [f"{path} is {str(got)[:80]}, not {str(wanted)[:80]}"]
    return [line for place, a, b in pairs for line in differences(a, b, place)][:8]


# ---- verbs --------------------------------------------------------------------------------------------


class Case:
    """One verb: how it is started, what must hold after a kill, and what it must come to."""

    def __init__(self, posenc, folder, rng):
        self.posenc, self.folder, self.rng = str(posenc), Path(folder), rng
        self.folder.mkdir()
        self.kills_of_life = 0
        self.prepare()
        start = time.monotonic()
        self.finish()
        self.seconds = time.monotonic() - start
        self.wanted = self.result()
        self.reset()

    def prepare(self):
        pass

    def run(self, *arguments):
        done = subprocess.run([self.posenc, *map(str, arguments)], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        require(done.returncode == 0, arguments, "ended with", done.returncode, done.stdout)

    def finish(self):
        self.run(*self.command())

    def done(self):
        """Is the output in place, so that another process would have nothing to do?"""
        return False

    def check(self):
        """After a kill: what is in place is whole."""
        require(not self.done() or self.result() == self.wanted, type(self).__name__, "left a part in place")

    def kill_once(self):
        """One attempt; True where a process was killed."""
        moment = self.rng.uniform(0.0, 1.0) * self.seconds
        killed = kill_after([self.posenc, *map(str, self.command())], moment, self.folder,
                            orphans=self.rng.random() < 0.3)
        self.check()
        self.kills_of_life += killed
        if not killed or self.done() or self.kills_of_life >= self.life:
            self.end_life()
        return killed

    def end_life(self):
        """Left alone, it comes to the end of a process that never was killed."""
        if not self.done():
            self.finish()
        require(self.result() == self.wanted, type(self).__name__, "came to another end:",
                "; ".join(differences(self.result(), self.wanted)))
        require(not leftovers(self.folder), "left behind:", leftovers(self.folder))
        self.reset()
        self.kills_of_life = 0

    life = 5  # kills before it is left alone to its end


class Train(Case):
    def prepare(self):
        (self.folder / "config.yaml").write_text(CONFIG)

    def command(self):
        return ["train", "config.yaml", "--out", "run", "--resume", *LAB]

    def check(self):
        check_run(self.folder / "run")

    def result(self):
        return outcome(self.folder / "run")

    def reset(self):
        shutil.rmtree(self.folder / "run")


class Eval(Train):
    def prepare(self):
        super().prepare()
        self.run(*Train.command(self))
        (self.folder / "run/results.json").unlink()

    def command(self):
        return ["eval", "run", *LAB]

    def reset(self):
        (self.folder / "run/results.json").unlink()

    def check(self):
        super().check()
        results = self.folder / "run/results.json"
        if results.exists():
            require(without_clock(json.loads(results.read_text())) == self.wanted["results"], "results differ")


class Sweep(Case):
    def prepare(self):
        (self.folder / "config.yaml").write_text(CONFIG.replace("steps: 120", "steps: 40"))
        (self.folder / "sweep.yaml").write_text(SWEEP.format(out="out"))

    def command(self):
        # Left to itself, a run times oneDNN and takes the faster way, which has bits of its own.
        trainer = f"{self.posenc} train --progress quiet"
        return ["sweep", "sweep.yaml", "--jobs", "2", "--threads", "1", "--trainer", trainer]

    def check(self):
        for run in sorted((self.folder / "out").glob("*-*")):
            check_run(run)

    def result(self):
        return {run.name: outcome(run) for run in sorted((self.folder / "out").glob("*-*"))}

    def reset(self):
        shutil.rmtree(self.folder / "out")


def write_safetensors(path, tensors):
    """tensors: name -> (rows, columns); the numbers are noise of a fixed seed."""
    header, data, noise = {}, [], random.Random(1)
    at = 0
    for name, (rows, columns) in tensors.items():
        size = rows * columns * 4
        header[name] = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [at, at + size]}
        data.append(noise.randbytes(size))
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))


def layer(number, size=1024):
    names = [f"model.layers.{number}.self_attn.{x}_proj.weight" for x in "qkvo"]
    return {name: (size, size) for name in names}


class ConvertFile(Case):
    def prepare(self):
        write_safetensors(self.folder / "in.safetensors", {**layer(0), **layer(1)})

    def command(self):
        return ["convert", "in.safetensors", "-o", "out.safetensors", "--layout", "interleaved",
                "--from", "half", "--head-dim", "64", "--force"]

    out = "out.safetensors"
    life = 3

    def done(self):
        return (self.folder / self.out).exists()

    def result(self):
        return sha256(self.folder / self.out)

    def reset(self):
        (self.folder / self.out).unlink()


class ConvertInPlace(ConvertFile):
    out = "in.safetensors"

    def prepare(self):
        super().prepare()
        shutil.copy(self.folder / "in.safetensors", self.folder / "kept.safetensors")

    def command(self):
        return ["convert", "in.safetensors", "--in-place", "--layout", "interleaved", "--from", "half",
                "--head-dim", "64"]

    def done(self):
        return self.result() != sha256(self.folder / "kept.safetensors")

    def reset(self):
        shutil.copy(self.folder / "kept.safetensors", self.folder / self.out)


class ConvertFolder(Case):
    life = 3

    def prepare(self):
        source = self.folder / "in"
        source.mkdir()
        shards = {f"model-{i + 1:05}-of-00004.safetensors": layer(i, 512) for i in range(4)}
        for name, tensors in shards.items():
            write_safetensors(source / name, tensors)
        index = {tensor: name for name, tensors in shards.items() for tensor in tensors}
        (source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))

    def command(self):
        return ["convert", "in", "-o", "out", "--layout", "interleaved", "--from", "half", "--head-dim", "64"]

    def done(self):
        return (self.folder / "out").exists()

    def result(self):
        return {p.name: sha256(p) for p in sorted((self.folder / "out").iterdir())}

    def reset(self):
        shutil.rmtree(self.folder / "out")


class Data(Case):
    """The installed Python library as a corpus: the one that needs no network."""

    life = 3

    def command(self):
        return ["data", "python", "--to", "corpus"]

    def done(self):
        return (self.folder / "corpus").exists()

    def end_life(self):
        self.finish()  # also where it is there: its content is compared, and leftovers go
        super().end_life()

    def result(self):
        return json.loads((self.folder / "corpus/manifest.json").read_text())

    def reset(self):
        shutil.rmtree(self.folder / "corpus")


CASES = [Train, Eval, Sweep, ConvertFile, ConvertFolder, ConvertInPlace, Data]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--posenc", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=int(os.environ.get("KILLS", 200)))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", 20261116)))
    parser.add_argument("--only", help="names of cases, separated by commas")
    args = parser.parse_args()
    chosen = [c for c in CASES if not args.only or c.__name__ in args.only.split(",")]
    print(f"{args.kills} kills, seed {args.seed}", flush=True)
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="posenc_kill_") as folder:
        cases = [case(args.posenc.resolve(), Path(folder) / case.__name__, rng) for case in chosen]
        counts = {type(case).__name__: 0 for case in cases}
        while sum(counts.values()) < args.kills:
            case = min(cases, key=lambda c: (counts[type(c).__name__], rng.random()))
            counts[type(case).__name__] += case.kill_once()
    print("killed " + ", ".join(f"{name} {count}" for name, count in counts.items()) + ": all is well")


if __name__ == "__main__":
    main()
