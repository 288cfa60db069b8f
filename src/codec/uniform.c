/* uniform: norm * {0, +-1/s, ..., +-1} with s = 2^(bits-1) - 1, rounded up or down at random so
 * that the mean is unbiased. QSGD (Alistarh et al., NIPS 2017), TernGrad with bits=2,norm=inf (Wen
 * et al., NIPS 2017), and the quantizer of DQ-SGD (Yan et al., MASS 2021), which chooses the bits
 * itself: so every section has its own. Section: docs/wire-format.md, "uniform". */
#include "codec/codes.h"
#include "codec/statistics.h"

enum { BITS, NORM };
enum { NORM_INFINITY, NORM_TWO };

#define CODES_AT (1 + sizeof(float))
#define SMALLEST_NORM 0x1p-100f /* below, s / norm could overflow: encoded as 0 */

static const terse_option options[] = {
    {.name = "bits",
     .range = "2..16",
     .initial = "4",
     .help = "bits of an element: sign and 2^(bits-1) levels",
     .kind = TERSE_OPTION_INTEGER,
     .low = 2,
     .high = 16},
    {.name = "norm",
     .range = "inf|2",
     .initial = "inf",
     .help = "value of the largest level; 2 has a large variance with few bits",
     .kind = TERSE_OPTION_CHOICE,
     .low = NORM_INFINITY,
     .high = NORM_TWO},
};

static void quantize(const struct tsi_grid *grid, const float *in, float *take, size_t count,
                     uint64_t first, uint16_t *codes)
{
    const struct tsk_table *const kernel = grid->call->kernel;
    kernel->random_codes_f32(in, count, grid->scale, grid->levels, grid->bits - 1, &grid->stream,
                             first, codes);
    if (take)
        (void)kernel->level_add_f32(take, codes, count, grid->levels, grid->bits - 1, -grid->unit);
}

static uint32_t levels_of(unsigned bits)
{
    return (1u << (bits - 1)) - 1;
}

/* The distance of neighbours; infinite if the largest level overflows a float although the norm
 * does not. */
static float unit_of(unsigned bits, float norm)
{
    const float unit = (float)((double)norm / levels_of(bits));
    return isfinite((float)levels_of(bits) * unit) ? unit : INFINITY;
}

static size_t section_bound(const struct terse_codec_ops *ops, const double *option,
                            const struct tsi_piece *piece, uint32_t pass)
{
    (void)ops;
    (void)pass;
    return CODES_AT + tsi_packed_len(piece->count, (unsigned)option[BITS]);
}

static size_t scratch_len(const struct terse_codec_ops *ops, const double *option,
                          const struct tsi_piece *piece, unsigned threads)
{
    (void)ops;
    (void)option;
    (void)threads;
    return tsi_statistics_scratch(piece);
}

static int prescan(const struct tsi_call *call, const float *in, size_t first, size_t count)
{
    return (call->option[NORM] == NORM_TWO ? tsi_prescan_squares : tsi_prescan_max)(call, in, first,
                                                                                    count);
}

static terse_status norm_of(const struct tsi_call *call, const float *in, float *norm)
{
    double value;
    if (call->option[NORM] == NORM_TWO) {
        value = sqrt(tsi_prescanned(call, TSI_SQUARES, in));
    } else {
        uint8_t bits[sizeof(float)];
        tsi_store_u32(bits, (uint32_t)tsi_prescanned(call, TSI_MAX, in));
        value = (double)tsi_load_f32(bits);
    }
    if (!isfinite(value))
        return TERSE_NOT_FINITE;
    *norm = (float)value;
    if (!isfinite(*norm))
        return TERSE_OUT_OF_RANGE;
    if (*norm < SMALLEST_NORM)
        *norm = 0;
    return TERSE_OK;
}

static terse_status encode(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len)
{
    unsigned bits = (unsigned)call->option[BITS];
    float norm = 0;
    const terse_status status = norm_of(call, in, &norm);
    if (status != TERSE_OK)
        return status;
    if (call->rule && norm > 0)
        bits = call->rule->choose(call->rule->context, call, in, norm);
    const float unit = unit_of(bits, norm);
    if (!isfinite(unit))
        return TERSE_OUT_OF_RANGE;
    section[0] = (uint8_t)bits;
    tsi_store_f32(section + 1, norm);
    *len = CODES_AT;
    if (norm > 0) {
        const struct tsi_grid grid = {
            .call = call,
            .bits = bits,
            .levels = levels_of(bits),
            .scale = (float)(levels_of(bits) / (double)norm),
            .unit = unit,
            .stream = tsi_stream(call->key, TSI_RANDOM_ROUNDING, call->piece->tensor),
            .quantize = quantize};
        tsi_codes_encode(&grid, in, take, section + CODES_AT);
        *len += tsi_packed_len(call->piece->count, bits);
    }
    return TERSE_OK;
}

static terse_status open_codes(const struct tsi_call *call, const uint8_t *section, size_t len,
                               struct tsi_codes *out, terse_fault *fault)
{
    const uint64_t count = call->piece->count;
    *out = (struct tsi_codes){.section = section, .len = CODES_AT, .at = CODES_AT};
    terse_status status = tsi_section_len(len, CODES_AT, fault);
    if (status == TERSE_OK)
        status = tsi_section_scale(section, 1, &out->scale, fault);
    if (status != TERSE_OK)
        return status;
    const unsigned bits = section[0];
    if (bits < 2 || bits > 16)
        return tsi_fail(fault, TERSE_BAD_FRAME, 0, "%u bits, not 2..16", bits);
    if (out->scale == 0)
        return TERSE_OK;
    if (!isfinite(unit_of(bits, out->scale)))
        return tsi_fail(fault, TERSE_BAD_FRAME, 1, "the largest level is not finite");
    out->bits = bits;
    out->len += tsi_packed_len(call->piece->count, bits);
    status = tsi_section_len(len, out->len, fault);
    return status == TERSE_OK ? tsi_section_padding(section, CODES_AT, count * bits, fault)
                              : status;
}

static uint32_t add_codes(const struct tsi_call *call, const struct tsi_codes *codes, size_t first,
                          size_t count, float *out)
{
    return tsi_codes_add(call, codes, call->kernel->level_add_f32, levels_of(codes->bits),
                         unit_of(codes->bits, codes->scale), first, count, out);
}

const struct terse_codec_ops tsi_codec_uniform = {
    .wire_id = 9,
    .name = "uniform",
    .summary = "a uniform grid, unbiased random rounding",
    .traits = TERSE_CODEC_UNBIASED | TERSE_CODEC_RANDOM,
    .passes = 1,
    .options = options,
    .option_count = 2,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .prescan_len = tsi_statistic_len,
    .prescan = prescan,
    .encode = encode,
    .open_codes = open_codes,
    .add_codes = add_codes,
    .bad_code = TSI_OFF_GRID,
};
