/* Specs that show every codec: a choice of them in an order of its own, then what it left out. */
#ifndef CLI_CODEC_SPECS_H
#define CLI_CODEC_SPECS_H

#include <stddef.h>

enum { MAX_CODEC_SPECS = 64 };

/* Writes `some` to `out`, then the name of each codec of the library that none of them names, so
 * that a new codec is shown without being listed. Returns how many. */
size_t codec_specs(const char *const *some, size_t count, const char *out[MAX_CODEC_SPECS]);

#endif
