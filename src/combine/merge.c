#include "combine/merge.h"

#include <math.h>
#include <stdlib.h>

#include "base/fault.h"

#define WINDOW 8192u /* elements that are added up at a time: their sums stay in the cache */

/* A rank's section of the piece at hand, decoded as far as needed. */
struct source {
    size_t at; /* of its payload */
    struct tsi_entries entries;
    struct tsi_batch batch;
    size_t next; /* of the batch */
    int over;
};

struct tsi_merge_room {
    float sum[WINDOW];            /* 0 between windows */
    uint64_t marked[WINDOW / 64]; /* a bit for every element that was spoken of; likewise */
    struct source source[];
};

/* ---- room ---- */

static size_t most_entries(const terse_codec *codec, uint32_t piece, uint32_t workers)
{
    const size_t count = codec->piece[piece].count;
    const size_t each = tsi_codec_entries(codec, piece);
    return each > count / workers ? count : each * workers;
}

int tsi_merged_create(struct tsi_merged *merged, const terse_codec *codec, uint32_t workers)
{
    size_t most = 0;
    for (uint32_t i = 0; i < codec->piece_count; i++)
        most += most_entries(codec, i, workers);
    merged->index = malloc((most + 1) * sizeof *merged->index);
    merged->sum = malloc((most + 1) * sizeof *merged->sum);
    merged->end = calloc((size_t)codec->piece_count + 1, sizeof *merged->end);
    merged->voice = calloc(workers, sizeof *merged->voice);
    merged->room = calloc(1, sizeof *merged->room + workers * sizeof merged->room->source[0]);
    return merged->index && merged->sum && merged->end && merged->voice && merged->room;
}

void tsi_merged_destroy(struct tsi_merged *merged)
{
    free(merged->index);
    free(merged->sum);
    free(merged->end);
    free(merged->voice);
    free(merged->room);
}

/* What is merged. */
struct merging {
    struct tsi_merged *merged;
    terse_codec *codec;
    const terse_rng_key *draw;
    uint32_t workers;
    int32_t blamed;
    terse_fault *fault;
};

/* ---- one window ---- */

static void mark(struct tsi_merge_room *room, uint32_t at, float value)
{
    room->sum[at] += value;
    room->marked[at / 64] |= UINT64_C(1) << at % 64;
}

/* What a source speaks of before element `end`. */
static terse_status add_source(struct tsi_merge_room *room, const struct merging *to,
                               const struct tsi_call *call, struct source *source, uint32_t start,
                               uint64_t end)
{
    const struct tsi_batch *const batch = &source->batch;
    for (;;) {
        size_t i = source->next;
        for (; i < batch->count && batch->index[i] < end; i++)
            mark(room, batch->index[i] - start, batch->value[i]);
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

/* Moves the sums of a window to the list. Returns how many, and 0s are left. *bad: one is not
 * finite. */
static size_t list_window(struct tsi_merge_room *room, uint32_t start, uint32_t *index, float *sum,
                          int *bad)
{
    size_t count = 0;
    for (uint32_t word = 0; word < WINDOW / 64; word++) {
        for (uint64_t left = room->marked[word]; left != 0; left &= left - 1) {
            const uint32_t at = 64 * word + (uint32_t)__builtin_ctzll(left);
            *bad |= !isfinite(room->sum[at]);
            index[count] = start + at;
            sum[count++] = room->sum[at];
            room->sum[at] = 0;
        }
        room->marked[word] = 0;
    }
    return count;
}

/* ---- all ---- */

static terse_status open_sources(struct merging *to, const struct tsi_call *call)
{
    terse_status status = TERSE_OK;
    for (uint32_t r = 0; r < to->workers && status == TERSE_OK; r++) {
        struct source *const source = &to->merged->room->source[r];
        const struct tsi_voice *const voice = &to->merged->voice[r];
        size_t used = 0;
        source->next = source->batch.count = 0;
        source->over = 0;
        status = tsi_entries_open(to->codec, call, voice->payload + source->at,
                                  voice->len - source->at, &used, &source->entries, to->fault);
        if (status != TERSE_OK && to->fault)
            to->fault->offset += source->at;
        source->at += used;
        to->blamed = status == TERSE_OK ? -1 : (int32_t)r;
    }
    return status;
}

static terse_status merge_piece(struct merging *to, uint32_t piece, size_t *count)
{
    struct tsi_merged *const merged = to->merged;
    const uint64_t elements = to->codec->piece[piece].count;
    struct tsi_call call;
    int bad = 0;
    terse_status status = tsi_codec_call(to->codec, to->draw, piece, &call);
    if (status == TERSE_OK && elements > 0)
        status = open_sources(to, &call);
    for (uint64_t at = 0; at < elements && status == TERSE_OK; at += WINDOW) {
        for (uint32_t r = 0; r < to->workers && status == TERSE_OK; r++) {
            status = add_source(merged->room, to, &call, &merged->room->source[r], (uint32_t)at,
                                at + WINDOW);
            to->blamed = status == TERSE_OK ? -1 : (int32_t)r;
        }
        *count += list_window(merged->room, (uint32_t)at, merged->index + *count,
                              merged->sum + *count, &bad);
    }
    if (status == TERSE_OK && bad)
        status = tsi_fail(to->fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite");
    merged->end[piece] = *count;
    return status;
}

terse_status tsi_merge(struct tsi_merged *merged, terse_codec *codec, const terse_rng_key *draw,
                       uint32_t workers, int32_t *blamed, terse_fault *fault)
{
    struct merging to = {merged, codec, draw, workers, -1, fault};
    terse_status status = TERSE_OK;
    size_t count = 0;
    for (uint32_t r = 0; r < workers; r++)
        merged->room->source[r].at = 0;
    for (uint32_t i = 0; i < codec->piece_count && status == TERSE_OK; i++)
        status = merge_piece(&to, i, &count);
    for (uint32_t r = 0; r < workers && status == TERSE_OK; r++) {
        const size_t at = merged->room->source[r].at;
        if (at == merged->voice[r].len)
            continue;
        status = tsi_fail(fault, TERSE_BAD_FRAME, at, "%zu bytes after the last section",
                          merged->voice[r].len - at);
        to.blamed = (int32_t)r;
    }
    *blamed = to.blamed;
    return status;
}

void tsi_merged_each(const struct tsi_merged *merged, const terse_codec *codec,
                     const struct tsi_merged_taker *taker)
{
    size_t from = 0;
    for (uint32_t i = 0; i < codec->piece_count; from = merged->end[i++])
        if (merged->end[i] > from)
            taker->take(taker->context, codec->piece[i].offset, merged->index + from,
                        merged->sum + from, merged->end[i] - from);
}
