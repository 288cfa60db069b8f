/* doc_examples_test DOCUMENT [--print]: the hexadecimal examples of docs/wire-format.md are what
 * the library says. A block of the document that starts with
 *
 *     ```input vector        ```payload SPEC      ```says SPEC       ```frame SPEC
 *     ```input matrix        ```payload-0 SPEC    ```payload-1 SPEC
 *
 * holds floats or bytes; text behind a # is a comment. --print shows them instead of comparing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <terse/terse.h>

#define MAX_TEXT 65536u
#define MAX_ITEMS 1024u
#define MAX_COUNT 12u

static const terse_rng_key key = {.seed = 1, .step = 2, .worker = 0};

static char document[MAX_TEXT];

/* What the library says about one example. */
struct example {
    uint8_t payload[2][MAX_ITEMS];
    size_t len[2];
    uint8_t frame[MAX_ITEMS];
    size_t frame_len;
    float said[MAX_COUNT];
    size_t count;
};

/* ---- the document ---- */

/* The block that starts with "```HEAD\n", or NULL; its end in *end. */
static const char *find_block(const char *head, const char **end)
{
    char fence[256];
    (void)snprintf(fence, sizeof fence, "\n```%s\n", head);
    const char *at = strstr(document, fence);
    if (!at)
        return NULL;
    at += strlen(fence);
    *end = strstr(at, "```");
    assert_non_null(*end);
    return at;
}

/* The words of a block, comments left out, each handed to `take`. */
static void each_word(const char *at, const char *end,
                      void (*take)(const char *word, void *context), void *context)
{
    while (at < end) {
        at += strspn(at, " \n");
        if (at < end && *at == '#') {
            at += strcspn(at, "\n");
        } else if (at < end) {
            char word[64];
            const size_t len = strcspn(at, " \n");
            assert_true(len < sizeof word);
            memcpy(word, at, len);
            word[len] = '\0';
            take(word, context);
            at += len;
        }
    }
}

struct bytes {
    uint8_t at[MAX_ITEMS];
    size_t len;
};

static void take_byte(const char *word, void *context)
{
    struct bytes *bytes = context;
    char *rest;
    assert_int_equal(strlen(word), 2);
    bytes->at[bytes->len++] = (uint8_t)strtoul(word, &rest, 16);
    assert_int_equal(*rest, '\0');
    assert_true(bytes->len < MAX_ITEMS);
}

struct floats {
    float at[MAX_COUNT];
    size_t count;
};

static void take_float(const char *word, void *context)
{
    struct floats *floats = context;
    char *rest;
    assert_true(floats->count < MAX_COUNT);
    floats->at[floats->count++] = strtof(word, &rest);
    assert_int_equal(*rest, '\0');
}

static struct floats read_floats(const char *head)
{
    struct floats floats = {.count = 0};
    const char *end = document;
    const char *at = find_block(head, &end);
    if (!at)
        fail_msg("no block %s", head);
    each_word(at, end, take_float, &floats);
    return floats;
}

/* ---- the library ---- */

static terse_codec *codec_for(const char *spec, int is_matrix)
{
    terse_layout *layout;
    terse_codec *codec;
    assert_int_equal(terse_layout_create(&layout), TERSE_OK);
    if (is_matrix)
        assert_int_equal(terse_layout_add(layout, "m", 2, (const uint64_t[]){4, 3}), TERSE_OK);
    else
        assert_int_equal(terse_layout_add(layout, "", 1, (const uint64_t[]){8}), TERSE_OK);
    assert_int_equal(terse_codec_create(spec, layout, NULL, &codec, NULL), TERSE_OK);
    terse_layout_destroy(layout);
    return codec;
}

static struct example example_of(const char *spec, uint32_t passes)
{
    struct example example = {0};
    const struct floats input = read_floats(passes > 1 ? "input matrix" : "input vector");
    terse_codec *codec = codec_for(spec, passes > 1);
    example.count = (size_t)terse_layout_count(terse_codec_layout(codec));
    assert_int_equal(example.count, input.count);
    for (uint32_t pass = 0; pass < passes; pass++) {
        assert_int_equal(terse_codec_encode(codec, pass, &key, input.at, example.payload[pass],
                                            MAX_ITEMS, &example.len[pass]),
                         TERSE_OK);
        assert_int_equal(terse_codec_decode_add(codec, pass, &key, example.payload[pass],
                                                example.len[pass], example.said, NULL),
                         TERSE_OK);
    }
    assert_int_equal(terse_frame_seal(codec, 0, &key, example.payload[0], example.len[0], 1,
                                      example.frame, MAX_ITEMS, &example.frame_len),
                     TERSE_OK);
    terse_codec_destroy(codec);
    return example;
}

/* ---- comparing ---- */

static void check_bytes(const char *head, const uint8_t *expected, size_t len)
{
    struct bytes bytes = {.len = 0};
    const char *end = document;
    const char *at = find_block(head, &end);
    if (!at)
        fail_msg("no block %s", head);
    each_word(at, end, take_byte, &bytes);
    assert_int_equal(bytes.len, len);
    assert_memory_equal(bytes.at, expected, len);
}

/* Compares every block of this spec that the document has; at least its payloads. */
static void check_spec(const char *spec, uint32_t passes)
{
    char head[128];
    const char *end = document;
    const struct example example = example_of(spec, passes);
    for (uint32_t pass = 0; pass < passes; pass++) {
        if (passes == 1)
            (void)snprintf(head, sizeof head, "payload %s", spec);
        else
            (void)snprintf(head, sizeof head, "payload-%u %s", pass, spec);
        check_bytes(head, example.payload[pass], example.len[pass]);
    }
    (void)snprintf(head, sizeof head, "frame %s", spec);
    if (find_block(head, &end))
        check_bytes(head, example.frame, example.frame_len);
    (void)snprintf(head, sizeof head, "says %s", spec);
    if (find_block(head, &end)) {
        const struct floats said = read_floats(head);
        assert_int_equal(said.count, example.count);
        for (size_t i = 0; i < said.count; i++)
            assert_memory_equal(&said.at[i], &example.said[i], sizeof(float));
    }
}

/* The spec of the example that the document has for a codec. */
static void find_spec(const char *name, char *spec, size_t cap)
{
    static const char *const fences[] = {"\n```payload ", "\n```payload-0 "};
    for (size_t i = 0; i < 2; i++) {
        for (const char *at = document; (at = strstr(at, fences[i])) != NULL;) {
            at += strlen(fences[i]);
            const size_t len = strcspn(at, "\n");
            if (strcspn(at, ":\n") == strlen(name) && strncmp(at, name, strlen(name)) == 0) {
                assert_true(len < cap);
                memcpy(spec, at, len);
                spec[len] = '\0';
                return;
            }
        }
    }
    fail_msg("no example of %s", name);
}

static void every_codec_has_a_true_example(void **unused)
{
    (void)unused;
    terse_codec_about about;
    for (uint32_t i = 0; terse_codec_list(i, &about) == TERSE_OK; i++) {
        char spec[128];
        find_spec(about.name, spec, sizeof spec);
        print_message("%s\n", spec);
        check_spec(spec, about.passes);
    }
}

static void the_document_shows_a_whole_frame(void **unused)
{
    (void)unused;
    const char *end = document;
    assert_non_null(find_block("frame sign", &end));
    check_spec("sign", 1);
}

/* ---- printing ---- */

static void print_bytes(const char *what, const uint8_t *bytes, size_t len)
{
    (void)printf("%s\n", what);
    for (size_t i = 0; i < len; i++)
        (void)printf("%02x%s", bytes[i], i % 16 == 15 || i + 1 == len ? "\n" : " ");
}

static int print_spec(const char *spec, uint32_t passes)
{
    const struct example example = example_of(spec, passes);
    for (uint32_t pass = 0; pass < passes; pass++)
        print_bytes(spec, example.payload[pass], example.len[pass]);
    print_bytes("frame", example.frame, example.frame_len);
    for (size_t i = 0; i < example.count; i++)
        (void)printf("%.9g%s", (double)example.said[i], i + 1 == example.count ? "\n" : " ");
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_has_a_true_example),
        cmocka_unit_test(the_document_shows_a_whole_frame),
    };
    FILE *file = argc >= 2 ? fopen(argv[1], "rb") : NULL;
    if (!file) {
        (void)fprintf(stderr, "usage: doc_examples_test DOCUMENT [--print SPEC ROUNDS]\n");
        return 2;
    }
    const size_t len = fread(document, 1, MAX_TEXT - 1, file);
    (void)fclose(file);
    document[len] = '\0';
    if (argc == 5 && strcmp(argv[2], "--print") == 0)
        return print_spec(argv[3], (uint32_t)strtoul(argv[4], NULL, 10));
    return cmocka_run_group_tests_name("document", tests, NULL, NULL);
}
