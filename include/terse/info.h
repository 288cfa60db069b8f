/* What this build and this CPU can do. */
#ifndef TERSE_INFO_H
#define TERSE_INFO_H

#include <stdint.h>

#include <terse/export.h>
#include <terse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "1.0.0" */
TERSE_API const char *terse_version(void);

/* The kernel set in use: the best this CPU has, or the one TERSE_KERNELS names
 * (ref, avx2, avx512, neon). TERSE_BAD_ARGUMENT: no such set; TERSE_UNSUPPORTED: not on this CPU
 * or not in this build. Decided once per process; every other function fails with the same status
 * while the set is bad. */
TERSE_API TERSE_CHECK terse_status terse_kernel_set_name(const char **name, terse_fault *fault);

/* Changes the set for this process; NULL means the best. Not while another thread is inside the
 * library. For tests, benchmarks and bug reports: results never depend on it. */
TERSE_API TERSE_CHECK terse_status terse_kernel_set_select(const char *name, terse_fault *fault);

/* The sets of this build, from slowest to fastest; TERSE_BAD_ARGUMENT past the last. */
typedef struct terse_kernel_set_about {
    const char *name;
    const char *needs;  /* CPU features: "avx2 f16c bmi2" */
    uint32_t supported; /* by this CPU */
    uint32_t kernels;   /* how many kernels it brings itself; the others are those of ref */
} terse_kernel_set_about;
TERSE_API TERSE_CHECK terse_status terse_kernel_set_list(uint32_t index,
                                                         terse_kernel_set_about *out);

/* Which set the kernel in slot `index` comes from at the set in use;
 * TERSE_BAD_ARGUMENT past the last slot. */
TERSE_API TERSE_CHECK terse_status terse_kernel_list(uint32_t index, const char **kernel,
                                                     const char **set);

/* "gcc 12.2.0, OpenMP 4.5, xxHash 0.8.1" */
TERSE_API const char *terse_build_options(void);

#ifdef __cplusplus
}
#endif
#endif
