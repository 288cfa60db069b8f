#!/usr/bin/env bash
# Builds the wheel, installs it into an empty virtual environment and uses it there: the library is
# the one in the wheel, without the source tree and without any installed libterse. Needs PyPI.
#   wheel.sh PYTHON SOURCE_FOLDER
set -euo pipefail
python="$1" source="$2"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
unset TERSE_LIBRARY PYTHONPATH LD_LIBRARY_PATH PYTHONDONTWRITEBYTECODE

listing() {
    (cd "$source" && find python -name __pycache__ -prune -o -type f -print | sort)
}

# check WHAT command...: the command's exit status decides.
check() {
    local what="$1"
    shift
    if "$@" >"$folder/out" 2>&1; then
        printf 'ok %s\n' "$what"
    else
        cat "$folder/out"
        printf 'not ok %s\n' "$what"
        exit 1
    fi
}

if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    echo "skip wheel: $python makes no virtual environments (Debian: python3-venv)"
    exit 77
fi
before="$(listing)"
status=0
TERSE_PYTHON="$python" "$source/tools/wheel" "$folder/wheel" >"$folder/made" 2>"$folder/why" || status=$?
if [ "$status" -eq 77 ]; then
    echo "skip wheel: $(tail -n 1 "$folder/why")"
    exit 77
elif [ "$status" -ne 0 ]; then
    cat "$folder/why"
    exit 1
fi
wheel="$(grep -F .whl "$folder/made")"
check "the wheel is for every Python 3 and a manylinux platform: ${wheel##*/}" \
    grep -qE '^terse_gradients-[0-9.]+-py3-none-manylinux_2_[0-9]+_[a-z0-9_]+\.whl$' <<<"${wheel##*/}"
check "building leaves the source tree as it was" test "$(listing)" = "$before"

"$python" -m venv "$folder/empty"
cd "$folder"
export PATH="$folder/empty/bin:/usr/bin:/bin"
check "pip installs it into an empty environment" \
    python -m pip install --quiet --no-index --no-deps "$wheel"
site="$(python -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')"
check "its library is the one in use" sh -c \
    'python -m terse.info | tee info | grep -qxF "library   $1/terse/libterse.so" || { cat info; exit 1; }' \
    - "$site"
check "the library needs nothing but libc and what is in the wheel" sh -c \
    '! ldd "$1/terse/libterse.so" | grep -F "=>" | grep -vE "lib(c|m|pthread|gomp-[0-9a-f]+)\.so" |
        grep -vF "$1"' - "$site"
check "of other projects it holds libgomp alone: xxHash is compiled in" sh -c \
    'ls "$1"/*.libs && ! ls "$1"/*.libs | grep -vE "^libgomp-[0-9a-f]+\.so"' - "$site"
check "without numpy the codec says what it needs" python -c '
import terse
try:
    terse.encode([1.0])
except ModuleNotFoundError as why:
    assert "numpy" in str(why), why
else:
    raise SystemExit("numpy is installed: this environment is not empty")'
check "metadata, package and library have one version" python -c '
import terse
from importlib.metadata import metadata, version
assert version("terse-gradients") == terse.version() == terse._version.package_version()
about = metadata("terse-gradients")
assert about["License-Expression"] == "Apache-2.0" and "torch" in about.get_all("Provides-Extra")
assert about["Description-Content-Type"] == "text/markdown" and about.get_all("Classifier")'
check "several threads, with the libgomp of the wheel" python -c '
import ctypes, terse
from terse._method import LocalGroup, Method
group, weights, gradient = LocalGroup(), (ctypes.c_float * 400000)(), (ctypes.c_float * 400000)(1.0)
method = Method("topk:keep=0.01,lr=1,min=0", group, [("x", (400000,))],
                ctypes.addressof(weights), threads=2)
method.step(ctypes.addressof(gradient))
assert weights[0] == -1.0 and not any(weights[1:]), weights[0]
assert "libgomp-" in open("/proc/self/maps").read()'
check "a package of another version refuses the library" sh -c '
    sed -i "s/VERSION = .*/VERSION = \"99.0.0\"/" "$1/terse/_installed.py"
    rm -rf "$1/terse/__pycache__"
    python -m terse.info 2>&1 | grep -F "they must have the same major and minor version"' - "$site"

"$python" -m venv "$folder/other"
check "pip install ./python builds and installs it from the source tree" \
    "$folder/other/bin/python" -m pip install --quiet "$source/python"
check "and finds the library that it built" sh -c \
    '"$1/bin/python" -m terse.info | grep -E "^library   $1/.*/terse/libterse.so$"' - "$folder/other"
check "numpy for it" "$folder/other/bin/python" -m pip install --quiet numpy
check "a codec in Python and sixteen workers" env PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH="$source/examples" "$folder/other/bin/python" -c '
import numpy, random_k, terse
team = terse.simulate("codec=random-k:keep=0.5,feedback=residual,lr=0.1,momentum=0", 16,
                      numpy.ones(1000))
assert abs(team.run(lambda worker, point, step: point, 50)).max() < 0.1'
check "pip install ./python leaves the source tree as it was" test "$(listing)" = "$before"
