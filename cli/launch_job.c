#include "launch_job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch_message.h"
#include "message.h"

/* ---- signals ---- */

static volatile sig_atomic_t first_signal;
static volatile sig_atomic_t launcher; /* its process id; 0: none is running */

/* Launchers end their ranks within a second of SIGINT or SIGTERM, and forward SIGUSR1 without any
 * limit. */
static void handle(int number)
{
    const int before = errno;
    if (launcher > 0)
        (void)kill((pid_t)launcher, first_signal ? SIGTERM : SIGUSR1);
    if (!first_signal)
        first_signal = number;
    errno = before;
}

void launch_catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
    struct sigaction action = {.sa_handler = handle};
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)sigaction(numbers[i], &action, NULL);
}

int launch_signal(void)
{
    return (int)first_signal;
}

/* ---- what the job says ---- */

enum { HUNG_LOOKS = 10 }; /* seconds */

struct listener {
    struct launch_end *end;
    uint8_t here[TERSE_MAX_WORKERS];
    char line[4096]; /* the one that is not complete yet */
    size_t used;
    int idle; /* looks at which the launcher had no process any more; -1: it never had one */
};

static void note(struct listener *listener, const struct launch_message *message)
{
    struct launch_end *const end = listener->end;
    switch (message->kind) {
    case LAUNCH_HERE:
        end->here += !listener->here[message->rank];
        listener->here[message->rank] = 1;
        break;
    case LAUNCH_END:
        if ((message->value == CLI_REFUSED || message->value == CLI_USAGE) && !end->refused)
            end->refused = (int)message->value;
        if (message->rank == 0 && message->value == CLI_OK)
            end->finished = 1;
        if (message->value == CLI_REQUEUE || message->value == CLI_INTERRUPTED)
            end->stopped = (int)message->value;
        break;
    case LAUNCH_DEAD:
        if (message->value)
            (void)snprintf(end->cause, sizeof end->cause, "rank %u was ended by signal %u",
                           (unsigned)message->rank, (unsigned)message->value);
        else
            (void)snprintf(end->cause, sizeof end->cause, "rank %u died", (unsigned)message->rank);
        break;
    case LAUNCH_FAILED:
        if (end->cause[0] == '\0')
            (void)snprintf(end->cause, sizeof end->cause, "%.*s", (int)(listener->used - 7),
                           listener->line + 7); /* without "terse: " */
        break;
    default: break;
    }
}

static void pass_on(struct listener *listener, int has_end)
{
    const struct launch_message message = launch_message_read(listener->line, listener->used);
    note(listener, &message);
    if (!launch_message_is_ours(&message)) {
        (void)fwrite(listener->line, 1, listener->used, stderr);
        if (has_end)
            (void)fputc('\n', stderr);
    }
    listener->used = 0;
}

/* Whole lines at once; a line that is longer than the buffer goes in parts. */
static void hear(struct listener *listener, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == '\n') {
            pass_on(listener, 1);
            continue;
        }
        if (listener->used == sizeof listener->line)
            pass_on(listener, 0);
        listener->line[listener->used++] = bytes[i];
    }
}

/* ---- the process ---- */

/* In the child: a group of its own, so that the signals of a terminal come through `handle` alone,
 * and an end if this process is killed. */
static void become(char *const *words, int error_fd)
{
    const int nothing = open("/dev/null", O_RDONLY);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (nothing >= 0)
        (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(error_fd, STDERR_FILENO);
    (void)execvp(words[0], words);
    (void)dprintf(STDERR_FILENO, "terse: launch: cannot run '%s': %s\n", words[0], strerror(errno));
    _exit(127);
}

/* Processes that the launcher has started and that have not ended; -1: nobody knows. */
static int count_children(pid_t process)
{
    char path[64];
    char state = '?';
    char child[16];
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)process, (int)process);
    FILE *const children = fopen(path, "re");
    if (!children)
        return -1;
    while (fscanf(children, "%15s", child) == 1) {
        (void)snprintf(path, sizeof path, "/proc/%s/stat", child);
        FILE *const file = fopen(path, "re");
        const int is_read = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
        count += file && !(is_read && (state == 'Z' || state == 'X'));
        if (file)
            (void)fclose(file);
    }
    (void)fclose(children);
    return count;
}

/* Open MPI's launcher may wait for itself for ever after it has ended its ranks (4.1.4, when a rank
 * dies while MPI starts). One that had processes and has had none for some time is killed. */
static void end_if_hung(pid_t process, struct listener *listener)
{
    const int count = count_children(process);
    if (count > 0)
        listener->idle = 0;
    else if (count == 0 && listener->idle >= 0)
        listener->idle++;
    if (listener->idle >= HUNG_LOOKS) {
        listener->end->hung = 1;
        (void)kill(-process, SIGKILL); /* its process group */
    }
}

/* Reads until the launcher has ended and nothing more comes. A rank that outlives it may hold the
 * pipe open, so its end is not waited for. */
static int listen_to(pid_t process, int fd, struct listener *listener)
{
    int status = 0;
    int ended = 0;
    time_t looked = 0;
    for (;;) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        char bytes[4096];
        const int ready = poll(&polled, 1, ended ? 200 : 100);
        const ssize_t len = ready > 0 ? read(fd, bytes, sizeof bytes) : 0;
        if (len > 0)
            hear(listener, bytes, (size_t)len);
        else if (ended)
            break;
        else if (ready > 0 && len == 0) /* closed: the launcher is about to end */
            ended = waitpid(process, &status, 0) == process;
        if (!ended)
            ended = waitpid(process, &status, WNOHANG) == process;
        if (!ended && !listener->end->hung && time(NULL) != looked) { /* once a second */
            looked = time(NULL);
            end_if_hung(process, listener);
        }
    }
    if (listener->used)
        pass_on(listener, 1);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int launch_job_run(char *const *words, uint32_t workers, struct launch_end *out)
{
    struct listener *const listener = calloc(1, sizeof *listener);
    int ends[2];
    *out = (struct launch_end){.absent = -1};
    if (!listener || pipe(ends) != 0) {
        free(listener);
        return 0;
    }
    (void)fflush(stdout);
    listener->end = out;
    listener->idle = -1;
    const pid_t process = fork();
    if (process == 0) {
        (void)close(ends[0]);
        become(words, ends[1]);
    }
    launcher = process > 0 ? (sig_atomic_t)process : 0;
    (void)close(ends[1]);
    if (process > 0)
        out->code = listen_to(process, ends[0], listener);
    launcher = 0;
    (void)close(ends[0]);
    for (uint32_t r = workers; r-- > 0;)
        if (!listener->here[r])
            out->absent = (int32_t)r;
    free(listener);
    return process > 0;
}
