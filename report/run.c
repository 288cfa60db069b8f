#include "run.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

/* A run of a million lines is a tenth of this. */
static const size_t most_bytes = (size_t)1 << 31;

double rep_run_stride(const struct rep_run *run, size_t index)
{
    double before = index == 0 ? 0 : run->steps[index - 1].step;
    double stride = run->steps[index].step - before;
    return stride > 0 ? stride : 1; /* steps counted from 0: the first line is one step */
}

static double mean_per_step(const struct rep_run *run, size_t offset)
{
    double sum = 0;
    double steps = 0;
    for (size_t i = 0; i < run->step_count; i++) {
        double value;
        memcpy(&value, (const char *)&run->steps[i] + offset, sizeof value);
        double stride = rep_run_stride(run, i);
        sum += value * stride;
        steps += stride;
    }
    return steps > 0 ? sum / steps : NAN;
}

double rep_run_bytes_per_step(const struct rep_run *run)
{
    return mean_per_step(run, offsetof(struct rep_step, bytes_sent));
}

double rep_run_dense_per_step(const struct rep_run *run)
{
    return mean_per_step(run, offsetof(struct rep_step, dense_bytes));
}

/* Grows an array by one element; it may move. */
static int grow(void **array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return 1;
    size_t larger = *cap == 0 ? 256 : *cap * 2;
    void *moved = larger > SIZE_MAX / size ? NULL : realloc(*array, larger * size);
    if (!moved)
        return 0;
    *array = moved;
    *cap = larger;
    return 1;
}

static const char *add_step(struct rep_run *run, const struct rep_line *line)
{
    const struct rep_step *last = run->step_count > 0 ? &run->steps[run->step_count - 1] : NULL;
    if (last && line->step.step <= last->step)
        return "goes back to an earlier step";
    if (last && line->step.seconds < last->seconds)
        return "goes back in time";
    void *array = run->steps;
    if (!grow(&array, run->step_count, &run->step_cap, sizeof *run->steps))
        return "does not fit into memory";
    run->steps = array;
    run->steps[run->step_count++] = line->step;
    return NULL;
}

static const char *add_evaluation(struct rep_run *run, const struct rep_evaluation *evaluation)
{
    size_t count = run->evaluation_count;
    double last = count > 0 ? run->evaluations[count - 1].step : 0;
    if (run->step_count > 0 && run->steps[run->step_count - 1].step > last)
        last = run->steps[run->step_count - 1].step;
    if (evaluation->step < last)
        return "goes back to an earlier step";
    void *array = run->evaluations;
    if (!grow(&array, count, &run->evaluation_cap, sizeof *run->evaluations))
        return "does not fit into memory";
    run->evaluations = array;
    run->evaluations[run->evaluation_count++] = *evaluation;
    return NULL;
}

/* The bytes of tensors belong to those of run.json; without these they say nothing. */
static const char *add_end(struct rep_run *run, struct rep_end *end)
{
    const int differs = end->tensor_bytes && end->tensor_count != run->tensors.count;
    if (differs) {
        free(end->tensor_bytes);
        end->tensor_bytes = NULL;
        if (run->tensors.count > 0)
            return "has bytes of another number of tensors than run.json";
    }
    run->end = *end;
    run->has_end = 1;
    return NULL;
}

static const char *add_line(struct rep_run *run, const char *text, size_t len)
{
    if (run->has_end)
        return "follows the end of the run";
    struct rep_line line;
    const char *wrong = rep_parse_line(text, len, &line);
    if (!wrong && line.kind == REP_LINE_STEP)
        wrong = add_step(run, &line);
    else if (!wrong && line.kind == REP_LINE_EVALUATION)
        wrong = add_evaluation(run, &line.evaluation);
    else if (!wrong)
        wrong = add_end(run, &line.end);
    return wrong;
}

static int is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return 0;
    return 1;
}

static void read_metrics(struct rep_run *run, const char *text, size_t len)
{
    size_t number = 0;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t line_len = !end ? len - at : (size_t)(end - (text + at));
        number++;
        const char *wrong =
            is_blank(text + at, line_len) ? NULL : add_line(run, text + at, line_len);
        if (wrong) {
            snprintf(run->metrics_note, sizeof run->metrics_note,
                     "metrics.jsonl: line %zu %s; it and what follows was not read", number, wrong);
            return;
        }
        at += line_len + 1;
    }
}

terse_status rep_run_parse(const char *name, const char *about, size_t about_len,
                           const char *metrics, size_t metrics_len, struct rep_run **out)
{
    struct rep_run *run = calloc(1, sizeof *run);
    if (!run)
        return TERSE_NO_MEMORY;
    run->workers = run->seed = run->batch = run->parameters = run->target = NAN;
    run->name = strdup(name);
    if (!run->name) {
        rep_run_free(run);
        return TERSE_NO_MEMORY;
    }
    const char *wrong = !about ? "cannot be read" : rep_parse_about(about, about_len, run);
    if (wrong)
        snprintf(run->about_note, sizeof run->about_note, "run.json: %s", wrong);
    if (metrics)
        read_metrics(run, metrics, metrics_len);
    *out = run;
    return TERSE_OK;
}

void rep_run_free(struct rep_run *run)
{
    if (!run)
        return;
    for (size_t i = 0; i < run->settings.count; i++) {
        free(run->settings.item[i].key);
        free(run->settings.item[i].value);
    }
    free(run->settings.item);
    for (size_t i = 0; i < run->tensors.count; i++)
        free(run->tensors.item[i].name);
    free(run->tensors.item);
    free(run->end.tensor_bytes);
    free(run->steps);
    free(run->evaluations);
    free(run->name);
    free(run->version);
    free(run->command);
    free(run->train);
    free(run->method);
    free(run->model);
    free(run->data);
    free(run->kernels);
    free(run);
}

/* Returns 0 or an errno. */
static int read_stream(FILE *file, char **bytes, size_t *len)
{
    size_t cap = 1 << 16;
    size_t filled = 0;
    char *buffer = malloc(cap);
    while (buffer) {
        errno = 0;
        filled += fread(buffer + filled, 1, cap - filled, file);
        if (ferror(file)) {
            int code = errno != 0 ? errno : EIO;
            free(buffer);
            return code;
        }
        if (filled < cap) {
            *bytes = buffer;
            *len = filled;
            return 0;
        }
        char *larger = cap >= most_bytes ? NULL : realloc(buffer, cap * 2);
        if (!larger)
            break;
        buffer = larger;
        cap *= 2;
    }
    free(buffer);
    return ENOMEM;
}

static int read_file(const char *folder, const char *file_name, char **bytes, size_t *len)
{
    size_t cap = strlen(folder) + strlen(file_name) + 2;
    char *path = malloc(cap);
    if (!path)
        return ENOMEM;
    snprintf(path, cap, "%s/%s", folder, file_name);
    FILE *file = fopen(path, "rb");
    int code = !file ? errno : read_stream(file, bytes, len);
    if (file)
        (void)fclose(file);
    free(path);
    return code;
}

/* The last part of the path, without trailing slashes. */
static char *base_name(const char *folder)
{
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/')
        len--;
    size_t start = len;
    while (start > 0 && folder[start - 1] != '/')
        start--;
    return strndup(folder + start, len - start);
}

terse_status rep_run_read(const char *folder, struct rep_run **out, terse_fault *fault)
{
    char *about = NULL;
    char *metrics = NULL;
    size_t about_len = 0;
    size_t metrics_len = 0;
    int code = read_file(folder, "metrics.jsonl", &metrics, &metrics_len);
    if (code != 0) {
        if (fault) {
            *fault = (terse_fault){.rank = -1};
            snprintf(fault->text, sizeof fault->text, "metrics.jsonl: %s", strerror(code));
        }
        return code == ENOMEM ? TERSE_NO_MEMORY : TERSE_BAD_ARGUMENT;
    }
    (void)read_file(folder, "run.json", &about, &about_len); /* about stays NULL: noted */
    char *name = base_name(folder);
    terse_status status =
        !name ? TERSE_NO_MEMORY : rep_run_parse(name, about, about_len, metrics, metrics_len, out);
    free(name);
    free(about);
    free(metrics);
    return status;
}
