/* The reference kernel set against the best one: same status, same bytes, same residual, same
 * decode. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/subject.h"

/* What a kernel set makes of the floats, and of the bytes taken as a payload. */
struct outcome {
    terse_status said[2]; /* per pass */
    terse_status heard[2];
    terse_status raw;
    uint8_t *payload[2];
    size_t len[2];
    float *kept;
    float *sum;
    float *raw_sum;
};

static void run_rounds(struct fuzz_subject *subject, struct outcome *outcome)
{
    for (uint32_t pass = 0; pass < subject->about.passes; pass++) {
        const size_t bound = terse_codec_payload_bound(subject->codec, pass);
        outcome->payload[pass] = fuzz_room(bound);
        outcome->said[pass] =
            terse_codec_encode_take(subject->codec, pass, &subject->key, outcome->kept,
                                    outcome->payload[pass], bound, &outcome->len[pass]);
        if (outcome->said[pass] != TERSE_OK)
            return;
        outcome->heard[pass] =
            terse_codec_decode_add(subject->codec, pass, &subject->key, outcome->payload[pass],
                                   outcome->len[pass], outcome->sum, NULL);
    }
}

static struct outcome run_at(const char *set, const uint8_t *bytes, size_t len)
{
    struct fuzz_subject subject;
    struct outcome outcome = {0};
    FUZZ_CHECK(terse_kernel_set_select(set, NULL) == TERSE_OK);
    FUZZ_CHECK(fuzz_subject_make(&subject, bytes, len));
    outcome.kept = fuzz_floats(&subject);
    outcome.sum = fuzz_floats(&subject);
    outcome.raw_sum = fuzz_floats(&subject);
    run_rounds(&subject, &outcome);
    const size_t bound = terse_codec_payload_bound(subject.codec, 0);
    const size_t raw_len = subject.rest_len < bound ? subject.rest_len : bound;
    outcome.raw = terse_codec_decode_add(subject.codec, 0, &subject.key, subject.rest, raw_len,
                                         outcome.raw_sum, NULL);
    fuzz_subject_free(&subject);
    return outcome;
}

static void free_outcome(struct outcome *outcome)
{
    for (int pass = 0; pass < 2; pass++)
        free(outcome->payload[pass]);
    free(outcome->kept);
    free(outcome->sum);
    free(outcome->raw_sum);
}

/* Bit for bit; a NaN that comes out of arithmetic may carry any payload. */
static void check_floats(const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        FUZZ_CHECK(fuzz_bits(a[i]) == fuzz_bits(b[i]) || (isnan(a[i]) && isnan(b[i])));
}

static void compare(const struct outcome *a, const struct outcome *b, size_t count)
{
    for (int pass = 0; pass < 2; pass++) {
        FUZZ_CHECK(a->said[pass] == b->said[pass]);
        FUZZ_CHECK(a->heard[pass] == b->heard[pass]);
        FUZZ_CHECK(a->len[pass] == b->len[pass]);
        if (a->len[pass] > 0)
            FUZZ_CHECK(memcmp(a->payload[pass], b->payload[pass], a->len[pass]) == 0);
    }
    check_floats(a->kept, b->kept, count);
    check_floats(a->sum, b->sum, count);
    FUZZ_CHECK(a->raw == b->raw);
    if (a->raw == TERSE_OK)
        check_floats(a->raw_sum, b->raw_sum, count);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct fuzz_subject subject;
    if (!fuzz_subject_make(&subject, bytes, len))
        return 0;
    struct outcome reference = run_at("ref", bytes, len);
    struct outcome best = run_at(NULL, bytes, len);
    compare(&reference, &best, subject.count);
    free_outcome(&reference);
    free_outcome(&best);
    fuzz_subject_free(&subject);
    return 0;
}
