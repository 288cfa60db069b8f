#include "train_progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/json.h"
#include "common/number.h"
#include "message.h"
#include "report/live.h"

#define REDRAW 0.2 /* seconds between changes of the line */

struct progress {
    struct trn_watch watch;
    const struct train_request *request;
    const char *title;
    struct rep_live *live;
    int line; /* 1: one line that changes */
    int open; /* the line is not empty */
    double drawn;
    double accuracy;                 /* of the last evaluation; < 0: none */
    double steps;                    /* of the whole training */
    double first_step, first_second; /* where this process began; first_step < 0: not yet */
    int is_held_out;                 /* evaluations are on held-out examples */
};

/* ---- signals ---- */

static volatile sig_atomic_t stop;
static char stop_text[400];

/* The first signal asks the loop to end. A second SIGINT or SIGTERM ends the process; a SIGTERM
 * that follows the warning of a batch system (SIGUSR1) does not: the checkpoint may still be in the
 * making. write and _exit are safe in a handler. */
static void handle(int number)
{
    static volatile sig_atomic_t ended;
    if (stop_text[0] != '\0' && !stop && (number == SIGINT || number == SIGTERM))
        (void)!write(STDERR_FILENO, stop_text, strlen(stop_text));
    if (number == SIGINT || number == SIGTERM) {
        if (ended)
            _exit(128 + number);
        ended = 1;
    }
    if (!stop)
        stop = number;
}

/* A command started by nohup is not to end with its terminal. */
static int is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void progress_catch_signals(const struct train_request *request, int under_mpi)
{
    struct sigaction action = {.sa_handler = handle};
    const char *const out = request->settings.out;
    if (under_mpi && out)
        (void)snprintf(stop_text, sizeof stop_text,
                       "\nterse train: stopped by the launcher: a worker was lost, or the job was "
                       "ended; --resume %.200s continues from the last checkpoint\n",
                       out);
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGUSR1, &action, NULL);
    if (!is_ignored(SIGHUP))
        (void)sigaction(SIGHUP, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

/* ---- the line ---- */

static double now(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static double number(const com_json *line, const char *key)
{
    double value = 0;
    uint64_t whole = 0;
    if (!com_json_get_real(line, key, &value) && com_json_get_u64(line, key, &whole))
        value = (double)whole;
    return value;
}

/* "  about 4 min left", by the steps since this process began, evaluations and checkpoints
 * included. Returns its length. */
static size_t write_left(struct progress *progress, double step, char *out, size_t cap)
{
    if (progress->first_step < 0) {
        progress->first_step = step;
        progress->first_second = now();
    }
    const double done = step - progress->first_step;
    if (done <= 0)
        return 0;
    const double left = (progress->steps - step) * (now() - progress->first_second) / done;
    return (size_t)(left < 90 ? snprintf(out, cap, "  about %.0f s left", left)
                              : snprintf(out, cap, "  about %.0f min left", left / 60));
}

static void draw_step(struct progress *progress, const com_json *line)
{
    char text[400];
    size_t used = 0;
    const struct trn_settings *const settings = &progress->request->settings;
    const double step = number(line, "step");
    const double seconds = number(line, "seconds");
    const double sent = number(line, "bytes_sent");
    const double dense = number(line, "dense_bytes");
    const double examples =
        step * settings->batch * settings->batches * settings->accumulate * settings->workers;
    if (!progress->line || now() - progress->drawn < REDRAW)
        return;
    used = (size_t)snprintf(text, sizeof text, "%sstep %.0f of %.0f  loss %.4f", progress->title,
                            step, progress->steps, number(line, "loss"));
    if (progress->accuracy >= 0)
        used += (size_t)snprintf(text + used, sizeof text - used, "  accuracy %.2f %%",
                                 100 * progress->accuracy);
    if (seconds > 0)
        used += (size_t)snprintf(text + used, sizeof text - used, "  %.0f examples/s",
                                 examples / seconds);
    used += write_left(progress, step, text + used, sizeof text - used);
    if (sent > 0)
        (void)snprintf(text + used, sizeof text - used, "  %s per step, compression ratio %.1f",
                       com_show_bytes(sent).text, dense / sent);
    struct winsize size;
    const int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 80;
    (void)fprintf(stderr, "\r\033[K%.*s", width - 1, text);
    (void)fflush(stderr);
    progress->drawn = now();
    progress->open = 1;
}

static void clear_line(struct progress *progress)
{
    if (progress->open)
        (void)fputs("\r\033[K", stderr);
    progress->open = 0;
}

static void draw_evaluation(struct progress *progress, const com_json *line)
{
    double accuracy = 0;
    const int classifies = com_json_get_real(line, "accuracy", &accuracy);
    progress->accuracy = classifies ? accuracy : -1;
    if (progress->request->quiet)
        return;
    clear_line(progress);
    (void)fprintf(stderr, "%sstep %.0f  epoch %.0f  %s loss %.4f", progress->title,
                  number(line, "step"), number(line, "epoch"),
                  progress->is_held_out ? "validation" : "test", number(line, "loss"));
    if (classifies)
        (void)fprintf(stderr, "  accuracy %.2f %%", 100 * accuracy);
    (void)fprintf(stderr, "  %.1f s\n", number(line, "seconds"));
}

/* ---- callbacks of the loop ---- */

static void on_line(void *context, const com_json *line)
{
    struct progress *const progress = context;
    const char *kind = "";
    char *text = NULL;
    (void)com_json_get_text(line, "kind", &kind);
    if (progress->live && com_json_print(line, 0, &text, NULL) == TERSE_OK)
        rep_live_push(progress->live, text);
    free(text);
    if (strcmp(kind, "run") == 0) {
        progress->steps = number(line, "steps");
        progress->is_held_out = number(line, "validation") > 0;
        progress->first_step = -1;
    }
    if (strcmp(kind, "step") == 0 && !progress->request->quiet)
        draw_step(progress, line);
    else if (strcmp(kind, "evaluation") == 0)
        draw_evaluation(progress, line);
}

static void on_note(void *context, const char *text)
{
    struct progress *const progress = context;
    clear_line(progress);
    msg_note("%s%s", progress->title, text);
}

static int start_live(struct progress *progress)
{
    const struct train_request *const request = progress->request;
    terse_fault fault = {0};
    if (request->live_port == TRAIN_NOT_LIVE)
        return CLI_OK;
    if (rep_live_start(request->live_host, (uint16_t)request->live_port, &progress->live, &fault) !=
        TERSE_OK)
        return msg_error(CLI_REFUSED, "--live: %s", fault.text);
    msg_note("live page: %s", rep_live_address(progress->live));
    return CLI_OK;
}

int progress_start(const struct train_request *request, struct progress **out)
{
    struct progress *const progress = calloc(1, sizeof *progress);
    if (!progress)
        return msg_error(CLI_MACHINE, "out of memory");
    *progress = (struct progress){.request = request, .title = "", .accuracy = -1};
    progress->watch = (struct trn_watch){progress, on_note, on_line, &stop};
    progress->line = isatty(STDERR_FILENO) && !request->quiet;
    *out = progress;
    const int code = start_live(progress);
    if (code != CLI_OK) {
        free(progress);
        *out = NULL;
    }
    return code;
}

void progress_title(struct progress *progress, const char *title)
{
    progress->title = title;
    progress->accuracy = -1;
}

const struct trn_watch *progress_watch(struct progress *progress)
{
    return &progress->watch;
}

void progress_end(struct progress *progress)
{
    if (!progress)
        return;
    clear_line(progress);
    rep_live_stop(progress->live);
    free(progress);
}
