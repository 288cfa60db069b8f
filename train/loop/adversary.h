/* Adversaries: workers that contribute something else than their gradient. They are the last ranks
 * of the group, and honest in everything else: they compute on their own examples, reduce the
 * slices that they own, evaluate and agree like the others. */
#ifndef TRN_ADVERSARY_H
#define TRN_ADVERSARY_H

#include <stddef.h>
#include <stdint.h>

#include "common/fault.h"

/* What an adversary makes of its gradient g, times a factor. */
enum trn_attack {
    TRN_ATTACK_INVERT, /* -g */
    TRN_ATTACK_RANDOM, /* normal numbers with the root mean square of g, others in every step */
    TRN_ATTACK_ZERO,   /* zeros */
    TRN_ATTACK_BLIND,  /* normal numbers times g, element by element, the same in every step */
};

struct trn_adversaries {
    uint32_t count; /* 0: none, and the rest means nothing */
    enum trn_attack attack;
    float factor;
};

/* "none", "3:invert", "3:invert*10". TERSE_BAD_SPEC otherwise: what is wrong, and an example. */
TERSE_CHECK terse_status trn_adversaries_parse(const char *text, struct trn_adversaries *out,
                                               terse_fault *fault);

/* Names of the attacks; NULL past the last. */
const char *trn_attack_name(uint32_t index);

int trn_is_adversary(const struct trn_adversaries *adversaries, uint32_t rank, uint32_t workers);

/* Who attacks when: all that the random numbers depend on. */
struct trn_attacker {
    uint64_t seed;
    uint64_t step;
    uint32_t rank;
};

/* Writes what an adversary contributes instead of `gradient`. */
void trn_attack(const struct trn_adversaries *adversaries, const struct trn_attacker *attacker,
                const float *gradient, float *out, size_t count);

#endif
