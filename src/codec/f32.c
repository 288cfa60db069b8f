/* f32: every element exactly, the dense baseline; and the plain pieces of all codecs. Section:
 * docs/wire-format.md, "f32". */
#include "codec/codes.h"
#include "codec/run.h"

static size_t section_bound(const struct terse_codec_ops *ops, const double *option,
                            const struct tsi_piece *piece, uint32_t pass)
{
    (void)ops;
    (void)option;
    (void)pass;
    return piece->count * sizeof(float);
}

static size_t scratch_len(const struct terse_codec_ops *ops, const double *option,
                          const struct tsi_piece *piece, unsigned threads)
{
    (void)ops;
    (void)option;
    (void)threads;
    return tsi_run_scratch(piece->count);
}

static terse_status encode(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len)
{
    const size_t count = call->piece->count;
    *len = count * sizeof(float);
    return tsi_run_copy(call, in, take, count, section);
}

static terse_status open_codes(const struct tsi_call *call, const uint8_t *section, size_t len,
                               struct tsi_codes *out, terse_fault *fault)
{
    return tsi_codes_open(call, 0, 8 * sizeof(float), section, len, out, fault);
}

static uint32_t add_codes(const struct tsi_call *call, const struct tsi_codes *codes, size_t first,
                          size_t count, float *out)
{
    return call->kernel->add_f32(out, codes->section + first * sizeof(float), count);
}

const struct terse_codec_ops tsi_codec_f32 = {
    .wire_id = 1,
    .name = "f32",
    .summary = "every element exactly: the dense baseline",
    .traits = TERSE_CODEC_SELECTING | TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_UNBIASED |
              TERSE_CODEC_ADDITIVE | TERSE_CODEC_FIXED_LEN,
    .passes = 1,
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .encode = encode,
    .open_codes = open_codes,
    .add_codes = add_codes,
    .bad_code = "a value is not finite",
};

/* ---- plain pieces ---- */

static size_t entries_of(const double *option, const struct tsi_piece *piece)
{
    (void)option;
    return piece->count;
}

static terse_status open_entries(const struct tsi_call *call, const uint8_t *section, size_t len,
                                 size_t *used, struct tsi_entries *out, terse_fault *fault)
{
    *used = call->piece->count * sizeof(float);
    *out = (struct tsi_entries){.values = section};
    return tsi_section_len(len, *used, fault);
}

static terse_status next(const struct tsi_call *call, struct tsi_entries *entries,
                         struct tsi_batch *batch, terse_fault *fault)
{
    const size_t left = call->piece->count - entries->done;
    batch->count = left < TSI_BATCH ? left : TSI_BATCH;
    for (size_t i = 0; i < batch->count; i++, entries->done++) {
        const size_t at = entries->done * sizeof(float);
        batch->index[i] = (uint32_t)entries->done;
        batch->value[i] = tsi_load_f32(entries->values + at);
        if (!isfinite(batch->value[i]))
            return tsi_fail(fault, TERSE_BAD_FRAME, at, "a value is not finite");
    }
    return TERSE_OK;
}

static uint32_t support(const struct tsi_call *call, struct tsi_run out[2])
{
    out[0] = (struct tsi_run){call->piece->offset, call->piece->count};
    return 1;
}

const struct terse_codec_ops tsi_codec_plain = {
    .section_bound = section_bound,
    .scratch_len = scratch_len,
    .encode = encode,
    .open_codes = open_codes,
    .add_codes = add_codes,
    .bad_code = "a value is not finite",
    .entries = entries_of,
    .open = open_entries,
    .next = next,
    .support = support,
};
