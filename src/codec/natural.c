/* natural: sign and a power of two, the upper or lower neighbour at random so that the mean is
 * right (natural compression; Horvath et al., MSML 2022). Section: docs/wire-format.md, "natural".
 */
#include "codec/coded.h"
#include "codec/statistics.h"

#define BITS 9u           /* sign and biased exponent */
#define LARGEST 254u      /* biased exponent of the largest power of two */
#define LIMIT 0x7f000000u /* from 2^127 on, the upper neighbour is no float */

static void codes_of(const struct tsi_grid *grid, const float *in, size_t count, uint64_t first,
                     uint16_t *codes)
{
    (void)grid->call->kernel->natural_codes_f32(in, count, &grid->stream, first, codes);
}

static uint32_t add(const struct tsi_grid *grid, float *out, const uint16_t *codes, size_t count,
                    float sign)
{
    return grid->call->kernel->natural_add_f32(out, codes, count, sign);
}

static struct tsi_grid grid_of(const struct tsi_call *call)
{
    return (struct tsi_grid){
        .call = call,
        .bits = BITS,
        .levels = LARGEST,
        .stream = tsi_stream_own(call->key, TSI_RANDOM_ROUNDING, call->piece->tensor),
        .codes = codes_of,
        .add = add};
}

static size_t section_bound(const double *option, const struct tsi_piece *piece, uint32_t pass)
{
    (void)option;
    (void)pass;
    return tsi_packed_len(piece->count, BITS);
}

static size_t scratch_len(const double *option, const struct tsi_piece *piece, unsigned threads)
{
    (void)option;
    (void)threads;
    return tsi_statistics_scratch(piece);
}

static terse_status encode(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len)
{
    const terse_status status = tsi_check(call, in, LIMIT);
    if (status != TERSE_OK)
        return status;
    const struct tsi_grid grid = grid_of(call);
    tsi_codes_encode(&grid, in, take, section);
    *len = section_bound(call->option, call->piece, 0);
    return TERSE_OK;
}

static terse_status decode_add(const struct tsi_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out, terse_fault *fault)
{
    *used = section_bound(call->option, call->piece, 0);
    const terse_status status = tsi_section_len(len, *used, fault);
    if (status != TERSE_OK)
        return status;
    const struct tsi_grid grid = grid_of(call);
    return tsi_codes_decode(&grid, section, 0, out, fault);
}

const struct terse_codec_ops tsi_codec_natural = {
    .wire_id = 11,
    .name = "natural",
    .summary = "sign and a power of two, rounded at random, right on average",
    .traits = TERSE_CODEC_UNBIASED | TERSE_CODEC_RANDOM | TERSE_CODEC_FIXED_LEN,
    .passes = 1,
    .fresh = 1,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .encode = encode,
    .decode_add = decode_add,
};
