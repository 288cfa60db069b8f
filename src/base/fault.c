#include "base/fault.h"

#include <stdarg.h>
#include <stdio.h>

void tsi_note(terse_fault *fault, uint64_t offset, const char *format, ...)
{
    va_list arguments;
    if (!fault)
        return;
    va_start(arguments, format);
    fault->offset = offset;
    fault->rank = -1;
    (void)vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);
}

const char *terse_status_text(terse_status status)
{
    switch (status) {
    case TERSE_OK: return "ok";
    case TERSE_BAD_ARGUMENT: return "bad argument";
    case TERSE_BAD_SPEC: return "bad spec";
    case TERSE_TOO_SMALL: return "buffer too small";
    case TERSE_NOT_FINITE: return "not finite";
    case TERSE_OUT_OF_RANGE: return "out of range";
    case TERSE_BAD_FRAME: return "bad frame";
    case TERSE_BAD_VERSION: return "unknown version";
    case TERSE_BAD_CHECKSUM: return "bad checksum";
    case TERSE_MISMATCH: return "mismatch";
    case TERSE_NO_MEMORY: return "out of memory";
    case TERSE_TIMEOUT: return "timeout: a worker is late";
    case TERSE_PEER_LOST: return "peer lost: the group is dead";
    case TERSE_UNSUPPORTED: return "not supported here";
    }
    return "unknown status";
}
