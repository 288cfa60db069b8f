#include "ranks.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/launcher.h"
#include "message.h"

typedef terse_status start_fn(terse_fault *fault);
typedef terse_status handle_fn(terse_group **out, terse_fault *fault);
typedef void stop_fn(int exit_code);
typedef terse_status nodes_fn(uint32_t node_size, terse_group **inner, terse_group **outer,
                              terse_fault *fault);

static struct {
    start_fn *start;
    handle_fn *handle;
    nodes_fn *nodes;
    stop_fn *stop;
} mpi;

/* ---- a time limit for calls of MPI that wait for all ranks ---- */

enum {
    LEAST_SECONDS = 20, /* starting takes longer than a step */
    FORWARD_MICROSECONDS = 300000,
};

static char watch_text[300]; /* written before the alarm is set */
static unsigned watch_seconds = 60;

static void give_up(int number)
{
    (void)number;
    while (write(STDERR_FILENO, watch_text, strlen(watch_text)) < 0 && errno == EINTR)
        continue;
    _exit(CLI_MACHINE); /* the launcher then ends the other ranks */
}

static void watch(const char *what)
{
    struct sigaction action = {.sa_handler = give_up};
    (void)sigemptyset(&action.sa_mask);
    (void)snprintf(watch_text, sizeof watch_text,
                   "terse: rank %u: MPI did not %s within %u s: a rank is stopped, still waits to "
                   "be started, or cannot be reached; --timeout waits longer\n",
                   (unsigned)com_launched_rank(), what, watch_seconds);
    (void)sigaction(SIGALRM, &action, NULL);
    (void)alarm(watch_seconds);
}

static void watch_no_more(void)
{
    (void)alarm(0);
}

/* ---- an exit in the middle ---- */

static int is_training; /* MPI has started, and its end was not asked for */

/* Whatever library calls exit(0) in the middle of a training: MPICH's launcher would end the other
 * ranks and report a success. */
static void refuse_exit(void)
{
    if (!is_training)
        return;
    (void)fprintf(stderr, "terse: rank %u: train: exit was called in the middle of the training\n",
                  (unsigned)com_launched_rank());
    (void)usleep(FORWARD_MICROSECONDS);
    _exit(CLI_MACHINE);
}

/* ---- the library ---- */

/* Where a library of this name may be: beside the command (a build folder), or in the lib folder
 * next to its bin. */
static void *open_beside(const char *name)
{
    static const char *const ways[] = {"/", "/../lib/", "/../lib/x86_64-linux-gnu/",
                                       "/../lib/aarch64-linux-gnu/"};
    char folder[4096];
    char path[8192];
    const ssize_t len = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (len <= 0)
        return NULL;
    folder[len] = '\0';
    *strrchr(folder, '/') = '\0';
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s%s", folder, ways[i], name);
        void *const library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        if (library)
            return library;
    }
    return NULL;
}

/* dlsym returns functions as object pointers; POSIX guarantees the same size. */
static void find(void *library, const char *name, void *out, size_t size)
{
    void *const symbol = dlsym(library, name);
    memcpy(out, &symbol, size);
}

terse_status ranks_start(double seconds, terse_group **out, terse_fault *fault)
{
    const char *const given = getenv("TERSE_MPI_LIBRARY");
    void *library =
        given ? dlopen(given, RTLD_NOW | RTLD_GLOBAL) : open_beside(TERSE_MPI_LIBRARY_NAME);
    if (!library && !given)
        library = dlopen(TERSE_MPI_LIBRARY_NAME, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        (void)snprintf(fault->text, sizeof fault->text,
                       "started by mpirun, but %s cannot be loaded: %.100s",
                       given ? given : TERSE_MPI_LIBRARY_NAME, dlerror());
        return TERSE_UNSUPPORTED;
    }
    find(library, "terse_mpi_start", &mpi.start, sizeof mpi.start);
    find(library, "terse_group_mpi_world", &mpi.handle, sizeof mpi.handle);
    find(library, "terse_group_mpi_nodes", &mpi.nodes, sizeof mpi.nodes);
    find(library, "terse_mpi_stop", &mpi.stop, sizeof mpi.stop);
    if (!mpi.start || !mpi.handle || !mpi.nodes || !mpi.stop) {
        (void)snprintf(fault->text, sizeof fault->text,
                       "libterse-mpi is of another version: install both of the same version");
        return TERSE_UNSUPPORTED;
    }
    if (seconds > 0)
        watch_seconds = (unsigned)ceil(seconds > LEAST_SECONDS ? seconds : LEAST_SECONDS);
    watch("start");
    terse_status status = mpi.start(fault);
    if (status == TERSE_OK)
        status = mpi.handle(out, fault);
    watch_no_more();
    is_training = status == TERSE_OK && atexit(refuse_exit) == 0;
    return status;
}

terse_status ranks_split(uint32_t node_size, terse_group **inner, terse_group **outer,
                         terse_fault *fault)
{
    return mpi.nodes(node_size, inner, outer, fault);
}

int ranks_end(terse_group *group, int code)
{
    const int failed = code != CLI_OK && code != CLI_REQUEUE && code != CLI_INTERRUPTED;
    is_training = 0;
    if (!mpi.stop)
        return code;
    if (group && !failed) {
        code = terse_group_rank(group) == 0 ? code : CLI_OK;
        (void)fflush(stdout); /* the launcher may end this process once MPI has ended */
        terse_group_destroy(group);
    }
    if (failed) /* MPI_Abort ends the launcher before it has passed on what the ranks wrote */
        (void)usleep(FORWARD_MICROSECONDS);
    watch("end");
    mpi.stop(failed ? code : 0);
    watch_no_more();
    return code;
}
