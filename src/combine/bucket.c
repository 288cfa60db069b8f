/* A bucket: neighbouring tensors, their pieces and codec, and how a step of it goes wrong. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"
#include "combine/combine.h"

uint64_t tsi_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void tsi_clock(struct tsi_collective *in, int stage, uint64_t *from)
{
    const uint64_t now = tsi_now();
    in->nanoseconds[stage] += now - *from;
    *from = now;
}

void tsi_bucket_note_largest(struct tsi_bucket *bucket, uint32_t most, size_t first, size_t count)
{
    const struct tsi_collective *const in = bucket->in;
    if (most == 0)
        most = in->kernel->magnitude_max_f32(in->source + first, count);
    tsi_aggregate_note(&bucket->aggregate, most);
}

void tsi_bucket_note_sections(const struct tsi_bucket *bucket, struct tsi_pieces pieces)
{
    const terse_codec *const codec = bucket->codec;
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
        bucket->in->buckets.tensor_bytes[codec->piece[i].tensor] += codec->section_len[i];
}

terse_status tsi_bucket_fail(struct tsi_bucket *bucket, terse_status status, int32_t rank,
                             const terse_fault *fault)
{
    if (status != TERSE_OK && bucket->status == TERSE_OK) {
        bucket->status = status;
        bucket->fault = *fault;
        if (rank >= 0 && strncmp(fault->text, "rank ", 5) != 0)
            (void)tsi_fail(&bucket->fault, status, fault->offset, "rank %d: %.200s", rank,
                           fault->text[0] != '\0' ? fault->text : terse_status_text(status));
        bucket->fault.rank = rank;
    }
    return tsi_is_group_failure(status) ? status : TERSE_OK;
}

void tsi_add_weighted(float *sum, const float *values, float weight, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += weight * values[i];
}

/* ---- which rank owns which pieces ---- */

/* Cuts depend only on the tensor and the number of workers, never on the bucket, so that payloads
 * and results do not depend on how tensors are grouped into buckets. Pieces start at multiples of
 * CUT_STEP: random blocks and packed bits stay aligned. */
#define CUT_STEP 2048u

/* Where slice j of `workers` starts in a tensor of n elements. */
static uint64_t slice_start(uint64_t n, uint32_t j, uint32_t workers)
{
    return j == workers ? n : n / workers * j / CUT_STEP * CUT_STEP;
}

/* Slice j of tensor t belongs to rank (j + t) % workers, so that small tensors, whose elements are
 * all in their last slice, are spread over the ranks. */
static uint32_t cut_slices(const terse_layout *layout, uint32_t first, uint32_t count,
                           uint32_t rank, uint32_t workers, struct tsi_piece *piece)
{
    uint32_t pieces = 0;
    for (uint32_t t = first; t < first + count; t++) {
        struct tsi_piece slice = tsi_layout_piece(layout, t);
        const uint32_t j = (rank + workers - t % workers) % workers;
        const uint64_t start = slice_start(slice.count, j, workers);
        const uint64_t end = slice_start(slice.count, j + 1, workers);
        slice.slot = (size_t)t * workers + j;
        if (end - start < slice.count) { /* it is no matrix any more */
            slice.first += start;
            slice.offset += start;
            slice.count = slice.rows = (size_t)(end - start);
            slice.cols = 1;
        }
        if (end > start)
            piece[pieces++] = slice;
    }
    return pieces;
}

uint32_t tsi_cut(const terse_layout *layout, enum tsi_cut cut, uint32_t first, uint32_t count,
                 uint32_t workers, struct tsi_piece *piece, struct tsi_pieces *owned)
{
    uint32_t pieces = 0;
    if (cut == TSI_CUT_SLICES) {
        for (uint32_t r = 0; r < workers; r++) {
            owned[r].first = pieces;
            owned[r].count = cut_slices(layout, first, count, r, workers, piece + pieces);
            pieces += owned[r].count;
        }
        return pieces;
    }
    for (; pieces < count; pieces++) {
        piece[pieces] = tsi_layout_piece(layout, first + pieces);
        piece[pieces].slot = (size_t)(first + pieces) * workers;
    }
    for (; pieces > 1 && cut == TSI_CUT_MODEL; pieces--) { /* joined to the first, a vector */
        piece[0].count += piece[pieces - 1].count;
        piece[0].rows = piece[0].count;
        piece[0].cols = 1;
    }
    for (uint32_t r = 0; r < workers; r++)
        owned[r] = (struct tsi_pieces){0, cut != TSI_CUT_SERVER || r == 0 ? pieces : 0};
    return pieces;
}

/* ---- creation ---- */

/* The codec of its pieces, and that of the way back. */
static terse_status create_codecs(struct tsi_bucket *bucket, terse_fault *fault)
{
    const struct tsi_collective *const in = bucket->in;
    struct tsi_piece *const piece =
        calloc((size_t)bucket->tensor_count * in->workers + 1, sizeof *piece);
    bucket->owned = calloc(in->workers, sizeof *bucket->owned);
    if (!piece || !bucket->owned) {
        free(piece);
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    }
    const uint32_t pieces = tsi_cut(in->layout, in->buckets.cut, bucket->first_tensor,
                                    bucket->tensor_count, in->workers, piece, bucket->owned);
    for (uint32_t i = 0; i < pieces; i++)
        piece[i].plain = in->plain && in->plain[piece[i].tensor];
    terse_status status = tsi_codec_create(in->codec_spec, in->layout, piece, pieces,
                                           &in->codec_options, &bucket->codec, fault);
    bucket->back_codec = bucket->codec;
    if (status == TERSE_OK && in->back_spec)
        status = tsi_codec_create(in->back_spec, in->layout, piece, pieces, &in->codec_options,
                                  &bucket->back_codec, fault);
    free(piece);
    if (status != TERSE_OK)
        return status;
    bucket->codec->rule = in->rule;
    bucket->back_codec->rule = in->rule;
    if (tsi_codec_enable_prescan(bucket->codec) != TERSE_OK ||
        (in->back_spec && tsi_codec_enable_prescan(bucket->back_codec) != TERSE_OK))
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    return TERSE_OK;
}

static terse_status create(struct tsi_collective *in, uint32_t first_tensor, uint32_t tensor_count,
                           struct tsi_bucket **out, terse_fault *fault)
{
    struct tsi_bucket *const bucket = calloc(1, sizeof *bucket);
    if (!bucket)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    bucket->in = in;
    bucket->first_tensor = first_tensor;
    bucket->tensor_count = tensor_count;
    for (uint32_t t = 0; t < tensor_count; t++) {
        const struct tsi_piece whole = tsi_layout_piece(in->layout, first_tensor + t);
        bucket->first = t == 0 ? whole.offset : bucket->first;
        bucket->count += whole.count;
    }
    terse_status status = create_codecs(bucket, fault);
    bucket->run = calloc(4 * (size_t)tensor_count + in->workers * (size_t)tensor_count + 1,
                         sizeof *bucket->run);
    if (status == TERSE_OK) {
        bucket->aggregate.divisor = in->combine->mean ? (float)in->workers : 1.0f;
        bucket->run_count = bucket->early = 1;
        status = bucket->run ? TERSE_OK : TERSE_NO_MEMORY;
        if (status == TERSE_OK) {
            bucket->run[0] = (struct tsi_run){bucket->first, bucket->count};
            status = in->combine->create(bucket);
        }
        if (status != TERSE_OK)
            (void)tsi_fail(fault, status, 0, "out of memory");
    }
    if (status != TERSE_OK) {
        tsi_bucket_destroy(bucket);
        return status;
    }
    *out = bucket;
    return TERSE_OK;
}

terse_status tsi_bucket_of(struct tsi_collective *in, uint32_t first, uint32_t count,
                           struct tsi_bucket **out, terse_fault *fault)
{
    struct tsi_buckets *const buckets = &in->buckets;
    for (uint32_t i = 0; i < buckets->count; i++) {
        *out = buckets->list[i];
        if ((*out)->first_tensor == first && (*out)->tensor_count == count)
            return TERSE_OK;
    }
    if (buckets->count == buckets->cap) {
        const uint32_t cap = buckets->cap ? 2 * buckets->cap : 16;
        struct tsi_bucket **const list = realloc(buckets->list, cap * sizeof *list);
        if (!list)
            return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
        buckets->list = list;
        buckets->cap = cap;
    }
    const terse_status status = create(in, first, count, out, fault);
    if (status == TERSE_OK)
        buckets->list[buckets->count++] = *out;
    return status;
}

void tsi_bucket_destroy(struct tsi_bucket *bucket)
{
    if (!bucket)
        return;
    if (bucket->private)
        bucket->in->combine->destroy(bucket);
    free(bucket->private);
    tsi_messages_destroy(&bucket->there);
    tsi_messages_destroy(&bucket->back);
    tsi_aggregate_destroy(&bucket->aggregate);
    free(bucket->run);
    free(bucket->owned);
    if (bucket->back_codec != bucket->codec)
        terse_codec_destroy(bucket->back_codec);
    terse_codec_destroy(bucket->codec);
    free(bucket);
}
