#include "report_live.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/file.h"
#include "common/json.h"
#include "common/text.h"
#include "message.h"
#include "report/live.h"

enum { WAIT_MS = 200 };

static volatile sig_atomic_t stop;

static void handle(int number)
{
    stop = number;
}

/* A file that grows, and the line that is not complete yet. */
struct follower {
    char *run_path;
    char *metrics_path;
    FILE *metrics; /* NULL until there is one */
    struct com_text line;
    int described; /* run.json was shown */
};

/* The object of run.json begins the run on the page. */
static int show_run(struct follower *follower, struct rep_live *live)
{
    com_json *json = NULL;
    char *text = NULL;
    terse_fault fault = {.rank = -1};
    terse_status status = com_json_read(follower->run_path, &json, &fault);
    if (status == TERSE_OK && !com_json_get(json, "kind"))
        com_json_put_text(json, "kind", "run");
    if (status == TERSE_OK)
        status = com_json_print(json, 0, &text, &fault);
    if (status == TERSE_OK)
        rep_live_push(live, text);
    free(text);
    com_json_free(json);
    follower->described = 1;
    return msg_failure(status, &fault);
}

/* run.json may be rewritten until the first line is there. */
static int show_line(struct follower *follower, struct rep_live *live)
{
    const int code = follower->described ? CLI_OK : show_run(follower, live);
    if (code == CLI_OK && follower->line.bytes)
        rep_live_push(live, follower->line.bytes);
    com_text_free(&follower->line);
    return code;
}

/* A run that begins anew, or is resumed, replaces its file. */
static int was_replaced(const struct follower *follower)
{
    struct stat now;
    struct stat ours;
    return stat(follower->metrics_path, &now) != 0 ||
           fstat(fileno(follower->metrics), &ours) != 0 || now.st_ino != ours.st_ino ||
           now.st_size < ftell(follower->metrics);
}

static int show_new_lines(struct follower *follower, struct rep_live *live)
{
    int code = CLI_OK;
    if (!follower->metrics)
        follower->metrics = fopen(follower->metrics_path, "rb");
    if (!follower->metrics)
        return CLI_OK; /* not yet */
    if (was_replaced(follower))
        return msg_error(CLI_REFUSED, "report: %s was replaced; the run begins anew",
                         follower->metrics_path);
    clearerr(follower->metrics);
    for (int byte; code == CLI_OK && (byte = getc(follower->metrics)) != EOF;) {
        const char letter = (char)byte;
        if (letter != '\n')
            com_text_add(&follower->line, &letter, 1);
        else
            code = show_line(follower, live);
    }
    return follower->line.failed ? msg_error(CLI_MACHINE, "out of memory") : code;
}

static int follow(struct follower *follower, struct rep_live *live)
{
    const struct timespec wait = {.tv_nsec = WAIT_MS * 1000000L};
    struct sigaction action = {.sa_handler = handle};
    int code = CLI_OK;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    msg_note("live page: %s", rep_live_address(live));
    while (!stop && code == CLI_OK) {
        code = show_new_lines(follower, live);
        (void)nanosleep(&wait, NULL);
    }
    return code;
}

int report_live(const char *folder, uint16_t port)
{
    struct follower follower = {.run_path = com_path_join(folder, "run.json"),
                                .metrics_path = com_path_join(folder, "metrics.jsonl")};
    struct rep_live *live = NULL;
    terse_fault fault = {.rank = -1};
    int code = CLI_OK;
    if (!follower.run_path || !follower.metrics_path)
        code = msg_error(CLI_MACHINE, "out of memory");
    else if (rep_live_start(NULL, port, &live, &fault) != TERSE_OK)
        code = msg_error(CLI_REFUSED, "--live: %s", fault.text);
    else
        code = follow(&follower, live);
    rep_live_stop(live);
    if (follower.metrics)
        (void)fclose(follower.metrics);
    com_text_free(&follower.line);
    free(follower.run_path);
    free(follower.metrics_path);
    return code;
}
