#!/usr/bin/env python3
"""How well training scales on this machine: tokens per second of N processes with one thread each against one.

    benchmarks/scaling.py --posenc build/release/bin/posenc [--procs 2] [--rounds 3]

Every round trains the same model (d 256, T 512) with one process and with N, one after the other, on the same number of
rows per process. The efficiency of a round is the ratio of their speeds divided by N; the median of the rounds is printed.
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


def tokens_per_second(posenc, procs, rows, steps):
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(CONFIG.format(batch=rows * procs, steps=steps))
        words = [posenc, "train", config, "--procs", procs, "--threads", 1, "--no-eval"]
        words += ["--progress", "quiet", "--out", f"{folder}/run"]
        subprocess.run([str(w) for w in words], check=True)
        lines = (Path(folder) / "run/metrics.jsonl").read_text().splitlines()
        speeds = [json.loads(line)["tokens_per_s"] for line in lines]
        return statistics.median(speeds[2:])  # the first steps load libraries


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
    efficiencies = []
    for _ in range(args.rounds):
        one = tokens_per_second(args.posenc, 1, args.rows, args.steps)
        several = tokens_per_second(args.posenc, args.procs, args.rows, args.steps)
        efficiencies.append(several / one / args.procs)
        print(f"1 process {one:.0f} tok/s, {args.procs} processes {several:.0f} tok/s, "
              f"efficiency {efficiencies[-1]:.2f}", flush=True)
    print(f"median efficiency {statistics.median(efficiencies):.2f}")


if __name__ == "__main__":
    main()
