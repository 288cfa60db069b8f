#include "method/pinned_run.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#define FIRST_HASH UINT64_C(14695981039346656037)

/* RegTop-k's posterior is a list: one part has its length, the others have that many valid entries.
 */
#define POSTERIOR "sent "
#define POSTERIOR_COUNT "sent count"
#define POSTERIOR_INDEX "sent index"

const char *const order_names[ORDERS] = {"whole", "forward", "mixed"};
const char *const trouble_names[TROUBLES] = {"sound", "nan", "huge", "f16"};

/* ---- the problem ---- */

/* Uneven tensors: matrices for the low-rank codec, an empty one, a single element, and sizes that
 * the slices of owners and tiles of kernels cut in the middle. */
static terse_layout *pinned_layout(void)
{
    static const struct {
        const char *name;
        uint32_t ndim;
        uint64_t dims[4];
    } tensors[] = {
        {"conv.weight", 4, {24, 5, 3, 3}},
        {"empty", 2, {0, 7}},
        {"scalar", 0, {0}},
        {"bias", 1, {77}},
        {"body", 1, {9001}},
        {"linear.weight", 2, {131, 57}},
        {"tail", 1, {2503}},
    };
    terse_layout *layout = NULL;
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    for (size_t t = 0; t < sizeof tensors / sizeof tensors[0]; t++)
        assert_int_equal(
            terse_layout_add(layout, tensors[t].name, tensors[t].ndim, tensors[t].dims), TERSE_OK);
    return layout;
}

/* [-1, 1) out of 24 bits of a 32-bit hash: exact in float, so the same on every machine. */
static float unit_of(uint32_t key)
{
    key = (key ^ key >> 16) * UINT32_C(0x7feb352d);
    key = (key ^ key >> 15) * UINT32_C(0x846ca68b);
    return (float)((int32_t)((key ^ key >> 16) >> 8) - (1 << 23)) * 0x1p-23f;
}

/* The gradient at `x` of the rank's own quadratic, and noise. One element in 64 is always zero, as
 * those of unused rows are. */
static void gradient_of(uint32_t rank, uint64_t step, const float *x, float *out, size_t count)
{
    const uint32_t of_rank = (rank + 1) * UINT32_C(0x9e3779b9);
    const uint32_t of_step = of_rank + (uint32_t)(step + 1) * UINT32_C(0x85ebca6b);
    for (size_t i = 0; i < count; i++) {
        const float away = unit_of((uint32_t)i ^ of_rank);
        const float noise = unit_of((uint32_t)i ^ of_step);
        const float slope = (float)((uint32_t)i % 8 + 1) * 0.125f;
        out[i] = i % 64 == 5 ? 0 : slope * (x[i] - 4 * away * away * away) + 0.25f * noise;
    }
}

static void spoil(const struct run *run, uint32_t rank, float *gradient, size_t count)
{
    const int last = rank == run->ranks - 1;
    if (run->trouble == ONE_NAN && last)
        gradient[run->order == FORWARD ? count - 1 : 0] = NAN;
    for (size_t i = 1; i < count; i += 3)
        if (run->trouble == HUGE_SUM)
            gradient[i] = 3e38f;
        else if (run->trouble == ABOVE_F16 && last)
            gradient[i] = 1e6f;
}

/* ---- hashes ---- */

/* Four lanes, as one would wait for its multiplications. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    uint64_t lane[4] = {hash, hash + 1, hash + 2, hash + 3};
    for (size_t at = 0; at < len; at += sizeof lane) {
        uint64_t word[4] = {0};
        memcpy(word, (const char *)bytes + at, len - at < sizeof word ? len - at : sizeof word);
        for (int l = 0; l < 4; l++) {
            lane[l] = (lane[l] ^ word[l]) * UINT64_C(0x9e3779b97f4a7c15);
            lane[l] ^= lane[l] >> 32;
        }
    }
    hash = len;
    for (int l = 0; l < 4; l++)
        hash = (hash ^ lane[l]) * UINT64_C(0x9e3779b97f4a7c15) ^ lane[l] >> 29;
    return hash;
}

static void mark(struct marks *marks, const char *name, const void *bytes, size_t len)
{
    assert_true(marks->count < PINNED_MAX_PARTS);
    marks->part[marks->count].name = name;
    marks->part[marks->count++].hash = mix(FIRST_HASH, bytes, len);
}

/* "factors" are left out: each bucket has its own, and they show in the weights of the next step.
 */
static struct marks marks_of(terse_method *method, const float *weights, size_t count)
{
    struct marks marks = {0};
    terse_state state;
    uint64_t entries = 0;
    mark(&marks, "weights", weights, count * sizeof(float));
    mark(&marks, "point", terse_method_point(method), count * sizeof(float));
    for (uint32_t i = 0; terse_method_state(method, i, &state) == TERSE_OK; i++) {
        size_t len = state.len;
        if (strcmp(state.name, POSTERIOR_COUNT) == 0)
            memcpy(&entries, state.bytes, sizeof entries);
        else if (strncmp(state.name, POSTERIOR, strlen(POSTERIOR)) == 0)
            len = (size_t)entries * (strcmp(state.name, POSTERIOR_INDEX) == 0 ? 8 : 4);
        if (strcmp(state.name, "factors") != 0)
            mark(&marks, state.name, state.bytes, len < state.len ? len : state.len);
    }
    return marks;
}

/* Appends a rank's marks to those of the ranks before it. */
static void add_rank(struct marks *all, const struct marks *rank)
{
    if (all->count == 0)
        *all = (struct marks){.count = rank->count};
    assert_int_equal(all->count, rank->count);
    for (uint32_t i = 0; i < rank->count; i++) {
        all->part[i].name = rank->part[i].name;
        all->part[i].hash = mix(all->part[i].hash, &rank->part[i].hash, sizeof(uint64_t));
    }
}

const char *marks_differ(const struct marks *a, const struct marks *b)
{
    for (uint32_t i = 0; i < a->count && i < b->count; i++)
        if (a->part[i].hash != b->part[i].hash)
            return a->part[i].name;
    return a->count == b->count ? NULL : "number of parts";
}

/* ---- all ranks by one thread ---- */

static const terse_method_options options = {
    .size = sizeof options, .seed = 5, .steps = 60, .compare_every = 1};

static struct marks marks_of_crew(struct crew *crew)
{
    struct marks all = {0};
    for (uint32_t r = 0; r < crew->workers; r++) {
        const struct marks marks = marks_of(crew->method[r], crew->weights[r], crew->count);
        add_rank(&all, &marks);
    }
    return all;
}

static void fill_crew(const struct run *run, struct crew *crew, uint64_t step, int spoilt)
{
    for (uint32_t r = 0; r < crew->workers; r++) {
        gradient_of(r, step, terse_method_point(crew->method[r]), crew->gradient[r], crew->count);
        if (spoilt)
            spoil(run, r, crew->gradient[r], crew->count);
    }
}

/* A local step that one rank left out counts as taken: the others did it. */
static void note_trouble(struct run *run, const terse_method *method,
                         const terse_method_report *report)
{
    run->skipped = report->exchange.skipped;
    run->skipped_by = report->exchange.skipped_by;
    run->taken = terse_method_steps_done(method) > run->at;
}

static void try_crew(struct run *run, struct crew *crew)
{
    const struct marks before = marks_of_crew(crew);
    terse_fault fault = {0};
    fill_crew(run, crew, run->at, 1);
    run->failed = terse_method_step_all(crew->method, (const float *const *)crew->gradient,
                                        crew->report, &fault);
    if (run->failed != TERSE_OK)
        return;
    const struct marks after = marks_of_crew(crew);
    note_trouble(run, crew->method[0], &crew->report[0]);
    run->trace = run->taken ? NULL : marks_differ(&before, &after);
}

/* A NaN between exchanges is left out by its rank alone, and the step counts. */
static int ends(const struct run *run)
{
    return run->failed != TERSE_OK || (run->taken && run->trouble != ONE_NAN);
}

static void run_whole(struct run *run)
{
    terse_layout *const layout = pinned_layout();
    struct crew crew = crew_new(&(struct crew_plan){.spec = run->spec,
                                                    .workers = run->ranks,
                                                    .layout = layout,
                                                    .seed = options.seed,
                                                    .steps = options.steps});
    int tried = run->trouble == SOUND;
    while (terse_method_steps_done(crew.method[0]) < run->steps && !ends(run)) {
        const uint64_t step = terse_method_steps_done(crew.method[0]);
        if (step == run->at && !tried) {
            tried = 1;
            try_crew(run, &crew);
            continue;
        }
        fill_crew(run, &crew, step, 0);
        crew_step(&crew);
    }
    run->marks = marks_of_crew(&crew);
    crew_free(&crew);
    terse_layout_destroy(layout);
}

/* ---- a thread per rank, bucket by bucket ---- */

struct rank {
    struct run run; /* its own, so that threads share nothing */
    terse_group *group;
    terse_layout *layout;
    float *weights;
    float *gradient;
    size_t count;
    terse_method *method;
    terse_status status;
    terse_fault fault;
    pthread_t thread;
};

static terse_status post(struct rank *rank)
{
    static const uint32_t mixed[][2] = {{3, 2}, {5, 2}, {2, 1}, {0, 2}};
    const uint32_t tensors = terse_layout_tensors(rank->layout);
    const int forward = rank->run.order == FORWARD;
    terse_status status = TERSE_OK;
    for (uint32_t b = 0; b < (forward ? tensors : 4) && status == TERSE_OK; b++)
        status = terse_method_post(rank->method, rank->gradient, forward ? b : mixed[b][0],
                                   forward ? 1 : mixed[b][1], &rank->fault);
    return status;
}

static terse_status step_rank(struct rank *rank, uint64_t step, int spoilt)
{
    struct run *const run = &rank->run;
    const uint32_t number = terse_group_rank(rank->group);
    terse_method_report report = {0};
    struct marks before = {0};
    if (spoilt)
        before = marks_of(rank->method, rank->weights, rank->count);
    gradient_of(number, step, terse_method_point(rank->method), rank->gradient, rank->count);
    if (spoilt)
        spoil(run, number, rank->gradient, rank->count);
    terse_status status = post(rank);
    if (status == TERSE_BAD_ARGUMENT && step == 0) {
        run->refused = 1; /* refused by the first post on every rank: nothing has happened */
        return TERSE_OK;
    }
    if (status == TERSE_OK)
        status = terse_method_finish(rank->method, rank->gradient, &report, &rank->fault);
    if (status != TERSE_OK && spoilt) {
        run->failed = status;
        return TERSE_OK;
    }
    if (status == TERSE_OK && spoilt) {
        const struct marks after = marks_of(rank->method, rank->weights, rank->count);
        note_trouble(run, rank->method, &report);
        run->trace = run->taken ? NULL : marks_differ(&before, &after);
    } else if (report.exchange.skipped != TERSE_OK) {
        status = report.exchange.skipped;
    }
    return status;
}

static void *train_rank(void *opaque)
{
    struct rank *const rank = opaque;
    struct run *const run = &rank->run;
    int tried = run->trouble == SOUND;
    rank->status = terse_method_create(run->spec, rank->group, rank->layout, rank->weights,
                                       &options, &rank->method, &rank->fault);
    while (rank->status == TERSE_OK && !run->refused && !ends(run) &&
           terse_method_steps_done(rank->method) < run->steps) {
        const uint64_t step = terse_method_steps_done(rank->method);
        const int spoilt = step == run->at && !tried;
        tried = tried || spoilt;
        rank->status = step_rank(rank, step, spoilt);
    }
    if (rank->status == TERSE_OK)
        run->marks = marks_of(rank->method, rank->weights, rank->count);
    return NULL;
}

static void run_posted(struct run *run)
{
    terse_group *groups[PINNED_MAX_RANKS];
    struct rank *const ranks = test_alloc(run->ranks * sizeof *ranks);
    terse_layout *const layout = pinned_layout();
    const size_t count = (size_t)terse_layout_count(layout);
    assert_int_equal(terse_group_local(run->ranks, groups), TERSE_OK);
    for (uint32_t r = 0; r < run->ranks; r++) {
        ranks[r] = (struct rank){.run = *run,
                                 .group = groups[r],
                                 .layout = layout,
                                 .weights = test_floats(count),
                                 .gradient = test_floats(count),
                                 .count = count};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, train_rank, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < run->ranks; r++)
        assert_int_equal(pthread_join(ranks[r].thread, NULL), 0);
    for (uint32_t r = 0; r < run->ranks; r++) {
        struct run *const own = &ranks[r].run;
        if (ranks[r].status != TERSE_OK)
            fail_msg("%s with %u ranks, %s, %s: rank %u: %s: %s", run->spec, run->ranks,
                     order_names[run->order], trouble_names[run->trouble], r,
                     terse_status_text(ranks[r].status), ranks[r].fault.text);
        const char *const trace = run->trace ? run->trace : own->trace;
        add_rank(&run->marks, &own->marks);
        own->marks = run->marks;
        *run = *own;
        run->trace = trace;
        terse_method_destroy(ranks[r].method);
        free(ranks[r].weights);
        free(ranks[r].gradient);
    }
    for (uint32_t r = 0; r < run->ranks; r++)
        terse_group_destroy(groups[r]);
    terse_layout_destroy(layout);
    free(ranks);
}

void run_training(struct run *run)
{
    assert_true(run->ranks <= PINNED_MAX_RANKS);
    if (run->order == WHOLE)
        run_whole(run);
    else
        run_posted(run);
}
