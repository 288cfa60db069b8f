/* topk: the k largest magnitudes exactly (or as halves), the others not at all; ties go to the
 * lowest index. Indices travel as an index stream. Section: docs/wire-format.md, "topk". */
#include "codec/choose.h"
#include "codec/index_stream.h"
#include "codec/section.h"
#include "codec/statistics.h"

enum { KEEP, VALUES };
enum { VALUES_F32, VALUES_F16 };

#define F16_LIMIT 0x477ff000u /* rounds to infinity */
#define BATCH ((size_t)64)    /* elements decoded at a time */
#define AHEAD ((size_t)16)    /* elements prefetched: about a memory latency */

static const terse_param params[] = {
    {.name = "keep",
     .range = "1e-9..1",
     .initial = "0.01",
     .help = "fraction of each tensor that is said: k = max(1, floor(keep * count))",
     .kind = TERSE_PARAM_REAL,
     .low = 1e-9,
     .high = 1},
    {.name = "values",
     .range = "f32|f16",
     .initial = "f32",
     .help = "how values are said",
     .kind = TERSE_PARAM_CHOICE,
     .low = VALUES_F32,
     .high = VALUES_F16},
};

/* floor(keep * n), forgiving that 0.29 * 100 is not quite 29 in binary. */
static size_t k_of(const double *param, const struct tsi_piece *piece)
{
    const size_t k = (size_t)(param[KEEP] * (double)piece->count + 0x1p-20);
    if (k > piece->count)
        return piece->count;
    return k > 0 ? k : 1;
}

static size_t value_len(const double *param)
{
    return param[VALUES] == VALUES_F16 ? 2 : sizeof(float);
}

static size_t section_bound(const double *param, const struct tsi_piece *piece, uint32_t round)
{
    const size_t k = k_of(param, piece);
    const struct tsi_index_shape shape = tsi_index_shape(piece->count, k);
    (void)round;
    return shape.len + k * value_len(param);
}

static size_t scratch_len(const double *param, const struct tsi_piece *piece, unsigned threads)
{
    return tsi_choose_scratch(piece->count, k_of(param, piece), threads);
}

/* ---- encode ---- */

/* Writes the values; what rounding leaves of them stays in chosen->value: 0 for f32. */
static terse_status say_values(const struct tsi_call *call, const struct tsi_chosen *chosen,
                               size_t k, uint8_t *out)
{
    if (call->param[VALUES] == VALUES_F16) {
        const uint32_t most = call->kernel->f16_from_f32(chosen->value, k, out);
        const terse_status status = tsi_within(most, F16_LIMIT);
        if (status == TERSE_OK)
            (void)call->kernel->f16_add_f32(chosen->value, out, k, -1.0f);
        return status;
    }
    memcpy(out, chosen->value, k * sizeof(float));
    memset(chosen->value, 0, k * sizeof(float));
    return TERSE_OK;
}

static void scatter(const struct tsi_chosen *chosen, size_t k, float *out)
{
    for (size_t i = 0; i < k; i++) {
        __builtin_prefetch(&out[chosen->index[i + AHEAD < k ? i + AHEAD : k - 1]], 1);
        out[chosen->index[i]] = chosen->value[i];
    }
}

static terse_status encode(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len)
{
    const size_t k = k_of(call->param, call->piece);
    const struct tsi_index_shape shape = tsi_index_shape(call->piece->count, k);
    struct tsi_chosen chosen;
    terse_status status = tsi_choose(call, in, k, &chosen);
    if (status == TERSE_OK)
        status = say_values(call, &chosen, k, section + shape.len);
    if (status != TERSE_OK)
        return status;
    tsi_index_write(&shape, chosen.index, section);
    if (take)
        scatter(&chosen, k, take);
    *len = section_bound(call->param, call->piece, 0);
    return TERSE_OK;
}

/* ---- decode ---- */

/* `count` values starting with number `first`; 1 if one is not finite. */
static uint32_t hear_values(const struct tsi_call *call, const uint8_t *values, size_t first,
                            size_t count, float *value)
{
    memset(value, 0, count * sizeof *value);
    if (call->param[VALUES] == VALUES_F16)
        return call->kernel->f16_add_f32(value, values + 2 * first, count, 1.0f);
    return call->kernel->add_f32(value, values + sizeof(float) * first, count);
}

/* Decoded elements that wait for their cache lines. */
struct batch {
    uint32_t index[BATCH];
    float value[BATCH];
    size_t count;
};

static void add_batch(const struct batch *batch, float *out)
{
    for (size_t i = 0; i < batch->count; i++)
        out[batch->index[i]] += batch->value[i];
}

/* Decodes elements from number `first` on and asks for the lines they will be added to. */
static terse_status next_batch(const struct tsi_call *call, struct tsi_index_reader *reader,
                               const uint8_t *values, size_t first, const float *out,
                               struct batch *batch, terse_fault *fault)
{
    const size_t left = reader->shape.k - first;
    batch->count = left < BATCH ? left : BATCH;
    if (hear_values(call, values, first, batch->count, batch->value))
        return tsi_fail(fault, TERSE_BAD_FRAME, reader->shape.len + first * value_len(call->param),
                        "a value is not finite");
    const terse_status status = tsi_index_next(reader, batch->count, batch->index, fault);
    for (size_t i = 0; i < batch->count && status == TERSE_OK; i++)
        __builtin_prefetch(&out[batch->index[i]], 1);
    return status;
}

static terse_status decode_add(const struct tsi_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out, terse_fault *fault)
{
    const size_t k = k_of(call->param, call->piece);
    const struct tsi_index_shape shape = tsi_index_shape(call->piece->count, k);
    struct tsi_index_reader reader;
    struct batch batch[2] = {{.count = 0}, {.count = 0}};
    *used = shape.len + k * value_len(call->param);
    terse_status status = tsi_section_len(len, *used, fault);
    if (status == TERSE_OK)
        status = tsi_index_open(&shape, section, &reader, fault);
    for (size_t at = 0, turn = 0; at < k && status == TERSE_OK; at += BATCH, turn ^= 1) {
        status = next_batch(call, &reader, section + shape.len, at, out, &batch[turn], fault);
        add_batch(&batch[turn ^ 1], out);
        batch[turn ^ 1].count = 0;
    }
    if (status == TERSE_OK)
        for (size_t i = 0; i < 2; i++)
            add_batch(&batch[i], out);
    return status;
}

const struct terse_codec_ops tsi_codec_topk = {
    .wire_id = 6,
    .name = "topk",
    .summary = "the k largest magnitudes of each tensor",
    .traits = TERSE_CODEC_SELECTING | TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_FIXED_LEN,
    .rounds = 1,
    .params = params,
    .param_count = 2,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .encode = encode,
    .decode_add = decode_add,
};
