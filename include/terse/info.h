/* Version, kernel sets and build options. */
#ifndef TERSE_INFO_H
#define TERSE_INFO_H

#include <stdint.h>

#include <terse/export.h>
#include <terse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "MAJOR.MINOR.PATCH". Before 1.0 a new MINOR may change the interface; each MINOR has its own
 * shared library name. */
TERSE_API const char *terse_version(void);

/* The kernel set in use: the one named by the environment variable TERSE_KERNELS (ref, avx2,
 * avx512, neon), else the fastest for this CPU. It is chosen once per process. TERSE_BAD_ARGUMENT:
 * no such set; TERSE_UNSUPPORTED: not on this CPU or not in this build; every other function then
 * fails with the same status. */
TERSE_API TERSE_CHECK terse_status terse_kernel_set_name(const char **name, terse_fault *fault);

/* Changes the set for this process; NULL means the fastest. No other thread may be inside the
 * library. For tests, benchmarks and bug reports: results never depend on the set. */
TERSE_API TERSE_CHECK terse_status terse_kernel_set_select(const char *name, terse_fault *fault);

/* The sets of this build, from slowest to fastest; TERSE_BAD_ARGUMENT past the last. */
typedef struct terse_kernel_set_about {
    const char *name;
    const char *needs;  /* CPU features: "avx2 f16c bmi2" */
    uint32_t supported; /* 1 if this CPU has them */
    uint32_t kernels;   /* number of kernels of its own; the others are those of ref */
} terse_kernel_set_about;
TERSE_API TERSE_CHECK terse_status terse_kernel_set_list(uint32_t index,
                                                         terse_kernel_set_about *out);

/* The name of kernel `index` and the set that provides it, for the set in use; TERSE_BAD_ARGUMENT
 * past the last. */
TERSE_API TERSE_CHECK terse_status terse_kernel_list(uint32_t index, const char **kernel,
                                                     const char **set);

/* For example "gcc 12.2.0, OpenMP 4.5, xxHash 0.8.1". */
TERSE_API const char *terse_build_options(void);

#ifdef __cplusplus
}
#endif
#endif
