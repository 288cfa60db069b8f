/* The kernel set avx512. */
#include "kernels/x86/lanes_avx512.h"
#include "kernels/x86/lanes_avx512_list.h"
#include "kernels/x86/lanes_avx512_random.h"

#include "kernels/lanes/table.h"

const struct tsk_table tsk_avx512 = LANES_TABLE;
