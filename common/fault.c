#include "common/fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PATH = 100 }; /* bytes of a path in a message: its end, which identifies the file */

static const char *tail(const char *file, const char **dots)
{
    const size_t len = strlen(file);
    *dots = len > MOST_PATH ? "..." : "";
    return len > MOST_PATH ? file + (len - MOST_PATH) : file;
}

void com_note(terse_fault *fault, const char *format, ...)
{
    va_list arguments;
    if (!fault)
        return;
    va_start(arguments, format);
    fault->offset = 0;
    fault->rank = -1;
    (void)vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);
}

void com_note_at(terse_fault *fault, const char *file, uint64_t offset, const char *format, ...)
{
    va_list arguments;
    char reason[sizeof fault->text];
    const char *dots;
    if (!fault)
        return;
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    const char *name = tail(file, &dots);
    com_note(fault, "%s%s: byte %llu: %.*s", dots, name, (unsigned long long)offset,
             (int)(sizeof fault->text - MOST_PATH - 32), reason);
    fault->offset = offset;
}

void com_note_errno(terse_fault *fault, const char *what, const char *file, int number)
{
    const char *dots;
    const char *name = tail(file, &dots);
    com_note(fault, "cannot %s '%s%s': %s", what, dots, name, strerror(number));
}

terse_status com_errno_status(int number)
{
    const int path[] = {ENOENT, EACCES, EISDIR, ENOTDIR, ENAMETOOLONG, EPERM, ELOOP, EROFS, ESPIPE};
    for (size_t i = 0; i < sizeof path / sizeof path[0]; i++)
        if (number == path[i])
            return COM_NO_FILE;
    return COM_BAD_DISK;
}
