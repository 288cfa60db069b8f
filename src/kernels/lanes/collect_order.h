/* Tables that move the selected lanes of a 128-bit quarter to its front, for kernel sets without
 * such an instruction. */
#ifndef TSK_LANES_COLLECT_ORDER_H
#define TSK_LANES_COLLECT_ORDER_H

#include "kernels/lanes/lane.h"

/* The four byte numbers of a 32-bit lane. */
#define LANE_BYTES(lane) 4 * (lane), 4 * (lane) + 1, 4 * (lane) + 2, 4 * (lane) + 3
#define LANES_BYTES(a, b, c, d) LANE_BYTES(a), LANE_BYTES(b), LANE_BYTES(c), LANE_BYTES(d)

/* Indexed by the four bits of the selected lanes; the bytes behind the last one are arbitrary. */
static const uint8_t collect_order[16][16] = {
    {LANES_BYTES(0, 0, 0, 0)}, {LANES_BYTES(0, 0, 0, 0)}, {LANES_BYTES(1, 0, 0, 0)},
    {LANES_BYTES(0, 1, 0, 0)}, {LANES_BYTES(2, 0, 0, 0)}, {LANES_BYTES(0, 2, 0, 0)},
    {LANES_BYTES(1, 2, 0, 0)}, {LANES_BYTES(0, 1, 2, 0)}, {LANES_BYTES(3, 0, 0, 0)},
    {LANES_BYTES(0, 3, 0, 0)}, {LANES_BYTES(1, 3, 0, 0)}, {LANES_BYTES(0, 1, 3, 0)},
    {LANES_BYTES(2, 3, 0, 0)}, {LANES_BYTES(0, 2, 3, 0)}, {LANES_BYTES(1, 2, 3, 0)},
    {LANES_BYTES(0, 1, 2, 3)},
};

/* The number of ones in four bits. */
LANE size_t collect_count(uint32_t bits)
{
    return UINT64_C(0x4332322132212110) >> 4 * bits & 7;
}

#endif
