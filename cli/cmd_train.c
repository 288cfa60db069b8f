#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "ranks.h"
#include "report/chart.h"
#include "report/run.h"
#include "say.h"
#include "train_progress.h"
#include "train_request.h"
#include "train_result.h"

static int run(int argc, char **argv);

const struct command cmd_train = {
    .name = "train",
    .summary = "train a network with a method and some workers",
    .usage = "terse train [--method SPEC] [--model M] [--data D] [--workers N] [options]\n"
             "  mpirun -n 4 terse train [options]",
    .help =
        "Trains on this machine, each worker a thread; under mpirun or srun each process is a\n"
        "worker. The same settings give the same weights, also after --resume.\n\n"
        "Options\n"
        "  --method SPEC        `terse methods` lists them; default dense\n"
        "  --lr X               learning rate, unless SPEC has one\n" TRAIN_OPTIONS_HELP
        "  --out DIR            run.json, metrics.jsonl, TensorBoard events, weights.safetensors\n"
        "                       and checkpoints go there\n"
        "  --checkpoint-every K steps; default at the end\n"
        "  --resume DIR         go on from the last checkpoint in DIR\n"
        "  --live PORT          watch it at http://127.0.0.1:PORT/; 0 takes a free port\n"
        "  --live-host HOST     listen there instead of 127.0.0.1\n"
        "  --json               print the result as one JSON object\n"
        "  --ascii              draw without Unicode\n"
        "  -q, --quiet          no progress;  -v, --verbose  what the exchange chose\n\n"
        "SIGINT or SIGTERM writes a checkpoint and ends; a second one ends at once.\n\n"
        "Examples\n"
        "  terse train --method def:ratio=64 --workers 4\n"
        "  terse train --model resnet20 --data cifar10:DIR --method regtopk:keep=0.01 \\\n"
        "      --workers 8 --epochs 5 --out runs/regtopk --checkpoint-every 200\n"
        "  terse train --resume runs/regtopk --model resnet20 ...   (the same settings)\n"
        "  mpirun -n 4 terse train --method signum\n",
    .run = run,
};

/* The same words for the same failures, whoever trains. */
static int say_failure(const struct train_request *request, terse_status status,
                       const terse_fault *fault)
{
    const char *const text = fault->text[0] != '\0' ? fault->text : terse_status_text(status);
    const int machine = status == TERSE_NO_MEMORY || status == TERSE_LATE || status == TERSE_BROKEN;
    const int code = say_error(machine ? CLI_MACHINE : CLI_REFUSED, "train: %s", text);
    if (request->settings.out && (status == TERSE_NOT_FINITE || machine))
        say_note("The last checkpoint in %s is as it was; --resume %s continues from it.",
                 request->settings.out, request->settings.out);
    return code;
}

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

static int train(struct train_request *request)
{
    struct progress *progress = NULL;
    struct trn_result result;
    terse_fault fault = {.rank = -1};
    char note[1200];
    const int speaks = !request->settings.group || terse_group_rank(request->settings.group) == 0;
    train_request_method(request, request->method, note, sizeof note);
    terse_status status = terse_method_check(request->settings.method, &fault);
    if (status != TERSE_OK)
        return say_status(request->settings.method, status, &fault);
    if (!speaks)
        request->quiet = 1;
    if (speaks && note[0] != '\0' && !request->quiet)
        say_note("%s", note);
    const int code = progress_start(request, "", &progress);
    if (code != CLI_OK)
        return code;
    status = trn_train(&request->settings, progress_watch(progress), &result, &fault);
    progress_end(progress);
    if (status != TERSE_OK)
        return say_failure(request, status, &fault);
    if (!speaks)
        return CLI_OK;
    if (request->verbose)
        say_note("%s", result.exchange);
    draw(request);
    return request->json ? train_result_json(request, &result)
                         : train_result_print(request, &result);
}

static int run(int argc, char **argv)
{
    struct train_request request;
    terse_fault fault = {.rank = -1};
    const int launched = ranks_launched();
    int code = train_request_read(argc, argv, 0, &request);
    if (code != CLI_OK)
        return code;
    if (launched && ranks_start(&request.settings.group, &fault) != TERSE_OK)
        return say_error(CLI_REFUSED, "train: %s", fault.text);
    progress_catch_signals(&request, launched);
    code = train(&request);
    if (launched && code == CLI_OK)
        terse_group_destroy(request.settings.group);
    ranks_stop(code);
    return code;
}
