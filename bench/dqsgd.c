/* Does DQ-SGD keep what it promises?
 *
 *     build/bench/dqsgd [error|average] [--seed S] [--repeats N]
 *
 * error: bits=error on F = |x|^2 / 2, d = 200, eta 0.1, 100 steps, noise 0.05: how much more F is
 * at the end than without quantization, over the error A that is allowed. Gradient noise and start
 * are the same for both. Fails unless the 95 % upper bound of the mean is at most 1.
 *
 * average: bits=average on F = 1/2 sum lam_i x_i^2, d = 200, lam 0.1 to 1, eta 0.5, 400 steps, with
 * and without noise: the bits spent, and F beside fixed bits and beside bits=kappa with a kappa
 * that is found with hindsight such that as many bits are spent. Fails unless the bits are within
 * 3 % and, without noise, F is within a decade of hindsight. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <terse/terse.h>

enum { DIM = 200, MOST_WORKERS = 16, MOST_STEPS = 400 };

#define NOISE 0.05
#define OVERHEAD (40.0 / DIM) /* bits per element that are not levels: norm, number of bits */

static uint64_t seed = 1;
static unsigned repeats = 200;

/* ---- random numbers: splitmix64 ---- */

static double uniform(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return ((double)((z ^ z >> 31) >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t *state)
{
    const double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(6.283185307179586 * uniform(state));
}

static uint64_t stream(uint64_t what, uint64_t repeat)
{
    uint64_t state = seed * UINT64_C(0xD1342543DE82EF95) + what * 1000003 + repeat;
    (void)uniform(&state);
    return state;
}

/* ---- a descent ---- */

struct problem {
    double eta;
    uint64_t steps;
    double deviation;   /* of the noise */
    const float *noise; /* standard normal, by step, worker and coordinate; NULL: none */
    double curvature[DIM];
    double start[DIM];
};

static void give_up(const char *what, const terse_fault *fault)
{
    fprintf(stderr, "dqsgd: %s: %s\n", what, fault->text);
    exit(2);
}

static double loss_of(const struct problem *problem, const double *x)
{
    double sum = 0;
    for (size_t i = 0; i < DIM; i++)
        sum += problem->curvature[i] * x[i] * x[i];
    return sum / 2;
}

/* The gradient of coordinate i at x. */
static double gradient(const struct problem *problem, uint64_t step, uint32_t workers, uint32_t k,
                       size_t i, double x)
{
    const size_t at = ((size_t)step * workers + k) * DIM + i;
    const double noise = problem->noise ? problem->deviation * (double)problem->noise[at] : 0;
    return problem->curvature[i] * x + noise;
}

/* F at the end without quantization: the mean of the workers' gradients. */
static double exact(const struct problem *problem, uint32_t workers)
{
    double x[DIM];
    memcpy(x, problem->start, sizeof x);
    for (uint64_t step = 0; step < problem->steps; step++)
        for (size_t i = 0; i < DIM; i++) {
            double mean = 0;
            for (uint32_t k = 0; k < workers; k++)
                mean += gradient(problem, step, workers, k, i, x[i]) / workers;
            x[i] -= problem->eta * mean;
        }
    return loss_of(problem, x);
}

struct outcome {
    double loss;
    double bits;     /* of a worker's payload, mean over the steps */
    uint64_t capped; /* sections that got fewer bits than the rule asked for */
};

/* The same with the method that `spec` names. */
static struct outcome descend(const struct problem *problem, const char *spec, uint32_t workers,
                              uint64_t method_seed)
{
    static float weights[MOST_WORKERS][DIM];
    static float gradients[MOST_WORKERS][DIM];
    float *weights_at[MOST_WORKERS];
    const float *gradients_at[MOST_WORKERS];
    terse_method *method[MOST_WORKERS];
    terse_method_report report[MOST_WORKERS];
    const terse_method_options options = {
        .size = sizeof options, .seed = method_seed, .steps = problem->steps};
    terse_fault fault = {0};
    terse_layout *layout = NULL;
    struct outcome out = {0};
    double x[DIM];
    for (uint32_t k = 0; k < workers; k++) {
        weights_at[k] = weights[k];
        gradients_at[k] = gradients[k];
        for (size_t i = 0; i < DIM; i++)
            weights[k][i] = (float)problem->start[i];
    }
    if (terse_layout_vector(DIM, &layout) != TERSE_OK ||
        terse_method_create_all(spec, workers, layout, weights_at, &options, method, &fault) !=
            TERSE_OK)
        give_up(spec, &fault);
    for (uint64_t step = 0; step < problem->steps; step++) {
        for (uint32_t k = 0; k < workers; k++)
            for (size_t i = 0; i < DIM; i++)
                gradients[k][i] =
                    (float)gradient(problem, step, workers, k, i, (double)weights[k][i]);
        if (terse_method_step_all(method, gradients_at, report, &fault) != TERSE_OK)
            give_up(spec, &fault);
        out.bits += (report[0].bits - OVERHEAD) / (double)problem->steps;
        for (uint32_t k = 0; k < workers; k++)
            out.capped += report[k].capped;
    }
    for (size_t i = 0; i < DIM; i++)
        x[i] = (double)weights[0][i];
    out.loss = loss_of(problem, x);
    for (uint32_t k = 0; k < workers; k++)
        terse_method_destroy(method[k]);
    terse_layout_destroy(layout);
    return out;
}

static float *make_noise(uint64_t steps, uint32_t workers, uint64_t random)
{
    static float noise[MOST_STEPS * MOST_WORKERS * DIM];
    for (size_t i = 0; i < steps * workers * DIM; i++)
        noise[i] = (float)normal(&random);
    return noise;
}

/* ---- error ---- */

enum { ERRORS = 2, NORMS = 2, COMBINES = 3, CELLS = ERRORS * NORMS * COMBINES };

static const double errors[ERRORS] = {1e-2, 1e-4};
static const char *const norms[NORMS] = {"2", "inf"};
static const char *const combines[COMBINES] = {"allgather", "shard", "parameter-server"};

struct cell {
    double allowed;
    const char *norm;
    const char *combine;
    double sum; /* of the excess over the allowed error, */
    double square;
    double bits;
    uint64_t capped;
};

static void add_run(struct cell *cell, const struct problem *problem, uint32_t workers,
                    double without, unsigned repeat)
{
    char spec[160];
    (void)snprintf(spec, sizeof spec,
                   "dqsgd:bits=error,epsilon=%g,smoothness=1,alpha=0.81,lr=0.1,norm=%s,combine=%s",
                   cell->allowed, cell->norm, cell->combine);
    const struct outcome outcome = descend(problem, spec, workers, seed + repeat);
    const double excess = (outcome.loss - without) / cell->allowed;
    cell->sum += excess;
    cell->square += excess * excess;
    cell->bits += outcome.bits;
    cell->capped += outcome.capped;
}

/* Returns 1 if the error is kept. */
static int show_cell(const struct cell *cell, uint32_t workers)
{
    const double mean = cell->sum / repeats;
    const double variance = (cell->square - cell->sum * mean) / (repeats - 1.0);
    const double bound = mean + 1.96 * sqrt(variance / repeats);
    printf("%7u  %8g  %-4s  %-16s  %7.3f  %11.3f  %8.2f  %6llu%s\n", workers, cell->allowed,
           cell->norm, cell->combine, mean, bound, cell->bits / repeats,
           (unsigned long long)cell->capped, bound <= 1 ? "" : "  BROKEN");
    (void)fflush(stdout);
    return bound <= 1;
}

static int show_workers(uint32_t workers)
{
    struct cell cells[CELLS];
    struct problem problem = {.eta = 0.1, .steps = 100, .deviation = NOISE};
    int kept = 1;
    for (size_t c = 0; c < CELLS; c++)
        cells[c] = (struct cell){.allowed = errors[c / (NORMS * COMBINES)],
                                 .norm = norms[c / COMBINES % NORMS],
                                 .combine = combines[c % COMBINES]};
    for (unsigned r = 0; r < repeats; r++) {
        uint64_t start = stream(2 * workers + 1, r);
        problem.noise = make_noise(problem.steps, workers, stream(2 * workers, r));
        for (size_t i = 0; i < DIM; i++) {
            problem.curvature[i] = 1;
            problem.start[i] = (double)(float)normal(&start);
        }
        const double without = exact(&problem, workers);
        for (size_t c = 0; c < CELLS; c++)
            add_run(&cells[c], &problem, workers, without, r);
    }
    for (size_t c = 0; c < CELLS; c++)
        kept &= show_cell(&cells[c], workers);
    return kept;
}

static int show_error(void)
{
    static const uint32_t crowds[] = {1, 4, 8, 16};
    int kept = 1;
    printf("bits=error: F above that without quantization, in units of A; seed %llu, %u repeats\n"
           "%7s  %8s  %-4s  %-16s  %7s  %11s  %8s  %6s\n",
           (unsigned long long)seed, repeats, "workers", "A", "norm", "combine", "excess",
           "95 % bound", "bits up", "capped");
    for (size_t w = 0; w < 4; w++)
        kept &= show_workers(crowds[w]);
    return kept;
}

/* ---- average ---- */

enum { AVERAGE_REPEATS = 12 };

#define COMMON "alpha=0.925,lr=0.5,combine=allgather"

static struct outcome mean_of(const struct problem *given, const char *spec)
{
    struct problem problem = *given;
    struct outcome mean = {0};
    for (unsigned r = 0; r < AVERAGE_REPEATS; r++) {
        if (problem.deviation > 0)
            problem.noise = make_noise(problem.steps, 1, stream(0, r));
        const struct outcome one = descend(&problem, spec, 1, seed + r);
        mean.loss += one.loss / AVERAGE_REPEATS;
        mean.bits += one.bits / AVERAGE_REPEATS;
    }
    return mean;
}

/* bits=kappa with the largest kappa that spends no more than `bits`. */
static struct outcome with_hindsight(const struct problem *problem, const char *norm, double bits)
{
    struct outcome best = {0};
    double low = -20;
    double high = 39;
    for (int i = 0; i < 16; i++) {
        char spec[160];
        const double middle = (low + high) / 2;
        (void)snprintf(spec, sizeof spec, "dqsgd:bits=kappa,kappa=%.9g,norm=%s," COMMON,
                       exp2(middle), norm);
        const struct outcome outcome = mean_of(problem, spec);
        if (outcome.bits <= bits) {
            best = outcome;
            low = middle;
        } else {
            high = middle;
        }
    }
    return best;
}

static int measure_average(const struct problem *problem, const char *norm, double bits)
{
    char spec[160];
    (void)snprintf(spec, sizeof spec, "qsgd:bits=%g,norm=%s,lr=0.5,combine=allgather", bits, norm);
    const struct outcome fixed = mean_of(problem, spec);
    (void)snprintf(spec, sizeof spec, "dqsgd:bits=average,target=%g,norm=%s," COMMON, bits, norm);
    const struct outcome planned = mean_of(problem, spec);
    const struct outcome hindsight = with_hindsight(problem, norm, bits);
    const int spends = fabs(planned.bits / bits - 1) <= 0.03;
    const int reaches = problem->deviation > 0 || planned.loss <= 10 * hindsight.loss;
    printf("%5g  %-4s  %5g  %6.3f  %9.2f  %9.2f  %9.2f (%.2f bits)%s%s\n", problem->deviation, norm,
           bits, planned.bits, log10(planned.loss), log10(fixed.loss), log10(hindsight.loss),
           hindsight.bits, spends ? "" : "  NOT SPENT", reaches ? "" : "  NOT REACHED");
    (void)fflush(stdout);
    return spends && reaches;
}

static int show_average(void)
{
    struct problem problem = {.eta = 0.5, .steps = 400};
    int kept = 1;
    for (size_t i = 0; i < DIM; i++) {
        problem.curvature[i] = 0.1 + 0.9 * (double)i / (DIM - 1);
        problem.start[i] = 1;
    }
    printf("bits=average: bits spent and log10 F after 400 steps; seed %llu, %d repeats\n"
           "%5s  %-4s  %5s  %6s  %9s  %9s  %9s\n",
           (unsigned long long)seed, AVERAGE_REPEATS, "noise", "norm", "asked", "spent", "average",
           "fixed", "hindsight");
    for (size_t noisy = 0; noisy < 2; noisy++)
        for (size_t norm = 0; norm < NORMS; norm++)
            for (int bits = 4; bits <= 8; bits += 2) {
                problem.deviation = noisy ? NOISE : 0;
                kept &= measure_average(&problem, norms[norm], bits);
            }
    return kept;
}

static int usage(void)
{
    fprintf(stderr, "usage: dqsgd [error|average] [--seed S] [--repeats N]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *what = "";
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--repeats") == 0 && i + 1 < argc)
            repeats = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "error") == 0 || strcmp(argv[i], "average") == 0)
            what = argv[i];
        else
            return usage();
    if (repeats < 2)
        return usage();
    int kept = 1;
    if (strcmp(what, "average") != 0)
        kept &= show_error();
    if (strcmp(what, "error") != 0)
        kept &= show_average();
    return kept ? 0 : 1;
}
