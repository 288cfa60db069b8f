/* Between layout.c and description.c: a tensor that somebody claims to have, and the rules that
 * turn it into one. The same rules hold for calls and for bytes. */
#ifndef TSI_CLAIM_H
#define TSI_CLAIM_H

#include <terse/layout.h>

struct tsi_claim {
    const char *name; /* name_len bytes, no closing zero needed */
    size_t name_len;
    uint32_t ndim;
    uint64_t dims[TERSE_MAX_DIMS];
};

/* Position of the first control character of the name; name_len if there is none. */
size_t tsi_claim_control(const struct tsi_claim *claim);

/* The product of the dims; 0 if it passes TERSE_MAX_TENSOR_COUNT. */
int tsi_claim_count(const struct tsi_claim *claim, uint64_t *count);

/* Appends a claim that keeps every rule; `count` is what tsi_claim_count said. */
TERSE_CHECK terse_status tsi_layout_append(terse_layout *layout, const struct tsi_claim *claim,
                                           uint64_t count);

/* Keeps the hash of a layout that is complete. */
void tsi_layout_settle(terse_layout *layout);

#endif
