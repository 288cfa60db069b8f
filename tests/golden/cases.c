#include "golden/cases.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- layouts ---- */

struct shape {
    const char *name;
    uint32_t ndim;
    uint64_t dims[4];
};

static terse_status layout_of(const struct shape *shapes, size_t shape_count, terse_layout **out)
{
    terse_layout *layout;
    terse_status status = terse_layout_create(&layout);
    if (status != TERSE_OK)
        return status;
    for (size_t i = 0; i < shape_count && status == TERSE_OK; i++)
        status = terse_layout_add(layout, shapes[i].name, shapes[i].ndim, shapes[i].dims);
    if (status != TERSE_OK)
        terse_layout_destroy(layout);
    else
        *out = layout;
    return status;
}

/* Tensors of every kind: several dimensions, empty, a single element, a length of 1 mod 8. */
static terse_status network(terse_layout **out)
{
    static const struct shape shapes[] = {
        {"conv.weight", 4, {6, 2, 3, 3}}, {"conv.empty", 2, {0, 5}}, {"scale", 0, {0}},
        {"fc.weight", 2, {9, 10}},        {"fc.bias", 1, {9}},       {"", 1, {1}},
        {"caf\xc3\xa9", 1, {17}},
    };
    return layout_of(shapes, sizeof shapes / sizeof *shapes, out);
}

static terse_status vector(terse_layout **out)
{
    return terse_layout_vector(100, out);
}

static terse_status one_element(terse_layout **out)
{
    return terse_layout_vector(1, out);
}

static terse_status nothing(terse_layout **out)
{
    return terse_layout_create(out);
}

static terse_status matrix(terse_layout **out)
{
    static const struct shape shapes[] = {{"square", 2, {16, 16}}, {"bias", 1, {5}}};
    return layout_of(shapes, sizeof shapes / sizeof *shapes, out);
}

/* ---- values ---- */

static uint32_t scrambled(uint64_t i)
{
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(x >> 32);
}

/* Signed values between 2^-12 and 1, most of them small, like gradients; some exact zeros of both
 * signs and some ties. They are exact: products of two floats with short mantissas. */
static void gradient(float *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t bits = scrambled(i);
        const float magnitude = (float)(1 + (bits & 0x7ff)) / 2048;
        const float smaller = 1.0f / (float)(1u << (bits >> 11 & 7));
        const float sign = bits >> 31 ? -1.0f : 1.0f;
        values[i] = i % 13 == 5 ? 0 * sign : sign * magnitude * smaller;
        if (i % 17 == 3 && i > 3)
            values[i] = -values[i - 3];
    }
}

/* Values over the whole range of magnitudes, denormals included. */
static void wide(float *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        float value = (float)(1 + (scrambled(i) & 0xffffff)) / 16777216;
        const int power = (int)(i * 251 / (count > 1 ? count - 1 : 1)) - 145;
        for (int p = 0; p < power; p++)
            value *= 2;
        for (int p = 0; p > power; p--)
            value /= 2;
        values[i] = i % 2 ? -value : value;
    }
}

static void zeros(float *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        values[i] = i % 2 ? -0.0f : 0.0f;
}

/* A matrix of rank 2 plus small terms. */
static void thin(float *values, uint64_t count)
{
    gradient(values, count);
    for (uint64_t i = 0; i < 256 && i < count; i++) {
        const float row = (float)((int)(i / 16 * 5 % 16) - 7) / 8;
        const float col = (float)((int)(i % 16 * 3 % 16) - 8) / 8;
        values[i] = row * col + (i / 16 % 2 ? col : row) / 4 + values[i] / 64;
    }
}

/* ---- cases ---- */

#define SEED UINT64_C(0x5eed0123456789ab)

const struct golden_case golden_cases[] = {
    {"f32", "f32", network, gradient, {SEED, 7, 3}, 0},
    {"f32-wide", "f32", vector, wide, {0, 0, 0}, 0},
    {"f16", "f16", network, gradient, {SEED, 7, 3}, 0},
    {"bf16", "bf16", network, gradient, {SEED, 7, 3}, 0},
    {"bf16-wide", "bf16", vector, wide, {0, 0, 0}, 0},
    {"sign", "sign", network, gradient, {SEED, 7, 3}, 0},
    {"sign-coin", "sign:zero=coin", network, gradient, {SEED, 7, 3}, 0},
    {"sign-keep", "sign:zero=keep", network, gradient, {SEED, 7, 3}, 0},
    {"scaled-sign", "scaled-sign", network, gradient, {SEED, 7, 3}, 0},
    {"scaled-sign-coin", "scaled-sign:zero=coin", vector, zeros, {SEED, 8, 0xfffffe}, 0},
    {"topk", "topk:keep=0.1", network, gradient, {SEED, 7, 3}, 0},
    {"topk-f16", "topk:keep=0.1,values=f16", network, gradient, {SEED, 7, 3}, 0},
    {"topk-all", "topk:keep=1", network, gradient, {SEED, 7, 3}, 0},
    {"topk-single", "topk:keep=0.01", vector, gradient, {SEED, 7, 3}, 0},
    {"block", "block:ratio=8", network, gradient, {SEED, 7, 3}, 0},
    {"block-wrap", "block:ratio=2.5", vector, gradient, {SEED, UINT64_C(5) << 32 | 7, 3}, 0},
    {"log", "log", network, gradient, {SEED, 7, 3}, 0},
    {"log-k0", "log:k=0", network, gradient, {SEED, 7, 3}, 0},
    {"log-k14", "log:k=14", network, gradient, {SEED, 7, 3}, 0},
    {"log-wide", "log:k=14", vector, wide, {SEED, 7, 3}, 0},
    {"uniform", "uniform", network, gradient, {SEED, 7, 3}, 0},
    {"uniform-norm-2", "uniform:bits=8,norm=2", network, gradient, {SEED, 7, 3}, 0},
    {"uniform-ternary", "uniform:bits=2", network, gradient, {SEED, 7, 3}, 0},
    {"uniform-16-bits", "uniform:bits=16", network, gradient, {SEED, 7, 3}, 0},
    {"uniform-zeros", "uniform", network, zeros, {SEED, 7, 3}, 0},
    {"nearest", "nearest", network, gradient, {SEED, 7, 3}, 0},
    {"nearest-range", "nearest:k=3,range=0.5", network, gradient, {SEED, 7, 3}, 0},
    {"natural", "natural", network, gradient, {SEED, 7, 3}, 0},
    {"natural-wide", "natural", vector, wide, {SEED, UINT64_MAX, 0}, 0},
    {"low-rank", "low-rank:rank=2", matrix, thin, {SEED, 7, 3}, 0},
    {"low-rank-network", "low-rank:rank=1", network, gradient, {SEED, 7, 3}, 0},
    {"without-layout", "sign", vector, gradient, {SEED, 7, 3}, 1},
    {"one-element", "topk", one_element, gradient, {SEED, 7, 3}, 0},
    {"nothing", "f32", nothing, zeros, {SEED, 7, 3}, 0},
};

const uint32_t golden_case_count = sizeof golden_cases / sizeof *golden_cases;

/* ---- making ---- */

static terse_status make_pass(const struct golden_case *golden, terse_codec *codec, uint32_t pass,
                              const float *values, struct golden_made *out)
{
    const int with_layout = !golden->without_layout;
    const size_t bound = terse_codec_payload_bound(codec, pass);
    const size_t cap = terse_frame_len(codec, bound, with_layout);
    const size_t place = terse_frame_payload_at(codec, with_layout);
    uint8_t *frame = calloc(1, cap);
    if (!frame)
        return TERSE_NO_MEMORY;
    out->frame[pass] = frame;
    out->frame_count = pass + 1;
    size_t len;
    terse_status status =
        terse_codec_encode(codec, pass, &golden->key, values, frame + place, cap - place, &len);
    if (status == TERSE_OK)
        status = terse_codec_decode_add(codec, pass, &golden->key, frame + place, len, out->decoded,
                                        NULL);
    if (status == TERSE_OK)
        status = terse_frame_seal(codec, pass, &golden->key, frame + place, len, with_layout, frame,
                                  cap, &out->len[pass]);
    return status;
}

static terse_status make_passes(const struct golden_case *golden, terse_codec *codec,
                                struct golden_made *out)
{
    terse_codec_about about;
    terse_codec_describe(codec, &about);
    float *values = calloc(out->count + 1, sizeof *values);
    if (!values)
        return TERSE_NO_MEMORY;
    golden->fill(values, out->count);
    terse_status status = TERSE_OK;
    for (uint32_t pass = 0; pass < about.passes && status == TERSE_OK; pass++)
        status = make_pass(golden, codec, pass, values, out);
    free(values);
    return status;
}

terse_status golden_make(const struct golden_case *golden, struct golden_made *out)
{
    terse_layout *layout;
    terse_codec *codec;
    *out = (struct golden_made){0};
    terse_status status = golden->layout(&layout);
    if (status != TERSE_OK)
        return status;
    status = terse_codec_create(golden->spec, layout, NULL, &codec, NULL);
    if (status == TERSE_OK) {
        out->count = terse_layout_count(layout);
        out->decoded = calloc(out->count + 1, sizeof *out->decoded);
        status = out->decoded ? make_passes(golden, codec, out) : TERSE_NO_MEMORY;
        terse_codec_destroy(codec);
    }
    terse_layout_destroy(layout);
    return status;
}

void golden_free(struct golden_made *made)
{
    for (uint32_t i = 0; i < made->frame_count; i++)
        free(made->frame[i]);
    free(made->decoded);
}

void golden_frame_name(const struct golden_case *golden, const struct golden_made *made,
                       uint32_t pass, char *out, size_t cap)
{
    if (made->frame_count > 1)
        (void)snprintf(out, cap, "%s-%u.terse", golden->name, pass);
    else
        (void)snprintf(out, cap, "%s.terse", golden->name);
}
