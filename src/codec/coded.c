#include "codec/coded.h"

#include "base/parallel.h"

#define TILE ((size_t)1024) /* elements: their floats and codes stay in the first-level cache */

struct codes_job {
    const struct tsi_grid *grid;
    const float *in;
    float *out; /* the residual or the sum; may be NULL when encoding */
    uint8_t *packed;
    const uint8_t *from;
};

size_t tsi_codes_scratch(const struct tsi_piece *piece)
{
    return tsi_chunk_total(piece->count) * sizeof(uint32_t);
}

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

static void decode_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct codes_job *const job = context;
    const struct tsi_grid *const grid = job->grid;
    uint32_t *const bad = grid->call->scratch;
    bad[chunk] = 0;
    for (size_t at = first; at < first + count; at += TILE) {
        const size_t tile = tile_at(at, first + count);
        uint16_t codes[TILE];
        tsi_call_start(grid->call, job->out + at, tile);
        grid->call->kernel->unpack_codes(job->from + at * grid->bits / 8, tile, grid->bits, codes);
        bad[chunk] |= grid->add(grid, job->out + at, codes, tile, 1.0f);
    }
}

terse_status tsi_codes_decode(const struct tsi_grid *grid, const uint8_t *section, size_t at,
                              float *out, terse_fault *fault)
{
    const size_t count = grid->call->piece->count;
    const uint32_t *const bad = grid->call->scratch;
    struct codes_job job = {.grid = grid, .out = out, .from = section + at};
    const terse_status status =
        tsi_section_padding(section, at, (uint64_t)count * grid->bits, fault);
    if (status != TERSE_OK)
        return status;
    tsi_each_chunk(grid->call->threads, count, decode_chunk, &job);
    for (size_t i = 0; i < tsi_chunk_total(count); i++)
        if (bad[i])
            return tsi_fail(fault, TERSE_BAD_FRAME, at + i * TSI_CHUNK * grid->bits / 8,
                            "a code is not on the grid");
    return TERSE_OK;
}

terse_status tsi_scaled_decode(const struct tsi_call *call, tsi_grid_fn *grid_of,
                               const uint8_t *section, size_t len, size_t *used, float *out,
                               terse_fault *fault)
{
    const struct tsi_grid unscaled = grid_of(call, 0);
    float scale = 0;
    *used = sizeof(float) + tsi_packed_len(call->piece->count, unscaled.bits);
    terse_status status = tsi_section_len(len, *used, fault);
    if (status == TERSE_OK)
        status = tsi_section_scale(section, 0, &scale, fault);
    if (status != TERSE_OK)
        return status;
    const struct tsi_grid grid = grid_of(call, scale);
    return tsi_codes_decode(&grid, section, sizeof(float), out, fault);
}
