#include "parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

enum {
    MUST = 1,         /* the key must be there */
    NULLABLE = 2,     /* null is NaN: a loss that overflowed */
    NOT_NEGATIVE = 4, /* sizes and times */
    PART = 8,         /* 0..1 */
    MOST_TENSORS = 1 << 16
};

struct field {
    const char *key;
    size_t offset;
    int rules;
};

#define STEP(member, rules)                               \
    {                                                     \
#member, offsetof(struct rep_step, member), rules \
    }
#define EVALUATION(member, rules)                               \
    {                                                           \
#member, offsetof(struct rep_evaluation, member), rules \
    }
#define END(member, rules)                               \
    {                                                    \
#member, offsetof(struct rep_end, member), rules \
    }
#define RUN(member)                                                        \
    {                                                                      \
#member, offsetof(struct rep_run, member), NULLABLE | NOT_NEGATIVE \
    }

static const struct field step_fields[] = {
    STEP(step, MUST | NOT_NEGATIVE),
    STEP(epoch, NULLABLE),
    STEP(seconds, MUST | NOT_NEGATIVE),
    STEP(loss, MUST | NULLABLE),
    STEP(lr, NULLABLE),
    STEP(bytes_said, MUST | NOT_NEGATIVE),
    STEP(bytes_dense, MUST | NOT_NEGATIVE),
    STEP(memory_norm, NULLABLE),
    STEP(compression_error, NULLABLE),
    STEP(bits, NULLABLE),
    {NULL, 0, 0},
};

static const struct field evaluation_fields[] = {
    EVALUATION(step, MUST | NOT_NEGATIVE),
    EVALUATION(epoch, NULLABLE),
    EVALUATION(seconds, MUST | NOT_NEGATIVE),
    EVALUATION(loss, NULLABLE),
    EVALUATION(accuracy, NULLABLE | NOT_NEGATIVE | PART),
    EVALUATION(bytes_said_total, NULLABLE | NOT_NEGATIVE),
    EVALUATION(phi_gradient, NULLABLE),
    EVALUATION(phi_noise, NULLABLE),
    {NULL, 0, 0},
};

static const struct field end_fields[] = {
    END(step, NULLABLE | NOT_NEGATIVE),
    END(loss, NULLABLE),
    END(accuracy, NULLABLE | NOT_NEGATIVE | PART),
    END(seconds, NULLABLE),
    {NULL, 0, 0},
};

static const struct field run_fields[] = {
    RUN(workers), RUN(seed), RUN(batch), RUN(parameters), {NULL, 0, 0},
};

static const struct {
    const char *key;
    size_t offset;
} run_texts[] = {
    {"terse", offsetof(struct rep_run, version)},
    {"command", offsetof(struct rep_run, command)},
    {"method", offsetof(struct rep_run, method)},
    {"model", offsetof(struct rep_run, model)},
    {"data", offsetof(struct rep_run, data)},
    {"cpu_level", offsetof(struct rep_run, cpu_level)},
};

const char *const rep_station_names[REP_STATIONS] = {
    "compute", "memory", "encode", "wire", "group", "combine", "decode", "update",
};

static const cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *read_number(const cJSON *value, int rules, double *out)
{
    *out = NAN;
    if (!value)
        return rules & MUST ? "lacks a number" : NULL;
    if (cJSON_IsNull(value))
        return rules & NULLABLE ? NULL : "has null where a number must be";
    if (!cJSON_IsNumber(value))
        return "has something else where a number must be";
    if (!isfinite(value->valuedouble) || (rules & NOT_NEGATIVE && value->valuedouble < 0) ||
        (rules & PART && value->valuedouble > 1))
        return "has a number out of range";
    *out = value->valuedouble;
    return NULL;
}

static const char *read_fields(const cJSON *object, const struct field *fields, void *out)
{
    for (; fields->key; fields++) {
        double value;
        const char *wrong = read_number(member(object, fields->key), fields->rules, &value);
        if (wrong)
            return wrong;
        memcpy((char *)out + fields->offset, &value, sizeof value);
    }
    return NULL;
}

static const char *read_stations(const cJSON *object, double *stations)
{
    for (size_t i = 0; i < REP_STATIONS; i++)
        stations[i] = NAN;
    if (!object || cJSON_IsNull(object))
        return NULL;
    if (!cJSON_IsObject(object))
        return "has stations that are no object";
    for (size_t i = 0; i < REP_STATIONS; i++) {
        const cJSON *value = member(object, rep_station_names[i]);
        const char *wrong = read_number(value, NULLABLE | NOT_NEGATIVE, &stations[i]);
        if (wrong)
            return wrong;
        stations[i] = isnan(stations[i]) ? 0 : stations[i];
    }
    return NULL;
}

static const char *read_tensor_bytes(const cJSON *array, struct rep_line *line)
{
    if (!array || cJSON_IsNull(array))
        return NULL;
    int count = cJSON_IsArray(array) ? cJSON_GetArraySize(array) : -1;
    if (count < 0 || count > MOST_TENSORS)
        return "has tensor_bytes that are no short list";
    double *bytes = calloc((size_t)count + 1, sizeof *bytes);
    if (!bytes)
        return "does not fit into memory";
    size_t i = 0;
    const cJSON *value;
    cJSON_ArrayForEach(value, array)
    {
        const char *wrong = read_number(value, NOT_NEGATIVE, &bytes[i++]);
        if (wrong) {
            free(bytes);
            return wrong;
        }
    }
    line->tensor_bytes = bytes;
    line->tensor_count = i;
    return NULL;
}

static const char *read_step(const cJSON *object, struct rep_line *line)
{
    line->kind = REP_LINE_STEP;
    const char *wrong = read_fields(object, step_fields, &line->step);
    if (!wrong)
        wrong = read_stations(member(object, "stations"), line->step.stations);
    return wrong ? wrong : read_tensor_bytes(member(object, "tensor_bytes"), line);
}

static const char *read_end(const cJSON *object, struct rep_line *line)
{
    line->kind = REP_LINE_END;
    const char *status = cJSON_GetStringValue(member(object, "status"));
    if (!status)
        return "has no status";
    size_t len = strnlen(status, sizeof line->end.status - 1);
    memcpy(line->end.status, status, len);
    line->end.status[len] = '\0';
    return read_fields(object, end_fields, &line->end);
}

static const char *read_object(const cJSON *object, struct rep_line *line)
{
    const char *kind = cJSON_GetStringValue(member(object, "kind"));
    if (!kind)
        return "has no kind";
    if (strcmp(kind, "step") == 0)
        return read_step(object, line);
    if (strcmp(kind, "evaluation") == 0) {
        line->kind = REP_LINE_EVALUATION;
        return read_fields(object, evaluation_fields, &line->evaluation);
    }
    return strcmp(kind, "end") == 0 ? read_end(object, line) : "is of an unknown kind";
}

/* The whole text as one object, or NULL: what follows an object would be another run's. */
static cJSON *parse_object(const char *text, size_t len)
{
    const char *stop = text;
    cJSON *value = cJSON_ParseWithLengthOpts(text, len, &stop, 0);
    size_t used = !value ? 0 : (size_t)(stop - text);
    while (used < len && strchr(" \t\r\n", text[used]) && text[used] != '\0')
        used++;
    if (!value || used < len || !cJSON_IsObject(value)) {
        cJSON_Delete(value);
        return NULL;
    }
    return value;
}

const char *rep_parse_line(const char *text, size_t len, struct rep_line *line)
{
    memset(line, 0, sizeof *line);
    cJSON *object = parse_object(text, len);
    if (!object)
        return "is no complete JSON object";
    const char *wrong = read_object(object, line);
    cJSON_Delete(object);
    return wrong;
}

static const char *read_tensors(const cJSON *array, struct rep_run *run)
{
    int count = cJSON_IsArray(array) ? cJSON_GetArraySize(array) : 0;
    if (count <= 0 || count > MOST_TENSORS)
        return count == 0 ? NULL : "too many tensors";
    run->tensors = calloc((size_t)count, sizeof *run->tensors);
    if (!run->tensors)
        return "out of memory";
    const cJSON *tensor;
    cJSON_ArrayForEach(tensor, array)
    {
        struct rep_tensor *to = &run->tensors[run->tensor_count];
        const char *name = cJSON_GetStringValue(member(tensor, "name"));
        to->bytes = NAN;
        const char *wrong =
            read_number(member(tensor, "count"), NULLABLE | NOT_NEGATIVE, &to->count);
        to->name = wrong ? NULL : strdup(!name ? "?" : name);
        if (!to->name)
            return wrong ? "a tensor without a count" : "out of memory";
        run->tensor_count++;
    }
    return NULL;
}

static const char *read_about(const cJSON *object, struct rep_run *run)
{
    double format;
    if (read_number(member(object, "format"), MUST, &format) || format != 1)
        return "not of format 1";
    for (size_t i = 0; i < sizeof run_texts / sizeof run_texts[0]; i++) {
        const char *value = cJSON_GetStringValue(member(object, run_texts[i].key));
        if (!value)
            continue;
        char *copy = strdup(value);
        if (!copy)
            return "out of memory";
        memcpy((char *)run + run_texts[i].offset, &copy, sizeof copy);
    }
    const char *wrong = read_fields(object, run_fields, run);
    return wrong ? "a number is missing or out of range"
                 : read_tensors(member(object, "tensors"), run);
}

const char *rep_parse_about(const char *text, size_t len, struct rep_run *run)
{
    cJSON *object = parse_object(text, len);
    if (!object)
        return "no complete JSON object";
    const char *wrong = read_about(object, run);
    cJSON_Delete(object);
    return wrong;
}
