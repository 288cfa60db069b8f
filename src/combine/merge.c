#include "combine/merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "kernels/kernels.h"

#define WINDOW 8192u /* elements that are added at a time: their sums stay in the cache */

/* A rank's section of the current piece, decoded as far as needed. */
struct decoding {
    size_t at; /* offset in the rank's payload */
    struct tsi_entries entries;
    struct tsi_batch batch;
    size_t next; /* first entry of the batch that is not added yet */
    int over;    /* 1: there are no further batches */
    float weight;
};

struct tsi_merge_scratch {
    float sum[WINDOW];            /* all 0 between windows */
    uint64_t marked[WINDOW / 64]; /* one bit per element that has an entry; 0 between windows */
    struct decoding decoding[];
};

/* ---- creation ---- */

int tsi_merge_create(struct tsi_merge *merge, terse_codec *codec, uint32_t workers)
{
    size_t most = 0;
    merge->codec = codec;
    merge->workers = workers;
    merge->source = calloc(workers, sizeof *merge->source);
    if (!codec->ops->next)
        return merge->source != NULL;
    for (uint32_t i = 0; i < codec->piece_count; i++) {
        const size_t count = codec->piece[i].count;
        const struct terse_codec_ops *const ops = tsi_codec_ops(codec, 0, i);
        const size_t each = ops ? ops->entries(codec->option, &codec->piece[i]) : 0;
        most += each > count / workers ? count : each * workers;
    }
    merge->index = malloc((most + 1) * sizeof *merge->index);
    merge->sum = malloc((most + 1) * sizeof *merge->sum);
    merge->scratch =
        calloc(1, sizeof *merge->scratch + workers * sizeof merge->scratch->decoding[0]);
    return merge->index && merge->sum && merge->source && merge->scratch;
}

void tsi_merge_destroy(struct tsi_merge *merge)
{
    free(merge->index);
    free(merge->sum);
    free(merge->source);
    free(merge->scratch);
}

/* ---- one window ---- */

/* Adds the entries of a rank that are before element `end` to the window that begins at `start`. */
static terse_status add_source(const struct tsi_merge *merge, const struct tsi_call *call,
                               struct decoding *source, uint32_t start, uint64_t end,
                               terse_fault *fault)
{
    struct tsi_merge_scratch *const scratch = merge->scratch;
    const struct tsi_batch *const batch = &source->batch;
    for (;;) {
        size_t i = source->next;
        for (; i < batch->count && batch->index[i] < end; i++) {
            const uint32_t at = batch->index[i] - start;
            scratch->sum[at] += source->weight * batch->value[i]; /* 1 * x is x, bit for bit */
            scratch->marked[at / 64] |= UINT64_C(1) << at % 64;
        }
        source->next = i;
        if (i < batch->count || source->over)
            return TERSE_OK;
        const terse_status status = call->ops->next(call, &source->entries, &source->batch, fault);
        if (status != TERSE_OK)
            return status;
        source->next = 0;
        source->over = batch->count == 0;
    }
}

static uint32_t magnitude_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffffu;
}

/* Moves the sums of a window to the list, clears the window and returns their number. *largest
 * becomes the bits of a larger magnitude. */
static size_t list_window(struct tsi_merge_scratch *scratch, uint32_t start, uint32_t *index,
                          float *sum, uint32_t *largest)
{
    size_t count = 0;
    for (uint32_t word = 0; word < WINDOW / 64; word++) {
        for (uint64_t left = scratch->marked[word]; left != 0; left &= left - 1) {
            const uint32_t at = 64 * word + (uint32_t)__builtin_ctzll(left);
            const uint32_t magnitude = magnitude_of(scratch->sum[at]);
            *largest = magnitude > *largest ? magnitude : *largest;
            index[count] = start + at;
            sum[count++] = scratch->sum[at];
            scratch->sum[at] = 0;
        }
        scratch->marked[word] = 0;
    }
    return count;
}

/* ---- all pieces ---- */

/* Lists one piece behind the `first` entries of those before it; *count is its number of entries.
 * *blamed is the rank whose turn it was. */
static terse_status merge_piece(const struct tsi_merge *merge, const terse_rng_key *key,
                                uint32_t piece, size_t first, size_t *count, uint32_t *largest,
                                int32_t *blamed, terse_fault *fault)
{
    struct tsi_merge_scratch *const scratch = merge->scratch;
    const uint64_t elements = merge->codec->piece[piece].count;
    const struct tsi_call call = tsi_codec_call(merge->codec, key, 0, piece);
    terse_status status = TERSE_OK;
    if (!call.ops) /* it is empty and has no section */
        return TERSE_OK;
    for (uint32_t r = 0; r < merge->workers && status == TERSE_OK; r++) {
        struct decoding *const decoding = &scratch->decoding[r];
        const struct tsi_source *const source = &merge->source[r];
        size_t used = 0;
        *blamed = (int32_t)r;
        decoding->next = decoding->batch.count = 0;
        decoding->over = 0;
        decoding->weight = source->weight;
        status = call.ops->open(&call, source->payload + decoding->at, source->len - decoding->at,
                                &used, &decoding->entries, fault);
        if (status != TERSE_OK && fault)
            fault->offset += decoding->at;
        decoding->at += used;
    }
    for (uint64_t at = 0; at < elements && status == TERSE_OK; at += WINDOW) {
        for (uint32_t r = 0; r < merge->workers && status == TERSE_OK; r++) {
            *blamed = (int32_t)r;
            status =
                add_source(merge, &call, &scratch->decoding[r], (uint32_t)at, at + WINDOW, fault);
        }
        *count += list_window(scratch, (uint32_t)at, merge->index + first + *count,
                              merge->sum + first + *count, largest);
    }
    if (status != TERSE_OK)
        return status;
    *blamed = -1;
    return *largest < TSK_INFINITY_BITS
               ? TERSE_OK
               : tsi_fail(fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite");
}

terse_status tsi_merge_lists(struct tsi_merge *merge, const terse_rng_key *key,
                             struct tsi_aggregate *out, int32_t *blamed, terse_fault *fault)
{
    size_t first = 0;
    *blamed = -1;
    for (uint32_t r = 0; r < merge->workers; r++)
        merge->scratch->decoding[r].at = 0;
    for (uint32_t i = 0; i < merge->codec->piece_count; i++) {
        size_t count = 0;
        const terse_status status =
            merge_piece(merge, key, i, first, &count, &out->largest, blamed, fault);
        if (status != TERSE_OK)
            return status;
        tsi_aggregate_add(out, (struct tsi_span){TSI_SPAN_LIST, merge->codec->piece[i].offset,
                                                 count, .value = merge->sum + first,
                                                 .index = merge->index + first});
        first += count;
    }
    for (uint32_t r = 0; r < merge->workers; r++) {
        const size_t at = merge->scratch->decoding[r].at;
        const size_t len = merge->source[r].len;
        *blamed = (int32_t)r;
        if (at != len)
            return tsi_fail(fault, TERSE_BAD_FRAME, at, "%zu bytes after the last section",
                            len - at);
    }
    *blamed = -1;
    return TERSE_OK;
}
