/* Texts that grow: what is added, what is escaped, which bytes are characters. */
#include "common/text.h"

#include <math.h>

#include "common/utf8.h"
#include "support/support.h"

static void pieces_follow_each_other(void **state)
{
    (void)state;
    struct com_text text = {0};
    com_text_put(&text, "a");
    com_text_format(&text, "%d-%s", 12, "b");
    com_text_add(&text, "cd", 1);
    assert_string_equal(text.bytes, "a12-bc");
    assert_int_equal(text.len, 6);
    for (int i = 0; i < 5000; i++) /* past the first buffer, one character at a time */
        com_text_format(&text, "%c", 'a' + i % 26);
    assert_false(text.failed);
    assert_int_equal(text.len, 5006);
    assert_int_equal(strlen(text.bytes), text.len);
    com_text_free(&text);
    assert_null(text.bytes);
}

static void a_failure_stays(void **state)
{
    (void)state;
    struct com_text text = {0};
    com_text_put(&text, "a");
    com_text_add(&text, "", SIZE_MAX / 2);
    assert_true(text.failed);
    com_text_put(&text, "b");
    assert_int_equal(text.len, 1);
    com_text_free(&text);
}

static void markup_is_escaped(void **state)
{
    (void)state;
    struct com_text text = {0};
    com_text_html(&text, "<a b=\"c\"> & d");
    assert_string_equal(text.bytes, "&lt;a b=&quot;c&quot;&gt; &amp; d");
    com_text_free(&text);
}

static void strings_cannot_leave_their_script(void **state)
{
    (void)state;
    struct com_text text = {0};
    com_text_json_string(&text, "</script><!--\"\\\n\x7f & \xC3\xA9 \xFF\xED\xA0\x80 \xE2\x80\xA8");
    assert_string_equal(
        text.bytes,
        "\"\\u003c/script\\u003e\\u003c!--\\u0022\\u005c\\u000a\\u007f \\u0026 \xC3\xA9 "
        "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD \\u2028\"");
    free(text.bytes);
    text = (struct com_text){0};
    com_text_json_number(&text, 1350204);
    com_text_put(&text, " ");
    com_text_json_number(&text, 0.1);
    com_text_put(&text, " ");
    com_text_json_number(&text, INFINITY);
    assert_string_equal(text.bytes, "1350204 0.1 null");
    free(text.bytes);
}

static void every_character_is_read_and_written(void **state)
{
    (void)state;
    for (uint32_t code = 1; code <= 0x10FFFF; code++) {
        char bytes[5] = {0};
        const size_t len = com_utf8_write(code, bytes);
        const int is_surrogate = code >= 0xD800 && code <= 0xDFFF;
        if (com_utf8_len(bytes) != (is_surrogate ? 0 : len) ||
            (!is_surrogate && com_utf8_code(bytes, len) != code))
            fail_msg("U+%04X", (unsigned)code);
    }
    static const char *const none[] = {
        "\x80",     "\xC0\x80",         "\xC1\xBF",         "\xE0\x80\x80",
        "\xE2\x80", "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xFF"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(com_utf8_len(none[i]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_follow_each_other),
        cmocka_unit_test(a_failure_stays),
        cmocka_unit_test(markup_is_escaped),
        cmocka_unit_test(strings_cannot_leave_their_script),
        cmocka_unit_test(every_character_is_read_and_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
