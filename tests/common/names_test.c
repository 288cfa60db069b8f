/* Names that people type: how far apart they are, which was meant, which there are. */
#include "common/names.h"

#include "support/support.h"

static const char *few(uint32_t index)
{
    static const char *const names[] = {"encode", "decode", "inspect", "cnn", "resnet20"};
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

static const char *none(uint32_t index)
{
    (void)index;
    return NULL;
}

static void edits_are_counted(void **state)
{
    static const struct {
        const char *word;
        const char *name;
        size_t edits;
    } known[] = {
        {"", "", 0},      {"", "abc", 3},    {"abc", "", 3},           {"abc", "abc", 0},
        {"ab", "abc", 1}, {"acb", "abc", 2}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(com_edits(known[i].word, strlen(known[i].word), known[i].name),
                         known[i].edits);
    assert_int_equal(com_edits("abcdef", 3, "abc"), 0); /* what follows does not count */
    assert_int_equal(com_edits("123456789012345678901234567890123", 33, "x"), 34);
}

static void expect(const char *word, int index)
{
    const int nearest = com_names_nearest(few, word, strlen(word));
    if (nearest != index)
        fail_msg("'%s' is nearest to %d, expected %d", word, nearest, index);
}

static void the_nearest_is_found(void **state)
{
    (void)state;
    expect("encode", 0);
    expect("encod", 0);
    expect("dec", 1);
    expect("inspekt", 2);
    expect("cn", 3);
    expect("resnet", 4);
    expect("resent20", 4);
    expect("frobnicate", COM_NO_NAME);
    expect("", COM_NO_NAME);
    expect("a-word-that-is-longer-than-any-name-could-be", COM_NO_NAME);
    assert_int_equal(com_names_nearest(few, "cifar:x", 5), COM_NO_NAME);
    assert_int_equal(com_names_nearest(none, "x", 1), COM_NO_NAME);
}

static void names_are_joined(void **state)
{
    char text[64];
    char small[12];
    (void)state;
    assert_string_equal(com_names_join(few, ", ", text, sizeof text),
                        "encode, decode, inspect, cnn, resnet20");
    assert_string_equal(com_names_join(few, " ", small, sizeof small), "encode deco");
    assert_string_equal(com_names_join(none, ", ", text, sizeof text), "");
}

static void patterns_match_as_a_shell_does(void **state)
{
    static const struct {
        const char *patterns;
        const char *name;
        int matches;
    } known[] = {{"fc.*", "fc.weight", 1},
                 {"fc.*", "fc1.weight", 0},
                 {"fc*", "fc1.weight", 1},
                 {"fc.*", "head.fc.weight", 0},
                 {"*.bias", "a.b.bias", 1},
                 {"a,b?,c", "b1", 1},
                 {"a,b?,c", "c", 1},
                 {"a,b?,c", "b", 0},
                 {"conv[12].*", "conv2.bias", 1},
                 {"", "", 0},
                 {NULL, "x", 0},
                 {"*", "layer1.0.conv1.weight", 1}};
    char word[4];
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(com_patterns_match(known[i].patterns, known[i].name), known[i].matches);
    const char *const next = com_pattern_next("abcdef,x", word, sizeof word);
    assert_string_equal(word, "abc");
    assert_string_equal(next, "x");
    assert_string_equal(com_pattern_next(next, word, sizeof word), "");
    assert_null(com_pattern_next("", word, sizeof word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_are_counted),
        cmocka_unit_test(the_nearest_is_found),
        cmocka_unit_test(names_are_joined),
        cmocka_unit_test(patterns_match_as_a_shell_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
