#include "combine/aggregate.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/parallel.h"
#include "codec/object.h"

#define MIX UINT64_C(0x9E3779B97F4A7C15)

int tsi_aggregate_create(struct tsi_aggregate *aggregate, size_t cap)
{
    aggregate->span = calloc(cap + 1, sizeof *aggregate->span);
    return aggregate->span != NULL;
}

void tsi_aggregate_destroy(struct tsi_aggregate *aggregate)
{
    free(aggregate->span);
}

void tsi_aggregate_add(struct tsi_aggregate *aggregate, struct tsi_span span)
{
    if (span.count > 0)
        aggregate->span[aggregate->count++] = span;
}

void tsi_span_decode(const struct tsi_span *span, size_t at, size_t count, float *out)
{
    (void)tsi_coded_add(span->coded, at, count, out);
}

/* Floats exist for a tile at a time. */
static uint64_t hash_codes(const struct tsi_span *span)
{
    float tile[TSI_TILE];
    uint64_t hash = 0;
    for (size_t at = 0; at < span->count; at += TSI_TILE) {
        const size_t here = span->count - at < TSI_TILE ? span->count - at : TSI_TILE;
        tsi_span_decode(span, at, here, tile);
        hash = hash * MIX + tsi_hash64(tile, here * sizeof *tile);
    }
    return hash;
}

static uint64_t hash_values(const struct tsi_span *span)
{
    switch (span->kind) {
    case TSI_SPAN_SIGNS: return tsi_hash64(span->negative, (span->count + 7) / 8);
    case TSI_SPAN_CODED: return hash_codes(span);
    default: return tsi_hash64(span->value, span->count * sizeof *span->value);
    }
}

uint64_t tsi_aggregate_hash(const struct tsi_aggregate *aggregate)
{
    uint64_t hash = aggregate->count;
    for (uint32_t i = 0; i < aggregate->count; i++) {
        const struct tsi_span *const span = &aggregate->span[i];
        hash = hash * MIX + span->first;
        if (span->index)
            hash = hash * MIX + tsi_hash64(span->index, span->count * sizeof *span->index);
        hash = hash * MIX + hash_values(span);
    }
    return hash;
}

void tsi_aggregate_expand(struct tsi_aggregate *aggregate, float *dense, uint64_t first,
                          uint64_t count)
{
    memset(dense + first, 0, (size_t)count * sizeof *dense);
    for (uint32_t i = 0; i < aggregate->count; i++) {
        const struct tsi_span *const span = &aggregate->span[i];
        float *const out = dense + span->first;
        if (span->kind == TSI_SPAN_DENSE)
            memcpy(out, span->value, span->count * sizeof *out);
        if (span->kind == TSI_SPAN_CODED)
            tsi_span_decode(span, 0, span->count, out);
        for (size_t j = 0; span->kind == TSI_SPAN_LIST && j < span->count; j++)
            out[span->index[j]] = span->value[j];
        for (size_t j = 0; span->kind == TSI_SPAN_SIGNS && j < span->count; j++)
            out[j] = span->negative[j / 8] >> j % 8 & 1 ? -1.0f : 1.0f;
    }
    aggregate->span[0] = (struct tsi_span){
        .kind = TSI_SPAN_DENSE, .first = first, .count = (size_t)count, .value = dense + first};
    aggregate->count = count > 0;
    aggregate->partial = 0;
}
