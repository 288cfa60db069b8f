# The front door. Every target sets up what is missing (tools/setup) and builds what it needs;
# CMakePresets.json says how.
PREFIX ?= /usr/local
DESTDIR ?=

all: build  ## build the library and the command build/terse

help:  ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

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

test-torch: build  ## run the tests of terse.torch with the PyTorch that is there, else the distribution's
	@tools/test-torch build

test-torch2: build  ## the same with PyTorch 2.13 from PyPI, in build/torch-2.13.0
	@tools/setup wheel
	@tools/test-torch build 2.13.0

wheel: setup  ## build the wheel and the source distribution into build/wheel (uses PyPI)
	@tools/setup wheel
	@tools/wheel build/wheel

test-long: build  ## run the tests, the long ones too
	@tools/run-tests build

test-mutants: build  ## make mistakes in the library on purpose: does a test notice? About an hour
	@tests/mutants/campaign
	@tests/mutants/campaign --claims

MINUTES ?= 30
test-campaign: build  ## random faults against random trainings for MINUTES=30
	@tests/campaign/campaign --minutes $(MINUTES)

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

.PHONY: all help setup build demo test test-torch test-torch2 wheel test-long test-mutants test-campaign bench install lint format clean
