# terse_add_test(NAME source...)
#     A cmocka binary with access to internals: it links every object of the library and finds the
#     headers of src/ ("codec/codec.h") beside <terse/...>. Its label is binary: these tests run on
#     arm64 too.
#   PUBLIC          links the shared library instead: only the public interface
#   TIMEOUT s       seconds before it counts as failed; default 60
#   LONG            only in `make test-long`
#   LABELS name...  e.g. threads (also run with the thread sanitizer)
#   ENV A=b...      environment
#   ARGS arg...     arguments
#   LIBS target...  further libraries
#
# terse_add_script(NAME command...)
#     Any program that exits with 0 (passed) or 77 (skipped, reason printed). If it prints lines
#     "ok NAME", "not ok NAME", "skip NAME: why", or is a python unittest, each counts as a test.
#   TIMEOUT, LONG, LABELS, ENV as above
#
# terse_add_fuzz(NAME source...)
#     A libFuzzer target (preset fuzz); its seeds come from tests/fuzz/make_corpus.py.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

# The distribution's python has the distribution's numpy and torch.
find_program(TERSE_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(TERSE_PYTHON NAMES python3 REQUIRED)

add_library(terse_whole STATIC $<TARGET_OBJECTS:terse_objects>)
set_target_properties(terse_whole PROPERTIES LINKER_LANGUAGE C)
target_include_directories(terse_whole PUBLIC
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(terse_whole PUBLIC PkgConfig::XXHASH Threads::Threads m)
if(TERSE_OPENMP)
    target_link_libraries(terse_whole PUBLIC OpenMP::OpenMP_C)
endif()

function(terse_test_properties name)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "LONG" "TIMEOUT" "LABELS;ENV")
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 60)
    endif()
    if(TERSE_SANITIZE)
        math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")
    endif()
    if(CMAKE_CROSSCOMPILING)
        math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 10")
    endif()
    if(ARG_LONG)
        list(APPEND ARG_LABELS long)
    endif()
    list(APPEND ARG_ENV PYTHONDONTWRITEBYTECODE=1) # tests write nothing into the source tree
    set_tests_properties(${name} PROPERTIES
        TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77 LABELS "${ARG_LABELS}" ENVIRONMENT "${ARG_ENV}")
endfunction()

function(terse_add_test name)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "PUBLIC;LONG" "TIMEOUT" "LABELS;ENV;ARGS;LIBS")
    string(REPLACE "/" "-" target "test-${name}")
    add_executable(${target} ${ARG_UNPARSED_ARGUMENTS})
    target_link_libraries(${target} PRIVATE terse_flags PkgConfig::CMOCKA ${ARG_LIBS})
    if(ARG_PUBLIC)
        target_link_libraries(${target} PRIVATE terse::terse m)
    else()
        target_link_libraries(${target} PRIVATE terse_whole)
    endif()
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
        # The vectorizer of gcc 12 for arm64 fails on loops of some tests.
        target_compile_options(${target} PRIVATE -fno-tree-vectorize)
    endif()
    add_test(NAME ${name} COMMAND ${target} ${ARG_ARGS})
    set(long "")
    if(ARG_LONG)
        set(long LONG)
    endif()
    # OpenMP threads that wait by spinning take the processor from those they wait for.
    terse_test_properties(${name} ${long} TIMEOUT ${ARG_TIMEOUT} LABELS binary ${ARG_LABELS}
                          ENV OMP_WAIT_POLICY=passive ${ARG_ENV})
endfunction()

function(terse_add_script name)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "LONG" "TIMEOUT" "LABELS;ENV")
    add_test(NAME ${name} COMMAND ${ARG_UNPARSED_ARGUMENTS}
             WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set(long "")
    if(ARG_LONG)
        set(long LONG)
    endif()
    terse_test_properties(${name} ${long} TIMEOUT ${ARG_TIMEOUT} LABELS ${ARG_LABELS}
                          ENV ${ARG_ENV})
endfunction()

function(terse_add_fuzz name)
    if(NOT TERSE_FUZZ)
        return()
    endif()
    add_executable(fuzz-${name} ${ARGN})
    target_link_libraries(fuzz-${name} PRIVATE terse_flags terse_whole)
    target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(fuzz-${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
endfunction()
