#!/bin/sh
# check_refuse_made.sh PYTHON: writes the frames that must be refused again, and compares.
set -eu
here=$(dirname "$0")
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$1" "$here/make_refuse.py" "$here/frames" "$made"
for file in "$here"/refuse/*.terse; do
    cmp "$file" "$made/$(basename "$file")"
done
for file in "$made"/*.terse; do
    test -f "$here/refuse/$(basename "$file")"
done
