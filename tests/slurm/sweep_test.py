"""posenc sweep --on slurm against a real Slurm: races, cancelled, requeued, killed and failing jobs.

    tests/slurm/with_slurm.sh python3 tests/slurm/sweep_test.py --posenc build/release/bin/posenc [--only NAME,...]

Runs are real and tiny. The trainer is `posenc train` behind a few lines of shell that note each start, and that a
test can make fail or hang. Tests wait for states, never for times; the two of the time limit take a minute and run
beside the others.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

PATIENCE = 180  # seconds for a state that must come

BASE = """task: {{selective_counting: {{density: 0.3, cap: 4, max_label: 31}}}}
model: {{encoding: none, layers: 1, dim: 16, heads: 2}}
train: {{length: 16, batch: 8, steps: {steps}, log_every: 10, checkpoint_every: 50, keep_last: 2}}
eval: {{samples: 16, factors: [1]}}
"""
SWEEP = """base: base.yaml
out: out
grid: {{seed: [{seeds}]}}
"""
TRAINER = """#!/bin/bash
here={folder}
for word; do case $word in seed=*) seed=${{word#seed=}};; --resume) resume=yes;; esac; done
echo "start seed=$seed resume=${{resume:-no}} job=$SLURM_ARRAY_JOB_ID" >> $here/calls
[ -f $here/act-$seed ] && . $here/act-$seed
shift
exec {posenc} train --progress quiet "$@"
"""
LONG = 1000000  # steps of a run that something else has to end


def require(holds, *words):
    if not holds:
        raise AssertionError(" ".join(map(str, words)))


def shell(*words):
    return subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class Sweep:
    """A folder with a sweep of its own, and posenc in it."""

    def __init__(self, posenc, folder, seeds, steps=40):
        self.posenc, self.folder, self.out = str(posenc), Path(folder), Path(folder) / "out"
        self.folder.mkdir()
        self.write_base(steps)
        (self.folder / "grid.yaml").write_text(SWEEP.format(seeds=", ".join(map(str, range(seeds)))))
        trainer = self.folder / "trainer"
        trainer.write_text(TRAINER.format(folder=self.folder, posenc=posenc))
        trainer.chmod(0o755)

    def write_base(self, steps):
        (self.folder / "base.yaml").write_text(BASE.format(steps=steps))

    def act(self, seed, script):
        (self.folder / f"act-{seed}").write_text(script)

    def start(self, *words):
        return subprocess.Popen([self.posenc, "sweep", *map(str, words)], cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, *words, code=0):
        process = self.start(*words)
        output, _ = process.communicate(timeout=PATIENCE)
        require(process.returncode == code, words, "ended with", process.returncode, output)
        return output

    def submit_words(self, tasks, *more, time="10"):
        return ["grid.yaml", "--on", "slurm", "--partition", "main", "--time", time, "--array", tasks, "--threads", "1",
                "--trainer", f"{self.folder}/trainer train", *more]

    def submit(self, tasks, *more, time="10"):
        return self.run(*self.submit_words(tasks, *more, time=time)).split()[2].rstrip(":")

    def status(self):
        return json.loads(self.run("status", "out", "--json"))

    def states(self):
        return [run["state"] for run in self.status()["runs"]]

    def calls(self, part="start"):
        path = self.folder / "calls"
        return [line for line in path.read_text().splitlines() if part in line] if path.exists() else []

    def run_folder(self, seed):
        return next(iter(self.out.glob(f"seed{seed}-*")), None)

    def run_status(self, seed):
        return json.loads((self.run_folder(seed) / "status.json").read_text())

    def attempts(self, seed):
        """(number, end) of each attempt of a run."""
        run_hash = next(r["hash"] for r in self.status()["runs"] if r["name"] == f"seed{seed}")
        lease = self.out / "leases" / run_hash
        numbers = sorted(int(p.name) for p in lease.iterdir() if p.name.isdigit())
        ends = [lease / f"{n}.end" for n in numbers]
        return [json.loads(end.read_text())["state"] if end.exists() else None for end in ends]

    def steps(self, seed):
        """Steps of the training rows, which must not repeat: each step is trained once."""
        rows = [json.loads(line) for line in (self.run_folder(seed) / "metrics.jsonl").read_text().splitlines()]
        return [row["step"] for row in rows if row.get("kind", "train") == "train"]

    def wait_for(self, what, holds):
        end = time.monotonic() + PATIENCE
        while not holds():
            require(time.monotonic() < end, "waited in vain until", what, self.explain())
            time.sleep(0.2)

    def explain(self):
        logs = "".join(f"\n-- {p.name}\n{p.read_text()[-2000:]}" for p in self.out.glob("slurm/*.log"))
        return "\n" + self.run("status", "out") + shell("squeue").stdout + logs

    def wait_idle(self, job):
        self.wait_for(f"job {job} ended", lambda: not shell("squeue", "-h", "-j", job, "-o", "%T").stdout.strip()
                      or "Invalid job" in shell("squeue", "-h", "-j", job).stdout)

    def wait_trains(self, seed):
        """A run is past its first checkpoint."""
        self.wait_for(f"run {seed} trains", lambda: self.run_folder(seed) is not None
                      and any((self.run_folder(seed) / "checkpoints").glob("step-*[0-9]")))


def state_of(task):
    fields = shell("scontrol", "-o", "show", "job", task).stdout.split()
    return next((f.split("=")[1] for f in fields if f.startswith("JobState=")), "unknown")


# ---- tests --------------------------------------------------------------------------------------------


def test_two_submissions_share_four_runs(make):
    """Two arrays of two tasks at the same moment: each run is trained once, by one of the four tasks."""
    sweep = make(seeds=4)
    racing = [sweep.start(*sweep.submit_words(2)) for _ in range(2)]
    outputs = [process.communicate(timeout=PATIENCE)[0] for process in racing]
    require(all(p.returncode == 0 for p in racing), outputs)
    jobs = [output.split()[2].rstrip(":") for output in outputs]
    require(len(set(jobs)) == 2, jobs)
    for job in jobs:
        sweep.wait_idle(job)
    require(sweep.states() == ["done"] * 4, sweep.explain())
    for seed in range(4):
        require(len(sweep.calls(f"seed={seed} ")) == 1, "trained twice", sweep.calls())
        require(sweep.attempts(seed).count("finished") == 1, sweep.attempts(seed))
    require("nothing to do" in sweep.run(*sweep.submit_words(2)), "a third submission has nothing to do")


def test_scancel_leaves_runs_that_go_on(make):
    sweep = make(seeds=2, steps=LONG)
    job = sweep.submit(2)
    sweep.wait_trains(0)
    sweep.wait_trains(1)
    held = sweep.status()["runs"]
    require([run["state"] for run in held] == ["held"] * 2, held)
    require({run["job"] for run in held} == {f"{job}_0", f"{job}_1"} and all(run["host"] for run in held), held)
    shell("scancel", job)
    sweep.wait_idle(job)
    require(state_of(f"{job}_0") == "CANCELLED", state_of(f"{job}_0"))
    for seed in range(2):
        require(sweep.run_status(seed)["state"] == "stopped", sweep.run_status(seed))
        require(sweep.attempts(seed) == ["stopped"], sweep.attempts(seed))
    require(sweep.states() == ["waiting"] * 2, sweep.explain())
    again = sweep.submit(2)
    sweep.wait_for("both go on", lambda: len(sweep.calls("resume=yes")) == 2)
    sweep.wait_for("both are held", lambda: sweep.states() == ["held"] * 2)
    require("cancelled" in sweep.run("cancel", "out"), "posenc sweep cancel")
    sweep.wait_idle(again)
    require(sweep.states() == ["waiting"] * 2, sweep.explain())
    # Asked by posenc, a worker ends by itself and well.
    require(state_of(f"{again}_0") == "COMPLETED", state_of(f"{again}_0"))
    require("nothing to cancel" in sweep.run("cancel", "out"), "a second time")
    for seed in range(2):
        steps = sweep.steps(seed)
        require(steps == sorted(set(steps)), "steps were repeated", steps[:100])


def test_a_requeued_job_goes_on_by_itself(make):
    sweep = make(seeds=1, steps=LONG)
    job = sweep.submit(1)
    sweep.wait_trains(0)
    before = shell("scontrol", "requeue", f"{job}_0")
    require(before.returncode == 0, before.stdout)
    sweep.wait_for("it goes on", lambda: len(sweep.calls("resume=yes")) == 1)
    require(sweep.calls(f"job={job}") == sweep.calls(), "the same job", sweep.calls())
    sweep.wait_for("it is held again", lambda: sweep.states() == ["held"])
    require(len(sweep.attempts(0)) == 2, sweep.attempts(0))
    sweep.run("cancel", "out", "--now")
    sweep.wait_idle(job)
    steps = sweep.steps(0)
    require(steps == sorted(set(steps)), "steps were repeated", steps[:100])


def test_a_failed_run_shows_its_reason_and_is_retried(make):
    sweep = make(seeds=3)
    sweep.act(1, "echo 'no luck today' >&2; exit 3\n")
    job = sweep.submit(2)
    sweep.wait_idle(job)
    runs = sweep.status()["runs"]
    require([run["state"] for run in runs] == ["done", "failed", "done"], sweep.explain())
    require(runs[1]["message"] == "exit code 3: no luck today", runs[1])
    require(len(sweep.calls("seed=1 ")) == 1, "the other task does not repeat it", sweep.calls())
    require("no luck today" in sweep.run("status", "out"), "the table")
    states = sorted(state_of(f"{job}_{task}") for task in range(2))
    require(states == ["COMPLETED", "FAILED"], "the task that met it failed", states)
    require("has not failed" in sweep.run("retry", "out", "seed0", code=2), "only failed runs")
    require("is not a run of" in sweep.run("retry", "out", "seed7", code=2), "unknown names")
    (sweep.folder / "act-1").unlink()
    retried = sweep.run("retry", "out", "seed1")
    sweep.wait_idle(retried.split("submitted job ")[1].split(":")[0])
    require(sweep.states() == ["done"] * 3, sweep.explain())
    require(sweep.attempts(1) == ["failed", "retry", "finished"], sweep.attempts(1))
    require("nothing to retry" in sweep.run("retry", "out"), "nothing is left")


def test_a_killed_worker_is_told_and_replaced(make):
    """SIGKILL, as a node that fails or the kernel's killer: no word of it but Slurm's."""
    sweep = make(seeds=1, steps=LONG)
    job = sweep.submit(1)
    sweep.wait_trains(0)
    os.kill(sweep.status()["runs"][0]["pid"], signal.SIGKILL)
    sweep.wait_idle(job)
    run = sweep.status()["runs"][0]
    require(run["state"] == "failed" and f"{job}_0" in run["message"] and "FAILED" in run["message"], run)
    require(sweep.attempts(0) == [None], sweep.attempts(0))
    again = sweep.submit(1)
    sweep.wait_for("it goes on", lambda: len(sweep.calls("resume=yes")) == 1)
    sweep.run("cancel", "out")
    sweep.wait_idle(again)
    require(sweep.attempts(0) == [None, "stopped"], sweep.attempts(0))


def test_a_changed_sweep_is_not_trained(make):
    sweep = make(seeds=1)
    hold = shell("scontrol", "update", "PartitionName=main", "State=INACTIVE")
    require(hold.returncode == 0, hold.stdout)
    try:
        shell("scontrol", "update", "PartitionName=main", "State=DOWN")  # accepts jobs, starts none
        job = sweep.submit(1)
        waiting = sweep.run("status", "out")
        require("1 PENDING" in waiting and "waiting" in waiting, waiting)
        sweep.write_base(steps=41)
    finally:
        shell("scontrol", "update", "PartitionName=main", "State=UP")
    sweep.wait_idle(job)
    require("has changed since the sweep was submitted" in sweep.run("status", "out"), sweep.explain())
    require(not sweep.calls(), sweep.calls())


def test_bad_input_is_one_line(make):
    sweep = make(seeds=1)
    for words, part in [
        (["grid.yaml", "--on", "slurm", "--partition", "nope"], "invalid partition specified: nope"),
        (["grid.yaml", "--on", "slurm", "--time", "soon"], "Invalid --time specification"),
        (["grid.yaml", "--on", "slurm", "--gpus", "512"], "refused"),
        (["grid.yaml", "--on", "slurm", "--minutes", "3"], "use --time"),
        (["grid.yaml", "--partition", "main"], "--on slurm"),
        (["status", "."], "is not the folder of a sweep"),
        (["cancel", "nowhere"], "is not the folder of a sweep"),
    ]:
        output = sweep.run(*words, code=2)
        require(part in output and output.count("\n") == 1 and output.startswith("posenc: "), words, output)
    environment = dict(os.environ, PATH="/nowhere")
    done = subprocess.run([sweep.posenc, "sweep", "grid.yaml", "--on", "slurm"], cwd=sweep.folder, text=True,
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    require(done.returncode == 2 and "needs sbatch" in done.stdout and done.stdout.count("\n") == 1, done.stdout)


def losses(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(row["step"], row["loss"]) for row in rows if "loss" in row]


def test_srun_trains_with_two_ranks(make):
    """srun -n 2 posenc train: the losses of one process; SIGTERM saves, and one process goes on."""
    folder, posenc = make(seeds=1).folder, make.posenc
    train = [posenc, "train", f"{folder}/base.yaml", "--threads", "1", "--progress", "quiet"]
    one = shell(*train, "--out", f"{folder}/one")
    require(one.returncode == 0, one.stdout)
    two = shell("srun", "-n", "2", *train, "--out", f"{folder}/two")
    require(two.returncode == 0, two.stdout)
    pairs = list(zip(losses(folder / "one"), losses(folder / "two"), strict=True))
    require(pairs and all(a[0] == b[0] and abs(a[1] - b[1]) < 1e-4 for a, b in pairs), pairs)
    long = [*train, "--set", f"train.steps={LONG}", "--out", f"{folder}/long"]
    job = subprocess.Popen(["srun", "--job-name=ranks", "-n", "2", *long], text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT)
    end = time.monotonic() + PATIENCE
    while not any((folder / "long/checkpoints").glob("step-*[0-9]")):
        require(time.monotonic() < end and job.poll() is None, "no checkpoint came")
        time.sleep(0.2)
    shell("scancel", "--signal=TERM", "--name=ranks")
    output, _ = job.communicate(timeout=PATIENCE)
    status = json.loads((folder / "long/status.json").read_text())
    require(status["state"] == "stopped", status, output)
    alone = subprocess.Popen([*long, "--resume"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while json.loads((folder / "long/status.json").read_text())["state"] != "running":
        require(time.monotonic() < end and alone.poll() is None, "one process does not go on")
        time.sleep(0.2)
    alone.terminate()
    alone.communicate(timeout=PATIENCE)
    again = json.loads((folder / "long/status.json").read_text())
    require(again["state"] == "stopped" and again["step"] >= status["step"], status, again)


def wait_until(what, holds, *context):
    end = time.monotonic() + PATIENCE
    while not holds():
        require(time.monotonic() < end, "waited in vain until", what, *[c() for c in context])
        time.sleep(0.2)


def test_a_requeued_job_of_ranks_goes_on(make):
    """As srun's ranks, and as those of --procs: no --resume is needed, and no step is trained twice."""
    folder, posenc = make(seeds=1).folder, make.posenc
    for name, start in {"srun": f"srun -n 2 {posenc} train", "procs": f"{posenc} train --procs 2"}.items():
        run, log = folder / name, folder / f"{name}.log"
        words = f"{start} {folder}/base.yaml --threads 1 --progress quiet --set train.steps={LONG} --out {run}"
        job = shell("sbatch", "--parsable", "--requeue", "-n", "2", f"--output={log}", "--open-mode=append",
                    "--wrap", words).stdout.strip()
        said = lambda: shell("squeue").stdout + (log.read_text() if log.exists() else "")
        wait_until("it trains", lambda: any((run / "checkpoints").glob("step-*[0-9]")), said)
        before = shell("scontrol", "requeue", job)
        require(before.returncode == 0, before.stdout)
        wait_until("it is started again", lambda: state_of(job) == "RUNNING"
                   and "Restarts=1" in shell("scontrol", "-o", "show", "job", job).stdout, said)
        last = max(step for step, _ in losses(run))
        wait_until("it goes on", lambda: max(step for step, _ in losses(run)) > last + 10, said)
        shell("scancel", job)
        wait_until("it has ended", lambda: state_of(job) in ("CANCELLED", "COMPLETED"), said)
        steps = [step for step, _ in losses(run)]
        require(steps == sorted(set(steps)), "steps were repeated", steps[:100])


def test_a_sweep_of_runs_with_two_ranks(make):
    """Each run is a step of two ranks; SIGTERM reaches them through posenc and srun."""
    sweep = make(seeds=1, steps=LONG)
    trainer = ["grid.yaml", "--on", "slurm", "--array", "1", "--threads", "1", "--sbatch=--ntasks=2", "--trainer",
               f"srun -n 2 {make.posenc} train"]
    job = sweep.run(*trainer).split()[2].rstrip(":")
    sweep.wait_trains(0)
    sweep.run("cancel", "out")
    sweep.wait_idle(job)
    require(sweep.run_status(0)["state"] == "stopped", sweep.run_status(0), sweep.explain())
    require(sweep.attempts(0) == ["stopped"], sweep.attempts(0), sweep.explain())
    require(sweep.states() == ["waiting"], sweep.explain())


class TimeLimit:
    """Started first and looked at last: Slurm's shortest limit is a minute."""

    def __init__(self, make):
        self.saves = make(seeds=1, steps=LONG)
        self.job_saves = self.saves.submit(1, "--grace", "15", time="1")
        self.deaf = make(seeds=1)
        self.deaf.act(0, "trap '' TERM\nwhile :; do sleep 1; done\n")
        self.job_deaf = self.deaf.submit(1, "--grace", "10", time="1")

    def check(self):
        self.saves.wait_idle(self.job_saves)
        require(state_of(f"{self.job_saves}_0") == "COMPLETED", state_of(f"{self.job_saves}_0"))
        require(self.saves.run_status(0)["state"] == "stopped", self.saves.run_status(0))
        require(self.saves.states() == ["waiting"], self.saves.explain())
        self.deaf.wait_idle(self.job_deaf)
        run = self.deaf.status()["runs"][0]
        require(run["state"] == "waiting" and "TIMEOUT" in run["message"], run)
        require(self.deaf.attempts(0) == ["stopped"], "the worker killed it at Slurm's second signal")


TESTS = [value for name, value in sorted(globals().items()) if name.startswith("test_")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--posenc", type=Path, required=True)
    parser.add_argument("--only", help="names of tests, separated by commas; time_limit is one")
    args = parser.parse_args()
    posenc = args.posenc.resolve()
    chosen = [t for t in TESTS if not args.only or t.__name__[5:] in args.only.split(",")]
    failed = []
    with tempfile.TemporaryDirectory(prefix="posenc_sweep_", ignore_cleanup_errors=True) as folder:
        made = []

        def make(seeds, steps=40):
            made.append(Sweep(posenc, Path(folder) / str(len(made)), seeds, steps))
            return made[-1]

        make.posenc = str(posenc)
        limit = TimeLimit(make) if not args.only or "time_limit" in args.only else None
        checks = [(t.__name__[5:], lambda t=t: t(make)) for t in chosen]
        for name, check in checks + ([("time_limit", limit.check)] if limit else []):
            start = time.monotonic()
            try:
                check()
                print(f"ok      {name}  {time.monotonic() - start:.1f} s", flush=True)
            except Exception:  # each test is told, whatever the one before it did
                failed.append(name)
                print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(checks) + (limit is not None)} tests, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
