#include "method/lie_run.h"

/* The engine's timeout in seconds. */
static const double timeout = 2;

/* A matrix whose slices are cut in the middle, a vector of few elements, one of more. */
static terse_layout *lie_layout(void)
{
    terse_layout *layout = NULL;
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "linear", 2, (const uint64_t[]){100, 60}), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "bias", 1, (const uint64_t[]){50}), TERSE_OK);
    assert_int_equal(terse_layout_add(layout, "tail", 1, (const uint64_t[]){1500}), TERSE_OK);
    return layout;
}

static void gradient_of(uint32_t rank, int32_t step, float *out, size_t count)
{
    struct test_random random = {1000003 + rank * UINT64_C(100019) + (uint64_t)step * 7};
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(test_uniform(&random) - 0.5);
}

static uint64_t hash_of(const float *weights, size_t count)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &weights[i], sizeof bits);
        hash = (hash ^ bits) * UINT64_C(1099511628211);
    }
    return hash;
}

static struct state state_of(terse_method *method)
{
    struct state all = {.hash = UINT64_C(14695981039346656037)};
    int residual = 0;
    int moments = 0;
    terse_state part;
    for (uint32_t i = 0; all.status == TERSE_OK; i++) {
        all.status = terse_method_state(method, i, &part);
        for (size_t b = 0; all.status == TERSE_OK && b < part.len; b++)
            all.hash = (all.hash ^ ((const uint8_t *)part.bytes)[b]) * UINT64_C(1099511628211);
        residual |= all.status == TERSE_OK && strcmp(part.name, "residual") == 0;
        moments |= all.status == TERSE_OK && strcmp(part.name, "momentum") == 0;
    }
    all.both = residual && moments;
    return all;
}

/* ---- one rank ---- */

static terse_status step_posted(struct worker *worker, terse_method *method, const float *gradient,
                                uint32_t tensors, terse_method_report *report)
{
    terse_status status = TERSE_OK;
    for (uint32_t t = tensors; t-- > 0 && status == TERSE_OK;)
        status = terse_method_post(method, gradient, t, 1, &worker->fault);
    return status == TERSE_OK ? terse_method_finish(method, gradient, report, &worker->fault)
                              : status;
}

static void train_steps(struct worker *worker, terse_method *method, const terse_layout *layout,
                        const float *weights, float *gradient)
{
    const size_t count = (size_t)terse_layout_count(layout);
    for (int32_t s = 0; s < LIE_STEPS; s++) {
        terse_method_report report = {0};
        worker->step = s;
        worker->engine.step = s;
        worker->engine.position = 0;
        worker->before[s] = hash_of(weights, count);
        worker->state[0] = state_of(method);
        gradient_of(worker->engine.rank, s, gradient, count);
        worker->status =
            worker->scene->posted
                ? step_posted(worker, method, gradient, terse_layout_tensors(layout), &report)
                : terse_method_step(method, gradient, &report, &worker->fault);
        if (worker->status == TERSE_OK)
            worker->skipped = report.exchange.skipped;
        worker->state[1] = state_of(method);
        if (worker->status != TERSE_OK || worker->skipped != TERSE_OK)
            return;
    }
}

/* Options are the defaults, but dqsgd needs the number of steps. A rank that fails leaves the group
 * at once, like a process that ends. */
static void *train(void *opaque)
{
    struct worker *const worker = opaque;
    struct engine *const engine = &worker->engine;
    terse_layout *const layout = lie_layout();
    const size_t count = (size_t)terse_layout_count(layout);
    float *const weights = test_floats(count);
    float *const gradient = test_floats(count);
    const terse_method_options options = {.size = sizeof options, .steps = 50};
    terse_group *group = NULL;
    terse_method *method = NULL;
    worker->step = -1;
    engine->step = -1;
    worker->fault.rank = -2; /* no failure leaves it so */
    worker->status = terse_group_callbacks(&lie_ops, engine, engine->rank, engine->ranks, &group);
    if (worker->status == TERSE_OK)
        worker->status = terse_group_set_timeout(engine->inner, timeout);
    if (worker->status == TERSE_OK)
        worker->status = terse_method_create(worker->scene->spec, group, layout, weights, &options,
                                             &method, &worker->fault);
    if (worker->status == TERSE_OK)
        train_steps(worker, method, layout, weights, gradient);
    worker->weights_hash = hash_of(weights, count);
    if (worker->status == TERSE_OK && worker->skipped == TERSE_OK)
        worker->before[LIE_STEPS] = worker->weights_hash;
    terse_group_destroy(group); /* before the method: requests may still use its buffers */
    terse_group_destroy(engine->inner);
    terse_method_destroy(method);
    terse_layout_destroy(layout);
    free(weights);
    free(gradient);
    return NULL;
}

/* ---- all ranks ---- */

static void run_all(const struct scene *scene, struct worker *workers)
{
    terse_group *inner[LIE_MAX_RANKS];
    assert_int_equal(terse_group_local(scene->ranks, inner), TERSE_OK);
    for (uint32_t r = 0; r < scene->ranks; r++) {
        workers[r].scene = scene;
        workers[r].engine.inner = inner[r];
        workers[r].engine.rank = r;
        workers[r].engine.ranks = scene->ranks;
    }
    for (uint32_t r = 0; r < scene->ranks; r++)
        assert_int_equal(pthread_create(&workers[r].thread, NULL, train, &workers[r]), 0);
    for (uint32_t r = 0; r < scene->ranks; r++)
        assert_int_equal(pthread_join(workers[r].thread, NULL), 0);
}

void scene_learn(struct scene *scene)
{
    struct worker *const workers = test_alloc(scene->ranks * sizeof *workers);
    for (uint32_t r = 0; r < scene->ranks; r++)
        workers[r].engine.seen = test_alloc(LIE_MAX_MESSAGES * sizeof(struct message));
    run_all(scene, workers);
    scene->refused = scene->posted && workers[0].status == TERSE_BAD_ARGUMENT;
    for (uint32_t r = 0; r < scene->ranks && !scene->refused; r++) {
        if (workers[r].status != TERSE_OK || workers[r].skipped != TERSE_OK)
            fail_msg("%s, %u ranks, honest: rank %u: %s: %s", scene->spec, scene->ranks, r,
                     terse_status_text(workers[r].status), workers[r].fault.text);
        assert_memory_equal(workers[r].before, workers[0].before, sizeof workers[0].before);
        assert_in_range(workers[r].engine.seen_count, 1, LIE_MAX_MESSAGES - 1);
        scene->count += workers[r].engine.seen_count;
    }
    memcpy(scene->before, workers[0].before, sizeof scene->before);
    scene->message = test_alloc((scene->count + 1) * sizeof *scene->message);
    uint32_t at = 0;
    for (uint32_t r = 0; r < scene->ranks; r++) {
        const struct engine *const engine = &workers[r].engine;
        for (uint32_t i = 0; i < engine->seen_count && !scene->refused; i++)
            scene->message[at++] = engine->seen[i];
        free(engine->seen);
    }
    free(workers);
}

void scene_forget(struct scene *scene)
{
    free(scene->message);
    *scene = (struct scene){0};
}

void lie_train(const struct scene *scene, const struct message *target, enum lie lie, uint64_t seed,
               struct worker *workers)
{
    memset(workers, 0, scene->ranks * sizeof *workers);
    if (target) {
        struct engine *const engine = &workers[target->receiver].engine;
        engine->target = target;
        engine->lie = lie;
        engine->source = lie == REPLAYED ? scene_replay(scene, target) : NULL;
        engine->random.state = seed;
    }
    run_all(scene, workers);
    for (uint32_t r = 0; r < scene->ranks; r++)
        free(workers[r].engine.kept);
}

/* ---- messages ---- */

int scene_closes(const struct scene *scene, const struct message *message)
{
    for (uint32_t i = 0; i < scene->count; i++) {
        const struct message *const other = &scene->message[i];
        if (other->receiver == message->receiver && other->step == message->step &&
            other->post > message->post)
            return 0;
    }
    return message->step >= 0;
}

int32_t scene_next(const struct scene *scene, int32_t step)
{
    int32_t next = LIE_STEPS;
    for (uint32_t i = 0; i < scene->count; i++)
        if (scene->message[i].step > step && scene->message[i].step < next)
            next = scene->message[i].step;
    return next;
}

int scene_is_target(const struct scene *scene, const struct message *message)
{
    return scene_next(scene, message->step) < LIE_STEPS;
}

const struct message *scene_replay(const struct scene *scene, const struct message *message)
{
    const struct message *best = NULL;
    for (uint32_t i = 0; i < scene->count; i++) {
        const struct message *const other = &scene->message[i];
        if (other->receiver != message->receiver || other->sender != message->sender ||
            other->len != message->len || other->step >= message->step)
            continue;
        if (!best || best->position != message->position || other->position == message->position)
            best = other;
    }
    return best;
}
