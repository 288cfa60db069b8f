/* What every vocabulary and every body of the wide kernel sets starts from.
 *
 * A kernel is written once (the other headers of this folder) over sixteen lanes; a kernel set is a
 * vocabulary of those lanes (x86/lanes_avx2*.h, x86/lanes_avx512*.h, arm/lanes_neon*.h):
 *
 *   vf  sixteen floats              vm  sixteen yes or no
 *   vi  sixteen 32-bit integers     vd  sixteen doubles, to sum in
 *   vs  sixteen 16-bit integers     vw, vp, vk  words, products and constants of Philox
 *
 * A name is type_verb. `_first` touches the first n lanes in memory alone, n <= 16; loads fill the
 * other lanes with 0. Memory needs no alignment. Integers are unsigned. */
#ifndef TSK_LANE_H
#define TSK_LANE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

#define LANE static inline __attribute__((always_inline))

#define SIGN_BIT 0x80000000u
#define MAGNITUDE_MASK 0x7fffffffu

/* How many lanes of the next vector hold elements, `left` elements before the end. */
LANE size_t lanes_of(size_t left)
{
    return left < TSK_LANES ? left : TSK_LANES;
}

#endif
