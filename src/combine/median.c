/* median: coordinate by coordinate the median of the workers' values, which fewer than half of the
 * workers cannot move beyond what the others sent. Every rank owns a slice of every tensor, finds
 * its medians and sends them to all. 2(K-1)/K payloads per worker each way. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/parallel.h"
#include "combine/combine.h"

#define TILE ((size_t)256) /* elements whose values are sorted side by side */

static const char *refuses(const terse_codec_about *codec)
{
    return strcmp(codec->name, "f32") == 0 ? NULL : "medians are taken of exact values, codec f32";
}

static terse_status create(struct tsi_bucket *bucket)
{
    const terse_status status = tsi_sharded_create(bucket);
    if (status != TERSE_OK)
        return status;
    struct tsi_sharded *const sharded = bucket->private;
    const size_t rows = (size_t)bucket->codec->threads * bucket->in->workers;
    sharded->tile = calloc(rows * TILE, sizeof *sharded->tile);
    return sharded->tile ? TERSE_OK : TERSE_NO_MEMORY;
}

/* ---- sorting ---- */

/* Two loops over a whole tile, of which the compiler makes minima and maxima of vectors. One loop
 * becomes a branch, which takes ten times as long where the values are in random order. */
static void sort_two(float *restrict low, float *restrict high)
{
    float least[TILE];
    for (size_t i = 0; i < TILE; i++)
        least[i] = high[i] < low[i] ? high[i] : low[i];
    for (size_t i = 0; i < TILE; i++)
        high[i] = high[i] < low[i] ? low[i] : high[i];
    memcpy(low, least, sizeof least);
}

/* Sorts every column of `rows` rows: Batcher's odd-even merges of runs of length `run`, whose
 * comparisons do not depend on the values. */
static void sort_columns(float (*row)[TILE], uint32_t rows)
{
    for (uint32_t run = 1; run < rows; run *= 2)
        for (uint32_t apart = run; apart > 0; apart /= 2)
            for (uint32_t at = apart % run; at + apart < rows; at += 2 * apart)
                for (uint32_t i = at; i < at + apart && i + apart < rows; i++)
                    if (i / (2 * run) == (i + apart) / (2 * run))
                        sort_two(row[i], row[i + apart]);
}

/* The middle row, or the mean of the two middle ones, which cannot overflow in doubles. */
static void middle(float (*row)[TILE], uint32_t rows, size_t count, float *out)
{
    const float *const low = row[(rows - 1) / 2];
    const float *const high = row[rows / 2];
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(0.5 * ((double)low[i] + (double)high[i]));
}

/* ---- the combine ---- */

/* One piece of this rank. */
struct search {
    const struct tsi_collective *in;
    const struct tsi_coded *section; /* of the first worker */
    size_t stride;                   /* from a worker's section to that of the next */
    const struct tsi_piece *piece;
    float *tile;
    size_t threads;
    atomic_int bad_code;
};

/* Part p of `threads`: every so many-th tile. */
static void find_tiles(void *context, size_t part)
{
    struct search *const search = context;
    const uint32_t workers = search->in->workers;
    const size_t count = search->piece->count;
    float(*const row)[TILE] = (float(*)[TILE])search->tile + part * workers;
    for (size_t at = part * TILE; at < count; at += search->threads * TILE) {
        const size_t here = count - at < TILE ? count - at : TILE;
        for (uint32_t r = 0; r < workers; r++)
            if (tsi_coded_add(search->section + r * search->stride, at, here, row[r]))
                atomic_store(&search->bad_code, 1);
        sort_columns(row, workers);
        middle(row, workers, here, search->in->dense + search->piece->offset + at);
    }
}

/* As an owner: finds the medians and sends them to all. */
static terse_status find(struct tsi_bucket *bucket)
{
    struct tsi_collective *const in = bucket->in;
    struct tsi_sharded *const sharded = bucket->private;
    const struct tsi_pieces mine = bucket->owned[in->rank];
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < in->workers; r++)
        tsi_open_codes(bucket, &bucket->there, r, 1, sharded->sent + (size_t)r * mine.count);
    uint64_t from = tsi_now();
    for (uint32_t i = 0; i < mine.count && bucket->status == TERSE_OK; i++) {
        struct search search = {.in = in,
                                .section = sharded->sent + i,
                                .stride = mine.count,
                                .piece = &bucket->codec->piece[mine.first + i],
                                .tile = sharded->tile,
                                .threads = bucket->codec->threads};
        tsi_each_part(bucket->codec->threads, search.threads, find_tiles, &search);
        for (uint32_t r = 0; atomic_load(&search.bad_code) && r < in->workers; r++)
            tsi_check_codes(bucket, r, &sharded->sent[(size_t)r * mine.count + i], 1);
        const uint32_t most =
            in->kernel->magnitude_max_f32(in->dense + search.piece->offset, search.piece->count);
        tsi_aggregate_note(&bucket->aggregate, most);
    }
    tsi_clock(in, TERSE_STAGE_COMBINE, &from);
    (void)tsi_encode_part(bucket, &bucket->back, in->rank, in->dense, NULL);
    return tsi_messages_post(bucket, &bucket->back);
}

const struct tsi_combine_ops tsi_combine_median = {
    .name = "median",
    .summary = "the median of every element: 2(K-1)/K payloads per worker",
    .cut = TSI_CUT_SLICES,
    .refuses = refuses,
    .create = create,
    .destroy = tsi_sharded_destroy,
    .phase = {tsi_send_to_owners, tsi_confirm_lengths, tsi_send_parts, find, tsi_confirm_lengths,
              tsi_send_parts, tsi_receive_shards},
    .rest = tsi_encode_own,
};
