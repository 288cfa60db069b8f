/* The walk over the pieces: sections one after the other, and what a call may not be. */
#include <float.h>
#include <math.h>

#include "base/fault.h"
#include "codec/object.h"
#include "kernels/bind.h"

const struct terse_codec_ops *tsi_codec_ops(const terse_codec *codec, uint32_t pass,
                                            uint32_t number)
{
    const struct tsi_piece *const piece = &codec->piece[number];
    if (piece->count == 0 || (piece->plain && pass + 1 < codec->passes))
        return NULL;
    return piece->plain ? &tsi_codec_plain : codec->ops;
}

size_t tsi_codec_bound(const terse_codec *codec, uint32_t pass, struct tsi_pieces pieces)
{
    size_t bound = 0;
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++) {
        const struct terse_codec_ops *const ops = tsi_codec_ops(codec, pass, i);
        if (ops)
            bound += ops->section_bound(ops, codec->option, &codec->piece[i], pass);
    }
    return bound;
}

struct tsi_call tsi_codec_call(const terse_codec *codec, const terse_rng_key *key, uint32_t pass,
                               uint32_t number)
{
    struct tsi_call call = {
        .ops = tsi_codec_ops(codec, pass, number),
        .option = codec->option,
        .piece = &codec->piece[number],
        .key = key,
        .pass = pass,
        .threads = codec->threads,
        .scratch = codec->memory,
        .state = codec->memory + codec->state_at[number],
        .prescan_state =
            codec->prescan_state ? codec->prescan_state + codec->prescan_at[number] : NULL,
        .scores = codec->scores,
        .rule = codec->rule,
    };
    (void)!tsk_bound(&call.kernel, NULL); /* it was bound when the codec was created */
    return call;
}

/* What may not be in any call. */
static terse_status check(const terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                          struct tsi_pieces pieces, const void *floats, const void *payload,
                          terse_fault *fault)
{
    if (!key)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "key is NULL");
    if (pass >= codec->passes)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "pass %u of %u", pass, codec->passes);
    if (!floats && terse_layout_count(codec->layout) > 0)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "the float buffer is NULL");
    if (!payload && tsi_codec_bound(codec, pass, pieces) > 0)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "the payload is NULL");
    if (key->worker > TSI_RANDOM_MAX_WORKER)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "worker %u is above the limit of %u",
                        key->worker, TSI_RANDOM_MAX_WORKER);
    return TERSE_OK;
}

terse_status tsi_codec_encode(terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                              struct tsi_pieces pieces, const float *in, float *take, void *payload,
                              size_t cap, size_t *len)
{
    codec->fault = (terse_fault){.rank = -1};
    terse_status status = check(codec, pass, key, pieces, in, payload, &codec->fault);
    size_t at = 0;
    if (status != TERSE_OK)
        return status;
    if (cap < tsi_codec_bound(codec, pass, pieces))
        return TERSE_TOO_SMALL;
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++) {
        struct tsi_call call = tsi_codec_call(codec, key, pass, i);
        const uint64_t offset = call.piece->offset;
        struct tsi_prescanned *const seen = &codec->prescanned[i];
        size_t used = 0;
        codec->section_len[i] = 0;
        if (!call.ops)
            continue;
        call.fault = &codec->fault;
        call.prescanned = seen->in == in && seen->count == call.piece->count;
        seen->count = 0; /* a prescan is used once */
        status = call.ops->encode(&call, in + offset, take ? take + offset : NULL,
                                  (uint8_t *)payload + at, &used);
        if (status != TERSE_OK) {
            /* Encoded + residual = input, so decoding into the residual restores it. */
            const struct tsi_pieces encoded = {pieces.first, i - pieces.first};
            const terse_status undone =
                take ? tsi_codec_decode(codec, pass, key, encoded, payload, at, 0, take, NULL)
                     : TERSE_OK;
            return undone == TERSE_OK ? status : undone;
        }
        codec->section_len[i] = used;
        at += used;
    }
    *len = at;
    return TERSE_OK;
}

terse_status tsi_codec_decode(terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                              struct tsi_pieces pieces, const void *payload, size_t len, int fresh,
                              float *out, terse_fault *fault)
{
    terse_status status = check(codec, pass, key, pieces, out, payload, fault);
    size_t at = 0;
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count && status == TERSE_OK; i++) {
        struct tsi_coded coded = {.call = tsi_codec_call(codec, key, pass, i), .fresh = fresh};
        const struct terse_codec_ops *const ops = coded.call.ops;
        const size_t count = coded.call.piece->count;
        const uint8_t *const section = (const uint8_t *)payload + at;
        float *const to = out + coded.call.piece->offset;
        size_t used = 0;
        if (fresh && count > 0 && !(ops && ops->open_codes))
            memset(to, 0, count * sizeof *to);
        if (!ops)
            continue;
        if (ops->open_codes) {
            status = ops->open_codes(&coded.call, section, len - at, &coded.codes, fault);
            used = coded.codes.len;
            if (status == TERSE_OK)
                status = tsi_coded_decode(&coded, to, fault);
        } else {
            status = ops->decode_add(&coded.call, section, len - at, &used, to, fault);
        }
        if (status != TERSE_OK && fault)
            fault->offset += at;
        at += used;
    }
    if (status == TERSE_OK && at != len)
        return tsi_fail(fault, TERSE_BAD_FRAME, at, "%zu bytes after the last section", len - at);
    return status;
}

terse_status tsi_codec_open(terse_codec *codec, const terse_rng_key *key, struct tsi_pieces pieces,
                            const void *payload, size_t len, int fresh, struct tsi_coded *out,
                            terse_fault *fault)
{
    terse_status status = check(codec, 0, key, pieces, key, payload, fault);
    size_t at = 0;
    for (uint32_t i = 0; i < pieces.count && status == TERSE_OK; i++) {
        struct tsi_coded *const coded = &out[i];
        *coded = (struct tsi_coded){.call = tsi_codec_call(codec, key, 0, pieces.first + i),
                                    .key = *key,
                                    .offset = at,
                                    .fresh = fresh};
        coded->call.key = &coded->key;
        if (!coded->call.ops)
            continue;
        status = coded->call.ops->open_codes(&coded->call, (const uint8_t *)payload + at, len - at,
                                             &coded->codes, fault);
        if (status != TERSE_OK && fault)
            fault->offset += at;
        at += coded->codes.len;
    }
    if (status == TERSE_OK && at != len)
        return tsi_fail(fault, TERSE_BAD_FRAME, at, "%zu bytes after the last section", len - at);
    return status;
}

void tsi_codec_prescan(terse_codec *codec, const terse_rng_key *key, const float *in,
                       uint64_t first, uint64_t count)
{
    const uint64_t end = first + count;
    while (codec->prescan_state && first < end) {
        /* Neighbours usually follow: the search for the piece begins at the one last shown. */
        const struct tsi_piece *piece = &codec->piece[codec->prescanning];
        for (uint32_t tried = 0; first - piece->offset >= piece->count; tried++) {
            if (tried == codec->piece_count)
                return; /* the element belongs to another bucket */
            codec->prescanning = (codec->prescanning + 1) % codec->piece_count;
            piece = &codec->piece[codec->prescanning];
        }
        const size_t at = (size_t)(first - piece->offset);
        const uint64_t left = end - first;
        const size_t here = piece->count - at < left ? piece->count - at : (size_t)left;
        struct tsi_prescanned *const seen = &codec->prescanned[codec->prescanning];
        if (at == 0)
            *seen = (struct tsi_prescanned){in, 0};
        if (seen->in == in && seen->count == at && !piece->plain) {
            const struct tsi_call call = tsi_codec_call(codec, key, 0, codec->prescanning);
            const int more = call.ops->prescan(&call, in + piece->offset, at, here);
            seen->count = more ? at + here : 0;
        }
        first += here;
    }
}

double tsi_codec_limit(const terse_codec *codec)
{
    return codec->ops->limit ? codec->ops->limit(codec->option) : (double)FLT_MAX;
}

/* ---- the public calls ---- */

size_t terse_codec_payload_bound(const terse_codec *codec, uint32_t pass)
{
    const struct tsi_pieces all = {0, codec->piece_count};
    return tsi_codec_bound(codec, pass, all);
}

size_t terse_codec_section_bound(const terse_codec *codec, uint32_t pass, uint32_t tensor)
{
    const struct tsi_pieces one = {tensor, 1};
    return tensor < codec->piece_count ? tsi_codec_bound(codec, pass, one) : 0;
}

static terse_status encode_all(terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                               const float *in, float *take, void *payload, size_t cap, size_t *len)
{
    if (!codec || !len)
        return TERSE_BAD_ARGUMENT;
    const struct tsi_pieces all = {0, codec->piece_count};
    const terse_status status =
        tsi_codec_encode(codec, pass, key, all, in, take, payload, cap, len);
    codec->scores = (struct tsi_scores){0};
    return status;
}

terse_status terse_codec_encode(terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                                const float *in, void *payload, size_t cap, size_t *len)
{
    return encode_all(codec, pass, key, in, NULL, payload, cap, len);
}

terse_status terse_codec_encode_take(terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                                     float *residual, void *payload, size_t cap, size_t *len)
{
    return encode_all(codec, pass, key, residual, residual, payload, cap, len);
}

const char *terse_codec_failure(const terse_codec *codec)
{
    return codec->fault.text;
}

terse_status terse_codec_decode_add(terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                                    const void *payload, size_t len, float *out, terse_fault *fault)
{
    if (!codec)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "codec is NULL");
    const struct tsi_pieces all = {0, codec->piece_count};
    return tsi_codec_decode(codec, pass, key, all, payload, len, 0, out, fault);
}

terse_status terse_codec_set_scores(terse_codec *codec, const uint64_t *index, const float *score,
                                    size_t score_count)
{
    if (!codec || codec->ops != &tsi_codec_topk || (score_count > 0 && (!index || !score)))
        return TERSE_BAD_ARGUMENT;
    const uint64_t total = terse_layout_count(codec->layout);
    for (size_t i = 0; i < score_count; i++)
        if (index[i] >= total || (i > 0 && index[i] <= index[i - 1]) || !isfinite(score[i]) ||
            score[i] < 0)
            return TERSE_BAD_ARGUMENT;
    codec->scores = (struct tsi_scores){index, score, score_count};
    return TERSE_OK;
}
