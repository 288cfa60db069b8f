/* One function per promise; codec.c has the list. */
#ifndef CHK_PROMISES_H
#define CHK_PROMISES_H

#include "check/subject.h"

/* Each returns 1 if the promise holds, else 0 with the text of the finding. `s` is a subject of one
 * thread; what is in its buffers is lost. */
typedef int chk_promise(struct chk_subject *s, struct chk_finding *finding);

chk_promise chk_length, chk_conservation, chk_selection, chk_one_payload, chk_sameness,
    chk_concurrency, chk_contraction, chk_unbiasedness, chk_additivity, chk_finiteness, chk_zeros,
    chk_damage, chk_spec;

/* "seed 1, normal input: " and the text; returns 0. */
__attribute__((format(printf, 3, 4))) int
chk_broken(const struct chk_subject *s, struct chk_finding *finding, const char *format, ...);

#endif
