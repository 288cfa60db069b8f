/* How often a sign is wrong, and problems on which signs fail. */
#include <math.h>
#include <stdlib.h>

#include "signsgd.h"
#include "team.h"

/* A team on `count` weights at 0, each moved by exactly lr = 1 in a step: signs can be counted. */
static void open_counters(struct rpr_team *team, uint32_t workers, size_t count, const float *zeros,
                          uint64_t seed)
{
    rpr_team_open(team, &(struct rpr_setup){.spec = "signsgd:lr=1",
                                            .workers = workers,
                                            .count = count,
                                            .start = zeros,
                                            .seed = seed,
                                            .steps = 1});
}

/* The share of weights that went up, against a gradient that is positive. */
static double share_wrong(const struct rpr_team *team)
{
    size_t wrong = 0;
    for (size_t i = 0; i < team->count; i++)
        wrong += team->weights[0][i] > 0;
    return (double)wrong / (double)team->count;
}

/* Measured against expected, in standard errors of `count` draws. */
static double deviations(double measured, double expected, double count)
{
    return (measured - expected) / sqrt(fmax(expected * (1 - expected), 1e-12) / count);
}

/* ---- the vote ---- */

enum { VOTERS = 27, MOST_INVERTERS = 14, VOTES = 20000 };

static double binomial(int count, int hits, double p)
{
    return exp(lgamma(count + 1.0) - lgamma(hits + 1.0) - lgamma(count - hits + 1.0)) *
           pow(p, hits) * pow(1 - p, count - hits);
}

/* P[Bin(M - a, p) + Bin(a, 1 - p) > M / 2] */
static double odds(int voters, int inverters, double p)
{
    double sum = 0;
    for (int honest = 0; honest <= voters - inverters; honest++)
        for (int other = 0; other <= inverters; other++)
            if (2 * (honest + other) > voters)
                sum += binomial(voters - inverters, honest, p) * binomial(inverters, other, 1 - p);
    return sum;
}

struct vote_odds {
    struct rpr_sheet *sheet;
    const float *zeros;
    double right[MOST_INVERTERS + 1];
    terse_status status[MOST_INVERTERS + 1];
};

/* One vote on VOTES coordinates with S = |g| / sigma = 1/2. */
static void vote_once(void *context, size_t inverters)
{
    struct vote_odds *const all = context;
    struct rpr_team team;
    struct rpr_random random = rpr_random(all->sheet->seed, "signsgd/odds", inverters);
    open_counters(&team, VOTERS, VOTES, all->zeros, all->sheet->seed);
    for (uint32_t k = 0; k < VOTERS && team.status == TERSE_OK; k++) {
        rpr_normals(&random, VOTES, team.gradient[k]);
        for (size_t i = 0; i < VOTES; i++)
            team.gradient[k][i] = (k < inverters ? -1.0f : 1.0f) * (0.5f + team.gradient[k][i]);
    }
    rpr_team_step(&team);
    all->status[inverters] = team.status;
    all->right[inverters] = team.status == TERSE_OK ? 1 - share_wrong(&team) : NAN;
    rpr_team_close(&team);
}

void rpr_vote_odds(struct rpr_sheet *sheet)
{
    enum { RUNS = MOST_INVERTERS + 1 };
    const double p = 0.5 * erfc(-0.5 / sqrt(2));
    float *const zeros = rpr_room(sheet, VOTES, sizeof *zeros);
    struct vote_odds all = {.sheet = sheet, .zeros = zeros};
    double expected[RUNS];
    double inverters[RUNS];
    double worst = 0;
    if (zeros)
        rpr_each(sheet->threads, RUNS, vote_once, &all);
    for (int a = 0; a < RUNS; a++) {
        rpr_fail(sheet, all.status[a], NULL);
        inverters[a] = a;
        expected[a] = odds(VOTERS, a, p);
        worst = fmax(worst, fabs(deviations(all.right[a], expected[a], VOTES)));
    }
    rpr_claim(sheet, "vote-odds", worst, RPR_AT_MOST, 5.5,
              "27 voters, 0 to 14 inverters: how often the vote is right, against the exact odds, "
              "in standard errors of %d votes",
              VOTES);
    rpr_chart(sheet, &(struct rpr_axes){"vote-odds", "How often 27 voters are right", "inverters",
                                        "share of right votes", RPR_MARKS, RUNS, inverters, 0});
    rpr_line(sheet, all.right, "measured");
    rpr_line(sheet, expected, "exact odds");
    free(zeros);
}

/* ---- Gauss' bound ---- */

enum { NOISES = 3, STRENGTHS = 7, FLIPS = 200000 };

static const double strength[STRENGTHS] = {0.125, 0.25, 0.5, 1, 1.5, 2, 3}; /* S = |g| / sigma */

static double gauss_bound(double s)
{
    return s > 2 / sqrt(3) ? 2.0 / 9 / (s * s) : 0.5 - s / (2 * sqrt(3));
}

/* Unimodal, symmetric, of variance 1: normal, Laplace, uniform. */
static double draw_noise(struct rpr_random *random, size_t kind)
{
    if (kind == 0)
        return rpr_normal(random);
    const double u = 2 * rpr_uniform(random) - 1;
    if (kind == 1)
        return (u < 0 ? 1 : -1) * log(1 - fabs(u)) / sqrt(2);
    return u * sqrt(3);
}

struct flips {
    struct rpr_sheet *sheet;
    const float *zeros;
    double rate[NOISES][STRENGTHS];
    terse_status status[NOISES * STRENGTHS];
};

static void flip_once(void *context, size_t index)
{
    struct flips *const all = context;
    struct rpr_team team;
    struct rpr_random random = rpr_random(all->sheet->seed, "signsgd/flips", index);
    const size_t noise = index / STRENGTHS;
    const double s = strength[index % STRENGTHS];
    open_counters(&team, 1, FLIPS, all->zeros, all->sheet->seed);
    for (size_t i = 0; i < FLIPS && team.status == TERSE_OK; i++)
        team.gradient[0][i] = (float)(s + draw_noise(&random, noise));
    rpr_team_step(&team);
    all->status[index] = team.status;
    all->rate[noise][index % STRENGTHS] = team.status == TERSE_OK ? share_wrong(&team) : NAN;
    rpr_team_close(&team);
}

static void claim_flips(struct rpr_sheet *sheet, const struct flips *all)
{
    double over = -INFINITY;
    double normal = 0;
    double tight = 0;
    for (size_t i = 0; i < STRENGTHS; i++) {
        const double bound = gauss_bound(strength[i]);
        for (size_t noise = 0; noise < NOISES; noise++)
            over = fmax(over, deviations(all->rate[noise][i], bound, FLIPS));
        normal = fmax(normal,
                      fabs(deviations(all->rate[0][i], 0.5 * erfc(strength[i] / sqrt(2)), FLIPS)));
        if (strength[i] <= 2 / sqrt(3))
            tight = fmax(tight, fabs(deviations(all->rate[2][i], bound, FLIPS)));
    }
    rpr_claim(sheet, "flip-bound", over, RPR_AT_MOST, 5.5,
              "normal, Laplace, uniform noise: how far a sign is wrong more often than Gauss' "
              "bound, in standard errors, the worst");
    rpr_claim(sheet, "flip-tight", tight, RPR_AT_MOST, 5.5,
              "uniform noise, S up to 2/sqrt 3, where the bound is met: distance from it in "
              "standard errors");
    rpr_claim(sheet, "flip-normal", normal, RPR_AT_MOST, 5.5,
              "normal noise: distance from the normal tail P[N < -S] in standard errors");
}

void rpr_flip_rates(struct rpr_sheet *sheet)
{
    static const char *const name[NOISES] = {"normal", "Laplace", "uniform"};
    float *const zeros = rpr_room(sheet, FLIPS, sizeof *zeros);
    struct flips all = {.sheet = sheet, .zeros = zeros};
    double bound[STRENGTHS];
    if (zeros)
        rpr_each(sheet->threads, NOISES * STRENGTHS, flip_once, &all);
    for (size_t i = 0; i < NOISES * STRENGTHS; i++)
        rpr_fail(sheet, all.status[i], NULL);
    for (size_t i = 0; i < STRENGTHS; i++)
        bound[i] = gauss_bound(strength[i]);
    claim_flips(sheet, &all);
    rpr_chart(sheet, &(struct rpr_axes){"flips", "How often the sign of a noisy gradient is wrong",
                                        "S = |g| / sigma", "share of wrong signs",
                                        RPR_LOG_Y | RPR_MARKS, STRENGTHS, strength, 0});
    rpr_line(sheet, bound, "Gauss' bound");
    for (size_t i = 0; i < NOISES; i++)
        rpr_line(sheet, all.rate[i], "%s noise", name[i]);
    free(zeros);
}

/* ---- where signs fail ---- */

enum { METHODS = 3, CLIMBS = 16, CLIMB_DIM = 16, CLIMB_STEPS = 1000, CLIMB_POINTS = 101 };

struct climbing {
    struct rpr_sheet *sheet;
    double path[METHODS * CLIMBS][CLIMB_POINTS];
    terse_status status[METHODS * CLIMBS];
};

/* f = sum x_i / 4 on [-1, 1], each g_i = 4 or -1 with odds 1 : 3. So few and small steps stay
 * inside. In one dimension a scaled sign is the gradient itself, and EF-sign would be SGD. */
static void climb_once(void *context, size_t index)
{
    static const char *const specs[METHODS] = {"dense:momentum=0,lr=0.001", "signsgd:lr=0.001",
                                               "ef-sign:lr=0.001"};
    struct climbing *const all = context;
    struct rpr_team team;
    struct rpr_random random = rpr_random(all->sheet->seed, "signsgd/climbing", index / METHODS);
    const float zeros[CLIMB_DIM] = {0};
    rpr_team_open(&team, &(struct rpr_setup){.spec = specs[index % METHODS],
                                             .workers = 1,
                                             .count = CLIMB_DIM,
                                             .start = zeros,
                                             .seed = all->sheet->seed,
                                             .steps = CLIMB_STEPS});
    for (size_t step = 1; step <= CLIMB_STEPS && team.status == TERSE_OK; step++) {
        for (size_t i = 0; i < CLIMB_DIM; i++)
            team.gradient[0][i] = rpr_uniform(&random) < 0.25 ? 4 : -1;
        rpr_team_step(&team);
        for (size_t i = 0; i < CLIMB_DIM && step % 10 == 0; i++)
            all->path[index][step / 10] += (double)team.weights[0][i] / CLIMB_DIM;
    }
    all->status[index] = team.status;
    rpr_team_close(&team);
}

void rpr_climbing(struct rpr_sheet *sheet)
{
    static const char *const name[METHODS] = {"SGD", "signSGD", "EF-sign"};
    double mean[METHODS][CLIMB_POINTS] = {{0}};
    struct climbing *const all = rpr_room(sheet, 1, sizeof *all);
    if (all) {
        all->sheet = sheet;
        rpr_each(sheet->threads, METHODS * CLIMBS, climb_once, all);
    }
    for (size_t i = 0; i < METHODS * CLIMBS && all; i++) {
        rpr_fail(sheet, all->status[i], NULL);
        for (size_t j = 0; j < CLIMB_POINTS; j++)
            mean[i % METHODS][j] += all->path[i][j] / CLIMBS;
    }
    rpr_claim_within(sheet, "climbing", mean[1][CLIMB_POINTS - 1], 0.485, 0.515,
                     "min sum x_i/4, each g_i = 4 (1 in 4) or -1: signSGD climbs from 0 by half of "
                     "its steps of 0.001, mean x after 1000");
    rpr_claim_within(sheet, "climbing-cure", mean[2][CLIMB_POINTS - 1] / mean[0][CLIMB_POINTS - 1],
                     0.99, 1.005,
                     "the same with EF-sign in %d dimensions, which goes down with SGD: its mean x "
                     "over SGD's",
                     CLIMB_DIM);
    rpr_chart(sheet, &(struct rpr_axes){"climbing", "min sum x_i/4: the sign's mean points uphill",
                                        "step", "mean x", 0, CLIMB_POINTS, NULL, 10});
    for (size_t i = 0; i < METHODS; i++)
        rpr_line(sheet, mean[i], "%s", name[i]);
    free(all);
}

enum { STUCK_STEPS = 2000, STUCK_POINTS = 201 };

/* Rows of a least squares problem whose gradients' signs are all +-(1, -1). */
static const float rows[2][2] = {{1.3f, -0.7f}, {-0.7f, 1.3f}};

static double squares(const float *x)
{
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        const double off = (double)rows[i][0] * (double)x[0] + (double)rows[i][1] * (double)x[1];
        sum += off * off;
    }
    return sum;
}

static void go_along_rows(struct rpr_sheet *sheet, const char *spec, double *out)
{
    struct rpr_team team;
    struct rpr_random random = rpr_random(sheet->seed, "signsgd/stuck", 0);
    const float ones[2] = {1, 1};
    rpr_team_open(&team, &(struct rpr_setup){.spec = spec,
                                             .workers = 1,
                                             .count = 2,
                                             .start = ones,
                                             .seed = sheet->seed,
                                             .steps = STUCK_STEPS});
    out[0] = squares(ones);
    for (size_t step = 1; step <= STUCK_STEPS && team.status == TERSE_OK; step++) {
        const float *const x = team.weights[0];
        const float *const row = rows[rpr_bits(&random) >> 63];
        const float off = row[0] * x[0] + row[1] * x[1];
        team.gradient[0][0] = 2 * off * row[0];
        team.gradient[0][1] = 2 * off * row[1];
        rpr_team_step(&team);
        if (step % 10 == 0)
            out[step / 10] = squares(team.weights[0]);
    }
    rpr_fail(sheet, team.status, &team.fault);
    rpr_team_close(&team);
}

void rpr_stuck(struct rpr_sheet *sheet)
{
    static const char *const specs[METHODS] = {"dense:momentum=0,lr=0.01", "signsgd:lr=0.01",
                                               "ef-sign:lr=0.01"};
    static const char *const name[METHODS] = {"SGD", "signSGD", "EF-sign"};
    double loss[METHODS][STUCK_POINTS] = {{0}};
    double least = INFINITY;
    for (size_t i = 0; i < METHODS; i++)
        go_along_rows(sheet, specs[i], loss[i]);
    for (size_t i = 0; i < STUCK_POINTS; i++)
        least = fmin(least, loss[1][i]);
    rpr_claim_within(
        sheet, "stuck", least, 0.7199, 0.7201,
        "least squares in 2-D with all signs +-(1,-1): the least loss signSGD ever has "
        "(0.72 on its line)");
    rpr_claim_within(sheet, "stuck-cure", loss[2][STUCK_POINTS - 1], 1e-7, 1e-6,
                     "the same with EF-sign: loss after 2000 steps");
    rpr_chart(sheet, &(struct rpr_axes){"stuck", "Least squares in 2-D whose signs span a line",
                                        "step", "loss", RPR_LOG_Y, STUCK_POINTS, NULL, 10});
    for (size_t i = 0; i < METHODS; i++)
        rpr_line(sheet, loss[i], "%s", name[i]);
}
