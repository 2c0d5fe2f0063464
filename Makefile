# The front door. Every target installs what it needs, builds what it needs, and can be run again.
.DEFAULT_GOAL := help
SHELL := bash
BUILD := build/release
FUZZ_SECONDS ?= 300

.PHONY: help demo test bench fuzz format lint check-format install clean build build-times

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

build: ## install what is missing and build the library, the command line and the examples
	@scripts/setup build
	@cmake --preset release -DTESSERA_TESTS=OFF -DTESSERA_EXAMPLES=ON > /dev/null
	@cmake --build --preset release

build-times: build ## what every CUDA file took to compile: seconds, memory; fails over 3 GB a file
	@python3 cmake/nvcc-report times $(BUILD)/resources.json

demo: ## build what this machine can run, then compute, prove and time real attention on it
	@scripts/demo

test: ## install, build and run every test this machine can run; say which it could not
	@scripts/test

bench: ## time Tessera beside oneDNN and OpenBLAS on this CPU (BENCH_FLAGS=--help lists what it takes)
	@scripts/setup build bench
	@cmake --preset release -DTESSERA_BENCH=ON -DTESSERA_TESTS=OFF > /dev/null
	@cmake --build --preset release
	@$(BUILD)/bench/tessera_peers $(BENCH_FLAGS)

fuzz: ## fuzz every parser and the validator for FUZZ_SECONDS (300) each
	@scripts/setup build test
	@cmake --preset asan -DTESSERA_FUZZ=ON -DTESSERA_FUZZ_SECONDS=$(FUZZ_SECONDS) -DTESSERA_FUZZ_KERNELS=ON > /dev/null
	@cmake --build --preset asan --target tessera_fuzzers
	@ctest --preset asan -L fuzz

format: ## rewrite the sources with clang-format
	@scripts/setup test
	@scripts/sources | xargs clang-format -i

check-format: ## fail if a source is not formatted
	@scripts/sources | xargs clang-format --dry-run --Werror

lint: ## run clang-tidy over the library, the command line and the tests
	@scripts/setup build test
	@scripts/lint

install: build ## install into PREFIX (default /usr/local)
	@cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)

clean: ## remove everything that was built
	@rm -rf build
