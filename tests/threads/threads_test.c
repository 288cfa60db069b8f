/* Several threads, each with codecs of its own, in a process whose kernels are not bound yet: all
 * bind the same kernel set, and every payload is the one that a single thread makes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <terse/terse.h>

enum { THREADS = 4, CODECS = 32, COUNT = 40000 };

struct payload {
    uint8_t *bytes;
    size_t len;
};

struct worker {
    pthread_t thread;
    const char *kernels;
    struct payload said[CODECS];
    uint32_t codecs;
    int failed;
};

static pthread_barrier_t start;

static void fill(float *floats)
{
    uint32_t state = 1;
    for (int i = 0; i < COUNT; i++) {
        state = state * 1664525u + 1013904223u;
        floats[i] = (float)(int32_t)state / 2147483648.0f;
    }
}

/* Encodes and decodes the first round with the codec of this number. */
static terse_status use_codec(const char *name, const terse_layout *layout, struct payload *said)
{
    const terse_rng_key key = {.seed = 7, .step = 3, .worker = 0};
    const terse_codec_options options = {.threads = 1};
    terse_codec *codec = NULL;
    float *const floats = calloc(COUNT, sizeof *floats);
    terse_status status = floats ? TERSE_OK : TERSE_NO_MEMORY;
    if (!status)
        status = terse_codec_create(name, layout, &options, &codec, NULL);
    if (!status) {
        const size_t cap = terse_codec_payload_bound(codec, 0);
        fill(floats);
        said->bytes = calloc(cap + 1, 1);
        status = said->bytes
                     ? terse_codec_encode_take(codec, 0, &key, floats, said->bytes, cap, &said->len)
                     : TERSE_NO_MEMORY;
    }
    if (!status)
        status = terse_codec_decode_add(codec, 0, &key, said->bytes, said->len, floats, NULL);
    terse_codec_destroy(codec);
    free(floats);
    return status;
}

static void *work(void *context)
{
    struct worker *const worker = context;
    terse_codec_about about;
    terse_layout *layout = NULL;
    (void)pthread_barrier_wait(&start);
    worker->failed = terse_kernel_set_name(&worker->kernels, NULL) != TERSE_OK ||
                     terse_layout_vector(COUNT, &layout) != TERSE_OK;
    while (!worker->failed && worker->codecs < CODECS &&
           terse_codec_list(worker->codecs, &about) == TERSE_OK) {
        worker->failed = use_codec(about.name, layout, &worker->said[worker->codecs]) != TERSE_OK;
        worker->codecs++;
    }
    terse_layout_destroy(layout);
    return NULL;
}

static void threads_agree(void **state)
{
    static struct worker workers[THREADS];
    (void)state;
    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);

    for (int i = 0; i < THREADS; i++) {
        assert_false(workers[i].failed);
        assert_string_equal(workers[i].kernels, workers[0].kernels);
        assert_true(workers[i].codecs > 0);
        assert_int_equal(workers[i].codecs, workers[0].codecs);
        for (uint32_t c = 0; c < workers[i].codecs; c++) {
            assert_int_equal(workers[i].said[c].len, workers[0].said[c].len);
            assert_memory_equal(workers[i].said[c].bytes, workers[0].said[c].bytes,
                                workers[0].said[c].len);
        }
    }
    for (int i = 0; i < THREADS; i++)
        for (uint32_t c = 0; c < workers[i].codecs; c++)
            free(workers[i].said[c].bytes);
    pthread_barrier_destroy(&start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
