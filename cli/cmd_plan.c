#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "common/launcher.h"
#include "message.h"
#include "plan_request.h"
#include "ranks.h"

static int run(int argc, char **argv);

const struct command cmd_plan = {
    .name = "plan",
    .summary = "should I compress? step time and bytes of every method on a link",
    .usage = "terse plan --parameters N --workers K --link RATE [--step T] [options]\n"
             "  mpirun -n K terse plan --measure --parameters N [--step T] [options]",
    .help =
        "Predicts a step of every method before training: the real methods make steps in this\n"
        "process, every message and the CPU time between messages is noted, and a simulation\n"
        "plays them on the link. Says which method to take, or not to compress.\n\n"
        "Options\n"
        "  --parameters N      so many parameters, 25M\n"
        "  --model M           a model of terse train; its gradient is timed without --step\n"
        "  --weights FILE      the tensors of a safetensors file\n"
        "  --shapes LIST       tensors by shape: 64x3x7x7,64,1000x512\n"
        "  --input SHAPE       CxHxW of the images that the model reads; 3x32x32\n"
        "  --batch N           examples per worker for the model; default 32\n"
        "  -w, --workers K     number of workers, or a range to sweep: 2..4096\n"
        "  --node-size N       N workers are a node, as in terse train: one of them speaks for\n"
        "                      all, and the link is that of a node; default 1\n"
        "  --inside RATE       rate of the memory between ranks of a node; default 20 Gbit/s\n"
        "  --link RATE         rate of a worker's link, each way: 100mbit, 1gbit\n"
        "  --latency T         time of the smallest message: 0.2ms; default 0.1ms\n"
        "  --burst T           what a link saves up while it is idle, in time at its rate: 1ms;\n"
        "                      default 0\n"
        "  --measure           measure the link among the ranks that mpirun started\n"
        "  --step T            time of a gradient, forward and backward: 120ms; default 0\n"
        "  --ranks-per-core R  workers share this machine, R of them a core: codec times are\n"
        "                      recorded with all cores at work, and multiplied by R; default:\n"
        "                      every worker has a machine of its own\n"
        "  --overlap WHEN      on: buckets of 4 MiB travel during the backward pass, as in terse\n"
        "                      train; off: everything after it; default on\n"
        "  --threads N         threads of the codec and of the model, per worker; default 1\n"
        "  -m, --method SPEC   only this method; may be repeated\n"
        "  --combines          each method with every combine that it can have\n"
        "  --exact             run all parameters, not a sample of 16 million\n"
        "  --no-cache          record anew, and keep nothing in the cache folder\n"
        "  -o, --output FILE   write a page with table and chart (HTML)\n"
        "  --json              print JSON\n\n"
        "Examples\n"
        "  terse plan --parameters 25M --workers 8 --link 1gbit --step 120ms\n"
        "  terse plan --model resnet20 --workers 4 --link 100mbit --latency 0.2ms\n"
        "  terse plan --parameters 25M --workers 2..4096 --link 25gbit --step 120ms\n"
        "  mpirun -n 4 terse plan --measure --parameters 25M --step 120ms\n",
    .run = run,
};

/* Of what a link carries, Ethernet, IP and TCP take the rest: 1448 of 1514 bytes of a packet. */
static const double payload_share = 1448.0 / 1514.0;
static const double usual_latency = 1e-4;

/* ---- ranks that measure ---- */

static uint64_t hash_words(int argc, char **argv)
{
    uint64_t value = UINT64_C(14695981039346656037);
    for (int i = 1; i < argc; i++)
        for (const char *at = argv[i]; at[-(at != argv[i])] != '\0'; at++)
            value = (value ^ (unsigned char)*at) * UINT64_C(1099511628211);
    return value;
}

/* All ranks were started with the same words. */
static terse_status agree(terse_group *group, uint64_t mine, terse_fault *fault)
{
    const uint32_t workers = terse_group_workers(group);
    uint64_t *const theirs = calloc(workers, sizeof *theirs);
    void **const at = calloc(workers, sizeof *at);
    size_t *const len = calloc(workers, sizeof *len);
    terse_status status = theirs && at && len ? TERSE_OK : TERSE_NO_MEMORY;
    for (uint32_t r = 0; r < workers && status == TERSE_OK; r++) {
        at[r] = &theirs[r];
        len[r] = sizeof *theirs;
    }
    if (status == TERSE_OK)
        status = terse_group_allgatherv(group, &mine, sizeof mine, at, len, fault);
    for (uint32_t r = 1; r < workers && status == TERSE_OK; r++)
        if (theirs[r] != theirs[0])
            status = com_fail(fault, TERSE_MISMATCH,
                              "rank %u: its options differ from rank 0's: start all ranks with the "
                              "same command",
                              r);
    free(theirs);
    free(at);
    free(len);
    return status;
}

static int measure(const struct plan_request *request, uint64_t words, terse_group *group,
                   struct pln_place *place)
{
    struct pln_measured link;
    terse_fault fault = {.rank = -1};
    terse_status status = agree(group, words, &fault);
    if (status == TERSE_OK)
        status = pln_measure(group, &link, &fault);
    if (status != TERSE_OK)
        return msg_status("plan --measure", status, &fault);
    place->bits_per_second = link.loaded;
    place->latency = request->latency >= 0 ? request->latency : link.latency;
    place->burst = request->burst >= 0 ? request->burst : link.burst;
    if (terse_group_rank(group) == 0)
        msg_note("measured: latency %s, one way %s, both ways %s, all to all %s per rank, burst %s",
                 pln_show_seconds(link.latency).text, pln_show_rate(link.one_way).text,
                 pln_show_rate(link.both_way).text, pln_show_rate(link.loaded).text,
                 pln_show_seconds(link.burst).text);
    return CLI_OK;
}

/* ---- the command ---- */

static int make_plans(struct plan_request *request, struct pln_place *place)
{
    struct plan plans[PLAN_MOST_SWEEP] = {{0}};
    terse_layout *layout = NULL;
    size_t made = 0;
    int code = plan_inputs(request, &layout);
    place->compute = request->step > 0 ? request->step : 0;
    for (; made < request->worker_counts && code == CLI_OK; made++)
        code = plan_make(request, layout, place, request->workers[made], &plans[made]);
    if (code == CLI_OK)
        code = made == 1 ? plan_print(request, &plans[0]) : plan_print_sweep(request, plans, made);
    for (size_t i = 0; i < made; i++)
        plan_free(&plans[i]);
    terse_layout_destroy(layout);
    return code;
}

static int run_rank(int argc, char **argv, terse_group **group)
{
    struct plan_request request;
    terse_fault fault = {.rank = -1};
    const uint64_t words = hash_words(argc, argv);
    int code = plan_request_read(argc, argv, &request);
    if (code != CLI_OK)
        return code;
    struct pln_place place = {.bits_per_second = request.link * payload_share,
                              .latency = request.latency >= 0 ? request.latency : usual_latency,
                              .burst = request.burst > 0 ? request.burst : 0,
                              .ranks_per_core = request.ranks_per_core};
    if (request.measure && com_launched() < 2)
        return msg_error(CLI_REFUSED,
                         "plan --measure: %s: start it as mpirun -n 4 terse plan "
                         "--measure ...",
                         com_launched() == 0 ? "no launcher started this process"
                                             : "one rank has no link to measure");
    if (request.measure && ranks_start(0, group, &fault) != TERSE_OK)
        return msg_error(CLI_REFUSED, "plan: %s", fault.text);
    if (request.measure) {
        code = measure(&request, words, *group, &place);
        if (code != CLI_OK || terse_group_rank(*group) > 0)
            return code;
        if (request.worker_counts == 0)
            request.workers[request.worker_counts++] = terse_group_workers(*group);
    }
    return make_plans(&request, &place);
}

static int run(int argc, char **argv)
{
    terse_group *group = NULL;
    const int code = run_rank(argc, argv, &group);
    return group ? ranks_end(group, code) : code;
}
