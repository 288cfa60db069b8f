/* The table of methods: a method is one choice at each stage. */
#ifndef TSI_METHOD_TABLE_H
#define TSI_METHOD_TABLE_H

#include <terse/method.h>

#include "direction/direction.h"
#include "method/settings.h"
#include "update/update.h"

enum tsi_point {
    TSI_POINT_WEIGHTS,  /* x */
    TSI_POINT_DETACHED, /* x - lambda * e */
};

enum tsi_unit {
    TSI_UNIT_GRADIENT, /* what is encoded is a gradient: lr is applied to the aggregate */
    TSI_UNIT_WEIGHT,   /* what is encoded is a change of weights: lr is inside */
};

struct tsi_method_row {
    const char *name;
    enum tsi_point point;
    enum tsi_direction direction;
    enum tsi_unit unit;
    const char *feedback; /* "residual" or "none" */
    const char *codec;    /* a template: {name} is an option */
    const char *back;     /* codec of the way back, where it is another one; used if kx > 0 */
    const char *combine;  /* NULL: what suits the codec */
    enum tsi_update_kind update;
    int deploys;                /* evaluate x - mean e, not x */
    int posterior;              /* RegTop-k's second memory */
    int dynamic;                /* bits are chosen per step */
    const char *no_local_steps; /* why every=H is refused; NULL: it is not */
    const struct tsi_default *options;
    size_t option_count;
    terse_method_about about;
};

/* papers.c, baselines.c */
extern const struct tsi_method_row tsi_method_signsgd;
extern const struct tsi_method_row tsi_method_signum;
extern const struct tsi_method_row tsi_method_def;
extern const struct tsi_method_row tsi_method_def_a;
extern const struct tsi_method_row tsi_method_qadam;
extern const struct tsi_method_row tsi_method_regtopk;
extern const struct tsi_method_row tsi_method_dqsgd;
extern const struct tsi_method_row tsi_method_ef_sign;
extern const struct tsi_method_row tsi_method_powersgd;
extern const struct tsi_method_row tsi_method_dense;
extern const struct tsi_method_row tsi_method_fp16;
extern const struct tsi_method_row tsi_method_bf16;
extern const struct tsi_method_row tsi_method_adam;
extern const struct tsi_method_row tsi_method_qsgd;
extern const struct tsi_method_row tsi_method_terngrad;
extern const struct tsi_method_row tsi_method_natural;
extern const struct tsi_method_row tsi_method_topk;
extern const struct tsi_method_row tsi_method_ef;
extern const struct tsi_method_row tsi_method_saef;

extern const struct tsi_method_row *const tsi_methods[];
extern const size_t tsi_method_count;
extern const struct tsi_method_row tsi_method_composed;

#endif
