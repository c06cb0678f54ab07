#!/usr/bin/env bash
# clang-tidy over src/ with the flags of build/release; headers are seen through their users.
#   tools/tidy.sh [regex of files]
# Files with torch headers take more than a minute each and are left out unless asked for:
#   tools/tidy.sh "$PWD/src/(torch|bench/torch|model|lab)/.*\.cc$"
set -euo pipefail
cd "$(dirname "$0")/.."

runner="$(command -v run-clang-tidy || true)"
if [[ -z "$runner" ]]; then
  echo "tidy: clang-tidy is missing; run tools/setup.sh check" >&2
  exit 1
fi
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
# The flags were chosen for GCC, so clang must not mind the warnings it does not know.
if "$runner" -quiet -p build/release -j"${JOBS:-$(nproc)}" \
  -extra-arg=-Wno-unknown-warning-option "${1:-$PWD/src/(?!torch/|bench/torch/|model/|lab/).*\.cc$}" >"$log" 2>&1; then
  echo "tidy: fine"
else
  grep -vE '^(clang-tidy|[0-9]+ warnings? generated|Suppressed|Use -)' "$log" || true
  exit 1
fi
