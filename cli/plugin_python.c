/* Plugins in Python: the interpreter that `python3` (or $TERSE_PYTHON) names is asked where its
 * shared library and its modules are, and that library is opened. Any thread calls the functions of
 * a plugin through ctypes, which takes and leaves the interpreter's lock around each call. */
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <terse/user_codec.h>

#include "common/fault.h"
#include "common/text.h"
#include "plugin.h"

/* The functions of Python's C interface that are needed; PyGILState_STATE is an int. */
static struct {
    void (*initialize)(int);
    int (*run)(const char *);
    void *(*save_thread)(void);
    int (*ensure)(void);
    void (*release)(int);
} python;

static struct com_text paths; /* of modules, as a list of Python's bytes */

enum { LONGEST_LINE = 4096 };

/* Prints, one a line: the library with and without its folder, the home, the paths of modules. */
static char question[] = "import os, sys, sysconfig\n"
                         "name = sysconfig.get_config_var('INSTSONAME') or ''\n"
                         "print(os.path.join(sysconfig.get_config_var('LIBDIR') or '', name))\n"
                         "print(name)\n"
                         "print(sys.base_prefix + ':' + sys.base_exec_prefix)\n"
                         "print('\\n'.join(path for path in sys.path if path))";

extern char **environ;

/* The answer to the question, from the interpreter that is used; NULL: it cannot be run. */
static FILE *ask(pid_t *process)
{
    static char usual[] = "python3";
    static char option[] = "-c";
    char *const named = getenv("TERSE_PYTHON");
    char *const words[] = {named && *named ? named : usual, option, question, NULL};
    posix_spawn_file_actions_t files;
    int ends[2];
    if (pipe(ends) != 0)
        return NULL;
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    int failed = posix_spawn_file_actions_init(&files);
    if (!failed) {
        failed =
            posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO) ||
            posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0) ||
            posix_spawnp(process, words[0], &files, NULL, words, environ);
        (void)posix_spawn_file_actions_destroy(&files);
    }
    (void)close(ends[1]);
    FILE *const answer = failed ? NULL : fdopen(ends[0], "r");
    if (!answer)
        (void)close(ends[0]);
    return answer;
}

/* b'...' of any bytes. */
static void put_bytes(struct com_text *out, const char *text)
{
    com_text_put(out, "b'");
    for (; *text; text++)
        com_text_format(out, "\\x%02x", (unsigned)(unsigned char)*text);
    com_text_put(out, "', ");
}

/* Where the package `terse` of this command lies: beside the build folder, or installed. */
static void put_own_paths(void)
{
    static const char *const places[] = {"../python", "../lib/python3/dist-packages"};
    char path[LONGEST_LINE];
    const ssize_t len = readlink("/proc/self/exe", path, sizeof path / 2);
    if (len <= 0)
        return;
    path[len] = '\0';
    *strrchr(path, '/') = '\0';
    const size_t folder = strlen(path);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        (void)snprintf(path + folder, sizeof path - folder, "/%s/terse/user_codec.py", places[i]);
        if (access(path, R_OK) != 0)
            continue;
        path[folder + 1 + strlen(places[i])] = '\0';
        put_bytes(&paths, path);
    }
}

/* Opens the library whose path or name the line is. Extension modules of Python expect its symbols
 * to be global. */
static void *open_line(char *line)
{
    line[strcspn(line, "\n")] = '\0';
    return strstr(line, ".so") ? dlopen(line, RTLD_NOW | RTLD_GLOBAL) : NULL;
}

static terse_status no_python(terse_fault *fault)
{
    return com_fail(fault, TERSE_UNSUPPORTED,
                    "it needs Python, and python3 cannot be run; name the interpreter in "
                    "TERSE_PYTHON");
}

static terse_status open_library(FILE *answer, void **out, terse_fault *fault)
{
    char line[LONGEST_LINE] = "";
    void *library = NULL;
    for (int i = 0; i < 2 && !library && fgets(line, sizeof line, answer); i++) {
        library = open_line(line);
        if (library && i == 0 && !fgets(line, sizeof line, answer))
            return com_fail(fault, TERSE_UNSUPPORTED, "python3 does not name its modules");
    }
    if (!library && line[0] == '\0')
        return no_python(fault);
    if (!library)
        return com_fail(fault, TERSE_UNSUPPORTED,
                        "it needs Python's shared library %.60s, which cannot be opened; install "
                        "it (Debian: libpython3-dev) or name another interpreter in TERSE_PYTHON",
                        line);
    *out = library;
    return TERSE_OK;
}

static terse_status find(void *library, const char *name, void *function, terse_fault *fault)
{
    void *const symbol = dlsym(library, name);
    if (!symbol)
        return com_fail(fault, TERSE_UNSUPPORTED, "Python's shared library has no %s", name);
    memcpy(function, &symbol, sizeof symbol);
    return TERSE_OK;
}

static terse_status find_all(void *library, terse_fault *fault)
{
    terse_status status = find(library, "Py_InitializeEx", &python.initialize, fault);
    if (status == TERSE_OK)
        status = find(library, "PyEval_SaveThread", &python.save_thread, fault);
    if (status == TERSE_OK)
        status = find(library, "PyGILState_Ensure", &python.ensure, fault);
    if (status == TERSE_OK)
        status = find(library, "PyGILState_Release", &python.release, fault);
    return status == TERSE_OK ? find(library, "PyRun_SimpleString", &python.run, fault) : status;
}

/* Starts the interpreter in the home of the one that was asked, and lets its lock go. */
static terse_status start(terse_fault *fault)
{
    pid_t process;
    FILE *const answer = ask(&process);
    char home[LONGEST_LINE] = "";
    char line[LONGEST_LINE];
    void *library = NULL;
    if (!answer)
        return no_python(fault);
    terse_status status = open_library(answer, &library, fault);
    if (status == TERSE_OK && fgets(home, sizeof home, answer))
        home[strcspn(home, "\n")] = '\0';
    put_own_paths();
    while (status == TERSE_OK && fgets(line, sizeof line, answer)) {
        line[strcspn(line, "\n")] = '\0';
        put_bytes(&paths, line);
    }
    (void)fclose(answer);
    (void)waitpid(process, NULL, 0);
    if (status == TERSE_OK)
        status = find_all(library, fault);
    if (status != TERSE_OK)
        return status;
    const char *const before = getenv("PYTHONHOME");
    (void)setenv("PYTHONHOME", home, 1);
    python.initialize(0); /* 0: signals stay the command's */
    if (!before)
        (void)unsetenv("PYTHONHOME");
    (void)python.save_thread();
    return TERSE_OK;
}

terse_status plugin_python_load(const char *path, terse_fault *fault)
{
    terse_status (*const enter)(const terse_user_codec *, terse_fault *) = terse_codec_register;
    uintptr_t address;
    char why[sizeof fault->text] = "";
    struct com_text script = {.bytes = NULL};
    terse_status status = python.run ? TERSE_OK : start(fault);
    if (status != TERSE_OK)
        return status;
    com_text_format(&script, "import os, sys\nsys.path[:] = map(os.fsdecode, [%s])\n",
                    paths.bytes ? paths.bytes : "");
    com_text_put(&script, "from terse import _plugin\n_plugin.load(");
    put_bytes(&script, path);
    memcpy(&address, &enter, sizeof address);
    com_text_format(&script, "%llu, %llu, %zu)\n", (unsigned long long)address,
                    (unsigned long long)(uintptr_t)why, sizeof why);
    if (!script.bytes || script.failed)
        return com_fail(fault, TERSE_NO_MEMORY, "out of memory");
    const int held = python.ensure();
    const int failed = python.run(script.bytes);
    python.release(held);
    com_text_free(&script);
    if (failed)
        return com_fail(fault, TERSE_UNSUPPORTED,
                        "Python cannot import the package terse, see above; it needs numpy");
    return why[0] == '\0' ? TERSE_OK : com_fail(fault, TERSE_BAD_ARGUMENT, "%s", why);
}
