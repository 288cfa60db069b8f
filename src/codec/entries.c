/* Sections decoded entry by entry: those of codecs that select single elements, and plain ones. */
#include "codec/object.h"
#include "codec/section.h"

size_t tsi_codec_entries(const terse_codec *codec, uint32_t piece)
{
    const struct tsi_piece *const of = &codec->piece[piece];
    if (of->count == 0 || of->plain)
        return of->count;
    return codec->ops->entries(codec->option, of);
}

terse_status tsi_entries_open(const terse_codec *codec, const struct tsi_call *call,
                              const uint8_t *section, size_t len, size_t *used,
                              struct tsi_entries *out, terse_fault *fault)
{
    if (!call->piece->plain)
        return codec->ops->open(call, section, len, used, out, fault);
    *used = call->piece->count * sizeof(float);
    *out = (struct tsi_entries){.values = section};
    return tsi_section_len(len, *used, fault);
}

static terse_status next_plain(const struct tsi_call *call, struct tsi_entries *entries,
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

terse_status tsi_entries_next(const terse_codec *codec, const struct tsi_call *call,
                              struct tsi_entries *entries, struct tsi_batch *batch,
                              terse_fault *fault)
{
    return (call->piece->plain ? next_plain : codec->ops->next)(call, entries, batch, fault);
}
