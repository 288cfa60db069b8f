/* The candidates of --method auto make steps of the training, and the fastest one becomes its
 * method. */
#include "loop/auto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARM = 2,  /* steps of a visit that do not count: buffers are new, caches cold */
    TIMED = 5, /* at most; their median counts */
    TURNS = 2, /* of the method to beat and the fastest, after all were visited */
};
static const double visit_seconds = 1; /* after which a visit ends, with a step at least */
static const double as_fast = 0.97;    /* what is not faster by this is not worth a change */
static const double far_ahead = 0.5;   /* what is faster by this needs no further turns */

/* ---- one visit ---- */

struct took {
    double seconds;
    trn_check check;
};

/* The time of the slowest rank. */
static terse_status slowest(struct trn_worker *worker, double seconds, double *out)
{
    struct took mine = {.seconds = seconds};
    struct took all[TERSE_MAX_WORKERS];
    const terse_status status = trn_share(worker->group, TRN_SHARE_TRIAL, worker->step, &mine,
                                          sizeof mine, all, &worker->fault);
    *out = seconds;
    for (uint32_t r = 0; r < worker->run->workers && status == TERSE_OK; r++)
        *out = all[r].seconds > *out ? all[r].seconds : *out;
    return status;
}

static int by_value(const void *a, const void *b)
{
    const double first = *(const double *)a;
    const double second = *(const double *)b;
    return (first > second) - (first < second);
}

/* The median over some steps of the method that the worker has. */
static terse_status time_steps(struct trn_worker *worker, double *out)
{
    double seconds[WARM + TIMED] = {0};
    double sum = 0;
    size_t made = 0;
    terse_status status = TERSE_OK;
    while (made < WARM + TIMED && sum < visit_seconds && status == TERSE_OK) {
        struct trn_step_stats stats = {.broken = -1};
        terse_method_report report = {0};
        double computed = 0;
        const double start = trn_now();
        status = trn_worker_advance(worker, &stats, &report, &computed);
        if (status == TERSE_OK)
            status = slowest(worker, trn_now() - start, &seconds[made]);
        sum += seconds[made++];
        worker->step++;
    }
    const size_t first = made > WARM ? WARM : made - 1;
    qsort(seconds + first, made - first, sizeof *seconds, by_value);
    *out = seconds[first + (made - first) / 2];
    return status;
}

/* How long a step of a method takes. Weights and running statistics are copies meanwhile, and the
 * training's own method rests. */
static terse_status visit(struct trn_worker *worker, const char *spec, double *out)
{
    const struct trn_worker kept = *worker;
    uint64_t count = 0;
    float *const running = trn_net_statistics(worker->net, &count);
    memcpy(worker->statistics, running, count * sizeof(float));
    memcpy(worker->eval_weights, worker->weights, worker->count * sizeof(float));
    worker->weights = worker->eval_weights;
    worker->method = NULL;
    (void)snprintf(worker->spec, sizeof worker->spec, "%s", spec);
    terse_status status = trn_worker_make_method(worker);
    if (status == TERSE_OK)
        status = trn_overlap_start(worker);
    if (status == TERSE_OK)
        status = time_steps(worker, out);
    if (status == TERSE_OK)
        terse_method_destroy(worker->method);
    else
        worker->tried = worker->method; /* the failed group may still use its buffers */
    worker->weights = kept.weights;
    worker->method = kept.method;
    worker->overlap = kept.overlap;
    worker->step = kept.step;
    memcpy(worker->spec, kept.spec, sizeof worker->spec);
    memcpy(running, worker->statistics, count * sizeof(float));
    if (worker->run->settings->pretend)
        *out = worker->run->settings->pretend(spec, worker->step);
    return status;
}

/* ---- the choice ---- */

/* The candidate to take: `now` unless another one is faster by more than 3 % in every turn. The
 * times are the same on all ranks. */
static terse_status measure(struct trn_worker *worker, uint32_t now, double *seconds,
                            uint32_t *chosen)
{
    const struct trn_auto_words *const words = &worker->automatic->words;
    terse_status status = visit(worker, words->method[now], &seconds[now]);
    uint32_t best = now;
    for (uint32_t i = 0; i < words->count && status == TERSE_OK; i++) {
        if (i != now)
            status = visit(worker, words->method[i], &seconds[i]);
        best = seconds[i] < seconds[best] ? i : best;
    }
    const int is_close = seconds[best] >= far_ahead * seconds[now];
    int wins = seconds[best] < as_fast * seconds[now];
    for (int turn = 0; turn < TURNS && is_close && wins && status == TERSE_OK; turn++) {
        status = visit(worker, words->method[now], &seconds[now]);
        if (status == TERSE_OK)
            status = visit(worker, words->method[best], &seconds[best]);
        wins = seconds[best] < as_fast * seconds[now];
    }
    *chosen = wins ? best : now;
    return status;
}

/* "auto: SPEC: 21.3 ms per step (dense 61.2, ...), measured in 4.1 s" */
static void tell(const struct trn_worker *worker, const double *seconds, uint32_t chosen,
                 double spent)
{
    const struct trn_auto_words *const words = &worker->automatic->words;
    const struct trn_watch *const watch = worker->run->watch;
    char text[3000];
    if (worker->rank != 0 || !watch->note)
        return;
    int used = snprintf(text, sizeof text, "auto: %.1000s: %.3g ms per step (",
                        words->method[chosen], 1e3 * seconds[chosen]);
    for (uint32_t i = 0, others = 0; i < words->count && used < (int)sizeof text; i++) {
        terse_method_description method = {.size = sizeof method};
        if (i == chosen || terse_method_describe(words->method[i], &method, NULL) != TERSE_OK)
            continue;
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s %.3g", others++ ? ", " : "",
                         method.name, 1e3 * seconds[i]);
    }
    if (used < (int)sizeof text)
        (void)snprintf(text + used, sizeof text - (size_t)used, "), measured in %.1f s", spent);
    watch->note(watch->context, text);
}

/* Appends to the choices; without `seconds` nothing was measured. */
static void note(struct trn_worker *worker, const double *seconds, uint32_t chosen, double spent)
{
    const struct trn_auto_words *const words = &worker->automatic->words;
    com_json *const choice = com_json_object();
    com_json *const rows = com_json_array();
    for (uint32_t i = 0; seconds && i < words->count; i++) {
        com_json *const row = com_json_object();
        com_json_put_text(row, "method", words->method[i]);
        com_json_put_real(row, "seconds", seconds[i]);
        com_json_append(rows, row);
    }
    com_json_put_u64(choice, "step", worker->step);
    com_json_put_text(choice, "method", words->method[chosen]);
    com_json_put_real(choice, "seconds", spent);
    com_json_put(choice, "rows", rows);
    com_json_append(worker->automatic->choices, choice);
}

/* Measures all candidates, tells it, and takes one: worker->spec. */
static terse_status choose(struct trn_worker *worker, uint32_t now)
{
    const struct trn_auto_words *const words = &worker->automatic->words;
    double seconds[TRN_MOST_CANDIDATES] = {0};
    uint32_t chosen = now;
    uint64_t before = 0;
    uint64_t after = 0;
    const double start = trn_now();
    terse_group_traffic(worker->group, &before, &(uint64_t){0});
    const terse_status status = measure(worker, now, seconds, &chosen);
    terse_group_traffic(worker->group, &after, &(uint64_t){0});
    worker->result.bytes_other += after - before;
    if (status != TERSE_OK)
        return status;
    tell(worker, seconds, chosen, trn_now() - start);
    note(worker, seconds, chosen, trn_now() - start);
    (void)snprintf(worker->spec, sizeof worker->spec, "%s", words->method[chosen]);
    return TERSE_OK;
}

/* ---- before the first step ---- */

/* The choices of the run that is resumed, and the last of them. */
static terse_status restore(struct trn_worker *worker)
{
    const com_json *const kept = trn_checkpoint_settings(worker->run->checkpoint);
    const char *spec = "";
    char *text = NULL;
    com_json *choices = NULL;
    if (!com_json_get_text(kept, "method", &spec))
        return com_fail(&worker->fault, TERSE_MISMATCH, "the checkpoint has no method");
    (void)snprintf(worker->spec, sizeof worker->spec, "%s", spec);
    terse_status status = com_json_print(com_json_get(com_json_get(kept, "auto"), "choices"), 0,
                                         &text, &worker->fault);
    if (status == TERSE_OK)
        status = com_json_parse("choices of auto", text, strlen(text), &choices, &worker->fault);
    free(text);
    if (status == TERSE_OK) {
        com_json_free(worker->automatic->choices);
        worker->automatic->choices = choices;
    }
    return status;
}

terse_status trn_auto_start(struct trn_worker *worker)
{
    const terse_group *const group = trn_method_group(worker);
    if (!trn_is_auto(worker->run->settings->method))
        return TERSE_OK;
    struct trn_auto *const automatic = calloc(1, sizeof *automatic);
    worker->automatic = automatic;
    if (!automatic)
        return com_fail(&worker->fault, TERSE_NO_MEMORY, "out of memory");
    automatic->choices = com_json_array();
    const terse_status status =
        trn_auto_parse(worker->run->settings->method, &automatic->words, &worker->fault);
    if (status != TERSE_OK)
        return status;
    if (worker->run->checkpoint)
        return restore(worker);
    if (terse_group_workers(group) > 1)
        return choose(worker, 0);
    (void)snprintf(worker->spec, sizeof worker->spec, "%s", automatic->words.method[0]);
    note(worker, NULL, 0, 0); /* one worker has nothing to send */
    return TERSE_OK;
}

/* ---- between steps ---- */

/* Parts of the state that both methods have: step counter, momentum, residual. */
static void hand_over(terse_method *from, terse_method *to)
{
    terse_state had;
    terse_state has;
    for (uint32_t i = 0; terse_method_state(to, i, &has) == TERSE_OK; i++)
        for (uint32_t j = 0; terse_method_state(from, j, &had) == TERSE_OK; j++)
            if (strcmp(had.name, has.name) == 0 && had.kind == has.kind && had.len == has.len &&
                had.kind != TERSE_STATE_HINT)
                memcpy(has.bytes, had.bytes, has.len);
}

/* worker->spec is another one than the method's. */
static terse_status change(struct trn_worker *worker)
{
    terse_method *const old = worker->method;
    worker->method = NULL;
    worker->tried = old; /* until the new one is made */
    terse_status status = trn_worker_make_method(worker);
    if (status != TERSE_OK)
        return status;
    hand_over(old, worker->method);
    terse_method_destroy(old);
    worker->tried = NULL;
    status = terse_method_restored(worker->method, &worker->fault);
    if (status == TERSE_OK)
        status = trn_overlap_start(worker);
    return status;
}

terse_status trn_auto_due(struct trn_worker *worker)
{
    const struct trn_auto *const automatic = worker->automatic;
    const terse_group *const group = trn_method_group(worker);
    char before[TERSE_MAX_METHOD_SPEC];
    uint32_t now = 0;
    if (!automatic || automatic->words.every == 0 || worker->step == 0 ||
        worker->step % automatic->words.every != 0 || terse_group_workers(group) == 1)
        return TERSE_OK;
    while (now < automatic->words.count && strcmp(automatic->words.method[now], worker->spec) != 0)
        now++;
    if (now == automatic->words.count)
        return com_fail(&worker->fault, TERSE_MISMATCH,
                        "auto: the checkpoint's method %.200s is none of the candidates",
                        worker->spec);
    memcpy(before, worker->spec, sizeof before);
    terse_status status = choose(worker, now);
    if (status == TERSE_OK && strcmp(before, worker->spec) != 0)
        status = change(worker);
    return status == TERSE_OK ? trn_record_again(worker) : status;
}

/* ---- what was chosen ---- */

void trn_auto_describe(const struct trn_worker *worker, com_json *run)
{
    char *text = NULL;
    com_json *choices = NULL;
    if (!worker->automatic ||
        com_json_print(worker->automatic->choices, 0, &text, NULL) != TERSE_OK)
        return;
    com_json *const automatic = com_json_object();
    com_json_put_text(automatic, "spec", worker->run->settings->method);
    if (com_json_parse("choices", text, strlen(text), &choices, NULL) == TERSE_OK)
        com_json_put(automatic, "choices", choices);
    com_json_put(run, "auto", automatic);
    free(text);
}

void trn_auto_free(struct trn_auto *automatic)
{
    if (automatic)
        com_json_free(automatic->choices);
    free(automatic);
}
