/* Bytes that a worker sends, by combine and number of workers. */
#include <math.h>
#include <stdio.h>

#include "exchange/workers.h"

#define COUNT ((size_t)1 << 19)
#define MOST 16u

/* One exchange by all; filled by the workers. */
struct scene {
    const char *codec;
    const char *combine;
    uint64_t seed;
    uint64_t sent[MOST]; /* by rank, in one step */
    uint64_t received[MOST];
};

static terse_layout *vector_of(size_t count)
{
    terse_layout *layout = NULL;
    assert_int_equal(terse_layout_vector(count, &layout), TERSE_OK);
    return layout;
}

static const char *exchange_once(terse_group *handle, void *context)
{
    struct scene *const scene = context;
    const uint32_t rank = terse_group_rank(handle);
    const terse_exchange_options options = {
        .size = sizeof options, .codec = scene->codec, .combine = scene->combine, .seed = 5};
    terse_layout *layout = NULL;
    terse_exchange *exchange = NULL;
    terse_exchange_report report = {0};
    terse_fault fault = {0};
    float *const gradient = test_floats(COUNT);
    terse_status status = terse_layout_vector(COUNT, &layout);
    if (status == TERSE_OK)
        status = terse_exchange_create(handle, layout, &options, &exchange, &fault);
    struct test_random random = {scene->seed * 1000003 + rank};
    for (size_t i = 0; i < COUNT; i++)
        gradient[i] = (float)(int64_t)test_next(&random);
    if (status == TERSE_OK)
        status = terse_exchange_run(exchange, gradient, &report, &fault);
    scene->sent[rank] = report.bytes_sent;
    scene->received[rank] = report.bytes_received;
    terse_exchange_destroy(exchange);
    terse_layout_destroy(layout);
    free(gradient);
    return status == TERSE_OK ? NULL : complain(handle, scene->combine, status, &fault);
}

/* Bytes that a worker sends in a step, on average; all that is sent is received. */
static double said_by(const char *codec, const char *combine, uint32_t workers)
{
    struct scene scene = {.codec = codec, .combine = combine, .seed = test_seed()};
    uint64_t sent = 0;
    uint64_t received = 0;
    workers_run(workers, exchange_once, &scene);
    for (uint32_t r = 0; r < workers; r++) {
        sent += scene.sent[r];
        received += scene.received[r];
    }
    assert_int_equal(sent, received);
    return (double)sent / workers;
}

static double payload_of(const char *codec_spec)
{
    terse_layout *const layout = vector_of(COUNT);
    terse_codec *codec = NULL;
    assert_int_equal(terse_codec_create(codec_spec, layout, NULL, &codec, NULL), TERSE_OK);
    const double len = (double)terse_codec_payload_bound(codec, 0);
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
    return len;
}

static void check_twice(const char *codec, const char *combine, uint32_t workers, double sent)
{
    const double k = workers;
    const double expected = 2 * (k - 1) / k * payload_of(codec);
    printf(" %s %s %.0f (%.3f)", combine, codec, sent, sent / expected);
    if (!(fabs(sent / expected - 1) <= 0.05))
        fail_msg("%s by %s, %u workers: %.0f bytes, 2(K-1)/K payloads are %.0f", codec, combine,
                 workers, sent, expected);
}

/* 2(K-1)/K payloads there and back together, frames and agreement within the 5 %. */
static void vote_and_shard_send_less_than_two_payloads(void **unused)
{
    static const char *const shards[] = {"scaled-sign", "f16"};
    (void)unused;
    for (uint32_t k = 2; k <= MOST; k++) {
        printf("K %2u: bytes per worker (of 2(K-1)/K payloads):", k);
        check_twice("sign", "vote", k, said_by("sign", "vote", k));
        for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++)
            check_twice(shards[i], "shard", k, said_by(shards[i], "shard", k));
        printf("\n");
    }
}

/* allgather sends K-1 payloads, and so grows with the group. sparse-allreduce sends back the union
 * of the elements selected: for different gradients it grows as well. */
static void gather_and_union_grow(void **unused)
{
    static const char *const sparse = "topk:keep=0.01";
    const double payload = payload_of("sign");
    double union_before = 0;
    (void)unused;
    for (uint32_t k = 2; k <= MOST; k++) {
        const double gathered = said_by("sign", "allgather", k);
        const double sparse_gathered = said_by(sparse, "allgather", k);
        const double united = said_by(sparse, "sparse-allreduce", k);
        printf("K %2u: bytes per worker: allgather sign %.0f (%.2f payloads), allgather %s %.0f, "
               "sparse-allreduce "
               "%.0f (%.2f payloads)\n",
               k, gathered, gathered / payload, sparse, sparse_gathered, united,
               united / payload_of(sparse));
        assert_true(fabs(gathered / ((k - 1) * payload) - 1) <= 0.05);
        assert_true(united > union_before);
        union_before = united;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vote_and_shard_send_less_than_two_payloads),
        cmocka_unit_test(gather_and_union_grow),
    };
    return cmocka_run_group_tests_name("exchange/traffic", tests, NULL, NULL);
}
