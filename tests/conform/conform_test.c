/* The promises of codec.h (check/) for every codec of the registry, with the specs below. A codec
 * that is not listed here fails the first test. */
#include <math.h>

#include "check/check.h"
#include "codec/codec.h"
#include "support/support.h"

static const char *const specs[] = {
    "f32",
    "f16",
    "bf16",
    "sign",
    "sign:zero=coin",
    "sign:zero=keep",
    "scaled-sign",
    "scaled-sign:zero=coin",
    "topk",
    "topk:keep=0.001",
    "topk:keep=0.3",
    "topk:keep=1",
    "topk:keep=0.05,values=f16",
    "block",
    "block:ratio=3.7",
    "block:ratio=1",
    "log:k=0",
    "log:k=1",
    "log",
    "log:k=3",
    "log:k=14",
    "uniform",
    "uniform:bits=2",
    "uniform:bits=8,norm=2",
    "uniform:bits=16",
    "nearest",
    "nearest:k=14",
    "nearest:k=1,range=0.5",
    "natural",
    "low-rank",
    "low-rank:rank=1",
    "low-rank:rank=7",
};
#define SPECS (sizeof specs / sizeof specs[0])
#define LARGE 40000u

static void every_codec_is_in_this_suite(void **unused)
{
    (void)unused;
    terse_codec_about about;
    uint32_t listed = 0;
    for (; terse_codec_list(listed, &about) == TERSE_OK; listed++) {
        int found = 0;
        for (size_t i = 0; i < SPECS; i++)
            found |= strncmp(specs[i], about.name, strlen(about.name)) == 0 &&
                     strchr(":", specs[i][strlen(about.name)]) != NULL;
        if (!found)
            fail_msg("codec %s has no spec in this suite", about.name);
        assert_false(about.traits & TERSE_CODEC_CONTRACTIVE &&
                     about.traits & TERSE_CODEC_UNBIASED &&
                     !(about.traits & TERSE_CODEC_SELECTING));
    }
    assert_true(listed >= 12);
}

static void tell(void *spec, const struct chk_finding *finding)
{
    if (finding->verdict == CHK_BROKEN)
        print_error("%s breaks %s (%s): %s\n", (const char *)spec, finding->promise,
                    finding->meaning, finding->text);
}

static void every_promise_holds(void **unused)
{
    uint32_t broken = 0;
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        const struct chk_settings settings = {specs[s], test_seed(), LARGE};
        char *const name = test_alloc(strlen(specs[s]) + 1);
        uint32_t here = 0;
        memcpy(name, specs[s], strlen(specs[s]));
        assert_int_equal(chk_codec(&settings, tell, name, &here, NULL), TERSE_OK);
        broken += here;
        free(name);
    }
    assert_int_equal(broken, 0);
}

/* A codec whose runs are known before a gradient is reads those; all others read every element, so
 * that no NaN passes. */
static void what_is_not_finite_is_seen(void **unused)
{
    (void)unused;
    for (size_t s = 0; s < SPECS; s++) {
        terse_layout *const layout = test_layout(LARGE);
        const size_t count = (size_t)terse_layout_count(layout);
        const terse_rng_key key = {.seed = test_seed()};
        struct test_random random = {test_seed() + s};
        float *const in = test_floats(count);
        terse_codec_about about;
        terse_codec *codec = NULL;
        size_t len;
        int reads_all = 1;
        assert_int_equal(terse_codec_create(specs[s], layout, NULL, &codec, NULL), TERSE_OK);
        terse_codec_describe(codec, &about);
        for (size_t i = 0; tsi_codec_at(i); i++)
            if (strcmp(tsi_codec_at(i)->name, about.name) == 0)
                reads_all = !tsi_codec_at(i)->support;
        const size_t bound = terse_codec_payload_bound(codec, 0);
        uint8_t *const payload = test_alloc(bound);
        for (int round = 0; round < 6 && reads_all && about.passes == 1; round++) {
            const size_t spot = test_next(&random) % count;
            in[spot] = round % 2 ? NAN : INFINITY;
            assert_int_equal(terse_codec_encode(codec, 0, &key, in, payload, bound, &len),
                             TERSE_NOT_FINITE);
            in[spot] = 0;
        }
        free(in);
        free(payload);
        terse_codec_destroy(codec);
        terse_layout_destroy(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_is_in_this_suite),
        cmocka_unit_test(every_promise_holds),
        cmocka_unit_test(what_is_not_finite_is_seen),
    };
    return cmocka_run_group_tests_name("conform", tests, NULL, NULL);
}
