/* golden_test FRAMES: every kernel set makes the golden frames byte for byte and reads them to the
 * golden floats bit for bit. (The second decoder reads them in check_decoder.py.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden/cases.h"

#define MAX_FILE 8192u

static const char *directory;

static size_t read_file(const char *name, uint8_t *bytes)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot open %s", path);
    const size_t len = fread(bytes, 1, MAX_FILE, file);
    assert_int_equal(fclose(file), 0);
    assert_true(len < MAX_FILE);
    return len;
}

static size_t read_floats(const struct golden_case *golden, uint8_t *bytes)
{
    char name[128];
    (void)snprintf(name, sizeof name, "%s.f32", golden->name);
    return read_file(name, bytes);
}

/* Runs `check` for every case at every kernel set that this machine has. */
static void with_every_kernel_set(void (*check)(const struct golden_case *golden))
{
    terse_kernel_set_about about;
    for (uint32_t set = 0; terse_kernel_set_list(set, &about) == TERSE_OK; set++) {
        if (!about.supported) {
            print_message("set %s is not checked: needs %s\n", about.name, about.needs);
            continue;
        }
        assert_int_equal(terse_kernel_set_select(about.name, NULL), TERSE_OK);
        for (uint32_t i = 0; i < golden_case_count; i++) {
            print_message("%s at %s\n", golden_cases[i].name, about.name);
            check(&golden_cases[i]);
        }
    }
    assert_int_equal(terse_kernel_set_select(NULL, NULL), TERSE_OK);
}

static void check_made(const struct golden_case *golden)
{
    struct golden_made made;
    uint8_t bytes[MAX_FILE];
    char name[128];
    assert_int_equal(golden_make(golden, &made), TERSE_OK);
    for (uint32_t i = 0; i < made.frame_count; i++) {
        golden_frame_name(golden, &made, i, name, sizeof name);
        assert_int_equal(read_file(name, bytes), made.len[i]);
        assert_memory_equal(bytes, made.frame[i], made.len[i]);
    }
    assert_int_equal(read_floats(golden, bytes), made.count * sizeof(float));
    assert_memory_equal(bytes, made.decoded, made.count * sizeof(float));
    golden_free(&made);
}

static void frames_are_made_byte_for_byte(void **unused)
{
    (void)unused;
    with_every_kernel_set(check_made);
}

/* A reader that knows nothing but the file, and the layout of frames that carry none. */
struct reader {
    terse_layout *layout;
    terse_codec *codec;
    float *sum;
};

static uint32_t read_frame(struct reader *reader, const char *name)
{
    uint8_t bytes[MAX_FILE];
    terse_frame frame;
    terse_fault fault;
    terse_codec_about about;
    const size_t len = read_file(name, bytes);
    assert_int_equal(terse_frame_open(bytes, len, &frame, NULL, &fault), TERSE_OK);
    if (!reader->codec) {
        if (frame.layout)
            assert_int_equal(terse_frame_layout(&frame, &reader->layout, &fault), TERSE_OK);
        else
            assert_int_equal(terse_layout_vector(frame.count, &reader->layout), TERSE_OK);
        assert_int_equal(terse_frame_codec(&frame, reader->layout, NULL, &reader->codec, &fault),
                         TERSE_OK);
        reader->sum = calloc(frame.count + 1, sizeof(float));
        assert_non_null(reader->sum);
    }
    assert_int_equal(terse_frame_match(&frame, reader->codec, &fault), TERSE_OK);
    const terse_rng_key key = {frame.seed, frame.step, frame.worker};
    assert_int_equal(terse_codec_decode_add(reader->codec, frame.pass, &key, frame.payload,
                                            frame.payload_len, reader->sum, &fault),
                     TERSE_OK);
    terse_codec_describe(reader->codec, &about);
    return about.passes;
}

static void check_read(const struct golden_case *golden)
{
    struct reader reader = {0};
    uint8_t bytes[MAX_FILE];
    char name[128];
    if (strncmp(golden->spec, "low-rank", 8) == 0) {
        for (uint32_t pass = 0; pass < 2; pass++) {
            (void)snprintf(name, sizeof name, "%s-%u.terse", golden->name, pass);
            assert_int_equal(read_frame(&reader, name), 2);
        }
    } else {
        (void)snprintf(name, sizeof name, "%s.terse", golden->name);
        assert_int_equal(read_frame(&reader, name), 1);
    }
    const size_t len = read_floats(golden, bytes);
    assert_int_equal(len, terse_layout_count(reader.layout) * sizeof(float));
    assert_memory_equal(bytes, reader.sum, len);
    terse_codec_destroy(reader.codec);
    terse_layout_destroy(reader.layout);
    free(reader.sum);
}

static void frames_are_read_bit_for_bit(void **unused)
{
    (void)unused;
    with_every_kernel_set(check_read);
}

/* The cases show what their names promise. */
static void the_wrapped_block_wraps(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < golden_case_count; i++) {
        uint8_t bytes[MAX_FILE];
        float values[100];
        if (strcmp(golden_cases[i].name, "block-wrap") != 0)
            continue;
        assert_int_equal(read_floats(&golden_cases[i], bytes), sizeof values);
        memcpy(values, bytes, sizeof values);
        assert_true(values[0] < 0 || values[0] > 0);
        assert_true(values[99] < 0 || values[99] > 0);
        assert_false(values[50] < 0 || values[50] > 0);
        return;
    }
    fail_msg("no case block-wrap");
}

static void every_codec_has_a_case(void **unused)
{
    (void)unused;
    terse_codec_about about;
    for (uint32_t i = 0; terse_codec_list(i, &about) == TERSE_OK; i++) {
        uint32_t cases = 0;
        for (uint32_t j = 0; j < golden_case_count; j++) {
            const size_t len = strcspn(golden_cases[j].spec, ":");
            cases +=
                strlen(about.name) == len && strncmp(about.name, golden_cases[j].spec, len) == 0;
        }
        if (cases == 0)
            fail_msg("no golden frame of %s", about.name);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_made_byte_for_byte),
        cmocka_unit_test(frames_are_read_bit_for_bit),
        cmocka_unit_test(the_wrapped_block_wraps),
        cmocka_unit_test(every_codec_has_a_case),
    };
    if (argc != 2) {
        (void)fprintf(stderr, "usage: golden_test FRAMES\n");
        return 2;
    }
    directory = argv[1];
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
