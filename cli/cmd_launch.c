#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "common/lock.h"
#include "common/number.h"
#include "launch_job.h"
#include "launch_message.h"
#include "message.h"
#include "train/files/checkpoint.h"
#include "train_request.h"

static int run(int argc, char **argv);

const struct command cmd_launch = {
    .name = "launch",
    .summary = "train with mpirun or srun, and go on when a rank dies",
    .usage = "terse launch -n N [--retries R] [--min-workers M] [--launcher WORDS] -- train ...",
    .help =
        "Starts 'terse train ...' with N ranks. When a rank dies, the job is started again from\n"
        "the newest sound checkpoint, with N ranks. A run that has checkpoints already is\n"
        "resumed, so the same command may be submitted again.\n\n"
        "Options\n"
        "  -n N                ranks, 1 to 4096\n"
        "  --retries R         deaths without a new checkpoint in between before it gives up;\n"
        "                      default 5\n"
        "  --min-workers M     go on with fewer ranks, at least M, when a slot has failed to "
        "start\n"
        "                      twice; default N: never with fewer\n"
        "  --launcher WORDS    program and options that start the ranks; default srun within a\n"
        "                      Slurm job, else mpirun, else mpiexec\n\n"
        "The training needs --out DIR and --checkpoint-every K. DIR must be one folder for\n"
        "rank 0 and for this command.\n\n"
        "Every death is one line on standard error. SIGINT, SIGTERM, SIGUSR1 and SIGHUP are\n"
        "passed on as SIGUSR1: the ranks write a checkpoint and end, and the exit code is 130\n"
        "after SIGINT, else 75, which asks a batch system to start the job again. A second\n"
        "signal ends the job at once. A training that is refused, or whose loss is not finite,\n"
        "is not tried again: its exit code is passed on.\n\n"
        "Examples\n"
        "  terse launch -n 4 -- train --method signum --out runs/a --checkpoint-every 200\n"
        "  terse launch -n 8 --min-workers 6 --launcher \"mpirun --hostfile hosts\" -- \\\n"
        "      train --method topk:keep=0.01 --out runs/b --checkpoint-every 200\n",
    .run = run,
};

enum { MAX_WORDS = 512, MAX_LAUNCHER = 1024, FREE_SECONDS = 60, LONGEST_PAUSE = 60 };

struct plan {
    uint32_t workers;
    uint32_t min_workers; /* 0: as many as at the start */
    uint64_t retries;
    char launcher[MAX_LAUNCHER]; /* words, cut at its blanks */
    char **training;             /* "train" and its options */
    int training_count;
    const char *folder;
};

/* ---- the command line ---- */

static int on_path(const char *name)
{
    const char *at = getenv("PATH");
    char path[4096];
    while (at && *at) {
        const size_t len = strcspn(at, ":");
        (void)snprintf(path, sizeof path, "%.*s/%s", (int)len, at, name);
        if (access(path, X_OK) == 0)
            return 1;
        at += len + (at[len] == ':');
    }
    return 0;
}

static const char *detect_launcher(void)
{
    if (getenv("SLURM_JOB_ID") && on_path("srun"))
        return "srun --kill-on-bad-exit=1"; /* without it srun waits for the other ranks */
    return on_path("mpirun") ? "mpirun" : on_path("mpiexec") ? "mpiexec" : NULL;
}

static int take_number(const char *name, uint64_t low, uint64_t high, uint64_t *out)
{
    if (com_parse_u64(optarg, low, high, out))
        return CLI_OK;
    return msg_usage("launch", "%s: '%s' is not a number from %llu to %llu", name, optarg,
                     (unsigned long long)low, (unsigned long long)high);
}

static int read_options(int argc, char **argv, struct plan *plan)
{
    static const struct option options[] = {
        {"retries", required_argument, NULL, 'r'},
        {"min-workers", required_argument, NULL, 'm'},
        {"launcher", required_argument, NULL, 'l'},
        {NULL, 0, NULL, 0},
    };
    const char *launcher = NULL;
    uint64_t workers = 0;
    uint64_t least = 0;
    int code = CLI_OK;
    for (int letter;
         code == CLI_OK && (letter = getopt_long(argc, argv, "+n:", options, NULL)) != -1;)
        switch (letter) {
        case 'n': code = take_number("-n", 1, TERSE_MAX_WORKERS, &workers); break;
        case 'r': code = take_number("--retries", 0, 1000000, &plan->retries); break;
        case 'm': code = take_number("--min-workers", 1, TERSE_MAX_WORKERS, &least); break;
        case 'l': launcher = optarg; break;
        default: msg_note("Try 'terse launch --help'."); return CLI_USAGE;
        }
    if (code != CLI_OK)
        return code;
    if (workers == 0)
        return msg_usage("launch", "-n N, the number of ranks, is missing");
    if (least > workers)
        return msg_usage("launch", "--min-workers %llu is more than -n %llu",
                         (unsigned long long)least, (unsigned long long)workers);
    launcher = launcher ? launcher : detect_launcher();
    if (!launcher)
        return msg_error(CLI_REFUSED, "launch: neither mpirun nor mpiexec is on the PATH; name the "
                                      "launcher: --launcher WORDS");
    if (strspn(launcher, " ") == strlen(launcher) || strlen(launcher) >= sizeof plan->launcher)
        return msg_usage("launch", "--launcher: empty, or longer than %d bytes", MAX_LAUNCHER - 1);
    (void)snprintf(plan->launcher, sizeof plan->launcher, "%s", launcher);
    plan->workers = (uint32_t)workers;
    plan->min_workers = (uint32_t)(least ? least : workers);
    plan->training = argv + optind;
    plan->training_count = argc - optind;
    return CLI_OK;
}

/* Options of the training are refused here, before anything is started. */
static int check_training(struct plan *plan)
{
    struct train_request request;
    char **const copy = calloc((size_t)plan->training_count + 1, sizeof *copy);
    char name[] = "terse train";
    if (plan->training_count == 0 || strcmp(plan->training[0], "train") != 0) {
        free(copy);
        return msg_usage("launch", "'train' and its options are missing: terse launch -n 4 -- "
                                   "train --out DIR --checkpoint-every 100 ...");
    }
    if (!copy)
        return msg_error(CLI_MACHINE, "out of memory");
    memcpy(copy, plan->training, (size_t)plan->training_count * sizeof *copy);
    copy[0] = name;
    optind = 0; /* getopt begins anew */
    const int code = train_request_read(plan->training_count, copy, 0, &request);
    free(copy);
    if (code != CLI_OK)
        return code;
    const struct trn_settings *const settings = &request.settings;
    plan->folder = settings->out ? settings->out : settings->resume;
    if (settings->workers)
        return msg_usage("launch", "--workers %u: -n gives the number of workers",
                         (unsigned)settings->workers);
    if (!plan->folder)
        return msg_usage("launch", "no folder for checkpoints is given; add --out DIR");
    if (!settings->checkpoint_every && !settings->resume)
        return msg_usage("launch", "there would be nothing to go on from; add "
                                   "--checkpoint-every K");
    return CLI_OK;
}

/* ---- checkpoints ---- */

/* The step of the newest sound checkpoint, or -1. */
static int64_t newest_step(const char *folder)
{
    struct trn_checkpoint *checkpoint = NULL;
    char *path = NULL;
    char *notes = NULL;
    int64_t step = -1;
    if (trn_checkpoint_latest(folder, &checkpoint, &path, &notes, NULL) == TERSE_OK)
        step = (int64_t)trn_checkpoint_step(checkpoint);
    trn_checkpoint_free(checkpoint);
    free(path);
    free(notes);
    return step;
}

/* 0: a signal has come. */
static int pause_for(double seconds)
{
    struct timespec rest = {.tv_nsec = 50000000};
    for (int left = (int)(seconds * 20); left > 0 && !launch_signal(); left--)
        (void)nanosleep(&rest, NULL);
    return !launch_signal();
}

/* Waits until no rank of the last attempt holds the folder. */
static void wait_for_folder(const char *folder)
{
    for (int i = 0; i < FREE_SECONDS * 5 && access(folder, F_OK) == 0; i++) {
        struct com_lock *lock = NULL;
        if (com_lock_take(folder, &lock, NULL) == TERSE_OK) {
            com_lock_release(lock);
            return;
        }
        if (!pause_for(0.2))
            return;
    }
}

/* ---- one attempt after the other ---- */

/* The words of an attempt; those of the launcher point into `cut`. */
static int make_words(const struct plan *plan, int resume, char *cut, char *exe, char **words)
{
    static char env[] = "env";
    static char mark[] = LAUNCH_VARIABLE "=1";
    static char number_option[] = "-n";
    static char resume_option[] = "--resume";
    static char number[16];
    int count = 0;
    char *rest = NULL;
    if (strlen(plan->launcher) / 2 + (size_t)plan->training_count + 16 > MAX_WORDS)
        return 0;
    (void)snprintf(cut, MAX_LAUNCHER, "%s", plan->launcher);
    for (char *word = strtok_r(cut, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    (void)snprintf(number, sizeof number, "%u", (unsigned)plan->workers);
    words[count++] = number_option;
    words[count++] = number;
    words[count++] = env; /* some launchers pass no variables on to other machines */
    words[count++] = mark;
    words[count++] = exe;
    for (int i = 0; i < plan->training_count; i++)
        words[count++] = plan->training[i];
    if (resume) { /* the last --resume counts */
        words[count++] = resume_option;
        words[count++] = (char *)(uintptr_t)plan->folder;
    }
    words[count] = NULL;
    return 1;
}

static int attempt(const struct plan *plan, int resume, struct launch_end *end)
{
    char cut[MAX_LAUNCHER];
    char exe[4096];
    char *words[MAX_WORDS];
    const ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (len <= 0)
        return msg_error(CLI_MACHINE, "launch: the path of this program cannot be read");
    exe[len] = '\0';
    if (!make_words(plan, resume, cut, exe, words))
        return msg_usage("launch", "too many words: at most %d", MAX_WORDS - 16);
    if (!launch_job_run(words, plan->workers, end))
        return msg_error(CLI_MACHINE, "launch: no process or memory for '%s'", words[0]);
    return CLI_OK;
}

/* What has happened so far. */
struct record {
    int64_t newest;         /* step of the newest checkpoint at the last death, or -1 */
    uint64_t deaths;        /* since a new checkpoint was there */
    uint64_t incidents;     /* at all */
    uint32_t failed_starts; /* one after the other, with this number of ranks */
};

/* The exit code of a job that is not started again, or -1. */
static int final_code(const struct launch_end *end)
{
    /* MPICH's launcher may end with 0 though rank 0 did not, or never came to its end. */
    if (end->stopped)
        return launch_signal() == SIGINT ? CLI_INTERRUPTED : end->stopped;
    if (end->code == CLI_OK && end->finished)
        return CLI_OK;
    if (end->refused)
        return end->refused;
    if (end->code == 127 && end->here == 0)
        return CLI_REFUSED; /* there is no such launcher */
    if (launch_signal())
        return launch_signal() == SIGINT ? CLI_INTERRUPTED : CLI_REQUEUE;
    return -1;
}

/* A slot that did not start. Returns an exit code; CLI_OK: go on. */
static int after_failed_start(struct plan *plan, struct record *record,
                              const struct launch_end *end)
{
    if (++record->failed_starts < 2) {
        msg_note("terse launch: incident %llu: slot %d of %u did not start (the launcher's exit "
                 "code is %d); trying again",
                 (unsigned long long)record->incidents, (int)end->absent, (unsigned)plan->workers,
                 end->code);
        return CLI_OK;
    }
    const uint32_t before = plan->workers;
    const uint32_t fewer = end->here > 0 ? end->here : before - 1;
    record->failed_starts = 0;
    if (before == plan->min_workers)
        return msg_error(CLI_MACHINE,
                         "launch: slot %d of %u failed to start twice; --min-workers allows fewer "
                         "ranks",
                         (int)end->absent, (unsigned)before);
    plan->workers = fewer > plan->min_workers ? fewer : plan->min_workers;
    msg_note("terse launch: incident %llu: slot %d of %u did not start twice; going on with %u "
             "workers",
             (unsigned long long)record->incidents, (int)end->absent, (unsigned)before,
             (unsigned)plan->workers);
    return CLI_OK;
}

static int after_death(const struct plan *plan, struct record *record, const struct launch_end *end)
{
    char how[64] = "from the start";
    char cause[64];
    if (end->hung)
        (void)snprintf(cause, sizeof cause, "the launcher hung after its ranks had ended");
    else
        (void)snprintf(cause, sizeof cause, "the launcher ended with exit code %d%s", end->code,
                       end->code == CLI_OK ? " before rank 0" : "");
    record->failed_starts = 0;
    if (record->newest >= 0)
        (void)snprintf(how, sizeof how, "from step %lld", (long long)record->newest);
    if (record->deaths > plan->retries)
        return msg_error(CLI_MACHINE,
                         "launch: %s; %llu deaths without a new checkpoint, --retries is %llu",
                         end->cause[0] ? end->cause : cause, (unsigned long long)record->deaths,
                         (unsigned long long)plan->retries);
    msg_note("terse launch: incident %llu: %s; going on %s with %u workers, retry %llu of %llu",
             (unsigned long long)record->incidents, end->cause[0] ? end->cause : cause, how,
             (unsigned)plan->workers, (unsigned long long)record->deaths,
             (unsigned long long)plan->retries);
    /* At once after progress; else longer each time, as a machine may be starting again. */
    const uint64_t idle = record->deaths > 1 ? (uint64_t)1 << (record->deaths - 2) % 32 : 0;
    (void)pause_for(idle < LONGEST_PAUSE ? (double)idle : LONGEST_PAUSE);
    return CLI_OK;
}

static int launch(struct plan *plan)
{
    struct record record = {.newest = newest_step(plan->folder)};
    for (;;) {
        struct launch_end end = {.absent = -1};
        int code = attempt(plan, record.newest >= 0, &end);
        const int last = code == CLI_OK ? final_code(&end) : code;
        if (last >= 0)
            return last;
        const int64_t newest = newest_step(plan->folder);
        record.deaths = newest > record.newest ? 0 : record.deaths;
        record.newest = newest;
        record.incidents++;
        record.deaths += end.absent < 0;
        code = end.absent >= 0 ? after_failed_start(plan, &record, &end)
                               : after_death(plan, &record, &end);
        if (code != CLI_OK)
            return code;
        wait_for_folder(plan->folder);
        if (launch_signal())
            return launch_signal() == SIGINT ? CLI_INTERRUPTED : CLI_REQUEUE;
    }
}

static int run(int argc, char **argv)
{
    struct plan plan = {.retries = 5};
    int code = read_options(argc, argv, &plan);
    if (code == CLI_OK)
        code = check_training(&plan);
    if (code != CLI_OK)
        return code;
    launch_catch_signals();
    return launch(&plan);
}
