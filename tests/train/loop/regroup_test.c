/* Another number of workers: what is outstanding stays, for every method. Some steps with one
 * number, the state for another, and both crews are compared, before and after a step with zero
 * gradients. */
#include "loop/regroup.h"

#include <math.h>

#include "method/subjects.h"

#define ROUNDING 4e-6 /* of some float operations per element, relative to the largest */

static const uint32_t changes[][2] = {{2, 1}, {2, 16}, {8, 3}};

/* ---- two crews ---- */

/* Every part of the new workers, as a trainer restores it. */
static void regroup(const struct crew *from, struct crew *to)
{
    terse_state state;
    for (uint32_t r = 0; r < to->workers; r++) {
        for (uint32_t i = 0; terse_method_state(to->method[r], i, &state) == TERSE_OK; i++) {
            const void *old[TERSE_MAX_LOCAL_WORKERS];
            for (uint32_t w = 0; w < from->workers; w++) {
                const terse_state theirs = crew_state(from, w, state.name);
                assert_non_null(theirs.bytes);
                if (state.kind != TERSE_STATE_HINT)
                    assert_int_equal(theirs.len, state.len);
                old[w] = theirs.bytes;
            }
            trn_regroup(state.kind, old, NULL, from->workers, state.bytes, state.len);
        }
        memcpy(to->weights[r], from->weights[0], from->count * sizeof(float));
        assert_int_equal(terse_method_restored(to->method[r], NULL), TERSE_OK);
    }
}

static void step_with(struct crew *crew, uint64_t number, int alike)
{
    crew_gradients(crew, TEST_NORMAL, number);
    for (uint32_t r = 1; alike && r < crew->workers; r++)
        memcpy(crew->gradient[r], crew->gradient[0], crew->count * sizeof(float));
    crew_step(crew);
}

static void step_with_zeros(struct crew *crew)
{
    for (uint32_t r = 0; r < crew->workers; r++)
        memset(crew->gradient[r], 0, crew->count * sizeof(float));
    crew_step(crew);
}

/* ---- comparing ---- */

/* Writes the numbers of a crew that are compared, one per element. */
typedef void numbers(const struct crew *crew, double *out);

static void expect_close(const struct crew *a, const struct crew *b, numbers *of, const char *what)
{
    double *const now = malloc(a->count * sizeof *now);
    double *const then = malloc(a->count * sizeof *then);
    double most = 0;
    assert_true(now && then);
    of(a, then);
    of(b, now);
    for (size_t i = 0; i < a->count; i++)
        most = fmax(most, fmax(fabs(then[i]), fabs((double)a->weights[0][i])));
    for (size_t i = 0; i < a->count; i++)
        if (!(fabs(then[i] - now[i]) <= ROUNDING * most))
            fail_msg("%s, %u to %u workers: %s changes at %zu from %.9g to %.9g",
                     terse_method_spec(a->method[0]), a->workers, b->workers, what, i, then[i],
                     now[i]);
    free(now);
    free(then);
}

/* Adds `factor` times the sum over the workers of a part; nothing if the method does not have it.
 */
static void add_part(const struct crew *crew, const char *name, double factor, double *out)
{
    for (uint32_t r = 0; r < crew->workers; r++) {
        const float *const floats = crew_state(crew, r, name).bytes;
        for (size_t i = 0; floats && i < crew->count; i++)
            out[i] += factor * (double)floats[i];
    }
}

static void expect_same_means(const struct crew *a, const struct crew *b)
{
    double *const change = malloc(a->count * sizeof *change);
    terse_state state;
    assert_non_null(change);
    for (uint32_t p = 0; terse_method_state(a->method[0], p, &state) == TERSE_OK; p++) {
        const float *const now = crew_state(b, 0, state.name).bytes;
        double most = 0;
        if (state.kind != TERSE_STATE_RESIDUAL && state.kind != TERSE_STATE_OWN)
            continue;
        memset(change, 0, a->count * sizeof *change);
        add_part(a, state.name, -1.0 / a->workers, change);
        add_part(b, state.name, 1.0 / b->workers, change);
        for (size_t i = 0; i < a->count; i++)
            most = fmax(most, fabs((double)now[i]));
        for (size_t i = 0; i < a->count; i++)
            if (!(fabs(change[i]) <= 1e-7 * most))
                fail_msg("%s, %u to %u workers: the mean %s changes", terse_method_spec(*a->method),
                         a->workers, b->workers, state.name);
    }
    free(change);
}

/* The bits of an owner's part, whoever owns them; no two workers may have some. */
static void join(const struct crew *crew, const char *name, uint32_t *out)
{
    memset(out, 0, crew->count * sizeof *out);
    for (uint32_t r = 0; r < crew->workers; r++) {
        const float *const floats = crew_floats(crew, r, name);
        for (size_t i = 0; i < crew->count; i++) {
            uint32_t bits;
            memcpy(&bits, floats + i, sizeof bits);
            if (out[i] != 0 && bits != 0)
                fail_msg("%s: %zu has two owners", name, i);
            out[i] |= bits;
        }
    }
}

static void expect_same_slices(const struct crew *a, const struct crew *b)
{
    uint32_t *const then = malloc(a->count * sizeof *then);
    uint32_t *const now = malloc(a->count * sizeof *now);
    terse_state state;
    assert_true(then && now);
    for (uint32_t p = 0; terse_method_state(a->method[0], p, &state) == TERSE_OK; p++) {
        if (state.kind != TERSE_STATE_SLICES)
            continue;
        join(a, state.name, then);
        join(b, state.name, now);
        if (memcmp(then, now, a->count * sizeof *then) != 0)
            fail_msg("%s: %s has other bits", terse_method_spec(*a->method), state.name);
    }
    free(then);
    free(now);
}

static void weights(const struct crew *crew, double *out)
{
    for (size_t i = 0; i < crew->count; i++)
        out[i] = (double)crew->weights[0][i];
}

static void eval_weights(const struct crew *crew, double *out)
{
    float *const floats = malloc(crew->count * sizeof *floats);
    assert_non_null(floats);
    assert_int_equal(terse_method_eval_weights_all(crew->method, floats, NULL), TERSE_OK);
    for (size_t i = 0; i < crew->count; i++)
        out[i] = (double)floats[i];
    free(floats);
}

/* The weights, less what is outstanding: a step moves them by what it takes in, however little the
 * codec sends of it. */
static void iterate(const struct crew *crew, double *out)
{
    terse_method_description chosen = {.size = sizeof chosen};
    const char *const spec = terse_method_spec(crew->method[0]);
    assert_int_equal(terse_method_describe(spec, &chosen, NULL), TERSE_OK);
    const double unit = strcmp(chosen.unit, "weights") == 0 ? 1 : crew->report[0].lr;
    weights(crew, out);
    if (chosen.owner == TERSE_OWNER_WEIGHTS) {
        memset(out, 0, crew->count * sizeof *out);
        add_part(crew, "owner weights", 1, out);
    }
    add_part(crew, "residual", -unit / crew->workers, out);
    add_part(crew, "local change", -unit / crew->workers, out);
    add_part(crew, "owner residual", -unit, out);
}

/* ---- the promise ---- */

/* Does a step of zero gradients move x - (what is outstanding) alike in both crews? Not where the
 * update is no multiple of the aggregate, or where workers' moments enter a quotient. */
static int moves_alike(const terse_method_description *chosen, const char *spec, int alike)
{
    return (strcmp(chosen->feedback, "residual") == 0 ||
            strcmp(chosen->combine, "allreduce") == 0) &&
           strcmp(chosen->update, "adam") != 0 && !strstr(spec, "nesterov") &&
           (alike || strcmp(chosen->direction, "adam") != 0);
}

/* Is the aggregate a function of the mean? So it is for codecs that add up. For the others it is
 * where all workers hold the same, if slices do not enter it. */
static int keeps_aggregate(const terse_method_description *chosen, int alike)
{
    if (strcmp(chosen->combine, "allreduce") == 0)
        return alike || strcmp(chosen->direction, "adam") != 0;
    return alike && strcmp(chosen->feedback, "residual") == 0 &&
           (strcmp(chosen->combine, "allgather") == 0 ||
            strcmp(chosen->combine, "sparse-allreduce") == 0) &&
           strcmp(chosen->name, "regtopk") != 0; /* its posterior is a hint */
}

static void expect_kept(const char *spec, const terse_layout *layout, uint32_t before,
                        uint32_t after, uint64_t steps, int alike)
{
    terse_method_description chosen = {.size = sizeof chosen};
    const struct crew_plan old_plan = subject_plan(spec, before, layout);
    const struct crew_plan new_plan = subject_plan(spec, after, layout);
    struct crew old = crew_new(&old_plan);
    struct crew fresh = crew_new(&new_plan);
    assert_int_equal(terse_method_describe(spec, &chosen, NULL), TERSE_OK);
    for (uint64_t s = 0; s < steps; s++)
        step_with(&old, s, alike);
    regroup(&old, &fresh);
    expect_same_means(&old, &fresh);
    expect_same_slices(&old, &fresh);
    expect_close(&old, &fresh, eval_weights, "the evaluation weight");
    step_with_zeros(&old);
    step_with_zeros(&fresh);
    crew_agrees(&fresh, spec);
    if (moves_alike(&chosen, spec, alike))
        expect_close(&old, &fresh, iterate, "weight less outstanding");
    if (keeps_aggregate(&chosen, alike))
        expect_close(&old, &fresh, weights, "the weight after zero gradients");
    crew_free(&old);
    crew_free(&fresh);
}

/* Also in the middle of a round of local steps. */
static void what_is_outstanding_stays(void **unused)
{
    terse_layout *const layout = subject_layout();
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++)
        for (size_t c = 0; c < sizeof changes / sizeof changes[0]; c++)
            for (int alike = 0; alike < 2; alike++)
                for (uint64_t steps = 4; steps < 4 + subject_every(spec); steps++)
                    expect_kept(spec, layout, changes[c][0], changes[c][1], steps, alike);
    terse_layout_destroy(layout);
}

/* Each rule by hand: a mean is rounded once, a slice keeps the sign of its zero. */
static void parts_by_hand(void **unused)
{
    const float a[3] = {1, 0, -0.0f};
    const float b[3] = {4, 0, 0};
    const float c[3] = {-2, 7, 0};
    const void *const all[3] = {a, b, c};
    float out[3] = {9, 9, 9};
    (void)unused;
    trn_regroup(TERSE_STATE_HINT, all, NULL, 3, out, sizeof out);
    assert_true(out[0] == 9 && out[1] == 9 && out[2] == 9);
    trn_regroup(TERSE_STATE_SHARED, all, NULL, 3, out, sizeof out);
    assert_memory_equal(out, a, sizeof out);
    trn_regroup(TERSE_STATE_RESIDUAL, all, NULL, 3, out, sizeof out);
    assert_true(out[0] == 1 && out[1] == 7.0f / 3 && out[2] == 0);
    trn_regroup(TERSE_STATE_OWN, all, NULL, 2, out, sizeof out);
    assert_true(out[0] == 2.5f && out[1] == 0);
    trn_regroup(TERSE_STATE_RESIDUAL, all, (const double[]){1, 2, 5}, 3, out, sizeof out);
    assert_true(out[0] == -1.0f / 8 && out[1] == 35.0f / 8 && out[2] == 0); /* weighted */
    trn_regroup(TERSE_STATE_RESIDUAL, all, NULL, 1, out, sizeof out);
    assert_memory_equal(out, a, sizeof out); /* one worker's is copied, bit for bit */
    const float left[3] = {1.25f, 0, -0.0f};
    const float right[3] = {0, -3, 0};
    const void *const slices[2] = {left, right};
    const float whole[3] = {1.25f, -3, -0.0f};
    trn_regroup(TERSE_STATE_SLICES, slices, NULL, 2, out, sizeof out);
    assert_memory_equal(out, whole, sizeof out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_by_hand),
        cmocka_unit_test(what_is_outstanding_stays),
    };
    return cmocka_run_group_tests_name("regroup", tests, NULL, NULL);
}
