/* Which rank owns which pieces. Cuts depend only on the tensor and the number of workers, never on
 * the bucket, so that payloads and results do not depend on how tensors are grouped into buckets.
 */
#include "combine/combine.h"

#define CUT_STEP 2048u /* pieces start at multiples: random blocks and packed bits stay aligned */

/* Where slice j of `workers` starts in a tensor of n elements. */
static uint64_t slice_start(uint64_t n, uint32_t j, uint32_t workers)
{
    if (j == workers)
        return n;
    return n / workers * j / CUT_STEP * CUT_STEP;
}

static struct tsi_piece run_of(struct tsi_piece whole, uint64_t first, uint64_t end)
{
    if (first == 0 && end == whole.count)
        return whole;
    whole.first += first;
    whole.offset += first;
    whole.count = (size_t)(end - first);
    whole.rows = whole.count;
    whole.cols = 1;
    return whole;
}

/* Slice j of tensor t belongs to rank (j + t) % workers, so that small tensors, whose elements are
 * all in their last slice, are spread over the ranks. */
static uint32_t cut_slices(const terse_layout *layout, uint32_t first, uint32_t count,
                           uint32_t rank, uint32_t workers, struct tsi_piece *piece)
{
    uint32_t pieces = 0;
    for (uint32_t t = first; t < first + count; t++) {
        struct tsi_piece whole = tsi_layout_piece(layout, t);
        const uint32_t j = (rank + workers - t % workers) % workers;
        const uint64_t start = slice_start(whole.count, j, workers);
        const uint64_t end = slice_start(whole.count, j + 1, workers);
        whole.slot = (size_t)t * workers + j;
        if (end > start)
            piece[pieces++] = run_of(whole, start, end);
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
    for (uint32_t r = 0; r < workers; r++)
        owned[r] = (struct tsi_pieces){0, cut == TSI_CUT_WHOLE || r == 0 ? pieces : 0};
    return pieces;
}
