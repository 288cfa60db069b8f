/* block: one random block of consecutive elements. Every worker draws the same one, so no index is
 * sent and payloads can be summed (RBGS; Xu & Huang, ICML 2022). Only the block is read and
 * checked. Section: docs/wire-format.md, "block". */
#include <string.h>

#include "codec/run.h"
#include "codec/section.h"

enum { RATIO };

static const terse_option options[] = {
    {.name = "ratio",
     .range = "1..1e9",
     .initial = "64",
     .help = "compression ratio: a block has max(1, floor(count / ratio)) elements",
     .kind = TERSE_OPTION_REAL,
     .low = 1,
     .high = 1e9},
};

static size_t block_count(const double *option, const struct tsi_piece *piece)
{
    const size_t count = (size_t)((double)piece->count / option[RATIO]);
    return count > 0 ? count : 1;
}

/* A block is one run, or two when it wraps around the end: from start = floor(u * n) on, for a
 * shared 64-bit draw u in [0, 1), and from 0 on. */
static uint32_t support(const struct tsi_call *call, struct tsi_run out[2])
{
    const struct tsk_stream stream = tsi_stream(call->key, TSI_RANDOM_BLOCK, call->piece->tensor);
    const uint64_t n = call->piece->count;
    const size_t count = block_count(call->option, call->piece);
    uint32_t random[2];
    call->kernel->random_u32(&stream, 0, 2, random);
    const uint64_t start = (random[0] * n + (random[1] * n >> 32)) >> 32;
    const uint64_t ahead = count < n - start ? count : n - start;
    out[0] = (struct tsi_run){call->piece->offset + start, ahead};
    out[1] = (struct tsi_run){call->piece->offset, count - ahead};
    return ahead < count ? 2 : 1;
}

static size_t section_bound(const struct terse_codec_ops *ops, const double *option,
                            const struct tsi_piece *piece, uint32_t pass)
{
    (void)ops;
    (void)pass;
    return block_count(option, piece) * sizeof(float);
}

static size_t scratch_len(const struct terse_codec_ops *ops, const double *option,
                          const struct tsi_piece *piece, unsigned threads)
{
    (void)ops;
    (void)threads;
    return tsi_run_scratch(block_count(option, piece));
}

static terse_status encode(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len)
{
    struct tsi_run run[2];
    const uint32_t runs = support(call, run);
    terse_status status = TERSE_OK;
    *len = 0;
    for (uint32_t i = 0; i < runs && status == TERSE_OK; i++) {
        const size_t at = (size_t)(run[i].first - call->piece->offset);
        status = tsi_run_copy(call, in + at, take ? take + at : NULL, (size_t)run[i].count,
                              section + *len);
        if (status == TERSE_OK)
            *len += (size_t)run[i].count * sizeof *in;
    }
    if (status != TERSE_OK && take) /* what was taken before goes back */
        memcpy(take + (run[0].first - call->piece->offset), section, *len);
    return status;
}

static terse_status decode_add(const struct tsi_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out, terse_fault *fault)
{
    struct tsi_run run[2];
    const uint32_t runs = support(call, run);
    size_t at = 0;
    *used = section_bound(call->ops, call->option, call->piece, 0);
    terse_status status = tsi_section_len(len, *used, fault);
    for (uint32_t i = 0; i < runs && status == TERSE_OK; i++) {
        status = tsi_run_add(call, section, at, (size_t)run[i].count,
                             out + (run[i].first - call->piece->offset), fault);
        at += (size_t)run[i].count * sizeof *out;
    }
    return status;
}

const struct terse_codec_ops tsi_codec_block = {
    .wire_id = 7,
    .name = "block",
    .summary = "one random block of consecutive elements, the same on every worker",
    .traits = TERSE_CODEC_SELECTING | TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_ADDITIVE |
              TERSE_CODEC_RANDOM | TERSE_CODEC_FIXED_LEN,
    .passes = 1,
    .options = options,
    .option_count = 1,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .encode = encode,
    .decode_add = decode_add,
    .support = support,
};
