/* Reading values of options. */
#ifndef CLI_OPTION_H
#define CLI_OPTION_H

#include <stddef.h>
#include <stdint.h>

/* Each returns 1 and writes *out if the whole text is a number in low..high, else 0. */
int option_u64(const char *text, uint64_t low, uint64_t high, uint64_t *out);
int option_count(const char *text, uint64_t low, uint64_t high, uint64_t *out); /* 25M, 64k, 1G */
int option_real(const char *text, double low, double high, double *out);

/* How many letters must be added, removed or changed to turn one word into the other. */
size_t option_edits(const char *from, const char *to);

#endif
