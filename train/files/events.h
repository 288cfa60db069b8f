/* TensorBoard event files: records with masked CRC32C, scalars as simple values. */
#ifndef TRN_EVENTS_H
#define TRN_EVENTS_H

#include <stdint.h>

#include "common/fault.h"

struct trn_events;

struct trn_scalar {
    const char *tag; /* "train/loss" */
    float value;
};

/* A new file events.out.tfevents.SECONDS.terse.PROCESS.NUMBER in `folder`. A run that was resumed
 * at `first_step` > 0 is marked, and TensorBoard drops the later steps of earlier files. */
TERSE_CHECK terse_status trn_events_open(const char *folder, uint64_t first_step,
                                         struct trn_events **out, terse_fault *fault);
/* All scalars of one step as one record, flushed. Values that are not finite are written as such.
 * A record that could not be written whole is cut off again. */
TERSE_CHECK terse_status trn_events_scalars(struct trn_events *events, uint64_t step,
                                            const struct trn_scalar *scalars, uint32_t count,
                                            terse_fault *fault);
/* Removes all event files of a folder: a run that begins anew. */
TERSE_CHECK terse_status trn_events_remove(const char *folder, terse_fault *fault);
void trn_events_close(struct trn_events *events); /* NULL is fine */
const char *trn_events_path(const struct trn_events *events);

#endif
