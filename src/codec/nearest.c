/* nearest: the nearest point of R * {-1, ..., -2^-k, 0, 2^-k, ..., 1}, ties toward zero. Q_x, the
 * weights of Quantized Adam (Chen, Shen, Huang, Liu, ACM TIST 2021).
 * Section: docs/wire-format.md, "nearest". */
#include "codec/coded.h"
#include "codec/statistics.h"

enum { K, RANGE };

#define SMALLEST_RANGE 0x1p-100f /* below, 2^k / R could overflow: said as 0 */

static const terse_option options[] = {
    {.name = "k",
     .range = "1..14",
     .initial = "6",
     .help = "neighbours are R * 2^-k apart; 2^(k+1)+1 levels, k+2 bits",
     .kind = TERSE_OPTION_INTEGER,
     .low = 1,
     .high = 14},
    {.name = "range",
     .range = "0..1e30",
     .initial = "0",
     .help = "R, beyond which values are clipped; 0: the tensor's largest magnitude",
     .kind = TERSE_OPTION_REAL,
     .low = 0,
     .high = 1e30},
};

static void codes_of(const struct tsi_grid *grid, const float *in, size_t count, uint64_t first,
                     uint16_t *codes)
{
    (void)first;
    grid->call->kernel->nearest_codes_f32(in, count, grid->scale, grid->levels, grid->bits - 1,
                                          codes);
}

static uint32_t add(const struct tsi_grid *grid, float *out, const uint16_t *codes, size_t count,
                    float sign)
{
    return grid->call->kernel->level_add_f32(out, codes, count, grid->levels, grid->bits - 1,
                                             sign * grid->unit);
}

static struct tsi_grid grid_of(const struct tsi_call *call, float range)
{
    const uint32_t levels = 1u << (unsigned)call->option[K];
    return (struct tsi_grid){.call = call,
                             .bits = (unsigned)call->option[K] + 2,
                             .levels = levels,
                             .scale = range > 0 ? (float)(levels / (double)range) : 0,
                             .unit = (float)((double)range / levels),
                             .codes = codes_of,
                             .add = add};
}

static size_t section_bound(const double *option, const struct tsi_piece *piece, uint32_t pass)
{
    (void)pass;
    return sizeof(float) + tsi_packed_len(piece->count, (unsigned)option[K] + 2);
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
    const uint32_t most = tsi_magnitude_max(call, in);
    if (most >= TSK_INFINITY_BITS)
        return TERSE_NOT_FINITE;
    tsi_store_u32(section, most);
    float range = call->option[RANGE] > 0 ? (float)call->option[RANGE] : tsi_load_f32(section);
    if (range < SMALLEST_RANGE)
        range = 0;
    tsi_store_f32(section, range);
    const struct tsi_grid grid = grid_of(call, range);
    tsi_codes_encode(&grid, in, take, section + sizeof(float));
    *len = section_bound(call->option, call->piece, 0);
    return TERSE_OK;
}

static terse_status decode_add(const struct tsi_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out, terse_fault *fault)
{
    return tsi_scaled_decode(call, grid_of, section, len, used, out, fault);
}

const struct terse_codec_ops tsi_codec_nearest = {
    .wire_id = 10,
    .name = "nearest",
    .summary = "a uniform grid for weights, to nearest",
    .traits = TERSE_CODEC_FIXED_LEN,
    .passes = 1,
    .fresh = 1,
    .options = options,
    .option_count = 2,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .encode = encode,
    .decode_add = decode_add,
};
