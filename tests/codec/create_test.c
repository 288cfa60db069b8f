/* Creating codecs: faults of specs, and calls that are refused. */
#include <locale.h>
#include <stdio.h>

#include "support/support.h"

static terse_layout *layout_of(uint64_t count)
{
    terse_layout *layout = NULL;
    assert_int_equal(terse_layout_vector(count, &layout), TERSE_OK);
    return layout;
}

static void faults_of_specs_have_position_and_reason(void **unused)
{
    static const struct {
        const char *spec;
        uint64_t offset;
        const char *text;
    } cases[] = {
        {"topkk", 0, "no codec 'topkk'; did you mean 'topk'?"},
        {"", 0, "no codec ''"},
        {"zzzzzzzzzz", 0, "no codec 'zzzzzzzzzz'"},
        {"topk:kep=0.1", 5, "no option 'kep'; did you mean 'keep'?"},
        {"topk:colour=1", 5, "no option 'colour'; the options are keep, values"},
        {"foo", 0, "no codec 'foo'"},
        {"topk:keep=2", 10, "keep is a number in 1e-9..1, not '2'; for example keep=0.01"},
        {"topk:keep=x", 10, "keep is a number in 1e-9..1, not 'x'; for example keep=0.01"},
        {"topk:keep=0.1x", 10, "keep is a number in 1e-9..1, not '0.1x'; for example keep=0.01"},
        {"topk:keep=nan", 10, "keep is a number in 1e-9..1, not 'nan'; for example keep=0.01"},
        {"topk:keep=", 10, "keep needs a value (1e-9..1), as in keep=0.01"},
        {"topk:keep", 5, "expected key=value, not 'keep'"},
        {"topk:keep=0.1,", 14, "expected key=value after the comma"},
        {"topk:keep=0.1,keep=0.2", 14, "keep is given twice"},
        {"topk:values=f64", 12, "values is f32|f16, not 'f64'; for example values=f32"},
        {"uniform:bits=4.5", 13, "bits is a whole number in 2..16, not '4.5'; for example bits=4"},
        {"uniform:bits=17", 13, "bits is a whole number in 2..16, not '17'; for example bits=4"},
        {"f32:x=1", 4, "no option 'x'; there are none"},
    };
    terse_layout *layout = layout_of(10);
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        terse_codec *codec = NULL;
        terse_fault fault = {0};
        assert_int_equal(terse_codec_create(cases[i].spec, layout, NULL, &codec, &fault),
                         TERSE_BAD_SPEC);
        assert_string_equal(fault.text, cases[i].text);
        assert_int_equal(fault.offset, cases[i].offset);
        assert_null(codec);
    }
    terse_layout_destroy(layout);
}

static void specs_do_not_depend_on_the_locale(void **unused)
{
    terse_layout *layout = layout_of(10);
    terse_codec *codec = NULL;
    (void)unused;
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8")) {
        printf("skipped: no locale with a decimal comma is installed\n");
        terse_layout_destroy(layout);
        skip();
    }
    assert_int_equal(terse_codec_create("topk:keep=0.25", layout, NULL, &codec, NULL), TERSE_OK);
    assert_string_equal(terse_codec_spec(codec), "topk:keep=0.25,values=f32");
    (void)setlocale(LC_ALL, "C");
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
}

static void the_spec_is_written_out_in_full(void **unused)
{
    terse_layout *layout = layout_of(10);
    terse_codec *codec = NULL;
    (void)unused;
    assert_int_equal(terse_codec_create("topk:keep=0.1", layout, NULL, &codec, NULL), TERSE_OK);
    assert_string_equal(terse_codec_spec(codec), "topk:keep=0.1,values=f32");
    terse_codec_destroy(codec);
    assert_int_equal(terse_codec_create("uniform:norm=2", layout, NULL, &codec, NULL), TERSE_OK);
    assert_string_equal(terse_codec_spec(codec), "uniform:bits=4,norm=2");
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
}

/* As people type them: digits up to a million, and no more of them than there must be. */
static void numbers_are_written_as_they_are_typed(void **unused)
{
    static const char *const typed[] = {"1",        "100",   "300",    "16384",
                                        "120000",   "0.02",  "0.0001", "1234.5",
                                        "12345678", "1e+30", "1e-07",  "0.1234567890123"};
    terse_layout *layout = layout_of(10);
    (void)unused;
    for (size_t i = 0; i < sizeof typed / sizeof typed[0]; i++) {
        char spec[64];
        terse_codec *codec = NULL;
        (void)snprintf(spec, sizeof spec, "nearest:k=6,range=%s", typed[i]);
        assert_int_equal(terse_codec_create(spec, layout, NULL, &codec, NULL), TERSE_OK);
        assert_string_equal(terse_codec_spec(codec), spec);
        terse_codec_destroy(codec);
    }
    terse_layout_destroy(layout);
}

static void bad_calls_are_refused(void **unused)
{
    terse_layout *layout = layout_of(10);
    terse_codec *codec = NULL;
    float floats[10] = {0};
    uint8_t payload[40];
    size_t len = 99;
    const terse_rng_key key = {0};
    const terse_rng_key far = {.worker = 0xffffffu};
    const terse_codec_options many = {.threads = 5000};
    (void)unused;
    assert_int_equal(terse_codec_create(NULL, layout, NULL, &codec, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_codec_create("f32", NULL, NULL, &codec, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_codec_create("f32", layout, &many, &codec, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_codec_create("f32", layout, NULL, &codec, NULL), TERSE_OK);
    assert_int_equal(terse_codec_encode(codec, 0, &key, floats, payload, 39, &len),
                     TERSE_TOO_SMALL);
    assert_int_equal(terse_codec_encode(codec, 1, &key, floats, payload, 40, &len),
                     TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_codec_encode(codec, 0, NULL, floats, payload, 40, &len),
                     TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_codec_encode(codec, 0, &key, NULL, payload, 40, &len),
                     TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_codec_encode(codec, 0, &key, floats, NULL, 40, &len),
                     TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_codec_encode(codec, 0, &far, floats, payload, 40, &len),
                     TERSE_BAD_ARGUMENT);
    assert_int_equal(len, 99);
    assert_int_equal(terse_codec_encode(codec, 0, &key, floats, payload, 40, &len), TERSE_OK);
    assert_int_equal(len, 40);
    terse_codec_destroy(codec);
    terse_layout_destroy(layout);
}

static void layouts_without_elements_work(void **unused)
{
    terse_codec_about about;
    const terse_rng_key key = {0};
    (void)unused;
    for (uint32_t i = 0; terse_codec_list(i, &about) == TERSE_OK; i++) {
        terse_layout *layout = layout_of(0);
        terse_codec *codec = NULL;
        assert_int_equal(terse_codec_create(about.name, layout, NULL, &codec, NULL), TERSE_OK);
        for (uint32_t pass = 0; pass < about.passes; pass++) {
            size_t len = 99;
            assert_int_equal(terse_codec_encode(codec, pass, &key, NULL, NULL, 0, &len), 0);
            assert_int_equal(len, 0);
            assert_int_equal(terse_codec_decode_add(codec, pass, &key, NULL, 0, NULL, NULL), 0);
        }
        terse_codec_destroy(codec);
        terse_layout_destroy(layout);
    }
}

/* The ids that frames of version 1 were written with. A new codec has another. */
static void wire_ids_are_stable(void **unused)
{
    static const char *const names[] = {
        "",      "f32", "f16",     "bf16",    "sign",    "scaled-sign", "topk",
        "block", "log", "uniform", "nearest", "natural", "low-rank"};
    terse_codec_about about;
    (void)unused;
    for (uint32_t i = 0; terse_codec_list(i, &about) == TERSE_OK; i++) {
        assert_true(about.wire_id > 0);
        if (about.wire_id < sizeof names / sizeof names[0])
            assert_string_equal(about.name, names[about.wire_id]);
        for (uint32_t j = 0; j < i; j++) {
            terse_codec_about other;
            assert_int_equal(terse_codec_list(j, &other), TERSE_OK);
            assert_int_not_equal(other.wire_id, about.wire_id);
            assert_string_not_equal(other.name, about.name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_of_specs_have_position_and_reason),
        cmocka_unit_test(specs_do_not_depend_on_the_locale),
        cmocka_unit_test(the_spec_is_written_out_in_full),
        cmocka_unit_test(numbers_are_written_as_they_are_typed),
        cmocka_unit_test(bad_calls_are_refused),
        cmocka_unit_test(layouts_without_elements_work),
        cmocka_unit_test(wire_ids_are_stable),
    };
    return cmocka_run_group_tests_name("create", tests, NULL, NULL);
}
