/* Every worker draws the shares of its classes from Dirichlet(alpha). Then the workers pick in
 * turn: each draws a class by its shares, among those that are not used up, and takes the class's
 * next example, until all are dealt and parts differ by at most one. Classes are drawn with
 * integers, so that the last bit of the C library's logarithm does not matter. */
#include "data/shard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/draw.h"

#define WHOLE 1073741824.0 /* 2^30: shares in integers */

/* (0, 1) */
static double open_uniform(struct trn_stream *stream)
{
    return ((double)trn_draw_u32(stream) + 0.5) * 0x1p-32;
}

static double normal(struct trn_stream *stream)
{
    const double radius = sqrt(-2.0 * log(open_uniform(stream)));
    return radius * cos(6.283185307179586 * open_uniform(stream));
}

/* Logarithm of a Gamma(alpha) number: Marsaglia and Tsang (2000); below 1 by the power of a
 * uniform, in logarithms because the number itself may be too small for a double. */
static double log_gamma(struct trn_stream *stream, double alpha)
{
    const double shape = alpha < 1 ? alpha + 1 : alpha;
    const double d = shape - 1.0 / 3.0;
    const double c = 1.0 / sqrt(9.0 * d);
    const double boost = alpha < 1 ? log(open_uniform(stream)) / alpha : 0;
    for (;;) {
        const double x = normal(stream);
        const double v = (1 + c * x) * (1 + c * x) * (1 + c * x);
        if (v > 0 && log(open_uniform(stream)) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v) + boost;
    }
}

static void draw_shares(const struct trn_order_options *options, uint32_t worker, uint32_t classes,
                        uint32_t *shares, double *scratch)
{
    struct trn_stream stream;
    double most = -INFINITY;
    double sum = 0;
    trn_stream_start(&stream, options->seed, TRN_DRAW_SHARD, 0, 1 + worker);
    for (uint32_t c = 0; c < classes; c++) {
        scratch[c] = log_gamma(&stream, options->alpha);
        most = scratch[c] > most ? scratch[c] : most;
    }
    for (uint32_t c = 0; c < classes; c++)
        sum += exp(scratch[c] - most);
    for (uint32_t c = 0; c < classes; c++)
        shares[c] = (uint32_t)(WHOLE * exp(scratch[c] - most) / sum);
}

/* Examples sorted by class and shuffled within; starts[c] .. starts[c+1]-1 are class c. */
struct piles {
    uint32_t classes;
    uint32_t *starts;
    uint32_t *next; /* by class: its next example */
    uint32_t *examples;
};

static void make_piles(struct piles *piles, const struct trn_examples *train,
                       struct trn_stream *stream)
{
    for (uint32_t i = 0; i < train->count; i++)
        piles->starts[train->labels[i] + 1]++;
    for (uint32_t c = 0; c < piles->classes; c++) {
        piles->starts[c + 1] += piles->starts[c];
        piles->next[c] = piles->starts[c];
    }
    for (uint32_t i = 0; i < train->count; i++)
        piles->examples[piles->next[train->labels[i]]++] = i;
    for (uint32_t c = 0; c < piles->classes; c++) {
        piles->next[c] = piles->starts[c];
        trn_draw_shuffle(stream, piles->examples + piles->starts[c],
                         piles->starts[c + 1] - piles->starts[c]);
    }
}

static uint32_t left_of(const struct piles *piles, uint32_t c)
{
    return piles->starts[c + 1] - piles->next[c];
}

/* A class that is not used up; where all shares are, the one with most examples left. */
static uint32_t choose_class(const struct piles *piles, const uint32_t *shares,
                             struct trn_stream *stream)
{
    uint64_t sum = 0;
    uint32_t largest = 0;
    for (uint32_t c = 0; c < piles->classes; c++) {
        sum += left_of(piles, c) > 0 ? shares[c] : 0;
        largest = left_of(piles, c) > left_of(piles, largest) ? c : largest;
    }
    if (sum == 0)
        return largest;
    uint64_t point = trn_draw_below(stream, (uint32_t)sum); /* shares sum to at most 2^30 */
    for (uint32_t c = 0;; c++) {
        const uint32_t share = left_of(piles, c) > 0 ? shares[c] : 0;
        if (point < share)
            return c;
        point -= share;
    }
}

static void deal(struct piles *piles, const struct trn_order_options *options, uint32_t count,
                 const uint32_t *shares, struct trn_stream *stream, uint32_t worker, uint32_t *own)
{
    const uint32_t turns = (uint32_t)(((uint64_t)count + options->workers - 1) / options->workers);
    for (uint32_t turn = 0; turn < turns; turn++) {
        for (uint32_t w = 0; w < options->workers; w++) {
            if (turn >= trn_shard_size(count, options->workers, w))
                continue;
            const uint32_t c = choose_class(piles, shares + (size_t)w * piles->classes, stream);
            const uint32_t example = piles->examples[piles->next[c]++];
            if (w == worker)
                own[turn] = example;
        }
    }
}

terse_status trn_shard_by_class(const struct trn_examples *train, uint32_t classes,
                                const struct trn_order_options *options, uint32_t worker,
                                uint32_t *own, terse_fault *fault)
{
    struct trn_stream stream;
    terse_status status = TERSE_OK;
    struct piles piles = {.classes = classes,
                          .starts = calloc(classes + (size_t)1, sizeof *piles.starts),
                          .next = calloc(classes, sizeof *piles.next),
                          .examples = calloc(train->count, sizeof *piles.examples)};
    uint32_t *shares = calloc((size_t)options->workers * classes, sizeof *shares);
    double *scratch = calloc(classes, sizeof *scratch);
    if (piles.starts && piles.next && piles.examples && shares && scratch) {
        for (uint32_t w = 0; w < options->workers; w++)
            draw_shares(options, w, classes, shares + (size_t)w * classes, scratch);
        trn_stream_start(&stream, options->seed, TRN_DRAW_SHARD, 0, 0);
        make_piles(&piles, train, &stream);
        deal(&piles, options, train->count, shares, &stream, worker, own);
    } else {
        status = com_fail(fault, TERSE_NO_MEMORY, "no memory to deal examples");
    }
    free(piles.starts);
    free(piles.next);
    free(piles.examples);
    free(shares);
    free(scratch);
    return status;
}
