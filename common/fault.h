/* Failures of programs: a terse_status and one line in a terse_fault.
 *
 * Files have their own names for four statuses, so that callers can choose an exit code:
 *   TERSE_BAD_SPEC   a name (data, shard) cannot be read: the command is wrong
 *   COM_NO_FILE      a file does not exist, or may not be read or written: the path is wrong
 *   COM_BAD_DISK     reading or writing failed, the disk is full: the machine is at fault
 *   COM_BAD_FILE     a file is malformed: "FILE: byte N: reason", and fault.offset
 * TERSE_BAD_VERSION, TERSE_BAD_CHECKSUM, TERSE_MISMATCH and TERSE_NO_MEMORY keep their meaning. */
#ifndef COM_FAULT_H
#define COM_FAULT_H

#include <stdint.h>

#include <terse/status.h>

#define COM_NO_FILE TERSE_BAD_ARGUMENT
#define COM_BAD_DISK TERSE_PEER_LOST
#define COM_BAD_FILE TERSE_BAD_FRAME

__attribute__((format(printf, 2, 3))) void com_note(terse_fault *fault, const char *format, ...);

/* "FILE: byte OFFSET: reason"; a long path loses its beginning, never the reason. */
__attribute__((format(printf, 4, 5))) void com_note_at(terse_fault *fault, const char *file,
                                                       uint64_t offset, const char *format, ...);

/* "cannot WHAT 'FILE': strerror(number)" */
void com_note_errno(terse_fault *fault, const char *what, const char *file, int number);
/* COM_NO_FILE if the path is wrong, else COM_BAD_DISK. */
terse_status com_errno_status(int number);

/* return com_fail(fault, TERSE_BAD_SPEC, "no data named '%s'", name); */
#define com_fail(fault, status, ...) ((void)com_note((fault), __VA_ARGS__), (status))
#define com_refuse(fault, status, file, ...) \
    ((void)com_note_at((fault), (file), __VA_ARGS__), (status))
#define com_fail_errno(fault, what, file, number) \
    ((void)com_note_errno((fault), (what), (file), (number)), com_errno_status(number))

#endif
