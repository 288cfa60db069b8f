/* The walk over the pieces: sections one after the other, and what a call may not be. */
#include <float.h>
#include <math.h>

#include "base/fault.h"
#include "codec/object.h"
#include "kernels/bind.h"

/* 1 if the payload of this pass has a section of the piece. A plain piece is encoded in the last
 * pass. */
static int has_section(const terse_codec *codec, const struct tsi_piece *piece, uint32_t pass)
{
    return piece->count > 0 && !(piece->plain && pass + 1 < codec->ops->passes);
}

static const struct terse_codec_ops *ops_of(const terse_codec *codec, const struct tsi_piece *piece)
{
    return piece->plain ? &tsi_codec_f32 : codec->ops;
}

static size_t bound_of(const terse_codec *codec, const struct tsi_piece *piece, uint32_t pass)
{
    return has_section(codec, piece, pass)
               ? ops_of(codec, piece)->section_bound(codec->option, piece, pass)
               : 0;
}

size_t tsi_codec_bound(const terse_codec *codec, uint32_t pass, struct tsi_pieces pieces)
{
    size_t bound = 0;
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
        bound += bound_of(codec, &codec->piece[i], pass);
    return bound;
}

static struct tsi_pieces all_pieces(const terse_codec *codec)
{
    return (struct tsi_pieces){0, codec->piece_count};
}

size_t terse_codec_payload_bound(const terse_codec *codec, uint32_t pass)
{
    return tsi_codec_bound(codec, pass, all_pieces(codec));
}

size_t terse_codec_section_bound(const terse_codec *codec, uint32_t pass, uint32_t tensor)
{
    const struct tsi_pieces one = {tensor, 1};
    return tensor < codec->piece_count ? tsi_codec_bound(codec, pass, one) : 0;
}

/* ---- checks of every call ---- */

/* The arguments common to all pieces of one walk. */
struct walk {
    terse_codec *codec;
    const struct tsk_table *kernel;
    const terse_rng_key *key;
    uint32_t pass;
    int fresh; /* 1: decoding overwrites instead of adding */
};

static terse_status begin(struct walk *walk, terse_codec *codec, uint32_t pass,
                          const terse_rng_key *key, struct tsi_pieces pieces, const void *floats,
                          const void *payload, terse_fault *fault)
{
    if (!key)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "key is NULL");
    if (pass >= codec->ops->passes)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "pass %u of %u", pass, codec->ops->passes);
    if (!floats && terse_layout_count(codec->layout) > 0)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "the float buffer is NULL");
    if (!payload && tsi_codec_bound(codec, pass, pieces) > 0)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "the payload is NULL");
    if (key->worker > TSI_RANDOM_MAX_WORKER)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "worker %u is above the limit of %u",
                        key->worker, TSI_RANDOM_MAX_WORKER);
    *walk = (struct walk){codec, NULL, key, pass, 0};
    return tsk_bound(&walk->kernel, fault);
}

/* How many patches lie before element `end` of the flat buffer. */
static size_t scores_before(const struct tsi_scores *all, uint64_t end)
{
    size_t low = 0;
    size_t high = all->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (all->index[middle] < end)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct tsi_scores scores_of(const struct tsi_scores *all, const struct tsi_piece *piece)
{
    if (all->count == 0)
        return (struct tsi_scores){0};
    const size_t low = scores_before(all, piece->offset);
    const size_t high = scores_before(all, piece->offset + piece->count);
    return (struct tsi_scores){all->index + low, all->score + low, high - low};
}

static struct tsi_call call_of(const struct walk *walk, uint32_t number)
{
    const terse_codec *const codec = walk->codec;
    return (struct tsi_call){
        .option = codec->option,
        .piece = &codec->piece[number],
        .kernel = walk->kernel,
        .key = walk->key,
        .pass = walk->pass,
        .threads = codec->threads,
        .scratch = codec->memory,
        .state = codec->memory + codec->state_at[number],
        .prescan_state =
            codec->prescan_state ? codec->prescan_state + codec->prescan_at[number] : NULL,
        .scores = scores_of(&codec->scores, &codec->piece[number]),
        .rule = codec->rule,
    };
}

terse_status tsi_codec_call(terse_codec *codec, const terse_rng_key *key, uint32_t piece,
                            struct tsi_call *out)
{
    struct walk walk = {codec, NULL, key, 0, 0};
    const terse_status status = tsk_bound(&walk.kernel, NULL);
    *out = call_of(&walk, piece);
    return status;
}

/* ---- decode and encode ---- */

/* Decodes one section, of codes or of another kind. */
static terse_status decode_section(const struct walk *walk, const struct tsi_call *call,
                                   const uint8_t *section, size_t len, size_t *used, float *out,
                                   terse_fault *fault)
{
    struct tsi_coded coded = {
        .ops = ops_of(walk->codec, call->piece), .call = *call, .fresh = walk->fresh};
    if (!coded.ops->open_codes) {
        if (walk->fresh)
            memset(out, 0, call->piece->count * sizeof *out);
        return coded.ops->decode_add(call, section, len, used, out, fault);
    }
    const terse_status status = coded.ops->open_codes(call, section, len, &coded.codes, fault);
    *used = coded.codes.len;
    return status == TERSE_OK ? tsi_coded_decode(&coded, out, fault) : status;
}

static terse_status check_end(size_t at, size_t len, terse_fault *fault)
{
    if (at != len)
        return tsi_fail(fault, TERSE_BAD_FRAME, at, "%zu bytes after the last section", len - at);
    return TERSE_OK;
}

static terse_status decode_pieces(const struct walk *walk, struct tsi_pieces pieces,
                                  const uint8_t *payload, size_t len, float *out,
                                  terse_fault *fault)
{
    size_t at = 0;
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++) {
        const struct tsi_call call = call_of(walk, i);
        float *const to = out + call.piece->offset;
        size_t used = 0;
        if (call.piece->count == 0)
            continue;
        if (!has_section(walk->codec, call.piece, walk->pass)) {
            if (walk->fresh)
                memset(to, 0, call.piece->count * sizeof *to);
            continue;
        }
        const terse_status status =
            decode_section(walk, &call, payload + at, len - at, &used, to, fault);
        if (status != TERSE_OK) {
            if (fault)
                fault->offset += at;
            return status;
        }
        at += used;
    }
    return check_end(at, len, fault);
}

/* 1 if the prescan has read all of a piece. A prescan is used once. */
static int was_prescanned(const terse_codec *codec, uint32_t number, const float *in)
{
    if (!codec->prescan_state)
        return 0;
    struct tsi_prescanned *const prescanned = &codec->prescanned[number];
    const int all = prescanned->in == in && prescanned->count == codec->piece[number].count;
    prescanned->count = 0;
    return all;
}

static terse_status encode_pieces(const struct walk *walk, struct tsi_pieces pieces,
                                  const float *in, float *take, uint8_t *payload, size_t *len)
{
    size_t at = 0;
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++) {
        struct tsi_call call = call_of(walk, i);
        const uint64_t offset = call.piece->offset;
        const struct terse_codec_ops *const ops = ops_of(walk->codec, call.piece);
        size_t used = 0;
        if (!has_section(walk->codec, call.piece, walk->pass))
            continue;
        call.prescanned = was_prescanned(walk->codec, i, in);
        const terse_status status =
            ops->encode(&call, in + offset, take ? take + offset : NULL, payload + at, &used);
        if (status != TERSE_OK) {
            /* Encoded + residual = input, so decoding into the residual restores it. */
            const struct tsi_pieces encoded = {pieces.first, i - pieces.first};
            const terse_status undone =
                take ? decode_pieces(walk, encoded, payload, at, take, NULL) : TERSE_OK;
            return undone == TERSE_OK ? status : undone;
        }
        at += used;
    }
    *len = at;
    return TERSE_OK;
}

terse_status tsi_codec_encode(terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                              struct tsi_pieces pieces, const float *in, float *take, void *payload,
                              size_t cap, size_t *len)
{
    struct walk walk = {0};
    const terse_status status = begin(&walk, codec, pass, key, pieces, in, payload, NULL);
    if (status != TERSE_OK)
        return status;
    if (cap < tsi_codec_bound(codec, pass, pieces))
        return TERSE_TOO_SMALL;
    return encode_pieces(&walk, pieces, in, take, payload, len);
}

terse_status tsi_codec_decode_add(terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                                  struct tsi_pieces pieces, const void *payload, size_t len,
                                  float *out, terse_fault *fault)
{
    struct walk walk = {0};
    const terse_status status = begin(&walk, codec, pass, key, pieces, out, payload, fault);
    return status == TERSE_OK ? decode_pieces(&walk, pieces, payload, len, out, fault) : status;
}

terse_status tsi_codec_decode(terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                              struct tsi_pieces pieces, const void *payload, size_t len, float *out,
                              terse_fault *fault)
{
    struct walk walk = {0};
    const terse_status status = begin(&walk, codec, pass, key, pieces, out, payload, fault);
    walk.fresh = 1;
    return status == TERSE_OK ? decode_pieces(&walk, pieces, payload, len, out, fault) : status;
}

int tsi_codec_is_coded(const terse_codec *codec)
{
    return codec->ops->open_codes != NULL;
}

terse_status tsi_codec_open(terse_codec *codec, const terse_rng_key *key, struct tsi_pieces pieces,
                            const void *payload, size_t len, int fresh, struct tsi_coded *out,
                            terse_fault *fault)
{
    struct walk walk = {0};
    const uint8_t *const bytes = payload;
    size_t at = 0;
    terse_status status = begin(&walk, codec, 0, key, pieces, key, payload, fault);
    for (uint32_t i = 0; i < pieces.count && status == TERSE_OK; i++) {
        struct tsi_coded *const coded = &out[i];
        *coded = (struct tsi_coded){
            .call = call_of(&walk, pieces.first + i), .key = *key, .offset = at, .fresh = fresh};
        coded->ops = ops_of(codec, coded->call.piece);
        coded->call.key = &coded->key;
        if (coded->call.piece->count == 0)
            continue;
        status = coded->ops->open_codes(&coded->call, bytes + at, len - at, &coded->codes, fault);
        if (status != TERSE_OK && fault)
            fault->offset += at;
        at += coded->codes.len;
    }
    return status == TERSE_OK ? check_end(at, len, fault) : status;
}

/* ---- prescan ---- */

/* Finds the piece of an element, starting from the last one found: neighbours usually follow. */
static uint32_t piece_with(terse_codec *codec, uint64_t element)
{
    for (uint32_t tried = 0; tried < codec->piece_count; tried++) {
        const struct tsi_piece *const piece = &codec->piece[codec->prescanning];
        if (element - piece->offset < piece->count) /* wraps below the offset */
            break;
        codec->prescanning =
            codec->prescanning + 1 < codec->piece_count ? codec->prescanning + 1 : 0;
    }
    return codec->prescanning;
}

static void prescan_piece(const struct walk *walk, uint32_t number, const float *in, size_t first,
                          size_t count)
{
    const struct tsi_call call = call_of(walk, number);
    struct tsi_prescanned *const prescanned = &walk->codec->prescanned[number];
    if (first == 0)
        *prescanned = (struct tsi_prescanned){in, 0};
    if (prescanned->in != in || prescanned->count != first || call.piece->plain)
        return;
    const int more = walk->codec->ops->prescan(&call, in + call.piece->offset, first, count);
    prescanned->count = more ? first + count : 0;
}

void tsi_codec_prescan(terse_codec *codec, const terse_rng_key *key, const float *in,
                       uint64_t first, uint64_t count)
{
    struct walk walk = {codec, NULL, key, 0, 0};
    const uint64_t end = first + count;
    if (!codec->prescan_state || tsk_bound(&walk.kernel, NULL) != TERSE_OK)
        return;
    while (first < end) {
        const uint32_t number = piece_with(codec, first);
        const struct tsi_piece *const piece = &codec->piece[number];
        const uint64_t at = first - piece->offset;
        if (at >= piece->count)
            return; /* the element belongs to another bucket */
        const uint64_t here = piece->count - at < end - first ? piece->count - at : end - first;
        prescan_piece(&walk, number, in, (size_t)at, (size_t)here);
        first += here;
    }
}

uint32_t tsi_codec_support(terse_codec *codec, const terse_rng_key *key, uint32_t piece,
                           struct tsi_run out[2])
{
    struct tsi_call call;
    if (codec->piece[piece].count == 0 || tsi_codec_call(codec, key, piece, &call) != TERSE_OK)
        return 0;
    if (!call.piece->plain)
        return codec->ops->support(&call, out);
    out[0] = (struct tsi_run){call.piece->offset, call.piece->count};
    return 1;
}

double tsi_codec_limit(const terse_codec *codec)
{
    return codec->ops->limit ? codec->ops->limit(codec->option) : (double)FLT_MAX;
}

/* ---- the public calls ---- */

static terse_status encode_all(terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                               const float *in, float *take, void *payload, size_t cap, size_t *len)
{
    if (!codec || !len)
        return TERSE_BAD_ARGUMENT;
    const terse_status status =
        tsi_codec_encode(codec, pass, key, all_pieces(codec), in, take, payload, cap, len);
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

terse_status terse_codec_decode_add(terse_codec *codec, uint32_t pass, const terse_rng_key *key,
                                    const void *payload, size_t len, float *out, terse_fault *fault)
{
    if (!codec)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "codec is NULL");
    return tsi_codec_decode_add(codec, pass, key, all_pieces(codec), payload, len, out, fault);
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
