/* A plugin of one right codec and three wrong ones: "every" sends every p-th element. */
#include <string.h>

#include <terse/user_codec.h>

enum { RIGHT, BIASED, LOSES, SHORT, CODECS };

static const int kinds[CODECS] = {RIGHT, BIASED, LOSES, SHORT};

static int kind_of(const terse_user_call *call)
{
    return *(const int *)call->context;
}

static size_t step_of(const terse_user_call *call)
{
    return (size_t)call->option[0];
}

static size_t first_of(const terse_user_call *call)
{
    const size_t first = (size_t)(call->key->step + call->tensor) % step_of(call);
    return first < call->count ? first : 0;
}

static size_t bound(const terse_user_call *call)
{
    return (call->count / step_of(call) + 1) * sizeof(float);
}

static terse_status encode(const terse_user_call *call, const float *in, uint8_t *section,
                           size_t *len)
{
    *len = 0;
    for (size_t i = 0; i < call->count; i++)
        if (!(in[i] - in[i] == 0))
            return TERSE_NOT_FINITE;
    for (size_t i = first_of(call); i < call->count; i += step_of(call)) {
        memcpy(section + *len, &in[i], sizeof in[i]);
        *len += sizeof in[i];
    }
    return TERSE_OK;
}

static terse_status decode_add(const terse_user_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out)
{
    *used = 0;
    for (size_t i = first_of(call); i < call->count; i += step_of(call)) {
        float value;
        if (len - *used < sizeof value)
            return TERSE_BAD_FRAME;
        memcpy(&value, section + *used, sizeof value);
        out[i] += value;
        *used += sizeof value;
    }
    return TERSE_OK;
}

/* The wrong one forgets all that it has not sent. */
static terse_status take(const terse_user_call *call, const uint8_t *section, size_t len,
                         float *residual)
{
    (void)section;
    (void)len;
    for (size_t i = 0; i < call->count; i++)
        if (kind_of(call) == LOSES || i % step_of(call) == first_of(call))
            residual[i] = -0.0f;
    return TERSE_OK;
}

static const terse_option options[] = {{.name = "p",
                                        .range = "1..100",
                                        .initial = "2",
                                        .help = "one of p elements",
                                        .kind = TERSE_OPTION_INTEGER,
                                        .low = 1,
                                        .high = 100}};

const terse_user_codec *terse_plugin(uint32_t index)
{
    static const char *const names[CODECS] = {"every", "biased", "loses", "short"};
    static terse_user_codec codec;
    if (index >= CODECS)
        return NULL;
    codec = (terse_user_codec){.size = sizeof codec,
                               .name = names[index],
                               .summary = "every p-th element",
                               .wire_id = (uint8_t)(TERSE_USER_WIRE_ID + index),
                               .traits = TERSE_CODEC_SELECTING | TERSE_CODEC_CONTRACTIVE |
                                         TERSE_CODEC_RANDOM,
                               .options = options,
                               .option_count = 1,
                               .context = (void *)(uintptr_t)&kinds[index],
                               .bound = bound,
                               .encode = encode,
                               .decode_add = decode_add,
                               .take = take};
    if (index == BIASED) /* one of p elements is p times too little */
        codec.traits |= TERSE_CODEC_UNBIASED;
    if (index == SHORT) /* the last section is shorter than the others */
        codec.traits |= TERSE_CODEC_FIXED_LEN;
    return &codec;
}
