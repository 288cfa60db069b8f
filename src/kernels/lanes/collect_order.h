/* For kernel sets without an instruction for it: how the lanes of a 128-bit quarter move to its
 * front.
 */
#ifndef TSK_LANES_COLLECT_ORDER_H
#define TSK_LANES_COLLECT_ORDER_H

#include "kernels/lanes/lane.h"

/* The four bytes of a 32-bit lane. */
#define LANE_BYTES(lane) 4 * (lane), 4 * (lane) + 1, 4 * (lane) + 2, 4 * (lane) + 3
#define LANES_BYTES(a, b, c, d) LANE_BYTES(a), LANE_BYTES(b), LANE_BYTES(c), LANE_BYTES(d)

/* By the four bits that say which lanes are asked for; what stands behind them does not matter. */
static const uint8_t collect_order[16][16] = {
    {LANES_BYTES(0, 0, 0, 0)}, {LANES_BYTES(0, 0, 0, 0)}, {LANES_BYTES(1, 0, 0, 0)},
    {LANES_BYTES(0, 1, 0, 0)}, {LANES_BYTES(2, 0, 0, 0)}, {LANES_BYTES(0, 2, 0, 0)},
    {LANES_BYTES(1, 2, 0, 0)}, {LANES_BYTES(0, 1, 2, 0)}, {LANES_BYTES(3, 0, 0, 0)},
    {LANES_BYTES(0, 3, 0, 0)}, {LANES_BYTES(1, 3, 0, 0)}, {LANES_BYTES(0, 1, 3, 0)},
    {LANES_BYTES(2, 3, 0, 0)}, {LANES_BYTES(0, 2, 3, 0)}, {LANES_BYTES(1, 2, 3, 0)},
    {LANES_BYTES(0, 1, 2, 3)},
};

/* How many of four bits are set. */
LANE size_t collect_count(uint32_t bits)
{
    return UINT64_C(0x4332322132212110) >> 4 * bits & 7;
}

#endif
