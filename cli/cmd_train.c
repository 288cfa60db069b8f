#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "common/launcher.h"
#include "launch_message.h"
#include "message.h"
#include "plugin.h"
#include "ranks.h"
#include "report/chart.h"
#include "report/run.h"
#include "train_progress.h"
#include "train_request.h"
#include "train_result.h"

static int run(int argc, char **argv);

const struct command cmd_train = {
    .name = "train",
    .summary = "train a network with a method and some workers",
    .usage = "terse train [--method SPEC] [--model M] [--data D] [--workers N] [options]\n"
             "  mpirun -n 4 terse train [options]",
    .help = "Trains on this machine, each worker a thread; under mpirun or srun each process is a\n"
            "worker. The same settings give the same weights, also after --resume.\n\n"
            "Options\n",
    .options = train_request_help,
    .notes =
        "\n"
        "SIGINT writes a checkpoint and ends with exit code 130; SIGTERM, SIGUSR1 and SIGHUP "
        "write\n"
        "one and end with 75, which asks a batch system to start the job again. A second SIGINT\n"
        "or SIGTERM ends at once. A loss that is not finite ends the training with 1; a lost\n"
        "worker, a damaged message or a full disk with 3. The last checkpoint stays.\n\n"
        "Examples\n"
        "  terse train --method def:ratio=64 --workers 4\n"
        "  terse train --model resnet20 --data cifar10:DIR --method regtopk:keep=0.01 \\\n"
        "      --workers 8 --epochs 5 --out runs/regtopk --checkpoint-every 200\n"
        "  terse train --resume runs/regtopk\n"
        "  mpirun -n 4 terse train --method signum\n",
    .run = run,
};

static void draw(const struct train_request *request)
{
    struct rep_run *seen = NULL;
    terse_fault fault;
    const struct rep_chart_style style = {.width = 80, .ascii = request->ascii};
    if (request->quiet || request->json || !request->settings.out ||
        rep_run_read(request->settings.out, &seen, &fault) != TERSE_OK)
        return;
    char *const chart = rep_chart_run(seen, NULL, &style);
    if (chart)
        (void)fputs(chart, stderr);
    free(chart);
    rep_run_free(seen);
}

static const char *signal_name(int number)
{
    switch (number) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    default: return "SIGHUP";
    }
}

static void print_stop(const struct train_request *request, const struct trn_result *result)
{
    const char *const folder = request->settings.out;
    if (result->end != TRN_END_STOPPED)
        return;
    if (folder)
        msg_note("Stopped by %s after step %llu: terse train --resume %s continues.",
                 signal_name(result->signal), (unsigned long long)result->steps, folder);
    else
        msg_note("Stopped by %s after step %llu; without --out nothing was saved.",
                 signal_name(result->signal), (unsigned long long)result->steps);
}

static int train(struct train_request *request)
{
    struct progress *progress = NULL;
    struct trn_result result;
    terse_fault fault = {.rank = -1};
    char note[1200];
    const int is_root = !request->settings.group || terse_group_rank(request->settings.group) == 0;
    terse_status status =
        train_request_method(request, request->settings.method, note, sizeof note, &fault);
    if (status != TERSE_OK)
        return msg_status(request->settings.method, status, &fault);
    if (!is_root) {
        request->quiet = 1;
        request->live_port = TRAIN_NOT_LIVE;
    }
    if (note[0] != '\0' && !request->quiet)
        msg_note("%s", note);
    request->settings.choose = train_choose_combine;
    request->settings.choose_context = request;
    const int code = progress_start(request, &progress);
    if (code != CLI_OK)
        return code;
    status = trn_train(&request->settings, progress_watch(progress), &result, &fault);
    progress_end(progress);
    if (status != TERSE_OK)
        return train_result_failure(request, "train", status, &fault);
    if (!is_root)
        return train_result_code(&result);
    print_stop(request, &result);
    if (request->verbose)
        msg_note("%s", result.exchange);
    draw(request);
    const int printed =
        request->json ? train_result_json(request, &result) : train_result_print(request, &result);
    return printed == CLI_OK ? train_result_code(&result) : printed;
}

/* Until MPI ends. Returns an exit code. */
static int run_rank(int argc, char **argv, struct train_request *request)
{
    terse_fault fault = {.rank = -1};
    const int launched = com_launched() > 0;
    int code = train_request_read(argc, argv, 0, request);
    if (code != CLI_OK)
        return code;
    if (com_lone_tasks() > 1)
        return msg_error(CLI_REFUSED,
                         "train: one of %u tasks of srun, which has no MPI for them (--mpi=none): "
                         "each would train alone; add --mpi=pmix for Open MPI or --mpi=pmi2 for "
                         "MPICH, or unset SLURM_STEP_NUM_TASKS if each shall",
                         (unsigned)com_lone_tasks());
    if (launched &&
        ranks_start(request->settings.timeout, &request->settings.group, &fault) != TERSE_OK)
        return msg_error(CLI_REFUSED, "train: %s", fault.text);
    if (launched)
        request->settings.split = ranks_split;
    code = train_request_complete(request);
    progress_catch_signals(request, launched);
    if (code == CLI_OK)
        code = plugin_load(request->settings.plugin);
    if (code == CLI_OK)
        code = train(request);
    train_request_free(request);
    return code;
}

static int run(int argc, char **argv)
{
    struct train_request request = {.kept = NULL};
    launch_tell_here();
    const int code = run_rank(argc, argv, &request);
    launch_tell_end(code);
    return ranks_end(request.settings.group, code);
}
