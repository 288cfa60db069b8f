/* Digits drawn with a pen: strokes on a grid, moved, scaled, slanted, with a pen of varying width,
 * then noise. No function of the C library is used whose last bit may differ: the same seed gives
 * the same bytes on every machine. */
#include <math.h>
#include <stdlib.h>

#include "data/draw.h"
#include "data/object.h"

enum { SIDE = 28, CLASSES = 10, TRAIN_COUNT = 6000, TEST_COUNT = 1000 };

/* Points "xy" on a grid of 5 by 7; a comma lifts the pen. */
static const char *const strokes[CLASSES] = {
    "10 30 41 45 36 16 05 01 10",
    "02 20 26,16 36",
    "01 10 30 41 42 06 46",
    "01 10 30 41 42 33 13,33 44 45 36 16 05",
    "36 30 04 44",
    "40 00 03 33 44 45 36 16 05",
    "40 20 02 05 16 36 45 44 33 13 04",
    "00 40 16",
    "10 30 41 42 33 13 02 01 10,33 44 45 36 16 05 04 13",
    "42 33 13 02 01 10 30 41 44 26 06",
};

struct point {
    float x;
    float y;
};

/* The style of one digit. */
struct hand {
    struct point origin;
    float width; /* pixels per grid step */
    float height;
    float slant;
    float pen; /* radius in pixels */
    float ink;
    float noise;
};

static float between(struct trn_stream *stream, float low, float high)
{
    return low + (high - low) * trn_draw_uniform(stream);
}

static struct hand draw_hand(struct trn_stream *stream)
{
    struct hand hand;
    hand.width = between(stream, 2.0f, 4.2f);
    hand.height = between(stream, 2.2f, 3.6f);
    hand.slant = between(stream, -0.35f, 0.35f);
    hand.origin.x = 14.0f - 2.0f * hand.width + between(stream, -4.0f, 4.0f);
    hand.origin.y = 14.0f - 3.0f * hand.height + between(stream, -3.5f, 3.5f);
    hand.pen = between(stream, 0.5f, 1.6f);
    hand.ink = between(stream, 0.45f, 1.0f);
    hand.noise = between(stream, 0.05f, 0.25f);
    return hand;
}

/* A grid point with a small random displacement. */
static struct point place(const struct hand *hand, struct trn_stream *stream, const char *at)
{
    const float x = (float)(at[0] - '0') + between(stream, -0.3f, 0.3f);
    const float y = (float)(at[1] - '0') + between(stream, -0.3f, 0.3f);
    return (struct point){
        .x = hand->origin.x + hand->width * x + hand->slant * hand->height * (3.0f - y),
        .y = hand->origin.y + hand->height * y,
    };
}

static float square_distance(struct point p, struct point a, struct point b)
{
    const float dx = b.x - a.x;
    const float dy = b.y - a.y;
    const float len = dx * dx + dy * dy;
    float t = len > 0.0f ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / len : 0.0f;
    t = t < 0.0f ? 0.0f : t > 1.0f ? 1.0f : t;
    const float ex = p.x - (a.x + t * dx);
    const float ey = p.y - (a.y + t * dy);
    return ex * ex + ey * ey;
}

static int clamp(float value)
{
    return value < 0.0f ? 0 : value > (float)(SIDE - 1) ? SIDE - 1 : (int)value;
}

/* Inks the pixels near a segment; the pen's edge is one pixel soft. */
static void draw_segment(float ink[SIDE * SIDE], struct point a, struct point b, float pen)
{
    const float reach = pen + 1.0f;
    const int left = clamp((a.x < b.x ? a.x : b.x) - reach);
    const int right = clamp((a.x > b.x ? a.x : b.x) + reach + 1.0f);
    const int top = clamp((a.y < b.y ? a.y : b.y) - reach);
    const int bottom = clamp((a.y > b.y ? a.y : b.y) + reach + 1.0f);
    for (int y = top; y <= bottom; y++) {
        for (int x = left; x <= right; x++) {
            const struct point p = {(float)x, (float)y};
            const float shade = pen + 0.5f - sqrtf(square_distance(p, a, b));
            const float now = shade > 1.0f ? 1.0f : shade;
            if (now > ink[y * SIDE + x])
                ink[y * SIDE + x] = now;
        }
    }
}

static void draw_digit(uint8_t *pixels, uint32_t digit, struct trn_stream *stream)
{
    float ink[SIDE * SIDE] = {0};
    const struct hand hand = draw_hand(stream);
    const char *at = strokes[digit];
    struct point from = place(&hand, stream, at);
    for (at += 2; *at; at += 3) {
        const struct point to = place(&hand, stream, at + 1);
        if (*at == ' ')
            draw_segment(ink, from, to, hand.pen);
        from = to;
    }
    for (int i = 0; i < SIDE * SIDE; i++) {
        const float value = hand.ink * ink[i] + hand.noise * trn_draw_bell(stream);
        const float clipped = value < 0.0f ? 0.0f : value > 1.0f ? 1.0f : value;
        pixels[i] = (uint8_t)(clipped * 255.0f + 0.5f);
    }
}

static terse_status draw_split(struct trn_examples *out, uint32_t count, enum trn_split split,
                               uint64_t seed, terse_fault *fault)
{
    out->image_block = malloc((size_t)count * SIDE * SIDE);
    out->labels = malloc(count * sizeof *out->labels);
    if (!out->image_block || !out->labels)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for %u digits", count);
    for (uint32_t i = 0; i < count; i++) {
        struct trn_stream stream;
        trn_stream_start(&stream, seed, TRN_DRAW_EXAMPLE, (uint64_t)split, i);
        out->labels[i] = trn_draw_below(&stream, CLASSES);
        draw_digit(out->image_block + (size_t)i * SIDE * SIDE, out->labels[i], &stream);
    }
    out->pixels = out->image_block;
    out->count = count;
    return TERSE_OK;
}

terse_status trn_open_digits(struct trn_data *data, const char *where, uint64_t seed,
                             terse_fault *fault)
{
    (void)where;
    terse_status status = draw_split(&data->split[TRN_TRAIN], TRAIN_COUNT, TRN_TRAIN, seed, fault);
    if (status == TERSE_OK)
        status = draw_split(&data->split[TRN_TEST], TEST_COUNT, TRN_TEST, seed, fault);
    if (status != TERSE_OK)
        return status;
    data->about.kind = TRN_DATA_IMAGE;
    data->about.channels = 1;
    data->about.height = SIDE;
    data->about.width = SIDE;
    data->about.features = SIDE * SIDE;
    data->about.classes = CLASSES;
    trn_image_normalise(data);
    return TERSE_OK;
}
