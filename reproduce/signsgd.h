/* Experiments on single signs, beside the descents of signsgd.c. */
#ifndef RPR_SIGNSGD_H
#define RPR_SIGNSGD_H

#include "sheet.h"

rpr_experiment rpr_vote_odds;  /* the vote is right as often as in the formula */
rpr_experiment rpr_flip_rates; /* a sign is wrong no more often than Gauss' bound */
rpr_experiment rpr_climbing;   /* the sign's mean points uphill; EF-sign goes down */
rpr_experiment rpr_stuck;      /* signs that never leave a line; EF-sign does */

rpr_experiment rpr_signum_rule;  /* Signum is its rule */
rpr_experiment rpr_signum_noisy; /* beside Adam and signSGD */
rpr_experiment rpr_signum_decay; /* weights stop at 1/wd */
rpr_experiment rpr_ties;         /* coins are fair; a tie that is +1 costs */
rpr_experiment rpr_vote_law;     /* votes average like means, as sqrt M */
rpr_experiment rpr_sign_rate;    /* the rate of SGD */

#endif
