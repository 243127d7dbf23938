# SPDX-License-Identifier: Apache-2.0
# The commands of a working day. Each installs what it needs on Debian 12 (tools/bootstrap) and builds below build/.
BUILD := build/release
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 20
# Tests of what runs on several threads.
THREADED := base cache driver modules runtime runtime_cpu toolchain
space := $(subst ,, )

# The fuzz targets that are built (tools/fuzz_programs).
FUZZ = all

.PHONY: build demo test test-full bench-cpu fuzz fuzz-build fuzz-build-and-fetch sanitize format check-includes clean

build:
	@tools/bootstrap build
	@cmake --preset release -DCODETTA_BUILD_TESTS=OFF >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)

demo: build
	@tools/bootstrap demo
	@tools/demo $(BUILD)

test: FUZZ = readers slice
test: fuzz-build-and-fetch
	@cmake --preset release -DCODETTA_BUILD_TESTS=ON -DCODETTA_TEST_FULL=OFF >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@tools/run_tests $(BUILD)

test-full: fuzz-build-and-fetch
	@cmake --preset release -DCODETTA_BUILD_TESTS=ON -DCODETTA_TEST_FULL=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@tools/run_tests $(BUILD)

bench-cpu:
	@tools/bootstrap bench
	@cmake --preset release -DCODETTA_BUILD_BENCH=ON >/dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@bench/run_cpu $(BUILD)

# What tests need from the network comes while the fuzz targets compile.
fuzz-build-and-fetch:
	@tools/bootstrap packages
	@tools/bootstrap fetch & fetch=$$!; $(MAKE) --no-print-directory fuzz-build FUZZ='$(FUZZ)'; status=$$?; wait $$fetch || status=$$?; exit $$status

# Without this Clang the fuzz tests are skipped. In large pages it compiles in nine tenths of the time, where the system gives some.
fuzz-build:
	@tools/bootstrap fuzz
	@if command -v clang++-19 >/dev/null; then \
	  cmake --preset fuzz >/dev/null && GLIBC_TUNABLES=glibc.malloc.hugetlb=1 cmake --build build/fuzz -j $(JOBS) --target \
	    $$(for which in $(FUZZ); do tools/fuzz_programs $$which; done | sed -E 's/[a-z]+/&_fuzz/g'); \
	else echo "no clang++-19: the fuzz targets are not built"; fi

fuzz: fuzz-build
	@tools/run_fuzz build/fuzz $(FUZZ_SECONDS)

# Everything but long campaigns under the address and undefined-behaviour sanitizers, and what runs on several threads
# under the thread sanitizer. An interpreter cannot load what is instrumented, and one test brings an operator new.
sanitize:
	@tools/bootstrap test
	@cmake --preset asan -DCODETTA_BUILD_EXAMPLES=OFF >/dev/null
	@cmake --build build/asan -j $(JOBS)
	@ASAN_OPTIONS=allocator_may_return_null=1 tools/run_tests build/asan -LE 'differential|fuzz|numerics|package' \
	  -E '^test_(host_python|runtime_allocation)$$'
	@cmake --preset tsan -DCODETTA_BUILD_EXAMPLES=OFF >/dev/null
	@cmake --build build/tsan -j $(JOBS) --target $(addprefix test_,$(THREADED))
	@tools/run_tests build/tsan -R '^test_($(subst $(space),|,$(THREADED)))$$'

format:
	@tools/bootstrap test
	@tools/check_format --repair

# What a build of several files as one hides: a file that lacks an include.
check-includes:
	@tools/bootstrap build
	@tools/check_includes

clean:
	rm -rf build
