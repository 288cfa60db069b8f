/* The methods of the five papers. */
#include "method/rows.h"

/* ---- signSGD, Signum ---- */

static const struct tsi_default signsgd_options[] = {
    RATE("0.0001"), {TSI_WD, "0"}, {TSI_TIE, "coin"}, {TSI_ZERO, "coin"}, COMMON, {TSI_EVERY, "1"},
};

const struct tsi_method_row tsi_method_signsgd = {
    .name = "signsgd",
    .feedback = "none",
    .codec = "sign:zero={zero}",
    .combine = "vote",
    .update = TSI_UPDATE_SIGNED,
    .no_local_steps = NO_LOCAL_SIGNS,
    OPTIONS(signsgd_options),
    .about = {.summary = "majority vote on the signs of the gradients",
              .formula = "x <- x - lr * (sgn(sum_k sgn(g_k)) + wd * x)",
              .bytes = "2(K-1)/K * d/8",
              .citation = "Bernstein, Wang, Azizzadenesheli, Anandkumar, signSGD, ICML 2018; "
                          "Bernstein, Zhao, Azizzadenesheli, Anandkumar, ICLR 2019",
              .verified = "the rule and the vote are the papers'; tie=plus and zero=plus are their "
                          "program's, coin is an addition"},
};

static const struct tsi_default signum_options[] = {
    RATE("0.0001"), {TSI_BETA, "0.9"}, {TSI_WD, "0"}, {TSI_TIE, "coin"}, {TSI_ZERO, "coin"},
    COMMON,         {TSI_EVERY, "1"},
};

const struct tsi_method_row tsi_method_signum = {
    .name = "signum",
    .direction = TSI_DIRECTION_AVERAGE,
    .feedback = "none",
    .codec = "sign:zero={zero}",
    .combine = "vote",
    .update = TSI_UPDATE_SIGNED,
    .no_local_steps = NO_LOCAL_SIGNS,
    OPTIONS(signum_options),
    .about = {.summary = "majority vote on the signs of the workers' momenta",
              .formula = "m_k <- beta * m_k + (1-beta) * g_k\n"
                         "x <- x - lr * (sgn(sum_k sgn(m_k)) + wd * x)",
              .bytes = "2(K-1)/K * d/8",
              .citation = "Bernstein, Wang, Azizzadenesheli, Anandkumar, signSGD, ICML 2018; "
                          "Bernstein, Zhao, Azizzadenesheli, Anandkumar, ICLR 2019",
              .verified = "rule, vote, momentum on the workers and decoupled decay are the "
                          "papers'; tie=plus and zero=plus are their program's, coin is an "
                          "addition"},
};

/* ---- DEF ---- */

static const struct tsi_default def_options[] = {
    RATE("0.05"),
    {TSI_MOMENTUM, "0.9"},
    {TSI_LAMBDA, "0.3"},
    {TSI_RATIO, "64"},
    {TSI_WD, "0"},
    COMMON,
    LOCAL,
    POLICY,
};

const struct tsi_method_row tsi_method_def = {
    .name = "def",
    .point = TSI_POINT_DETACHED,
    BLOCK_METHOD,
    OPTIONS(def_options),
    .about = {.summary = "detached error feedback with a random block",
              .formula = BLOCK_FORMULA "w_k = x - lambda * e_k",
              .bytes = BLOCK_BYTES,
              .citation = BLOCK_PAPER,
              .verified = "rule, block, momentum, lambda and ratio as in the paper and its "
                          "authors' program; the published accuracies were not re-run"},
};

const struct tsi_method_row tsi_method_def_a = {
    .name = "def-a",
    .point = TSI_POINT_DETACHED,
    BLOCK_METHOD,
    .deploys = 1,
    OPTIONS(def_options),
    .about = {.summary = "DEF with evaluation weights x - mean e",
              .formula = BLOCK_FORMULA "w_k = x - lambda * e_k;  evaluate at x_A = x - mean_k e_k",
              .bytes = BLOCK_BYTES,
              .citation = BLOCK_PAPER,
              .verified = "x_A as in the authors' program; that this is their DEF-A is inferred"},
};

/* ---- Quantized Adam ---- */

static const struct tsi_default qadam_options[] = {
    RATE("0.001"),        {TSI_BETA1, "0.9"},
    {TSI_BETA2, "0.999"}, {TSI_RATES, "constant"},
    {TSI_THETA, "1"},     {TSI_SHIFT, "0"},
    {TSI_V0, "1e-8"},     {TSI_KG, "2"},
    {TSI_KX, "8"},        {TSI_RANGE, "0"},
    {TSI_WD, "0"},        COMMON,
    {TSI_EVERY, "1"},     POLICY,
};

const struct tsi_method_row tsi_method_qadam = {
    .name = "qadam",
    .direction = TSI_DIRECTION_ADAM,
    .unit = TSI_UNIT_WEIGHT,
    .feedback = "residual",
    .codec = "log:k={kg}",
    .back = "nearest:k={kx},range={range}",
    .update = TSI_UPDATE_REPLACE,
    .no_local_steps = "its moments need gradients at weights that all workers share",
    OPTIONS(qadam_options),
    .about = {.summary = "quantized Adam: 3-bit steps up, quantized weights down",
              .formula = "v_k <- beta2 * v_k + (1-beta2) * g_k^2;  m_k <- beta1 * m_k + "
                         "(1-beta1) * g_k\n"
                         "u_k = lr * m_k / sqrt(v_k) + e_k;  send Q_g(u_k);  e_k = u_k - Q_g(u_k)\n"
                         "owner: x <- x - mean Q_g(u_k);  send Q_x(x)",
              .bytes = "(K-1)/K * d * (bits(kg) + kx+2)/8",
              .citation = "Chen, Shen, Huang, Liu, Quantized Adam with Error Feedback, "
                          "ACM TIST 2021",
              .verified = "structure from the paper; grids and the order of lines recalled, not "
                          "checked; slices instead of one server"},
};

/* ---- RegTop-k ---- */

static const struct tsi_default regtopk_options[] = {
    RATE("0.1"),
    {TSI_MOMENTUM, "0"},
    {TSI_KEEP, "0.01"},
    {TSI_MU, "4"},
    {TSI_FORM, "prev"},
    {TSI_VALUES, "f32"},
    {TSI_WD, "0"},
    COMMON,
    LOCAL,
    POLICY,
};

const struct tsi_method_row tsi_method_regtopk = {
    .name = "regtopk",
    .feedback = "residual",
    .codec = "topk:keep={keep},values={values}",
    .combine = "allgather",
    .update = TSI_UPDATE_SGD,
    .posterior = 1,
    OPTIONS(regtopk_options),
    .about = {.summary = "Top-k whose scores fall where other workers cancelled",
              .formula = "a_k = g_k + e_k;  score_j = |a_j| * tanh(|1 + Delta_j| / mu)\n"
                         "1 + Delta_j = G_j / (w * a_prev_j) where j was sent in the last step, "
                         "else huge;  w = 1/K\n"
                         "send the k largest scores;  e_k = a_k - sent;  G = mean sent;  "
                         "x <- x - lr * G",
              .bytes = "(K-1) * keep * d * (32 + log2(1/keep) + 2)/8, about",
              .citation = "Bereyhi, Liang, Boudreau, Afana, RegTop-k, IEEE TSP 2025 (first MLSP "
                          "2024)",
              .verified = "form=prev is the authors' experiments, form=cur their later notebook; "
                          "on their own linear regression only prev reaches the optimum"},
};

/* ---- DQ-SGD ---- */

static const struct tsi_default dqsgd_options[] = {
    RATE("0.1"),
    {TSI_MOMENTUM, "0"},
    {TSI_BITS, "average"},
    {TSI_TARGET, "4"},
    {TSI_KAPPA, "1"},
    {TSI_ALPHA, "1"},
    {TSI_EPSILON, "0.01"},
    {TSI_SMOOTHNESS, "1"},
    {TSI_NOISE, "0"},
    {TSI_GAP, "0"},
    {TSI_NORM, "inf"},
    {TSI_WD, "0"},
    COMMON,
    LOCAL,
    POLICY,
};

const struct tsi_method_row tsi_method_dqsgd = {
    .name = "dqsgd",
    .feedback = "none",
    .codec = "uniform:bits=16,norm={norm}",
    .combine = "shard",
    .update = TSI_UPDATE_SGD,
    .dynamic = 1,
    OPTIONS(dqsgd_options),
    .about = {.summary = "a stochastic grid whose bits follow the gradient's norm",
              .formula = "s_n = kappa * alpha^((N-1-n)/2) * |g_n|_p;  B_n = log2(s_n + 1) + 1\n"
                         "kappa: given; from (epsilon, L, sigma), half for workers and half for "
                         "owners; or from an average, planned anew in every step",
              .bytes = "2(K-1)/K * d * B_n/8",
              .citation = "Yan, Huang, Lan, Song, DQ-SGD: Dynamic Quantization, MASS 2021",
              .verified = "quantizer, bound and budget form as in the predecessor (ICLR 2021 "
                          "submission), the MASS text was not at hand; the error-constrained form, "
                          "its split and the plan are derived; rms and meanstd are approximations "
                          "from memory"},
};
