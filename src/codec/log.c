/* log: the nearest point of scale * {0, +-2^-k, ..., +-1/2, +-1}, ties toward zero; the scale is
 * the tensor's largest magnitude, which is therefore exact. This is Q_g of Quantized Adam (Chen,
 * Shen, Huang, Liu, ACM TIST 2021). Section: docs/wire-format.md, "log". */
#include "codec/codes.h"
#include "codec/statistics.h"

enum { K };

static const terse_option options[] = {
    {.name = "k",
     .range = "0..14",
     .initial = "2",
     .help = "the smallest point beside 0 is 2^-k of the largest; 2k+3 levels",
     .kind = TERSE_OPTION_INTEGER,
     .low = 0,
     .high = TSK_MAX_LOG_LEVELS - 1},
};

/* The bits of a code: its sign, and k + 2 magnitudes. */
static unsigned code_bits(const double *option)
{
    unsigned bits = 2;
    while (1u << (bits - 1) < (unsigned)option[K] + 2)
        bits++;
    return bits;
}

static void quantize(const struct tsi_grid *grid, const float *in, float *take, size_t count,
                     uint64_t first, uint16_t *codes)
{
    const struct tsk_table *const kernel = grid->call->kernel;
    (void)first;
    if (take)
        kernel->log_take_f32(take, count, grid->thresholds, grid->levels, grid->bits - 1,
                             grid->scale, codes);
    else
        kernel->log_codes_f32(in, count, grid->thresholds, grid->levels, grid->bits - 1, codes);
}

static size_t section_bound(const struct terse_codec_ops *ops, const double *option,
                            const struct tsi_piece *piece, uint32_t pass)
{
    (void)ops;
    (void)pass;
    return sizeof(float) + tsi_packed_len(piece->count, code_bits(option));
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
    const unsigned levels = (unsigned)call->option[K] + 1;
    float thresholds[TSK_MAX_LOG_LEVELS];
    if (most >= TSK_INFINITY_BITS)
        return TERSE_NOT_FINITE;
    tsi_store_u32(section, most);
    const float scale = tsi_load_f32(section);
    /* The midpoints of neighbours, rounded down: |x| > midpoint exactly when |x| > rounded. */
    for (unsigned j = 0; j < levels; j++) {
        const double upper = ldexp(scale, (int)j + 1 - (int)levels);
        const double middle = j == 0 ? upper / 2 : upper * 0.75;
        const float rounded = (float)middle;
        thresholds[j] = (double)rounded > middle ? nextafterf(rounded, 0) : rounded;
    }
    const struct tsi_grid grid = {.call = call,
                                  .bits = code_bits(call->option),
                                  .levels = levels,
                                  .scale = scale,
                                  .thresholds = thresholds,
                                  .quantize = quantize};
    tsi_codes_encode(&grid, in, take, section + sizeof(float));
    *len = section_bound(call->ops, call->option, call->piece, 0);
    return TERSE_OK;
}

static terse_status open_codes(const struct tsi_call *call, const uint8_t *section, size_t len,
                               struct tsi_codes *out, terse_fault *fault)
{
    return tsi_codes_open(call, 1, code_bits(call->option), section, len, out, fault);
}

static uint32_t add_codes(const struct tsi_call *call, const struct tsi_codes *codes, size_t first,
                          size_t count, float *out)
{
    return tsi_codes_add(call, codes, call->kernel->log_add_f32, (uint32_t)call->option[K] + 1,
                         codes->scale, first, count, out);
}

const struct terse_codec_ops tsi_codec_log = {
    .wire_id = 8,
    .name = "log",
    .summary = "the nearest of a few powers of two of the tensor's largest magnitude",
    .traits = TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_FIXED_LEN,
    .passes = 1,
    .options = options,
    .option_count = 1,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .prescan_len = tsi_statistic_len,
    .prescan = tsi_prescan_max,
    .encode = encode,
    .open_codes = open_codes,
    .add_codes = add_codes,
    .bad_code = TSI_OFF_GRID,
};
