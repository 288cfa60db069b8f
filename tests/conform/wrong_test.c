/* Codecs that break one promise each: the suite names it. The first breaks none. */
#include <stdatomic.h>

#include "check/check.h"
#include "support/support.h"

enum wrong {
    RIGHT,
    BIASED,        /* claims to be unbiased, rounds towards zero */
    LOSES,         /* takes more than it sends */
    TOO_SHORT,     /* is shorter than its bound and claims a fixed length */
    TOO_LONG,      /* is longer than its bound */
    OVERRUNS,      /* writes behind its payload */
    EXPANDS,       /* claims to be contractive, doubles */
    HALVES,        /* claims to select, sends half of an element */
    COUNTS,        /* the payload depends on how often it was called */
    TRUSTS,        /* decodes what is not there */
    PASSES_NAN,    /* sends NaN */
    ADDS_TO_ZEROS, /* claims to be contractive, decodes zeros to one */
    WRONGS
};

static const char *const names[WRONGS] = {"right",  "biased",   "loses",      "short",
                                          "long",   "overruns", "expands",    "halves",
                                          "counts", "trusts",   "passes-nan", "adds"};
static const char *const breaks[WRONGS] = {NULL,       "unbiasedness", "conservation", "length",
                                           "length",   "length",       "contraction",  "selection",
                                           "sameness", "damage",       "finiteness",   "zeros"};

static enum wrong wrong_of(const terse_user_call *call)
{
    return *(const enum wrong *)call->context;
}

static size_t bound(const terse_user_call *call)
{
    return call->count * sizeof(float);
}

static float sent(enum wrong wrong, float x, size_t i)
{
    switch (wrong) {
    case BIASED: return (float)(int)x;
    case LOSES: return i % 2 ? 0 : x;
    case EXPANDS: return -2 * x;
    case HALVES: return x / 2;
    case ADDS_TO_ZEROS: return x == 0 ? 1 : x;
    default: return x;
    }
}

static terse_status encode(const terse_user_call *call, const float *in, uint8_t *section,
                           size_t *len)
{
    static atomic_uint calls;
    const enum wrong wrong = wrong_of(call);
    *len = bound(call);
    for (size_t i = 0; i < call->count; i++) {
        const float x = sent(wrong, in[i], i);
        if (wrong != PASSES_NAN && !(x - x == 0))
            return TERSE_NOT_FINITE;
        memcpy(section + i * sizeof x, &x, sizeof x);
    }
    if (wrong == COUNTS) /* the last bit of the mantissa */
        section[0] = (uint8_t)(section[0] ^ (atomic_fetch_add(&calls, 1) & 1));
    if (wrong == TOO_SHORT)
        *len -= 4;
    if (wrong == TOO_LONG)
        *len += 4;
    if (wrong == OVERRUNS && call->count > 1000)
        section[*len + 9] = 1;
    return TERSE_OK;
}

static terse_status decode_add(const terse_user_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out)
{
    const enum wrong wrong = wrong_of(call);
    *used = wrong == TRUSTS && len < bound(call) ? len : bound(call);
    if (len < *used)
        return TERSE_BAD_FRAME;
    for (size_t i = 0; i < *used / sizeof *out; i++) {
        float x;
        memcpy(&x, section + i * sizeof x, sizeof x);
        out[i] += x;
    }
    return TERSE_OK;
}

static terse_status take(const terse_user_call *call, const uint8_t *section, size_t len,
                         float *residual)
{
    (void)section;
    (void)len;
    memset(residual, 0, call->count * sizeof *residual);
    return TERSE_OK;
}

static void register_all(void)
{
    static enum wrong context[WRONGS];
    static const uint32_t traits[WRONGS] = {
        [BIASED] = TERSE_CODEC_UNBIASED | TERSE_CODEC_RANDOM,
        [TOO_SHORT] = TERSE_CODEC_FIXED_LEN,
        [EXPANDS] = TERSE_CODEC_CONTRACTIVE,
        [HALVES] = TERSE_CODEC_SELECTING,
        [ADDS_TO_ZEROS] = TERSE_CODEC_CONTRACTIVE,
    };
    for (enum wrong wrong = 0; wrong < WRONGS; wrong++) {
        context[wrong] = wrong;
        const terse_user_codec codec = {.size = sizeof codec,
                                        .name = names[wrong],
                                        .summary = "breaks a promise",
                                        .wire_id = (uint8_t)(TERSE_USER_WIRE_ID + wrong),
                                        .traits = traits[wrong],
                                        .context = &context[wrong],
                                        .bound = bound,
                                        .encode = encode,
                                        .decode_add = decode_add,
                                        .take = wrong == LOSES ? take : NULL};
        assert_int_equal(terse_codec_register(&codec, NULL), TERSE_OK);
    }
}

/* The promises that are broken. */
struct found {
    uint32_t count;
    const char *promise[16];
    char text[400];
};

static void note(void *context, const struct chk_finding *finding)
{
    struct found *const found = context;
    if (finding->verdict != CHK_BROKEN)
        return;
    if (found->count == 0)
        memcpy(found->text, finding->text, sizeof found->text);
    if (found->count < 16)
        found->promise[found->count++] = finding->promise;
}

static void each_wrong_codec_is_named(void **unused)
{
    (void)unused;
    register_all();
    for (enum wrong wrong = 0; wrong < WRONGS; wrong++) {
        const struct chk_settings settings = {names[wrong], test_seed(), 2000};
        struct found found = {.count = 0};
        uint32_t broken = 99;
        int named = breaks[wrong] == NULL;
        assert_int_equal(chk_codec(&settings, note, &found, &broken, NULL), TERSE_OK);
        assert_int_equal(broken, found.count);
        for (uint32_t i = 0; i < found.count; i++) {
            named |= breaks[wrong] && strcmp(found.promise[i], breaks[wrong]) == 0;
            print_message("%s: %s: %s\n", names[wrong], found.promise[i], i ? "" : found.text);
        }
        if (!named)
            fail_msg("%s is not said to break %s", names[wrong], breaks[wrong]);
        if (wrong == RIGHT)
            assert_int_equal(broken, 0);
        else
            assert_non_null(strstr(found.text, "seed 1, "));
    }
}

static void a_spec_that_is_none_is_an_error(void **unused)
{
    const struct chk_settings settings = {"no-such-codec", 1, 2000};
    struct found found = {.count = 0};
    uint32_t broken = 99;
    terse_fault fault = {.text = ""};
    (void)unused;
    assert_int_equal(chk_codec(&settings, note, &found, &broken, &fault), TERSE_BAD_SPEC);
    assert_non_null(strstr(fault.text, "no codec 'no-such-codec'"));
    assert_int_equal(broken, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wrong_codec_is_named),
        cmocka_unit_test(a_spec_that_is_none_is_an_error),
    };
    return cmocka_run_group_tests_name("conform/wrong", tests, NULL, NULL);
}
