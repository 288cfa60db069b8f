/* Where kernels are compared with ref: buffers between guard pages, numbers of every kind.
 *
 * A trial runs a kernel and its ref on the same input and on two outputs that begin with the same
 * bytes, and then looks at the outputs and at what lies around them. */
#ifndef TEST_KERNELS_LAB_H
#define TEST_KERNELS_LAB_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

#define PLACES 64u       /* places 0..63: so many elements behind the guard page in front */
#define PLACE_END PLACES /* up against the guard page behind */
#define LAB_BUFFERS 3u
#define LAB_LARGE 1000003u /* elements of the longest trial */

/* Memory with a page before and behind it that may not be touched. */
struct guarded {
    uint8_t *first;
    size_t len;
};

struct lab {
    struct guarded in[LAB_BUFFERS];
    struct guarded ref[LAB_BUFFERS];
    struct guarded set[LAB_BUFFERS];
    uint64_t seed;
    uint64_t state;
    int quick;
    size_t trials;
};

/* Kinds of floats. All but the last two are finite. */
enum fill {
    FILL_NORMAL,
    FILL_ZEROS,    /* of both signs, and a few others */
    FILL_DENORMAL, /* and the smallest normal ones */
    FILL_HUGE,
    FILL_TIES,    /* halves of small steps; halfway between neighbours in f16 and bf16 */
    FILL_FINITE,  /* any bits that are a number */
    FILL_SPECIAL, /* NaN, quiet and signalling, and infinities among others */
    FILL_ANY,     /* any bits */
    FILL_COUNT,
    FILL_FINITE_COUNT = FILL_SPECIAL,
};

struct trial {
    const struct tsk_table *set;
    size_t count;
    unsigned place;
    enum fill fill;
};

/* The two outputs of a trial. */
struct pair {
    uint8_t *ref;
    uint8_t *set;
    size_t size;
    size_t before; /* bytes around them that must stay equal too */
    size_t behind;
};

/* Takes its seed from TERSE_TEST_SEED, its size from TERSE_TEST_QUICK=1, and says both. Returns 0,
 * or -1 without memory. */
int lab_open(struct lab *lab);
void lab_close(struct lab *lab);

uint64_t lab_random(struct lab *lab);
uint32_t lab_below(struct lab *lab, uint32_t limit);

/* Input number `which`. Elements of 4, 2 or 1 bytes each at their place. */
float *lab_floats(struct lab *lab, unsigned which, const struct trial *trial, size_t count,
                  enum fill fill);
uint8_t *lab_payload_floats(struct lab *lab, unsigned which, const struct trial *trial,
                            size_t count, enum fill fill);
uint16_t *lab_codes(struct lab *lab, unsigned which, const struct trial *trial, size_t count);
uint8_t *lab_bytes(struct lab *lab, unsigned which, const struct trial *trial, size_t len);

/* Output number `which`, filled with noise. */
struct pair lab_output(struct lab *lab, unsigned which, const struct trial *trial, size_t count,
                       size_t element);
/* The same, filled with floats, for kernels that add. */
struct pair lab_output_floats(struct lab *lab, unsigned which, const struct trial *trial,
                              size_t count, enum fill fill);

/* How many of the bytes (floats) of a pair differ, and whether anything around them does. Two NaN
 * are equal. */
size_t pair_bytes_differ(const struct pair *pair);
size_t pair_floats_differ(const struct pair *pair);
int pair_around_differs(const struct pair *pair);

uint32_t bits_of_float(float x);
float float_of_bits(uint32_t bits);

#endif
