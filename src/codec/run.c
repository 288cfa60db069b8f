#include "codec/run.h"

#include <string.h>

#include "base/fault.h"
#include "base/parallel.h"

struct run {
    const struct tsi_call *call;
    const float *in;
    const uint8_t *bytes;
    uint8_t *copy;
    float *out;
};

size_t tsi_run_scratch(size_t count)
{
    return tsi_chunk_total(count) * sizeof(uint32_t);
}

/* Copies a chunk tile by tile. While a tile is in the cache, finds its largest magnitude bits and
 * clears it. */
static void copy_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct run *const run = context;
    uint32_t *const maxima = run->call->scratch;
    uint32_t most = 0;
    for (size_t at = first; at < first + count; at += TSI_TILE) {
        const size_t left = first + count - at;
        const size_t tile = left < TSI_TILE ? left : TSI_TILE;
        const uint32_t here = run->call->kernel->magnitude_max_f32(run->in + at, tile);
        most = here > most ? here : most;
        memcpy(run->copy + at * sizeof(float), run->in + at, tile * sizeof(float));
        if (run->out)
            for (size_t i = at; i < at + tile; i++)
                run->out[i] = TSI_NOTHING;
    }
    maxima[chunk] = most;
}

terse_status tsi_run_copy(const struct tsi_call *call, const float *in, float *take, size_t count,
                          uint8_t *out)
{
    const uint32_t *const maxima = call->scratch;
    struct run run = {.call = call, .in = in, .copy = out, .out = take};
    tsi_each_chunk(call->threads, count, copy_chunk, &run);
    for (size_t i = 0; i < tsi_chunk_total(count); i++) {
        if (maxima[i] < TSK_INFINITY_BITS)
            continue;
        if (take)
            memcpy(take, out, count * sizeof *take);
        return TERSE_NOT_FINITE;
    }
    return TERSE_OK;
}

static void add_chunk(void *context, size_t chunk, size_t first, size_t count)
{
    const struct run *const run = context;
    uint32_t *const bad = run->call->scratch;
    bad[chunk] =
        run->call->kernel->add_f32(run->out + first, run->bytes + first * sizeof(float), count);
}

terse_status tsi_run_add(const struct tsi_call *call, const uint8_t *section, size_t at,
                         size_t count, float *out, terse_fault *fault)
{
    const uint32_t *const bad = call->scratch;
    struct run run = {.call = call, .bytes = section + at, .out = out};
    tsi_each_chunk(call->threads, count, add_chunk, &run);
    for (size_t i = 0; i < tsi_chunk_total(count); i++)
        if (bad[i])
            return tsi_fail(fault, TERSE_BAD_FRAME, at + i * TSI_CHUNK * sizeof(float),
                            "a value is not finite");
    return TERSE_OK;
}
