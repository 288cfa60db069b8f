/* The output of an experiment: claims and charts. A lack of memory is remembered and reported once,
 * at the end. */
#ifndef RPR_SHEET_H
#define RPR_SHEET_H

#include "reproduce.h"

#define RPR_FORMAT(format_at, values_at) __attribute__((format(printf, format_at, values_at)))

struct rpr_sheet {
    struct rpr_result *result;
    uint64_t seed;
    unsigned threads;
    terse_status status; /* the first failure of the library or of memory */
    terse_fault fault;
};

/* An experiment; it returns at once if sheet->status is a failure. */
typedef void rpr_experiment(struct rpr_sheet *sheet);

/* A paper: its experiments, the last NULL. */
struct rpr_plan {
    const char *paper;
    const char *title;
    const char *citation;
    rpr_experiment *const *experiments;
};

extern const struct rpr_plan rpr_signsgd, rpr_def, rpr_qadam, rpr_regtopk, rpr_dqsgd;

/* Bounds are chosen with reproduce/claims: a right implementation misses one for at most one seed
 * in 10,000. */
RPR_FORMAT(6, 7)
void rpr_claim(struct rpr_sheet *sheet, const char *id, double measured, enum rpr_side side,
               double bound, const char *text, ...);

/* low <= measured <= high */
RPR_FORMAT(6, 7)
void rpr_claim_within(struct rpr_sheet *sheet, const char *id, double measured, double low,
                      double high, const char *text, ...);

/* A chart over `count` values of x (copied); NULL: x is 0, step, 2 step, ... */
struct rpr_axes {
    const char *id;
    const char *title;
    const char *x_label;
    const char *y_label;
    unsigned flags;
    size_t count;
    const double *x;
    double step;
};
void rpr_chart(struct rpr_sheet *sheet, const struct rpr_axes *axes);

/* A line of the last chart; `value` is copied. */
RPR_FORMAT(3, 4)
void rpr_line(struct rpr_sheet *sheet, const double *value, const char *name, ...);

/* Remembers the first failure; TERSE_OK is none. */
void rpr_fail(struct rpr_sheet *sheet, terse_status status, const terse_fault *fault);

/* Zeroed memory, or NULL with the sheet failed. */
void *rpr_room(struct rpr_sheet *sheet, size_t count, size_t size);

#endif
