#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "common/launcher.h"
#include "compare_result.h"
#include "compare_tune.h"
#include "message.h"
#include "plugin.h"
#include "ranks.h"
#include "train_progress.h"

static int run(int argc, char **argv);

const struct command cmd_compare = {
    .name = "compare",
    .summary = "train with several methods and compare the results",
    .usage = "terse compare --methods \"dense;signum;def:ratio=64\" [options]\n"
             "  mpirun -n 4 terse compare --methods \"...\" [options]",
    .help =
        "Trains with each method on the same data, order and seed, prints one table and writes\n"
        "one page. It continues where it stopped, and a member that has finished is not run\n"
        "again.\n\n"
        "Braces stand for several values: \"topk:keep={0.1,0.01},lr={0.02,0.05}\" is two methods\n"
        "with two learning rates each. Every rate of a method is trained with the first seed\n"
        "and judged on a tenth of the training examples, held out; the best one is then trained\n"
        "with all seeds on all examples and judged on the test set.\n\n"
        "Options\n",
    .options = compare_request_help,
    .notes =
        "\n"
        "With --target A the table also has the seconds and bytes to reach it. A member whose\n"
        "loss is not finite is listed as diverged, and the others continue. A signal ends it\n"
        "after a checkpoint, with the exit code of terse train: the same command continues from\n"
        "there.\n\n"
        "Examples\n"
        "  terse compare --methods \"dense;signum;def:ratio=64;regtopk:keep=0.01\"\n"
        "  terse compare --methods \"topk:keep=0.001;regtopk:keep=0.001\" --seeds 3 \\\n"
        "      --model resnet20 --data cifar10:DIR --workers 8\n"
        "  terse compare --methods \"dense:lr={0.02,0.04,0.08};signum:lr={2e-4,5e-4,1e-3}\" \\\n"
        "      --seeds 5 --tune-epochs 1\n",
    .run = run,
};

/* ---- all members ---- */

static int show(const struct train_request *request, const struct sweep *sweep,
                const struct tuning *tuning, const struct member *members)
{
    const size_t methods = sweep->methods;
    int code = CLI_OK;
    if (request->json) {
        code = compare_print_json(request, members, methods,
                                  tuning ? tuning_json(tuning, sweep) : NULL);
    } else {
        if (tuning)
            code = tuning_print(tuning, sweep);
        if (code == CLI_OK && tuning)
            (void)putchar('\n');
        if (code == CLI_OK)
            code = compare_print(request, members, methods);
        if (code == CLI_OK)
            compare_draw(request, members, methods);
    }
    return code == CLI_OK ? compare_write_page(request, members, methods * request->seeds) : code;
}

/* The learning rates first, then every method at its best one. */
static int train_all(struct train_request *request, const struct sweep *sweep,
                     struct comparison *comparison)
{
    struct sweep_spec *const specs = calloc(sweep->methods, sizeof *specs);
    struct tuning *tuning = NULL;
    struct member *members = NULL;
    int code = specs ? tuning_run(request, sweep, comparison, &tuning)
                     : msg_error(CLI_MACHINE, "out of memory");
    if (code == CLI_OK) {
        if (tuning)
            request->settings.validation = 0; /* it was for the rates */
        tuning_choose(tuning, sweep, specs);
        code = members_make(request, specs, sweep->methods, request->seeds, &members);
    }
    for (size_t i = 0; i < sweep->methods * request->seeds && code == CLI_OK; i++)
        code = member_run(request, &members[i], comparison);
    progress_end(comparison->progress);
    comparison->progress = NULL;
    if (code == CLI_OK && comparison->is_root)
        code = show(request, sweep, tuning, members);
    free(members);
    tuning_free(tuning);
    free(specs);
    return code;
}

/* Every spec is checked before anything is trained. */
static int check_all(const struct train_request *request, const struct sweep *sweep)
{
    struct member *members = NULL;
    const int code = members_make(request, sweep->specs, sweep->count, 1, &members);
    free(members);
    return code;
}

static int compare(struct train_request *request, int is_root)
{
    struct comparison comparison = {.is_root = is_root};
    struct sweep sweep;
    terse_fault fault = {.rank = -1};
    int code = CLI_OK;
    if (sweep_expand(request->methods, &sweep, &fault) != TERSE_OK)
        code = msg_usage("compare", "--methods: %s", fault.text);
    if (code == CLI_OK)
        code = check_all(request, &sweep);
    if (!is_root)
        request->live_port = TRAIN_NOT_LIVE;
    if (code == CLI_OK)
        code = progress_start(request, &comparison.progress);
    comparison.total = tuning_size(&sweep) + sweep.methods * request->seeds;
    if (code == CLI_OK)
        code = train_all(request, &sweep, &comparison);
    progress_end(comparison.progress);
    free(sweep.specs);
    return code;
}

static int run(int argc, char **argv)
{
    struct train_request request;
    terse_fault fault = {.rank = -1};
    const int launched = com_launched() > 0;
    int code = train_request_read(argc, argv, 1, &request);
    if (code != CLI_OK)
        return code;
    if (launched &&
        ranks_start(request.settings.timeout, &request.settings.group, &fault) != TERSE_OK)
        return msg_error(CLI_REFUSED, "compare: %s", fault.text);
    code = train_request_complete(&request);
    progress_catch_signals(&request, launched);
    if (code == CLI_OK)
        code = plugin_load(request.settings.plugin);
    if (code == CLI_OK)
        code = compare(&request, !launched || terse_group_rank(request.settings.group) == 0);
    train_request_free(&request);
    return ranks_end(request.settings.group, code);
}
