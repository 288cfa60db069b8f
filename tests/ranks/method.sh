#!/usr/bin/env bash
# One thread for all workers, a thread each, and one MPI: the same weights for every method.
#
#   method.sh MPI MPIRUN PROGRAM
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
            timeout 100 "$mpirun" --oversubscribe --mca btl_vader_single_copy_mechanism none \
            -n "$1" "$program" mpi
    else
        timeout 100 "$mpirun" -n "$1" "$program" mpi
    fi
}

for workers in 1 2 3 8; do
    # An MPI may print messages about the machine, also on stdout: they are not results.
    "$program" local "$workers" >"$folder/local" 2>"$folder/local.log"
    "$program" threads "$workers" >"$folder/threads" 2>"$folder/threads.log"
    over_mpi "$workers" >"$folder/mpi.log" 2>&1
    grep -E ' [0-9a-f]{16}$' "$folder/mpi.log" >"$folder/mpi"
    for engine in threads mpi; do
        if [ -s "$folder/local" ] && diff "$folder/local" "$folder/$engine" >"$folder/diff"; then
            printf 'ok %s workers: methods over %s as in one thread, %s hashes\n' "$workers" \
                "$engine" "$(wc -l <"$folder/local")"
        else
            printf 'not ok %s workers: methods over %s differ from one thread\n' "$workers" "$engine"
            sed 's/^/    /' "$folder/diff" "$folder/$engine.log"
            bad=1
        fi
    done
done
exit "$bad"
