#!/usr/bin/env bash
# Installs into a temporary prefix and uses the result from outside of the source tree.
#
#   installed.sh shared BUILD_FOLDER    installs from the build folder
#   installed.sh static                 builds and installs a static library
set -uo pipefail
. "$(dirname "$0")/check.sh"

kind="$1"
source="$(cd "$(dirname "$0")/../.." && pwd)"
prefix="$work/a prefix" # a path with a space must work

install_it() {
    local build="${1:-}"
    if [ "$kind" = static ]; then
        build="$work/build"
        cmake -S "$source" -B "$build" -G Ninja -DBUILD_SHARED_LIBS=OFF -DTERSE_TESTS=OFF &&
            cmake --build "$build" || return 1
    fi
    cmake --install "$build" --prefix "$prefix"
}

find_installed() {
    library="$(find "$prefix" -name 'libterse.so' -o -name 'libterse.a' | head -n 1)"
    libdir="$(dirname "$library")"
    version="$("$prefix/bin/terse" --version | cut -d" " -f2)"
    IFS=. read -r major minor _ <<<"$version"
    [ -f "$library" ]
}

has_every_file() {
    local header
    for header in "$source"/include/terse/*.h; do
        [ "$(basename "$header")" != mpi.h ] || continue # comes with libterse-mpi
        cmp "$header" "$prefix/include/terse/$(basename "$header")" || return 1
    done
    ls "$prefix/bin/terse" "$prefix/share/man/man1/terse.1" "$libdir/pkgconfig/terse.pc" \
        "$libdir/cmake/terse/terseConfig.cmake" "$libdir/cmake/terse/terseConfigVersion.cmake" \
        "$libdir/cmake/terse/terseTargets.cmake"
}

names_no_build_folder() {
    ! grep -rlF -e "$source" -e "${1:-$work/build}" "$prefix"
}

# Runs a consumer with the library from the prefix. Its output ends in 8 lines: input, decoded value
# and residual, each after its name.
runs() {
    LD_LIBRARY_PATH="$libdir" "$1" | tee "$work/output"
    [ "$(wc -l <"$work/output")" -eq 9 ] &&
        grep -qE '^[a-z]+ +5\.0 +[a-z]+ +5\.0 +[a-z]+ +-0\.0$' "$work/output"
}

by_find_package() {
    cmake -S "$source/tests/install/consumer" -B "$work/cmake" -G Ninja \
        -DCMAKE_PREFIX_PATH="$prefix" -DEXAMPLE="$source/examples/roundtrip.c" \
        -DWANTED="$major.$minor" &&
        cmake --build "$work/cmake" && runs "$work/cmake/consumer"
}

# libterse-mpi comes as a component, with the MPI that it was built for.
by_find_package_mpi() {
    cmake -S "$source/tests/install/consumer" -B "$work/cmake-mpi" -G Ninja \
        -DCMAKE_PREFIX_PATH="$prefix" -DEXAMPLE="$source/examples/mean.c" \
        -DWANTED="$major.$minor" -DCOMPONENTS=mpi &&
        cmake --build "$work/cmake-mpi" &&
        objdump -p "$work/cmake-mpi/consumer" | grep -E "NEEDED +libterse-mpi\.so\.$major\.$minor$"
}

# Inside another project: the library alone, without install rules and without a build type.
as_subproject() {
    cmake -S "$source/tests/install/parent" -B "$work/parent" -G Ninja -DTERSE="$source" \
        -DEXAMPLE="$source/examples/roundtrip.c" &&
        cmake --build "$work/parent" && runs "$work/parent/consumer" &&
        cmake --install "$work/parent" --prefix "$work/nothing" && [ ! -e "$work/nothing" ]
}

# Before 1.0 another minor version, older or newer, is another library.
other_versions_are_refused() {
    local wanted
    for wanted in "$major.$((minor - 1))" "$major.$((minor + 1))" "$((major + 1)).$minor"; do
        ! cmake -S "$source/tests/install/consumer" -B "$work/cmake-$wanted" -G Ninja \
            -DCMAKE_PREFIX_PATH="$prefix" -DEXAMPLE="$source/examples/roundtrip.c" \
            -DWANTED="$wanted" >"$work/output" 2>&1 || return 1
        cat "$work/output"
        grep -q "terseConfig.cmake, version: $version" "$work/output" || return 1
    done
}

man_page_has_version() {
    grep -qx ".Os terse $version" "$prefix/share/man/man1/terse.1"
}

by_pkg_config() {
    local flags=(--cflags --libs) words
    [ "$kind" = shared ] || flags+=(--static)
    export PKG_CONFIG_PATH="$libdir/pkgconfig"
    [ "$(pkg-config --modversion terse)" = "$version" ] || return 1
    [ ! -f "$libdir/pkgconfig/terse-mpi.pc" ] ||
        [ "$(pkg-config --modversion terse-mpi)" = "$version" ] || return 1
    eval "words=($(pkg-config "${flags[@]}" terse))" # eval: pkg-config quotes the space
    "${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -o "$work/consumer" \
        "$source/examples/roundtrip.c" "${words[@]}" && runs "$work/consumer"
}

headers_compile_alone() {
    local header
    for header in "$prefix"/include/terse/*.h; do
        [ "$(basename "$header")" != mpi.h ] || continue # needs the headers of an MPI
        printf '#include <terse/%s>\nint main(void) { return 0; }\n' "$(basename "$header")" |
            "${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$prefix/include" \
                -fsyntax-only -x c - || return 1
    done
}

headers_in_cplusplus() {
    printf '#include <terse/terse.h>\nint main() { return terse_version() == nullptr; }\n' |
        c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$prefix/include" -fsyntax-only -x c++ -
}

exports_only_terse() {
    local symbols
    symbols="$(nm -D --defined-only "$library" | awk '{ print $NF }')"
    grep -q '^terse_codec_create$' <<<"$symbols" && ! grep -v '^terse_' <<<"$symbols"
}

# Major and minor version: before 1.0 a library must not replace one of another minor version.
has_soname() {
    local name="${1//./\\.}\\.$major\\.$minor"
    objdump -p "$libdir/$1" | tee "$work/output" | grep -qE "SONAME +$name$" &&
        [ -f "$libdir/$1.$major.$minor" ]
}

needs_this_libterse() {
    has_soname libterse-mpi.so && grep -qE "NEEDED +libterse\.so\.$major\.$minor$" "$work/output"
}

check "installs ($kind)" install_it "${2:-}"
find_installed || exit 1
check "every file is there ($kind)" has_every_file
check "nothing installed names the build folder ($kind)" names_no_build_folder "${2:-}"
check "installed command runs ($kind)" "$prefix/bin/terse" codecs
check "consumer by find_package ($kind)" by_find_package
check "another version is not found by find_package ($kind)" other_versions_are_refused
check "consumer by pkg-config ($kind)" by_pkg_config
check "the man page has the version ($kind)" man_page_has_version
if [ "$kind" = shared ]; then
    check "every header compiles alone" headers_compile_alone
    if command -v c++ >/dev/null; then
        check "headers in C++" headers_in_cplusplus
    else
        printf 'skip headers in C++: no C++ compiler here\n'
    fi
    check "exports terse_* alone" exports_only_terse
    check "libterse is named after major and minor version" has_soname libterse.so
    if [ -f "$libdir/libterse-mpi.so" ]; then
        check "and so is libterse-mpi, which needs that libterse" needs_this_libterse
        check "consumer of libterse-mpi by find_package" by_find_package_mpi
    else
        printf 'skip libterse-mpi and its consumer: built without MPI\n'
    fi
    check "inside another project only the library is built" as_subproject
fi
exit "$bad"
