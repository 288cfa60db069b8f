/* The rows of the settings: each is complete, comes back from JSON, and docs/train.md lists which
 * of them may differ in a resumed run. */
#include "loop/options.h"

#include <stdio.h>

#include "common/file.h"
#include "support/support.h"

/* Two settings that differ in every value. */
static struct trn_settings some(int which)
{
    const uint32_t n = which ? 2 : 1;
    return (struct trn_settings){.model = which ? "cnn" : "mlp",
                                 .data = which ? "digits" : "fashion",
                                 .method = which ? "dense" : "signum",
                                 .plugin = which ? "none" : "./mine.so",
                                 .shard = which ? "iid" : "range",
                                 .weighting = which ? "equal" : "shard",
                                 .adversaries = which ? "none" : "1:zero",
                                 .init = which ? "e" : "f",
                                 .reinit = which ? "g" : "h",
                                 .classes = which ? "0" : "1",
                                 .out = which ? "a" : "b",
                                 .resume = which ? "c" : "d",
                                 .lr = 0.1 * n,
                                 .workers = n,
                                 .node_size = n,
                                 .overlap = which ? "on" : "off",
                                 .batch = n,
                                 .accumulate = n,
                                 .batches = n,
                                 .validation = 0.01 * n,
                                 .epochs = n,
                                 .steps = n,
                                 .seed = n,
                                 .threads = n,
                                 .codec_threads = n,
                                 .checkpoint_every = n,
                                 .evaluate_every = n,
                                 .target = 0.1 * n,
                                 .augment = which,
                                 .timeout = 10 * n};
}

static void rows_are_whole(void **state)
{
    (void)state;
    for (const struct com_option *row = trn_options; row->name; row++) {
        struct trn_settings settings = {0};
        terse_fault fault = {0};
        const int is_number = row->kind != COM_OPTION_TEXT && row->kind != COM_OPTION_FLAG;
        print_message("--%s\n", row->name);
        assert_non_null(row->help);
        assert_true(row->flags & (TRN_OF_TRAIN | TRN_OF_COMPARE));
        assert_int_equal(row->kind == COM_OPTION_FLAG, !row->word);
        assert_int_equal(is_number, row->high > row->low);
        if (row->flags & (TRN_RESUMED | TRN_SHARED))
            assert_non_null(row->key); /* a value without a key cannot be compared */
        if (strstr(row->help, "{default}"))
            assert_non_null(row->usual);
        if (strstr(row->help, "{choices}"))
            assert_non_null(row->choices);
        if (row->usual) {
            assert_int_equal(com_option_set(row, row->usual, &settings, &fault), TERSE_OK);
            assert_non_null(strstr(row->help, "{default}"));
        }
    }
}

static void settings_come_back_from_json(void **state)
{
    const struct trn_settings old = some(0);
    struct trn_settings now = some(1);
    char how[200];
    (void)state;
    com_json *const json = com_json_object();
    trn_options_write(&old, json);
    for (const struct com_option *row = trn_options; row->name; row++)
        assert_int_equal(com_option_read(row, json, &now), row->key != NULL);
    assert_null(trn_options_differ(&now, json, TRN_RESUMED | TRN_SHARED, how, sizeof how));
    assert_string_equal(now.shard, "range");
    assert_true(now.timeout == old.timeout && now.target == old.target);
    com_json_free(json);
}

/* Every option alone, changed: it is found if and only if it must be the same. */
static void one_that_differs_is_found(void **state)
{
    const struct trn_settings old = some(0);
    static const unsigned flags[] = {TRN_RESUMED, TRN_SHARED};
    char how[200];
    (void)state;
    for (const struct com_option *row = trn_options; row->name; row++) {
        const struct trn_settings other = some(1);
        com_json *const changed = com_json_object();
        com_json *const json = com_json_object();
        struct trn_settings now = old;
        if (!row->key) {
            com_json_free(changed);
            com_json_free(json);
            continue;
        }
        com_option_write(row, &other, changed);
        assert_true(com_option_read(row, changed, &now));
        trn_options_write(&old, json);
        for (int i = 0; i < 2; i++) {
            const struct com_option *const found =
                trn_options_differ(&now, json, flags[i], how, sizeof how);
            assert_ptr_equal(found, row->flags & flags[i] ? row : NULL);
            if (found)
                assert_non_null(strstr(how, row->key));
        }
        com_json_free(changed);
        com_json_free(json);
    }
}

static void steps_that_follow_from_epochs_are_not_compared(void **state)
{
    struct trn_settings settings = some(0);
    char how[200];
    com_json *const json = com_json_object();
    (void)state;
    trn_options_write(&settings, json);
    settings.steps = 0;
    assert_null(trn_options_differ(&settings, json, TRN_SHARED, how, sizeof how));
    settings.epochs = 0;
    assert_string_equal(trn_options_differ(&settings, json, TRN_SHARED, how, sizeof how)->name,
                        "epochs");
    com_json_free(json);
}

static void the_command_repeats_the_run(void **state)
{
    struct trn_settings settings = {.method = "def:ratio=64,lr=0.02",
                                    .model = "mlp",
                                    .data = "digits",
                                    .workers = 4,
                                    .epochs = 10,
                                    .steps = 460,
                                    .batch = 64,
                                    .seed = 2};
    struct com_text text = {0};
    (void)state;
    trn_options_command(&settings, &text);
    assert_string_equal(text.bytes, "terse train --method def:ratio=64,lr=0.02 --model mlp "
                                    "--data digits --epochs 10 --batch 64 --seed 2");
    com_text_free(&text);
}

static void the_docs_list_what_may_differ(void **state)
{
    char path[1024];
    char word[64];
    uint8_t *bytes;
    size_t len;
    (void)state;
    assert_non_null(getenv("TERSE_SOURCE"));
    (void)snprintf(path, sizeof path, "%s/docs/train.md", getenv("TERSE_SOURCE"));
    assert_int_equal(com_file_read(path, &bytes, &len, NULL), TERSE_OK);
    char *const text = (char *)bytes; /* a reader allocates one byte more */
    text[len] = '\0';
    char *const from = strstr(text, "These may differ:\n");
    assert_non_null(from);
    char *const to = strstr(from, "\n\nA damaged checkpoint");
    assert_non_null(to);
    *to = '\0';
    for (const struct com_option *row = trn_options; row->name; row++) {
        (void)snprintf(word, sizeof word, "`--%s`", row->name);
        if (row->key && !(row->flags & TRN_RESUMED) != !!strstr(from, word))
            fail_msg("docs/train.md, \"These may differ\": %s", word);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_whole),
        cmocka_unit_test(settings_come_back_from_json),
        cmocka_unit_test(one_that_differs_is_found),
        cmocka_unit_test(steps_that_follow_from_epochs_are_not_compared),
        cmocka_unit_test(the_command_repeats_the_run),
        cmocka_unit_test(the_docs_list_what_may_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
