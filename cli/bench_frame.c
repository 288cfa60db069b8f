/* The cost of the checksum: sealing a frame whose payload is in place, and opening it. Each must
 * read the payload once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "machine.h"
#include "message.h"
#include "passes.h"

static const struct bench_limit frame_limit = {
    .codec = "frame", .reads = 1, .encode = "R", .decode = "R"};

static double less(double best, double seconds)
{
    return best == 0 || seconds < best ? seconds : best;
}

static terse_status repeat(const terse_codec *codec, unsigned char *bytes, size_t cap,
                           const struct bench_buffers *buffers, struct bench_row *row)
{
    static const terse_rng_key key = {0};
    const unsigned char *payload = bytes + terse_frame_payload_at(codec, 0);
    size_t payload_len = (size_t)row->job.count * sizeof(float);
    size_t len;
    terse_frame frame;
    double start = bench_now(&row->job);
    pass_read(buffers->residual, (size_t)row->job.count, 1);
    row->read.best = less(row->read.best, bench_now(&row->job) - start);

    start = bench_now(&row->job);
    terse_status status =
        terse_frame_seal(codec, 0, &key, payload, payload_len, 0, bytes, cap, &len);
    row->encode.best = less(row->encode.best, bench_now(&row->job) - start);
    if (status != TERSE_OK)
        return status;
    start = bench_now(&row->job);
    status = terse_frame_open(bytes, len, &frame, NULL, NULL);
    row->decode.best = less(row->decode.best, bench_now(&row->job) - start);
    return status;
}

static terse_status measure(const struct bench_buffers *buffers, struct bench_row *row)
{
    terse_layout *layout;
    terse_codec *codec;
    terse_status status = terse_layout_vector(row->job.count, &layout);
    if (status != TERSE_OK)
        return status;
    status = terse_codec_create("f32", layout, NULL, &codec, NULL);
    terse_layout_destroy(layout);
    if (status != TERSE_OK)
        return status;
    row->payload_len = row->job.count * sizeof(float);
    size_t cap = terse_frame_len(codec, (size_t)row->payload_len, 0);
    unsigned char *bytes = malloc(cap);
    if (!bytes) {
        terse_codec_destroy(codec);
        return TERSE_NO_MEMORY;
    }
    memcpy(bytes + terse_frame_payload_at(codec, 0), buffers->source, (size_t)row->payload_len);
    double end = machine_seconds() + row->job.seconds;
    while (status == TERSE_OK && (row->repetitions < 3 || machine_seconds() < end)) {
        status = repeat(codec, bytes, cap, buffers, row);
        row->repetitions++;
    }
    free(bytes);
    terse_codec_destroy(codec);
    return status;
}

int bench_measure_frame(const struct bench_buffers *buffers, const struct bench_job *job,
                        struct bench_row *out)
{
    *out = (struct bench_row){.job = *job, .limit = &frame_limit};
    out->job.spec = "frame";
    snprintf(out->name, sizeof out->name, "frame");
    snprintf(out->full, sizeof out->full, "frame of f32");
    terse_status status = measure(buffers, out);
    out->encode_limit = out->read.best;
    out->decode_limit = out->read.best;
    return status == TERSE_OK ? CLI_OK : msg_status("frame", status, NULL);
}
