/* The door for payloads: every codec's decode_add, on raw bytes. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/subject.h"

/* The payload in an allocation of its own, so that a sanitizer sees what is read behind it. */
static void decode(struct fuzz_subject *subject, uint32_t pass, const uint8_t *bytes, size_t len,
                   float *out)
{
    terse_fault fault = {0};
    uint8_t *payload = fuzz_room(len);
    if (len > 0)
        memcpy(payload, bytes, len);
    const terse_status status =
        terse_codec_decode_add(subject->codec, pass, &subject->key, payload, len, out, &fault);
    if (status == TERSE_BAD_FRAME)
        FUZZ_CHECK(fault.offset <= len && fault.text[0]);
    else /* the second pass without the first is the caller's mistake */
        FUZZ_CHECK(status == TERSE_OK || (status == TERSE_BAD_ARGUMENT && pass > 0));
    free(payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct fuzz_subject subject;
    if (!fuzz_subject_make(&subject, bytes, len))
        return 0;
    float *out = fuzz_room(subject.count * sizeof *out);
    memset(out, 0, subject.count * sizeof *out);
    size_t at = 0;
    for (uint32_t pass = 0; pass < subject.about.passes; pass++) {
        /* Half of the inputs have the right length, so that more than the length is tried. */
        const size_t left = subject.rest_len - at;
        const size_t bound = terse_codec_payload_bound(subject.codec, pass);
        const size_t part = subject.raw && bound < left ? bound : left;
        decode(&subject, pass, subject.rest + at, part, out);
        at += part;
    }
    free(out);
    fuzz_subject_free(&subject);
    return 0;
}
