/* A claim is an unchecked tensor, from a call (layout.c) or from bytes (description.c). The same
 * rules apply to both. */
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

/* Writes the product of the dims to *count. Returns 0 if it exceeds TERSE_MAX_TENSOR_COUNT. */
int tsi_claim_count(const struct tsi_claim *claim, uint64_t *count);

/* Appends a claim that passed all checks; `count` comes from tsi_claim_count. */
TERSE_CHECK terse_status tsi_layout_append(terse_layout *layout, const struct tsi_claim *claim,
                                           uint64_t count);

/* Stores the hash of a complete layout. */
void tsi_layout_settle(terse_layout *layout);

#endif
