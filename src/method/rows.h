/* What rows of the table have in common. Included by papers.c and baselines.c alone. */
#ifndef TSI_METHOD_ROWS_H
#define TSI_METHOD_ROWS_H

#include "method/table.h"

#define OPTIONS(list) .options = (list), .option_count = sizeof(list) / sizeof((list)[0])

#define RATE(lr)                              \
    {TSI_LR, lr}, {TSI_SCHEDULE, "constant"}, \
    {                                         \
        TSI_RAMP, "0"                         \
    }
#define COMMON          \
    {TSI_CLIP, "0"},    \
    {                   \
        TSI_WARMUP, "0" \
    }
#define LOCAL                                                         \
    {TSI_EVERY, "1"}, {TSI_OUTER_LR, "1"}, {TSI_OUTER_MOMENTUM, "0"}, \
    {                                                                 \
        TSI_NESTEROV, "no"                                            \
    }
#define POLICY       \
    {                \
        TSI_MIN, "0" \
    }

#define NO_LOCAL_SIGNS "a sign has no magnitude, so one vote cannot replace several steps"

/* ---- error feedback over random blocks ---- */

#define BLOCK_METHOD                                                                      \
    .direction = TSI_DIRECTION_MOMENTUM, .unit = TSI_UNIT_WEIGHT, .feedback = "residual", \
    .codec = "block:ratio={ratio}", .combine = "allreduce", .update = TSI_UPDATE_SUBTRACT
#define BLOCK_BYTES "2(K-1)/K * 4d/ratio"
#define BLOCK_FORMULA                                                 \
    "m_k <- momentum * m_k + g_k + wd * w_k,  g_k and decay at w_k\n" \
    "e_k <- e_k + lr * m_k;  x <- x - mean C(e_k);  e_k <- e_k - C(e_k)\n"
#define BLOCK_PAPER "Xu & Huang, Detached Error Feedback, ICML 2022"

#endif
