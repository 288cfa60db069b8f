/* Which combine a training over MPI takes, where two have the same bits. */
#include <string.h>

#include "message.h"
#include "plan/plan.h"
#include "train_request.h"

enum {
    FEWEST = 4, /* workers; of fewer, an all-gather sends no more than a sparse all-reduce */
    SAMPLED = 16 * 1000 * 1000, /* parameters of all ranks together */
};

/* The spec with a sparse all-reduce; 0: the user has chosen a combine, or it is not an all-gather
 * of chosen elements. */
static int has_choice(const char *spec, char other[TERSE_MAX_METHOD_SPEC])
{
    terse_method_description chosen = {.size = sizeof chosen};
    terse_method_entry entry;
    return terse_method_describe(spec, &chosen, NULL) == TERSE_OK &&
           strcmp(chosen.combine, "allgather") == 0 &&
           (terse_method_entry_of(spec, "combine", &entry, NULL) != TERSE_OK || !entry.is_given) &&
           terse_method_spec_with(spec, "combine=sparse-allreduce", 0, other, TERSE_MAX_METHOD_SPEC,
                                  NULL) == TERSE_OK;
}

static terse_status seconds_of(const char *spec, uint32_t workers, uint32_t threads,
                               const terse_layout *layout, const struct pln_place *place,
                               double *out, terse_fault *fault)
{
    const struct pln_job job = {
        .spec = spec, .workers = workers, .layout = layout, .most = SAMPLED, .threads = threads};
    struct pln_trace *trace = NULL;
    const terse_status status = pln_record_cached(&job, &trace, fault);
    if (status == TERSE_OK)
        *out = pln_simulate(trace, place).seconds;
    pln_trace_free(trace);
    return status;
}

/* Rank 0's word. What it cannot plan is left as it is. */
static uint8_t decide(const struct train_request *request, const char *spec, const char *other,
                      uint32_t workers, const terse_layout *layout, const struct pln_measured *link)
{
    const struct pln_place place = {.bits_per_second = link->loaded,
                                    .latency = link->latency,
                                    .burst = link->burst,
                                    .ranks_per_core = 1};
    const uint32_t threads =
        request->settings.codec_threads > 0 ? request->settings.codec_threads : 1;
    double gathered = 0;
    double sparse = 0;
    terse_fault fault = {.rank = -1};
    if (seconds_of(spec, workers, threads, layout, &place, &gathered, &fault) != TERSE_OK ||
        seconds_of(other, workers, threads, layout, &place, &sparse, &fault) != TERSE_OK)
        return 0;
    if (request->verbose)
        msg_note("combine %s: an exchange is predicted to take %s, with %s %s (%s, latency %s)",
                 sparse < gathered ? "sparse-allreduce" : "allgather",
                 pln_show_seconds(sparse < gathered ? sparse : gathered).text,
                 sparse < gathered ? "allgather" : "sparse-allreduce",
                 pln_show_seconds(sparse < gathered ? gathered : sparse).text,
                 pln_show_rate(link->loaded).text, pln_show_seconds(link->latency).text);
    return sparse < gathered;
}

terse_status train_choose_combine(void *context, terse_group *group, const terse_layout *layout,
                                  char spec[TERSE_MAX_METHOD_SPEC], terse_fault *fault)
{
    const struct train_request *const request = context;
    const uint32_t workers = terse_group_workers(group);
    struct pln_measured link;
    char other[TERSE_MAX_METHOD_SPEC];
    uint8_t takes_other = 0;
    if (workers < FEWEST || !has_choice(spec, other))
        return TERSE_OK;
    terse_status status = pln_measure(group, &link, fault);
    if (status == TERSE_OK && terse_group_rank(group) == 0)
        takes_other = decide(request, spec, other, workers, layout, &link);
    if (status == TERSE_OK)
        status = terse_group_broadcast(group, 0, &takes_other, sizeof takes_other, fault);
    if (status == TERSE_OK && takes_other)
        memcpy(spec, other, TERSE_MAX_METHOD_SPEC);
    return status;
}
