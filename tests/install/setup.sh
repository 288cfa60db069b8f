#!/usr/bin/env bash
# What tools/setup says where it cannot or need not install.
set -uo pipefail
. "$(dirname "$0")/check.sh"
setup="$(cd "$(dirname "$0")/../.." && pwd)/tools/setup"

# Elsewhere: the packages, what each is for, a clear error; nothing is installed.
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

# Every package of every group says what it is for.
lists_reasons() {
    "$setup" --list | tee "$work/out"
    grep -q '^build$' "$work/out" && grep -q '^arm$' "$work/out" &&
        ! grep -E '^  [^ ]+ *$' "$work/out"
}

# A package that is not installed is named with its reason, before anything is done about it. The
# empty dpkg folder stands for a machine that has nothing.
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
