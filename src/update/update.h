/* What the agreed answer does to the weights. Every worker runs the same update on the same
 * numbers, so all hold the same bits afterwards. */
#ifndef TSI_UPDATE_H
#define TSI_UPDATE_H

#include <stddef.h>
#include <stdint.h>

struct tsk_table;

/* All buffers start at the same element; the agreed vector is G = sum / parts. */
struct tsi_update {
    const float *sum;
    float parts;
    float lr;
    float decay; /* weight decay */
    float keep;  /* momentum (sgd, outer steps) or beta1 (adam) */
    float keep_v;
    float eps;
    float correct_m; /* adam: 1 - beta1^t and 1 - beta2^t */
    float correct_v;
    int nesterov;
    float *m; /* NULL without momentum */
    float *v;
    float *weights;
    size_t count;
    unsigned threads;
};

/* m = keep * m + (G + decay * x);  x -= lr * m */
void tsi_update_sgd(const struct tsi_update *update);

/* x -= lr * (sgn(G) + decay * x): decay is decoupled (Bernstein et al., 2018); sgn(0) = 0 */
void tsi_update_signed(const struct tsi_update *update);

/* An answer in bits, set where it is -1 (else +1); update->sum is not looked at. */
struct tsi_signs {
    const struct tsi_update *update;
    const struct tsk_table *kernel;
    const uint8_t *negative;
};
void tsi_update_signed_bits(const struct tsi_signs *signs);

/* x -= lr * G; with momentum (outer steps, DiLoCo) m = keep * m + G and x -= lr * m, or
 * lr * (keep * m + G) for Nesterov's */
void tsi_update_subtract(const struct tsi_update *update);

/* Adam with bias correction; decay is decoupled (AdamW) */
void tsi_update_adam(const struct tsi_update *update);

/* x = G: what came back are the weights */
void tsi_update_replace(const struct tsi_update *update);

/* weights = G, or sgn(G): no weights at all, but what an optimizer elsewhere will use */
void tsi_update_answer(const struct tsi_update *update, int sign);
void tsi_update_answer_bits(const struct tsi_signs *signs);

#endif
