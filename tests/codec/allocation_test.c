/* No allocation in encode or decode after the first call: every malloc of the process is counted.
 */
#include <stdio.h>

#include "support/allocations.h"
#include "support/support.h"

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
        for (uint32_t pass = 0; pass < about.passes; pass++)
            payload[pass] = test_alloc(terse_codec_payload_bound(codec, pass));
        long before = 0;
        for (uint64_t step = 0; step < 4; step++) {
            const terse_rng_key key = {.step = step};
            test_fill(&random, (enum test_kind)step, memory, count);
            if (step == 1)
                before = test_allocations();
            for (uint32_t pass = 0; pass < about.passes; pass++) {
                const size_t bound = terse_codec_payload_bound(codec, pass);
                size_t len = 0;
                if (terse_codec_encode_take(codec, pass, &key, memory, payload[pass], bound,
                                            &len) != TERSE_OK ||
                    terse_codec_decode_add(codec, pass, &key, payload[pass], len, out, NULL) !=
                        TERSE_OK)
                    fail_msg("%s failed", about.name);
            }
        }
        if (test_allocations() != before)
            fail_msg("%s: %ld allocations in three steps", about.name, test_allocations() - before);
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
        cmocka_unit_test(test_the_counter_counts),
        cmocka_unit_test(steps_do_not_allocate),
    };
    return cmocka_run_group_tests_name("allocation", tests, NULL, NULL);
}
