/* Codecs of users: their functions as slots. An ops table and the user's struct lie side by side,
 * so that every slot finds the functions through the ops that it is called with. */
#include <terse/user_codec.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/spec.h"
#include "codec/codec.h"

struct user {
    struct terse_codec_ops ops; /* first: a pointer to it is one to the whole */
    terse_user_codec codec;
};

static const terse_user_codec *user_of(const struct terse_codec_ops *ops)
{
    return &((const struct user *)ops)->codec;
}

static terse_user_call call_of(const terse_user_codec *codec, const double *option,
                               const struct tsi_piece *piece, const terse_rng_key *key)
{
    return (terse_user_call){.context = codec->context,
                             .option = option,
                             .key = key,
                             .count = piece->count,
                             .tensor = piece->tensor};
}

static size_t section_bound(const struct terse_codec_ops *ops, const double *option,
                            const struct tsi_piece *piece, uint32_t pass)
{
    const terse_user_call call = call_of(user_of(ops), option, piece, NULL);
    (void)pass;
    return user_of(ops)->bound(&call);
}

/* What a section decodes to, where the codec has no function that takes it. */
static size_t scratch_len(const struct terse_codec_ops *ops, const double *option,
                          const struct tsi_piece *piece, unsigned threads)
{
    (void)option;
    (void)threads;
    return user_of(ops)->take ? 0 : piece->count * sizeof(float);
}

static terse_status subtract(const struct tsi_call *call, const terse_user_call *user,
                             const uint8_t *section, size_t len, float *take)
{
    const terse_user_codec *const codec = user_of(call->ops);
    float *const decoded = call->scratch;
    size_t used = 0;
    if (codec->take)
        return codec->take(user, section, len, take);
    memset(decoded, 0, call->piece->count * sizeof *decoded);
    const terse_status status = codec->decode_add(user, section, len, &used, decoded);
    if (status != TERSE_OK || used != len)
        return status != TERSE_OK ? status : TERSE_BAD_FRAME;
    for (size_t i = 0; i < call->piece->count; i++) /* what was sent whole leaves -0, as ever */
        take[i] = take[i] == decoded[i] ? TSI_NOTHING : take[i] - decoded[i];
    return TERSE_OK;
}

/* What the codec says of its failure. */
static terse_status explain(const terse_user_codec *codec, terse_status status, const char *what,
                            terse_fault *fault)
{
    const char *const why = codec->explain ? codec->explain(codec->context) : NULL;
    return tsi_fail(fault, status, 0, "codec %s %s: %.160s", codec->name, what,
                    why ? why : terse_status_text(status));
}

/* A length that breaks the promise of `bound`: the next section would begin at another place than
 * receivers look for it, or lie outside the message. */
static terse_status check_len(const struct tsi_call *call, const terse_user_codec *codec,
                              size_t len)
{
    const size_t bound = section_bound(call->ops, call->option, call->piece, 0);
    const int fixed = (codec->traits & TERSE_CODEC_FIXED_LEN) != 0;
    if (fixed ? len == bound : len <= bound)
        return TERSE_OK;
    return tsi_fail(call->fault, TERSE_BAD_ARGUMENT, 0,
                    "codec %s encoded %zu elements to %zu bytes; its bound is %s%zu", codec->name,
                    call->piece->count, len, fixed ? "exactly " : "", bound);
}

static terse_status encode(const struct tsi_call *call, const float *in, float *take,
                           uint8_t *section, size_t *len)
{
    const terse_user_codec *const codec = user_of(call->ops);
    const terse_user_call user = call_of(codec, call->option, call->piece, call->key);
    terse_status status = codec->encode(&user, in, section, len);
    if (status != TERSE_OK)
        return explain(codec, status, "cannot encode", call->fault);
    status = check_len(call, codec, *len);
    if (status != TERSE_OK || !take)
        return status;
    status = subtract(call, &user, section, *len, take);
    return status == TERSE_OK ? status
                              : explain(codec, status, "cannot take what it encoded", call->fault);
}

static terse_status decode_add(const struct tsi_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out, terse_fault *fault)
{
    const terse_user_codec *const codec = user_of(call->ops);
    const terse_user_call user = call_of(codec, call->option, call->piece, call->key);
    const terse_status status = codec->decode_add(&user, section, len, used, out);
    if (status == TERSE_OK && *used <= len)
        return TERSE_OK;
    *used = 0;
    return explain(codec, status == TERSE_OK ? TERSE_BAD_FRAME : status, "refuses the section",
                   fault);
}

/* ---- registration ---- */

/* The bytes that the options take in a frame. */
static size_t option_bytes(const terse_user_codec *codec)
{
    size_t len = 0;
    for (uint32_t i = 0; i < codec->option_count; i++)
        len += codec->options[i].kind == TERSE_OPTION_REAL ? sizeof(double) : 1;
    return len;
}

static int is_name(const char *name)
{
    if (!name || !islower((unsigned char)name[0]) || strlen(name) > 32)
        return 0;
    for (; *name; name++)
        if (!islower((unsigned char)*name) && !isdigit((unsigned char)*name) && *name != '-' &&
            *name != '_')
            return 0;
    return 1;
}

/* What is wrong with a codec; NULL: nothing. */
static const char *objection(const terse_user_codec *codec)
{
    const uint32_t all = TERSE_CODEC_SELECTING | TERSE_CODEC_CONTRACTIVE | TERSE_CODEC_UNBIASED |
                         TERSE_CODEC_RANDOM | TERSE_CODEC_FIXED_LEN;
    if (codec->size != sizeof *codec)
        return "size is not sizeof(terse_user_codec)";
    if (!is_name(codec->name))
        return "name must be a lower-case letter and up to 31 letters, digits, '-' or '_'";
    if (!codec->summary || !codec->bound || !codec->encode || !codec->decode_add)
        return "summary, bound, encode and decode_add may not be NULL";
    if (codec->wire_id < TERSE_USER_WIRE_ID)
        return "wire_id must be 192..255";
    if (codec->traits & TERSE_CODEC_ADDITIVE)
        return "payloads of users are not added up: leave TERSE_CODEC_ADDITIVE out";
    if (codec->traits & ~all)
        return "traits has an unknown bit";
    if (codec->option_count > TERSE_USER_OPTIONS || (codec->option_count > 0 && !codec->options))
        return "at most 4 options are possible, and options may not be NULL then";
    if (option_bytes(codec) > TERSE_OPTION_BYTES)
        return "the options take more than 16 bytes: a real has 8, any other 1";
    return NULL;
}

terse_status terse_codec_register(const terse_user_codec *codec, terse_fault *fault)
{
    double value[TSI_MAX_OPTIONS];
    if (!codec)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "codec is NULL");
    const char *const wrong = objection(codec);
    if (wrong)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "%s", wrong);
    terse_status status = tsi_spec_defaults(codec->options, codec->option_count, value, fault);
    if (status != TERSE_OK)
        return status;
    struct user *const user = calloc(1, sizeof *user);
    if (!user)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    user->codec = *codec;
    user->ops = (struct terse_codec_ops){.wire_id = codec->wire_id,
                                         .name = codec->name,
                                         .summary = codec->summary,
                                         .traits = codec->traits,
                                         .passes = 1,
                                         .options = codec->options,
                                         .option_count = codec->option_count,
                                         .varies = !(codec->traits & TERSE_CODEC_FIXED_LEN),
                                         .section_bound = section_bound,
                                         .scratch_len = scratch_len,
                                         .encode = encode,
                                         .decode_add = decode_add};
    status = tsi_codec_add(&user->ops, fault);
    if (status != TERSE_OK)
        free(user);
    return status;
}
