#include "check/subject.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD ((size_t)4096) /* bytes before and after a buffer; a multiple of 64 */
#define PATTERN 0xa5

const char *const chk_kind_names[CHK_KINDS] = {"normal", "heavy", "ties",
                                               "sparse", "zero",  "denormal"};

/* ---- inputs ---- */

uint64_t chk_next(struct chk_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static double uniform(struct chk_random *random)
{
    return (double)(chk_next(random) >> 11) * 0x1p-53;
}

static double normal(struct chk_random *random)
{
    const double radius = sqrt(-2 * log(1 - uniform(random)));
    return radius * cos(6.283185307179586 * uniform(random));
}

static float one(struct chk_random *random, enum chk_kind kind, size_t i)
{
    static const float few[] = {0.5f, -0.5f, 1.0f, -1.0f, 0.0f, 2.0f};
    switch (kind) {
    case CHK_NORMAL: return (float)normal(random);
    case CHK_HEAVY: return (float)(normal(random) * (i / 300 % 17 == 3 ? 1000 : 0.01));
    case CHK_TIES: return few[chk_next(random) % 6];
    case CHK_SPARSE:
        if (chk_next(random) % 50 == 0)
            return (float)normal(random);
        return chk_next(random) % 2 ? 0.0f : -0.0f;
    case CHK_DENORMAL: return (float)(normal(random) * 1e-40);
    case CHK_ZERO:
    case CHK_KINDS: break;
    }
    return 0;
}

void chk_fill(struct chk_subject *subject, enum chk_kind kind, uint64_t salt)
{
    struct chk_random random = {subject->settings->seed * 1000 + salt};
    for (size_t i = 0; i < subject->count; i++)
        subject->in[i] = subject->residual[i] = one(&random, kind, i);
    subject->kind = kind;
}

/* ---- buffers ---- */

static int buffer_create(struct chk_buffer *buffer, size_t len)
{
    buffer->at = malloc(len + 2 * GUARD);
    if (!buffer->at)
        return 0;
    memset(buffer->at, PATTERN, len + 2 * GUARD);
    buffer->at += GUARD;
    buffer->len = len;
    return 1;
}

static void buffer_destroy(struct chk_buffer *buffer)
{
    if (buffer->at)
        free(buffer->at - GUARD);
}

static int buffer_holds(const struct chk_buffer *buffer)
{
    for (size_t i = 0; buffer->at && i < GUARD; i++)
        if (buffer->at[-(ptrdiff_t)GUARD + (ptrdiff_t)i] != PATTERN ||
            buffer->at[buffer->len + i] != PATTERN)
            return 0;
    return 1;
}

__attribute__((format(printf, 2, 3))) static int because(struct chk_subject *subject,
                                                         const char *format, ...)
{
    va_list values;
    va_start(values, format);
    (void)vsnprintf(subject->why, sizeof subject->why, format, values);
    va_end(values);
    return 0;
}

int chk_guards_hold(struct chk_subject *subject)
{
    for (uint32_t pass = 0; pass < CHK_PASSES; pass++)
        if (!buffer_holds(&subject->payload[pass]))
            return because(subject, "bytes outside of the payload of %zu bytes were written",
                           subject->payload[pass].len);
    if (!buffer_holds(&subject->in_bytes) || !buffer_holds(&subject->residual_bytes) ||
        !buffer_holds(&subject->decoded_bytes))
        return because(subject, "floats outside of the %zu elements were written", subject->count);
    return 1;
}

/* ---- the object ---- */

static terse_status make_layout(uint64_t large, terse_layout **out)
{
    static const uint64_t small[] = {12, 5, 3, 3}, empty[] = {0, 7}, bias[] = {77},
                          linear[] = {131, 257};
    terse_status status = terse_layout_create(out);
    if (status == TERSE_OK)
        status = terse_layout_add(*out, "conv.weight", 4, small);
    if (status == TERSE_OK)
        status = terse_layout_add(*out, "empty", 2, empty);
    if (status == TERSE_OK)
        status = terse_layout_add(*out, "scalar", 0, NULL);
    if (status == TERSE_OK)
        status = terse_layout_add(*out, "bias", 1, bias);
    if (status == TERSE_OK)
        status = terse_layout_add(*out, "linear", 2, linear);
    return status == TERSE_OK ? terse_layout_add(*out, "large", 1, &large) : status;
}

static terse_status make_buffers(struct chk_subject *subject)
{
    const size_t len = subject->count * sizeof(float);
    int made = buffer_create(&subject->in_bytes, len) &&
               buffer_create(&subject->residual_bytes, len) &&
               buffer_create(&subject->decoded_bytes, len);
    for (uint32_t pass = 0; pass < subject->about.passes && pass < CHK_PASSES; pass++)
        made = made && buffer_create(&subject->payload[pass],
                                     terse_codec_payload_bound(subject->codec, pass));
    if (!made)
        return TERSE_NO_MEMORY;
    subject->in = (float *)(void *)subject->in_bytes.at;
    subject->residual = (float *)(void *)subject->residual_bytes.at;
    subject->decoded = (float *)(void *)subject->decoded_bytes.at;
    return TERSE_OK;
}

terse_status chk_subject_create(const struct chk_settings *settings, uint32_t threads,
                                struct chk_subject *out, terse_fault *fault)
{
    const terse_codec_options options = {.threads = threads};
    *out = (struct chk_subject){.settings = settings,
                                .key = {.seed = settings->seed, .step = 3, .worker = 2}};
    terse_status status = make_layout(settings->large, &out->layout);
    if (status == TERSE_OK)
        status = terse_codec_create(settings->spec, out->layout, &options, &out->codec, fault);
    if (status == TERSE_OK) {
        terse_codec_describe(out->codec, &out->about);
        out->count = (size_t)terse_layout_count(out->layout);
        status = make_buffers(out);
    }
    if (status != TERSE_OK)
        chk_subject_destroy(out);
    return status;
}

void chk_subject_destroy(struct chk_subject *subject)
{
    terse_codec_destroy(subject->codec);
    terse_layout_destroy(subject->layout);
    for (uint32_t pass = 0; pass < CHK_PASSES; pass++)
        buffer_destroy(&subject->payload[pass]);
    buffer_destroy(&subject->in_bytes);
    buffer_destroy(&subject->residual_bytes);
    buffer_destroy(&subject->decoded_bytes);
    *subject = (struct chk_subject){.codec = NULL};
}

/* ---- coding ---- */

int chk_encode(struct chk_subject *s, uint32_t pass, float *from, int take)
{
    const size_t bound = s->payload[pass].len;
    uint8_t *const payload = s->payload[pass].at;
    size_t *const len = &s->len[pass];
    const terse_status status =
        take ? terse_codec_encode_take(s->codec, pass, &s->key, from, payload, bound, len)
             : terse_codec_encode(s->codec, pass, &s->key, from, payload, bound, len);
    const char *const why = terse_codec_failure(s->codec);
    if (status != TERSE_OK)
        return because(s, "encode: %s", why[0] ? why : terse_status_text(status));
    if (*len > bound || (s->about.traits & TERSE_CODEC_FIXED_LEN && *len != bound))
        return because(s, "a payload of %zu bytes, the bound is %zu", *len, bound);
    return chk_guards_hold(s);
}

int chk_decode(struct chk_subject *s, uint32_t pass)
{
    terse_fault fault = {.text = ""};
    if (terse_codec_decode_add(s->codec, pass, &s->key, s->payload[pass].at, s->len[pass],
                               s->decoded, &fault) != TERSE_OK)
        return because(s, "its own payload is refused at %llu: %s",
                       (unsigned long long)fault.offset, fault.text);
    return chk_guards_hold(s);
}

int chk_round_trip(struct chk_subject *s)
{
    int done = 1;
    memset(s->decoded, 0, s->count * sizeof *s->decoded);
    for (uint32_t pass = 0; pass < s->about.passes && done; pass++)
        done = chk_encode(s, pass, s->residual, 1) && chk_decode(s, pass);
    return done;
}
