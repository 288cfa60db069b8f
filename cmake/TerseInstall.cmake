# Library, headers, pkg-config file, CMake package, command and man page; tests/install tests them.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/terse")

install(TARGETS terse EXPORT terseTargets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/terse" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h" PATTERN "mpi.h" EXCLUDE) # mpi.h belongs to libterse-mpi
install(EXPORT terseTargets NAMESPACE terse:: DESTINATION "${package_dir}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/terseConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/terseConfig.cmake" INSTALL_DESTINATION "${package_dir}"
    NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/terseConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/terseConfig.cmake"
              "${PROJECT_BINARY_DIR}/terseConfigVersion.cmake"
        DESTINATION "${package_dir}")

# The .pc file computes its prefix from its own path, so an installed tree can be moved.
file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
set(pc_openmp "")
if(TERSE_OPENMP)
    list(JOIN OpenMP_C_FLAGS " " pc_openmp)
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/terse.pc.in" "${PROJECT_BINARY_DIR}/terse.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/terse.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(TERSE_CLI)
    file(RELATIVE_PATH bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
    set_target_properties(terse_command PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
    install(TARGETS terse_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    configure_file("${PROJECT_SOURCE_DIR}/docs/man/terse.1" "${PROJECT_BINARY_DIR}/terse.1" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/terse.1"
            DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
endif()

# The Python package, in Debian's folders: packages of the distribution in
# lib/python3/dist-packages, local ones in the folder of the python version.
if(NOT CMAKE_CROSSCOMPILING)
    find_program(TERSE_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
    find_program(TERSE_PYTHON NAMES python3)
    set(python_name python3)
    if(TERSE_PYTHON AND NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
        execute_process(COMMAND "${TERSE_PYTHON}" -c
            "import sys; print('python%d.%d' % sys.version_info[:2])"
            OUTPUT_VARIABLE python_name OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/python/terse"
            DESTINATION "lib/${python_name}/dist-packages"
            FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/python/_installed.py"
         CONTENT "VERSION = \"@PROJECT_VERSION@\"\n" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/python/_installed.py"
            DESTINATION "lib/${python_name}/dist-packages/terse")
endif()
