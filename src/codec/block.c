/* block: one random block of neighbours, drawn alike by every worker, so that no index travels and
 * payloads add up (RBGS; Xu & Huang, ICML 2022). Only the block is read and checked.
 * Section: docs/wire-format.md, "block". */
#include <string.h>

#include "codec/run.h"
#include "codec/section.h"

enum { RATIO };

static const terse_option options[] = {
    {.name = "ratio",
     .range = "1..1e9",
     .initial = "64",
     .help = "times fewer elements: a block has max(1, floor(count / ratio))",
     .kind = TERSE_OPTION_REAL,
     .low = 1,
     .high = 1e9},
};

/* A block is one run, or two when it wraps around the end. */
struct block {
    size_t start;
    size_t ahead;   /* elements from `start` on */
    size_t wrapped; /* elements from 0 on */
};

static size_t block_count(const double *option, const struct tsi_piece *piece)
{
    const size_t count = (size_t)((double)piece->count / option[RATIO]);
    return count > 0 ? count : 1;
}

/* start = floor(u * n) for a shared 64-bit draw u in [0, 1). */
static struct block block_of(const struct tsi_call *call)
{
    const struct tsk_stream stream =
        tsi_stream_shared(call->key, TSI_RANDOM_BLOCK, call->piece->tensor);
    const uint64_t n = call->piece->count;
    const size_t count = block_count(call->option, call->piece);
    uint32_t random[2];
    call->kernel->random_u32(&stream, 0, 2, random);
    const size_t start = (size_t)((random[0] * n + (random[1] * n >> 32)) >> 32);
    const size_t ahead = count < n - start ? count : (size_t)(n - start);
    return (struct block){start, ahead, count - ahead};
}

static size_t section_bound(const double *option, const struct tsi_piece *piece, uint32_t pass)
{
    (void)pass;
    return block_count(option, piece) * sizeof(float);
}

static size_t scratch_len(const double *option, const struct tsi_piece *piece, unsigned threads)
{
    (void)threads;
    return tsi_run_scratch(block_count(option, piece));
}

static terse_status encode(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len)
{
    const struct block block = block_of(call);
    const size_t ahead_len = block.ahead * sizeof *in;
    float *const ahead = take ? take + block.start : NULL;
    terse_status status = tsi_run_copy(call, in + block.start, ahead, block.ahead, section);
    if (status != TERSE_OK)
        return status;
    status = tsi_run_copy(call, in, take, block.wrapped, section + ahead_len);
    if (status != TERSE_OK && take)
        memcpy(ahead, section, ahead_len);
    *len = ahead_len + block.wrapped * sizeof *in;
    return status;
}

static terse_status decode_add(const struct tsi_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out, terse_fault *fault)
{
    const struct block block = block_of(call);
    const size_t ahead_len = block.ahead * sizeof *out;
    *used = ahead_len + block.wrapped * sizeof *out;
    terse_status status = tsi_section_len(len, *used, fault);
    if (status == TERSE_OK)
        status = tsi_run_add(call, section, 0, block.ahead, out + block.start, fault);
    if (status == TERSE_OK)
        status = tsi_run_add(call, section, ahead_len, block.wrapped, out, fault);
    return status;
}

static size_t touch(const struct tsi_call *call, const uint8_t *section,
                    const struct tsi_toucher *toucher)
{
    const struct block block = block_of(call);
    (void)section;
    toucher->touch(toucher->context, call->piece->offset + block.start, NULL, block.ahead);
    toucher->touch(toucher->context, call->piece->offset, NULL, block.wrapped);
    return (block.ahead + block.wrapped) * sizeof(float);
}

const struct terse_codec_ops tsi_codec_block = {
    .wire_id = 7,
    .name = "block",
    .summary = "one random block of neighbours, the same on every worker",
    .traits = TERSE_CODEC_SELECTING | TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_ADDITIVE |
              TERSE_CODEC_RANDOM | TERSE_CODEC_FIXED_LEN,
    .passes = 1,
    .options = options,
    .option_count = 1,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .encode = encode,
    .decode_add = decode_add,
    .touch = touch,
};
