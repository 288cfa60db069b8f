/* Arbitrary floats through encode_take and decode_add: said + kept = given. What is refused leaves
 * the memory as it was: bit for bit, except that a codec that quantizes puts back what it had taken
 * from earlier tensors, which costs a rounding. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/subject.h"

struct trip {
    struct fuzz_subject subject;
    float *given;
    float *kept;
    float *said;
    size_t len; /* bytes of one of the three */
};

/* Elements of the last tensor. */
static size_t last_count(const struct trip *trip)
{
    terse_tensor last;
    const uint32_t tensors = terse_layout_tensors(trip->subject.layout);
    FUZZ_CHECK(terse_layout_tensor(trip->subject.layout, tensors - 1, &last) == TERSE_OK);
    return (size_t)last.count;
}

/* How far putting back may miss: a rounding at the largest value that could have been said. No
 * codec says more than the tensor's 2-norm, doubled, or 1. */
static double rounding_of(const struct trip *trip)
{
    double most = 1;
    for (size_t i = 0; i < trip->subject.count; i++)
        if (isfinite(trip->given[i]))
            most = fmax(most, fabs((double)trip->given[i]));
    return 0x1p-22 * most * sqrt((double)trip->subject.count);
}

static void check_untouched(const struct trip *trip)
{
    if (memcmp(trip->kept, trip->given, trip->len) == 0)
        return;
    FUZZ_CHECK(!(trip->subject.about.traits & TERSE_CODEC_SELECTING));
    const size_t first = (size_t)terse_layout_count(trip->subject.layout) - last_count(trip);
    const double rounding = rounding_of(trip);
    for (size_t i = 0; i < first; i++)
        FUZZ_CHECK(fabs((double)trip->kept[i] - (double)trip->given[i]) <= rounding);
    /* the last tensor is the one that was refused, or nothing would have been put back */
    FUZZ_CHECK(memcmp(trip->kept + first, trip->given + first, trip->len - first * sizeof(float)) ==
               0);
}

static terse_status say(struct trip *trip, uint32_t pass)
{
    struct fuzz_subject *subject = &trip->subject;
    const size_t bound = terse_codec_payload_bound(subject->codec, pass);
    uint8_t *payload = fuzz_room(bound);
    size_t len = 0;
    terse_fault fault;
    const terse_status status = terse_codec_encode_take(subject->codec, pass, &subject->key,
                                                        trip->kept, payload, bound, &len);
    if (status == TERSE_OK) {
        FUZZ_CHECK(len <= bound);
        FUZZ_CHECK(!(subject->about.traits & TERSE_CODEC_FIXED_LEN) || len == bound);
        FUZZ_CHECK(terse_codec_decode_add(subject->codec, pass, &subject->key, payload, len,
                                          trip->said, &fault) == TERSE_OK);
    } else {
        FUZZ_CHECK(status == TERSE_NOT_FINITE || status == TERSE_OUT_OF_RANGE);
        check_untouched(trip);
    }
    free(payload);
    return status;
}

/* encode says the same as encode_take, and only reads. One pass: the second needs the first. */
static void check_encode(struct trip *trip)
{
    struct fuzz_subject *subject = &trip->subject;
    const size_t bound = terse_codec_payload_bound(subject->codec, 0);
    uint8_t *taken = fuzz_room(bound);
    uint8_t *read = fuzz_room(bound);
    float *memory = fuzz_room(trip->len);
    size_t taken_len = 0;
    size_t read_len = 0;
    memcpy(memory, trip->given, trip->len);
    const terse_status status =
        terse_codec_encode(subject->codec, 0, &subject->key, memory, read, bound, &read_len);
    FUZZ_CHECK(memcmp(memory, trip->given, trip->len) == 0);
    FUZZ_CHECK(terse_codec_encode_take(subject->codec, 0, &subject->key, memory, taken, bound,
                                       &taken_len) == status);
    FUZZ_CHECK(read_len == taken_len);
    FUZZ_CHECK(memcmp(read, taken, read_len) == 0);
    free(memory);
    free(read);
    free(taken);
}

/* Equal, or zeros of different signs: what a zero's sign was is not kept. */
static int same(float a, float b)
{
    return fuzz_bits(a) == fuzz_bits(b) || (fpclassify(a) == FP_ZERO && fpclassify(b) == FP_ZERO);
}

static void check_conserved(const struct trip *trip)
{
    const int halves = strstr(terse_codec_spec(trip->subject.codec), "values=f16") != NULL;
    const int selects = trip->subject.about.traits & TERSE_CODEC_SELECTING && !halves;
    for (size_t i = 0; i < trip->subject.count; i++) {
        const int is_said = fpclassify(trip->said[i]) != FP_ZERO;
        if (selects) {
            FUZZ_CHECK(same(trip->kept[i], is_said ? 0 : trip->given[i]));
            FUZZ_CHECK(!is_said || same(trip->said[i], trip->given[i]));
        } else {
            FUZZ_CHECK(same(trip->kept[i], trip->given[i] - trip->said[i]));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct trip trip;
    if (!fuzz_subject_make(&trip.subject, bytes, len))
        return 0;
    trip.len = trip.subject.count * sizeof(float);
    trip.given = fuzz_floats(&trip.subject);
    trip.kept = fuzz_room(trip.len);
    trip.said = fuzz_room(trip.len);
    memcpy(trip.kept, trip.given, trip.len);
    memset(trip.said, 0, trip.len);
    check_encode(&trip);
    terse_status status = TERSE_OK;
    for (uint32_t pass = 0; pass < trip.subject.about.passes && status == TERSE_OK; pass++)
        status = say(&trip, pass);
    if (status == TERSE_OK)
        check_conserved(&trip);
    free(trip.said);
    free(trip.kept);
    free(trip.given);
    fuzz_subject_free(&trip.subject);
    return 0;
}
