/* From settings to stages: those of a named method are in its row, those of a composed one in the
 * words of its spec. */
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/spec.h"
#include "method/method.h"

/* Those before "replace" may be composed. */
const char *const tsi_update_names[TSI_UPDATE_REPLACE + 1] = {
    [TSI_UPDATE_SGD] = "sgd",           [TSI_UPDATE_SIGNED] = "signed",
    [TSI_UPDATE_SUBTRACT] = "subtract", [TSI_UPDATE_ADAM] = "adam",
    [TSI_UPDATE_REPLACE] = "replace",
};

/* The number of `word` among `words`, or a failure that names them. */
static terse_status number_of(const struct tsi_settings *settings, enum tsi_word which,
                              const char *what, const char *const *words, size_t count, int *out,
                              terse_fault *fault)
{
    const char *const word = settings->word[which];
    for (size_t i = 0; i < count; i++) {
        if (strcmp(word, words[i]) == 0) {
            *out = (int)i;
            return TERSE_OK;
        }
    }
    const char *const nearest = tsi_spec_nearest(word, strlen(word), words, count);
    return tsi_fail(fault, TERSE_BAD_SPEC, settings->at[which], "no %s '%.64s'; did you mean '%s'?",
                    what, word, nearest ? nearest : words[0]);
}

/* An all-reduce where payloads add up, a vote on signs, the exact union of what was selected, else
 * shards. */
static const struct tsi_combine_ops *combine_for(const terse_codec_about *codec)
{
    if (codec->traits & TERSE_CODEC_ADDITIVE)
        return &tsi_combine_allreduce;
    if (!tsi_combine_vote.refuses(codec))
        return &tsi_combine_vote;
    if (codec->traits & TERSE_CODEC_SELECTING || tsi_combine_shard.refuses(codec))
        return &tsi_combine_allgather;
    return &tsi_combine_shard;
}

/* Does a composed method make signs, by name or because that suits its codec? A wrong codec is
 * found later. */
static int composes_signs(const struct tsi_settings *settings)
{
    const char *const word = settings->word[TSI_WORD_COMBINE];
    terse_codec_about codec;
    if (word[0] != '\0' && strcmp(word, "mean") != 0)
        return strcmp(word, tsi_combine_vote.name) == 0;
    return terse_codec_check(settings->word[TSI_WORD_CODEC], &codec, NULL) == TERSE_OK &&
           (codec.traits & TERSE_CODEC_TERNARY || combine_for(&codec) == &tsi_combine_vote);
}

static terse_status compose(const struct tsi_settings *settings, struct tsi_stages *out,
                            terse_fault *fault)
{
    const char *directions[TSI_MAX_DIRECTIONS];
    const char *const direction = settings->word[TSI_WORD_DIRECTION];
    const char *const update = settings->word[TSI_WORD_UPDATE];
    int number = TSI_DIRECTION_GRADIENT;
    terse_status status = TERSE_OK;
    if (settings->word[TSI_WORD_CODEC][0] == '\0')
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "a composed method needs codec=SPEC");
    for (size_t i = 0; i < tsi_direction_count; i++)
        directions[i] = tsi_directions[i].name;
    if (direction[0] != '\0')
        status = number_of(settings, TSI_WORD_DIRECTION, "direction", directions,
                           tsi_direction_count, &number, fault);
    out->direction = (enum tsi_direction)number;
    number = out->direction == TSI_DIRECTION_ADAM ? TSI_UPDATE_SUBTRACT
             : composes_signs(settings)           ? TSI_UPDATE_SIGNED
                                                  : TSI_UPDATE_SGD;
    if (status == TERSE_OK && update[0] != '\0')
        status = number_of(settings, TSI_WORD_UPDATE, "update", tsi_update_names,
                           TSI_UPDATE_REPLACE, &number, fault);
    out->update = (enum tsi_update_kind)number;
    out->unit = out->update == TSI_UPDATE_SUBTRACT ? TSI_UNIT_WEIGHT : TSI_UNIT_GRADIENT;
    out->point = settings->value[TSI_LAMBDA] > 0 ? TSI_POINT_DETACHED : TSI_POINT_WEIGHTS;
    (void)snprintf(out->codec, sizeof out->codec, "%s", settings->word[TSI_WORD_CODEC]);
    return status;
}

static void take_row(const struct tsi_settings *settings, struct tsi_stages *out)
{
    const struct tsi_method_row *const row = settings->row;
    const int exact = settings->value[TSI_KG] == TSI_KG_OFF;
    out->point = row->point;
    out->direction = row->direction;
    out->unit = row->unit;
    out->update = row->update;
    out->combine = row->combine;
    if (settings->value[TSI_EITHER_NESTEROV] != 0 && settings->value[TSI_EVERY] <= 1)
        out->direction = TSI_DIRECTION_NESTEROV;
    tsi_settings_fill(settings, exact ? "f32" : row->codec, out->codec, sizeof out->codec);
    if (row->back && settings->value[TSI_KX] > 0) {
        tsi_settings_fill(settings, row->back, out->back, sizeof out->back);
        out->combine = "shard";
    } else if (row->back) { /* weights are not quantized: every rank holds x itself, and gets every
                               payload, or the sum of those that add up */
        out->update = TSI_UPDATE_SUBTRACT;
        out->combine = exact ? "allreduce" : "allgather";
    }
}

/* The correction of the theory's v would be a product over all steps; with theta = 1 and shift = 0
 * it is 1. The direction of local steps keeps no largest v. */
static terse_status check_adam(const struct tsi_settings *settings, const struct tsi_stages *stages,
                               terse_fault *fault)
{
    if (settings->value[TSI_BIAS] != 0 && settings->value[TSI_RATES] != TSI_RATES_CONSTANT)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "bias=yes is not available with rates=theory: use rates=constant, or "
                        "ramp=300");
    if (settings->value[TSI_AMSGRAD] != 0 && stages->update != TSI_UPDATE_ADAM)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "amsgrad=yes is for Adam as the update, in every step: adam:amsgrad=yes, "
                        "or update=adam, and every=1");
    return TERSE_OK;
}

static terse_status choose_feedback(const struct tsi_settings *settings, struct tsi_stages *out,
                                    terse_fault *fault)
{
    const char *const word = settings->word[TSI_WORD_FEEDBACK];
    const int exact = strcmp(out->codec, "f32") == 0; /* it drops nothing */
    const char *const row = exact ? NULL : settings->row->feedback;
    const char *const name = word[0] != '\0' ? word : row ? row : "none";
    if (strcmp(name, "residual") != 0 && strcmp(name, "none") != 0)
        return tsi_fail(fault, TERSE_BAD_SPEC, settings->at[TSI_WORD_FEEDBACK],
                        "feedback is residual or none, not '%.64s'", name);
    out->residual = strcmp(name, "residual") == 0;
    if (!out->residual && (out->point == TSI_POINT_DETACHED || settings->row->posterior))
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "%s needs feedback=residual",
                        out->point == TSI_POINT_DETACHED ? "lambda > 0" : settings->row->name);
    return TERSE_OK;
}

/* Every H steps: what is exchanged is a change of weights, whatever a single step would send, and
 * the optimizer works on local weights in between. */
static terse_status go_local(const struct tsi_settings *settings, struct tsi_stages *out,
                             terse_fault *fault)
{
    if (settings->value[TSI_EVERY] <= 1)
        return TERSE_OK;
    if (settings->row->no_local_steps)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "every=%.0f is not available with %s: %s",
                        settings->value[TSI_EVERY], settings->row->name,
                        settings->row->no_local_steps);
    if (out->update == TSI_UPDATE_SIGNED)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "every=%.0f is not available with majority vote",
                        settings->value[TSI_EVERY]);
    if (out->update == TSI_UPDATE_ADAM)
        out->direction = TSI_DIRECTION_ADAM;
    else if (out->direction == TSI_DIRECTION_GRADIENT)
        out->direction = TSI_DIRECTION_MOMENTUM;
    out->unit = TSI_UNIT_WEIGHT;
    out->update = TSI_UPDATE_SUBTRACT;
    out->local = 1;
    return TERSE_OK;
}

static terse_status choose_combine(const struct tsi_settings *settings, struct tsi_stages *out,
                                   terse_fault *fault)
{
    const char *const word = settings->word[TSI_WORD_COMBINE];
    if (word[0] == '\0')
        return TERSE_OK;
    const char *const before = out->combine;
    out->combine = strcmp(word, "mean") == 0 ? before : word;
    const int owners = strcmp(word, "shard") == 0 || strcmp(word, "parameter-server") == 0;
    if (settings->row->posterior && owners)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "%s needs an exact combine, where no owner drops an entry: allgather or "
                        "sparse-allreduce",
                        settings->row->name);
    if (out->update == TSI_UPDATE_REPLACE && !owners && strcmp(word, "mean") != 0)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "quantized weights need owners: combine is shard or parameter-server");
    return TERSE_OK;
}

terse_status tsi_stages_read(const char *spec, struct tsi_settings *settings,
                             struct tsi_stages *out, terse_fault *fault)
{
    *out = (struct tsi_stages){0};
    terse_status status = tsi_settings_read(spec, settings, fault);
    if (status != TERSE_OK)
        return status;
    if (settings->row == &tsi_method_composed)
        status = compose(settings, out, fault);
    else
        take_row(settings, out);
    if (status == TERSE_OK)
        status = choose_feedback(settings, out, fault);
    if (status == TERSE_OK)
        status = choose_combine(settings, out, fault);
    if (status == TERSE_OK)
        status = go_local(settings, out, fault);
    if (status == TERSE_OK)
        status = check_adam(settings, out, fault);
    if (status != TERSE_OK)
        return status;
    if ((out->direction == TSI_DIRECTION_MOMENTUM || out->direction == TSI_DIRECTION_NESTEROV) &&
        settings->value[TSI_MOMENTUM] == 0)
        out->direction = TSI_DIRECTION_GRADIENT;
    out->model = settings->value[TSI_SCOPE] != 0;
    out->tie_coin = settings->value[TSI_TIE] == 0;
    out->min = (uint64_t)settings->value[TSI_MIN];
    out->plain = settings->word[TSI_WORD_PLAIN][0] != '\0' ? settings->word[TSI_WORD_PLAIN] : NULL;
    status = terse_codec_check(out->codec, NULL, fault);
    if (status != TERSE_OK && fault)
        fault->offset += settings->at[TSI_WORD_CODEC];
    return status;
}

/* ---- codec and combine together ---- */

/* A residual stays bounded only with contractive codecs, and a median has none; a vote and a sparse
 * all-reduce have one form of payload for all tensors; a selection over all parameters has no
 * tensors to treat apart, and no owner may select once more. */
static terse_status check_together(const struct tsi_stages *stages, const terse_codec_about *codec,
                                   const struct tsi_combine_ops *combine, terse_fault *fault)
{
    const char *const why = combine->refuses(codec);
    if (why)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "combine %s is not for codec %s: %s",
                        combine->name, codec->name, why);
    if (stages->residual && !(codec->traits & TERSE_CODEC_CONTRACTIVE))
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "a residual with codec %s would grow without bound: it is not contractive",
                        codec->name);
    if (stages->residual && combine == &tsi_combine_median)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "combine median has feedback=none: its values are exact");
    if (stages->model && combine->cut != TSI_CUT_WHOLE)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "scope=model is not for combine %s, whose owners select in their slices "
                        "again: use allgather or sparse-allreduce",
                        combine->name);
    if (stages->min == 0 && !stages->plain)
        return TERSE_OK;
    if (stages->model)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "scope=model selects among all parameters together, so that no tensor "
                        "travels plain: leave out min and plain, or use scope=tensor");
    if (tsi_has_plain(codec, combine))
        return TERSE_OK;
    return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                    "combine %s has no plain tensors: leave out min and plain", combine->name);
}

terse_status tsi_stages_combine(const struct tsi_stages *stages, const terse_codec_about *codec,
                                const struct tsi_combine_ops **out, terse_fault *fault)
{
    const char *const name = stages->combine;
    const char *names[8];
    *out = name ? NULL : combine_for(codec);
    for (size_t i = 0; i < tsi_combine_count; i++) {
        names[i] = tsi_combines[i]->name;
        if (name && strcmp(names[i], name) == 0)
            *out = tsi_combines[i];
    }
    if (*out)
        return check_together(stages, codec, *out, fault);
    const char *const nearest = tsi_spec_nearest(name, strlen(name), names, tsi_combine_count);
    return tsi_fail(fault, TERSE_BAD_SPEC, 0, "no combine '%.64s'; %s '%s'%s", name,
                    nearest ? "did you mean" : "there is", nearest ? nearest : "allreduce",
                    nearest ? "?" : "");
}

int tsi_has_plain(const terse_codec_about *codec, const struct tsi_combine_ops *combine)
{
    return combine != &tsi_combine_vote && !(codec->traits & TERSE_CODEC_TERNARY);
}

int tsi_votes(const terse_codec_about *codec, const struct tsi_combine_ops *combine)
{
    return combine == &tsi_combine_vote ||
           (codec->traits & TERSE_CODEC_TERNARY && combine->cut != TSI_CUT_WHOLE);
}

enum tsi_owner_kind tsi_stages_owner(const struct tsi_stages *stages,
                                     const struct tsi_combine_ops *combine)
{
    if (stages->update == TSI_UPDATE_REPLACE)
        return TSI_OWNER_WEIGHTS;
    return stages->residual && combine->cut != TSI_CUT_WHOLE ? TSI_OWNER_RESIDUAL : TSI_OWNER_MEAN;
}

/* ---- what a caller must know ---- */

terse_status tsi_stages_gradient(const struct tsi_settings *settings,
                                 const struct tsi_stages *stages, terse_fault *fault)
{
    if (stages->point == TSI_POINT_DETACHED || stages->update == TSI_UPDATE_REPLACE ||
        stages->update == TSI_UPDATE_ADAM || stages->direction == TSI_DIRECTION_ADAM)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "%s is an optimizer of its own: it has no gradient to hand back",
                        settings->row->name);
    if (stages->local)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "every: a gradient for another optimizer is exchanged in every step");
    if (settings->value[TSI_WD] > 0)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "wd: decay belongs to the optimizer");
    if (settings->value[TSI_REJECT] != 0)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "reject=yes: the optimizer takes the step, and would have to reject it");
    return TERSE_OK;
}

const char *tsi_settings_need_steps(const struct tsi_settings *settings)
{
    const int schedule = (int)settings->value[TSI_SCHEDULE];
    const int bits = (int)settings->value[TSI_BITS];
    if (schedule == TSI_SCHEDULE_STEP || schedule == TSI_SCHEDULE_COSINE)
        return "this schedule";
    if (settings->row->dynamic && (bits == TSI_BITS_AVERAGE || bits == TSI_BITS_ERROR ||
                                   (bits == TSI_BITS_KAPPA && settings->value[TSI_ALPHA] < 1)))
        return "this rule of bits";
    return NULL;
}
