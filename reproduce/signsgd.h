/* Experiments on single signs, beside the descents of signsgd.c. */
#ifndef RPR_SIGNSGD_H
#define RPR_SIGNSGD_H

#include "sheet.h"

rpr_experiment rpr_vote_odds;  /* the vote is right as often as in the formula */
rpr_experiment rpr_flip_rates; /* a sign is wrong no more often than Gauss' bound */
rpr_experiment rpr_climbing;   /* the sign's mean points uphill; EF-sign goes down */
rpr_experiment rpr_stuck;      /* signs that never leave a line; EF-sign does */

#endif
