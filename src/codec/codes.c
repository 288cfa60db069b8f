#include "codec/codes.h"

#include <stdatomic.h>

#include "base/parallel.h"
#include "codec/object.h"

#define TILE ((size_t)1024) /* elements: their floats and codes stay in the first-level cache */

terse_status tsi_codes_open(const struct tsi_call *call, int scaled, unsigned bits,
                            const uint8_t *section, size_t len, struct tsi_codes *out,
                            terse_fault *fault)
{
    const size_t count = call->piece->count;
    const size_t at = scaled ? sizeof(float) : 0;
    *out = (struct tsi_codes){.section = section,
                              .len = at + tsi_packed_len(count, bits),
                              .at = at,
                              .bits = bits,
                              .scale = 1};
    terse_status status = tsi_section_len(len, out->len, fault);
    if (status == TERSE_OK && scaled)
        status = tsi_section_scale(section, 0, &out->scale, fault);
    return status == TERSE_OK ? tsi_section_padding(section, at, (uint64_t)count * bits, fault)
                              : status;
}

/* ---- grids ---- */

struct encoding {
    const struct tsi_grid *grid;
    const float *in;
    float *take; /* the residual; NULL: nothing is taken */
    uint8_t *packed;
};

static void encode_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct encoding *const to = context;
    const struct tsi_grid *const grid = to->grid;
    const struct tsi_call *const call = grid->call;
    (void)chunk;
    for (size_t at = first; at < first + count; at += TILE) {
        const size_t left = first + count - at;
        const size_t tile = left < TILE ? left : TILE;
        uint16_t codes[TILE];
        grid->quantize(grid, to->in + at, to->take ? to->take + at : NULL, tile,
                       call->piece->first + at, codes);
        call->kernel->pack_codes(codes, tile, grid->bits, to->packed + at * grid->bits / 8);
    }
}

void tsi_codes_encode(const struct tsi_grid *grid, const float *in, float *take, uint8_t *packed)
{
    struct encoding to = {.grid = grid, .in = in, .take = take, .packed = packed};
    tsi_each_chunk(grid->call->threads, grid->call->piece->count, encode_chunk, &to);
}

uint32_t tsi_codes_add(const struct tsi_call *call, const struct tsi_codes *codes, tsi_add_fn *add,
                       uint32_t levels, float factor, size_t first, size_t count, float *out)
{
    const uint8_t *const packed = codes->section + codes->at;
    uint32_t bad = 0;
    for (size_t at = 0; at < count; at += TILE) {
        const size_t tile = count - at < TILE ? count - at : TILE;
        uint16_t unpacked[TILE];
        call->kernel->unpack_codes(packed + (first + at) * codes->bits / 8, tile, codes->bits,
                                   unpacked);
        bad |= add(out + at, unpacked, tile, levels, codes->bits - 1, factor);
    }
    return bad;
}

/* ---- opened sections ---- */

uint32_t tsi_coded_add(const struct tsi_coded *coded, size_t first, size_t count, float *out)
{
    if (coded->fresh)
        memset(out, 0, count * sizeof *out);
    if (coded->codes.bits == 0)
        return 0;
    return coded->call.ops->add_codes(&coded->call, &coded->codes, first, count, out);
}

struct decoding {
    const struct tsi_coded *coded;
    float *out; /* NULL: nobody wants the values */
    atomic_int bad;
};

/* Tile by tile where tiles are cleared first, so that this meets the decoding in the first-level
 * cache. */
static uint32_t decode_range(const struct tsi_coded *coded, size_t first, size_t count, float *out)
{
    const size_t most = out && !coded->fresh ? count : TSI_TILE;
    uint32_t bad = 0;
    for (size_t at = first; at < first + count; at += most) {
        const size_t tile = first + count - at < most ? first + count - at : most;
        float unwanted[TSI_TILE];
        if (!out)
            memset(unwanted, 0, tile * sizeof *unwanted);
        bad |= tsi_coded_add(coded, at, tile, out ? out + at : unwanted);
    }
    return bad;
}

static void decode_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    struct decoding *const decoding = context;
    (void)chunk;
    if (decode_range(decoding->coded, first, count, decoding->out))
        atomic_store(&decoding->bad, 1);
}

terse_status tsi_coded_decode(const struct tsi_coded *coded, float *out, terse_fault *fault)
{
    const struct tsi_codes *const codes = &coded->codes;
    const size_t count = coded->call.piece->count;
    struct decoding decoding = {.coded = coded, .out = out};
    size_t first = 0;
    tsi_each_chunk(coded->call.threads, count, decode_chunk, &decoding);
    if (!atomic_load(&decoding.bad))
        return TERSE_OK;
    while (first + TSI_CHUNK < count && !decode_range(coded, first, TSI_CHUNK, NULL))
        first += TSI_CHUNK;
    return tsi_fail(fault, TERSE_BAD_FRAME, coded->offset + codes->at + first * codes->bits / 8,
                    "%s", coded->call.ops->bad_code);
}
