/* No allocation in encode or decode after the first call: every malloc of the process is counted.
 */
#include <stdio.h>

#include "support/support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_ALLOCATOR 0 /* the sanitizer brings its own */
#else
#define OWN_ALLOCATOR 1
#endif

static long allocations;

#if OWN_ALLOCATOR
extern void *__libc_malloc(size_t len);
extern void *__libc_calloc(size_t count, size_t len);
extern void *__libc_realloc(void *old, size_t len);
extern void *__libc_memalign(size_t alignment, size_t len);

void *malloc(size_t len)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_malloc(len);
}

void *calloc(size_t count, size_t len)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_calloc(count, len);
}

void *realloc(void *old, size_t len)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_realloc(old, len);
}

void *aligned_alloc(size_t alignment, size_t len)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_memalign(alignment, len);
}
#endif

static void the_counter_counts(void **unused)
{
    (void)unused;
    const long before = allocations;
    void *volatile block = malloc(100);
    free(block);
    if (OWN_ALLOCATOR)
        assert_true(allocations > before);
    else
        printf("skipped: a sanitizer owns malloc here\n");
}

static void steps_do_not_allocate(void **unused)
{
    (void)unused;
    terse_codec_about about;
    for (uint32_t i = 0; terse_codec_list(i, &about) == TERSE_OK; i++) {
        terse_layout *layout = test_layout(70000);
        terse_codec *codec = NULL;
        const terse_codec_options options = {.threads = 2};
        assert_int_equal(terse_codec_create(about.name, layout, &options, &codec, NULL), TERSE_OK);
        const size_t count = (size_t)terse_layout_count(layout);
        float *const memory = test_floats(count);
        float *const out = test_floats(count);
        uint8_t *payload[2] = {NULL, NULL};
        struct test_random random = {test_seed()};
        for (uint32_t round = 0; round < about.rounds; round++)
            payload[round] = test_alloc(terse_codec_payload_bound(codec, round));
        long before = 0;
        for (uint64_t step = 0; step < 4; step++) {
            const terse_draw draw = {.step = step};
            test_fill(&random, (enum test_kind)step, memory, count);
            if (step == 1)
                before = allocations;
            for (uint32_t round = 0; round < about.rounds; round++) {
                const size_t bound = terse_codec_payload_bound(codec, round);
                size_t len = 0;
                if (terse_codec_encode_take(codec, round, &draw, memory, payload[round], bound,
                                            &len) != TERSE_OK ||
                    terse_codec_decode_add(codec, round, &draw, payload[round], len, out, NULL) !=
                        TERSE_OK)
                    fail_msg("%s failed", about.name);
            }
        }
        if (allocations != before)
            fail_msg("%s: %ld allocations in three steps", about.name, allocations - before);
        free(payload[0]);
        free(payload[1]);
        free(memory);
        free(out);
        terse_codec_destroy(codec);
        terse_layout_destroy(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_counter_counts),
        cmocka_unit_test(steps_do_not_allocate),
    };
    return cmocka_run_group_tests_name("allocation", tests, NULL, NULL);
}
