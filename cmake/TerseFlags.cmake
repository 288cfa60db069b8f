# terse_flags: what every target of this project is compiled with.
add_library(terse_flags INTERFACE)

# No contraction to fused multiply-add: results must be the same bits at every kernel set.
# errno of roots and traps of comparisons, which nobody looks at, would keep loops from being
# vectorised; leaving them out changes no result.
target_compile_options(terse_flags INTERFACE -ffp-contract=off -fno-math-errno -fno-trapping-math)
# POSIX threads and clocks, anonymous mmap: what the plain C dialect hides.
target_compile_definitions(terse_flags INTERFACE _DEFAULT_SOURCE)

target_compile_options(terse_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
    -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wcast-align -Wcast-qual
    -Wwrite-strings -Wvla -Wundef -Wformat=2 -Wpointer-arith -Wnull-dereference
    -Wimplicit-fallthrough -Wdate-time)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(terse_flags INTERFACE
        -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wjump-misses-init)
elseif(CMAKE_C_COMPILER_ID MATCHES "Clang")
    target_compile_options(terse_flags INTERFACE
        -Wcomma -Wassign-enum -Wloop-analysis -Wunreachable-code)
endif()
if(TERSE_WERROR)
    target_compile_options(terse_flags INTERFACE -Werror)
endif()

if(TERSE_OPENMP)
    find_package(OpenMP REQUIRED COMPONENTS C)
else()
    target_compile_options(terse_flags INTERFACE -Wno-unknown-pragmas)
endif()

if(TERSE_SANITIZE)
    set(sanitize -fsanitize=${TERSE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(terse_flags INTERFACE ${sanitize})
    target_link_options(terse_flags INTERFACE ${sanitize})
    # Instrumented code hides ranges from the compiler, which then warns of what cannot be.
    target_compile_options(terse_flags INTERFACE -Wno-null-dereference)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        target_compile_options(terse_flags INTERFACE
            -Wno-format-truncation -Wno-maybe-uninitialized -Wno-stringop-overflow)
    endif()
endif()
if(TERSE_FUZZ)
    # Coverage everywhere; the fuzzer's main only in the fuzz targets themselves.
    target_compile_options(terse_flags INTERFACE -fsanitize=fuzzer-no-link)
    target_link_options(terse_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
