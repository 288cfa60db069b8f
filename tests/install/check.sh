# Sourced by the scripts of this folder. `check NAME command...` runs one test case; if it fails, it
# prints the output and sets $bad to 1. $work is a temporary folder, removed at exit.
# shellcheck shell=bash
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
bad=0

check() {
    local name="$1"
    shift
    if "$@" >"$work/log" 2>&1; then
        printf 'ok %s\n' "$name"
    else
        printf 'not ok %s\n' "$name"
        sed 's/^/    /' "$work/log"
        # shellcheck disable=SC2034
        bad=1
    fi
}
