/* A folder that one process writes to. The lock ends with the process, however it ends.
 *
 * It is a lock (flock) on the file ".lock" in the folder, which also works between machines on NFS;
 * a file system without locks leaves the folder unlocked. */
#ifndef COM_LOCK_H
#define COM_LOCK_H

#include "common/fault.h"

struct com_lock;

/* COM_NO_FILE: another process has the folder; the fault names it. */
TERSE_CHECK terse_status com_lock_take(const char *folder, struct com_lock **out,
                                       terse_fault *fault);
/* Removes the file; NULL is fine. */
void com_lock_release(struct com_lock *lock);

#endif
