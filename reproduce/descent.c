#include "descent.h"

#include <math.h>
#include <stdlib.h>

double rpr_loss(const float *curvature, const float *optimum, const float *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double a = curvature ? (double)curvature[i] : 1;
        const double off = (double)x[i] - (optimum ? (double)optimum[i] : 0);
        sum += a * off * off;
    }
    return sum / 2;
}

void rpr_thin(const double *loss, uint64_t steps, uint64_t every, double *out)
{
    for (uint64_t i = 0; i * every <= steps; i++)
        out[i] = loss[i * every];
}

void rpr_add(double *out, const double *in, size_t count, double scale)
{
    for (size_t i = 0; i < count; i++)
        out[i] += in[i] * scale;
}

static double loss_at(const struct rpr_descent *descent, const float *x)
{
    return rpr_loss(descent->curvature, descent->optimum, x, descent->count);
}

static void fill_gradient(const struct rpr_descent *descent, struct rpr_team *team, uint32_t worker,
                          const float *noise)
{
    const float *const at = terse_method_point(team->method[worker]);
    float *const g = team->gradient[worker];
    const float sign = worker < descent->inverters ? -1.0f : 1.0f;
    for (size_t i = 0; i < descent->count; i++) {
        const float a = descent->curvature ? descent->curvature[i] : 1;
        const float deviation = descent->noise ? descent->noise[i] : descent->deviation;
        const float off = descent->optimum ? at[i] - descent->optimum[i] : at[i];
        g[i] = sign * (a * off + deviation * noise[i]);
    }
}

static void count_traffic(struct rpr_descent *descent, const struct rpr_team *team)
{
    const terse_exchange_report *const report = &team->report[0].exchange;
    descent->bits += team->report[0].bits / (double)descent->steps;
    descent->bytes_sent += report->bytes_sent;
    descent->bytes_received += report->bytes_received;
    descent->dense_bytes += report->dense_bytes;
}

static void note_loss(struct rpr_descent *descent, uint64_t step, double loss)
{
    const uint64_t tail = descent->tail > 0 ? descent->tail : 1;
    const double shown = loss < RPR_DIVERGED ? loss : RPR_DIVERGED;
    if (!(loss < RPR_DIVERGED))
        descent->diverged = 1;
    if (descent->loss)
        descent->loss[step] = shown;
    if (step + tail > descent->steps)
        descent->final += shown / (double)tail;
}

static void open_team(const struct rpr_descent *descent, struct rpr_team *team)
{
    rpr_team_open(team, &(struct rpr_setup){.spec = descent->spec,
                                            .workers = descent->workers,
                                            .count = descent->count,
                                            .start = descent->start,
                                            .seed = descent->seed,
                                            .steps = descent->steps});
}

/* One step with the gradients computed, and its loss. */
static void go_on(struct rpr_descent *descent, struct rpr_team *team, uint64_t step)
{
    double loss = RPR_DIVERGED;
    if (!descent->diverged && team->status == TERSE_OK) {
        rpr_team_step(team);
        loss = loss_at(descent, team->weights[0]);
        count_traffic(descent, team);
        if (descent->look && team->status == TERSE_OK)
            descent->look(descent, team, step);
    }
    note_loss(descent, step, loss);
}

/* `count` descents side by side, over one stream of noise: that of the first. */
static void run_together(struct rpr_descent *list, size_t count, struct rpr_team *team,
                         float *noise)
{
    for (size_t i = 0; i < count; i++) {
        open_team(&list[i], &team[i]);
        note_loss(&list[i], 0, loss_at(&list[i], list[i].start));
    }
    for (uint64_t step = 1; step <= list->steps; step++) {
        for (uint32_t k = 0; k < list->workers; k++) {
            rpr_normals(&list->random, list->count, noise);
            for (size_t i = 0; i < count; i++)
                if (team[i].status == TERSE_OK && !list[i].diverged)
                    fill_gradient(&list[i], &team[i], k, noise);
        }
        for (size_t i = 0; i < count; i++)
            go_on(&list[i], &team[i], step);
    }
    for (size_t i = 0; i < count; i++) {
        list[i].status = team[i].status;
        list[i].fault = team[i].fault;
        rpr_team_close(&team[i]);
    }
}

struct work {
    struct rpr_descent *list;
    size_t *first; /* the first of each group, and one past the last */
};

static void run(void *context, size_t index)
{
    const struct work *const work = context;
    struct rpr_descent *const list = work->list + work->first[index];
    const size_t count = work->first[index + 1] - work->first[index];
    struct rpr_team *const team = calloc(count, sizeof *team);
    float *const noise = calloc(list->count + 1, sizeof *noise);
    if (team && noise)
        run_together(list, count, team, noise);
    else
        list->status = TERSE_NO_MEMORY;
    free(team);
    free(noise);
}

void rpr_descend(struct rpr_sheet *sheet, struct rpr_descent *list, size_t count)
{
    struct work work = {.list = list, .first = rpr_room(sheet, count + 1, sizeof *work.first)};
    size_t groups = 0;
    if (sheet->status != TERSE_OK || !work.first) {
        free(work.first);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (i == 0 || !list[i].together)
            work.first[groups++] = i;
    work.first[groups] = count;
    rpr_each(sheet->threads, groups, run, &work);
    free(work.first);
    for (size_t i = 0; i < count; i++)
        rpr_fail(sheet, list[i].status, &list[i].fault);
}
