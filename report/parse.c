#include "parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

enum {
    MUST = 1,         /* the key is required */
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
    STEP(bytes_sent, MUST | NOT_NEGATIVE),
    STEP(dense_bytes, MUST | NOT_NEGATIVE),
    STEP(residual_norm, NULLABLE),
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
    EVALUATION(bytes_sent_total, NULLABLE | NOT_NEGATIVE),
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
    {"terse", offsetof(struct rep_run, version)}, {"command", offsetof(struct rep_run, command)},
    {"method", offsetof(struct rep_run, method)}, {"model", offsetof(struct rep_run, model)},
    {"data", offsetof(struct rep_run, data)},     {"kernels", offsetof(struct rep_run, kernels)},
};

const char *const rep_stage_names[REP_STAGES] = {
    "compute", "direction", "encode", "wire", "group", "combine", "decode", "update",
};

static const char *read_number(const com_json *value, int rules, double *out)
{
    *out = NAN;
    if (!value)
        return rules & MUST ? "lacks a number" : NULL;
    if (com_json_is_null(value))
        return rules & NULLABLE ? NULL : "has null where a number must be";
    if (!com_json_is_number(value))
        return "has another type where a number must be";
    double number;
    if (!com_json_real(value, &number) || (rules & NOT_NEGATIVE && number < 0) ||
        (rules & PART && number > 1))
        return "has a number out of range";
    *out = number;
    return NULL;
}

static const char *read_fields(const com_json *object, const struct field *fields, void *out)
{
    for (; fields->key; fields++) {
        double value;
        const char *wrong = read_number(com_json_get(object, fields->key), fields->rules, &value);
        if (wrong)
            return wrong;
        memcpy((char *)out + fields->offset, &value, sizeof value);
    }
    return NULL;
}

static const char *read_stages(const com_json *object, double *stages)
{
    for (size_t i = 0; i < REP_STAGES; i++)
        stages[i] = NAN;
    if (!object || com_json_is_null(object))
        return NULL;
    if (!com_json_is_object(object))
        return "has stages that are not an object";
    for (size_t i = 0; i < REP_STAGES; i++) {
        const com_json *value = com_json_get(object, rep_stage_names[i]);
        const char *wrong = read_number(value, NULLABLE | NOT_NEGATIVE, &stages[i]);
        if (wrong)
            return wrong;
        stages[i] = isnan(stages[i]) ? 0 : stages[i];
    }
    return NULL;
}

static const char *read_tensor_bytes(const com_json *array, struct rep_line *line)
{
    if (!array || com_json_is_null(array))
        return NULL;
    const size_t count = com_json_count(array);
    if (!com_json_is_array(array) || count > MOST_TENSORS)
        return "has tensor_bytes that are not a list, or one that is too long";
    double *bytes = calloc(count + 1, sizeof *bytes);
    if (!bytes)
        return "does not fit into memory";
    size_t i = 0;
    for (const com_json *value = com_json_first(array); value; value = com_json_next(value)) {
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

static const char *read_step(const com_json *object, struct rep_line *line)
{
    line->kind = REP_LINE_STEP;
    const char *wrong = read_fields(object, step_fields, &line->step);
    if (!wrong)
        wrong = read_stages(com_json_get(object, "stages"), line->step.stages);
    return wrong ? wrong : read_tensor_bytes(com_json_get(object, "tensor_bytes"), line);
}

static const char *read_end(const com_json *object, struct rep_line *line)
{
    line->kind = REP_LINE_END;
    const char *status = com_json_text(com_json_get(object, "status"));
    if (!status)
        return "has no status";
    size_t len = strnlen(status, sizeof line->end.status - 1);
    memcpy(line->end.status, status, len);
    line->end.status[len] = '\0';
    return read_fields(object, end_fields, &line->end);
}

static const char *read_object(const com_json *object, struct rep_line *line)
{
    const char *kind = com_json_text(com_json_get(object, "kind"));
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

/* The whole text as one object, or NULL: bytes after an object would be another run's. */
static com_json *parse_object(const char *text, size_t len)
{
    com_json *value = NULL;
    if (com_json_parse("", text, len, &value, NULL) != TERSE_OK)
        return NULL;
    if (com_json_is_object(value))
        return value;
    com_json_free(value);
    return NULL;
}

const char *rep_parse_line(const char *text, size_t len, struct rep_line *line)
{
    memset(line, 0, sizeof *line);
    com_json *object = parse_object(text, len);
    if (!object)
        return "is not a complete JSON object";
    const char *wrong = read_object(object, line);
    com_json_free(object);
    return wrong;
}

static const char *read_tensors(const com_json *array, struct rep_run *run)
{
    const size_t count = com_json_is_array(array) ? com_json_count(array) : 0;
    if (count == 0 || count > MOST_TENSORS)
        return count == 0 ? NULL : "too many tensors";
    run->tensors = calloc(count, sizeof *run->tensors);
    if (!run->tensors)
        return "out of memory";
    for (const com_json *tensor = com_json_first(array); tensor; tensor = com_json_next(tensor)) {
        struct rep_tensor *to = &run->tensors[run->tensor_count];
        const char *name = com_json_text(com_json_get(tensor, "name"));
        to->bytes = NAN;
        const char *wrong =
            read_number(com_json_get(tensor, "count"), NULLABLE | NOT_NEGATIVE, &to->count);
        to->name = wrong ? NULL : strdup(!name ? "?" : name);
        if (!to->name)
            return wrong ? "a tensor without a count" : "out of memory";
        run->tensor_count++;
    }
    return NULL;
}

static const char *read_about(const com_json *object, struct rep_run *run)
{
    double format;
    if (read_number(com_json_get(object, "format"), MUST, &format) || format != 1)
        return "not of format 1";
    for (size_t i = 0; i < sizeof run_texts / sizeof run_texts[0]; i++) {
        const char *value = com_json_text(com_json_get(object, run_texts[i].key));
        if (!value)
            continue;
        char *copy = strdup(value);
        if (!copy)
            return "out of memory";
        memcpy((char *)run + run_texts[i].offset, &copy, sizeof copy);
    }
    const char *wrong = read_fields(object, run_fields, run);
    return wrong ? "a number is missing or out of range"
                 : read_tensors(com_json_get(object, "tensors"), run);
}

const char *rep_parse_about(const char *text, size_t len, struct rep_run *run)
{
    com_json *object = parse_object(text, len);
    if (!object)
        return "not a complete JSON object";
    const char *wrong = read_about(object, run);
    com_json_free(object);
    return wrong;
}
