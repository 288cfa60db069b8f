# Sourced by the scripts of this folder: `check NAME command...` is one test case. Its output is
# shown when it fails, and $bad is then 1. $work is a folder that disappears at the end.
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
