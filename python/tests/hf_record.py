"""Prints how far posenc is from eager attention on small models of transformers, as a table of Markdown.

    python3 python/tests/hf_record.py [--device cuda] > record.md

docs/patch.md keeps the last one. Needs transformers; families that it does not have are left out.
"""

import argparse
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.environ.get("POSENC_PYTHON", os.path.join(ROOT, "build/release/python")))

import torch  # noqa: E402
import transformers  # noqa: E402

import posenc  # noqa: E402
from hf_families import ENCODERS, FAMILIES, PATCHED, REGISTERED, apart, build  # noqa: E402
from hf_families import gradients, gradients_apart, logits, prompt  # noqa: E402


def measured(model, device, generates):
    """Logits with padding, gradients of all weights, and tokens of generate or None."""
    given = prompt(padding="left", device=device)
    found = logits(model, given, use_cache=False), gradients(model, given)
    if not generates:
        return *found, None
    return *found, model.generate(**given, max_new_tokens=9, do_sample=False, disable_compile=True)


def compare(found, expected):
    tokens = "-"
    if expected[2] is not None:
        tokens = "same" if torch.equal(found[2], expected[2]) else "DIFFERENT"
    return [
        f"{apart(found[0], expected[0]):.1e}",
        f"{gradients_apart(found[1], expected[1]):.1e}",
        tokens,
    ]


def row(name, device):
    """The cells of one family; None where transformers does not have it."""
    model = build(name)
    if model is None:
        return None
    model = model.to(device)
    generates = name not in ENCODERS
    expected = measured(model, device, generates)
    cells = [name, f"`{type(model).__name__}`"]
    if name in REGISTERED:
        model.set_attn_implementation("posenc")
        cells += compare(measured(model, device, generates), expected)
        model.set_attn_implementation("eager")
    else:
        cells += ["-"] * 3
    if name in PATCHED:
        posenc.patch(model)
        cells += compare(measured(model, device, generates), expected)
    else:
        cells += ["-"] * 3
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    posenc.register_attention()
    print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}, {device}, float32:\n")
    ways = [f"{way}: {what}" for way in ("registry", "patch") for what in ("logits", "gradients", "generate")]
    print("| " + " | ".join(["family", "class", *ways]) + " |")
    print("|" + " --- |" * 8)
    different = False
    for name in FAMILIES:
        cells = row(name, device)
        if cells is not None:
            print("| " + " | ".join(cells) + " |", flush=True)
            different |= "DIFFERENT" in cells
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
