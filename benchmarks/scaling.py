#!/usr/bin/env python3
"""How well training scales on this machine: tokens per second of N processes with one thread each against one.

    benchmarks/scaling.py --posenc build/release/bin/posenc [--procs 2] [--rounds 3]

Every round trains the same model (d 256, T 512) with one process, with N, and as N trainings that know nothing of each
other, one after the other, on the same number of rows per process. The efficiency of a round is the speed of N processes
over N times that of one. The machine's own limit is the same of the N separate trainings: cores share caches, memory and,
as hyper-threads, arithmetic. The medians of the rounds are printed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = """
task: {{selective_counting: {{density: 0.3, cap: 4, max_label: 31}}}}
model: {{encoding: rope, layers: 4, dim: 256, heads: 4}}
train: {{length: 512, batch: {batch}, steps: {steps}, log_every: 1}}
"""


def train(posenc, procs, rows, steps, out):
    config = out.with_suffix(".yaml")
    config.write_text(CONFIG.format(batch=rows * procs, steps=steps))
    words = [posenc, "train", config, "--procs", procs, "--threads", 1, "--no-eval"]
    words += ["--progress", "quiet", "--out", out]
    return subprocess.Popen([str(w) for w in words])


def speed(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    speeds = [json.loads(line)["tokens_per_s"] for line in lines]
    return statistics.median(speeds[2:])  # the first steps load libraries


def tokens_per_second(posenc, procs, rows, steps, trainings=1):
    """Of all `trainings` that run at the same time, each with `procs` processes."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder) / f"run{n}" for n in range(trainings)]
        for training in [train(posenc, procs, rows, steps, run) for run in runs]:
            if training.wait() != 0:
                sys.exit("a training failed")
        return sum(speed(run) for run in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--posenc", required=True)
    parser.add_argument("--procs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=4, help="of a process")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"the machine is busy (load {load:.1f}): the figures say little", file=sys.stderr)
    efficiencies, limits = [], []
    for _ in range(args.rounds):
        one = tokens_per_second(args.posenc, 1, args.rows, args.steps)
        several = tokens_per_second(args.posenc, args.procs, args.rows, args.steps)
        apart = tokens_per_second(args.posenc, 1, args.rows, args.steps, args.procs)
        efficiencies.append(several / one / args.procs)
        limits.append(apart / one / args.procs)
        print(f"1 process {one:.0f} tok/s, {args.procs} processes {several:.0f}, {args.procs} separate trainings "
              f"{apart:.0f}; efficiency {efficiencies[-1]:.2f}, limit {limits[-1]:.2f}", flush=True)
    share = statistics.median(e / l for e, l in zip(efficiencies, limits))
    print(f"median efficiency {statistics.median(efficiencies):.2f}, of the machine's limit "
          f"{statistics.median(limits):.2f}: {share:.2f}")


if __name__ == "__main__":
    main()
