#include "parse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "page.h"

enum {
    MUST = 1,         /* the key is required */
    NULLABLE = 2,     /* null is NaN: a loss that overflowed */
    NOT_NEGATIVE = 4, /* sizes and times */
    PART = 8,         /* 0..1 */
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
    RUN(workers), RUN(seed), RUN(batch), RUN(parameters), RUN(target), {NULL, 0, 0},
};

static const struct {
    const char *key;
    size_t offset;
} run_texts[] = {
    {"terse", offsetof(struct rep_run, version)},   {"command", offsetof(struct rep_run, command)},
    {"train", offsetof(struct rep_run, train)},     {"method", offsetof(struct rep_run, method)},
    {"model", offsetof(struct rep_run, model)},     {"data", offsetof(struct rep_run, data)},
    {"kernels", offsetof(struct rep_run, kernels)},
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

static const char *read_step(const com_json *object, struct rep_line *line)
{
    line->kind = REP_LINE_STEP;
    const char *wrong = read_fields(object, step_fields, &line->step);
    return wrong ? wrong : read_stages(com_json_get(object, "stages"), line->step.stages);
}

static const char *read_tensor_bytes(const com_json *list, struct rep_end *end)
{
    const char *wrong = NULL;
    if (!list || com_json_is_null(list))
        return NULL;
    if (!com_json_is_array(list))
        return "has bytes of tensors that are not a list";
    end->tensor_bytes = calloc(com_json_count(list) + 1, sizeof *end->tensor_bytes);
    if (!end->tensor_bytes)
        return "does not fit into memory";
    for (const com_json *item = com_json_first(list); item && !wrong; item = com_json_next(item))
        wrong = read_number(item, MUST | NOT_NEGATIVE, &end->tensor_bytes[end->tensor_count++]);
    if (wrong) {
        free(end->tensor_bytes);
        end->tensor_bytes = NULL;
    }
    return wrong;
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
    const char *wrong = read_fields(object, end_fields, &line->end);
    return wrong ? wrong : read_tensor_bytes(com_json_get(object, "tensor_bytes"), &line->end);
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

/* Does the key say what was trained? Runs that agree in all of these are repetitions; a key that is
 * not known is taken for one. The list is that of report/page/groups.js. */
static int is_setting(const char *key)
{
    for (const char *const *other = rep_no_settings; *other; other++)
        if (strcmp(key, *other) == 0)
            return 0;
    return 1;
}

/* A text, a number or a flag as text; NULL: it is none of these, or out of memory. */
static char *value_text(const com_json *object, const com_json *item)
{
    const char *text = com_json_text(item);
    char number[32] = "";
    double real;
    int flag;
    if (com_json_real(item, &real))
        snprintf(number, sizeof number, "%.12g", real);
    else if (com_json_get_flag(object, com_json_key(item), &flag))
        snprintf(number, sizeof number, "%s", flag ? "true" : "false");
    return text ? strdup(text) : number[0] != '\0' ? strdup(number) : NULL;
}

static const char *read_settings(const com_json *object, struct rep_settings *settings)
{
    settings->item = calloc(com_json_count(object) + 1, sizeof *settings->item);
    if (!settings->item)
        return "out of memory";
    for (const com_json *item = com_json_first(object); item; item = com_json_next(item)) {
        struct rep_setting *to = &settings->item[settings->count];
        to->value = is_setting(com_json_key(item)) ? value_text(object, item) : NULL;
        if (!to->value)
            continue;
        to->key = strdup(com_json_key(item));
        settings->count++;
        if (!to->key)
            return "out of memory";
    }
    return NULL;
}

static const char *read_tensors(const com_json *list, struct rep_tensors *tensors)
{
    if (!list || com_json_is_null(list))
        return NULL;
    tensors->item = calloc(com_json_count(list) + 1, sizeof *tensors->item);
    if (!tensors->item)
        return "out of memory";
    for (const com_json *item = com_json_first(list); item; item = com_json_next(item)) {
        const char *name = com_json_text(com_json_get(item, "name"));
        struct rep_tensor *to = &tensors->item[tensors->count];
        if (!name || read_number(com_json_get(item, "count"), MUST | NOT_NEGATIVE, &to->count))
            return "a tensor has no name or no count";
        to->name = strdup(name);
        if (!to->name)
            return "out of memory";
        tensors->count++;
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
    if (wrong)
        return "a number is missing or out of range";
    wrong = read_settings(object, &run->settings);
    return wrong ? wrong : read_tensors(com_json_get(object, "tensors"), &run->tensors);
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
