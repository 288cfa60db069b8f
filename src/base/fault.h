/* Fills in a fault and evaluates to the status:
 * return tsi_fail(fault, TERSE_BAD_FRAME, offset, "..."). */
#ifndef TSI_FAULT_H
#define TSI_FAULT_H

#include <terse/status.h>

__attribute__((format(printf, 3, 4))) void tsi_fault_set(terse_fault *fault, uint64_t offset,
                                                         const char *format, ...);

/* This is a macro so that static analysers see the status that is returned. */
#define tsi_fail(fault, status, ...) ((void)tsi_fault_set((fault), __VA_ARGS__), (status))

#endif
