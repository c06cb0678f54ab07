#!/usr/bin/env bash
# Builds the explorer page into build/web/dist: the library as WebAssembly, then the page around it.
#   tools/build_web.sh [wasm|page]     default: both
set -euo pipefail
cd "$(dirname "$0")/.."
what="${1:-all}"

build_wasm() {
  # emscripten asks for its wrapper by this name; paths relative to the tree, as in cmake/PosencCompiler.
  if command -v ccache >/dev/null; then
    export EM_COMPILER_WRAPPER=ccache CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
  fi
  # Debian's emscripten needs Debian's acorn, which a node from elsewhere does not look for.
  export NODE_PATH="/usr/share/nodejs${NODE_PATH:+:$NODE_PATH}"
  emcmake cmake -S web/wasm -B build/web/wasm -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
  cmake --build build/web/wasm -j"${JOBS:-$(nproc)}"
}

# npm ci takes seconds even where nothing changed, so it waits for another lock file.
install_packages() {
  local stamp=node_modules/.posenc_lock
  if ! cmp -s package-lock.json "$stamp"; then
    npm ci --no-audit --no-fund --loglevel=error
    cp package-lock.json "$stamp"
  fi
}

build_page() {
  (cd web && install_packages && npm run --silent build)
}

if [[ "$what" != page ]]; then build_wasm; fi
if [[ "$what" != wasm ]]; then build_page; fi
