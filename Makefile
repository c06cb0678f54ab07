# Front door of the project. `make demo` and `make test` set a bare Debian machine up by themselves.
PRESET ?= release
CUDA_PRESET ?= cuda
# The first Python that has torch.
PYTHON ?= $(or $(shell for p in python3 /usr/bin/python3; do $$p -c 'import torch' 2>/dev/null && echo $$p && break; done),python3)
JOBS   ?= $(shell nproc)
TORCH  ?= ON
# EXPLORER=OFF: wheels and Debian packages without the explorer, whose build needs emscripten and npm.
EXPLORER ?= ON
PAGES = $(if $(filter OFF,$(EXPLORER)),,web)
POSENC := build/release/bin/posenc
CPP_FILES = $(shell find src include tests benchmarks examples -name '*.cc' -o -name '*.h' \
              -o -name '*.c' -o -name '*.cu' -o -name '*.cuh')

# Programs need no test libraries: a tree that has no tests yet is configured without them.
WITHOUT_TESTS = $(shell test -f build/release/build.ninja && \
                  grep -qs '^POSENC_BUILD_TESTS:[A-Z]*=ON' build/release/CMakeCache.txt || \
                  echo -DPOSENC_BUILD_TESTS=OFF -DPOSENC_BUILD_BENCHMARKS=OFF)

.PHONY: help setup setup-tests build demo test test-cluster web explorer test-web check format format-check tidy rules \
        asan tsan fuzz mutate bench bench-web cuda cuda-compile install wheel deb site clean
.DEFAULT_GOAL := help

help:           ## list the targets
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | \
	  sed -E 's/^([a-z-]+):[^#]*## */\1\t/' | awk -F '\t' '{printf "  make %-14s %s\n", $$1, $$2}'

setup:          ## install the system packages that building the programs needs
	@tools/setup.sh build

setup-tests:    ## install those that building and running the tests needs, too
	@tools/setup.sh build wheel test

build: setup-tests ## build everything; the program is build/release/bin/posenc
	@cmake --preset $(PRESET) >/dev/null
	@cmake --build --preset $(PRESET) -j$(JOBS)

# Builds the two programs that it runs, and nothing else.
demo: setup     ## train four encodings to copy, test them on unseen rows, write a page: ten minutes
	@cmake --preset $(PRESET) $(WITHOUT_TESTS) >/dev/null
	@cmake --build --preset $(PRESET) -j$(JOBS) --target posenc posenc-lab
	$(POSENC) sweep configs/demo_sweep.yaml --jobs $(JOBS)
	$(POSENC) compare runs/demo
	@$(POSENC) report runs/demo -o runs/demo/report.html

test: build     ## build and run all tests
	@ctest --preset $(PRESET) -j$(JOBS) -LE slow

test-cluster: build ## sweeps in a real Slurm, started for the test: two minutes, needs root
	@tools/setup.sh cluster
	@ctest --preset $(PRESET) --output-on-failure -L cluster

# Not part of `make build`, because the library needs neither emscripten nor npm.
web:            ## build the explorer page into build/web/dist
	@tools/setup.sh build web
	@JOBS=$(JOBS) tools/build_web.sh

explorer: web   ## build the explorer and the program that serves it, and serve it until Ctrl-C
	@cmake --preset $(PRESET) $(WITHOUT_TESTS) >/dev/null
	@cmake --build --preset $(PRESET) -j$(JOBS) --target posenc
	@$(POSENC) serve

test-web: build web ## the explorer and the report in a real browser
	@cd web && npm run --silent test

# The explorer is part of it where `make web` has built it.
site: setup     ## the documentation as a site that reads offline: build/site/index.html
	@tools/setup.sh site
	@cmake --preset $(PRESET) $(WITHOUT_TESTS) >/dev/null
	@cmake --build --preset $(PRESET) -j$(JOBS) --target posenc posenc_python
	@tools/build_site.py --posenc $(POSENC) --python build/release/python

bench-web: web  ## whether the explorer paints a large map within a second
	@cd web && npm run --silent bench

check: format-check tidy rules ## formatting, static checks and the project's rules

format:         ## format the sources in place
	@clang-format -i $(CPP_FILES)

format-check:   ## fail if a source is not formatted
	@clang-format --dry-run --Werror $(CPP_FILES)

tidy: build     ## clang-tidy over src/
	@tools/tidy.sh

rules: build    ## layers, printing, headers, sizes, docs
	@ctest --preset $(PRESET) -j$(JOBS) -L rules

# The rules and the installed package do not depend on how the code was compiled. LEAVE_OUT=Suite.*:Suite.Test: to skip.
# TORCH=OFF leaves out what needs libtorch, which is more than half of the time. LAYERS="core capi": the tests of these.
ifeq ($(shell uname -m),aarch64)
ASAN_ENVIRONMENT := ASAN_OPTIONS=detect_leaks=0
ASAN_LEAKS = for layer in core encodings weights capi runs; do \
  LSAN_OPTIONS=suppressions=tests/support/leaks.txt:print_suppressions=0 \
  build/asan/bin/posenc_$${layer}_tests --gtest_brief=1 || exit 1; done
endif

asan:           ## tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --preset asan -DPOSENC_TORCH=$(TORCH) >/dev/null
	@cmake --build --preset asan -j$(JOBS) $(if $(LAYERS),--target $(LAYERS:%=posenc_%_tests))
	@LEAVE_OUT='$(LEAVE_OUT)' $(ASAN_ENVIRONMENT) ctest --preset asan -j$(JOBS) -LE 'slow|rules|install|docs' \
	  $(if $(LAYERS),-L '^($(subst $(eval ) ,|,$(strip $(LAYERS))))$$')
	@$(ASAN_LEAKS)

tsan:           ## tests that use threads under ThreadSanitizer
	@cmake --preset tsan >/dev/null
	@cmake --build --preset tsan -j$(JOBS) --target posenc_threads_tests
	@ctest --preset tsan -j$(JOBS) -L threads

fuzz:           ## a bounded libFuzzer run of every parser
	@JOBS=$(JOBS) tools/fuzz.sh

# About 240 partial builds; SINCE=REV takes only the files that changed since a revision.
mutate: build   ## change the sources one place at a time: a test has to fail each time; SINCE=REV, ONLY=REGEX
	@tools/mutate.py --jobs $(JOBS) $(if $(SINCE),--since $(SINCE)) $(if $(ONLY),--only '$(ONLY)')

# Kernels, their tests and the operators; the rest of the build does not change with CUDA.
# What CI does for every change: with one head dimension nothing links.
cuda-compile:   ## compile the CUDA kernels of head dimension 64 and the operators, and link nothing
	@cmake --preset cuda-ci -DPOSENC_CUDA_DIMS=64 >/dev/null
	@cmake --build --preset cuda-ci -j$(JOBS) --target posenc_kernels_cuda \
	  $$(ninja -C build/cuda-ci -t targets all | grep -oE '^src/bindings/torch/CMakeFiles/posenc_torch.dir/[^:]*\.o')

cuda:           ## compile and link the CUDA kernels (needs nvcc), and run their tests where there is a GPU
	@cmake --preset $(CUDA_PRESET) -DPOSENC_CUDA_DIMS='64;128;256' >/dev/null
	@cmake --build --preset $(CUDA_PRESET) -j$(JOBS) --target posenc_cuda
	@ctest --preset $(CUDA_PRESET) -j$(JOBS) -L cuda

bench: build    ## run the benchmarks
	@for b in $(wildcard build/release/bin/benchmarks/*); do echo "== $$b" && "$$b" || exit 1; done

# Builds what is installed: no tests and no benchmarks.
install: setup  ## install under PREFIX (default /usr/local)
	@cmake --preset $(PRESET) $(WITHOUT_TESTS) >/dev/null
	@cmake --build --preset $(PRESET) -j$(JOBS) --target posenc_installed
	@cmake --install build/release --prefix $(or $(PREFIX),/usr/local)

# For the torch that was built against, here Debian's.
wheel: setup $(PAGES) ## a self-contained Python wheel in dist/, with the programs and the explorer; EXPLORER=OFF
	@tools/setup.sh wheel
	@cmake --preset $(PRESET) $(WITHOUT_TESTS) >/dev/null
	@cmake --build --preset $(PRESET) -j$(JOBS) --target posenc_installed posenc_python
	@$(PYTHON) tools/wheel.py build/release dist

deb: $(PAGES)   ## Debian packages in dist/: libposenc, libposenc-dev, posenc and python3-posenc; EXPLORER=OFF
	@tools/setup.sh build deb
	@JOBS=$(JOBS) tools/deb.sh dist

clean:          ## remove everything that was built
	@rm -rf build
