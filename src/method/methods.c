/* The table of methods: one choice at each stage, and texts. The five papers first, then what they
 * are judged against. */
#include "method/settings.h"

#define OPTIONS(...)                                      \
    .options = (const struct tsi_default[]){__VA_ARGS__}, \
    .option_count = sizeof((const struct tsi_default[]){__VA_ARGS__}) / sizeof(struct tsi_default)

/* Options that several methods have, with their defaults. */
/* clang-format off */
#define RATE(lr) {TSI_LR, lr}, {TSI_SCHEDULE, "constant"}, {TSI_RAMP, "0"}
#define SGD(lr, momentum) RATE(lr), {TSI_MOMENTUM, momentum}
#define COMMON {TSI_CLIP, "0"}, {TSI_WARMUP, "0"}
#define OUTER {TSI_EVERY, "1"}, {TSI_OUTER_LR, "1"}, {TSI_OUTER_MOMENTUM, "0"}
#define LOCAL OUTER, {TSI_NESTEROV, "no"}
#define POLICY {TSI_MIN, "0"}
#define REST {TSI_WD, "0"}, COMMON, LOCAL, POLICY
/* clang-format on */

#define NO_LOCAL_SIGNS "a sign has no magnitude, so one vote cannot replace several steps"
#define SIGN_PAPERS                                                      \
    "Bernstein, Wang, Azizzadenesheli, Anandkumar, signSGD, ICML 2018; " \
    "Bernstein, Zhao, Azizzadenesheli, Anandkumar, ICLR 2019"

/* Error feedback over random blocks. */
#define BLOCK_METHOD                                                                      \
    .direction = TSI_DIRECTION_MOMENTUM, .unit = TSI_UNIT_WEIGHT, .feedback = "residual", \
    .codec = "block:ratio={ratio}", .combine = "allreduce", .update = TSI_UPDATE_SUBTRACT
#define BLOCK_BYTES "2(K-1)/K * 4d/ratio"
#define BLOCK_FORMULA                                                 \
    "m_k <- momentum * m_k + g_k + wd * w_k,  g_k and decay at w_k\n" \
    "e_k <- e_k + lr * m_k;  x <- x - mean C(e_k);  e_k <- e_k - C(e_k)\n"
#define BLOCK_PAPER "Xu & Huang, Detached Error Feedback, ICML 2022"

const struct tsi_method_row tsi_methods[] = {
    {.name = "signsgd",
     .codec = "sign:zero={zero}",
     .update = TSI_UPDATE_SIGNED,
     .no_local_steps = NO_LOCAL_SIGNS,
     OPTIONS(RATE("0.0001"), {TSI_WD, "0"}, {TSI_TIE, "coin"}, {TSI_SIGN_ZERO, "coin"}, COMMON,
             {TSI_EVERY, "1"}),
     .about = {.summary = "majority vote on the signs of the gradients",
               .formula = "x <- x - lr * (sgn(sum_k sgn(g_k)) + wd * x)",
               .bytes = "2(K-1)/K * d/8",
               .citation = SIGN_PAPERS,
               .verified =
                   "the rule and the vote are the papers'; tie=plus and zero=plus are their "
                   "program's, zero=keep the single-machine form, coin is an addition"}},
    {.name = "signum",
     .direction = TSI_DIRECTION_AVERAGE,
     .codec = "sign:zero={zero}",
     .update = TSI_UPDATE_SIGNED,
     .no_local_steps = NO_LOCAL_SIGNS,
     OPTIONS(RATE("0.0001"), {TSI_BETA, "0.9"}, {TSI_WD, "0"}, {TSI_DECAY, "decoupled"},
             {TSI_TIE, "coin"}, {TSI_SIGN_ZERO, "coin"}, COMMON, {TSI_SIGN_WARMUP, "0"},
             {TSI_EVERY, "1"}),
     .about = {.summary = "majority vote on the signs of the workers' momenta",
               .formula = "m_k <- beta * m_k + (1-beta) * g_k\n"
                          "x <- x - lr * (sgn(sum_k sgn(m_k)) + wd * x);  decay=momentum: wd * x "
                          "is added to g_k instead",
               .bytes = "2(K-1)/K * d/8",
               .citation = SIGN_PAPERS,
               .verified =
                   "rule, vote, momentum on the workers and decoupled decay are the papers', the "
                   "warm-up is their theorem's, from memory; tie=plus and zero=plus are their "
                   "program's, decay=momentum "
                   "is MXNet's wd, coin is an addition"}},
    {.name = "def",
     .point = TSI_POINT_DETACHED,
     BLOCK_METHOD,
     OPTIONS(SGD("0.05", "0.9"), {TSI_LAMBDA, "0.3"}, {TSI_RATIO, "64"}, REST),
     .about = {.summary = "detached error feedback with a random block",
               .formula = BLOCK_FORMULA "w_k = x - lambda * e_k",
               .bytes = BLOCK_BYTES,
               .citation = BLOCK_PAPER,
               .verified = "rule, block, momentum, lambda and ratio as in the paper and its "
                           "authors' program; the published accuracies were not re-run"}},
    {.name = "def-a",
     .point = TSI_POINT_DETACHED,
     BLOCK_METHOD,
     .deploys = 1,
     OPTIONS(SGD("0.05", "0.9"), {TSI_LAMBDA, "0.3"}, {TSI_RATIO, "64"}, REST),
     .about = {.summary = "DEF with evaluation weights x - mean e",
               .formula = BLOCK_FORMULA "w_k = x - lambda * e_k;  evaluate at x_A = x - mean_k e_k",
               .bytes = BLOCK_BYTES,
               .citation = BLOCK_PAPER,
               .verified = "x_A as in the authors' program; that this is their DEF-A is inferred"}},
    {.name = "qadam",
     .direction = TSI_DIRECTION_ADAM,
     .unit = TSI_UNIT_WEIGHT,
     .feedback = "residual",
     .codec = "log:k={kg}",
     .back = "nearest:k={kx},range={range}",
     .update = TSI_UPDATE_REPLACE,
     .no_local_steps = "its moments need gradients at weights that all workers share",
     OPTIONS(RATE("0.001"), {TSI_BETA1, "0.9"}, {TSI_BETA2, "0.999"}, {TSI_RATES, "constant"},
             {TSI_THETA, "1"}, {TSI_SHIFT, "0"}, {TSI_V0, "1e-8"}, {TSI_BIAS, "no"}, {TSI_KG, "2"},
             {TSI_KX, "8"}, {TSI_RANGE, "0"}, {TSI_WD, "0"}, COMMON, {TSI_EVERY, "1"}, POLICY),
     .about = {.summary = "quantized Adam: 3-bit steps up, quantized weights down",
               .formula =
                   "v_k <- beta2 * v_k + (1-beta2) * g_k^2;  m_k <- beta1 * m_k + "
                   "(1-beta1) * g_k\n"
                   "u_k = lr * m_k / sqrt(v_k) + e_k;  send Q_g(u_k);  e_k = u_k - Q_g(u_k)\n"
                   "owner: x <- x - mean Q_g(u_k);  send Q_x(x)",
               .bytes = "(K-1)/K * d * (bits(kg) + kx+2)/8",
               .citation = "Chen, Shen, Huang, Liu, Quantized Adam with Error Feedback, "
                           "ACM TIST 2021",
               .verified = "structure from the abstract and from papers that restate it, the text "
                           "was not at hand; grids and the order of lines recalled; slices "
                           "instead of one server"}},
    {.name = "regtopk",
     .feedback = "residual",
     .codec = "topk:keep={keep},values={values}",
     .combine = "allgather",
     .update = TSI_UPDATE_SGD,
     .posterior = 1,
     OPTIONS(SGD("0.1", "0"), {TSI_KEEP, "0.01"}, {TSI_SCOPE, "tensor"}, {TSI_MU, "4"},
             {TSI_FORM, "prev"}, {TSI_VALUES, "f32"}, {TSI_REJECT, "no"}, REST),
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
                           "on their own linear regression only prev reaches the optimum"}},
    {.name = "dqsgd",
     .codec = "uniform:bits=16,norm={norm}",
     .combine = "shard",
     .update = TSI_UPDATE_SGD,
     .dynamic = 1,
     OPTIONS(SGD("0.1", "0"), {TSI_BITS, "average"}, {TSI_TARGET, "4"}, {TSI_KAPPA, "1"},
             {TSI_ALPHA, "1"}, {TSI_EPSILON, "0.01"}, {TSI_SMOOTHNESS, "1"}, {TSI_NOISE, "0"},
             {TSI_GAP, "0"}, {TSI_NORM, "inf"}, REST),
     .about = {.summary = "a stochastic grid whose bits follow the gradient's norm",
               .formula = "s_n = kappa * alpha^((N-1-n)/2) * |g_n|_p;  B_n = log2(s_n + 1) + 1\n"
                          "kappa: given; from (epsilon, L, sigma), half for workers and half for "
                          "owners; or from an average, planned anew in every step",
               .bytes = "2(K-1)/K * d * B_n/8",
               .citation = "Yan, Huang, Lan, Song, DQ-SGD: Dynamic Quantization, MASS 2021",
               .verified =
                   "quantizer, bound and budget form as in the predecessor (ICLR 2021 "
                   "submission), the MASS text was not at hand; the error-constrained form, "
                   "its split and the plan are derived; rms and meanstd are approximations "
                   "from memory"}},
    {.name = "ef",
     BLOCK_METHOD,
     OPTIONS(SGD("0.01", "0.9"), {TSI_RATIO, "64"}, REST),
     .about = {.summary = "error feedback with a random block",
               .formula = BLOCK_FORMULA "w_k = x",
               .bytes = BLOCK_BYTES,
               .citation = BLOCK_PAPER,
               .verified = "the paper's baseline; block and momentum as in its authors' program"}},
    {.name = "saef",
     .point = TSI_POINT_DETACHED,
     BLOCK_METHOD,
     OPTIONS(SGD("0.01", "0.9"), {TSI_LAMBDA, "1"}, {TSI_RATIO, "64"}, REST),
     .about = {.summary = "step-ahead error feedback: DEF with lambda = 1",
               .formula = BLOCK_FORMULA "w_k = x - e_k",
               .bytes = BLOCK_BYTES,
               .citation = "Xu, Huo, Huang, Step-Ahead Error Feedback, AAAI 2021 (one-way form)",
               .verified = "one-way form, the one that DEF's paper compares with"}},
    {.name = "ef-sign",
     .direction = TSI_DIRECTION_MOMENTUM,
     .unit = TSI_UNIT_WEIGHT,
     .feedback = "residual",
     .codec = "scaled-sign:zero={zero}",
     .combine = "shard",
     .update = TSI_UPDATE_SUBTRACT,
     OPTIONS(SGD("0.05", "0"), {TSI_ZERO, "plus"}, {TSI_WD, "0"}, COMMON, OUTER,
             {TSI_EITHER_NESTEROV, "no"}, POLICY),
     .about = {.summary = "scaled signs, error feedback at workers and owners",
               .formula = "p = lr * g + e;  D = (|p|_1 / d) sgn(p);  x <- x - mean D;  e = p - D",
               .bytes = "2(K-1)/K * d/8",
               .citation = "Karimireddy, Rebjock, Stich, Jaggi, ICML 2019; with momentum: Zheng, "
                           "Huang, Kwok, NeurIPS 2019",
               .verified = "the rule; owners compress what they send back as well; nesterov=yes "
                           "from memory of the second paper"}},
    {.name = "topk",
     .feedback = "residual",
     .codec = "topk:keep={keep},values={values}",
     .combine = "allgather",
     .update = TSI_UPDATE_SGD,
     OPTIONS(SGD("0.1", "0"), {TSI_KEEP, "0.01"}, {TSI_SCOPE, "tensor"}, {TSI_VALUES, "f32"},
             {TSI_REJECT, "no"}, REST),
     .about = {.summary = "the largest elements of gradient plus residual",
               .formula = "a_k = g_k + e_k;  send the k largest |a_k|;  e_k = a_k - sent\n"
                          "x <- x - lr * mean sent",
               .bytes = "(K-1) * keep * d * (32 + log2(1/keep) + 2)/8, about",
               .citation = "Stich, Cordonnier, Jaggi, Sparsified SGD with Memory, NeurIPS 2018; "
                           "Lin et al., Deep Gradient Compression, ICLR 2018",
               .verified = "standard; exact top-k per tensor, or with scope=model over all"}},
    {.name = "qsgd",
     .codec = "uniform:bits={bits},norm={norm}",
     .combine = "shard",
     .update = TSI_UPDATE_SGD,
     OPTIONS(SGD("0.1", "0"), {TSI_LEVEL_BITS, "4"}, {TSI_NORM, "inf"}, REST),
     .about = {.summary = "a stochastic grid with fixed bits",
               .formula = "x <- x - lr * mean Q(g_k),  E[Q(g)] = g",
               .bytes = "2(K-1)/K * d * bits/8",
               .citation = "Alistarh, Grubic, Li, Tomioka, Vojnovic, QSGD, NIPS 2017",
               .verified = "the quantizer; codes are packed, not Elias coded"}},
    {.name = "terngrad",
     .codec = "uniform:bits=2,norm=inf",
     .combine = "shard",
     .update = TSI_UPDATE_SGD,
     OPTIONS(SGD("0.1", "0"), {TSI_SIGMA, "0"}, REST),
     .about = {.summary = "-1, 0 or +1 times the largest magnitude, unbiased",
               .formula =
                   "x <- x - lr * mean s_k * ternary(g_k / s_k),  s_k = max |g_k|\n"
                   "sigma > 0: elements of g_k are clipped at sigma standard deviations first",
               .bytes = "2(K-1)/K * d * 2/8",
               .citation = "Wen et al., TernGrad, NIPS 2017",
               .verified = "the quantizer per tensor; sigma=2.5 is the paper's clipping, with the "
                           "deviation of its authors' program"}},
    {.name = "natural",
     .codec = "natural",
     .combine = "shard",
     .update = TSI_UPDATE_SGD,
     OPTIONS(SGD("0.1", "0"), REST),
     .about = {.summary = "the nearest powers of two, unbiased",
               .formula = "x <- x - lr * mean C(g_k),  C rounds to a power of two at random",
               .bytes = "2(K-1)/K * d * 9/8",
               .citation = "Horvath et al., Natural Compression, 2019",
               .verified = "the quantizer, exact"}},
    {.name = "powersgd",
     .feedback = "residual",
     .codec = "low-rank:rank={rank}",
     .combine = "allreduce",
     .update = TSI_UPDATE_SGD,
     OPTIONS(SGD("0.05", "0.9"), {TSI_RANK, "4"}, REST),
     .about = {.summary = "low-rank factors of every matrix, in two passes",
               .formula = "P = mean M_k Q;  orthonormalise P;  Q = mean M_k^T P;  aggregate P Q^T",
               .bytes = "2(K-1)/K * 4 * rank * (rows + cols), summed over matrices",
               .citation = "Vogels, Karimireddy, Jaggi, PowerSGD, NeurIPS 2019",
               .verified = "standard, warm start"}},
    {.name = "adam",
     .codec = "f32",
     .combine = "allreduce",
     .update = TSI_UPDATE_ADAM,
     OPTIONS(RATE("0.001"), {TSI_BETA1, "0.9"}, {TSI_BETA2, "0.999"}, {TSI_EPS, "1e-8"},
             {TSI_AMSGRAD, "no"}, REST),
     .about = {.summary = "uncompressed: Adam; AdamW with wd; AMSGrad",
               .formula = "m, v: moments of mean g_k, bias corrected;  x <- x - lr * (m / (sqrt(v) "
                          "+ eps) + wd * x)",
               .bytes = "2(K-1)/K * 4d",
               .citation = "Kingma & Ba, ICLR 2015; Loshchilov & Hutter, ICLR 2019; amsgrad=yes: "
                           "Reddi, Kale, Kumar, ICLR 2018",
               .verified = "standard; AMSGrad in PyTorch's form, with bias correction"}},
    {.name = "dense",
     .codec = "f32",
     .combine = "allreduce",
     .update = TSI_UPDATE_SGD,
     OPTIONS(SGD("0.05", "0.9"), REST),
     .about = {.summary = "uncompressed: SGD with momentum",
               .formula = "m <- momentum * m + mean g_k + wd * x;  x <- x - lr * m",
               .bytes = "2(K-1)/K * 4d",
               .citation = "-",
               .verified = "standard"}},
    {.name = "median",
     .codec = "f32",
     .combine = "median",
     .update = TSI_UPDATE_SGD,
     OPTIONS(SGD("0.05", "0.9"), {TSI_WD, "0"}, {TSI_CLIP, "0"}, LOCAL, POLICY),
     .about = {.summary = "uncompressed: the median of every element, SGD with momentum",
               .formula = "m <- momentum * m + median_k g_k + wd * x;  x <- x - lr * m",
               .bytes = "2(K-1)/K * 4d",
               .citation = "Yin, Chen, Ramchandran, Bartlett, Byzantine-Robust Distributed "
                           "Learning, ICML 2018",
               .verified = "the coordinate-wise median; the mean of the two middle values for an "
                           "even number of workers, momentum an addition"}},
    {.name = "fp16",
     .codec = "f16",
     .combine = "shard",
     .update = TSI_UPDATE_SGD,
     OPTIONS(SGD("0.05", "0.9"), REST),
     .about = {.summary = "every element in half precision",
               .formula = "as dense, g_k and the mean rounded to f16",
               .bytes = "2(K-1)/K * 2d",
               .citation = "-",
               .verified = "standard"}},
    {.name = "bf16",
     .codec = "bf16",
     .combine = "shard",
     .update = TSI_UPDATE_SGD,
     OPTIONS(SGD("0.05", "0.9"), REST),
     .about = {.summary = "every element in bfloat16",
               .formula = "as dense, g_k and the mean rounded to bf16",
               .bytes = "2(K-1)/K * 2d",
               .citation = "-",
               .verified = "standard"}},
};
const size_t tsi_method_count = sizeof tsi_methods / sizeof tsi_methods[0];

/* What a spec without a name composes. */
const struct tsi_method_row tsi_method_composed = {
    .name = "composed",
    OPTIONS(SGD("0.05", "0.9"), {TSI_BETA, "0.9"}, {TSI_BETA1, "0.9"}, {TSI_BETA2, "0.999"},
            {TSI_EPS, "1e-8"}, {TSI_AMSGRAD, "no"}, {TSI_LAMBDA, "0"}, {TSI_WD, "0"},
            {TSI_TIE, "coin"}, COMMON, LOCAL, POLICY),
};

terse_status terse_method_list(uint32_t index, terse_method_about *out)
{
    if (index >= tsi_method_count || !out)
        return TERSE_BAD_ARGUMENT;
    *out = tsi_methods[index].about;
    out->name = tsi_methods[index].name;
    out->option_count = (uint32_t)tsi_methods[index].option_count;
    return TERSE_OK;
}

terse_status terse_method_option(uint32_t index, uint32_t option, terse_option *out)
{
    if (index >= tsi_method_count || !out || option >= tsi_methods[index].option_count)
        return TERSE_BAD_ARGUMENT;
    *out = tsi_setting_option(&tsi_methods[index].options[option]);
    return TERSE_OK;
}
