/* topk: the k largest magnitudes exactly (or as halves), the others not at all; ties go to the
 * lowest index. Indices travel as an index stream. Section: docs/wire-format.md, "topk". */
#include <float.h>

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
     .help = "fraction of each tensor that is sent: k = max(1, floor(keep * count))",
     .kind = TERSE_OPTION_REAL,
     .low = 1e-9,
     .high = 1},
    {.name = "values",
     .range = "f32|f16",
     .initial = "f32",
     .help = "format of the values",
     .kind = TERSE_OPTION_CHOICE,
     .low = VALUES_F32,
     .high = VALUES_F16},
};

/* What a section of a piece consists of. */
struct section {
    size_t k;
    struct tsi_index_shape index;
    size_t value_len; /* of one value; the values follow the index stream */
    size_t len;       /* of the whole */
};

/* k is floor(keep * n), with a tolerance: 0.29 * 100 is below 29 in binary. */
static struct section section_of(const double *option, const struct tsi_piece *piece)
{
    const size_t kept = (size_t)(option[KEEP] * (double)piece->count + 0x1p-20);
    const size_t k = kept > piece->count ? piece->count : kept > 0 ? kept : 1;
    struct section section = {.k = k,
                              .index = tsi_index_shape(piece->count, k),
                              .value_len = option[VALUES] == VALUES_F16 ? 2 : sizeof(float)};
    section.len = section.index.len + k * section.value_len;
    return section;
}

/* A parallel decode: several readers of one section, each for a part of the entries. */
struct decoding {
    const struct tsi_call *call;
    float *out;
    struct tsi_index_reader reader[MAX_PARTS];
    const uint8_t *values;
    terse_status status[MAX_PARTS];
    terse_fault fault[MAX_PARTS];
};

static size_t section_bound(const struct terse_codec_ops *ops, const double *option,
                            const struct tsi_piece *piece, uint32_t pass)
{
    (void)ops;
    (void)pass;
    return section_of(option, piece).len;
}

static size_t scratch_len(const struct terse_codec_ops *ops, const double *option,
                          const struct tsi_piece *piece, unsigned threads)
{
    (void)ops;
    const size_t choosing = tsi_choose_scratch(piece->count, section_of(option, piece).k, threads);
    return choosing > sizeof(struct decoding) ? choosing : sizeof(struct decoding);
}

static size_t prescan_len(const double *option, const struct tsi_piece *piece)
{
    return tsi_choose_prescan_len(piece->count, section_of(option, piece).k);
}

/* ---- encode ---- */

static int prescan(const struct tsi_call *call, const float *in, size_t first, size_t count)
{
    return tsi_choose_prescan(call, in, section_of(call->option, call->piece).k, first, count);
}

/* Writes the residual of the chosen elements to `out`. */
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
    const struct section of = section_of(call->option, call->piece);
    uint8_t *const values = section + of.index.len;
    struct tsi_chosen chosen;
    terse_status status = tsi_choose(call, in, of.k, &chosen);
    if (status == TERSE_OK && call->option[VALUES] == VALUES_F16)
        status = tsi_within(call->kernel->f16_from_f32(chosen.value, of.k, values), TSI_F16_LIMIT);
    if (status != TERSE_OK)
        return status;
    tsi_index_write(&of.index, chosen.index, section);
    *len = of.len;

    /* The values, which become their residual: nothing, or the rounding errors. */
    if (call->option[VALUES] == VALUES_F16) {
        (void)call->kernel->f16_add_f32(chosen.value, values, of.k, -1.0f);
        for (size_t i = 0; i < of.k; i++)
            if (chosen.value[i] == 0)
                chosen.value[i] = TSI_NOTHING;
    } else {
        memcpy(values, chosen.value, of.k * sizeof(float));
        for (size_t i = 0; i < of.k; i++)
            chosen.value[i] = TSI_NOTHING;
    }
    if (take) {
        struct remainder remainder = {&chosen, take};
        tsi_each_chunk(call->threads, of.k, scatter_chunk, &remainder);
    }
    return TERSE_OK;
}

/* ---- decode ---- */

static void add_batch(const struct tsi_batch *batch, float *out)
{
    for (size_t i = 0; i < batch->count; i++)
        out[batch->index[i]] += batch->value[i];
}

static terse_status open_section(const struct tsi_call *call, const uint8_t *section, size_t len,
                                 size_t *used, struct tsi_entries *out, terse_fault *fault)
{
    const struct section of = section_of(call->option, call->piece);
    *used = of.len;
    out->values = section + of.index.len;
    out->soon = NULL;
    const terse_status status = tsi_section_len(len, *used, fault);
    return status == TERSE_OK ? tsi_index_open(&of.index, section, &out->reader, fault) : status;
}

static terse_status next(const struct tsi_call *call, struct tsi_entries *entries,
                         struct tsi_batch *batch, terse_fault *fault)
{
    const int halves = call->option[VALUES] == VALUES_F16;
    const size_t first = entries->reader.done;
    const size_t left = entries->reader.done_end - first;
    const size_t at = first * (halves ? 2 : sizeof(float));
    batch->count = left < TSI_BATCH ? left : TSI_BATCH;
    memset(batch->value, 0, batch->count * sizeof *batch->value);
    const uint32_t bad =
        halves ? call->kernel->f16_add_f32(batch->value, entries->values + at, batch->count, 1.0f)
               : call->kernel->add_f32(batch->value, entries->values + at, batch->count);
    if (bad)
        return tsi_fail(fault, TERSE_BAD_FRAME, entries->reader.shape.len + at,
                        "a value is not finite");
    return tsi_index_next(&entries->reader, batch->count, entries->soon, batch->index, fault);
}

static void decode_part(void *context, size_t part)
{
    struct decoding *const decoding = context;
    struct tsi_entries entries = {
        .reader = decoding->reader[part], .values = decoding->values, .soon = decoding->out};
    const struct tsi_index_reader *const reader = &entries.reader;
    struct tsi_batch batch[2] = {{.count = 0}, {.count = 0}};
    terse_status status = TERSE_OK;
    for (size_t current = 0; reader->done < reader->done_end && status == TERSE_OK; current ^= 1) {
        status = next(decoding->call, &entries, &batch[current], &decoding->fault[part]);
        add_batch(&batch[current ^ 1], decoding->out);
        batch[current ^ 1].count = 0;
    }
    for (size_t i = 0; i < 2 && status == TERSE_OK; i++)
        add_batch(&batch[i], decoding->out);
    decoding->reader[part] = entries.reader;
    decoding->status[part] = status;
}

static terse_status decode_add(const struct tsi_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out, terse_fault *fault)
{
    const size_t k = section_of(call->option, call->piece).k;
    const size_t parts = k < TSI_CHUNK ? 1 : call->threads < MAX_PARTS ? call->threads : MAX_PARTS;
    struct decoding *const decoding = call->scratch;
    struct tsi_entries whole;
    const terse_status status = open_section(call, section, len, used, &whole, fault);
    if (status != TERSE_OK)
        return status;
    decoding->call = call;
    decoding->values = whole.values;
    decoding->out = out;
    tsi_index_split(&whole.reader, parts, decoding->reader);
    tsi_each_part(call->threads, parts, decode_part, decoding);
    for (size_t p = 0; p < parts; p++) {
        if (decoding->status[p] == TERSE_OK)
            continue;
        if (fault)
            *fault = decoding->fault[p];
        return decoding->status[p];
    }
    return tsi_index_joined(decoding->reader, parts, fault);
}

static size_t entries_of(const double *option, const struct tsi_piece *piece)
{
    return section_of(option, piece).k;
}

static double limit(const double *option)
{
    return option[VALUES] == VALUES_F16 ? 65504 : (double)FLT_MAX;
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
    .limit = limit,
    .encode = encode,
    .decode_add = decode_add,
    .entries = entries_of,
    .open = open_section,
    .next = next,
};
