/* The promises of codec.h (check/) for every codec of the registry, with the specs below, and what
 * the codecs of the library keep beyond them. A codec that is not listed here fails the first test.
 */
#include <math.h>

#include "check/subject.h"
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

/* ---- what codec.h leaves to a codec, and every codec of the library keeps ---- */

/* Those without an exact roll back: what they decode is no multiple of a small power of two. */
static int rounds(const char *name)
{
    return strcmp(name, "low-rank") == 0 || strcmp(name, "uniform") == 0 ||
           strcmp(name, "log") == 0 || strcmp(name, "scaled-sign") == 0 ||
           strcmp(name, "nearest") == 0;
}

/* Does it read every element? A codec whose runs are known before a gradient is reads those. */
static int reads_all(const char *name)
{
    for (size_t i = 0; tsi_codec_at(i); i++)
        if (strcmp(tsi_codec_at(i)->name, name) == 0)
            return !tsi_codec_at(i)->support;
    return 1;
}

/* The status of a step that takes from the residual, in all passes up to a failure. */
static terse_status take_all(struct chk_subject *s)
{
    terse_status status = TERSE_OK;
    for (uint32_t pass = 0; pass < s->about.passes && status == TERSE_OK; pass++) {
        status = terse_codec_encode_take(s->codec, pass, &s->key, s->residual, s->payload[pass].at,
                                         s->payload[pass].len, &s->len[pass]);
        if (status == TERSE_OK)
            assert_int_equal(chk_decode(s, pass), 1);
    }
    return status;
}

/* Every codec that reads an element sees that it is no number, in one of its passes. The residual
 * is the one before: bit for bit where whole numbers leave no rounding, with two threads. */
static void refuse_one(struct chk_subject *s, size_t spot, float poison)
{
    const int exact = !rounds(s->about.name);
    s->in[spot] = poison;
    memcpy(s->residual, s->in, s->count * sizeof *s->in);
    const terse_status status = take_all(s);
    if (status != TERSE_NOT_FINITE && (status != TERSE_OK || reads_all(s->about.name)))
        fail_msg("%s: %g at element %zu: '%s', not 'not finite'", s->settings->spec, (double)poison,
                 spot, terse_status_text(status));
    for (size_t i = 0; i < s->count && status != TERSE_OK; i++) {
        const float slack = fabsf(s->in[i]) * 1e-5f + 1e-4f;
        const int same = exact ? test_same_bits(&s->residual[i], &s->in[i], 1)
                               : fabsf(s->residual[i] - s->in[i]) <= slack;
        if (i != spot && !same)
            fail_msg("%s: %g at element %zu: element %zu was %.9g, is %.9g", s->settings->spec,
                     (double)poison, spot, i, (double)s->in[i], (double)s->residual[i]);
    }
}

static void what_is_not_finite_is_seen_and_nothing_is_lost(void **unused)
{
    static const float poison[] = {NAN, INFINITY, -INFINITY};
    (void)unused;
    for (size_t c = 0; c < SPECS; c++) {
        const struct chk_settings settings = {specs[c], test_seed(), LARGE};
        struct chk_subject s;
        assert_int_equal(chk_subject_create(&settings, 2, &s, NULL), TERSE_OK);
        for (size_t p = 0; p < 3; p++) {
            struct test_random random = {test_seed() + 10 * c + p};
            for (size_t i = 0; i < s.count; i++)
                s.in[i] = (float)((int)(test_next(&random) % 65) - 32);
            const size_t spots[] = {0,           539,         618,
                                    s.count / 2, s.count - 1, test_next(&random) % s.count};
            for (size_t k = 0; k < sizeof spots / sizeof spots[0]; k++) {
                const float before = s.in[spots[k]];
                refuse_one(&s, spots[k], poison[p]);
                s.in[spots[k]] = before;
            }
        }
        chk_subject_destroy(&s);
    }
}

/* Of an element that is selected nothing stays; values as f16 leave their rounding error. */
static void selecting_is_all_or_nothing(void **unused)
{
    uint32_t seen = 0;
    (void)unused;
    for (size_t c = 0; c < SPECS; c++) {
        const struct chk_settings settings = {specs[c], test_seed(), LARGE};
        struct chk_subject s;
        assert_int_equal(chk_subject_create(&settings, 1, &s, NULL), TERSE_OK);
        if (s.about.traits & TERSE_CODEC_SELECTING && !strstr(specs[c], "values=f16")) {
            chk_fill(&s, CHK_NORMAL, c);
            assert_int_equal(chk_round_trip(&s), 1);
            for (size_t i = 0; i < s.count; i++)
                if (s.decoded[i] != 0 && s.residual[i] != 0)
                    fail_msg("%s, element %zu: %.9g was selected, %.9g stays", specs[c], i,
                             (double)s.decoded[i], (double)s.residual[i]);
            seen++;
        }
        chk_subject_destroy(&s);
    }
    assert_true(seen >= 8);
}

/* Also those that claim neither contraction nor a mean; a sign alone may be one of two. */
static void zeros_stay_zeros(void **unused)
{
    uint32_t seen = 0;
    (void)unused;
    for (size_t c = 0; c < SPECS; c++) {
        const struct chk_settings settings = {specs[c], test_seed(), LARGE};
        struct chk_subject s;
        assert_int_equal(chk_subject_create(&settings, 1, &s, NULL), TERSE_OK);
        chk_fill(&s, CHK_ZERO, 0);
        for (int step = 0; step < 3 && strcmp(s.about.name, "sign") != 0; step++) {
            assert_int_equal(chk_round_trip(&s), 1);
            for (size_t i = 0; i < s.count; i++)
                if (s.decoded[i] != 0 || s.residual[i] != 0)
                    fail_msg("%s, element %zu: zero is decoded to %.9g, %.9g stays", specs[c], i,
                             (double)s.decoded[i], (double)s.residual[i]);
            seen++;
        }
        chk_subject_destroy(&s);
    }
    assert_true(seen == 3 * (SPECS - 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_is_in_this_suite),
        cmocka_unit_test(every_promise_holds),
        cmocka_unit_test(what_is_not_finite_is_seen_and_nothing_is_lost),
        cmocka_unit_test(selecting_is_all_or_nothing),
        cmocka_unit_test(zeros_stay_zeros),
    };
    return cmocka_run_group_tests_name("conform", tests, NULL, NULL);
}
