/* The kernel set neon. */
#include "kernels/arm/lanes_neon.h"
#include "kernels/arm/lanes_neon_list.h"
#include "kernels/arm/lanes_neon_random.h"

#include "kernels/lanes/table.h"

const struct tsk_table tsk_neon = LANES_TABLE;
