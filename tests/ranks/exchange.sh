#!/usr/bin/env bash
# Local threads, callbacks and one MPI: the same hashes for every codec and number of workers.
#
#   exchange.sh MPI MPIRUN PROGRAM
set -uo pipefail
mpi="$1"
mpirun="$2"
program="$3"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
bad=0

over_mpi() {
    if [ "$mpi" = openmpi ]; then
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
            timeout 60 "$mpirun" --oversubscribe --mca btl_vader_single_copy_mechanism none \
            -n "$1" "$program" mpi
    else
        timeout 60 "$mpirun" -n "$1" "$program" mpi
    fi
}

for workers in 1 2 3 4 7 8; do
    # An MPI may print messages about the machine, also on stdout: they are not results.
    "$program" local "$workers" >"$folder/local" 2>"$folder/local.log"
    "$program" callbacks "$workers" >"$folder/callbacks" 2>"$folder/callbacks.log"
    over_mpi "$workers" >"$folder/mpi.log" 2>&1
    grep -E ' [0-9a-f]{16}$' "$folder/mpi.log" >"$folder/mpi"
    for engine in callbacks mpi; do
        if [ -s "$folder/local" ] && diff "$folder/local" "$folder/$engine" >"$folder/diff"; then
            printf 'ok %s workers: %s as local, %s hashes\n' "$workers" "$engine" \
                "$(wc -l <"$folder/local")"
        else
            printf 'not ok %s workers: %s differs from local\n' "$workers" "$engine"
            sed 's/^/    /' "$folder/diff" "$folder/$engine.log"
            bad=1
        fi
    done
done
exit "$bad"
