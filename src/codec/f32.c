/* f32: every element, exactly. The dense baseline. Section: docs/wire-format.md, "f32". */
#include <string.h>

#include "base/parallel.h"
#include "codec/section.h"
#include "codec/statistics.h"

struct copy {
    const struct tsi_call *call;
    const float *in;
    uint8_t *section;
};

static size_t section_bound(const double *param, const struct tsi_piece *piece, uint32_t round)
{
    (void)param;
    (void)round;
    return piece->count * sizeof(float);
}

static size_t scratch_len(const double *param, const struct tsi_piece *piece, unsigned threads)
{
    (void)param;
    (void)threads;
    return tsi_statistics_scratch(piece);
}

/* Copies a chunk and notes its largest magnitude bits while it is warm. */
static void copy_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct copy *const copy = context;
    uint32_t *const maxima = copy->call->scratch;
    maxima[chunk] = copy->call->kernel->magnitude_max_f32(copy->in + first, count);
    memcpy(copy->section + first * sizeof(float), copy->in + first, count * sizeof(float));
}

static terse_status encode(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len)
{
    const size_t count = call->piece->count;
    const uint32_t *const maxima = call->scratch;
    struct copy copy = {call, in, section};
    tsi_each_chunk(call->threads, count, copy_chunk, &copy);
    for (size_t i = 0; i < tsi_chunk_total(count); i++)
        if (maxima[i] >= TSK_INFINITY_BITS)
            return TERSE_NOT_FINITE;
    if (take)
        memset(take, 0, count * sizeof *take);
    *len = count * sizeof(float);
    return TERSE_OK;
}

struct addition {
    const struct tsi_call *call;
    const uint8_t *section;
    float *out;
};

static void add_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct addition *const addition = context;
    uint32_t *const bad = addition->call->scratch;
    bad[chunk] = addition->call->kernel->add_f32(addition->out + first,
                                                 addition->section + first * sizeof(float), count);
}

static terse_status decode_add(const struct tsi_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out, terse_fault *fault)
{
    const size_t count = call->piece->count;
    const uint32_t *const bad = call->scratch;
    const terse_status status = tsi_section_len(len, count * sizeof(float), fault);
    if (status != TERSE_OK)
        return status;
    struct addition addition = {call, section, out};
    tsi_each_chunk(call->threads, count, add_chunk, &addition);
    for (size_t i = 0; i < tsi_chunk_total(count); i++)
        if (bad[i])
            return tsi_fail(fault, TERSE_BAD_FRAME, i * TSI_CHUNK * sizeof(float),
                            "a value is not finite");
    *used = count * sizeof(float);
    return TERSE_OK;
}

const struct terse_codec_ops tsi_codec_f32 = {
    .wire_id = 1,
    .name = "f32",
    .summary = "every element exactly: the dense baseline",
    .traits = TERSE_CODEC_SELECTING | TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_UNBIASED |
              TERSE_CODEC_ADDITIVE | TERSE_CODEC_FIXED_LEN,
    .rounds = 1,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .encode = encode,
    .decode_add = decode_add,
};
