/* The problem of the experiments on QAdam, and the experiments of qadam_parts.c. */
#ifndef RPR_QADAM_H
#define RPR_QADAM_H

#include "descent.h"

enum { RPR_QADAM_DIM = 200, RPR_QADAM_STEPS = 4000 };

#define RPR_QADAM_SPEC "lr=0.05,schedule=sqrt,ramp=0,beta1=0.9,rates=theory,theta=1,shift=9,v0=1e-5"

/* From 1 to 0.01. */
void rpr_qadam_curvature(float *out);

rpr_experiment rpr_qadam_single; /* one worker, and the rule in doubles */
rpr_experiment rpr_qadam_grid;   /* every value is on the nearest point of the grid */

#endif
