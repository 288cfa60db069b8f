/* f16 and bf16: every element in two bytes, rounded to nearest even. They differ in two kernels and
 * in the smallest magnitude that rounds to infinity. Section: docs/wire-format.md, "f16, bf16". */
#include "base/parallel.h"
#include "codec/codes.h"
#include "codec/statistics.h"

#define BF16_LIMIT 0x7f7f8000u /* half an ulp above the largest bf16 rounds to infinity */

struct half_job {
    const struct tsi_call *call;
    uint32_t (*from_f32)(const float *in, size_t count, uint8_t *out);
    uint32_t (*add_f32)(float *out, const uint8_t *in, size_t count, float factor);
    uint32_t limit;
    const float *in;
    float *out; /* the residual; NULL: nothing is taken */
    uint8_t *section;
};

static struct half_job f16_job(const struct tsi_call *call)
{
    return (struct half_job){.call = call,
                             .from_f32 = call->kernel->f16_from_f32,
                             .add_f32 = call->kernel->f16_add_f32,
                             .limit = TSI_F16_LIMIT};
}

static struct half_job bf16_job(const struct tsi_call *call)
{
    return (struct half_job){.call = call,
                             .from_f32 = call->kernel->bf16_from_f32,
                             .add_f32 = call->kernel->bf16_add_f32,
                             .limit = BF16_LIMIT};
}

static size_t section_bound(const struct terse_codec_ops *ops, const double *option,
                            const struct tsi_piece *piece, uint32_t pass)
{
    (void)ops;
    (void)option;
    (void)pass;
    return piece->count * 2;
}

static size_t scratch_len(const struct terse_codec_ops *ops, const double *option,
                          const struct tsi_piece *piece, unsigned threads)
{
    (void)ops;
    (void)option;
    (void)threads;
    return tsi_statistics_scratch(piece);
}

static void encode_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct half_job *const job = context;
    uint32_t *const maxima = job->call->scratch;
    maxima[chunk] = job->from_f32(job->in + first, count, job->section + 2 * first);
    if (job->out && maxima[chunk] < job->limit)
        (void)job->add_f32(job->out + first, job->section + 2 * first, count, -1.0f);
}

/* Rolls back encode_chunk: x - half(x) and its sum with half(x) are exact (-0 becomes +0). */
static void roll_back_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct half_job *const job = context;
    const uint32_t *const maxima = job->call->scratch;
    if (maxima[chunk] < job->limit)
        (void)job->add_f32(job->out + first, job->section + 2 * first, count, 1.0f);
}

static terse_status encode(struct half_job job, const float *in, float *take, uint8_t *section,
                           size_t *len)
{
    const size_t count = job.call->piece->count;
    const uint32_t *const maxima = job.call->scratch;
    uint32_t most = 0;
    job.in = in;
    job.out = take;
    job.section = section;
    tsi_each_chunk(job.call->threads, count, encode_chunk, &job);
    for (size_t i = 0; i < tsi_chunk_total(count); i++)
        most = maxima[i] > most ? maxima[i] : most;
    const terse_status status = tsi_within(most, job.limit);
    if (status == TERSE_OK)
        *len = count * 2;
    else if (take)
        tsi_each_chunk(job.call->threads, count, roll_back_chunk, &job);
    return status;
}

static terse_status open_codes(const struct tsi_call *call, const uint8_t *section, size_t len,
                               struct tsi_codes *out, terse_fault *fault)
{
    return tsi_codes_open(call, 0, 16, section, len, out, fault);
}

static uint32_t f16_add_codes(const struct tsi_call *call, const struct tsi_codes *codes,
                              size_t first, size_t count, float *out)
{
    return call->kernel->f16_add_f32(out, codes->section + 2 * first, count, 1.0f);
}

static uint32_t bf16_add_codes(const struct tsi_call *call, const struct tsi_codes *codes,
                               size_t first, size_t count, float *out)
{
    return call->kernel->bf16_add_f32(out, codes->section + 2 * first, count, 1.0f);
}

static terse_status f16_encode(const struct tsi_call *call, const float *in, float *take,
                               uint8_t *section, size_t *len)
{
    return encode(f16_job(call), in, take, section, len);
}

static terse_status bf16_encode(const struct tsi_call *call, const float *in, float *take,
                                uint8_t *section, size_t *len)
{
    return encode(bf16_job(call), in, take, section, len);
}

static double f16_limit(const double *option)
{
    (void)option;
    return 65504;
}

const struct terse_codec_ops tsi_codec_f16 = {
    .wire_id = 2,
    .name = "f16",
    .summary = "every element as an IEEE half, to nearest even",
    .traits = TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_FIXED_LEN,
    .passes = 1,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .encode = f16_encode,
    .limit = f16_limit,
    .open_codes = open_codes,
    .add_codes = f16_add_codes,
    .bad_code = "a value is not finite",
};

const struct terse_codec_ops tsi_codec_bf16 = {
    .wire_id = 3,
    .name = "bf16",
    .summary = "every element as a bfloat16, to nearest even",
    .traits = TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_FIXED_LEN,
    .passes = 1,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .encode = bf16_encode,
    .open_codes = open_codes,
    .add_codes = bf16_add_codes,
    .bad_code = "a value is not finite",
};
