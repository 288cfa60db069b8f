/* A collective: what the stages of a method mean for codec, combine and tensors that travel plain,
 * and the agreement of all ranks that it means the same everywhere. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "group/group.h"
#include "kernels/bind.h"
#include "method/method.h"

/* What workers must have in common, in the order in which differences are named. */
enum {
    SETTING_STATUS, /* 0, or why a worker has no collective */
    SETTING_VERSION,
    SETTING_LAYOUT,
    SETTING_METHOD,
    SETTING_CODEC,
    SETTING_BACK,
    SETTING_COMBINE,
    SETTING_FEEDBACK,
    SETTING_TIE,
    SETTING_PLAIN,
    SETTING_SEED,
    SETTING_COMPARE,
    SETTING_WEIGHTS,
    SETTING_WEIGHTED, /* 1: workers have weights of their own */
    SETTINGS,
    SETTING_WEIGHT = SETTINGS, /* this worker's: the only number that may differ */
    RECORD_LEN
};

_Static_assert(RECORD_LEN < TSI_MAX_RECORD, "settings and their check are one record");

static const char *const setting_names[SETTINGS] = {
    [SETTING_STATUS] = "status",
    [SETTING_VERSION] = "version",
    [SETTING_LAYOUT] = "layout",
    [SETTING_METHOD] = "method",
    [SETTING_CODEC] = "codec",
    [SETTING_BACK] = "codec of the way back",
    [SETTING_COMBINE] = "combine",
    [SETTING_FEEDBACK] = "feedback",
    [SETTING_TIE] = "tie rule",
    [SETTING_PLAIN] = "choice of plain tensors",
    [SETTING_SEED] = "seed",
    [SETTING_COMPARE] = "compare_every",
    [SETTING_WEIGHTS] = "initial weights",
    [SETTING_WEIGHTED] = "use of worker_weight",
};

/* ---- choices ---- */

/* Does one of the patterns, separated by '|', match the name? */
static int matches(const char *patterns, const char *name)
{
    char pattern[TERSE_MAX_NAME + 1];
    while (patterns && *patterns != '\0') {
        const size_t len = strcspn(patterns, "|");
        if (len < sizeof pattern) {
            memcpy(pattern, patterns, len);
            pattern[len] = '\0';
            if (fnmatch(pattern, name, 0) == 0)
                return 1;
        }
        patterns += len + (patterns[len] == '|');
    }
    return 0;
}

static terse_status choose_plain(struct tsi_collective *in, const struct tsi_stages *stages,
                                 terse_fault *fault)
{
    const uint32_t tensors = terse_layout_tensors(in->layout);
    if (stages->min == 0 && !stages->plain)
        return TERSE_OK;
    in->plain = calloc((size_t)tensors + 1, 1);
    if (!in->plain)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    for (uint32_t t = 0; t < tensors; t++) {
        terse_tensor tensor = {0};
        if (terse_layout_tensor(in->layout, t, &tensor) == TERSE_OK)
            in->plain[t] = tensor.count < stages->min || matches(stages->plain, tensor.name);
    }
    return TERSE_OK;
}

/* The codec's complete spec, traits and limit, from one made for the purpose. */
static terse_status read_codec(struct tsi_collective *in, const char *spec, terse_fault *fault)
{
    terse_codec *codec;
    const terse_status status =
        terse_codec_create(spec, in->layout, &in->codec_options, &codec, fault);
    if (status != TERSE_OK)
        return status;
    terse_codec_describe(codec, &in->about);
    in->codec_limit = tsi_codec_limit(codec);
    in->codec_spec = strdup(terse_codec_spec(codec));
    terse_codec_destroy(codec);
    return in->codec_spec ? TERSE_OK : tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
}

/* Owners keep a residual of their own, or the weights; state that a method has for it. Dense
 * aggregates grow in the caller's buffer where they are wanted there, else in one of the method's.
 */
static terse_status choose(terse_method *method, struct tsi_collective *in, int which,
                           terse_fault *fault)
{
    struct tsi_stages stages = method->stages;
    struct tsi_buffers *const buffers = &method->buffers;
    const int in_output = method->options.aggregate_out && buffers->weights;
    if (which == TSI_WARM_UP) { /* everything as f32 */
        memcpy(stages.codec, "f32", sizeof "f32");
        stages.combine = stages.update == TSI_UPDATE_REPLACE ? "shard" : "allreduce";
        stages.min = 0;
        stages.model = 0;
        stages.plain = NULL;
    }
    terse_status status = tsk_bound(&in->kernel, fault);
    if (status == TERSE_OK)
        status = read_codec(in, stages.codec, fault);
    if (status == TERSE_OK)
        status = tsi_stages_combine(&stages, &in->about, &in->combine, fault);
    if (status == TERSE_OK)
        status = choose_plain(in, &stages, fault);
    if (status != TERSE_OK)
        return status;
    in->buckets.cut = stages.model ? TSI_CUT_MODEL : in->combine->cut;
    in->owner.kind = tsi_stages_owner(&method->stages, in->combine);
    const int owns = in->owner.kind != TSI_OWNER_MEAN;
    if (!tsi_buffer_make(&buffers->owner.now, owns, method->count) ||
        !tsi_buffer_make(&buffers->owner.next, owns, method->count) ||
        !tsi_buffer_make(&buffers->dense, !in_output, method->count))
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    in->dense = in_output ? buffers->weights : buffers->dense;
    return TERSE_OK;
}

/* ---- agreement ---- */

static uint64_t hash_text(const char *text)
{
    return text ? tsi_hash64(text, strlen(text)) : 0;
}

static void write_settings(const terse_method *method, struct tsi_collective *in,
                           uint64_t out[RECORD_LEN])
{
    const terse_method_options *const options = &method->options;
    out[SETTING_VERSION] = TERSE_FRAME_VERSION;
    out[SETTING_LAYOUT] = terse_layout_hash(in->layout);
    out[SETTING_METHOD] =
        (hash_text(method->spec) ^ options->steps * UINT64_C(0x9E3779B97F4A7C15)) +
        options->aggregate_out;
    out[SETTING_CODEC] = hash_text(in->codec_spec);
    out[SETTING_BACK] = hash_text(in->back_spec);
    out[SETTING_COMBINE] = hash_text(in->combine->name);
    out[SETTING_FEEDBACK] = (uint64_t)method->stages.residual;
    out[SETTING_TIE] = (uint64_t)in->owner.tie_coin;
    out[SETTING_PLAIN] = in->plain ? tsi_hash64(in->plain, terse_layout_tensors(in->layout)) : 0;
    out[SETTING_SEED] = in->key.seed;
    out[SETTING_COMPARE] = options->compare_every;
    if (!options->aggregate_out)
        out[SETTING_WEIGHTS] = tsi_hash64(method->buffers.weights, method->count * sizeof(float));
    in->run = tsi_hash64(out, SETTING_WEIGHTED * sizeof *out);
    out[SETTING_WEIGHTED] = options->worker_weight != 0;
    memcpy(&out[SETTING_WEIGHT], &options->worker_weight, sizeof options->worker_weight);
    (void)snprintf(in->settings, sizeof in->settings, "codec=%s combine=%s feedback=%s%s",
                   in->codec_spec, in->combine->name, method->stages.residual ? "residual" : "none",
                   in->buckets.cut == TSI_CUT_MODEL ? " scope=model" : "");
}

terse_status tsi_collective_create(terse_method *method, int which, terse_fault *fault)
{
    const int warm = which == TSI_WARM_UP;
    uint64_t settings[RECORD_LEN] = {0};
    struct tsi_collective *const in = calloc(1, sizeof *in);
    method->collective[which] = in;
    if (!in)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    in->group = method->group;
    in->rank = method->rank;
    in->workers = method->workers;
    in->layout = method->layout;
    in->buckets.tensor_bytes = method->step.tensor_bytes + terse_layout_tensors(method->layout);
    in->unchecked = method->group->in_process || method->workers == 1;
    in->key = (terse_rng_key){.seed = method->options.seed, .worker = method->rank};
    in->codec_options.threads = method->options.threads;
    in->owner.tie_coin = method->stages.tie_coin;
    in->take = method->buffers.residual.now;
    in->rule = method->bits && !warm ? &method->rule : NULL;
    if (method->stages.update == TSI_UPDATE_REPLACE)
        in->back_spec = warm ? "f32" : method->stages.back;
    method->failed = choose(method, in, which, &method->cause);
    if (method->failed == TERSE_OK)
        write_settings(method, in, settings);
    settings[SETTING_STATUS] = (uint64_t) - (int64_t)method->failed;
    return tsi_agreement_post(&method->agreement, TSI_RECORD_SETTINGS, 0, 0, settings, RECORD_LEN,
                              fault);
}

/* w_k K / sum w for all ranks, from their records: all ranks compute the same bits. Equal weights
 * are none. */
static terse_status read_weights(terse_method *method, struct tsi_collective *in,
                                 terse_fault *fault)
{
    struct tsi_buffers *const buffers = &method->buffers;
    const uint32_t workers = method->workers;
    double first = 0;
    double sum = 0;
    int differ = 0;
    for (uint32_t r = 0; r < workers; r++) {
        double weight;
        memcpy(&weight, (const uint64_t *)method->agreement.at[r] + SETTING_WEIGHT, sizeof weight);
        first = r == 0 ? weight : first;
        differ |= weight != first;
        sum += weight / workers;
    }
    if (!differ)
        return TERSE_OK;
    const int apart = in->combine != &tsi_combine_allreduce;
    if (!isfinite(sum) || !tsi_buffer_make(&buffers->worker_weight, 1, workers) ||
        !tsi_buffer_make(&buffers->one, apart, method->count))
        return tsi_fail(fault, isfinite(sum) ? TERSE_NO_MEMORY : TERSE_BAD_ARGUMENT, 0,
                        isfinite(sum) ? "out of memory" : "worker_weight: the sum is not finite");
    for (uint32_t r = 0; r < workers; r++) {
        double weight;
        memcpy(&weight, (const uint64_t *)method->agreement.at[r] + SETTING_WEIGHT, sizeof weight);
        buffers->worker_weight[r] = (float)(weight / sum);
    }
    in->weighting = (struct tsi_weighting){buffers->worker_weight, buffers->one};
    return TERSE_OK;
}

/* The first difference from rank 0, named. */
static terse_status compare(const struct tsi_agreement *agreement, terse_fault *fault)
{
    const uint64_t *const first = agreement->at[0];
    terse_status status = TERSE_OK;
    for (uint32_t r = 0; r < agreement->workers && status == TERSE_OK; r++) {
        const uint64_t *const theirs = agreement->at[r];
        if (!theirs)
            status =
                tsi_fail(fault, TERSE_BAD_CHECKSUM, 0, "rank %u: its settings arrived damaged", r);
        else if (theirs[SETTING_STATUS] != 0)
            status = tsi_fail(fault, TERSE_MISMATCH, 0,
                              "rank %u: could not make its part of the method", r);
        for (size_t i = 0; i < SETTINGS && status == TERSE_OK; i++)
            if (theirs[i] != first[i])
                status = tsi_fail(fault, TERSE_MISMATCH, 0, "rank %u: its %s differs from rank 0's",
                                  r, setting_names[i]);
        if (status != TERSE_OK)
            fault->rank = (int32_t)r;
    }
    return status;
}

terse_status tsi_collective_agree(terse_method *method, int which, terse_fault *fault)
{
    terse_fault theirs = {.rank = -1};
    terse_status status = tsi_agreement_wait(&method->agreement, &theirs);
    if (status == TERSE_OK)
        status = compare(&method->agreement, &theirs);
    if (status == TERSE_OK)
        status = read_weights(method, method->collective[which], &theirs);
    if (fault && (method->failed != TERSE_OK || status != TERSE_OK))
        *fault = method->failed != TERSE_OK ? method->cause : theirs;
    return method->failed != TERSE_OK ? method->failed : status;
}

void tsi_collective_refuse(terse_group *group, terse_status why)
{
    struct tsi_agreement agreement = {0};
    uint64_t settings[RECORD_LEN] = {[SETTING_STATUS] = (uint64_t) - (int64_t)why};
    if (tsi_agreement_create(&agreement, group) == TERSE_OK &&
        tsi_agreement_post(&agreement, TSI_RECORD_SETTINGS, 0, 0, settings, RECORD_LEN, NULL) ==
            TERSE_OK)
        (void)!tsi_agreement_wait(&agreement, NULL);
    tsi_agreement_destroy(&agreement);
}

void tsi_collective_destroy(struct tsi_collective *in)
{
    if (!in)
        return;
    for (uint32_t i = 0; i < in->buckets.count; i++)
        tsi_bucket_destroy(in->buckets.list[i]);
    free(in->buckets.list);
    free(in->codec_spec);
    free(in->plain);
    free(in);
}
