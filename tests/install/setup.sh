#!/usr/bin/env bash
# Tests the messages of tools/setup where it cannot or need not install.
set -uo pipefail
. "$(dirname "$0")/check.sh"
setup="$(cd "$(dirname "$0")/../.." && pwd)/tools/setup"

# Another distribution: prints the packages with their reasons and an error, installs nothing.
stops_elsewhere() {
    printf 'ID=fedora\nID_LIKE="rhel"\n' >"$work/os-release"
    TERSE_SETUP=on TERSE_OS_RELEASE="$work/os-release" "$setup" build test >"$work/out" 2>&1 &&
        return 1
    cat "$work/out"
    grep -q 'libxxhash-dev  *checksums of frames' "$work/out" &&
        grep -q 'libcmocka-dev  *unit tests' "$work/out" && grep -q 'not Debian' "$work/out"
}

can_be_switched_off() {
    printf 'ID=fedora\n' >"$work/os-release"
    TERSE_SETUP=off TERSE_OS_RELEASE="$work/os-release" "$setup" build
}

refuses_unknown_group() {
    ! "$setup" biuld 2>"$work/out" && grep -q "no group 'biuld'" "$work/out"
}

# Every package of every group has a reason.
lists_reasons() {
    "$setup" --list | tee "$work/out"
    grep -q '^build$' "$work/out" && grep -q '^arm$' "$work/out" &&
        ! grep -E '^  [^ ]+ *$' "$work/out"
}

# A missing package is printed with its reason, and not installed. With the empty dpkg folder no
# package is installed.
names_what_is_missing() {
    mkdir -p "$work/dpkg"
    : >"$work/dpkg/status"
    TERSE_SETUP=on DPKG_ADMINDIR="$work/dpkg" "$setup" --missing build >"$work/out" && return 1
    cat "$work/out"
    grep -q 'ninja-build  *runs the build' "$work/out"
}

check "another distribution: names and reasons, then stops" stops_elsewhere
check "TERSE_SETUP=off" can_be_switched_off
check "unknown group" refuses_unknown_group
check "--list has a reason for every package" lists_reasons
if command -v dpkg-query >/dev/null; then
    check "names what is missing" names_what_is_missing
else
    printf 'skip names what is missing: no dpkg here\n'
fi
exit "$bad"
