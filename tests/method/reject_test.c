/* reject=yes: weights do not take a step that is much longer than the last one; all else goes on.
 */
#include <math.h>

#include "method/crew.h"

#define WORKERS 3u
#define COUNT 100u
#define SENT 10u /* of COUNT elements: keep=0.1 */

/* ---- one element, by hand ---- */

static void expect_step(struct crew *crew, float gradient, float weight, uint64_t rejected)
{
    crew->gradient[0][0] = gradient;
    crew_step(crew);
    if (crew->weights[0][0] != weight)
        fail_msg("gradient %g: the weight is %g, not %g", (double)gradient,
                 (double)crew->weights[0][0], (double)weight);
    assert_int_equal(terse_method_steps_rejected(crew->method[0]), rejected);
}

/* Squares: 1e5 is too much at first, and then 100 times that of the last step that was taken. */
static void the_limit_follows_the_steps(void **unused)
{
    struct crew crew = crew_new(
        &(struct crew_plan){.spec = "topk:keep=1,lr=1,reject=yes", .workers = 1, .count = 1});
    (void)unused;
    expect_step(&crew, 317, 0, 1); /* 100489 */
    expect_step(&crew, 316, -316, 1);
    expect_step(&crew, 1, -317, 1);
    expect_step(&crew, 10, -317, 2); /* 100, the limit itself; it stays what it was */
    expect_step(&crew, -9, -308, 2);
    expect_step(&crew, 0, -308, 2); /* a step of nothing leaves the limit */
    expect_step(&crew, 89, -397, 2);
    expect_step(&crew, 1e6f, -397, 3);
    expect_step(&crew, 1, -398, 3);
    assert_int_equal(terse_method_steps_done(crew.method[0]), 9);
    crew_free(&crew);
}

static void it_is_off_unless_asked_for(void **unused)
{
    struct crew crew =
        crew_new(&(struct crew_plan){.spec = "topk:keep=1,lr=1", .workers = 1, .count = 1});
    terse_method_description about = {.size = sizeof about};
    (void)unused;
    expect_step(&crew, 1, -1, 0);
    expect_step(&crew, 1000, -1001, 0);
    assert_null(crew_state(&crew, 0, "rejection").bytes);
    crew_free(&crew);
    assert_int_equal(terse_method_describe("regtopk:reject=yes", &about, NULL), TERSE_OK);
    assert_false(about.has_gradient); /* an optimizer elsewhere takes the step */
    assert_int_equal(terse_method_describe("regtopk:reject=no", &about, NULL), TERSE_OK);
    assert_true(about.has_gradient);
}

/* ---- a plain reference ---- */

struct reference {
    float x[COUNT];
    float residual[WORKERS][COUNT];
    double limit;
    uint64_t rejected;
};

static int is_chosen(const float *a, size_t i)
{
    size_t ahead = 0;
    for (size_t j = 0; j < COUNT; j++)
        ahead += fabsf(a[j]) > fabsf(a[i]) || (fabsf(a[j]) == fabsf(a[i]) && j < i);
    return ahead < SENT;
}

static void reference_step(struct reference *ref, float *const *gradient, float lr)
{
    float sum[COUNT] = {0};
    float next[COUNT];
    double square = 0;
    for (uint32_t r = 0; r < WORKERS; r++) {
        float a[COUNT];
        for (size_t i = 0; i < COUNT; i++)
            a[i] = ref->residual[r][i] + gradient[r][i];
        for (size_t i = 0; i < COUNT; i++) {
            sum[i] += is_chosen(a, i) ? a[i] : 0;
            ref->residual[r][i] = is_chosen(a, i) ? 0 : a[i];
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        next[i] = ref->x[i] - lr * (sum[i] / (float)WORKERS);
        square += pow((double)next[i] - (double)ref->x[i], 2);
    }
    if (square >= ref->limit) {
        ref->rejected++;
        return;
    }
    ref->limit = 100 * square;
    memcpy(ref->x, next, sizeof next);
}

/* In every fifth step a few elements of one worker explode; all of them are sent. */
static void explode(struct crew *crew, uint64_t step)
{
    crew_gradients(crew, TEST_NORMAL, step);
    for (size_t i = 0; i < 4 && step % 5 == 3; i++)
        crew->gradient[step % WORKERS][7 * i] = 1e4f;
}

static void follows_the_reference(void **unused)
{
    static const char *const specs[] = {
        "topk:keep=0.1,lr=0.5,reject=yes",
        "topk:keep=0.1,lr=0.5,reject=yes,combine=sparse-allreduce",
        "topk:keep=0.1,lr=0.5,reject=yes,scope=model",
    };
    (void)unused;
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = specs[s], .workers = WORKERS, .count = COUNT});
        struct reference ref = {.limit = 1e5};
        for (uint64_t step = 0; step < 12; step++) {
            explode(&crew, step);
            reference_step(&ref, crew.gradient, 0.5f);
            crew_step(&crew);
            assert_int_equal(ref.rejected, (step + 2) / 5);
            for (uint32_t r = 0; r < WORKERS; r++) {
                assert_int_equal(terse_method_steps_rejected(crew.method[r]), ref.rejected);
                assert_true(test_same_bits(crew.weights[r], ref.x, COUNT));
                const float *const residual = crew_floats(&crew, r, "residual");
                for (size_t i = 0; i < COUNT; i++) /* a zero may have either sign */
                    if (residual[i] != ref.residual[r][i])
                        fail_msg("%s, step %u, rank %u: residual %zu is %g, not %g", specs[s],
                                 (unsigned)step, r, i, (double)residual[i],
                                 (double)ref.residual[r][i]);
            }
        }
        crew_free(&crew);
    }
}

/* ---- what goes on although the weights stay ---- */

/* With the same gradients residual and memory of the last step do not know of a rejection. */
static void residual_and_masks_advance(void **unused)
{
    static const char *const parts[] = {"residual", "sent index", "sent before", "sent sum"};
    struct crew_plan plan = {.workers = WORKERS, .count = COUNT};
    plan.spec = "regtopk:keep=0.1,lr=0.5,reject=yes";
    struct crew crew = crew_new(&plan);
    plan.spec = "regtopk:keep=0.1,lr=0.5";
    struct crew other = crew_new(&plan);
    (void)unused;
    for (uint64_t step = 0; step < 12; step++) {
        explode(&crew, step);
        explode(&other, step);
        crew_step(&crew);
        crew_step(&other);
        crew_agrees(&crew, "with rejection");
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
            const terse_state mine = crew_state(&crew, 1, parts[p]);
            assert_memory_equal(mine.bytes, crew_state(&other, 1, parts[p]).bytes, mine.len);
        }
    }
    assert_int_equal(terse_method_steps_rejected(crew.method[2]), 2);
    assert_false(test_same_bits(crew.weights[0], other.weights[0], COUNT));
    crew_free(&crew);
    crew_free(&other);
}

/* ---- state ---- */

static void limit_and_count_are_saved(void **unused)
{
    struct crew_plan plan = {.spec = "regtopk:keep=0.1,lr=0.5,reject=yes,momentum=0.5",
                             .workers = WORKERS,
                             .count = COUNT};
    struct crew crew = crew_new(&plan);
    (void)unused;
    for (uint64_t step = 0; step < 10; step++) {
        struct crew fresh = crew_new(&plan);
        crew_copy(&crew, &fresh);
        explode(&crew, step);
        explode(&fresh, step);
        crew_step(&crew);
        crew_step(&fresh);
        assert_int_equal(crew_hash(&crew), crew_hash(&fresh));
        assert_int_equal(terse_method_steps_rejected(fresh.method[0]), (step + 2) / 5);
        crew_free(&fresh);
    }
    crew_free(&crew);
}

/* A limit that is none would reject everything, or nothing. */
static void a_damaged_limit_is_as_new(void **unused)
{
    static const double damaged[] = {0, -1, NAN, INFINITY};
    struct crew crew = crew_new(
        &(struct crew_plan){.spec = "topk:keep=1,lr=1,reject=yes", .workers = 1, .count = 1});
    (void)unused;
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        memcpy(crew_state(&crew, 0, "rejection").bytes, &damaged[i], sizeof damaged[i]);
        assert_int_equal(terse_method_restored(crew.method[0], NULL), TERSE_OK);
        const float before = crew.weights[0][0];
        expect_step(&crew, 317, before, i + 1);
        expect_step(&crew, 316, before - 316, i + 1);
    }
    crew_free(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_follows_the_steps), cmocka_unit_test(it_is_off_unless_asked_for),
        cmocka_unit_test(follows_the_reference),       cmocka_unit_test(residual_and_masks_advance),
        cmocka_unit_test(limit_and_count_are_saved),   cmocka_unit_test(a_damaged_limit_is_as_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
