#include "combine/merge.h"

#include <math.h>
#include <stdlib.h>

#include "base/fault.h"

#define WINDOW 8192u /* elements that are added at a time: their sums stay in the cache */

/* A rank's section of the current piece, decoded as far as needed. */
struct decoding {
    size_t at; /* offset in the rank's payload */
    struct tsi_entries entries;
    struct tsi_batch batch;
    size_t next; /* first entry of the batch that is not added yet */
    int over;    /* 1: there are no further batches */
};

struct tsi_merge_scratch {
    float sum[WINDOW];            /* all 0 between windows */
    uint64_t marked[WINDOW / 64]; /* one bit per element that has an entry; 0 between windows */
    struct decoding decoding[];
};

/* ---- creation ---- */

int tsi_merge_create(struct tsi_merge *merge, const terse_codec *codec, uint32_t workers)
{
    size_t most = 0;
    merge->source = calloc(workers, sizeof *merge->source);
    if (!codec->ops->next)
        return merge->source != NULL;
    for (uint32_t i = 0; i < codec->piece_count; i++) {
        const size_t count = codec->piece[i].count;
        const size_t each = tsi_codec_entries(codec, i);
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

/* A merge under way. */
struct merging {
    struct tsi_merge *merge;
    terse_codec *codec;
    const terse_rng_key *key;
    uint32_t workers;
    int32_t blamed;
    terse_fault *fault;
};

/* ---- one window ---- */

/* Adds the entries of a rank that are before element `end`. */
static terse_status add_source(struct tsi_merge_scratch *scratch, const struct merging *to,
                               const struct tsi_call *call, struct decoding *source, uint32_t start,
                               uint64_t end)
{
    const struct tsi_batch *const batch = &source->batch;
    for (;;) {
        size_t i = source->next;
        for (; i < batch->count && batch->index[i] < end; i++) {
            const uint32_t at = batch->index[i] - start;
            scratch->sum[at] += batch->value[i];
            scratch->marked[at / 64] |= UINT64_C(1) << at % 64;
        }
        source->next = i;
        if (i < batch->count || source->over)
            return TERSE_OK;
        const terse_status status =
            tsi_entries_next(to->codec, call, &source->entries, &source->batch, to->fault);
        if (status != TERSE_OK)
            return status;
        source->next = 0;
        source->over = batch->count == 0;
    }
}

/* Moves the sums of a window to the list, clears the window and returns their number. *bad: one is
 * not finite. */
static size_t list_window(struct tsi_merge_scratch *scratch, uint32_t start, uint32_t *index,
                          float *sum, int *bad)
{
    size_t count = 0;
    for (uint32_t word = 0; word < WINDOW / 64; word++) {
        for (uint64_t left = scratch->marked[word]; left != 0; left &= left - 1) {
            const uint32_t at = 64 * word + (uint32_t)__builtin_ctzll(left);
            *bad |= !isfinite(scratch->sum[at]);
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
 */
static terse_status merge_piece(struct merging *to, uint32_t piece, size_t first, size_t *count)
{
    struct tsi_merge *const merge = to->merge;
    const uint64_t elements = to->codec->piece[piece].count;
    struct tsi_call call;
    int bad = 0;
    terse_status status = tsi_codec_call(to->codec, to->key, piece, &call);
    for (uint32_t r = 0; r < to->workers && status == TERSE_OK && elements > 0; r++) {
        struct decoding *const decoding = &merge->scratch->decoding[r];
        const struct tsi_source *const source = &merge->source[r];
        size_t used = 0;
        decoding->next = decoding->batch.count = 0;
        decoding->over = 0;
        status = tsi_entries_open(to->codec, &call, source->payload + decoding->at,
                                  source->len - decoding->at, &used, &decoding->entries, to->fault);
        if (status != TERSE_OK && to->fault)
            to->fault->offset += decoding->at;
        decoding->at += used;
        to->blamed = status == TERSE_OK ? -1 : (int32_t)r;
    }
    for (uint64_t at = 0; at < elements && status == TERSE_OK; at += WINDOW) {
        for (uint32_t r = 0; r < to->workers && status == TERSE_OK; r++) {
            status = add_source(merge->scratch, to, &call, &merge->scratch->decoding[r],
                                (uint32_t)at, at + WINDOW);
            to->blamed = status == TERSE_OK ? -1 : (int32_t)r;
        }
        *count += list_window(merge->scratch, (uint32_t)at, merge->index + first + *count,
                              merge->sum + first + *count, &bad);
    }
    if (status == TERSE_OK && bad)
        status = tsi_fail(to->fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite");
    return status;
}

terse_status tsi_merge_lists(struct tsi_merge *merge, terse_codec *codec, const terse_rng_key *key,
                             uint32_t workers, struct tsi_aggregate *out, int32_t *blamed,
                             terse_fault *fault)
{
    struct merging to = {merge, codec, key, workers, -1, fault};
    terse_status status = TERSE_OK;
    size_t first = 0;
    for (uint32_t r = 0; r < workers; r++)
        merge->scratch->decoding[r].at = 0;
    for (uint32_t i = 0; i < codec->piece_count && status == TERSE_OK; i++) {
        size_t count = 0;
        status = merge_piece(&to, i, first, &count);
        tsi_aggregate_add(out, (struct tsi_span){TSI_SPAN_LIST, codec->piece[i].offset, count,
                                                 .value = merge->sum + first,
                                                 .index = merge->index + first});
        first += count;
    }
    for (uint32_t r = 0; r < workers && status == TERSE_OK; r++) {
        const size_t at = merge->scratch->decoding[r].at;
        if (at == merge->source[r].len)
            continue;
        status = tsi_fail(fault, TERSE_BAD_FRAME, at, "%zu bytes after the last section",
                          merge->source[r].len - at);
        to.blamed = (int32_t)r;
    }
    *blamed = to.blamed;
    return status;
}
