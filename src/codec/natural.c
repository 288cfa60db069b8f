/* natural: sign and a power of two, rounded up or down at random so that the mean is unbiased
 * (natural compression; Horvath et al., MSML 2022). Section: docs/wire-format.md, "natural".
 */
#include "codec/codes.h"
#include "codec/statistics.h"

#define BITS 9u             /* sign and biased exponent */
#define TILE ((size_t)1024) /* elements whose codes stay in the first-level cache */
#define LIMIT 0x7f000000u   /* from 2^127 on, the upper neighbour is not a float */

static void quantize(const struct tsi_grid *grid, const float *in, float *take, size_t count,
                     uint64_t first, uint16_t *codes)
{
    const struct tsk_table *const kernel = grid->call->kernel;
    (void)kernel->natural_codes_f32(in, count, &grid->stream, first, codes);
    if (take)
        (void)kernel->natural_add_f32(take, codes, count, -1.0f);
}

static size_t section_bound(const struct terse_codec_ops *ops, const double *option,
                            const struct tsi_piece *piece, uint32_t pass)
{
    (void)ops;
    (void)option;
    (void)pass;
    return tsi_packed_len(piece->count, BITS);
}

static size_t scratch_len(const struct terse_codec_ops *ops, const double *option,
                          const struct tsi_piece *piece, unsigned threads)
{
    (void)ops;
    (void)option;
    (void)threads;
    return tsi_statistics_scratch(piece);
}

static terse_status encode(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len)
{
    const uint32_t most = (uint32_t)tsi_prescanned(call, TSI_MAX, in);
    const terse_status status = tsi_within(most, LIMIT);
    if (status != TERSE_OK)
        return status;
    const struct tsi_grid grid = {
        .call = call,
        .bits = BITS,
        .stream = tsi_stream(call->key, TSI_RANDOM_ROUNDING, call->piece->tensor),
        .quantize = quantize};
    tsi_codes_encode(&grid, in, take, section);
    *len = section_bound(call->ops, call->option, call->piece, 0);
    return TERSE_OK;
}

static terse_status open_codes(const struct tsi_call *call, const uint8_t *section, size_t len,
                               struct tsi_codes *out, terse_fault *fault)
{
    return tsi_codes_open(call, 0, BITS, section, len, out, fault);
}

static uint32_t add_codes(const struct tsi_call *call, const struct tsi_codes *codes, size_t first,
                          size_t count, float *out)
{
    uint32_t bad = 0;
    for (size_t at = 0; at < count; at += TILE) {
        const size_t tile = count - at < TILE ? count - at : TILE;
        uint16_t unpacked[TILE];
        call->kernel->unpack_codes(codes->section + (first + at) * BITS / 8, tile, BITS, unpacked);
        bad |= call->kernel->natural_add_f32(out + at, unpacked, tile, 1.0f);
    }
    return bad;
}

const struct terse_codec_ops tsi_codec_natural = {
    .wire_id = 11,
    .name = "natural",
    .summary = "sign and a power of two, unbiased random rounding",
    .traits = TERSE_CODEC_UNBIASED | TERSE_CODEC_RANDOM | TERSE_CODEC_FIXED_LEN,
    .passes = 1,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .prescan_len = tsi_statistic_len,
    .prescan = tsi_prescan_max,
    .encode = encode,
    .open_codes = open_codes,
    .add_codes = add_codes,
    .bad_code = TSI_OFF_GRID,
};
