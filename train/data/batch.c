/* Batches: examples as normalised floats, the input of a network. */
#include <math.h>
#include <string.h>

#include "data/draw.h"
#include "data/object.h"

enum { PADDING = 4 };

/* Sums of bytes and their squares are exact, so means do not depend on the order. */
void trn_image_normalise(struct trn_data *data)
{
    struct trn_about *about = &data->about;
    const struct trn_examples *train = &data->split[TRN_TRAIN];
    const size_t plane = (size_t)about->height * about->width;
    for (uint32_t c = 0; c < about->channels; c++) {
        uint64_t sum = 0;
        uint64_t squares = 0;
        for (uint32_t i = 0; i < train->count; i++) {
            const uint8_t *pixels = train->pixels + ((size_t)i * about->channels + c) * plane;
            for (size_t j = 0; j < plane; j++) {
                sum += pixels[j];
                squares += (uint32_t)pixels[j] * pixels[j];
            }
        }
        const double number = (double)train->count * (double)plane;
        const double mean = (double)sum / number;
        const double variance = (double)squares / number - mean * mean;
        const double deviation = variance > 0 ? sqrt(variance) : 1.0;
        about->mean[c] = (float)(mean / 255.0);
        about->std[c] = (float)(deviation / 255.0);
        for (int pixel = 0; pixel < 256; pixel++)
            data->shade[c][pixel] = (float)((pixel - mean) / deviation);
    }
}

/* How one image is moved: pixel (x, y) of the result is (x + dx, y + dy) of the source. */
struct move {
    int dx;
    int dy;
    int mirrored;
};

static struct move draw_move(const struct trn_augment *augment, uint32_t example)
{
    struct move move = {0};
    struct trn_stream stream;
    if (!augment)
        return move;
    trn_stream_start(&stream, augment->seed, TRN_DRAW_AUGMENT, augment->epoch, example);
    const int dx = (int)trn_draw_below(&stream, 2 * PADDING + 1) - PADDING;
    const int dy = (int)trn_draw_below(&stream, 2 * PADDING + 1) - PADDING;
    const int mirrored = (int)trn_draw_below(&stream, 2);
    if (augment->crop)
        move = (struct move){.dx = dx, .dy = dy};
    move.mirrored = augment->flip && mirrored;
    return move;
}

/* Which element of a plane is at (row, column) of the moved one; -1: it is beyond the edge. */
static int source_of(int row, int column, int height, int width, struct move move)
{
    const int from = row + move.dy;
    const int at = (move.mirrored ? width - 1 - column : column) + move.dx;
    return from < 0 || from >= height || at < 0 || at >= width ? -1 : from * width + at;
}

/* Beyond the edge it is black. */
static void write_pixels(const uint8_t *pixels, int height, int width, const float *shade,
                         struct move move, float *x)
{
    for (int row = 0; row < height; row++)
        for (int column = 0; column < width; column++) {
            const int from = source_of(row, column, height, width, move);
            *x++ = shade[from < 0 ? 0 : pixels[from]];
        }
}

/* Images of floats are taken as they are; beyond the edge they are 0. */
static void write_floats(const float *values, int height, int width, struct move move, float *x)
{
    for (int row = 0; row < height; row++)
        for (int column = 0; column < width; column++) {
            const int from = source_of(row, column, height, width, move);
            *x++ = from < 0 ? 0 : values[from];
        }
}

static void write_unmoved(const uint8_t *pixels, size_t count, const float *shade, float *x)
{
    for (size_t i = 0; i < count; i++)
        x[i] = shade[pixels[i]];
}

void trn_image_batch(const struct trn_data *data, const struct trn_examples *split,
                     const uint32_t *examples, uint32_t count, const struct trn_augment *augment,
                     float *x)
{
    const struct trn_about *about = &data->about;
    const int height = (int)about->height;
    const int width = (int)about->width;
    const size_t plane = (size_t)about->height * about->width;
    for (uint32_t i = 0; i < count; i++) {
        const struct move move = draw_move(augment, examples[i]);
        const int is_moved = move.dx || move.dy || move.mirrored;
        for (uint32_t c = 0; c < about->channels; c++, x += plane) {
            const size_t at = (size_t)examples[i] * about->features + c * plane;
            if (split->dense)
                write_floats(split->dense + at, height, width, move, x);
            else if (is_moved)
                write_pixels(split->pixels + at, height, width, data->shade[c], move, x);
            else
                write_unmoved(split->pixels + at, plane, data->shade[c], x);
        }
    }
}

void trn_vector_batch(const struct trn_data *data, const struct trn_examples *split,
                      const uint32_t *examples, uint32_t count, float *x)
{
    const size_t features = data->about.features;
    for (uint32_t i = 0; i < count; i++, x += features) {
        const size_t example = examples[i];
        if (split->dense) {
            memcpy(x, split->dense + example * features, features * sizeof *x);
            continue;
        }
        memset(x, 0, features * sizeof *x);
        for (size_t j = split->row_at[example]; j < split->row_at[example + 1]; j++)
            x[split->columns[j]] = split->values[j];
    }
}
