/* signSGD and the majority vote (Bernstein et al., ICML 2018 and ICLR 2019): descents. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "descent.h"
#include "signsgd.h"

/* x0 ~ N(0, I) */
static void draw_start(struct rpr_sheet *sheet, const char *experiment, uint64_t repeat,
                       size_t count, float *out)
{
    struct rpr_random random = rpr_random(sheet->seed, experiment, 1000000 + repeat);
    rpr_normals(&random, count, out);
}

/* ---- noise in one coordinate of a hundred ---- */

enum { SPARSE_DIM = 100, SPARSE_STEPS = 10000, SPARSE_REPEATS = 32, SPARSE_POINTS = 201 };

static void sparse_noise(struct rpr_sheet *sheet)
{
    static const char *const specs[2] = {"dense:momentum=0,lr=0.001", "signsgd:lr=0.01"};
    enum { RUNS = 2 * SPARSE_REPEATS };
    struct rpr_descent *const run = rpr_room(sheet, RUNS, sizeof *run);
    float *const start = rpr_room(sheet, SPARSE_REPEATS * SPARSE_DIM, sizeof *start);
    double *const loss = rpr_room(sheet, RUNS * (SPARSE_STEPS + 1), sizeof *loss);
    const float noise[SPARSE_DIM] = {100};
    double mean[2][SPARSE_POINTS] = {{0}};
    double final[2] = {0, 0};
    for (size_t i = 0; i < RUNS && sheet->status == TERSE_OK; i++) {
        const size_t repeat = i / 2;
        float *const x = start + repeat * SPARSE_DIM;
        draw_start(sheet, "signsgd/sparse", repeat, SPARSE_DIM, x);
        run[i] = (struct rpr_descent){.workers = 1,
                                      .count = SPARSE_DIM,
                                      .noise = noise,
                                      .start = x,
                                      .steps = SPARSE_STEPS,
                                      .tail = SPARSE_STEPS / 5,
                                      .random = rpr_random(sheet->seed, "signsgd/sparse", repeat),
                                      .seed = sheet->seed + repeat,
                                      .loss = loss + i * (SPARSE_STEPS + 1)};
        (void)snprintf(run[i].spec, sizeof run[i].spec, "%s", specs[i % 2]);
    }
    rpr_descend(sheet, run, RUNS);
    for (size_t i = 0; i < RUNS && sheet->status == TERSE_OK; i++) {
        double thin[SPARSE_POINTS];
        rpr_thin(run[i].loss, SPARSE_STEPS, SPARSE_STEPS / (SPARSE_POINTS - 1), thin);
        rpr_add(mean[i % 2], thin, SPARSE_POINTS, 1.0 / SPARSE_REPEATS);
        final[i % 2] += run[i].final / SPARSE_REPEATS;
    }
    rpr_claim_within(sheet, "sparse-noise", log10(final[0] / final[1]), 0.3, 1.6,
                     "noise in 1 of 100 coordinates: SGD's loss at the end over signSGD's, means "
                     "of %d repeats, log10",
                     SPARSE_REPEATS);
    rpr_chart(sheet, &(struct rpr_axes){"sparse-noise", "Noise in one coordinate of a hundred",
                                        "step", "mean loss", RPR_LOG_Y, SPARSE_POINTS, NULL, 50});
    rpr_line(sheet, mean[0], "SGD, lr 0.001");
    rpr_line(sheet, mean[1], "signSGD, lr 0.01");
    free(run);
    free(start);
    free(loss);
}

/* ---- workers that contribute the opposite ---- */

enum { VOTERS = 27, VOTE_DIM = 1000, VOTE_STEPS = 300, VOTE_POINTS = 101, MOST_INVERTERS = 14 };

static void claim_inverters(struct rpr_sheet *sheet, const struct rpr_descent *run)
{
    double share[MOST_INVERTERS + 1];
    double worst = 0;
    double least_rise = INFINITY;
    for (int a = 0; a <= MOST_INVERTERS; a++) {
        share[a] = run[a].final / run[a].loss[0];
        worst = a < MOST_INVERTERS ? fmax(worst, share[a]) : worst;
        least_rise = a >= 4 ? fmin(least_rise, share[a] / share[a - 4]) : least_rise;
    }
    rpr_claim_within(
        sheet, "inverters-13", worst, 0.17, 0.28,
        "27 workers, up to 13 contribute -g: the loss at the end over the loss at the start, "
        "the worst");
    rpr_claim_within(
        sheet, "inverters-14", share[MOST_INVERTERS], 12.5, 15.1,
        "27 workers, 14 contribute -g: the loss at the end over the loss at the start");
    rpr_claim_within(
        sheet, "inverters-order", least_rise, 1.15, 1.7,
        "four more inverters make the end worse: the least factor over 0..4, 1..5, .. 10..14");
}

static void inverters(struct rpr_sheet *sheet)
{
    enum { RUNS = MOST_INVERTERS + 1 };
    struct rpr_descent *const run = rpr_room(sheet, RUNS, sizeof *run);
    float *const start = rpr_room(sheet, VOTE_DIM, sizeof *start);
    double *const loss = rpr_room(sheet, RUNS * (VOTE_STEPS + 1), sizeof *loss);
    if (sheet->status == TERSE_OK)
        draw_start(sheet, "signsgd/inverters", 0, VOTE_DIM, start);
    for (uint32_t a = 0; a < RUNS && sheet->status == TERSE_OK; a++)
        run[a] = (struct rpr_descent){.spec = "signsgd:lr=0.02",
                                      .workers = VOTERS,
                                      .inverters = a,
                                      .count = VOTE_DIM,
                                      .deviation = 1,
                                      .start = start,
                                      .steps = VOTE_STEPS,
                                      .tail = VOTE_STEPS / 10,
                                      .random = rpr_random(sheet->seed, "signsgd/inverters", a),
                                      .seed = sheet->seed,
                                      .loss = loss + a * (VOTE_STEPS + 1)};
    rpr_descend(sheet, run, RUNS);
    if (sheet->status == TERSE_OK)
        claim_inverters(sheet, run);
    rpr_chart(sheet, &(struct rpr_axes){"inverters", "27 workers, some contribute the opposite",
                                        "step", "loss", RPR_LOG_Y, VOTE_POINTS, NULL, 3});
    for (int a = 0; a < RUNS && sheet->status == TERSE_OK; a += a < 12 ? 4 : 1) {
        double thin[VOTE_POINTS];
        rpr_thin(run[a].loss, VOTE_STEPS, 3, thin);
        rpr_line(sheet, thin, "%d inverters", a);
    }
    free(run);
    free(start);
    free(loss);
}

/* ---- more workers, less variance ---- */

enum { CROWDS = 4, CROWD_STEPS = 600, CROWD_POINTS = 151 };

static void claim_crowds(struct rpr_sheet *sheet, const struct rpr_descent *run)
{
    static const char *const id[2] = {"variance-vote", "variance-mean"};
    static const char *const name[2] = {"vote", "mean"};
    static const char *const law[2] = {"4.20: the steady state is as lr / sqrt M", "27: 1/M"};
    static const double low[2] = {3.4, 23.5};
    static const double high[2] = {5, 31};
    for (int arm = 0; arm < 2; arm++)
        rpr_claim_within(sheet, id[arm], run[arm].final / run[2 * (CROWDS - 1) + arm].final,
                         low[arm], high[arm],
                         "%s of 27 workers instead of 1 divides the loss at the end by (%s)",
                         name[arm], law[arm]);
}

static void variance(struct rpr_sheet *sheet)
{
    static const char *const specs[2] = {"signsgd:lr=0.02", "dense:momentum=0,lr=0.05"};
    static const char *const name[2] = {"vote", "mean"};
    static const uint32_t crowd[CROWDS] = {1, 3, 9, 27};
    enum { RUNS = 2 * CROWDS };
    struct rpr_descent *const run = rpr_room(sheet, RUNS, sizeof *run);
    float *const start = rpr_room(sheet, VOTE_DIM, sizeof *start);
    double *const loss = rpr_room(sheet, RUNS * (CROWD_STEPS + 1), sizeof *loss);
    if (sheet->status == TERSE_OK)
        draw_start(sheet, "signsgd/variance", 0, VOTE_DIM, start);
    for (size_t i = 0; i < RUNS && sheet->status == TERSE_OK; i++) {
        run[i] = (struct rpr_descent){.workers = crowd[i / 2],
                                      .count = VOTE_DIM,
                                      .deviation = 1,
                                      .start = start,
                                      .steps = CROWD_STEPS,
                                      .tail = CROWD_STEPS / 4,
                                      .random = rpr_random(sheet->seed, "signsgd/variance", i),
                                      .seed = sheet->seed,
                                      .loss = loss + i * (CROWD_STEPS + 1)};
        (void)snprintf(run[i].spec, sizeof run[i].spec, "%s", specs[i % 2]);
    }
    rpr_descend(sheet, run, RUNS);
    if (sheet->status == TERSE_OK)
        claim_crowds(sheet, run);
    rpr_chart(sheet, &(struct rpr_axes){"variance", "More workers, less variance", "step", "loss",
                                        RPR_LOG_Y, CROWD_POINTS, NULL, 4});
    for (size_t i = 0; i < RUNS && sheet->status == TERSE_OK; i++) {
        const size_t at = i % CROWDS * 2 + i / CROWDS;
        double thin[CROWD_POINTS];
        rpr_thin(run[at].loss, CROWD_STEPS, 4, thin);
        rpr_line(sheet, thin, "%s of %u", name[at % 2], crowd[at / 2]);
    }
    free(run);
    free(start);
    free(loss);
}

/* ---- dense or sparse gradients, dense or sparse noise ---- */

/* Gradient and noise keep their l2 norm, and are spread evenly over 1 .. all coordinates: their
 * density phi = |v|_1^2 / (d |v|_2^2) is then that share. Both methods have their best lr. */
enum { GEO_DIM = 400, GEO_STEPS = 200, GEO_RATES = 6, GEO_REPEATS = 8, SPREADS = 3 };

static const size_t spread[SPREADS] = {1, 20, GEO_DIM};

struct geometry {
    float start[SPREADS][GEO_DIM];
    float noise[SPREADS][GEO_DIM];
    struct rpr_descent run[SPREADS][SPREADS][2][GEO_RATES][GEO_REPEATS];
    double best[SPREADS][SPREADS][2];
};

static void fill_spread(float *out, size_t used, double norm)
{
    for (size_t i = 0; i < GEO_DIM; i++)
        out[i] = i < used ? (float)(norm / sqrt((double)used)) : 0;
}

static void plan_geometry(struct rpr_sheet *sheet, struct geometry *all, size_t index)
{
    const size_t repeat = index % GEO_REPEATS;
    const size_t rate = index / GEO_REPEATS % GEO_RATES;
    const size_t method = index / GEO_REPEATS / GEO_RATES % 2;
    const size_t noise = index / GEO_REPEATS / GEO_RATES / 2 % SPREADS;
    const size_t gradient = index / GEO_REPEATS / GEO_RATES / 2 / SPREADS;
    struct rpr_descent *const run = &all->run[gradient][noise][method][rate][repeat];
    *run = (struct rpr_descent){.workers = 1,
                                .count = GEO_DIM,
                                .noise = all->noise[noise],
                                .start = all->start[gradient],
                                .steps = GEO_STEPS,
                                .tail = 50,
                                .random = rpr_random(sheet->seed, "signsgd/geometry", index),
                                .seed = sheet->seed + index};
    (void)snprintf(run->spec, sizeof run->spec, "%s,lr=%g",
                   method ? "dense:momentum=0" : "signsgd:wd=0",
                   (method ? 0.5 : 0.25) / pow(2, (double)rate));
}

static void choose_rates(struct geometry *all)
{
    for (size_t i = 0; i < SPREADS * SPREADS * 2; i++) {
        double *const best = &all->best[i / 2 / SPREADS][i / 2 % SPREADS][i % 2];
        *best = INFINITY;
        for (size_t rate = 0; rate < GEO_RATES; rate++) {
            double mean = 0;
            for (size_t repeat = 0; repeat < GEO_REPEATS; repeat++)
                mean += all->run[i / 2 / SPREADS][i / 2 % SPREADS][i % 2][rate][repeat].final;
            *best = fmin(*best, mean / GEO_REPEATS);
        }
    }
}

static void show_geometry(struct rpr_sheet *sheet, const struct geometry *all)
{
    double density[SPREADS];
    double ratio[SPREADS][SPREADS]; /* [noise][gradient] */
    for (size_t i = 0; i < SPREADS * SPREADS; i++) {
        density[i % SPREADS] = (double)spread[i % SPREADS] / GEO_DIM;
        ratio[i / SPREADS][i % SPREADS] =
            all->best[i % SPREADS][i / SPREADS][0] / all->best[i % SPREADS][i / SPREADS][1];
    }
    rpr_claim_within(
        sheet, "geometry-sign", ratio[0][SPREADS - 1], 0.03, 0.7,
        "dense gradient, noise in one coordinate, both at their best lr: signSGD's loss "
        "over SGD's");
    rpr_claim_within(
        sheet, "geometry-sgd", ratio[SPREADS - 1][0], 5.9, 7.5,
        "gradient in one coordinate, dense noise, both at their best lr: signSGD's loss "
        "over SGD's");
    rpr_chart(sheet,
              &(struct rpr_axes){"geometry", "Sign or SGD: above 1 SGD wins, below 1 the sign",
                                 "density of the gradient", "signSGD's loss / SGD's",
                                 RPR_LOG_X | RPR_LOG_Y | RPR_MARKS, SPREADS, density, 0});
    for (size_t i = 0; i < SPREADS; i++)
        rpr_line(sheet, ratio[i], "noise of density %g", density[i]);
}

static void geometry(struct rpr_sheet *sheet)
{
    enum { RUNS = SPREADS * SPREADS * 2 * GEO_RATES * GEO_REPEATS };
    struct geometry *const all = rpr_room(sheet, 1, sizeof *all);
    for (size_t i = 0; i < SPREADS && all; i++) {
        fill_spread(all->start[i], spread[i], sqrt(GEO_DIM));
        fill_spread(all->noise[i], spread[i], sqrt(GEO_DIM));
    }
    for (size_t i = 0; i < RUNS && all; i++)
        plan_geometry(sheet, all, i);
    if (all)
        rpr_descend(sheet, &all->run[0][0][0][0][0], RUNS);
    if (all && sheet->status == TERSE_OK) {
        choose_rates(all);
        show_geometry(sheet, all);
    }
    free(all);
}

static rpr_experiment *const experiments[] = {
    sparse_noise, inverters,        rpr_vote_odds, rpr_flip_rates,  variance,
    geometry,     rpr_climbing,     rpr_stuck,     rpr_signum_rule, rpr_signum_noisy,
    rpr_ties,     rpr_signum_decay, rpr_vote_law,  rpr_sign_rate,   NULL,
};

const struct rpr_plan rpr_signsgd = {
    .paper = "signsgd",
    .title = "signSGD and the majority vote",
    .citation = "Bernstein, Wang, Azizzadenesheli, Anandkumar, ICML 2018; Bernstein, Zhao, "
                "Azizzadenesheli, Anandkumar, ICLR 2019; counter-examples and EF-sign: "
                "Karimireddy, Rebjock, Stich, Jaggi, ICML 2019",
    .experiments = experiments,
};
