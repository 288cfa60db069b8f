/* The papers, and how the results of several seeds become one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sheet.h"

static const struct rpr_plan *const plans[] = {
    &rpr_signsgd, &rpr_def, &rpr_qadam, &rpr_regtopk, &rpr_dqsgd,
};

enum { PLANS = sizeof plans / sizeof plans[0] };

const char *rpr_paper(unsigned index)
{
    return index < PLANS ? plans[index]->paper : NULL;
}

static const struct rpr_plan *plan_of(const char *paper)
{
    for (size_t i = 0; i < PLANS; i++)
        if (strcmp(plans[i]->paper, paper) == 0)
            return plans[i];
    return NULL;
}

void rpr_free(struct rpr_result *result)
{
    if (!result)
        return;
    for (size_t i = 0; i < result->charts; i++) {
        for (size_t j = 0; j < result->chart[i].lines; j++)
            free(result->chart[i].line[j].value);
        free(result->chart[i].line);
        free(result->chart[i].x);
    }
    free(result->chart);
    free(result->claim);
    free(result);
}

terse_status rpr_run(const char *paper, uint64_t seed, unsigned threads, struct rpr_result **out,
                     terse_fault *fault)
{
    const struct rpr_plan *const plan = plan_of(paper);
    *out = NULL;
    if (!plan) {
        if (fault)
            (void)snprintf(fault->text, sizeof fault->text, "no paper '%.40s'", paper);
        return TERSE_BAD_ARGUMENT;
    }
    struct rpr_result *const result = calloc(1, sizeof *result);
    if (!result)
        return TERSE_NO_MEMORY;
    *result = (struct rpr_result){.paper = plan->paper,
                                  .title = plan->title,
                                  .citation = plan->citation,
                                  .seed = seed,
                                  .seeds = 1};
    struct rpr_sheet sheet = {.result = result, .seed = seed, .threads = threads ? threads : 1};
    for (size_t i = 0; plan->experiments[i] && sheet.status == TERSE_OK; i++)
        plan->experiments[i](&sheet);
    if (sheet.status != TERSE_OK) {
        rpr_free(result);
        if (fault)
            *fault = sheet.fault;
        return sheet.status;
    }
    *out = result;
    return TERSE_OK;
}

/* ---- several seeds ---- */

static void merge_claims(struct rpr_result **results, unsigned count)
{
    for (size_t i = 0; i < results[0]->claims; i++) {
        struct rpr_claim *const claim = &results[0]->claim[i];
        double sum = 0;
        double squares = 0;
        for (unsigned s = 0; s < count; s++) {
            const struct rpr_claim *const one = &results[s]->claim[i];
            sum += one->measured;
            claim->low = fmin(claim->low, one->measured);
            claim->high = fmax(claim->high, one->measured);
            claim->holds = claim->holds && one->holds;
        }
        for (unsigned s = 0; s < count; s++) {
            const double off = results[s]->claim[i].measured - sum / count;
            squares += off * off;
        }
        claim->deviation = count > 1 ? sqrt(squares / (count - 1)) : 0;
        claim->measured = sum / count;
    }
}

static void merge_point(struct rpr_result **results, unsigned count, size_t chart, size_t line,
                        size_t point)
{
    struct rpr_line *const into = &results[0]->chart[chart].line[line];
    double sum = 0;
    for (unsigned s = 0; s < count; s++) {
        const double value = results[s]->chart[chart].line[line].value[point];
        sum += value;
        into->low[point] = fmin(into->low[point], value);
        into->high[point] = fmax(into->high[point], value);
    }
    into->value[point] = sum / count;
}

/* The same experiments write the same claims and charts in the same order, whatever the seed. */
struct rpr_result *rpr_merge(struct rpr_result **results, unsigned count)
{
    struct rpr_result *const result = results[0];
    merge_claims(results, count);
    for (size_t i = 0; i < result->charts; i++)
        for (size_t j = 0; j < result->chart[i].lines; j++)
            for (size_t k = 0; k < result->chart[i].count; k++)
                merge_point(results, count, i, j, k);
    for (unsigned s = 1; s < count; s++)
        rpr_free(results[s]);
    result->seeds = count;
    return result;
}
