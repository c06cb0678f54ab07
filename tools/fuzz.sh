#!/usr/bin/env bash
# Runs every fuzz target under libFuzzer, starting from the committed corpus.
#   tools/fuzz.sh [target...]                  a short run: the same inputs each time
#   RUNS=1000000 tools/fuzz.sh [target...]     that many runs of each, however long they take
#   SECONDS_EACH=600 tools/fuzz.sh             that many seconds of each
#   SEED=7 tools/fuzz.sh                       other inputs; long runs draw a seed if none is given
# New inputs go to build/fuzz/corpus/<name>, findings to build/fuzz/findings/.
set -euo pipefail
cd "$(dirname "$0")/.."

# -1 runs, 0 seconds and seed 0 are libFuzzer's words for no limit and for a seed of its own.
export corpus=build/fuzz/corpus
if [[ -n "${RUNS:-}" || -n "${SECONDS_EACH:-}" ]]; then
  runs="${RUNS:--1}"
  seconds="${SECONDS_EACH:-0}"
  seed="${SEED:-0}"
else
  runs=5000
  seconds=0
  seed="${SEED:-1}"
  corpus="$(mktemp -d)"  # what earlier runs found would change the inputs
  trap 'rm -rf "$corpus"' EXIT
fi
# Limits on time, memory and length: an input that exceeds one is a finding.
export options="-runs=$runs -max_total_time=$seconds -seed=$seed -timeout=60 -rss_limit_mb=1024 -max_len=4096
  -print_funcs=0 -verbosity=0 -artifact_prefix=build/fuzz/findings/"

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

# The log of a target is shown only if it found something.
run_target() {
  local name="$1" log="build/fuzz/$1.log"
  # shellcheck disable=SC2086
  if ! "build/asan/bin/${name}_fuzz" $options "$corpus/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
    grep -av '# Uses:' "$log"
    echo "fuzz: $name has a finding"
    return 1
  fi
  echo "fuzz: $name: no findings"
}
export -f run_target
mkdir -p build/fuzz/findings "${targets[@]/#/$corpus/}"
echo "fuzz: $runs runs, $seconds s of each (-1 runs, 0 s: no limit), seed $seed (0: drawn)"
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I NAME bash -c 'run_target NAME'
