#!/usr/bin/env bash
# On a machine with a GPU: builds the CUDA kernels and the operators, checks them and times them, in one
# go of a few minutes. tools/gpu.sh [step...]; steps: build kernels python jax lab sanitize
# bench (default: all).
# BUILD names the build folder, OUT a folder for logs, HIGHWAY the sources of Highway where the system
# has none, BENCH further arguments of benchmarks/cuda_table.py.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
BUILD="${BUILD:-build/gpu}"
OUT="${OUT:-$BUILD/logs}"
PYTHON="${PYTHON:-python3}"
JOBS="${JOBS:-$(nproc)}"
steps=("${@:-build kernels python jax lab sanitize bench}")
mkdir -p "$OUT"
failed=0

wanted() { [[ " ${steps[*]} " == *" $1 "* ]]; }
# What a step says is shown when it ends, at once: several may be under way.
step() {
  local name="$1" start=$SECONDS verdict=ok status=0
  wanted "$name" || return 0
  "run_$name" >"$OUT/$name.log" 2>&1 || { verdict=FAILED status=1; }
  printf '==== %s\n%s\n---- %s: %s, %d s\n' "$name" \
    "$(tail -n "${LINES_SHOWN:-25}" "$OUT/$name.log")" "$name" "$verdict" $((SECONDS - start))
  return "$status"
}
# Steps that are not timed, run in parallel.
together() {
  local name jobs=()
  for name in "$@"; do
    step "$name" &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || failed=1; done
}

run_build() {
  local prefix options=()
  prefix="$("$PYTHON" -c 'import torch; print(torch.utils.cmake_prefix_path)')"
  "$PYTHON" -c 'import jax' 2>/dev/null && options+=(-DPOSENC_JAX=ON)
  [[ -n "${HIGHWAY:-}" ]] && options+=("-DFETCHCONTENT_SOURCE_DIR_HIGHWAY=$HIGHWAY")
  cmake -S . -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPOSENC_CUDA=ON \
    -DPOSENC_BUILD_CLI=ON -DPOSENC_BUILD_BENCHMARKS=OFF -DPOSENC_INSTALL=OFF \
    -DPOSENC_BUILD_CAPI=OFF -DCMAKE_PREFIX_PATH="$prefix" "${options[@]}" &&
    cmake --build "$BUILD" -j"$JOBS" --target posenc_cuda posenc_python posenc_train_tests
}
run_kernels() { "$BUILD/bin/posenc_cuda_tests"; }
run_python() {
  POSENC_PYTHON="$BUILD/python" "$PYTHON" -m pytest -q -p no:cacheprovider --maxfail="${MAXFAIL:-30}" \
    python/tests --ignore=python/tests/test_jax.py ${PYTEST:-}
}
run_jax() {
  "$PYTHON" -c 'import jax' || return 0
  XLA_PYTHON_CLIENT_PREALLOCATE=false POSENC_REQUIRE_JAX=1 POSENC_PYTHON="$BUILD/python" "$PYTHON" -m pytest -q -rs \
    -p no:cacheprovider python/tests/test_jax.py
}
run_lab() { "$BUILD/bin/posenc_train_tests" --gtest_filter='*OnGpu*'; }
# Small shapes only: the tools are a hundred times slower than the kernels, the race checker most of all.
run_sanitize() {
  compute-sanitizer --tool memcheck --error-exitcode 7 "$BUILD/bin/posenc_cuda_tests" \
    --gtest_brief=1 --gtest_filter="${MEMCHECK:-*}" &&
    compute-sanitizer --tool racecheck --error-exitcode 7 "$BUILD/bin/posenc_cuda_tests" \
      --gtest_brief=1 --gtest_filter="${RACECHECK:-*Small*:CudaLinearScan.*}"
}
run_bench() {
  # shellcheck disable=SC2086
  POSENC_PYTHON="$BUILD/python" "$PYTHON" benchmarks/cuda_table.py --json "$OUT/table.json" ${BENCH:-}
}

step build || failed=1
together kernels python jax lab sanitize
LINES_SHOWN=80 step bench || failed=1
exit "$failed"
