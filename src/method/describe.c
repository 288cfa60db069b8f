/* What a spec chooses, for callers that must know it before there is a method. */
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/spec.h"
#include "method/method.h"

struct choice {
    struct tsi_settings settings;
    struct tsi_stages stages;
    terse_codec_about codec;
    char codec_spec[TERSE_MAX_CODEC_SPEC];
    const struct tsi_combine_ops *combine;
};

static terse_status read_choice(const char *spec, struct choice *out, terse_fault *fault)
{
    if (!spec)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "spec is NULL");
    terse_status status = tsi_stages_read(spec, &out->settings, &out->stages, fault);
    if (status == TERSE_OK)
        status = tsi_codec_read(out->stages.codec, &out->codec, out->codec_spec, fault);
    if (status == TERSE_OK)
        status = tsi_stages_combine(&out->stages, &out->codec, &out->combine, fault);
    return status;
}

terse_status terse_method_check(const char *spec, terse_fault *fault)
{
    struct choice choice;
    return read_choice(spec, &choice, fault);
}

static void describe(const struct choice *choice, terse_method_description *out)
{
    const struct tsi_settings *const settings = &choice->settings;
    const struct tsi_stages *const stages = &choice->stages;
    const enum tsi_owner_kind owner = tsi_stages_owner(stages, choice->combine);
    terse_codec_about back;
    *out = (terse_method_description){
        .name = settings->row->name,
        .point = stages->update == TSI_UPDATE_REPLACE  ? "Q_x(x)"
                 : stages->point == TSI_POINT_DETACHED ? "x - lambda e"
                                                       : "x",
        .direction = tsi_directions[stages->direction].name,
        .feedback = stages->residual ? "residual" : "none",
        .unit = stages->unit == TSI_UNIT_WEIGHT ? "weights" : "gradients",
        .scope = stages->model ? "model" : "tensor",
        .combine = choice->combine->name,
        .update = tsi_update_names[stages->update],
        .owner = owner == TSI_OWNER_WEIGHTS    ? TERSE_OWNER_WEIGHTS
                 : owner == TSI_OWNER_RESIDUAL ? TERSE_OWNER_RESIDUAL
                                               : TERSE_OWNER_NONE,
        .passes = choice->codec.passes,
        .dynamic_bits = (uint32_t)settings->row->dynamic,
        .votes = (uint32_t)tsi_votes(&choice->codec, choice->combine),
        .has_gradient = tsi_stages_gradient(settings, stages, NULL) == TERSE_OK,
        .has_eval_weights = (uint32_t)settings->row->deploys,
        .has_plain = tsi_has_plain(&choice->codec, choice->combine) && !stages->model,
        .has_buckets = settings->value[TSI_CLIP] == 0 && !stages->local,
        .needs_steps = tsi_settings_need_steps(settings) != NULL,
        .local_steps = stages->local ? (uint32_t)settings->value[TSI_EVERY] : 1,
        .min = stages->min,
        .lr = settings->value[TSI_LR],
    };
    (void)snprintf(out->codec, sizeof out->codec, "%s", choice->codec_spec);
    if (stages->back[0] != '\0')
        (void)!tsi_codec_read(stages->back, &back, out->back, NULL);
    (void)tsi_settings_write(settings, UINT64_MAX, out->spec, sizeof out->spec);
}

terse_status terse_method_describe(const char *spec, terse_method_description *out,
                                   terse_fault *fault)
{
    struct choice choice;
    terse_method_description all;
    if (!out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "out is NULL");
    if (out->size < sizeof out->size || out->size > sizeof *out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "out->size is %zu, not sizeof(terse_method_description)", out->size);
    const terse_status status = read_choice(spec, &choice, fault);
    if (status != TERSE_OK)
        return status;
    describe(&choice, &all);
    all.size = out->size;
    memcpy(out, &all, out->size);
    return TERSE_OK;
}

/* ---- entries ---- */

static int entry_at(const struct tsi_settings *settings, uint32_t index, terse_method_entry *out)
{
    const struct tsi_method_row *const row = settings->row;
    for (int w = TSI_WORDS; w-- > 0;) {
        if (settings->word[w][0] == '\0' || index-- > 0)
            continue;
        *out = (terse_method_entry){.name = tsi_word_names[w], .is_given = 1, .is_stage = 1};
        (void)snprintf(out->value, sizeof out->value, "%s", settings->word[w]);
        return 1;
    }
    if (index >= row->option_count)
        return 0;
    const terse_option option = tsi_setting_option(&row->options[index]);
    *out = (terse_method_entry){.name = option.name,
                                .number = settings->value[row->options[index].which],
                                .is_given = settings->given >> index & 1u};
    tsi_spec_value(&option, out->number, out->value, sizeof out->value);
    return 1;
}

/* The entry of that name, or number `index` where there is no name. */
static terse_status find_entry(const char *spec, const char *name, uint32_t index,
                               terse_method_entry *out, terse_fault *fault)
{
    struct choice choice;
    terse_method_entry entry;
    const terse_status status = read_choice(spec, &choice, fault);
    if (status != TERSE_OK)
        return status;
    while (entry_at(&choice.settings, index++, &entry)) {
        if (name && strcmp(entry.name, name) != 0)
            continue;
        *out = entry;
        return TERSE_OK;
    }
    return name ? tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "%s has no '%.64s'",
                           choice.settings.row->name, name)
                : tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "there is no entry %u", index - 1);
}

terse_status terse_method_entry_at(const char *spec, uint32_t index, terse_method_entry *out,
                                   terse_fault *fault)
{
    if (!out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "out is NULL");
    return find_entry(spec, NULL, index, out, fault);
}

terse_status terse_method_entry_of(const char *spec, const char *name, terse_method_entry *out,
                                   terse_fault *fault)
{
    if (!name || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "name or out is NULL");
    return find_entry(spec, name, 0, out, fault);
}

terse_status terse_method_spec_with(const char *spec, const char *options, int replace, char *out,
                                    size_t cap, terse_fault *fault)
{
    struct choice choice;
    char text[TERSE_MAX_METHOD_SPEC];
    if (!options || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "options or out is NULL");
    terse_status status = read_choice(spec, &choice, fault);
    if (status == TERSE_OK)
        status = tsi_settings_set(&choice.settings, options, replace, fault);
    if (status != TERSE_OK)
        return status;
    const size_t len =
        tsi_settings_write(&choice.settings, choice.settings.given, text, sizeof text);
    if (len >= sizeof text || len >= cap)
        return tsi_fail(fault, TERSE_TOO_SMALL, 0, "the spec has %zu bytes, room for %zu", len,
                        cap < sizeof text ? cap : sizeof text);
    status = terse_method_check(text, fault);
    if (status == TERSE_OK)
        memcpy(out, text, len + 1);
    return status;
}
