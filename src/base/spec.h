/* The parser of specs, "name:key=value,key=value", for a table of options. */
#ifndef TSI_SPEC_H
#define TSI_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include <terse/codec.h>

#define TSI_MAX_OPTIONS 4u  /* options of a codec: their bytes fit a frame header */
#define TSI_MAX_ENTRIES 48u /* options of any spec */

/* Parses `text`, the part of the spec after "name:" (NULL or "": none), into values[]. Options that
 * are not given get their defaults. `offset` is the position of `text` in the spec. */
TERSE_CHECK terse_status tsi_spec_values(const terse_option *options, size_t option_count,
                                         const char *text, size_t offset,
                                         double values[TSI_MAX_OPTIONS], terse_fault *fault);

/* The same in two functions, for specs with other entries too: the defaults, and one entry
 * "key=value" of `len` bytes at `offset` of the spec. `seen` has a bit for every option given so
 * far; it starts as 0. */
TERSE_CHECK terse_status tsi_spec_defaults(const terse_option *options, size_t option_count,
                                           double *values, terse_fault *fault);
TERSE_CHECK terse_status tsi_spec_entry(const terse_option *options, size_t option_count,
                                        const char *text, size_t len, size_t offset, uint64_t *seen,
                                        double *values, terse_fault *fault);

/* 1 if the value is valid for the option. For values read from bytes. */
int tsi_spec_in_range(const terse_option *option, double value);

/* Writes "name:key=value,..." with every option and the fewest digits that parse to the same value.
 */
void tsi_spec_write(const char *name, const terse_option *options, size_t option_count,
                    const double *values, char *out, size_t cap);

/* Writes one value as text. */
void tsi_spec_value(const terse_option *option, double value, char *out, size_t cap);

/* The word of words[0 .. count-1] with the smallest edit distance to `word`; NULL if none is close.
 */
const char *tsi_spec_nearest(const char *word, size_t len, const char *const *words, size_t count);

#endif
