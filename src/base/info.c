/* Version and build options; the build system writes both texts (src/CMakeLists.txt). */
#include <terse/info.h>

const char *terse_version(void)
{
    return TERSE_VERSION;
}

const char *terse_build_options(void)
{
    return TERSE_BUILD_OPTIONS;
}
