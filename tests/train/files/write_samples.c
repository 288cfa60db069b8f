/* write-samples FOLDER: one file of every format, for test_formats.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "files/checkpoint.h"
#include "files/events.h"
#include "files/lines.h"
#include "files/safetensors.h"

static terse_fault fault;

static void must(terse_status status)
{
    if (status == TERSE_OK)
        return;
    (void)fprintf(stderr, "write-samples: %s\n", fault.text);
    exit(EXIT_FAILURE);
}

static const char *within(const char *folder, const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_events(const char *folder, uint64_t first_step)
{
    struct trn_events *events;
    must(trn_events_open(folder, first_step, &events, &fault));
    for (uint64_t step = first_step; step < first_step + 300; step += 100) {
        const struct trn_scalar scalars[] = {
            {"train/loss", 1.0f / (float)(step + 1)}, {"train/accuracy", 0.5f}, {"nan", NAN}};
        must(trn_events_scalars(events, step, scalars, 3, &fault));
    }
    must(trn_events_scalars(events, UINT64_C(1) << 40, NULL, 0, &fault));
    trn_events_close(events);
}

static void write_weights(const char *folder)
{
    const float values[6] = {0, 1, 2, 3, -4, 0x1p-130f};
    const struct trn_stored tensors[] = {
        {.name = "fc.weight", .ndim = 2, .dims = {2, 3}, .bytes = values, .len = sizeof values},
        {.name = "scalar", .bytes = values + 1, .len = 4},
        {.name = "blob", .dtype = TRN_U8, .ndim = 1, .dims = {3}, .bytes = "abc", .len = 3},
    };
    must(
        trn_safetensors_write(within(folder, "weights.safetensors"), tensors, 3, "a note", &fault));
}

static void write_metrics(const char *folder)
{
    struct trn_lines *lines;
    must(trn_lines_open(within(folder, "metrics.jsonl"), NULL, &lines, &fault));
    for (uint64_t step = 0; step < 3; step++) {
        com_json *line = com_json_object();
        com_json_put_u64(line, "step", step);
        com_json_put_real(line, "loss", 0.1);
        com_json_put_real(line, "bad", (double)INFINITY);
        must(trn_lines_append(lines, line, &fault));
    }
    trn_lines_close(lines);
}

static void write_checkpoint(const char *folder)
{
    const struct trn_blob blobs[] = {
        {.name = "weights", .kind = 1, .bytes = "0123456789", .len = 10},
        {.name = "memory", .kind = 2, .worker = 3, .bytes = "01234567", .len = 8},
    };
    com_json *settings = com_json_object();
    com_json_put_text(settings, "model", "cnn");
    must(trn_checkpoint_write(folder, 1234, settings, blobs, 2, &fault));
    com_json_free(settings);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    write_events(argv[1], 0);
    write_events(argv[1], 200);
    write_weights(argv[1]);
    write_metrics(argv[1]);
    write_checkpoint(argv[1]);
    return EXIT_SUCCESS;
}
