/* Fuzzes specs of codecs and methods. An accepted spec has a complete form with the same meaning.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz/subject.h"

static void check_complete(const terse_codec *codec, const terse_layout *layout)
{
    terse_codec *again;
    terse_codec *opened;
    terse_fault fault;
    terse_codec_about about;
    uint8_t option_bytes[TERSE_OPTION_BYTES];
    uint8_t bytes_again[TERSE_OPTION_BYTES];
    terse_codec_describe(codec, &about);
    terse_codec_option_bytes(codec, option_bytes);
    FUZZ_CHECK(terse_codec_create(terse_codec_spec(codec), layout, NULL, &again, &fault) ==
               TERSE_OK);
    FUZZ_CHECK(strcmp(terse_codec_spec(again), terse_codec_spec(codec)) == 0);
    terse_codec_option_bytes(again, bytes_again);
    FUZZ_CHECK(memcmp(option_bytes, bytes_again, sizeof option_bytes) == 0);
    FUZZ_CHECK(terse_codec_open(about.wire_id, option_bytes, layout, NULL, &opened, &fault) ==
               TERSE_OK);
    FUZZ_CHECK(strcmp(terse_codec_spec(opened), terse_codec_spec(codec)) == 0);
    terse_codec_destroy(again);
    terse_codec_destroy(opened);
}

/* An accepted spec creates a method of one worker, or is refused for this layout or for the missing
 * number of steps; its complete form gives the same. */
static void check_method(const char *text, const terse_layout *layout)
{
    float weights[10] = {0};
    float *const all[1] = {weights};
    terse_method *method;
    terse_method *again;
    terse_fault fault = {0};
    terse_method_description chosen = {.size = sizeof chosen};
    const terse_status status = terse_method_describe(text, &chosen, &fault);
    if (status != TERSE_OK) {
        FUZZ_CHECK(status == TERSE_BAD_SPEC && fault.text[0]);
        FUZZ_CHECK(fault.offset <= strlen(text));
        return;
    }
    if (terse_method_create_all(text, 1, layout, all, NULL, &method, &fault) != TERSE_OK) {
        FUZZ_CHECK(fault.text[0]);
        return;
    }
    FUZZ_CHECK(terse_method_create_all(terse_method_spec(method), 1, layout, all, NULL, &again,
                                       &fault) == TERSE_OK);
    FUZZ_CHECK(strcmp(terse_method_spec(method), terse_method_spec(again)) == 0);
    FUZZ_CHECK(strcmp(terse_method_spec(method), chosen.spec) == 0);
    terse_method_destroy(method);
    terse_method_destroy(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char *text = fuzz_room(len + 1);
    terse_layout *layout;
    terse_codec *codec;
    terse_fault fault = {0};
    if (len > 0)
        memcpy(text, bytes, len);
    text[len] = '\0';
    FUZZ_CHECK(terse_layout_vector(10, &layout) == TERSE_OK);
    const terse_status status = terse_codec_create(text, layout, NULL, &codec, &fault);
    if (status == TERSE_OK) {
        check_complete(codec, layout);
        terse_codec_destroy(codec);
    } else {
        FUZZ_CHECK(status == TERSE_BAD_SPEC);
        FUZZ_CHECK(fault.offset <= strlen(text) && fault.text[0]);
    }
    check_method(text, layout);
    terse_layout_destroy(layout);
    free(text);
    return 0;
}
