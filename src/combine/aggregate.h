/* The aggregate: what a combine made of all workers' payloads, in the form it has. It is a list of
 * spans, and everybody who uses it visits the spans in order: the hash, the update, RegTop-k's
 * posterior, the next point. */
#ifndef TSI_AGGREGATE_H
#define TSI_AGGREGATE_H

#include <stddef.h>
#include <stdint.h>

struct tsi_coded;

enum tsi_span_kind {
    TSI_SPAN_DENSE, /* value[i] of element first + i; a block is a dense span too */
    TSI_SPAN_LIST,  /* value[i] of element first + index[i]; indices ascend */
    TSI_SPAN_CODED, /* elements first .. first+count-1 are what `coded` decodes to: checked codes */
    TSI_SPAN_SIGNS, /* element first + i is -1 where bit i of `negative` is set, else +1 */
};

struct tsi_span {
    enum tsi_span_kind kind;
    uint64_t first; /* an element of the flat buffer */
    size_t count;   /* elements, or entries of a list */
    const float *value;
    const uint32_t *index;
    const uint8_t *negative;
    const struct tsi_coded *coded;
};

/* The aggregate of one bucket. Values are still to be divided by `divisor`. */
struct tsi_aggregate {
    struct tsi_span *span;
    uint32_t count;
    float divisor;
    int partial;      /* 1: elements outside of all spans are 0; 0: spans cover the bucket */
    uint32_t largest; /* bits of the largest magnitude that this rank has added up; that of all
                         ranks bounds every value, but for what encoding the sums makes of them */
};

/* Room for `cap` spans; 0 without memory. */
int tsi_aggregate_create(struct tsi_aggregate *aggregate, size_t cap);
void tsi_aggregate_destroy(struct tsi_aggregate *aggregate);

/* Adds a span; an empty one is left out. The caller knows that there is room. */
void tsi_aggregate_add(struct tsi_aggregate *aggregate, struct tsi_span span);

/* Decodes elements at .. at+count-1 of a coded span; `at` is a multiple of 8. */
void tsi_span_decode(const struct tsi_span *span, size_t at, size_t count, float *out);

/* A number that is equal where spans and values are equal, bit for bit. */
uint64_t tsi_aggregate_hash(const struct tsi_aggregate *aggregate);

/* Makes one dense span of elements first .. first+count-1 of it, written to `dense` (a flat
 * buffer), for an update that moves elements whose aggregate is 0 as well. */
void tsi_aggregate_expand(struct tsi_aggregate *aggregate, float *dense, uint64_t first,
                          uint64_t count);

/* Notes the bits of a magnitude among those that this rank has added up. */
static inline void tsi_aggregate_note(struct tsi_aggregate *aggregate, uint32_t magnitude)
{
    if (magnitude > aggregate->largest)
        aggregate->largest = magnitude;
}

#endif
