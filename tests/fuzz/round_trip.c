/* Fuzzes encode_take and decode_add with arbitrary floats: decoded + residual = input. A refusal
 * leaves the residual unchanged, bit for bit; but a codec that quantizes rolls earlier tensors back
 * to one rounding. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/subject.h"

struct trip {
    struct fuzz_subject subject;
    float *input;
    float *residual;
    float *decoded;
    size_t len; /* bytes of each of the three */
};

/* Elements of the last tensor. */
static size_t last_count(const struct trip *trip)
{
    terse_tensor last;
    const uint32_t tensors = terse_layout_tensors(trip->subject.layout);
    FUZZ_CHECK(terse_layout_tensor(trip->subject.layout, tensors - 1, &last) == TERSE_OK);
    return (size_t)last.count;
}

/* The largest error of a rollback: a rounding of the largest encoded value. No codec encodes more
 * than twice the tensor's 2-norm, or 1. */
static double rounding_of(const struct trip *trip)
{
    double most = 1;
    for (size_t i = 0; i < trip->subject.count; i++)
        if (isfinite(trip->input[i]))
            most = fmax(most, fabs((double)trip->input[i]));
    return 0x1p-22 * most * sqrt((double)trip->subject.count);
}

static void check_untouched(const struct trip *trip)
{
    if (memcmp(trip->residual, trip->input, trip->len) == 0)
        return;
    FUZZ_CHECK(!(trip->subject.about.traits & TERSE_CODEC_SELECTING));
    const size_t first = (size_t)terse_layout_count(trip->subject.layout) - last_count(trip);
    const double rounding = rounding_of(trip);
    for (size_t i = 0; i < first; i++)
        FUZZ_CHECK(fabs((double)trip->residual[i] - (double)trip->input[i]) <= rounding);
    /* the last tensor is the refused one: otherwise nothing was rolled back */
    FUZZ_CHECK(memcmp(trip->residual + first, trip->input + first,
                      trip->len - first * sizeof(float)) == 0);
}

static terse_status encode(struct trip *trip, uint32_t pass)
{
    struct fuzz_subject *subject = &trip->subject;
    const size_t bound = terse_codec_payload_bound(subject->codec, pass);
    uint8_t *payload = fuzz_room(bound);
    size_t len = 0;
    terse_fault fault;
    const terse_status status = terse_codec_encode_take(subject->codec, pass, &subject->key,
                                                        trip->residual, payload, bound, &len);
    if (status == TERSE_OK) {
        FUZZ_CHECK(len <= bound);
        FUZZ_CHECK(!(subject->about.traits & TERSE_CODEC_FIXED_LEN) || len == bound);
        FUZZ_CHECK(terse_codec_decode_add(subject->codec, pass, &subject->key, payload, len,
                                          trip->decoded, &fault) == TERSE_OK);
    } else {
        FUZZ_CHECK(status == TERSE_NOT_FINITE || status == TERSE_OUT_OF_RANGE);
        check_untouched(trip);
    }
    free(payload);
    return status;
}

/* encode gives the payload of encode_take, and only reads. One pass: the second needs the first. */
static void check_encode(struct trip *trip)
{
    struct fuzz_subject *subject = &trip->subject;
    const size_t bound = terse_codec_payload_bound(subject->codec, 0);
    uint8_t *taken = fuzz_room(bound);
    uint8_t *read = fuzz_room(bound);
    float *copy = fuzz_room(trip->len);
    size_t taken_len = 0;
    size_t read_len = 0;
    memcpy(copy, trip->input, trip->len);
    const terse_status status =
        terse_codec_encode(subject->codec, 0, &subject->key, copy, read, bound, &read_len);
    FUZZ_CHECK(memcmp(copy, trip->input, trip->len) == 0);
    FUZZ_CHECK(terse_codec_encode_take(subject->codec, 0, &subject->key, copy, taken, bound,
                                       &taken_len) == status);
    FUZZ_CHECK(read_len == taken_len);
    FUZZ_CHECK(memcmp(read, taken, read_len) == 0);
    free(copy);
    free(read);
    free(taken);
}

/* Equal, or zeros of different signs: the sign of a zero is not preserved. */
static int same(float a, float b)
{
    return fuzz_bits(a) == fuzz_bits(b) || (fpclassify(a) == FP_ZERO && fpclassify(b) == FP_ZERO);
}

static void check_conserved(const struct trip *trip)
{
    const int halves = strstr(terse_codec_spec(trip->subject.codec), "values=f16") != NULL;
    const int selects = trip->subject.about.traits & TERSE_CODEC_SELECTING && !halves;
    for (size_t i = 0; i < trip->subject.count; i++) {
        const int is_encoded = fpclassify(trip->decoded[i]) != FP_ZERO;
        if (selects) {
            FUZZ_CHECK(same(trip->residual[i], is_encoded ? 0 : trip->input[i]));
            FUZZ_CHECK(!is_encoded || same(trip->decoded[i], trip->input[i]));
        } else {
            FUZZ_CHECK(same(trip->residual[i], trip->input[i] - trip->decoded[i]));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct trip trip;
    if (!fuzz_subject_make(&trip.subject, bytes, len))
        return 0;
    trip.len = trip.subject.count * sizeof(float);
    trip.input = fuzz_floats(&trip.subject);
    trip.residual = fuzz_room(trip.len);
    trip.decoded = fuzz_room(trip.len);
    memcpy(trip.residual, trip.input, trip.len);
    memset(trip.decoded, 0, trip.len);
    check_encode(&trip);
    terse_status status = TERSE_OK;
    for (uint32_t pass = 0; pass < trip.subject.about.passes && status == TERSE_OK; pass++)
        status = encode(&trip, pass);
    if (status == TERSE_OK)
        check_conserved(&trip);
    free(trip.decoded);
    free(trip.residual);
    free(trip.input);
    fuzz_subject_free(&trip.subject);
    return 0;
}
