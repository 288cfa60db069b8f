#include <string.h>

#include "bench.h"

/* R is a read of the vector, W a write of it, RW a read and write of it. A codec that is used with
 * a residual is measured with encode_take: updating the residual is part of its work. */
const struct bench_limit bench_limits[] = {
    {"f32", 0, 1, 0, 1, BENCH_WHOLE, "R + W", "RW + payload"},
    {"f16", 0, 1, 0, 1, BENCH_WHOLE, "R + W/2", "RW + payload"},
    {"bf16", 0, 1, 0, 1, BENCH_WHOLE, "R + W/2", "RW + payload"},
    {"sign", 0, 1, 0, 0, BENCH_WHOLE, "R", "RW + payload"},
    {"scaled-sign", 1, 1, 1, 0, BENCH_WHOLE, "R + RW", "RW + payload"},
    {"topk", 1, 1, 0, 0, BENCH_SPARSE, "R", "RW of touched"},
    {"block", 1, 0, 0, 0, BENCH_BLOCK, "block moved", "RW of block + payload"},
    {"log", 1, 1, 1, 0, BENCH_WHOLE, "R + RW", "RW + payload"},
    {"uniform", 0, 2, 0, 1, BENCH_WHOLE, "R + R + codes", "RW + payload"},
    {"nearest", 0, 2, 0, 1, BENCH_WHOLE, "R + R + codes", "RW + payload"},
    {"natural", 0, 2, 0, 1, BENCH_WHOLE, "R + R + codes", "RW + payload"},
    {"low-rank", 1, 2, 1, 0, BENCH_WHOLE, "R + R + RW", "RW + payload"},
};
const size_t bench_limit_count = sizeof bench_limits / sizeof bench_limits[0];

/* Codecs of users: what most of them do, with a residual and without. */
static const struct bench_limit of_users[] = {
    {"(of a user)", 0, 1, 0, 1, BENCH_WHOLE, "R + W", "RW + payload"},
    {"(of a user)", 1, 1, 1, 1, BENCH_WHOLE, "R + RW + W", "RW + payload"},
};

const struct bench_limit *bench_limit_of(const terse_codec_about *about)
{
    const char *const codec = about->name;
    if (about->wire_id >= TERSE_USER_WIRE_ID)
        return &of_users[(about->traits & TERSE_CODEC_CONTRACTIVE) != 0];
    for (size_t i = 0; i < bench_limit_count; i++)
        if (strcmp(bench_limits[i].codec, codec) == 0)
            return &bench_limits[i];
    return NULL;
}
