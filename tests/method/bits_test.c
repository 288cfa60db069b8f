/* What DQ-SGD's rules of bits promise of a whole training: the error that is allowed is kept also
 * where owners quantize again, the average that is asked for is spent, and spent well; an error
 * that cannot be kept is refused or counted. */
#include <math.h>
#include <stdio.h>

#include "method/crew.h"
#include "method/method.h"

enum { N = 200 };

/* A gradient with largest magnitude `norm`, equal on all workers. */
static void gradient_of_norm(struct crew *crew, double norm, uint64_t step)
{
    double most = 0;
    crew_gradients(crew, TEST_NORMAL, step);
    for (size_t i = 0; i < crew->count; i++)
        most = fmax(most, fabs((double)crew->gradient[0][i]));
    for (size_t i = 0; i < crew->count; i++)
        crew->gradient[0][i] = (float)((double)crew->gradient[0][i] * norm / most);
    for (uint32_t r = 1; r < crew->workers; r++)
        memcpy(crew->gradient[r], crew->gradient[0], crew->count * sizeof(float));
}

/* The only record of a role (worker or owner) that has steps, at whichever rank and slot. */
static struct tsi_bit_record record_of(const struct crew *crew, int owner)
{
    for (uint32_t r = 0; r < crew->workers; r++) {
        const terse_state state = crew_state(crew, r, "bits");
        const struct tsi_bit_record *const record = state.bytes;
        const size_t half = (size_t)state.len / sizeof *record / 2;
        for (size_t i = 0; i < half; i++)
            if (record[(owner ? half : 0) + i].steps > 0)
                return record[(owner ? half : 0) + i];
    }
    return (struct tsi_bit_record){0};
}

/* ---- bits=error ---- */

static double whole_bits(double s)
{
    return fmax(2, fmin(16, ceil(log2(s + 1) + 1 - 1e-5)));
}

/* Norm and bits of the last step, from the sums of before and now. */
struct seen {
    struct tsi_bit_record before;
    double norm;
    double bits;
};

static void see(struct seen *seen, struct tsi_bit_record now)
{
    seen->norm = now.mean * now.steps - seen->before.mean * seen->before.steps;
    seen->bits = now.spent - seen->before.spent;
    seen->before = now;
}

/* Expects the bits of a share of A that is averaged over so many, and returns what they spend. */
static double expect_share(const struct seen *seen, double share, double worth, double averaged,
                           const char *what)
{
    enum { STEPS = 30 };
    const double lr = 0.1;
    const double s = lr * sqrt(STEPS * N / (12 * share * averaged)) * sqrt(worth) * seen->norm;
    if (seen->bits != whole_bits(s) && seen->bits != whole_bits(s * 1.0001) &&
        seen->bits != whole_bits(s * 0.9999))
        fail_msg("%s: %g bits, expected %g for %g levels", what, seen->bits, whole_bits(s), s);
    return N * lr * lr / 12 * worth * pow(seen->norm / (pow(2, seen->bits - 1) - 1), 2) / averaged;
}

/* The workers' payloads may spend one half of A, and are averaged; what owners send may spend the
 * other half, and is not. */
static void owners_have_a_share_of_their_own(void **unused)
{
    static const char *const combines[] = {"shard", "parameter-server"};
    static const uint32_t crowds[] = {1, 3, 16};
    const double allowed = 0.001;
    (void)unused;
    for (int c = 0; c < 2; c++) {
        for (int w = 0; w < 3; w++) {
            enum { STEPS = 30 };
            char spec[120];
            double spent = 0;
            struct seen worker = {.bits = 0};
            struct seen owner = {.bits = 0};
            struct test_random random = {test_seed()};
            (void)snprintf(spec, sizeof spec,
                           "dqsgd:lr=0.1,bits=error,epsilon=0.001,alpha=0.9,combine=%s",
                           combines[c]);
            struct crew crew = crew_new(&(struct crew_plan){
                .spec = spec, .workers = crowds[w], .count = N, .steps = STEPS});
            for (uint64_t step = 0; step < STEPS; step++) {
                const double worth = pow(0.9, STEPS - 1 - (double)step);
                gradient_of_norm(&crew, exp(test_normal(&random)), step);
                crew_step(&crew);
                see(&worker, record_of(&crew, 0));
                see(&owner, record_of(&crew, 1));
                spent += expect_share(&worker, allowed / 2, worth, crowds[w], "worker");
                spent += expect_share(&owner, allowed / 2, worth, 1, "owner");
            }
            if (!(spent <= 1.001 * allowed))
                fail_msg("%s, %u workers: %g of %g", spec, crowds[w], spent, allowed);
            crew_free(&crew);
        }
    }
}

/* A is what the rate of the spec leaves, also where a schedule has lowered the rate since. Noise:
 * 0.1^2 * 3^2 * 10 / 2 = 0.45. */
static void the_allowed_error_stays(void **unused)
{
    struct seen seen = {.bits = 0};
    struct crew crew = crew_new(&(struct crew_plan){
        .spec = "dqsgd:lr=0.1,schedule=step,bits=error,epsilon=0.5,noise=3,combine=allgather",
        .workers = 1,
        .count = N,
        .steps = 10});
    (void)unused;
    for (uint64_t step = 0; step < 7; step++) {
        const double lr = step < 5 ? 0.1 : 0.01;
        gradient_of_norm(&crew, 200, step);
        crew_step(&crew);
        see(&seen, record_of(&crew, 0));
        const double s = lr * sqrt(10.0 * N / (12 * 0.05)) * 200;
        if (seen.bits != whole_bits(s))
            fail_msg("step %d: %g bits, expected %g for %g levels", (int)step, seen.bits,
                     whole_bits(s), s);
    }
    crew_free(&crew);
}

static terse_status create(const char *spec, uint32_t workers, uint64_t steps, terse_fault *fault)
{
    float *weights[2] = {test_floats(N), test_floats(N)};
    terse_method *method[2] = {NULL, NULL};
    terse_layout *layout = NULL;
    const terse_method_options options = {.size = sizeof options, .steps = steps};
    assert_true(terse_layout_vector(N, &layout) == TERSE_OK);
    const terse_status status =
        terse_method_create_all(spec, workers, layout, weights, &options, method, fault);
    for (uint32_t r = 0; r < workers && status == TERSE_OK; r++)
        terse_method_destroy(method[r]);
    terse_layout_destroy(layout);
    free(weights[0]);
    free(weights[1]);
    return status;
}

static void expect_no_room(const char *spec, uint32_t workers, uint64_t steps, const char *what)
{
    terse_fault fault = {0};
    if (create(spec, workers, steps, &fault) != TERSE_BAD_SPEC || !strstr(fault.text, what))
        fail_msg("%s: '%s', expected '%s'", spec, fault.text, what);
}

/* alpha^N gap = 0.5^3 * 8 = 1; noise: 0.1^2 * 10^2 * (1 + 1/2 + 1/4) / (2 K) = 0.875 / K. */
static void an_error_without_room_is_refused(void **unused)
{
    terse_fault fault = {0};
    (void)unused;
    expect_no_room("dqsgd:bits=error,epsilon=0.99,alpha=0.5,gap=8", 1, 3,
                   "epsilon=0.99 leaves no room for quantization: the start leaves 1, noise 0; "
                   "give an epsilon above 1");
    assert_true(create("dqsgd:bits=error,epsilon=1.01,alpha=0.5,gap=8", 1, 3, &fault) == TERSE_OK);
    expect_no_room("dqsgd:bits=error,epsilon=0.87,alpha=0.5,noise=10", 1, 3, "noise 0.875; give");
    expect_no_room("dqsgd:bits=error,epsilon=0.43,alpha=0.5,noise=10", 2, 3, "noise 0.4375");
    assert_true(create("dqsgd:bits=error,epsilon=0.45,alpha=0.5,noise=10", 2, 3, &fault) ==
                TERSE_OK);
    expect_no_room("dqsgd:bits=error,every=2", 1, 10, "every=2");
    assert_true(create("dqsgd:bits=average,epsilon=0.87,alpha=0.5,noise=10", 1, 3, &fault) ==
                TERSE_OK);
}

/* A section that got 16 bits where the rule asked for more is in its worker's report; an owner has
 * one more. */
static void missing_bits_are_counted(void **unused)
{
    (void)unused;
    for (int owners = 0; owners < 2; owners++) {
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = owners ? "dqsgd:bits=kappa,kappa=40000"
                                                        : "dqsgd:bits=kappa,kappa=40000,"
                                                          "combine=allgather",
                                         .workers = 3,
                                         .count = N});
        for (uint64_t step = 0; step < 6; step++) { /* 16 bits have 32767 levels */
            uint32_t capped = 0;
            gradient_of_norm(&crew, step % 2 ? 1 : 0.7, step);
            crew_step(&crew);
            for (uint32_t r = 0; r < 3; r++)
                capped += crew.report[r].capped;
            assert_int_equal(capped, step % 2 ? 3 + owners : 0);
        }
        assert_true(record_of(&crew, 0).spent == 96);
        crew_free(&crew);
    }
}

/* ---- bits=average ---- */

enum { SHAPES = 7, STEPS = 300 };

/* Sequences of norms: flat, wild, rising, falling, with spikes, with a jump up, and down. */
static double norm_at(int shape, uint64_t step, struct test_random *random)
{
    const double at = (double)step / STEPS;
    switch (shape) {
    case 0: return 1;
    case 1: return exp(test_normal(random));
    case 2: return exp(4 * at);
    case 3: return exp(-10 * at);
    case 4: return step % 37 == 36 ? 50 : 1;
    case 5: return at < 0.5 ? 1 : 100;
    default: return at < 0.5 ? 100 : 1;
    }
}

static void expect_average(const char *rest, int shape, double target, uint64_t exchanges)
{
    char spec[120];
    struct test_random random = {test_seed() + (uint64_t)shape};
    (void)snprintf(spec, sizeof spec, "dqsgd:target=%g,%s", target, rest);
    struct crew crew =
        crew_new(&(struct crew_plan){.spec = spec, .workers = 2, .count = 50, .steps = STEPS});
    for (uint64_t step = 0; step < STEPS; step++) {
        gradient_of_norm(&crew, norm_at(shape, step, &random), step);
        crew_step(&crew);
    }
    for (int owner = 0; owner < (strstr(rest, "allgather") ? 1 : 2); owner++) {
        const struct tsi_bit_record record = record_of(&crew, owner);
        const double average = record.spent / record.steps;
        if (record.steps != (double)exchanges || fabs(average / target - 1) > 0.03)
            fail_msg("%s, shape %d, role %d: %.3f bits on average of %g", spec, shape, owner,
                     average, record.steps);
    }
    crew_free(&crew);
}

/* For any sequence of norms as many bits are spent as were asked for, by workers and by owners;
 * warm-up and local steps are not part of the plan. */
static void averages_are_met(void **unused)
{
    static const double targets[] = {3, 4, 6.5, 8};
    (void)unused;
    for (int shape = 0; shape < SHAPES; shape++)
        for (int t = 0; t < 4; t++) {
            expect_average("combine=allgather", shape, targets[t], STEPS);
            expect_average("alpha=0.98,combine=shard", shape, targets[t], STEPS);
            expect_average("alpha=0.98,warmup=100", shape, targets[t], STEPS - 100);
            expect_average("alpha=0.98,every=3", shape, targets[t], STEPS / 3);
        }
}

/* The plan of bits=average, written out: the line through all logs so far, each weighted with what
 * later steps have left of it, then the most bits that fit the budget. */
struct written {
    double log[STEPS];
    double promised; /* slope of the logs from one exchange to the next */
    double target;
    double spent;
    size_t count; /* exchanges done */
    size_t all;
};

static void fit_line(const struct written *plan, double *level, double *slope)
{
    const double prior = 20.0 * 20 * 20 / 12;
    double sum = 0;
    double time = 0;
    double log = 0;
    double spread = prior;
    double product = prior * plan->promised;
    for (int pass = 0; pass < 2; pass++) {
        double weight = 1;
        for (size_t i = plan->count + 1; i-- > 0;) {
            const double t = (double)i - (double)plan->count;
            if (pass == 0) {
                sum += weight;
                time += weight * t;
                log += weight * plan->log[i];
            } else {
                spread += weight * (t - time / sum) * (t - time / sum);
                product += weight * (t - time / sum) * (plan->log[i] - log / sum);
            }
            weight *= 1 - 1 / fmax((double)(i + 1) / 2, 4);
        }
    }
    *slope = product / spread;
    *level = log / sum - *slope * time / sum;
}

static double written_bits(const struct written *plan)
{
    double level;
    double slope;
    const double later = (double)(plan->all - plan->count - 1);
    const double budget = plan->target * (double)plan->all - plan->spent;
    fit_line(plan, &level, &slope);
    const double rise = fmin(fmax(slope, plan->promised), 0) - plan->promised;
    for (int whole = 2; whole < 16; whole++) {
        const double bits = whole;
        const double s = pow(2, bits - 1) - 1; /* more levels than these take another bit */
        double sum = bits + 1;
        for (int i = 0; i < 16; i++) {
            const double ahead = 1 + later * (i + 0.5) / 16;
            const double then = s * exp2(level - plan->log[plan->count] + rise * ahead);
            sum += later / 16 * fmax(2, fmin(16, log2(then + 1) + 1.5));
        }
        if (sum > budget)
            return bits;
    }
    return 16;
}

static void the_plan_is_as_written(void **unused)
{
    static const double alphas[] = {1, 0.97};
    (void)unused;
    for (int c = 0; c < 4; c++) {
        const uint64_t every = c / 2 ? 3 : 1;
        const double alpha = alphas[c % 2];
        char spec[120];
        struct test_random random = {test_seed()};
        struct written plan = {.promised = log2(alpha) / 2 * (double)every,
                               .target = 4.3,
                               .all = (size_t)(STEPS / every)};
        (void)snprintf(spec, sizeof spec, "dqsgd:target=4.3,alpha=%g,every=%d,combine=allgather",
                       alpha, (int)every);
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = spec, .workers = 1, .count = N, .steps = STEPS});
        for (; plan.count < plan.all; plan.count++) {
            const double log = test_normal(&random) - 8 * fmin(0.2, (double)plan.count / STEPS);
            gradient_of_norm(&crew, exp(log), plan.count);
            for (uint64_t i = 0; i < every; i++) /* the sum of equal gradients travels */
                crew_step(&crew);
            plan.log[plan.count] = log2(exp(log));
            const double chosen = record_of(&crew, 0).spent - plan.spent;
            if (chosen != written_bits(&plan))
                fail_msg("%s, exchange %zu: %g bits, expected %g", spec, plan.count, chosen,
                         written_bits(&plan));
            plan.spent += chosen;
        }
        crew_free(&crew);
    }
}

/* A norm far above the level of the norms before gets more bits, one far below fewer. */
static void bits_follow_the_norm(void **unused)
{
    double before = 0;
    double bits[3] = {0};
    struct crew crew = crew_new(&(struct crew_plan){
        .spec = "dqsgd:target=6,combine=allgather", .workers = 1, .count = N, .steps = 1000});
    (void)unused;
    for (uint64_t step = 0; step < 103; step++) {
        gradient_of_norm(&crew, step == 101 ? 16 : step == 102 ? 1.0 / 8 : 1, step);
        crew_step(&crew);
        const double spent = record_of(&crew, 0).spent;
        if (step >= 100)
            bits[step - 100] = spent - before;
        before = spent;
    }
    assert_true(bits[0] >= 5 && bits[0] <= 7);
    assert_true(bits[1] >= bits[0] + 3 && bits[1] <= bits[0] + 5);
    assert_true(bits[2] <= bits[0] - 2 && bits[2] >= bits[0] - 4);
    crew_free(&crew);
}

/* F = 1/2 sum lam_i x_i^2 after 400 steps from x = 1: lam from 0.1 to 1, eta 0.5, alpha 0.925. */
static double descend(const char *spec, double noise, uint64_t seed)
{
    float start[N];
    double loss = 0;
    struct test_random random = {test_seed() + seed};
    for (size_t i = 0; i < N; i++)
        start[i] = 1;
    struct crew crew = crew_new(&(struct crew_plan){.spec = spec,
                                                    .workers = 1,
                                                    .count = N,
                                                    .start = start,
                                                    .seed = test_seed() + seed,
                                                    .steps = 400});
    for (uint64_t step = 0; step < 400; step++) {
        for (size_t i = 0; i < N; i++)
            crew.gradient[0][i] =
                (float)((0.1 + 0.9 * (double)i / (N - 1)) * (double)crew.weights[0][i] +
                        noise * test_normal(&random));
        crew_step(&crew);
    }
    for (size_t i = 0; i < N; i++)
        loss += (0.1 + 0.9 * (double)i / (N - 1)) * pow((double)crew.weights[0][i], 2) / 2;
    crew_free(&crew);
    return loss;
}

/* Without noise bits stay level: the error is that of fixed bits, 1e-19, where a plan by the mean
 * of past norms has 1e-3 and one by the current norm 1e-7. With noise 4 bits are as good as 6 fixed
 * ones. */
static void the_average_is_spent_well(void **unused)
{
    double planned = 0;
    double fixed = 0;
    (void)unused;
    for (uint64_t seed = 0; seed < 4; seed++) {
        const double loss =
            descend("dqsgd:target=4,alpha=0.925,norm=2,lr=0.5,combine=allgather", 0, seed);
        if (!(loss < 1e-18))
            fail_msg("no noise: error %g", loss);
    }
    for (uint64_t seed = 0; seed < 12; seed++) {
        planned +=
            descend("dqsgd:target=4,alpha=0.925,norm=2,lr=0.5,combine=allgather", 0.05, seed);
        fixed += descend("qsgd:bits=6,norm=2,lr=0.5,combine=allgather", 0.05, seed);
    }
    if (!(planned < 1.25 * fixed))
        fail_msg("noise: error %g, fixed bits %g", planned / 12, fixed / 12);
}

/* What no training has written is dropped when it is restored, and the plan begins anew. */
static void damaged_records_are_dropped(void **unused)
{
    static const double damages[] = {NAN, INFINITY, -1, 1e300};
    (void)unused;
    for (size_t field = 0; field < sizeof(struct tsi_bit_record) / sizeof(double); field++)
        for (int d = 0; d < 4; d++) {
            struct crew crew = crew_new(&(struct crew_plan){
                .spec = "dqsgd:combine=allgather", .workers = 1, .count = N, .steps = 20});
            crew_train(&crew, TEST_NORMAL, 0, 10);
            memcpy((char *)crew_state(&crew, 0, "bits").bytes + field * sizeof(double), &damages[d],
                   sizeof(double));
            assert_true(terse_method_restored(crew.method[0], NULL) == TERSE_OK);
            crew_train(&crew, TEST_NORMAL, 10, 10);
            const struct tsi_bit_record record = record_of(&crew, 0);
            if (!(record.spent >= 2 * record.steps && record.spent <= 16 * record.steps) ||
                !isfinite(record.trend.log) || !isfinite(record.trend.time_square))
                fail_msg("field %zu, damage %g: %g bits in %g steps", field, damages[d],
                         record.spent, record.steps);
            crew_free(&crew);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_have_a_share_of_their_own),
        cmocka_unit_test(the_allowed_error_stays),
        cmocka_unit_test(an_error_without_room_is_refused),
        cmocka_unit_test(missing_bits_are_counted),
        cmocka_unit_test(averages_are_met),
        cmocka_unit_test(the_plan_is_as_written),
        cmocka_unit_test(bits_follow_the_norm),
        cmocka_unit_test(the_average_is_spent_well),
        cmocka_unit_test(damaged_records_are_dropped),
    };
    return cmocka_run_group_tests_name("bits", tests, NULL, NULL);
}
