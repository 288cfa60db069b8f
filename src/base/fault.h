/* Fills in a fault and hands the status on: return tsi_fail(fault, TERSE_BAD_FRAME, at, "..."). */
#ifndef TSI_FAULT_H
#define TSI_FAULT_H

#include <terse/status.h>

__attribute__((format(printf, 3, 4))) void tsi_note(terse_fault *fault, uint64_t offset,
                                                    const char *format, ...);

/* A macro, so that readers and analysers see which status comes out. */
#define tsi_fail(fault, status, ...) ((void)tsi_note((fault), __VA_ARGS__), (status))

#endif
