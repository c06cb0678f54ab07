#!/usr/bin/env bash
# Runs every fuzz target under libFuzzer for a bounded time, starting from the committed corpus.
#   tools/fuzz.sh [target...]      RUNS (20000) and SECONDS_EACH (20) bound each target
# New inputs go to build/fuzz/corpus/<name>, findings to build/fuzz/findings/.
set -euo pipefail
cd "$(dirname "$0")/.."

runs="${RUNS:-20000}"
seconds="${SECONDS_EACH:-20}"
# Limits on time, memory and length keep a hostile input from costing the machine.
options=(-runs="$runs" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=4096
  -print_funcs=0 -verbosity=0)

if ! command -v clang++ >/dev/null; then
  echo "fuzz: clang++ is missing; run tools/setup.sh check" >&2
  exit 1
fi
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target posenc_fuzz -j"${JOBS:-$(nproc)}"

targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" _fuzz.cc)"); done
fi
mkdir -p build/fuzz/findings
for name in "${targets[@]}"; do
  mkdir -p "build/fuzz/corpus/$name"
  echo "fuzz: $name, at most $runs runs or $seconds s"
  "build/fuzz/bin/${name}_fuzz" "${options[@]}" -artifact_prefix=build/fuzz/findings/ \
    "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name"
done
echo "fuzz: ${#targets[@]} targets, no findings"
