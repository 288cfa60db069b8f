/* nearest: the nearest point of R * {-1, ..., -2^-k, 0, 2^-k, ..., 1}, ties toward zero. This is
 * Q_x, the weights of Quantized Adam (Chen, Shen, Huang, Liu, ACM TIST 2021). Section:
 * docs/wire-format.md, "nearest". */
#include "codec/codes.h"
#include "codec/statistics.h"

enum { K, RANGE };

#define SMALLEST_RANGE 0x1p-100f /* below, 2^k / R could overflow: encoded as 0 */

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

static void quantize(const struct tsi_grid *grid, const float *in, float *take, size_t count,
                     uint64_t first, uint16_t *codes)
{
    const struct tsk_table *const kernel = grid->call->kernel;
    (void)first;
    kernel->nearest_codes_f32(in, count, grid->scale, grid->levels, grid->bits - 1, codes);
    if (take)
        (void)kernel->level_add_f32(take, codes, count, grid->levels, grid->bits - 1, -grid->unit);
}

static size_t section_bound(const struct terse_codec_ops *ops, const double *option,
                            const struct tsi_piece *piece, uint32_t pass)
{
    (void)ops;
    (void)pass;
    return sizeof(float) + tsi_packed_len(piece->count, (unsigned)option[K] + 2);
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
    if (most >= TSK_INFINITY_BITS)
        return TERSE_NOT_FINITE;
    tsi_store_u32(section, most);
    float range = call->option[RANGE] > 0 ? (float)call->option[RANGE] : tsi_load_f32(section);
    if (range < SMALLEST_RANGE)
        range = 0;
    tsi_store_f32(section, range);
    const uint32_t levels = 1u << (unsigned)call->option[K];
    const struct tsi_grid grid = {.call = call,
                                  .bits = (unsigned)call->option[K] + 2,
                                  .levels = levels,
                                  .scale = range > 0 ? (float)(levels / (double)range) : 0,
                                  .unit = (float)((double)range / levels),
                                  .quantize = quantize};
    tsi_codes_encode(&grid, in, take, section + sizeof(float));
    *len = section_bound(call->ops, call->option, call->piece, 0);
    return TERSE_OK;
}

static terse_status open_codes(const struct tsi_call *call, const uint8_t *section, size_t len,
                               struct tsi_codes *out, terse_fault *fault)
{
    return tsi_codes_open(call, 1, (unsigned)call->option[K] + 2, section, len, out, fault);
}

static uint32_t add_codes(const struct tsi_call *call, const struct tsi_codes *codes, size_t first,
                          size_t count, float *out)
{
    const uint32_t levels = 1u << (unsigned)call->option[K];
    return tsi_codes_add(call, codes, call->kernel->level_add_f32, levels,
                         (float)((double)codes->scale / levels), first, count, out);
}

const struct terse_codec_ops tsi_codec_nearest = {
    .wire_id = 10,
    .name = "nearest",
    .summary = "a uniform grid for weights, to nearest",
    .traits = TERSE_CODEC_FIXED_LEN,
    .passes = 1,
    .options = options,
    .option_count = 2,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .prescan_len = tsi_statistic_len,
    .prescan = tsi_prescan_max,
    .encode = encode,
    .open_codes = open_codes,
    .add_codes = add_codes,
    .bad_code = TSI_OFF_GRID,
};
