/* Sections of one code per element, all of one width. They are opened once, and decoded as a whole
 * or range by range. */
#include <stdatomic.h>

#include "base/parallel.h"
#include "codec/object.h"
#include "codec/section.h"

terse_status tsi_codes_open(const struct tsi_call *call, unsigned bits, const uint8_t *section,
                            size_t len, struct tsi_codes *out, terse_fault *fault)
{
    const size_t count = call->piece->count;
    *out = (struct tsi_codes){
        .section = section, .len = tsi_packed_len(count, bits), .bits = bits, .scale = 1};
    const terse_status status = tsi_section_len(len, out->len, fault);
    return status == TERSE_OK ? tsi_section_padding(section, 0, (uint64_t)count * bits, fault)
                              : status;
}

terse_status tsi_codes_open_scaled(const struct tsi_call *call, unsigned bits,
                                   const uint8_t *section, size_t len, struct tsi_codes *out,
                                   terse_fault *fault)
{
    const size_t count = call->piece->count;
    const size_t at = sizeof(float);
    *out = (struct tsi_codes){
        .section = section, .len = at + tsi_packed_len(count, bits), .at = at, .bits = bits};
    terse_status status = tsi_section_len(len, out->len, fault);
    if (status == TERSE_OK)
        status = tsi_section_scale(section, 0, &out->scale, fault);
    return status == TERSE_OK ? tsi_section_padding(section, at, (uint64_t)count * bits, fault)
                              : status;
}

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
