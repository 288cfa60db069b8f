#include "codec/coded.h"

#include "base/parallel.h"

#define TILE ((size_t)1024) /* elements: their floats and codes stay in the first-level cache */

struct codes_job {
    const struct tsi_grid *grid;
    const float *in;
    float *out; /* the residual; NULL: nothing is taken */
    uint8_t *packed;
};

static size_t tile_at(size_t at, size_t end)
{
    return end - at < TILE ? end - at : TILE;
}

static void encode_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct codes_job *const job = context;
    const struct tsi_grid *const grid = job->grid;
    (void)chunk;
    for (size_t at = first; at < first + count; at += TILE) {
        const size_t tile = tile_at(at, first + count);
        uint16_t codes[TILE];
        if (job->out && grid->take)
            grid->take(grid, job->out + at, tile, codes);
        else
            grid->codes(grid, job->in + at, tile, grid->call->piece->first + at, codes);
        if (job->out && !grid->take)
            (void)grid->add(grid, job->out + at, codes, tile, -1.0f);
        grid->call->kernel->pack_codes(codes, tile, grid->bits, job->packed + at * grid->bits / 8);
    }
}

void tsi_codes_encode(const struct tsi_grid *grid, const float *in, float *take, uint8_t *packed)
{
    struct codes_job job = {.grid = grid, .in = in, .out = take, .packed = packed};
    tsi_each_chunk(grid->call->threads, grid->call->piece->count, encode_chunk, &job);
}

uint32_t tsi_codes_add(const struct tsi_grid *grid, const struct tsi_codes *codes, size_t first,
                       size_t count, float *out)
{
    const uint8_t *const packed = codes->section + codes->at;
    uint32_t bad = 0;
    for (size_t at = 0; at < count; at += TILE) {
        const size_t tile = tile_at(at, count);
        uint16_t unpacked[TILE];
        grid->call->kernel->unpack_codes(packed + (first + at) * grid->bits / 8, tile, grid->bits,
                                         unpacked);
        bad |= grid->add(grid, out + at, unpacked, tile, 1.0f);
    }
    return bad;
}
