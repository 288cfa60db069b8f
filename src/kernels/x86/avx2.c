/* The kernel set avx2. */
#include "kernels/x86/lanes_avx2.h"
#include "kernels/x86/lanes_avx2_list.h"
#include "kernels/x86/lanes_avx2_random.h"

#include "kernels/lanes/table.h"

const struct tsk_table tsk_avx2 = LANES_TABLE;
