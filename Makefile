# The front door. Every target sets up what is missing (tools/setup) and builds what it needs;
# CMakePresets.json says how.
PREFIX ?= /usr/local
DESTDIR ?=

all: build  ## build the library and the command build/terse

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Tests are part of the build folder, so their packages are part of the set-up.
setup:
	@tools/setup build test
	@tools/setup data || echo "no Fashion-MNIST then: --data digits needs nothing"

build: setup
	@test -f build/build.ninja || cmake --preset release
	@cmake --build build

demo: build  ## train a network with six methods and set them side by side, about a minute
	@tools/demo build/terse

test: build  ## run the tests
	@tools/run-tests build -LE long

test-torch: build  ## install PyTorch and run its tests: 2, 3 and 4 gloo processes
	@tools/setup torch
	@tools/run-tests build -R '^python/'

test-long: build  ## run the tests, the long ones too
	@tools/run-tests build

test-mutants: build  ## make mistakes in the library on purpose: does a test notice? About an hour
	@tests/mutants/campaign
	@tests/mutants/campaign --claims

bench: build  ## time every codec against the memory limit, and top-k against PyTorch's
	@build/terse bench codecs
	@bench/peers

install: setup  ## install library, headers, command, man page, Python package (PREFIX, DESTDIR)
	@cmake --preset release -DCMAKE_INSTALL_PREFIX="$(PREFIX)" >/dev/null
	@cmake --build build
	@DESTDIR="$(DESTDIR)" cmake --install build

lint:  ## check style, static analysis, scripts, man page and the laws of the tree
	@tools/setup build test lint
	@tools/lint

format:  ## rewrite the C files in the project's style
	@tools/setup lint
	@tools/sources '*.[ch]' | xargs clang-format -i

clean:  ## remove everything that was built
	rm -rf build

.PHONY: all help setup build demo test test-torch test-long test-mutants bench install lint format clean
