/* topk: the k largest magnitudes exactly (or as halves), the others not at all; ties go to the
 * lowest index. Indices travel as an index stream. Section: docs/wire-format.md, "topk". */
#include "base/parallel.h"
#include "codec/choose.h"
#include "codec/index_stream.h"
#include "codec/object.h"
#include "codec/section.h"
#include "codec/statistics.h"
#include "kernels/bind.h"

enum { KEEP, VALUES };
enum { VALUES_F32, VALUES_F16 };

#define MAX_PARTS ((size_t)64)
#define AHEAD ((size_t)16) /* elements prefetched: about a memory latency */

static const terse_option options[] = {
    {.name = "keep",
     .range = "1e-9..1",
     .initial = "0.01",
     .help = "fraction of each tensor that is said: k = max(1, floor(keep * count))",
     .kind = TERSE_OPTION_REAL,
     .low = 1e-9,
     .high = 1},
    {.name = "values",
     .range = "f32|f16",
     .initial = "f32",
     .help = "how values are said",
     .kind = TERSE_OPTION_CHOICE,
     .low = VALUES_F32,
     .high = VALUES_F16},
};

/* Several readers of one index stream, each for a part of the elements. */
struct hearing {
    const struct tsi_call *call;
    const uint8_t *values;
    float *out;
    struct tsi_index_reader reader[MAX_PARTS];
    terse_status status[MAX_PARTS];
    terse_fault fault[MAX_PARTS];
};

/* floor(keep * n), forgiving that 0.29 * 100 is not quite 29 in binary. */
static size_t k_of(const double *option, const struct tsi_piece *piece)
{
    const size_t k = (size_t)(option[KEEP] * (double)piece->count + 0x1p-20);
    if (k > piece->count)
        return piece->count;
    return k > 0 ? k : 1;
}

static size_t value_len(const double *option)
{
    return option[VALUES] == VALUES_F16 ? 2 : sizeof(float);
}

static size_t section_bound(const double *option, const struct tsi_piece *piece, uint32_t pass)
{
    const size_t k = k_of(option, piece);
    const struct tsi_index_shape shape = tsi_index_shape(piece->count, k);
    (void)pass;
    return shape.len + k * value_len(option);
}

static size_t scratch_len(const double *option, const struct tsi_piece *piece, unsigned threads)
{
    const size_t choosing = tsi_choose_scratch(piece->count, k_of(option, piece), threads);
    return choosing > sizeof(struct hearing) ? choosing : sizeof(struct hearing);
}

static size_t prescan_len(const double *option, const struct tsi_piece *piece)
{
    return tsi_choose_prescan_len(piece->count, k_of(option, piece));
}

/* ---- encode ---- */

static int prescan(const struct tsi_call *call, const float *in, size_t first, size_t count)
{
    return tsi_choose_prescan(call, in, k_of(call->option, call->piece), first, count);
}

/* What halves leave of the chosen. */
static void keep_rounding(const struct tsi_call *call, const struct tsi_chosen *chosen, size_t k,
                          const uint8_t *halves)
{
    (void)call->kernel->f16_add_f32(chosen->value, halves, k, -1.0f);
    for (size_t i = 0; i < k; i++)
        if (chosen->value[i] == 0)
            chosen->value[i] = TSI_NOTHING;
}

/* Writes the values; what rounding leaves of them stays in chosen->value: 0 for f32. */
static terse_status say_values(const struct tsi_call *call, const struct tsi_chosen *chosen,
                               size_t k, uint8_t *out)
{
    if (call->option[VALUES] == VALUES_F16) {
        const uint32_t most = call->kernel->f16_from_f32(chosen->value, k, out);
        const terse_status status = tsi_within(most, TSI_F16_LIMIT);
        if (status == TERSE_OK)
            keep_rounding(call, chosen, k, out);
        return status;
    }
    memcpy(out, chosen->value, k * sizeof(float));
    for (size_t i = 0; i < k; i++)
        chosen->value[i] = TSI_NOTHING;
    return TERSE_OK;
}

/* Leaves in `out` what is still unsaid of the chosen. */
struct remainder {
    const struct tsi_chosen *chosen;
    float *out;
};

static void scatter_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct remainder *const remainder = context;
    const uint32_t *const index = remainder->chosen->index + first;
    const float *const value = remainder->chosen->value + first;
    (void)chunk;
    for (size_t i = 0; i < count; i++) {
        __builtin_prefetch(&remainder->out[index[i + AHEAD < count ? i + AHEAD : count - 1]], 1);
        remainder->out[index[i]] = value[i];
    }
}

static terse_status encode(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len)
{
    const size_t k = k_of(call->option, call->piece);
    const struct tsi_index_shape shape = tsi_index_shape(call->piece->count, k);
    struct tsi_chosen chosen;
    terse_status status = tsi_choose(call, in, k, &chosen);
    if (status == TERSE_OK)
        status = say_values(call, &chosen, k, section + shape.len);
    if (status != TERSE_OK)
        return status;
    tsi_index_write(&shape, chosen.index, section);
    if (take) {
        struct remainder remainder = {&chosen, take};
        tsi_each_chunk(call->threads, k, scatter_chunk, &remainder);
    }
    *len = section_bound(call->option, call->piece, 0);
    return TERSE_OK;
}

/* ---- decode ---- */

/* `count` values starting with number `first`; 1 if one is not finite. */
static uint32_t hear_values(const struct tsi_call *call, const uint8_t *values, size_t first,
                            size_t count, float *value)
{
    memset(value, 0, count * sizeof *value);
    if (call->option[VALUES] == VALUES_F16)
        return call->kernel->f16_add_f32(value, values + 2 * first, count, 1.0f);
    return call->kernel->add_f32(value, values + sizeof(float) * first, count);
}

static void add_batch(const struct tsi_batch *batch, float *out)
{
    for (size_t i = 0; i < batch->count; i++)
        out[batch->index[i]] += batch->value[i];
}

static terse_status open_section(const struct tsi_call *call, const uint8_t *section, size_t len,
                                 size_t *used, struct tsi_entries *out, terse_fault *fault)
{
    const size_t k = k_of(call->option, call->piece);
    const struct tsi_index_shape shape = tsi_index_shape(call->piece->count, k);
    *used = shape.len + k * value_len(call->option);
    out->values = section + shape.len;
    const terse_status status = tsi_section_len(len, *used, fault);
    return status == TERSE_OK ? tsi_index_open(&shape, section, &out->reader, fault) : status;
}

/* The next elements and their values; asks for the lines of `soon` that they lead to. */
static terse_status next_batch(const struct tsi_call *call, struct tsi_index_reader *reader,
                               const uint8_t *values, const float *soon, struct tsi_batch *batch,
                               terse_fault *fault)
{
    const size_t first = reader->done;
    const size_t left = reader->done_end - first;
    batch->count = left < TSI_BATCH ? left : TSI_BATCH;
    if (hear_values(call, values, first, batch->count, batch->value))
        return tsi_fail(fault, TERSE_BAD_FRAME, reader->shape.len + first * value_len(call->option),
                        "a value is not finite");
    return tsi_index_next(reader, batch->count, soon, batch->index, fault);
}

static void hear_part(void *context, size_t part)
{
    struct hearing *const hearing = context;
    struct tsi_index_reader *const reader = &hearing->reader[part];
    struct tsi_batch batch[2] = {{.count = 0}, {.count = 0}};
    terse_status status = TERSE_OK;
    for (size_t turn = 0; reader->done < reader->done_end && status == TERSE_OK; turn ^= 1) {
        status = next_batch(hearing->call, reader, hearing->values, hearing->out, &batch[turn],
                            &hearing->fault[part]);
        add_batch(&batch[turn ^ 1], hearing->out);
        batch[turn ^ 1].count = 0;
    }
    for (size_t i = 0; i < 2 && status == TERSE_OK; i++)
        add_batch(&batch[i], hearing->out);
    hearing->status[part] = status;
}

static terse_status decode_add(const struct tsi_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out, terse_fault *fault)
{
    const size_t k = k_of(call->option, call->piece);
    const size_t parts = k < TSI_CHUNK ? 1 : call->threads < MAX_PARTS ? call->threads : MAX_PARTS;
    struct hearing *const hearing = call->scratch;
    struct tsi_entries whole;
    const terse_status status = open_section(call, section, len, used, &whole, fault);
    if (status != TERSE_OK)
        return status;
    hearing->call = call;
    hearing->values = whole.values;
    hearing->out = out;
    tsi_index_split(&whole.reader, parts, hearing->reader);
    tsi_each_part(call->threads, parts, hear_part, hearing);
    for (size_t p = 0; p < parts; p++) {
        if (hearing->status[p] == TERSE_OK)
            continue;
        if (fault)
            *fault = hearing->fault[p];
        return hearing->status[p];
    }
    return tsi_index_joined(hearing->reader, parts, fault);
}

/* ---- entry by entry ---- */

static size_t entries_of(const double *option, const struct tsi_piece *piece)
{
    return k_of(option, piece);
}

static terse_status next(const struct tsi_call *call, struct tsi_entries *entries,
                         struct tsi_batch *batch, terse_fault *fault)
{
    return next_batch(call, &entries->reader, entries->values, NULL, batch, fault);
}

const struct terse_codec_ops tsi_codec_topk = {
    .wire_id = 6,
    .name = "topk",
    .summary = "the k largest magnitudes of each tensor",
    .traits = TERSE_CODEC_SELECTING | TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_FIXED_LEN,
    .passes = 1,
    .options = options,
    .option_count = 2,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .prescan_len = prescan_len,
    .prescan = prescan,
    .encode = encode,
    .decode_add = decode_add,
    .entries = entries_of,
    .open = open_section,
    .next = next,
};
