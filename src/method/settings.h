/* The settings of a method: the options of all methods, the table of methods with their defaults,
 * and the values that a spec gives them. */
#ifndef TSI_METHOD_SETTINGS_H
#define TSI_METHOD_SETTINGS_H

#include <stddef.h>

#include <terse/method.h>

#include "direction/direction.h"
#include "update/update.h"

/* Every parameter that any method has, once. */
enum tsi_setting {
    TSI_LR,
    TSI_WD,
    TSI_DECAY,
    TSI_MOMENTUM,
    TSI_BETA,
    TSI_BETA1,
    TSI_BETA2,
    TSI_EPS,
    TSI_V0,
    TSI_BIAS,
    TSI_AMSGRAD,
    TSI_RATES,
    TSI_THETA,
    TSI_SHIFT,
    TSI_LAMBDA,
    TSI_RATIO,
    TSI_KEEP,
    TSI_SCOPE,
    TSI_VALUES,
    TSI_MU,
    TSI_FORM,
    TSI_REJECT,
    TSI_KG,
    TSI_KX,
    TSI_RANGE,
    TSI_LEVEL_BITS,
    TSI_NORM,
    TSI_BITS,
    TSI_TARGET,
    TSI_KAPPA,
    TSI_ALPHA,
    TSI_EPSILON,
    TSI_SMOOTHNESS,
    TSI_NOISE,
    TSI_GAP,
    TSI_RANK,
    TSI_TIE,
    TSI_ZERO,
    TSI_SIGN_ZERO,
    TSI_SCHEDULE,
    TSI_RAMP,
    TSI_CLIP,
    TSI_SIGMA,
    TSI_WARMUP,
    TSI_SIGN_WARMUP,
    TSI_EVERY,
    TSI_OUTER_LR,
    TSI_OUTER_MOMENTUM,
    TSI_NESTEROV,
    TSI_EITHER_NESTEROV,
    TSI_MIN,
    TSI_SETTINGS
};

enum { TSI_KG_OFF = 15 }; /* the others are the values themselves */
enum { TSI_DECAY_DECOUPLED, TSI_DECAY_MOMENTUM };
enum { TSI_RATES_CONSTANT, TSI_RATES_THEORY };
enum { TSI_SCHEDULE_CONSTANT, TSI_SCHEDULE_STEP, TSI_SCHEDULE_COSINE, TSI_SCHEDULE_SQRT };
enum { TSI_BITS_AVERAGE, TSI_BITS_KAPPA, TSI_BITS_ERROR, TSI_BITS_RMS, TSI_BITS_MEANSTD };

/* Entries that are words or patterns, not numbers. */
enum tsi_word {
    TSI_WORD_COMBINE,
    TSI_WORD_FEEDBACK,
    TSI_WORD_PLAIN,
    TSI_WORD_DIRECTION,
    TSI_WORD_CODEC,
    TSI_WORD_UPDATE,
    TSI_WORDS
};

#define TSI_MAX_WORD TERSE_MAX_ENTRY

/* A parameter that a method has, and the value it has there when not given. */
struct tsi_default {
    enum tsi_setting which;
    const char *initial;
};

/* ---- the table of methods: a method is one choice at each stage (methods.c) ---- */

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
    const char *feedback; /* "residual"; NULL: none */
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

extern const struct tsi_method_row tsi_methods[];
extern const size_t tsi_method_count;
extern const struct tsi_method_row tsi_method_composed;

/* ---- what a spec sets (settings.c) ---- */

struct tsi_settings {
    const struct tsi_method_row *row;
    double value[TSI_SETTINGS]; /* 0 where the method has no such parameter */
    char word[TSI_WORDS][TSI_MAX_WORD];
    size_t at[TSI_WORDS]; /* where its value stands in the spec */
    uint64_t given;       /* bit i: the spec sets option i of the row */
};

/* The parameter as help texts show it for a method. */
terse_option tsi_setting_option(const struct tsi_default *entry);

TERSE_CHECK terse_status tsi_settings_read(const char *spec, struct tsi_settings *out,
                                           terse_fault *fault);
/* Sets options of a list "key=value,key=value": those that were given stay, unless `replace`; those
 * that the method does not have are left out. */
TERSE_CHECK terse_status tsi_settings_set(struct tsi_settings *settings, const char *entries,
                                          int replace, terse_fault *fault);
extern const char *const tsi_word_names[TSI_WORDS];
/* The spec with the options of `which`: all bits for the complete one, settings->given for the
 * shortest. Returns its length; `cap` or more where it does not fit. */
size_t tsi_settings_write(const struct tsi_settings *settings, uint64_t which, char *out,
                          size_t cap);
/* Replaces every {name} of a template by the value of that parameter. */
void tsi_settings_fill(const struct tsi_settings *settings, const char *template, char *out,
                       size_t cap);
#endif
