/* Fuzzes the lines that `terse launch` reads on the standard error of its ranks: any bytes give a
 * message of a known kind with a rank that a group can have. */
#include <string.h>

#include <terse/group.h>

#include "cli/launch_message.h"
#include "fuzz/subject.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const struct launch_message message = launch_message_read((const char *)bytes, len);
    FUZZ_CHECK(message.kind <= LAUNCH_FAILED && message.rank < TERSE_MAX_WORKERS);
    if (message.kind == LAUNCH_OTHER)
        FUZZ_CHECK(message.rank == 0 && message.value == 0);
    if (launch_message_is_ours(&message))
        FUZZ_CHECK(len > 13 && memcmp(bytes, "terse launch:", 13) == 0);
    return 0;
}
