/* Specs: "name:key=value,key=value", read against a table of options, with errors that help. */
#ifndef TSI_SPEC_H
#define TSI_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include <terse/codec.h>

#define TSI_MAX_OPTIONS 4u  /* of a codec: they fit a frame's header */
#define TSI_MAX_ENTRIES 48u /* of any spec */

/* Reads `text` (what stands after "name:", at `offset` of the whole spec; NULL or "" for none) into
 * values[], defaults where nothing is given. */
TERSE_CHECK terse_status tsi_spec_values(const terse_option *options, size_t option_count,
                                         const char *text, size_t offset,
                                         double values[TSI_MAX_OPTIONS], terse_fault *fault);

/* The same in two parts, for specs that hold other entries too: the defaults, and one entry
 * "key=value" of `len` bytes that stands at `offset` of the spec. `seen` has a bit for every
 * option that was given; 0 at first. */
TERSE_CHECK terse_status tsi_spec_defaults(const terse_option *options, size_t option_count,
                                           double *values, terse_fault *fault);
TERSE_CHECK terse_status tsi_spec_entry(const terse_option *options, size_t option_count,
                                        const char *text, size_t len, size_t offset, uint64_t *seen,
                                        double *values, terse_fault *fault);

/* Is this a value that text could have given? For values that came as bytes. */
int tsi_spec_in_range(const terse_option *option, double value);

/* Writes "name:key=value,..." with every option, shortest digits that read back the same. */
void tsi_spec_write(const char *name, const terse_option *options, size_t option_count,
                    const double *values, char *out, size_t cap);

/* Writes one value as text. */
void tsi_spec_value(const terse_option *option, double value, char *out, size_t cap);

/* The word of `words` (count of them) that is nearest to `word`, or NULL if none is near. */
const char *tsi_spec_nearest(const char *word, size_t len, const char *const *words, size_t count);

#endif
