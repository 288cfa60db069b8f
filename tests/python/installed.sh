#!/bin/sh
# Installs the Python package by `cmake --install` and by pip without network, and uses it.
#   installed.sh PYTHON BUILD_FOLDER SOURCE_FOLDER
set -eu
python="$1" build="$2" source="$3"
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

if ! "$python" -c 'import setuptools, wheel, pip' 2>/dev/null; then
    echo "skip pip install: pip, setuptools or wheel is not installed (Debian: python3-pip, python3-wheel)"
    exit 0
fi
cp -r "$source/python" "$source/CMakeLists.txt" "$folder" # pip writes files beside the sources
"$python" -m pip install --quiet --no-index --no-build-isolation --no-deps --root-user-action=ignore \
    --target "$folder/target" "$folder/python"
(cd "$folder" && PYTHONPATH="$folder/target" TERSE_LIBRARY="$build/libterse.so" \
    "$python" -c 'import terse; assert terse.decode(terse.encode([1.0, 2.0])).tolist() == [1, 2]')
echo "ok pip installs the package without network"
version="$("$folder/prefix/bin/terse" --version | cut -d" " -f2)"
found="$(cd "$folder" && PYTHONPATH="$folder/target" "$python" -c '
from importlib.metadata import version
from terse._version import package_version
print(version("terse"), package_version())')"
if [ "$found" = "$version $version" ]; then
    echo "ok its metadata has the version of the project"
else
    echo "not ok its metadata has the version of the project: $found, expected $version twice"
    exit 1
fi
