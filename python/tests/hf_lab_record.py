"""Compares the golden models of the lab with transformers: one line per family, exit code 1 past the bound.

    python3 python/tests/hf_lab_record.py [--folder tests/golden/hf_models] [--posenc build/release/bin/posenc]

tests/golden/hf_models.py computes the logits with numpy; this script checks that transformers, which reads the
same folders, gives them too (within 1e-4 in float32). With --posenc it also sends each model through the lab,
train.init_from and `posenc export`, and reads the exported folder with transformers. Needs torch and transformers.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers

ROOT = Path(__file__).resolve().parents[2]
BOUND = 1e-4
CONFIG = """task: {{flip_flop: {{}}}}
train: {{init_from: {folder}, length: 16, batch: 2, steps: 1, lr: 1.0e-30, weight_decay: 0}}
eval: {{samples: 2, factors: [1]}}
"""


def apart(folder, golden):
    # Widening is exact, and works whatever type this version loads by default.
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).float().eval()
    with torch.no_grad():
        found = model(torch.tensor([golden["tokens"]]), use_cache=False).logits[0]
    return (found.double() - torch.tensor(golden["logits"], dtype=torch.float64)).abs().max().item()


def exported(posenc, folder, scratch):
    """The model after train.init_from, a step that changes nothing, and `posenc export`."""
    config = scratch / "config.yaml"
    config.write_text(CONFIG.format(folder=folder))
    for words in (["train", config, "--progress", "quiet", "--out", scratch / "run"],
                  ["export", scratch / "run", "--to", "hf", "-o", scratch / "hf"]):
        subprocess.run([posenc, *map(str, words)], check=True)
    return scratch / "hf"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "tests/golden/hf_models")
    parser.add_argument("--posenc", help="the program, to check exported folders as well")
    args = parser.parse_args()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, bound {BOUND}")
    worst = 0.0
    for folder in sorted(path.parent for path in args.folder.glob("*/logits.json")):
        golden = json.loads((folder / "logits.json").read_text())
        figures = {"transformers": apart(folder, golden)}
        if args.posenc:
            with tempfile.TemporaryDirectory() as scratch:
                figures["exported"] = apart(exported(args.posenc, folder, Path(scratch)), golden)
        worst = max(worst, *figures.values())
        print(f"{folder.name:10}", *(f"{name} {value:.1e}" for name, value in figures.items()))
    return 0 if worst < BOUND else 1


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    sys.exit(main())
