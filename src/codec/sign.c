/* sign: one bit per element, +1 or -1; with zero=keep two, +1, -1 or 0. scaled-sign: the same times
 * the tensor's mean magnitude, which makes it contractive (Karimireddy et al., ICML 2019). Only the
 * scale differs. Sections: docs/wire-format.md, "sign" and "scaled-sign". */
#include <string.h>

#include "base/parallel.h"
#include "codec/codes.h"
#include "codec/statistics.h"

enum { ZERO }; /* options */
enum { ZERO_PLUS, ZERO_COIN, ZERO_KEEP };

#define COINS_PER_WORD 32u
#define TILE_BYTES (TSI_TILE / 8)

static const terse_option sign_options[] = {
    {.name = "zero",
     .range = "plus|coin|keep",
     .initial = "plus",
     .help = "the sign of an exact zero: plus, a fair coin keyed by seed and step, or 0 with two "
             "bits per element",
     .kind = TERSE_OPTION_CHOICE,
     .low = ZERO_PLUS,
     .high = ZERO_KEEP},
};

static const terse_option scaled_options[] = {
    {.name = "zero",
     .range = "plus|coin",
     .initial = "plus",
     .help = "the sign of an exact zero: plus, or a fair coin keyed by seed and step",
     .kind = TERSE_OPTION_CHOICE,
     .low = ZERO_PLUS,
     .high = ZERO_COIN},
};

struct sign_job {
    const struct tsi_call *call;
    const float *in;
    size_t base;   /* the first element of the job */
    float *out;    /* the residual; NULL: nothing is taken */
    uint8_t *bits; /* the bits to write */
    float scale;
};

static uint32_t sign_traits(const double *option)
{
    return TERSE_CODEC_FIXED_LEN |
           (option[ZERO] == ZERO_KEEP ? TERSE_CODEC_TERNARY : TERSE_CODEC_RANDOM);
}

static unsigned bits_of(const double *option)
{
    return option[ZERO] == ZERO_KEEP ? 2 : 1;
}

static size_t sign_bound(const struct terse_codec_ops *ops, const double *option,
                         const struct tsi_piece *piece, uint32_t pass)
{
    (void)ops;
    (void)pass;
    return tsi_packed_len(piece->count, bits_of(option));
}

static size_t scaled_bound(const struct terse_codec_ops *ops, const double *option,
                           const struct tsi_piece *piece, uint32_t pass)
{
    (void)ops;
    (void)option;
    (void)pass;
    return sizeof(float) + tsi_packed_len(piece->count, 1);
}

static size_t scratch_len(const struct terse_codec_ops *ops, const double *option,
                          const struct tsi_piece *piece, unsigned threads)
{
    (void)ops;
    (void)option;
    (void)threads;
    return tsi_statistics_scratch(piece);
}

/* ---- encode ---- */

/* Writes the bits of a chunk tile by tile; with zero=coin an exact zero gets a random sign. */
static void encode_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    static const uint8_t none[TILE_BYTES];
    const struct sign_job *const job = context;
    const struct tsi_call *const call = job->call;
    const int coin = call->option[ZERO] == ZERO_COIN;
    const struct tsk_stream stream = tsi_stream(call->key, TSI_RANDOM_COIN, call->piece->tensor);
    uint32_t *const maxima = call->scratch;
    uint32_t most = 0;
    const size_t end = job->base + first + count;
    for (size_t at = job->base + first; at < end; at += TSI_TILE) {
        const size_t left = end - at;
        const size_t tile = left < TSI_TILE ? left : TSI_TILE;
        const size_t len = (tile + 7) / 8;
        uint8_t *const bits = job->bits + at / 8;
        uint8_t zero[TILE_BYTES];
        const uint32_t here = call->kernel->sign_f32(job->in + at, tile, bits, coin ? zero : NULL);
        most = here > most ? here : most;
        if (coin && memcmp(zero, none, len) != 0) {
            uint32_t coins[TSI_TILE / COINS_PER_WORD];
            call->kernel->random_u32(&stream, (call->piece->first + at) / COINS_PER_WORD,
                                     TSI_TILE / COINS_PER_WORD, coins);
            for (size_t i = 0; i < len; i++)
                bits[i] |= zero[i] & ((const uint8_t *)coins)[i];
        }
        if (job->out)
            call->kernel->sign_add_f32(job->out + at, bits, tile, -job->scale);
    }
    maxima[chunk] = most;
}

static terse_status encode_bits(struct sign_job *job, size_t count)
{
    const uint32_t *const maxima = job->call->scratch;
    tsi_each_chunk(job->call->threads, count, encode_chunk, job);
    for (size_t i = 0; i < tsi_chunk_total(count); i++)
        if (maxima[i] >= TSK_INFINITY_BITS)
            return TERSE_NOT_FINITE;
    return TERSE_OK;
}

/* The encoded bits of the elements prescanned so far. */
struct sign_prescan_state {
    terse_status status;
    uint8_t bits[];
};

static size_t sign_prescan_len(const double *option, const struct tsi_piece *piece)
{
    (void)option;
    return sizeof(struct sign_prescan_state) + tsi_packed_len(piece->count, 1);
}

static int sign_prescan(const struct tsi_call *call, const float *in, size_t first, size_t count)
{
    struct sign_prescan_state *const prescan_state = call->prescan_state;
    struct sign_job job = {
        .call = call, .in = in, .base = first, .bits = prescan_state->bits, .scale = 1.0f};
    if (first % TSI_TILE != 0 || call->option[ZERO] == ZERO_KEEP)
        return 0; /* bits and coins are computed for whole tiles */
    if (first == 0)
        prescan_state->status = TERSE_OK;
    if (encode_bits(&job, count) != TERSE_OK)
        prescan_state->status = TERSE_NOT_FINITE;
    return 1;
}

/* zero=keep: the magnitude of a code is 0 or 1. */
static void quantize(const struct tsi_grid *grid, const float *in, float *take, size_t count,
                     uint64_t first, uint16_t *codes)
{
    (void)first;
    for (size_t i = 0; i < count; i++)
        codes[i] = (uint16_t)((in[i] < 0) << 1 | (in[i] != 0));
    if (take)
        (void)grid->call->kernel->level_add_f32(take, codes, count, 1, 1, -1.0f);
}

static terse_status keep_encode(const struct tsi_call *call, const float *in, float *take,
                                uint8_t *section, size_t *len)
{
    const struct tsi_grid grid = {.call = call, .bits = 2, .levels = 1, .quantize = quantize};
    const terse_status status = tsi_check_finite(call, in);
    if (status != TERSE_OK)
        return status;
    tsi_codes_encode(&grid, in, take, section);
    *len = tsi_packed_len(call->piece->count, 2);
    return TERSE_OK;
}

static terse_status sign_encode(const struct tsi_call *call, const float *in, float *take,
                                uint8_t *section, size_t *len)
{
    struct sign_job job = {.call = call, .in = in, .out = take, .bits = section, .scale = 1.0f};
    if (call->option[ZERO] == ZERO_KEEP)
        return keep_encode(call, in, take, section, len);
    terse_status status = take ? tsi_check_finite(call, in) : TERSE_OK;
    if (call->prescanned && !take) {
        const struct sign_prescan_state *const prescan_state = call->prescan_state;
        memcpy(section, prescan_state->bits, tsi_packed_len(call->piece->count, 1));
        status = prescan_state->status;
    } else if (status == TERSE_OK) {
        status = encode_bits(&job, call->piece->count);
    }
    if (status == TERSE_OK)
        *len = tsi_packed_len(call->piece->count, 1);
    return status;
}

static terse_status scaled_encode(const struct tsi_call *call, const float *in, float *take,
                                  uint8_t *section, size_t *len)
{
    const double sum = tsi_prescanned(call, TSI_MAGNITUDES, in);
    if (!isfinite(sum))
        return TERSE_NOT_FINITE;
    struct sign_job job = {.call = call,
                           .in = in,
                           .out = take,
                           .bits = section + sizeof(float),
                           .scale = (float)(sum / (double)call->piece->count)};
    const terse_status status = encode_bits(&job, call->piece->count);
    tsi_store_f32(section, job.scale);
    if (status == TERSE_OK)
        *len = sizeof(float) + tsi_packed_len(call->piece->count, 1);
    return status;
}

/* ---- decode ---- */

static terse_status sign_open(const struct tsi_call *call, const uint8_t *section, size_t len,
                              struct tsi_codes *out, terse_fault *fault)
{
    return tsi_codes_open(call, 0, bits_of(call->option), section, len, out, fault);
}

static terse_status scaled_open(const struct tsi_call *call, const uint8_t *section, size_t len,
                                struct tsi_codes *out, terse_fault *fault)
{
    return tsi_codes_open(call, 1, 1, section, len, out, fault);
}

static uint32_t add_codes(const struct tsi_call *call, const struct tsi_codes *codes, size_t first,
                          size_t count, float *out)
{
    if (codes->bits == 2)
        return tsi_codes_add(call, codes, call->kernel->level_add_f32, 1, 1.0f, first, count, out);
    call->kernel->sign_add_f32(out, codes->section + codes->at + first / 8, count, codes->scale);
    return 0;
}

const struct terse_codec_ops tsi_codec_sign = {
    .wire_id = 4,
    .name = "sign",
    .summary = "one bit each: the sign",
    .traits = TERSE_CODEC_RANDOM | TERSE_CODEC_FIXED_LEN,
    .traits_of = sign_traits,
    .passes = 1,
    .options = sign_options,
    .option_count = 1,
    .section_bound = sign_bound,
    .scratch_len = scratch_len,
    .prescan_len = sign_prescan_len,
    .prescan = sign_prescan,
    .encode = sign_encode,
    .open_codes = sign_open,
    .add_codes = add_codes,
    .bad_code = TSI_OFF_GRID,
};

const struct terse_codec_ops tsi_codec_scaled_sign = {
    .wire_id = 5,
    .name = "scaled-sign",
    .summary = "one bit each: the sign, times the tensor's mean magnitude",
    .traits = TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_RANDOM | TERSE_CODEC_FIXED_LEN,
    .passes = 1,
    .options = scaled_options,
    .option_count = 1,
    .section_bound = scaled_bound,
    .scratch_len = scratch_len,
    .prescan_len = tsi_statistic_len,
    .prescan = tsi_prescan_magnitudes,
    .encode = scaled_encode,
    .open_codes = scaled_open,
    .add_codes = add_codes,
};
