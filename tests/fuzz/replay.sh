#!/bin/sh
# replay.sh TARGET PYTHON FOLDER PROGRAM: makes the seed corpus of a fuzz target and replays it,
# together with the inputs of tests/fuzz/found/TARGET that once failed.
set -eu
target=$1 python=$2 folder=$3 program=$4
here=$(dirname "$0")
"$python" "$here/make_corpus.py" "$folder/$target" >/dev/null
set -- "$folder/$target/$target"/*
if [ -d "$here/found/$target" ]; then
    set -- "$@" "$here/found/$target"/*
fi
exec "$program" "$@"
