/* Which set is in use. */
#ifndef TSK_BIND_H
#define TSK_BIND_H

#include <terse/info.h>

#include "kernels/kernels.h"

/* The bound table, complete (ref where a set brings nothing). Binds on first use; fails as
 * terse_kernel_set_name does. */
TERSE_CHECK terse_status tsk_bound(const struct tsk_table **out, terse_fault *fault);

#endif
