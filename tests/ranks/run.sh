#!/usr/bin/env bash
# One MPI: the checks for several numbers of ranks, then failures.
#
#   run.sh MPI MPIRUN PROGRAM PROGRAM_WITH_SHORT_MESSAGES
#   run.sh missing MPI
set -uo pipefail
if [ "$1" = missing ]; then
    printf 'skip ranks/%s: this MPI is not installed, or TERSE_MPI is off\n' "$2"
    exit 77
fi
mpi="$1"
mpirun="$2"
program="$3"
short="$4"
out="$(mktemp)"
trap 'rm -f "$out"' EXIT
bad=0

# start COUNT command...
start() {
    local count="$1"
    shift
    if [ "$mpi" = openmpi ]; then
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
            timeout 100 "$mpirun" --oversubscribe --mca btl_vader_single_copy_mechanism none \
            -n "$count" "$@"
    else
        timeout 100 "$mpirun" -n "$count" "$@"
    fi
}

verdict() {
    if [ "$1" -eq 0 ]; then
        printf 'ok %s\n' "$2"
    else
        printf 'not ok %s\n' "$2"
        sed 's/^/    /' "$out"
        bad=1
    fi
}

# part COUNT command...: the program prints its own lines and must exit with 0
part() {
    local code=0
    start "$@" >"$out" 2>&1 || code=$?
    grep -E '^(ok|not ok|skip|# )' "$out"
    if [ "$code" -ne 0 ]; then
        verdict 1 "$(basename "$2") $3 with $1 ranks exits with 0"
    fi
}

# stopped COUNT command...: all ranks but the stopped one name it, and no process is left.
stopped() {
    local pid left=0
    start "$@" >"$out" 2>&1
    [ "$(grep -c "^named: .*rank $(($1 - 1)): " "$out")" -eq "$(($1 - 1))" ] || return 1
    sleep 1
    while read -r pid; do
        grep -qs '^State:[[:space:]]*[A-WY]' "/proc/$pid/status" && left=1
    done < <(sed -n 's/^pid //p' "$out")
    return "$left"
}

for count in 1 2 3 4 7 8; do
    part "$count" "$program" checks
done
part 4 "$short" checks
part 4 "$program" split
part 3 "$program" single
part 3 "$program" mismatch
part 3 "$short" mismatch

for count in 2 4; do
    stopped "$count" "$program" stopped
    verdict "$?" "a stopped rank is named within the timeout ($count ranks)"
done

part 3 "$short" slow
stopped 3 "$short" stalled
verdict "$?" "a rank that stops half-way is named, the timeout after its last message"

start 3 "$program" launched >"$out" 2>&1 && [ "$(grep -c '^launched 3$' "$out")" -eq 3 ]
verdict "$?" "the launcher is detected without MPI_Init"

env -i "$program" launched >"$out" 2>&1 && grep -q '^launched 0$' "$out"
verdict "$?" "without a launcher none is detected"

start 2 "$program" start >"$out" 2>&1 && [ "$(grep -c 'start: ok.*flags 1$' "$out")" -eq 2 ]
verdict "$?" "start sets btl_tcp_flags"

OMPI_MCA_btl_tcp_flags=2 start 2 "$program" start >"$out" 2>&1 &&
    [ "$(grep -c 'start: ok.*flags 2$' "$out")" -eq 2 ]
verdict "$?" "start leaves the user's btl_tcp_flags"
exit "$bad"
