/* Which level is in use. */
#ifndef TSK_BIND_H
#define TSK_BIND_H

#include <terse/info.h>

#include "kernels/kernels.h"

/* The bound table, complete (ref where a level brings nothing). Binds on first use; fails as
 * terse_level does. */
TERSE_CHECK terse_status tsk_bound(const struct tsk_table **out, terse_fault *fault);

#endif
