/* The small experiments of the five papers, run through the library, and their claims, measured.
 * `terse reproduce` prints them. */
#ifndef RPR_REPRODUCE_H
#define RPR_REPRODUCE_H

#include <stddef.h>
#include <stdint.h>

#include <terse/status.h>

#include "common/axis.h"
#include "common/text.h"

enum rpr_side {
    RPR_AT_MOST,  /* holds if measured <= bound */
    RPR_AT_LEAST, /* holds if measured >= bound */
    RPR_WITHIN,   /* holds if bound <= measured <= upper */
};

/* A statement of the paper about a number. Over several seeds `measured` is the mean, and it holds
 * only if it holds for every one of them. */
struct rpr_claim {
    char id[48];
    char text[240];
    double measured;
    double bound;
    double upper; /* of RPR_WITHIN */
    enum rpr_side side;
    int holds;
    double low; /* the lowest over the seeds */
    double high;
    double deviation; /* standard deviation over the seeds; 0 for one */
};

struct rpr_line {
    char name[48];
    double *value; /* one per x of the chart; not finite: no point */
    double *low;   /* the lowest over the seeds */
    double *high;
};

enum { RPR_LOG_X = 1, RPR_LOG_Y = 2, RPR_MARKS = 4 /* a point at each value */ };

struct rpr_chart {
    char id[32];
    char title[120];
    char x_label[60];
    char y_label[60];
    unsigned flags;
    size_t count; /* values of x, and of each line */
    double *x;
    struct rpr_line *line;
    size_t lines;
};

struct rpr_result {
    const char *paper;    /* constant: "signsgd" */
    const char *title;    /* constant: what the paper is about */
    const char *citation; /* constant */
    uint64_t seed;        /* the first seed */
    unsigned seeds;
    struct rpr_claim *claim;
    size_t claims;
    struct rpr_chart *chart;
    size_t charts;
};

/* The papers, from 0; NULL past the last. */
const char *rpr_paper(unsigned index);

/* Runs one paper's experiments with all randomness keyed by `seed`, independent repeats on
 * `threads` threads, which never changes a result. The caller frees *out with rpr_free. */
terse_status rpr_run(const char *paper, uint64_t seed, unsigned threads, struct rpr_result **out,
                     terse_fault *fault);

/* Merges the results of several seeds of one paper; they are freed with it. */
struct rpr_result *rpr_merge(struct rpr_result **results, unsigned count);

void rpr_free(struct rpr_result *result); /* NULL is fine */

/* ---- output ---- */

/* The axes of a chart, of x and of all lines. */
struct com_axis rpr_axis_x(const struct rpr_chart *chart);
struct com_axis rpr_axis_y(const struct rpr_chart *chart);

/* The capabilities of a terminal. */
struct rpr_terminal {
    int unicode;
    const char *bold; /* "" without colour */
    const char *good;
    const char *bad;
    const char *plain;
};

/* The claims with their measurements, and the charts drawn with letters. */
void rpr_print(struct com_text *out, const struct rpr_result *result,
               const struct rpr_terminal *terminal);

/* One chart drawn with letters. */
void rpr_draw(struct com_text *out, const struct rpr_chart *chart,
              const struct rpr_terminal *terminal);

/* The beginning of a page, up to its heading; rpr_svg (svg.h) adds charts to it. */
void rpr_page_begin(struct com_text *out, const char *title);

/* One self-contained page: claims as tables, charts as SVG. */
void rpr_page(struct com_text *out, struct rpr_result *const *results, size_t count);

#endif
