#include "plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <terse/user_codec.h>

#include "common/fault.h"
#include "message.h"

#define ENTRY "terse_plugin"

typedef const terse_user_codec *plugin_fn(uint32_t index);

/* Registers every codec of a shared object. */
static terse_status load_shared(const char *path, terse_fault *fault)
{
    void *const object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    plugin_fn *entry = NULL;
    terse_status status = TERSE_OK;
    uint32_t count = 0;
    if (!object)
        return com_fail(fault, TERSE_BAD_ARGUMENT, "%.200s", dlerror());
    void *const symbol = dlsym(object, ENTRY);
    if (!symbol)
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        "it has no function " ENTRY "; <terse/user_codec.h> declares it");
    memcpy(&entry, &symbol, sizeof entry);
    for (; status == TERSE_OK && entry(count); count++)
        status = terse_codec_register(entry(count), fault);
    return status == TERSE_OK && count == 0
               ? com_fail(fault, TERSE_BAD_ARGUMENT, ENTRY "(0) is NULL: it has no codec")
               : status;
}

static int ends_in(const char *path, const char *end)
{
    const size_t len = strlen(path);
    return len > strlen(end) && strcmp(path + len - strlen(end), end) == 0;
}

static int load_one(const char *path)
{
    terse_fault fault = {.text = ""};
    terse_status status = TERSE_BAD_ARGUMENT;
    if (access(path, R_OK) != 0)
        (void)com_fail(&fault, status, "%s; --plugin names the file", strerror(errno));
    else if (ends_in(path, ".py"))
        status = plugin_python_load(path, &fault);
    else if (ends_in(path, ".so"))
        status = load_shared(path, &fault);
    else
        (void)com_fail(&fault, status, "the name ends neither in .so nor in .py");
    return status == TERSE_OK ? CLI_OK : msg_error(CLI_REFUSED, "plugin %s: %s", path, fault.text);
}

/* The next file of the list, without its comma; NULL at the end. */
static char *next_of(const char **rest)
{
    const size_t len = strcspn(*rest, ",");
    char *const file = len > 0 ? strndup(*rest, len) : NULL;
    *rest += len + ((*rest)[len] == ',');
    return file;
}

int plugin_load(const char *list)
{
    int code = CLI_OK;
    while (*list && strcmp(list, PLUGIN_NONE) != 0 && code == CLI_OK) {
        char *const file = next_of(&list);
        code = file ? load_one(file) : msg_error(CLI_USAGE, "--plugin: a name is empty");
        free(file);
    }
    return code;
}

int plugin_resolve(const char *list, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = '\0';
    while (*list) {
        char *const file = next_of(&list);
        char *const whole = file ? realpath(file, NULL) : NULL;
        used += (size_t)snprintf(out + used, cap - used, "%s%s%s", used > 0 ? "," : "",
                                 whole  ? whole
                                 : file ? file
                                        : "",
                                 file ? "" : ",");
        free(whole);
        free(file);
        if (used >= cap)
            return msg_error(CLI_USAGE, "--plugin: the paths have more than %zu bytes", cap - 1);
    }
    return CLI_OK;
}
