/* Promises about several payloads: sameness, averages, sums; and about damaged ones. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <terse/info.h>

#include "check/promises.h"

/* NULL, or what differs between two subjects after the same round trip. */
static const char *difference(const struct chk_subject *a, const struct chk_subject *b)
{
    for (uint32_t pass = 0; pass < a->about.passes; pass++)
        if (a->len[pass] != b->len[pass] ||
            memcmp(a->payload[pass].at, b->payload[pass].at, a->len[pass]) != 0)
            return "other bytes";
    if (memcmp(a->residual, b->residual, a->count * sizeof(float)) != 0)
        return "another residual";
    return memcmp(a->decoded, b->decoded, a->count * sizeof(float)) != 0 ? "other decoded values"
                                                                         : NULL;
}

/* The same round trip of the same input with other threads and kernels. */
static int repeat(const struct chk_subject *s, uint32_t threads, const char *kernels,
                  struct chk_finding *finding)
{
    struct chk_subject again;
    if (chk_subject_create(s->settings, threads, &again, NULL) != TERSE_OK)
        return chk_broken(s, finding, "a second codec cannot be made");
    memcpy(again.in, s->in, s->count * sizeof *s->in);
    memcpy(again.residual, s->in, s->count * sizeof *s->in);
    const char *const other = chk_round_trip(&again) ? difference(s, &again) : again.why;
    const int holds = other == NULL || chk_broken(s, finding, "%u threads, kernel set %s: %s",
                                                  threads, kernels, other);
    chk_subject_destroy(&again);
    return holds;
}

/* The same key gives the same payload, residual and values, with any threads and kernels. */
int chk_sameness(struct chk_subject *s, struct chk_finding *finding)
{
    int holds = 1;
    for (enum chk_kind kind = 0; kind < CHK_KINDS && holds; kind++) {
        terse_kernel_set_about set;
        if (terse_kernel_set_select("ref", NULL) != TERSE_OK)
            return chk_broken(s, finding, "kernel set ref cannot be selected");
        struct chk_subject first;
        if (chk_subject_create(s->settings, 1, &first, NULL) != TERSE_OK)
            return chk_broken(s, finding, "a second codec cannot be made");
        chk_fill(&first, kind, 5);
        holds = chk_round_trip(&first) || chk_broken(&first, finding, "%s", first.why);
        for (uint32_t i = 0; terse_kernel_set_list(i, &set) == TERSE_OK && holds; i++)
            for (uint32_t threads = 1; set.supported && threads <= 3 && holds; threads++)
                holds = terse_kernel_set_select(set.name, NULL) == TERSE_OK &&
                        repeat(&first, threads, set.name, finding);
        chk_subject_destroy(&first);
    }
    const int back = terse_kernel_set_select(NULL, NULL) == TERSE_OK;
    return holds && (back || chk_broken(s, finding, "no kernel set can be selected"));
}

/* ---- several workers at once ---- */

enum { WORKERS = 4, TRIPS = 4 };

static void *trips(void *of)
{
    struct chk_subject *const s = of;
    for (int trip = 0; trip < TRIPS && s->why[0] == '\0'; trip++) {
        chk_fill(s, CHK_NORMAL, 6);
        (void)chk_round_trip(s);
    }
    return NULL;
}

/* Workers of one process, each a thread with a codec of its own, do not disturb each other. */
int chk_concurrency(struct chk_subject *s, struct chk_finding *finding)
{
    struct chk_subject worker[WORKERS];
    pthread_t thread[WORKERS];
    uint32_t made = 0;
    uint32_t started = 0;
    int holds = 1;
    (void)trips(s);
    if (s->why[0] != '\0')
        return chk_broken(s, finding, "%s", s->why);
    for (; made < WORKERS; made++)
        if (chk_subject_create(s->settings, 1, &worker[made], NULL) != TERSE_OK)
            break;
    for (; started < made; started++)
        if (pthread_create(&thread[started], NULL, trips, &worker[started]) != 0)
            break;
    for (uint32_t i = 0; i < started; i++) {
        (void)pthread_join(thread[i], NULL);
        const char *const other =
            worker[i].why[0] == '\0' ? difference(s, &worker[i]) : worker[i].why;
        if (holds && other)
            holds = chk_broken(s, finding, "%d threads with a codec each: %s", WORKERS, other);
    }
    for (uint32_t i = 0; i < made; i++)
        chk_subject_destroy(&worker[i]);
    return holds && (started == WORKERS || chk_broken(s, finding, "threads cannot be started"));
}

/* ---- averages and sums ---- */

enum { FEW = 64, DRAWS = 4000 };

/* Adds what draws of one codec decode to. The payload has just the length of its bound. */
static terse_status draw(terse_codec *codec, uint64_t seed, const float *in, double *sum,
                         double *squares)
{
    const size_t bound = terse_codec_payload_bound(codec, 0);
    uint8_t *const payload = malloc(bound ? bound : 1);
    terse_status status = payload ? TERSE_OK : TERSE_NO_MEMORY;
    for (uint64_t step = 0; step < DRAWS && status == TERSE_OK; step++) {
        const terse_rng_key key = {.seed = seed, .step = step};
        float decoded[FEW] = {0};
        size_t len;
        status = terse_codec_encode(codec, 0, &key, in, payload, bound, &len);
        if (status == TERSE_OK)
            status = terse_codec_decode_add(codec, 0, &key, payload, len, decoded, NULL);
        for (size_t i = 0; i < FEW; i++) {
            sum[i] += (double)decoded[i];
            squares[i] += (double)decoded[i] * (double)decoded[i];
        }
    }
    free(payload);
    return status;
}

/* The mean of many encodings of an element is within five standard errors of it. */
int chk_unbiasedness(struct chk_subject *s, struct chk_finding *finding)
{
    terse_layout *layout = NULL;
    terse_codec *codec = NULL;
    double sum[FEW] = {0};
    double squares[FEW] = {0};
    terse_status status = terse_layout_vector(FEW, &layout);
    chk_fill(s, CHK_NORMAL, 7);
    if (status == TERSE_OK)
        status = terse_codec_create(s->settings->spec, layout, NULL, &codec, NULL);
    if (status == TERSE_OK)
        status = draw(codec, s->settings->seed, s->in, sum, squares);
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
    if (status != TERSE_OK)
        return chk_broken(s, finding, "%d elements: %s", FEW, terse_status_text(status));
    for (size_t i = 0; i < FEW; i++) {
        const double mean = sum[i] / DRAWS;
        const double error = sqrt(fmax(0, squares[i] / DRAWS - mean * mean) / DRAWS);
        const double off = mean - (double)s->in[i];
        if (fabs(off) > 5 * error + 1e-6)
            return chk_broken(s, finding,
                              "element %zu of %d: the mean of %d draws is %.6g, the input %.6g: "
                              "z = %.1f",
                              i, FEW, DRAWS, mean, (double)s->in[i], off / error);
    }
    return 1;
}

/* The sum of two payloads is the payload of the sum. Small integers keep the float sums exact;
 * products of two passes are compared to rounding. */
int chk_additivity(struct chk_subject *s, struct chk_finding *finding)
{
    struct chk_subject other;
    struct chk_subject both;
    struct chk_random random = {s->settings->seed + 8};
    const float slack = s->about.passes > 1 ? 1e-2f : 0;
    int holds = 1;
    if (chk_subject_create(s->settings, 1, &other, NULL) != TERSE_OK)
        return chk_broken(s, finding, "a second codec cannot be made");
    if (chk_subject_create(s->settings, 1, &both, NULL) != TERSE_OK) {
        chk_subject_destroy(&other);
        return chk_broken(s, finding, "a third codec cannot be made");
    }
    for (size_t i = 0; i < s->count; i++) {
        s->in[i] = (float)((int)(chk_next(&random) % 201) - 100);
        other.in[i] = (float)((int)(chk_next(&random) % 201) - 100);
        both.in[i] = s->in[i] + other.in[i];
    }
    holds = (chk_encode(s, 0, s->in, 0) && chk_encode(&other, 0, other.in, 0) &&
             chk_encode(&both, 0, both.in, 0)) ||
            chk_broken(s, finding, "%s%s%s", s->why, other.why, both.why);
    for (size_t at = 0; at + sizeof(float) <= s->len[0] && holds; at += sizeof(float)) {
        float x[3];
        memcpy(&x[0], s->payload[0].at + at, sizeof(float));
        memcpy(&x[1], other.payload[0].at + at, sizeof(float));
        memcpy(&x[2], both.payload[0].at + at, sizeof(float));
        if (!(fabsf(x[0] + x[1] - x[2]) <= slack))
            holds = chk_broken(s, finding, "whole numbers, byte %zu: %g and %g, their sum has %g",
                               at, (double)x[0], (double)x[1], (double)x[2]);
    }
    chk_subject_destroy(&other);
    chk_subject_destroy(&both);
    return holds;
}

/* ---- damage ---- */

/* Decodes the first `len` bytes of the last pass from an allocation of just that length. */
static terse_status decode_copy(struct chk_subject *s, uint32_t pass, size_t len,
                                terse_fault *fault)
{
    uint8_t *const copy = malloc(len ? len : 1);
    if (!copy)
        return TERSE_NO_MEMORY;
    memcpy(copy, s->payload[pass].at, len);
    const terse_status status =
        terse_codec_decode_add(s->codec, pass, &s->key, copy, len, s->decoded, fault);
    free(copy);
    return status;
}

/* Payloads cut short are refused; with flipped bits they may also decode within the output. */
int chk_damage(struct chk_subject *s, struct chk_finding *finding)
{
    const uint32_t last = s->about.passes - 1;
    struct chk_random random = {s->settings->seed + 9};
    chk_fill(s, CHK_NORMAL, 9);
    if (!chk_round_trip(s))
        return chk_broken(s, finding, "%s", s->why);
    for (int i = 0; i < 60 && s->len[last] > 0; i++) {
        const size_t len = chk_next(&random) % s->len[last];
        terse_fault fault = {.text = ""};
        terse_status status = decode_copy(s, last, len, &fault);
        if (status != TERSE_BAD_FRAME || fault.offset > len || fault.text[0] == '\0')
            return chk_broken(s, finding, "%zu of %zu bytes are '%s' at %llu, not 'bad frame'", len,
                              s->len[last], terse_status_text(status),
                              (unsigned long long)fault.offset);
        const size_t at = chk_next(&random) % s->len[last];
        s->payload[last].at[at] ^= (uint8_t)(1u << chk_next(&random) % 8);
        status = decode_copy(s, last, s->len[last], &fault);
        if (status != TERSE_OK && status != TERSE_BAD_FRAME)
            return chk_broken(s, finding, "%d flipped bits, the last in byte %zu: '%s'", i + 1, at,
                              terse_status_text(status));
        if (!chk_guards_hold(s))
            return chk_broken(s, finding, "%d flipped bits, the last in byte %zu: %s", i + 1, at,
                              s->why);
    }
    return 1;
}
