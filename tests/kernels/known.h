/* Results that do not come from ref: published vectors, and arithmetic computed differently. */
#ifndef TEST_KERNELS_KNOWN_H
#define TEST_KERNELS_KNOWN_H

#include <stddef.h>

#include "kernels/kernels.h"

/* Each returns the number of wrong results of a table, and prints them. */
size_t known_philox(const struct tsk_table *table);     /* Random123's test vectors */
size_t known_f16_values(const struct tsk_table *table); /* all 65536, to float and back */
size_t known_f16_ties(const struct tsk_table *table);   /* between all neighbours */
size_t known_bf16_values(const struct tsk_table *table);
size_t known_bf16_ties(const struct tsk_table *table);
size_t known_bit_strings(const struct tsk_table *table); /* one bit at a time, all widths */
size_t known_sums(const struct tsk_table *table);        /* the order of lanes */

struct known {
    const char *name;
    size_t (*wrong)(const struct tsk_table *table);
};
extern const struct known known_all[];
extern const size_t known_count;

#endif
