#!/usr/bin/env bash
# Times posenc next to ggml on this CPU: benchmarks/ggml/run.sh DIR, where DIR is a checkout of ggml.
set -euo pipefail
if [[ $# -ne 1 || ! -f "$1/include/ggml.h" ]]; then
  echo "usage: benchmarks/ggml/run.sh DIR   (DIR: a checkout of ggml, with include/ggml.h)" >&2
  exit 2
fi
peer="$(cd "$1" && pwd)"
cd "$(dirname "$0")/../.."
cmake -S . -B build/ggml -G Ninja -DCMAKE_BUILD_TYPE=Release -DPOSENC_GGML="$peer" -DPOSENC_TORCH=OFF \
  -DPOSENC_BUILD_TESTS=OFF -DPOSENC_BUILD_CLI=OFF -DPOSENC_BUILD_BENCHMARKS=OFF >/dev/null
cmake --build build/ggml --target posenc_ggml -j"${JOBS:-$(nproc)}"
exec build/ggml/bin/posenc_ggml
