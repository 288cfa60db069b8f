#!/usr/bin/env bash
# bench/shaped with a small buffer: the row makes sense, and no namespace stays, also when it is
# told to end.
#
#   shaped.sh WORKER_PROGRAM
set -uo pipefail
program="$1"
shaped="$(dirname "$0")/../../bench/shaped"
out="$(mktemp)"
trap 'rm -f "$out"' EXIT
bad=0

verdict() {
    if [ "$1" -eq 0 ]; then
        printf 'ok %s\n' "$2"
    else
        printf 'not ok %s\n' "$2"
        sed 's/^/    /' "$out"
        bad=1
    fi
}

run=("$shaped" --program "$program" --json --rate 200mbit --workers 3)

# A float passes the line 2(K-1)/K times: 4/3 x 4 x 400000 bytes. Less time than the line takes is
# impossible, and ten times as much is not what this is for.
makes_sense() {
    python3 - "$out" <<'END'
import json, sys
row = json.loads(open(sys.argv[1]).read())
assert row["workers"] == 3 and row["link_bits_per_second"] == 200000000, row
assert abs(row["line_seconds"] - 4 / 3 * 400000 * 32 / 2e8) < 1e-9, row
assert 0.95 < row["seconds_per_step"] / row["line_seconds"] < 10, row
assert abs(row["bytes_claimed"] / (4 / 3 * 4 * 400000) - 1) < 0.01, row
assert 1 <= row["bytes_counted"] / row["bytes_claimed"] < 1.05, row
END
}

"${run[@]}" --count 400000 --steps 3 >"$out" 2>&1
code=$?
if [ "$code" -eq 77 ]; then
    cat "$out"
    exit 77
fi
[ "$code" -eq 0 ] && makes_sense >>"$out" 2>&1
verdict "$?" "a dense sum over shaped links takes about the line's time and bytes"

# Voting: a bit for a float, and the bound beside it.
votes_make_sense() {
    python3 - "$out" <<'END'
import json, sys
row = json.loads(open(sys.argv[1]).read())
assert abs(row["line_seconds"] - 4 / 3 * 4000000 / 2e8) < 1e-9, row
assert 0 < row["codec_seconds"] < row["seconds_per_step"], row
assert abs(row["bound_seconds"] - 1.25 * row["line_seconds"] - row["codec_seconds"]) < 1e-9, row
assert abs(row["bytes_claimed"] / (4 / 3 * 4000000 / 8) - 1) < 0.01, row
assert 1 <= row["bytes_counted"] / row["bytes_claimed"] < 1.05, row
assert row["dense_bytes"] / row["bytes_counted"] > 25, row
END
}
"${run[@]}" --case vote --count 4000000 --steps 3 --runs 1 >"$out" 2>&1 &&
    votes_make_sense >>"$out" 2>&1
verdict "$?" "a vote takes a 25th of the bytes, and its bound is told"

count=$((4000000 + $$)) # a name for its processes
"${run[@]}" --count "$count" --steps 1000 >"$out" 2>&1 &
pid=$!
sleep 4
ip netns list >"$out"
pgrep -f "shaped_worker dense $count 1000" >/dev/null && grep -q "^terse${pid}n3" "$out"
verdict "$?" "it works in namespaces of its own"
kill "$pid"
wait "$pid"
ip netns list >"$out"
! grep -q "^terse${pid}n" "$out"
verdict "$?" "no namespace stays when it is told to end"
! pgrep -af "shaped_worker dense $count 1000" >"$out"
verdict "$?" "and no process"
exit "$bad"
