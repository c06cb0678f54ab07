#!/usr/bin/env bash
# pip_test.sh SOURCE PYTHON WORK: the commands of docs/pytorch.md build and install from the source tree.
set -euo pipefail
source_tree=$1 python=$2 work=$3
rm -rf "$work"
mkdir -p "$work"
# A copy: pip leaves its own files in the tree it builds from.
git -C "$source_tree" ls-files -z --cached --others --exclude-standard |
  tar -C "$source_tree" --null --files-from=- --ignore-failed-read -cf - | tar -C "$work" --one-top-level=tree -xf -
"$python" -m venv --system-site-packages "$work/venv"
cd "$work/tree"
"$work/venv/bin/pip" install --quiet --no-index --no-build-isolation .
cd "$work"
venv/bin/posenc --version
venv/bin/python -c "import torch, posenc; q = torch.randn(1, 2, 5, 8); print(posenc.attention(q, q, q, 'rope').shape)"
venv/bin/posenc train tree/configs/demo.yaml --out run --set train.steps=3 --set eval.samples=8
