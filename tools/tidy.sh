#!/usr/bin/env bash
# clang-tidy over src/ with the flags of build/release; headers are seen through their users.
#   tools/tidy.sh [regex of files]
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v clang-tidy >/dev/null; then
  echo "tidy: clang-tidy is missing; run tools/setup.sh check" >&2
  exit 1
fi
exec python3 tools/tidy.py build/release "${1:-$PWD/src/.*\.cc$}" "${JOBS:-$(nproc)}"
