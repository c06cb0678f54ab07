#!/usr/bin/env bash
# Runs every fuzz target under libFuzzer, starting from the committed corpus.
#   tools/fuzz.sh [target...]                  20000 runs or 20 s of each, whichever comes first
#   RUNS=1000000 tools/fuzz.sh [target...]     that many runs of each, however long they take
#   SECONDS_EACH=600 tools/fuzz.sh             that many seconds of each
# New inputs go to build/fuzz/corpus/<name>, findings to build/fuzz/findings/.
set -euo pipefail
cd "$(dirname "$0")/.."

# What is asked for holds alone: a long run is not cut off by the limit of the short one.
if [[ -n "${RUNS:-}" || -n "${SECONDS_EACH:-}" ]]; then
  runs="${RUNS:--1}"          # -1 and 0 are libFuzzer's words for no limit
  seconds="${SECONDS_EACH:-0}"
else
  runs=20000
  seconds=20
fi
# Limits on time, memory and length keep a hostile input from costing the machine.
options=(-runs="$runs" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=4096
  -print_funcs=0 -verbosity=0)

if ! command -v clang++ >/dev/null; then
  echo "fuzz: clang++ is missing; run tools/setup.sh check" >&2
  exit 1
fi
cmake --preset asan >/dev/null
jobs="${JOBS:-$(nproc)}"
cmake --build --preset asan --target posenc_fuzz -j"$jobs"

targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" _fuzz.cc)"); done
fi
mkdir -p build/fuzz/findings "${targets[@]/#/build/fuzz/corpus/}"
echo "fuzz: $runs runs, $seconds s of each (-1 runs and 0 s: no limit)"
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I NAME env build/asan/bin/NAME_fuzz "${options[@]}" \
  -artifact_prefix=build/fuzz/findings/ build/fuzz/corpus/NAME tests/fuzz/corpus/NAME
echo "fuzz: ${#targets[@]} targets, no findings"
