# The build options. The presets set them; a plain `cmake -S . -B dir` uses the defaults. Inside another
# project (add_subdirectory) the default is the library alone.
option(BUILD_SHARED_LIBS "Build libterse as a shared library" ON)
option(TERSE_OPENMP "Use several threads for large tensors (OpenMP)" ON)
option(TERSE_WERROR "Treat compiler warnings as errors" OFF)
option(TERSE_CLI "Build the terse command" ${PROJECT_IS_TOP_LEVEL})
option(TERSE_TRAIN "Build terse train: networks (oneDNN 2, OpenBLAS) and loop" ON)
option(TERSE_TESTS "Build the tests (needs cmocka)" ${PROJECT_IS_TOP_LEVEL})
option(TERSE_INSTALL "Make install rules" ${PROJECT_IS_TOP_LEVEL})
option(TERSE_FUZZ "Build the fuzz targets (needs clang)" OFF)
set(TERSE_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=: address,undefined or thread")

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo" FORCE)
endif()
if(TERSE_FUZZ AND NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TERSE_FUZZ needs clang; this is ${CMAKE_C_COMPILER_ID}")
endif()
