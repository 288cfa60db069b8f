/* refuse_test REFUSE: every kernel set refuses every frame there, for the reason that RULES.tsv
 * records.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <terse/terse.h>

#define MAX_FILE 8192u
#define MAX_LINE 1024u
#define GUARD 64u /* floats before and behind the output that nobody may touch */

static const char *directory;

/* One line of RULES.tsv. */
struct rule {
    char line[MAX_LINE];
    const char *file;
    const char *status;
    const char *offset;
    const char *text;
};

static FILE *open_file(const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot open %s", path);
    return file;
}

/* The next line that is not a comment; 0 at the end. */
static int next_rule(FILE *table, struct rule *rule)
{
    do {
        if (!fgets(rule->line, sizeof rule->line, table))
            return 0;
    } while (rule->line[0] == '#');
    rule->line[strcspn(rule->line, "\n")] = '\0';
    char *rest = NULL;
    rule->file = strtok_r(rule->line, "\t", &rest);
    rule->status = strtok_r(NULL, "\t", &rest);
    rule->offset = strtok_r(NULL, "\t", &rest);
    rule->text = strtok_r(NULL, "\t", &rest);
    assert_non_null(rule->text);
    return 1;
}

/* The same bytes at the end of an allocation of their own: a sanitizer sees what is read behind. */
static uint8_t *read_tight(const char *name, size_t *len)
{
    uint8_t bytes[MAX_FILE];
    FILE *file = open_file(name);
    *len = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(fclose(file), 0);
    assert_true(*len < sizeof bytes);
    uint8_t *tight = malloc(*len ? *len : 1);
    assert_non_null(tight);
    memcpy(tight, bytes, *len);
    return tight;
}

static terse_status decode(terse_codec *codec, const terse_frame *frame, terse_fault *fault)
{
    const size_t count = (size_t)frame->count;
    const terse_rng_key key = {frame->seed, frame->step, frame->worker};
    float *floats = malloc((count + 2 * GUARD) * sizeof *floats);
    assert_non_null(floats);
    for (size_t i = 0; i < count + 2 * GUARD; i++)
        floats[i] = 0.5f;
    const terse_status status = terse_codec_decode_add(codec, frame->pass, &key, frame->payload,
                                                       frame->payload_len, floats + GUARD, fault);
    for (size_t i = 0; i < GUARD; i++) {
        assert_memory_equal(&floats[i], &(float){0.5f}, sizeof(float));
        assert_memory_equal(&floats[GUARD + count + i], &(float){0.5f}, sizeof(float));
    }
    free(floats);
    return status;
}

/* Everything a reader of files does. Offsets in the fault count from the frame's first byte. */
static terse_status read_all(const uint8_t *bytes, size_t len, terse_fault *fault)
{
    terse_frame frame;
    terse_layout *layout = NULL;
    terse_codec *codec = NULL;
    terse_status status = terse_frame_open(bytes, len, &frame, NULL, fault);
    if (status != TERSE_OK)
        return status;
    status = frame.layout ? terse_frame_layout(&frame, &layout, fault)
                          : terse_layout_vector(frame.count, &layout);
    assert_int_equal(status, TERSE_OK); /* open has checked it */
    status = terse_frame_codec(&frame, layout, NULL, &codec, fault);
    if (status == TERSE_OK) {
        status = decode(codec, &frame, fault);
        fault->offset += (uint64_t)(frame.payload - bytes);
    }
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
    return status;
}

static void check_every_rule(void)
{
    struct rule rule;
    uint32_t seen = 0;
    FILE *table = open_file("RULES.tsv");
    while (next_rule(table, &rule)) {
        terse_fault fault = {0};
        size_t len;
        char offset[32];
        uint8_t *bytes = read_tight(rule.file, &len);
        const terse_status status = read_all(bytes, len, &fault);
        print_message("%s: %s, offset %llu: %s\n", rule.file, terse_status_text(status),
                      (unsigned long long)fault.offset, fault.text);
        (void)snprintf(offset, sizeof offset, "%llu", (unsigned long long)fault.offset);
        assert_string_equal(terse_status_text(status), rule.status);
        assert_string_equal(fault.text, rule.text);
        assert_string_equal(offset, rule.offset);
        assert_int_not_equal(status, TERSE_OK);
        free(bytes);
        seen++;
    }
    assert_int_equal(fclose(table), 0);
    assert_true(seen > 0);
}

static void every_defect_is_named_by_every_kernel_set(void **unused)
{
    (void)unused;
    terse_kernel_set_about about;
    for (uint32_t set = 0; terse_kernel_set_list(set, &about) == TERSE_OK; set++) {
        if (!about.supported) {
            print_message("set %s is not checked: needs %s\n", about.name, about.needs);
            continue;
        }
        print_message("kernel set %s\n", about.name);
        assert_int_equal(terse_kernel_set_select(about.name, NULL), TERSE_OK);
        check_every_rule();
    }
    assert_int_equal(terse_kernel_set_select(NULL, NULL), TERSE_OK);
}

static uint32_t lines_for(const char *file)
{
    struct rule rule;
    uint32_t lines = 0;
    FILE *table = open_file("RULES.tsv");
    while (next_rule(table, &rule))
        lines += strcmp(rule.file, file) == 0;
    assert_int_equal(fclose(table), 0);
    return lines;
}

static void every_file_has_a_rule(void **unused)
{
    (void)unused;
    DIR *folder = opendir(directory);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *ending = strrchr(entry->d_name, '.');
        if (ending && strcmp(ending, ".terse") == 0 && lines_for(entry->d_name) != 1)
            fail_msg("%s is not once in RULES.tsv", entry->d_name);
    }
    assert_int_equal(closedir(folder), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_defect_is_named_by_every_kernel_set),
        cmocka_unit_test(every_file_has_a_rule),
    };
    if (argc != 2) {
        (void)fprintf(stderr, "usage: refuse_test REFUSE\n");
        return 2;
    }
    directory = argv[1];
    return cmocka_run_group_tests_name("refuse", tests, NULL, NULL);
}
