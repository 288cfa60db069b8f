#!/bin/sh
# The type hints of the package fit together, as mypy reads them; what Lightning defines is left to
# trainers.sh, where it is installed.
#   types.sh SOURCE_FOLDER        TERSE_TEST_PYTHON: the Python that has mypy
python="${TERSE_TEST_PYTHON:-python3}"
if ! "$python" -c 'import mypy, torch' 2>/dev/null; then
    echo "skip types: $python has no mypy beside torch; make test-torch2 installs it"
    exit 77
fi
cache="$(mktemp -d)"
trap 'rm -rf "$cache"' EXIT
cd "$1/python" || exit 1
if "$python" -m mypy --cache-dir "$cache" --disable-error-code import-not-found -p terse; then
    echo "ok types"
else
    echo "not ok types"
    exit 1
fi
