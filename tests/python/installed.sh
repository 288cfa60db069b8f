#!/bin/sh
# Installs the Python package by `cmake --install` and uses it.
#   installed.sh PYTHON BUILD_FOLDER
set -eu
python="$1" build="$2"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
unset TERSE_LIBRARY PYTHONPATH

cmake --install "$build" --prefix "$folder/prefix" >/dev/null
package="$(dirname "$(find "$folder/prefix" -path '*dist-packages/terse/info.py')")"
(cd "$folder" && PYTHONPATH="$(dirname "$package")" "$python" -m terse.info) >"$folder/info"
if grep -q "^library  *$folder/prefix/lib" "$folder/info"; then
    echo "ok the installed package finds the installed library"
else
    cat "$folder/info"
    echo "not ok the installed package finds the installed library"
    exit 1
fi

version="$("$folder/prefix/bin/terse" --version | cut -d" " -f2)"
found="$(cd "$folder" && PYTHONPATH="$(dirname "$package")" "$python" -c '
from terse._version import package_version
print(package_version())')"
if [ "$found" = "$version" ]; then
    echo "ok the installed package has the version of the project"
else
    echo "not ok the installed package has the version of the project: $found, expected $version"
    exit 1
fi
