#!/usr/bin/env bash
# A launcher and a program of different MPIs: an error, not several groups of one.
#
#   mixed.sh MPIRUN PROGRAM_OF_THE_OTHER_MPI [MPIRUN PROGRAM]...
set -uo pipefail
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
out="$(mktemp)"
trap 'rm -f "$out"' EXIT
bad=0
while [ $# -ge 2 ]; do
    timeout 50 "$1" -n 2 "$2" start >"$out" 2>&1
    name="$(basename "$1") and $(basename "$2") do not match: an error"
    # The first process that fails ends the job, perhaps before the other reaches this point.
    if [ "$(grep -c '^start: mismatch, the launcher announces 2' "$out")" -ge 1 ] &&
        ! grep '^start: ' "$out" | grep -qv mismatch; then
        printf 'ok %s\n' "$name"
    else
        printf 'not ok %s\n' "$name"
        sed 's/^/    /' "$out"
        bad=1
    fi
    shift 2
done
exit "$bad"
