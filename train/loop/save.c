/* When checkpoints are written. Rank 0 has a thread that writes them while the training goes on;
 * one that comes due before the last is on the disk is skipped. */
#include <stddef.h>
#include <stdio.h>

#include "files/hash.h"
#include "files/writer.h"
#include "loop/worker.h"

#define KEPT 2u       /* sound checkpoints that remain in the folder */
#define GRACE 0.1     /* seconds a checkpoint may take without the next one being skipped */
#define MOST_WAIT 1.0 /* seconds between two messages of rank 0 while the others wait for it */

/* What rank 0 tells all ranks. */
struct answer {
    int64_t status; /* of the checkpoints so far */
    int64_t busy;   /* 1: one is being written */
    uint64_t check; /* of the members above and the step */
};

static uint64_t check_of(const struct trn_worker *worker, const struct answer *answer)
{
    return trn_hash64(answer, offsetof(struct answer, check), worker->step);
}

static struct answer look(struct trn_worker *worker, double patience)
{
    struct trn_result *const result = &worker->result;
    struct trn_written written;
    if (!worker->writer)
        return (struct answer){.status = TERSE_OK};
    const int busy = !trn_writer_wait(worker->writer, patience);
    trn_writer_result(worker->writer, &written);
    result->checkpoints = written.count;
    result->checkpoint_write_seconds = written.seconds;
    if (written.count > 0)
        (void)snprintf(result->checkpoint, sizeof result->checkpoint, "%s/checkpoint-%llu.terse",
                       worker->run->settings->out, (unsigned long long)written.step);
    if (written.status != TERSE_OK)
        worker->fault = written.fault;
    return (struct answer){.status = written.status, .busy = busy};
}

/* All ranks learn whether a checkpoint is being written, after `patience` at the latest. A file
 * that could not be written ends the training on all: further steps would be lost. */
static terse_status ask(struct trn_worker *worker, double patience, int *busy)
{
    struct answer answer = {.status = TERSE_OK};
    uint64_t before = 0;
    uint64_t after = 0;
    terse_fault fault = {.rank = -1};
    if (worker->rank == 0)
        answer = look(worker, patience);
    answer.check = check_of(worker, &answer);
    terse_group_traffic(worker->group, &before, &(uint64_t){0});
    const terse_status status =
        terse_group_broadcast(worker->group, 0, &answer, sizeof answer, &fault);
    terse_group_traffic(worker->group, &after, &(uint64_t){0});
    worker->result.bytes_other += after - before;
    *busy = answer.busy != 0;
    if (status != TERSE_OK) {
        worker->fault = fault;
        return status;
    }
    if (answer.check != check_of(worker, &answer)) {
        com_note(&worker->fault, "rank 0: step %llu: its message about checkpoints arrived damaged",
                 (unsigned long long)worker->step);
        worker->fault.rank = 0;
        return TERSE_BAD_CHECKSUM;
    }
    if (answer.status != TERSE_OK && worker->rank != 0)
        return com_fail(&worker->fault, (terse_status)answer.status,
                        "rank 0 could not write the checkpoint");
    return (terse_status)answer.status;
}

/* Waits until the last checkpoint is on the disk. Rank 0 reports often enough that a slow disk is
 * not taken for a lost rank. */
static terse_status finish(struct trn_worker *worker)
{
    const double quarter = worker->run->settings->timeout / 4;
    terse_status status = TERSE_OK;
    int busy = 1;
    while (status == TERSE_OK && busy)
        status = ask(worker, quarter < MOST_WAIT ? quarter : MOST_WAIT, &busy);
    return status;
}

static terse_status save(struct trn_worker *worker)
{
    const terse_status status = trn_worker_save(worker);
    if (status == TERSE_OK)
        worker->saved = worker->step;
    worker->saved_at = trn_now();
    return status;
}

terse_status trn_save_due(struct trn_worker *worker)
{
    const double start = trn_now();
    int busy = 0;
    const double left = worker->saved_at + GRACE - start;
    if (!worker->run->settings->out || worker->step >= worker->steps) /* the last is another's */
        return TERSE_OK;
    terse_status status = ask(worker, left > 0 ? left : 0, &busy);
    if (status == TERSE_OK && !busy)
        status = save(worker);
    worker->result.checkpoints_skipped += busy != 0;
    worker->result.checkpoint_seconds += trn_now() - start;
    return status;
}

terse_status trn_save_last(struct trn_worker *worker)
{
    if (!worker->run->settings->out)
        return TERSE_OK;
    terse_status status = finish(worker);
    if (status == TERSE_OK && worker->saved != worker->step) {
        const double start = trn_now();
        status = save(worker);
        worker->result.checkpoint_seconds += trn_now() - start;
        if (status == TERSE_OK)
            status = finish(worker);
    }
    return status;
}

terse_status trn_save_begin(struct trn_worker *worker, com_json *settings,
                            const struct trn_blob *blobs, uint32_t count)
{
    terse_status status = TERSE_OK;
    if (!worker->writer)
        status =
            trn_writer_create(worker->run->settings->out, KEPT, &worker->writer, &worker->fault);
    if (status != TERSE_OK) {
        com_json_free(settings);
        return status;
    }
    return trn_writer_begin(worker->writer, worker->step, settings, blobs, count, &worker->fault);
}
