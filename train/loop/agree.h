/* Processes of a training must have been started alike: their settings and data are compared before
 * anything else. */
#ifndef TRN_AGREE_H
#define TRN_AGREE_H

#include "loop/train.h"

/* Compares the settings that rows of the options mark (TRN_OF_RANKS), and the data, with those of
 * rank 0. Collective. TERSE_MISMATCH on every rank: the fault names the first rank that differs and
 * what differs. */
TERSE_CHECK terse_status trn_agree(terse_group *group, const struct trn_settings *settings,
                                   uint64_t data_hash, terse_fault *fault);

#endif
