/* The data of the page, as JSON between its two halves: every run as columns of at most `most`
 * numbers, fewer the more runs there are. `clock` has the costs of a step (bytes, seconds, seconds
 * of work without the network); the other series have only step and value, and page/runs.js looks
 * the rest up in the clock. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <terse/info.h>

#include "common/text.h"
#include "decimate.h"
#include "page.h"

enum {
    MOST_POINTS = 1000, /* of a series */
    LEAST_POINTS = 60,
    ALL_POINTS = 10000, /* of a series over all runs */
};

static size_t points_for(size_t runs)
{
    const size_t each = ALL_POINTS / (runs > 0 ? runs : 1);
    return each > MOST_POINTS ? MOST_POINTS : each < LEAST_POINTS ? LEAST_POINTS : each;
}

static void put_key(struct com_text *text, const char *key)
{
    com_text_put(text, ",");
    com_text_json_string(text, key);
    com_text_put(text, ":");
}

static void put_number(struct com_text *text, const char *key, double value)
{
    if (!isnan(value)) {
        put_key(text, key);
        com_text_json_number(text, value);
    }
}

static void put_string(struct com_text *text, const char *key, const char *value)
{
    if (value) {
        put_key(text, key);
        com_text_json_string(text, value);
    }
}

static void put_column(struct com_text *text, const char *key, const double *values,
                       const size_t *keep, size_t kept)
{
    put_key(text, key);
    for (size_t i = 0; i < kept; i++) {
        com_text_put(text, i == 0 ? "[" : ",");
        com_text_json_number(text, values[!keep ? i : keep[i]]);
    }
    com_text_put(text, kept == 0 ? "[]" : "]");
}

/* Columns of one run, each long enough for all of its steps. */
struct columns {
    double *step;
    double *value;
    double *bytes;
    double *seconds;
    double *work;
    size_t *keep;
    size_t most; /* rows to keep */
};

static int columns_make(struct columns *columns, size_t count, size_t most)
{
    double *room = calloc(count + 1, 5 * sizeof *room);
    columns->keep = calloc(most, sizeof *columns->keep);
    columns->most = most;
    if (!room || !columns->keep) {
        free(room);
        free(columns->keep);
        return 0;
    }
    columns->step = room;
    columns->value = room + count;
    columns->bytes = room + 2 * count;
    columns->seconds = room + 3 * count;
    columns->work = room + 4 * count;
    return 1;
}

static void columns_free(struct columns *columns)
{
    free(columns->step);
    free(columns->keep);
}

/* Seconds of a step that do not depend on the network: all stages but the group's. */
static double work_of(const struct rep_step *step)
{
    double sum = 0;
    for (size_t i = 0; i < REP_STAGES; i++)
        sum += i == REP_GROUP ? 0 : step->stages[i];
    return sum;
}

/* Without stages all of the time counts as work: an upper bound. */
static void fill_clock(const struct rep_run *run, struct columns *columns)
{
    double bytes = 0;
    double work = 0;
    for (size_t i = 0; i < run->step_count; i++) {
        const struct rep_step *step = &run->steps[i];
        double stride = rep_run_stride(run, i);
        double before = i == 0 ? 0 : run->steps[i - 1].seconds;
        bytes += step->bytes_sent * stride;
        work += isnan(work_of(step)) ? step->seconds - before : work_of(step) * stride;
        columns->step[i] = step->step;
        columns->bytes[i] = bytes;
        columns->seconds[i] = step->seconds;
        columns->work[i] = work;
    }
}

static size_t keep_evenly(size_t count, size_t most, size_t *keep)
{
    size_t kept = count < most ? count : most;
    for (size_t i = 0; i < kept; i++)
        keep[i] = kept < 2 ? i : i * (count - 1) / (kept - 1);
    return kept;
}

static void put_clock(struct com_text *text, const struct rep_run *run, struct columns *columns)
{
    size_t kept = keep_evenly(run->step_count, columns->most, columns->keep);
    com_text_put(text, ",\"clock\":{\"lines\":");
    com_text_json_number(text, (double)run->step_count);
    put_column(text, "step", columns->step, columns->keep, kept);
    put_column(text, "bytes", columns->bytes, columns->keep, kept);
    put_column(text, "seconds", columns->seconds, columns->keep, kept);
    put_column(text, "work", columns->work, columns->keep, kept);
    com_text_put(text, "}");
}

/* A series is left out if the run never gave it. Rows without a value are left out too, but not
 * those of the loss: there they are gaps. */
static void put_series(struct com_text *text, const char *key, size_t offset,
                       const struct rep_run *run, struct columns *columns)
{
    const int has_gaps = offset == offsetof(struct rep_step, loss);
    size_t count = 0;
    int any = 0;
    for (size_t i = 0; i < run->step_count; i++) {
        double value;
        memcpy(&value, (const char *)&run->steps[i] + offset, sizeof value);
        any = any || !isnan(value);
        if (!has_gaps && isnan(value))
            continue;
        columns->step[count] = run->steps[i].step;
        columns->value[count++] = value;
    }
    if (!any)
        return;
    size_t kept = rep_decimate(columns->value, count, columns->most, columns->keep);
    put_key(text, key);
    com_text_put(text, "{\"of\":");
    com_text_json_number(text, (double)count);
    put_column(text, "step", columns->step, columns->keep, kept);
    put_column(text, "value", columns->value, columns->keep, kept);
    com_text_put(text, "}");
}

static void put_stages(struct com_text *text, const struct rep_run *run)
{
    double sums[REP_STAGES] = {0};
    double steps = 0;
    for (size_t i = 0; i < run->step_count; i++) {
        double stride = rep_run_stride(run, i);
        if (isnan(run->steps[i].stages[0]))
            continue;
        for (size_t s = 0; s < REP_STAGES; s++)
            sums[s] += run->steps[i].stages[s] * stride;
        steps += stride;
    }
    if (steps <= 0)
        return;
    com_text_put(text, ",\"stages\":{\"steps\":");
    com_text_json_number(text, steps);
    for (size_t s = 0; s < REP_STAGES; s++)
        put_number(text, rep_stage_names[s], sums[s] / steps);
    com_text_put(text, "}");
}

/* The accuracy decides which evaluations stay; all columns have the same rows. */
static void put_evaluations(struct com_text *text, const struct rep_run *run,
                            const struct columns *to)
{
    static const struct {
        const char *key;
        size_t offset;
    } columns[] = {
        {"accuracy", offsetof(struct rep_evaluation, accuracy)},
        {"step", offsetof(struct rep_evaluation, step)},
        {"seconds", offsetof(struct rep_evaluation, seconds)},
        {"bytes", offsetof(struct rep_evaluation, bytes_sent_total)},
        {"loss", offsetof(struct rep_evaluation, loss)},
    };
    size_t kept = 0;
    double *values = calloc(run->evaluation_count + 1, sizeof *values);
    if (!values) {
        text->failed = 1;
        return;
    }
    com_text_put(text, ",\"evaluations\":{\"of\":");
    com_text_json_number(text, (double)run->evaluation_count);
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
        for (size_t i = 0; i < run->evaluation_count; i++) {
            memcpy(&values[i], (const char *)&run->evaluations[i] + columns[c].offset,
                   sizeof values[i]);
        }
        if (c == 0)
            kept = rep_decimate(values, run->evaluation_count, to->most, to->keep);
        put_column(text, columns[c].key, values, to->keep, kept);
    }
    com_text_put(text, "}");
    free(values);
}

static void put_end(struct com_text *text, const struct rep_run *run)
{
    if (run->has_end) {
        com_text_put(text, ",\"end\":{\"status\":");
        com_text_json_string(text, run->end.status);
        put_number(text, "step", run->end.step);
        put_number(text, "loss", run->end.loss);
        put_number(text, "accuracy", run->end.accuracy);
        put_number(text, "seconds", run->end.seconds);
        if (run->end.tensor_bytes)
            put_column(text, "tensor_bytes", run->end.tensor_bytes, NULL, run->end.tensor_count);
        com_text_put(text, "}");
    }
}

static int same_tensors(const struct rep_tensors *a, const struct rep_tensors *b)
{
    int same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same =
            a->item[i].count == b->item[i].count && strcmp(a->item[i].name, b->item[i].name) == 0;
    return same;
}

/* Names and elements of the tensors whose bytes are known; runs of one network have them once. */
static void put_tensors(struct com_text *text, struct rep_run *const *runs, size_t index)
{
    const struct rep_tensors *tensors = &runs[index]->tensors;
    size_t first = 0;
    if (!runs[index]->end.tensor_bytes)
        return;
    while (!runs[first]->end.tensor_bytes || !same_tensors(&runs[first]->tensors, tensors))
        first++;
    if (first < index) {
        put_number(text, "tensors_of", (double)first);
        return;
    }
    com_text_put(text, ",\"tensors\":[");
    for (size_t i = 0; i < tensors->count; i++) {
        com_text_put(text, i == 0 ? "{\"name\":" : ",{\"name\":");
        com_text_json_string(text, tensors->item[i].name);
        put_number(text, "count", tensors->item[i].count);
        com_text_put(text, "}");
    }
    com_text_put(text, "]");
}

static void put_settings(struct com_text *text, const struct rep_settings *settings)
{
    com_text_put(text, ",\"settings\":{");
    for (size_t i = 0; i < settings->count; i++) {
        com_text_put(text, i == 0 ? "" : ",");
        com_text_json_string(text, settings->item[i].key);
        com_text_put(text, ":");
        com_text_json_string(text, settings->item[i].value);
    }
    com_text_put(text, "}");
}

static void put_about(struct com_text *text, const struct rep_run *run)
{
    com_text_put(text, "{\"name\":");
    com_text_json_string(text, run->name);
    put_string(text, "terse", run->version);
    put_string(text, "command", run->command);
    put_string(text, "train", run->train);
    put_string(text, "method", run->method);
    put_string(text, "model", run->model);
    put_string(text, "data", run->data);
    put_string(text, "kernels", run->kernels);
    put_number(text, "workers", run->workers);
    put_number(text, "seed", run->seed);
    put_number(text, "batch", run->batch);
    put_number(text, "parameters", run->parameters);
    put_number(text, "target", run->target);
    put_settings(text, &run->settings);
    put_number(text, "bytes_per_step", rep_run_bytes_per_step(run));
    put_number(text, "dense_per_step", rep_run_dense_per_step(run));
    com_text_put(text, ",\"notes\":[");
    if (run->about_note[0] != '\0')
        com_text_json_string(text, run->about_note);
    if (run->metrics_note[0] != '\0') {
        com_text_put(text, run->about_note[0] != '\0' ? "," : "");
        com_text_json_string(text, run->metrics_note);
    }
    com_text_put(text, "]");
}

static void put_run(struct com_text *text, struct rep_run *const *runs, size_t index, size_t most)
{
    const struct rep_run *run = runs[index];
    struct columns columns;
    if (!columns_make(&columns, run->step_count, most)) {
        text->failed = 1;
        return;
    }
    put_about(text, run);
    fill_clock(run, &columns);
    put_clock(text, run, &columns);
    put_series(text, "loss", offsetof(struct rep_step, loss), run, &columns);
    put_series(text, "residual_norm", offsetof(struct rep_step, residual_norm), run, &columns);
    put_series(text, "compression_error", offsetof(struct rep_step, compression_error), run,
               &columns);
    put_series(text, "bits", offsetof(struct rep_step, bits), run, &columns);
    put_stages(text, run);
    put_evaluations(text, run, &columns);
    put_end(text, run);
    put_tensors(text, runs, index);
    com_text_put(text, "}");
    columns_free(&columns);
}

static terse_status finish(struct com_text *text, char **html, size_t *len)
{
    com_text_add(text, rep_page_tail, rep_page_tail_len);
    if (text->failed) {
        free(text->bytes);
        return TERSE_NO_MEMORY;
    }
    *html = text->bytes;
    *len = text->len;
    return TERSE_OK;
}

static void begin(struct com_text *text, const char *mode)
{
    com_text_add(text, rep_page_head, rep_page_head_len);
    com_text_put(text, "{\"format\":1,\"mode\":");
    com_text_json_string(text, mode);
    put_string(text, "made_by", terse_version());
}

terse_status rep_page_make(struct rep_run *const *runs, size_t count, const char *const *notes,
                           size_t note_count, char **html, size_t *len)
{
    struct com_text text = {0};
    begin(&text, "report");
    com_text_put(&text, ",\"notes\":[");
    for (size_t i = 0; i < note_count; i++) {
        com_text_put(&text, i == 0 ? "" : ",");
        com_text_json_string(&text, notes[i]);
    }
    com_text_put(&text, "],\"runs\":[");
    for (size_t i = 0; i < count; i++) {
        com_text_put(&text, i == 0 ? "\n" : ",\n");
        put_run(&text, runs, i, points_for(count));
    }
    com_text_put(&text, "]}");
    return finish(&text, html, len);
}

terse_status rep_page_make_live(char **html, size_t *len)
{
    struct com_text text = {0};
    begin(&text, "live");
    com_text_put(&text, ",\"notes\":[],\"runs\":[]}");
    return finish(&text, html, len);
}
