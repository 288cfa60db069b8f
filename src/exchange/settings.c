/* What the options mean: names to tables, defaults by the codec's traits, refusals with a reason.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "exchange/exchange.h"

static const struct tsi_combine_ops *combine_named(const char *name)
{
    for (size_t i = 0; i < tsi_combine_count; i++)
        if (strcmp(tsi_combines[i]->name, name) == 0)
            return tsi_combines[i];
    return NULL;
}

/* Sums where payloads add up, a vote on signs, the exact union of what was selected, else shards.
 */
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

static terse_status choose_combine(terse_exchange *exchange, const char *name, terse_fault *fault)
{
    const terse_codec_about *const codec = &exchange->room.about;
    exchange->combine = name ? combine_named(name) : combine_for(codec);
    if (!exchange->combine) {
        const char *names[8];
        for (size_t i = 0; i < tsi_combine_count; i++)
            names[i] = tsi_combines[i]->name;
        const char *const nearest = tsi_spec_nearest(name, strlen(name), names, tsi_combine_count);
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "no combine '%.64s'; %s '%s'%s", name,
                        nearest ? "did you mean" : "there is", nearest ? nearest : "allreduce",
                        nearest ? "?" : "");
    }
    const char *const why = exchange->combine->refuses(codec);
    if (why)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "combine %s is not for codec %s: %s",
                        exchange->combine->name, codec->name, why);
    return TERSE_OK;
}

/* Residual memory only where it stays bounded: with contractive codecs. f32 leaves nothing unsaid.
 */
static terse_status choose_memory(terse_exchange *exchange, const struct tsi_exchange_plan *plan,
                                  terse_fault *fault)
{
    const char *const name = plan->options->feedback;
    const terse_codec_about *const codec = &exchange->room.about;
    const int contractive = (codec->traits & TERSE_CODEC_CONTRACTIVE) != 0;
    const int exact = contractive && codec->traits & TERSE_CODEC_UNBIASED;
    const size_t count = (size_t)terse_layout_count(exchange->room.layout);
    int residual = contractive && !exact;
    if (name && strcmp(name, "none") == 0)
        residual = 0;
    else if (name && strcmp(name, "residual") != 0)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "feedback is residual or none, not '%.64s'",
                        name);
    else if (name && !contractive)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "memory with codec %s would grow without bound: it is not contractive",
                        codec->name);
    else if (name)
        residual = 1;
    if (!residual)
        return TERSE_OK;
    exchange->own_memory = plan->memory ? NULL : calloc(count + 1, sizeof(float));
    exchange->room.memory = plan->memory ? plan->memory : exchange->own_memory;
    if (!exchange->room.memory)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    if (exchange->combine->cut == TSI_CUT_WHOLE || plan->back)
        return TERSE_OK;
    exchange->room.owner_memory = calloc(count + 1, sizeof(float));
    return exchange->room.owner_memory ? TERSE_OK
                                       : tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
}

static terse_status choose_tie(terse_exchange *exchange, const char *name, terse_fault *fault)
{
    exchange->room.tie_coin = !name || strcmp(name, "coin") == 0;
    if (name && !exchange->room.tie_coin && strcmp(name, "plus") != 0)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0, "tie is coin or plus, not '%.64s'", name);
    return TERSE_OK;
}

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

/* Which tensors travel plain. */
static terse_status choose_policy(terse_exchange *exchange, const terse_exchange_options *options,
                                  terse_fault *fault)
{
    const terse_layout *const layout = exchange->room.layout;
    const uint32_t tensors = terse_layout_tensors(layout);
    if (options->min == 0 && !options->plain)
        return TERSE_OK;
    if (exchange->combine == &tsi_combine_vote)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "signs are voted on everywhere: no min, no plain");
    if (exchange->combine == &tsi_combine_sparse_allreduce)
        return tsi_fail(fault, TERSE_BAD_SPEC, 0,
                        "combine sparse-allreduce carries no plain tensors: allgather");
    exchange->plain = calloc((size_t)tensors + 1, 1);
    if (!exchange->plain)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    for (uint32_t t = 0; t < tensors; t++) {
        terse_tensor tensor = {0};
        if (terse_layout_tensor(layout, t, &tensor) == TERSE_OK)
            exchange->plain[t] =
                tensor.count < options->min || matches(options->plain, tensor.name);
    }
    exchange->room.plain = exchange->plain;
    return TERSE_OK;
}

static uint64_t hash_text(const char *text)
{
    return text ? tsi_hash64(text, strlen(text)) : 0;
}

static void write_record(terse_exchange *exchange, const struct tsi_exchange_plan *plan)
{
    const struct tsi_room *const room = &exchange->room;
    uint64_t *const record = exchange->record;
    record[TSI_AGREE_VERSION] = TERSE_FRAME_VERSION;
    record[TSI_AGREE_LAYOUT] = terse_layout_hash(room->layout);
    record[TSI_AGREE_METHOD] = plan->method_hash;
    record[TSI_AGREE_CODEC] = hash_text(room->codec_spec);
    record[TSI_AGREE_BACK] = hash_text(room->back_spec);
    record[TSI_AGREE_COMBINE] = hash_text(exchange->combine->name);
    record[TSI_AGREE_MEMORY] = room->memory != NULL;
    record[TSI_AGREE_TIE] = (uint64_t)room->tie_coin;
    record[TSI_AGREE_POLICY] =
        room->plain ? tsi_hash64(room->plain, terse_layout_tensors(room->layout)) : 0;
    record[TSI_AGREE_SEED] = room->draw.seed;
    record[TSI_AGREE_COMPARE] = exchange->compare_every;
    record[TSI_AGREE_WEIGHTS] = plan->weights_hash;
    exchange->settings_hash = tsi_hash64(record, sizeof exchange->record);
    (void)snprintf(exchange->settings, sizeof exchange->settings, "codec=%s combine=%s feedback=%s",
                   room->codec_spec, exchange->combine->name, room->memory ? "residual" : "none");
}

/* The codec's complete spec and traits, from one made for the purpose. */
static terse_status read_codec(terse_exchange *exchange, const char *spec, terse_fault *fault)
{
    terse_codec *codec;
    const terse_status status = terse_codec_create(spec, exchange->room.layout,
                                                   &exchange->room.codec_options, &codec, fault);
    if (status != TERSE_OK)
        return status;
    terse_codec_describe(codec, &exchange->room.about);
    (void)snprintf(exchange->settings, sizeof exchange->settings, "%s", terse_codec_spec(codec));
    terse_codec_destroy(codec);
    exchange->room.codec_spec = strdup(exchange->settings);
    return exchange->room.codec_spec ? TERSE_OK
                                     : tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
}

/* A sparse answer grows in a buffer that is 0 between steps: the exchange's own. */
static terse_status choose_sum(terse_exchange *exchange, const struct tsi_exchange_plan *plan,
                               terse_fault *fault)
{
    struct tsi_room *const room = &exchange->room;
    room->sum = exchange->combine->touch ? NULL : plan->answer;
    if (!room->sum)
        room->sum = exchange->own_sum =
            calloc((size_t)terse_layout_count(room->layout) + 1, sizeof(float));
    return room->sum ? TERSE_OK : tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
}

terse_status tsi_exchange_settle(terse_exchange *exchange, const terse_layout *layout,
                                 const struct tsi_exchange_plan *plan, terse_fault *fault)
{
    const terse_exchange_options *const options = plan->options;
    struct tsi_room *const room = &exchange->room;
    terse_status status = tsi_layout_copy(layout, &room->layout);
    room->back_spec = plan->back ? strdup(plan->back) : NULL;
    if (status != TERSE_OK || (plan->back && !room->back_spec))
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    room->host = plan->host;
    room->rule = plan->rule;
    room->codec_options.threads = options->threads;
    room->draw.seed = options->seed;
    exchange->compare_every = options->compare_every;
    exchange->skip_finite_check = options->skip_finite_check != 0;
    status = read_codec(exchange, options->codec ? options->codec : "f32", fault);
    if (status == TERSE_OK)
        status = choose_combine(exchange, options->combine, fault);
    if (status == TERSE_OK)
        status = choose_sum(exchange, plan, fault);
    if (status == TERSE_OK)
        status = choose_memory(exchange, plan, fault);
    if (status == TERSE_OK)
        status = choose_tie(exchange, options->tie, fault);
    if (status == TERSE_OK)
        status = choose_policy(exchange, options, fault);
    if (status == TERSE_OK)
        write_record(exchange, plan);
    return status;
}
