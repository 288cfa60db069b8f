/* Every failure is a status with a rank, on every worker, and no state is half written. */
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "exchange/workers.h"

#define COUNT 20000u

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static terse_status make(terse_group *handle, const terse_exchange_options *options,
                         terse_exchange **out, terse_fault *fault)
{
    terse_layout *layout = NULL;
    terse_status status = terse_layout_vector(COUNT, &layout);
    if (status == TERSE_OK)
        status = terse_exchange_create(handle, layout, options, out, fault);
    terse_layout_destroy(layout);
    return status;
}

/* ---- settings ---- */

struct dispute {
    terse_exchange_options odd; /* rank 2's options; the others have the defaults of scaled-sign */
    uint64_t odd_count;         /* rank 2's layout, if not 0 */
    terse_status status;
    const char *text;
};

static const char *argue(terse_group *handle, void *context)
{
    const struct dispute *const dispute = context;
    const terse_exchange_options usual = {.size = sizeof usual, .codec = "scaled-sign"};
    const int is_odd = terse_group_rank(handle) == 2;
    terse_layout *layout = NULL;
    terse_exchange *exchange = NULL;
    terse_fault fault = {.rank = -1};
    if (terse_layout_vector(is_odd && dispute->odd_count ? dispute->odd_count : COUNT, &layout))
        return "no layout";
    const terse_status status =
        terse_exchange_create(handle, layout, is_odd ? &dispute->odd : &usual, &exchange, &fault);
    terse_layout_destroy(layout);
    if (status == TERSE_OK)
        terse_exchange_destroy(exchange);
    if (is_odd && dispute->status != TERSE_MISMATCH)
        return status == dispute->status ? NULL : complain(handle, "own status", status, &fault);
    if (status != TERSE_MISMATCH || fault.rank != 2 || !strstr(fault.text, dispute->text))
        return complain(handle, dispute->text, status, &fault);
    return NULL;
}

static void other_settings_are_named_on_every_worker(void **unused)
{
    const size_t size = sizeof(terse_exchange_options);
    const char *const cannot = "could not make its part";
    const struct dispute disputes[] = {
        {{.size = size, .codec = "log"}, 0, TERSE_MISMATCH, "codec differs"},
        {{.size = size, .codec = "scaled-sign:zero=coin"}, 0, TERSE_MISMATCH, "codec differs"},
        {{.size = size, .codec = "scaled-sign", .seed = 1}, 0, TERSE_MISMATCH, "seed differs"},
        {{.size = size, .codec = "scaled-sign", .combine = "allgather"},
         0,
         TERSE_MISMATCH,
         "combine differs"},
        {{.size = size, .codec = "scaled-sign", .feedback = "none"},
         0,
         TERSE_MISMATCH,
         "feedback differs"},
        {{.size = size, .codec = "scaled-sign"}, 7, TERSE_MISMATCH, "layout differs"},
        {{.size = size, .codec = "nonsense"}, 0, TERSE_BAD_SPEC, cannot},
        {{.size = size, .codec = "sign", .feedback = "residual"}, 0, TERSE_BAD_SPEC, cannot},
        {{.size = size, .codec = "topk", .combine = "allreduce"}, 0, TERSE_BAD_SPEC, cannot},
        {{.size = size, .codec = "topk", .combine = "voet"}, 0, TERSE_BAD_SPEC, cannot},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof disputes / sizeof disputes[0]; i++) {
        struct dispute dispute = disputes[i];
        workers_run(3, argue, &dispute);
    }
}

/* ---- a worker that is late ---- */

struct absence {
    const char *codec;
};

static const char *miss(terse_group *handle, void *context)
{
    const struct absence *const absence = context;
    const terse_exchange_options options = {.size = sizeof options, .codec = absence->codec};
    terse_exchange *exchange = NULL;
    terse_fault fault = {.rank = -1};
    float *const gradient = calloc(COUNT, sizeof *gradient);
    const char *complaint = NULL;
    terse_status status = terse_group_set_timeout(handle, 0.4);
    if (status == TERSE_OK)
        status = make(handle, &options, &exchange, &fault);
    if (status != TERSE_OK || !gradient) {
        free(gradient);
        return complain(handle, "create", status, &fault);
    }
    gradient[0] = 3;
    status = terse_exchange_run(exchange, gradient, NULL, &fault);
    if (status != TERSE_OK)
        complaint = complain(handle, "the first step", status, &fault);
    if (terse_group_rank(handle) == 1) {
        (void)usleep(1500000);
    } else if (!complaint) {
        const double start = seconds();
        gradient[0] = 5;
        status = terse_exchange_run(exchange, gradient, NULL, &fault);
        const double waited = seconds() - start;
        /* the first rank to notice gets the timeout, the others find the group failed */
        if ((status != TERSE_TIMEOUT && status != TERSE_PEER_LOST) || fault.rank != 1 ||
            waited > 1.2 || gradient[0] != 5)
            complaint = complain(handle, "a late worker", status, &fault);
        else if (terse_exchange_run(exchange, gradient, NULL, &fault) != TERSE_PEER_LOST)
            complaint = "a broken exchange went on";
    }
    terse_exchange_destroy(exchange);
    free(gradient);
    return complaint;
}

static void a_late_worker_is_named_within_the_timeout(void **unused)
{
    static const char *const codecs[] = {"f32", "topk", "sign", "log"};
    (void)unused;
    for (size_t i = 0; i < 4; i++) {
        struct absence absence = {codecs[i]};
        workers_run(4, miss, &absence);
    }
}

/* ---- a wire that lies ---- */

/* An engine over a local handle that flips a bit of what rank 1 sends in its n-th all-to-all. */
struct liar {
    terse_group *inner;
    terse_request request[TERSE_MAX_REQUESTS];
    uint32_t posts;
    uint32_t lie_at;
    uint8_t *forged; /* what is sent instead */
};

static terse_status liar_post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                              int32_t *rank)
{
    struct liar *const liar = context;
    const uint32_t workers = terse_group_workers(liar->inner);
    const void *send_at[TERSE_MAX_LOCAL_WORKERS];
    terse_alltoallv sent = *alltoallv;
    terse_fault fault = {.rank = -1};
    size_t at = 0;
    memcpy(send_at, alltoallv->send_at, workers * sizeof *send_at);
    if (terse_group_rank(liar->inner) == 1 && ++liar->posts == liar->lie_at) {
        for (uint32_t r = 0; r < workers; r++) {
            if (alltoallv->send_len[r] == 0 || r == 1)
                continue;
            memcpy(liar->forged + at, alltoallv->send_at[r], alltoallv->send_len[r]);
            liar->forged[at + alltoallv->send_len[r] / 2] ^= 0x10;
            send_at[r] = liar->forged + at;
            at += alltoallv->send_len[r];
        }
        sent.send_at = send_at;
    }
    const terse_status status =
        terse_group_post_alltoallv(liar->inner, &sent, &liar->request[slot], &fault);
    *rank = fault.rank;
    return status;
}

static terse_status liar_test(void *context, uint32_t slot, int *done, int32_t *rank)
{
    struct liar *const liar = context;
    terse_fault fault = {.rank = -1};
    const terse_status status = terse_group_test(liar->inner, liar->request[slot], done, &fault);
    *rank = fault.rank;
    return status;
}

static terse_status liar_wait(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    struct liar *const liar = context;
    terse_fault fault = {.rank = -1};
    (void)nanoseconds;
    const terse_status status = terse_group_wait(liar->inner, liar->request[slot], &fault);
    *rank = fault.rank;
    return status;
}

static const terse_group_ops liar_ops = {
    .size = sizeof liar_ops, .post = liar_post, .test = liar_test, .wait = liar_wait};

struct forgery {
    const char *codec;
    const char *combine;
    uint32_t lie_at; /* 1 is the agreement on settings, 2 the opening record, 3 the first message */
    terse_status status; /* the status that every rank must get */
    uint32_t compare_every;
};

static const char *deceived(terse_group *handle, const struct forgery *forgery, struct liar *liar,
                            terse_group *outer)
{
    const terse_exchange_options options = {.size = sizeof options,
                                            .codec = forgery->codec,
                                            .combine = forgery->combine,
                                            .compare_every = forgery->compare_every};
    terse_exchange *exchange = NULL;
    terse_fault fault = {.rank = -1};
    const char *complaint = NULL;
    terse_status status = make(outer, &options, &exchange, &fault);
    if (status != TERSE_OK)
        return complain(handle, "create", status, &fault);
    float *const gradient = calloc(COUNT, sizeof *gradient);
    liar->forged = malloc(64 * (size_t)COUNT);
    if (!gradient || !liar->forged)
        abort();
    for (size_t i = 0; i < COUNT; i++)
        gradient[i] = (float)(i % 7) - 3 + (float)terse_group_rank(handle);
    status = terse_exchange_run(exchange, gradient, NULL, &fault);
    if (status != forgery->status || fault.rank != 1)
        complaint = complain(handle, forgery->codec, status, &fault);
    const float *const residual = terse_exchange_residual(exchange);
    for (size_t i = 0; !complaint && i < COUNT; i++) {
        const float given = (float)(i % 7) - 3 + (float)terse_group_rank(handle);
        if (gradient[i] != given)
            complaint = "a gradient was changed by a step that failed";
        if (residual && residual[i] != 0)
            complaint = "a step that failed has changed the residual";
    }
    if (!complaint && terse_exchange_run(exchange, gradient, NULL, &fault) != TERSE_PEER_LOST)
        complaint = "a broken exchange went on";
    terse_exchange_destroy(exchange);
    free(liar->forged);
    free(gradient);
    return complaint;
}

static const char *believe(terse_group *handle, void *context)
{
    const struct forgery *const forgery = context;
    struct liar *const liar = calloc(1, sizeof *liar);
    terse_group *outer = NULL;
    if (!liar)
        return "out of memory";
    liar->inner = handle;
    liar->lie_at = forgery->lie_at;
    if (terse_group_callbacks(&liar_ops, liar, terse_group_rank(handle),
                              terse_group_workers(handle), &outer) != TERSE_OK) {
        free(liar);
        return "no group of callbacks";
    }
    const char *const complaint = deceived(handle, forgery, liar, outer);
    terse_group_destroy(outer);
    free(liar);
    return complaint;
}

static void a_corrupt_frame_names_its_sender_on_every_worker(void **unused)
{
    static const struct forgery forgeries[] = {
        {"topk", "allgather", 3, TERSE_BAD_CHECKSUM, 0},
        {"topk", "sparse-allreduce", 4, TERSE_BAD_CHECKSUM, 0},
        {"topk", "sparse-allreduce", 6, TERSE_BAD_CHECKSUM, 0},
        {"sign", "vote", 3, TERSE_BAD_CHECKSUM, 0},
        {"sign", "vote", 4, TERSE_BAD_CHECKSUM, 0},
        {"log", "shard", 3, TERSE_BAD_CHECKSUM, 0},
        {"log", "shard", 4, TERSE_BAD_CHECKSUM, 0},
        {"f16", "parameter-server", 3, TERSE_BAD_CHECKSUM, 0},
        {"uniform", "shard", 3, TERSE_BAD_CHECKSUM, 0},
        {"f32", "allreduce", 3, TERSE_BAD_CHECKSUM, 0},
        {"f32", "allreduce", 4, TERSE_BAD_CHECKSUM, 0},
        {"block", "allreduce", 5, TERSE_BAD_CHECKSUM, 0},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof forgeries / sizeof forgeries[0]; i++) {
        struct forgery forgery = forgeries[i];
        workers_run(3, believe, &forgery);
    }
}

/* ---- overflow ---- */

struct excess {
    const char *codec;
    const char *combine;
    float value;          /* of every element, on every worker, in steps 1 and 2 */
    terse_status skipped; /* of those steps */
};

/* Steps 1 and 2 are skipped; step 3 must give what it would without them. */
static const char *exceed(terse_group *handle, void *context)
{
    const struct excess *const excess = context;
    const terse_exchange_options options = {
        .size = sizeof options, .codec = excess->codec, .combine = excess->combine};
    terse_exchange *exchange = NULL;
    terse_exchange_report report;
    terse_fault fault = {.rank = -1};
    const char *complaint = NULL;
    float *const gradient = malloc(COUNT * sizeof *gradient);
    if (!gradient)
        return "out of memory";
    terse_status status = make(handle, &options, &exchange, &fault);
    for (unsigned step = 0; step < 4 && status == TERSE_OK && !complaint; step++) {
        const int sound = step == 0 || step == 3;
        for (size_t i = 0; i < COUNT; i++)
            gradient[i] = sound ? 1 : excess->value;
        status = terse_exchange_run(exchange, gradient, &report, &fault);
        if (status == TERSE_OK && report.skipped != (sound ? TERSE_OK : excess->skipped))
            complaint = complain(handle, excess->codec, report.skipped, NULL);
        if (status == TERSE_OK && sound && fabsf(gradient[0] - 1) > 0.01f)
            complaint = "a step after a skipped one is wrong";
        if (status == TERSE_OK && !sound && gradient[0] != excess->value)
            complaint = "a skipped step has changed the gradient";
    }
    if (status != TERSE_OK)
        complaint = complain(handle, excess->codec, status, &fault);
    terse_exchange_destroy(exchange);
    free(gradient);
    return complaint;
}

static void an_overflow_is_skipped_by_all(void **unused)
{
    static const struct excess cases[] = {
        {"f16", "shard", 1e6f, TERSE_OUT_OF_RANGE},
        {"f16", "allgather", 1e6f, TERSE_OUT_OF_RANGE},
        {"bf16", "shard", 3.4e38f, TERSE_OUT_OF_RANGE},
        {"f32", "allreduce", 3e38f, TERSE_OUT_OF_RANGE},
        {"f32", "allgather", 3e38f, TERSE_OUT_OF_RANGE},
        {"f32", "shard", 3e38f, TERSE_OUT_OF_RANGE},
        {"f32", "sparse-allreduce", 3e38f, TERSE_OUT_OF_RANGE},
        {"log", "shard", 3e38f, TERSE_OUT_OF_RANGE},
        {"f32", "allreduce", INFINITY, TERSE_NOT_FINITE},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct excess excess = cases[i];
        workers_run(3, exceed, &excess);
    }
}

/* An owner whose aggregate overflows leaves its residual unchanged. */
static const char *overflow_back(terse_group *handle, void *context)
{
    static const float first[] = {65504, 65472};
    const terse_exchange_options options = {
        .size = sizeof options, .codec = "f16", .combine = "shard"};
    terse_layout *layout = NULL;
    terse_exchange *exchange = NULL;
    terse_exchange_report report = {0};
    terse_fault fault = {.rank = -1};
    float gradient = first[terse_group_rank(handle)];
    (void)context;
    if (terse_layout_vector(1, &layout) != TERSE_OK)
        return "out of memory";
    terse_status status = terse_exchange_create(handle, layout, &options, &exchange, &fault);
    terse_layout_destroy(layout);
    if (status == TERSE_OK)
        status = terse_exchange_run(exchange, &gradient, &report, &fault);
    gradient = 65504;
    if (status == TERSE_OK)
        status = terse_exchange_run(exchange, &gradient, &report, &fault);
    gradient = 1;
    if (status == TERSE_OK)
        status = terse_exchange_run(exchange, &gradient, &report, &fault);
    terse_exchange_destroy(exchange);
    if (status != TERSE_OK || report.skipped != TERSE_OK)
        return complain(handle, "the step after", report.skipped, &fault);
    return NULL;
}

static void an_overflowing_aggregate_leaves_no_trace(void **unused)
{
    (void)unused;
    workers_run(2, overflow_back, NULL);
}

/* ---- odd shapes ---- */

/* A layout without tensors, buckets of nothing, more buckets than a group has requests, and a
 * bucket that was forgotten. */
static const char *shape_oddly(terse_group *handle, void *context)
{
    enum { TENSORS = 300 };
    static const uint64_t dims[] = {50};
    const char *const codec = context;
    const terse_exchange_options options = {.size = sizeof options, .codec = codec};
    terse_layout *empty = NULL;
    terse_layout *many = NULL;
    terse_exchange *exchange = NULL;
    terse_fault fault = {.rank = -1};
    float gradient[TENSORS * 50];
    const char *complaint = NULL;
    for (size_t i = 0; i < sizeof gradient / sizeof gradient[0]; i++)
        gradient[i] = (float)(i % 11) - 5;
    if (terse_layout_create(&empty) || terse_layout_create(&many))
        return "out of memory";
    for (int i = 0; i < TENSORS; i++)
        if (terse_layout_add(many, "", 1, dims) != TERSE_OK)
            complaint = "no tensor";
    terse_status status = terse_exchange_create(handle, empty, &options, &exchange, &fault);
    if (status == TERSE_OK)
        status = terse_exchange_run(exchange, gradient, NULL, &fault);
    terse_exchange_destroy(exchange);
    exchange = NULL;
    if (status == TERSE_OK)
        status = terse_exchange_create(handle, many, &options, &exchange, &fault);
    if (status == TERSE_OK &&
        terse_exchange_post(exchange, gradient, 0, 0, &fault) != TERSE_BAD_ARGUMENT)
        complaint = "a bucket of nothing was posted";
    for (uint32_t i = 0; i < TENSORS && status == TERSE_OK; i++) {
        if (i == TENSORS - 1 &&
            terse_exchange_finish(exchange, gradient, NULL, &fault) != TERSE_BAD_ARGUMENT)
            complaint = "a forgotten bucket was not missed";
        status = terse_exchange_post(exchange, gradient, i, 1, &fault);
    }
    if (status == TERSE_OK)
        status = terse_exchange_finish(exchange, gradient, NULL, &fault);
    if (status != TERSE_OK)
        complaint = complain(handle, codec, status, &fault);
    terse_exchange_destroy(exchange);
    terse_layout_destroy(empty);
    terse_layout_destroy(many);
    return complaint;
}

static void odd_shapes_do_no_harm(void **unused)
{
    static char codecs[][8] = {"f32", "topk", "log", "sign"};
    (void)unused;
    for (size_t i = 0; i < 4; i++)
        workers_run(3, shape_oddly, codecs[i]);
}

/* ---- creation and destruction ---- */

static const char *come_and_go(terse_group *handle, void *context)
{
    const terse_exchange_options options = {.size = sizeof options, .codec = "scaled-sign"};
    float *const gradient = calloc(COUNT, sizeof *gradient);
    const char *complaint = NULL;
    (void)context;
    for (int i = 0; i < 50 && !complaint && gradient; i++) {
        terse_exchange *exchange = NULL;
        terse_fault fault = {0};
        terse_status status = make(handle, &options, &exchange, &fault);
        if (status == TERSE_OK)
            status = terse_exchange_run(exchange, gradient, NULL, &fault);
        if (status != TERSE_OK)
            complaint = complain(handle, "round", status, &fault);
        terse_exchange_destroy(exchange);
    }
    free(gradient);
    return complaint;
}

/* Under the leak checker of asan this also shows that nothing is left behind. */
static void many_rounds_of_create_step_destroy(void **unused)
{
    (void)unused;
    for (int i = 0; i < 20; i++)
        workers_run(3, come_and_go, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_settings_are_named_on_every_worker),
        cmocka_unit_test(a_late_worker_is_named_within_the_timeout),
        cmocka_unit_test(a_corrupt_frame_names_its_sender_on_every_worker),
        cmocka_unit_test(an_overflow_is_skipped_by_all),
        cmocka_unit_test(an_overflowing_aggregate_leaves_no_trace),
        cmocka_unit_test(odd_shapes_do_no_harm),
        cmocka_unit_test(many_rounds_of_create_step_destroy),
    };
    return cmocka_run_group_tests_name("exchange failures", tests, NULL, NULL);
}
