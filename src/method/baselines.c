/* The baselines of the papers, and the row of composed methods. */
#include "method/rows.h"

/* ---- error feedback ---- */

static const struct tsi_default ef_options[] = {
    RATE("0.01"), {TSI_MOMENTUM, "0.9"}, {TSI_RATIO, "64"}, {TSI_WD, "0"}, COMMON, LOCAL, POLICY,
};
static const struct tsi_default saef_options[] = {
    RATE("0.01"),
    {TSI_MOMENTUM, "0.9"},
    {TSI_LAMBDA, "1"},
    {TSI_RATIO, "64"},
    {TSI_WD, "0"},
    COMMON,
    LOCAL,
    POLICY,
};
const struct tsi_method_row tsi_method_ef = {
    .name = "ef",
    BLOCK_METHOD,
    OPTIONS(ef_options),
    .about = {.summary = "error feedback with a random block",
              .formula = BLOCK_FORMULA "w_k = x",
              .bytes = BLOCK_BYTES,
              .citation = BLOCK_PAPER,
              .verified = "the paper's baseline; block and momentum as in its authors' program"},
};

const struct tsi_method_row tsi_method_saef = {
    .name = "saef",
    .point = TSI_POINT_DETACHED,
    BLOCK_METHOD,
    OPTIONS(saef_options),
    .about = {.summary = "step-ahead error feedback: DEF with lambda = 1",
              .formula = BLOCK_FORMULA "w_k = x - e_k",
              .bytes = BLOCK_BYTES,
              .citation = "Xu, Huo, Huang, Step-Ahead Error Feedback, AAAI 2021 (one-way form)",
              .verified = "one-way form, the one that DEF's paper compares with"},
};

static const struct tsi_default topk_options[] = {
    RATE("0.1"),
    {TSI_MOMENTUM, "0"},
    {TSI_KEEP, "0.01"},
    {TSI_VALUES, "f32"},
    {TSI_WD, "0"},
    COMMON,
    LOCAL,
    POLICY,
};

const struct tsi_method_row tsi_method_topk = {
    .name = "topk",
    .feedback = "residual",
    .codec = "topk:keep={keep},values={values}",
    .combine = "allgather",
    .update = TSI_UPDATE_SGD,
    OPTIONS(topk_options),
    .about = {.summary = "the largest elements of gradient plus residual",
              .formula = "a_k = g_k + e_k;  send the k largest |a_k|;  e_k = a_k - sent\n"
                         "x <- x - lr * mean sent",
              .bytes = "(K-1) * keep * d * (32 + log2(1/keep) + 2)/8, about",
              .citation = "Stich, Cordonnier, Jaggi, Sparsified SGD with Memory, NeurIPS 2018; "
                          "Lin et al., Deep Gradient Compression, ICLR 2018",
              .verified = "standard; exact top-k per tensor"},
};

static const struct tsi_default ef_sign_options[] = {
    RATE("0.05"), {TSI_MOMENTUM, "0"}, {TSI_ZERO, "plus"}, {TSI_WD, "0"}, COMMON, LOCAL, POLICY,
};

const struct tsi_method_row tsi_method_ef_sign = {
    .name = "ef-sign",
    .direction = TSI_DIRECTION_MOMENTUM,
    .unit = TSI_UNIT_WEIGHT,
    .feedback = "residual",
    .codec = "scaled-sign:zero={zero}",
    .combine = "shard",
    .update = TSI_UPDATE_SUBTRACT,
    OPTIONS(ef_sign_options),
    .about = {.summary = "scaled signs, error feedback at workers and owners",
              .formula = "p = lr * g + e;  D = (|p|_1 / d) sgn(p);  x <- x - mean D;  e = p - D",
              .bytes = "2(K-1)/K * d/8",
              .citation = "Karimireddy, Rebjock, Stich, Jaggi, ICML 2019; with momentum: Zheng, "
                          "Huang, Kwok, NeurIPS 2019",
              .verified = "the rule; owners compress what they send back as well"},
};

static const struct tsi_default powersgd_options[] = {
    RATE("0.05"), {TSI_MOMENTUM, "0.9"}, {TSI_RANK, "4"}, {TSI_WD, "0"}, COMMON, LOCAL, POLICY,
};

const struct tsi_method_row tsi_method_powersgd = {
    .name = "powersgd",
    .feedback = "residual",
    .codec = "low-rank:rank={rank}",
    .combine = "allreduce",
    .update = TSI_UPDATE_SGD,
    OPTIONS(powersgd_options),
    .about = {.summary = "low-rank factors of every matrix, in two passes",
              .formula = "P = mean M_k Q;  orthonormalise P;  Q = mean M_k^T P;  aggregate P Q^T",
              .bytes = "2(K-1)/K * 4 * rank * (rows + cols), summed over matrices",
              .citation = "Vogels, Karimireddy, Jaggi, PowerSGD, NeurIPS 2019",
              .verified = "standard, warm start"},
};

static const struct tsi_default dense_options[] = {
    RATE("0.05"), {TSI_MOMENTUM, "0.9"}, {TSI_WD, "0"}, COMMON, LOCAL, POLICY,
};

const struct tsi_method_row tsi_method_dense = {
    .name = "dense",
    .feedback = "none",
    .codec = "f32",
    .combine = "allreduce",
    .update = TSI_UPDATE_SGD,
    OPTIONS(dense_options),
    .about = {.summary = "uncompressed: SGD with momentum",
              .formula = "m <- momentum * m + mean g_k + wd * x;  x <- x - lr * m",
              .bytes = "2(K-1)/K * 4d",
              .citation = "-",
              .verified = "standard"},
};

const struct tsi_method_row tsi_method_fp16 = {
    .name = "fp16",
    .feedback = "none",
    .codec = "f16",
    .combine = "shard",
    .update = TSI_UPDATE_SGD,
    OPTIONS(dense_options),
    .about = {.summary = "every element in half precision",
              .formula = "as dense, g_k and the mean rounded to f16",
              .bytes = "2(K-1)/K * 2d",
              .citation = "-",
              .verified = "standard"},
};

const struct tsi_method_row tsi_method_bf16 = {
    .name = "bf16",
    .feedback = "none",
    .codec = "bf16",
    .combine = "shard",
    .update = TSI_UPDATE_SGD,
    OPTIONS(dense_options),
    .about = {.summary = "every element in bfloat16",
              .formula = "as dense, g_k and the mean rounded to bf16",
              .bytes = "2(K-1)/K * 2d",
              .citation = "-",
              .verified = "standard"},
};

static const struct tsi_default adam_options[] = {
    RATE("0.001"),
    {TSI_BETA1, "0.9"},
    {TSI_BETA2, "0.999"},
    {TSI_EPS, "1e-8"},
    {TSI_WD, "0"},
    COMMON,
    LOCAL,
    POLICY,
};

const struct tsi_method_row tsi_method_adam = {
    .name = "adam",
    .feedback = "none",
    .codec = "f32",
    .combine = "allreduce",
    .update = TSI_UPDATE_ADAM,
    OPTIONS(adam_options),
    .about = {.summary = "uncompressed: Adam; AdamW with wd",
              .formula = "m, v: moments of mean g_k, bias corrected;  x <- x - lr * (m / (sqrt(v) "
                         "+ eps) + wd * x)",
              .bytes = "2(K-1)/K * 4d",
              .citation = "Kingma & Ba, ICLR 2015; Loshchilov & Hutter, ICLR 2019",
              .verified = "standard"},
};

/* ---- stochastic grids ---- */

static const struct tsi_default qsgd_options[] = {
    RATE("0.1"),
    {TSI_MOMENTUM, "0"},
    {TSI_LEVEL_BITS, "4"},
    {TSI_NORM, "inf"},
    {TSI_WD, "0"},
    COMMON,
    LOCAL,
    POLICY,
};

const struct tsi_method_row tsi_method_qsgd = {
    .name = "qsgd",
    .feedback = "none",
    .codec = "uniform:bits={bits},norm={norm}",
    .combine = "shard",
    .update = TSI_UPDATE_SGD,
    OPTIONS(qsgd_options),
    .about = {.summary = "a stochastic grid with fixed bits",
              .formula = "x <- x - lr * mean Q(g_k),  E[Q(g)] = g",
              .bytes = "2(K-1)/K * d * bits/8",
              .citation = "Alistarh, Grubic, Li, Tomioka, Vojnovic, QSGD, NIPS 2017",
              .verified = "the quantizer; codes are packed, not Elias coded"},
};

static const struct tsi_default sgd_options[] = {
    RATE("0.1"), {TSI_MOMENTUM, "0"}, {TSI_WD, "0"}, COMMON, LOCAL, POLICY,
};

const struct tsi_method_row tsi_method_terngrad = {
    .name = "terngrad",
    .feedback = "none",
    .codec = "uniform:bits=2,norm=inf",
    .combine = "shard",
    .update = TSI_UPDATE_SGD,
    OPTIONS(sgd_options),
    .about = {.summary = "-1, 0 or +1 times the largest magnitude, unbiased",
              .formula = "x <- x - lr * mean s_k * ternary(g_k / s_k),  s_k = max |g_k|",
              .bytes = "2(K-1)/K * d * 2/8",
              .citation = "Wen et al., TernGrad, NIPS 2017",
              .verified = "the quantizer per tensor; use clip= for its gradient clipping"},
};

const struct tsi_method_row tsi_method_natural = {
    .name = "natural",
    .feedback = "none",
    .codec = "natural",
    .combine = "shard",
    .update = TSI_UPDATE_SGD,
    OPTIONS(sgd_options),
    .about = {.summary = "the nearest powers of two, unbiased",
              .formula = "x <- x - lr * mean C(g_k),  C rounds to a power of two at random",
              .bytes = "2(K-1)/K * d * 9/8",
              .citation = "Horvath et al., Natural Compression, 2019",
              .verified = "the quantizer, exact"},
};

/* ---- composed methods ---- */

static const struct tsi_default composed_options[] = {
    RATE("0.05"),
    {TSI_MOMENTUM, "0.9"},
    {TSI_BETA, "0.9"},
    {TSI_BETA1, "0.9"},
    {TSI_BETA2, "0.999"},
    {TSI_EPS, "1e-8"},
    {TSI_LAMBDA, "0"},
    {TSI_WD, "0"},
    {TSI_TIE, "coin"},
    COMMON,
    LOCAL,
    POLICY,
};

const struct tsi_method_row tsi_method_composed = {
    .name = "composed",
    OPTIONS(composed_options),
};
