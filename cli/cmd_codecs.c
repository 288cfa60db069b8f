#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <terse/terse.h>

#include "command.h"
#include "common/json.h"
#include "message.h"
#include "table.h"

/* Bits per element are those of one tensor of this shape. */
enum { SAMPLE_ROWS = 1000, SAMPLE_COLS = 1000 };

static int run(int argc, char **argv);

const struct command cmd_codecs = {
    .name = "codecs",
    .summary = "list the codecs, or one with its options",
    .usage = "terse codecs [NAME | SPEC] [--json]",
    .help = "A codec is named by a SPEC: NAME, or NAME:key=value,key=value.\n\n"
            "Options\n"
            "  --json   print JSON\n\n"
            "Examples\n"
            "  terse codecs\n"
            "  terse codecs topk\n"
            "  terse codecs topk:keep=0.001,values=f16\n",
    .run = run,
};

static const struct {
    uint32_t bit;
    const char *name;
    const char *meaning;
} traits[] = {
    {TERSE_CODEC_SELECTING, "selecting", "encodes selected elements exactly, the others as 0"},
    {TERSE_CODEC_CONTRACTIVE, "contractive",
     "the error is smaller than the input: works with error feedback"},
    {TERSE_CODEC_UNBIASED, "unbiased", "the expected output is the input: no error feedback"},
    {TERSE_CODEC_ADDITIVE, "additive", "payloads can be summed without decoding"},
    {TERSE_CODEC_RANDOM, "random", "uses random numbers: depends on seed and step"},
    {TERSE_CODEC_FIXED_LEN, "fixed-length", "the payload's length does not depend on the values"},
    {TERSE_CODEC_TERNARY, "ternary", "decodes to the sign of every element: -1, 0 or +1"},
};

enum { TRAIT_COUNT = sizeof traits / sizeof traits[0] };

static void join_traits(uint32_t bits, char *out, size_t cap)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < TRAIT_COUNT && at < cap; i++)
        if (bits & traits[i].bit)
            at += (size_t)snprintf(out + at, cap - at, "%s%s", at == 0 ? "" : " ", traits[i].name);
}

/* A codec of this spec and its payload bits per element, all passes, for the sample tensor. */
static terse_status sample(const char *spec, terse_codec **codec, double *bits, terse_fault *fault)
{
    static const uint64_t dims[2] = {SAMPLE_ROWS, SAMPLE_COLS};
    terse_layout *layout;
    terse_status status = terse_layout_create(&layout);
    if (status != TERSE_OK)
        return status;
    status = terse_layout_add(layout, "sample", 2, dims);
    if (status == TERSE_OK)
        status = terse_codec_create(spec, layout, NULL, codec, fault);
    terse_layout_destroy(layout);
    if (status != TERSE_OK)
        return status;
    terse_codec_about about;
    terse_codec_describe(*codec, &about);
    double bytes = 0;
    for (uint32_t pass = 0; pass < about.passes; pass++)
        bytes += (double)terse_codec_payload_bound(*codec, pass);
    *bits = 8 * bytes / (SAMPLE_ROWS * SAMPLE_COLS);
    return TERSE_OK;
}

static com_json *to_json(const terse_codec *codec, double bits)
{
    terse_codec_about about;
    terse_codec_describe(codec, &about);
    com_json *object = com_json_object();
    com_json_put_text(object, "name", about.name);
    com_json_put_u64(object, "wire_id", about.wire_id);
    com_json_put_text(object, "summary", about.summary);
    com_json_put_u64(object, "passes", about.passes);
    com_json_put_text(object, "spec", terse_codec_spec(codec));
    com_json_put_real(object, "bits_per_element", bits);
    com_json *names = com_json_array();
    for (size_t i = 0; i < TRAIT_COUNT; i++)
        if (about.traits & traits[i].bit)
            com_json_append_text(names, traits[i].name);
    com_json_put(object, "traits", names);
    com_json *options = com_json_array();
    for (uint32_t i = 0; i < about.option_count; i++) {
        com_json *option = com_json_object();
        com_json_put_text(option, "name", about.options[i].name);
        com_json_put_text(option, "range", about.options[i].range);
        com_json_put_text(option, "default", about.options[i].initial);
        com_json_put_text(option, "help", about.options[i].help);
        com_json_append(options, option);
    }
    com_json_put(object, "options", options);
    return object;
}

static int print_one(const char *spec, int as_json)
{
    terse_codec *codec;
    double bits;
    terse_fault fault = {0};
    terse_status status = sample(spec, &codec, &bits, &fault);
    if (status != TERSE_OK) {
        char subject[256];
        snprintf(subject, sizeof subject, "codec '%s'", spec);
        return msg_status(subject, status, &fault);
    }
    if (as_json) {
        const int code = msg_json(to_json(codec, bits));
        terse_codec_destroy(codec);
        return code;
    }
    terse_codec_about about;
    terse_codec_describe(codec, &about);
    printf("%s%s%s: %s\n\n", msg_bold(stdout), about.name, msg_plain(stdout), about.summary);
    printf("  wire id           %u\n", about.wire_id);
    printf("  passes            %u\n", about.passes);
    printf("  complete spec     %s\n", terse_codec_spec(codec));
    printf("  bits per element  %.3g (one tensor of %d x %d)\n", bits, SAMPLE_ROWS, SAMPLE_COLS);
    for (size_t i = 0; i < TRAIT_COUNT; i++)
        if (about.traits & traits[i].bit)
            printf("  %-17s %s\n", traits[i].name, traits[i].meaning);
    int code = CLI_OK;
    if (about.option_count > 0) {
        putchar('\n');
        struct table *table = table_create("llll");
        table_cell(table, "option");
        table_cell(table, "default");
        table_cell(table, "range");
        table_cell(table, "meaning");
        for (uint32_t i = 0; i < about.option_count; i++) {
            table_cell(table, "%s", about.options[i].name);
            table_cell(table, "%s", about.options[i].initial);
            table_cell(table, "%s", about.options[i].range);
            table_cell(table, "%s", about.options[i].help);
        }
        code = table_print(table, 2);
    }
    terse_codec_destroy(codec);
    return code;
}

static void table_row(struct table *table, const terse_codec_about *about, double bits)
{
    char joined[128];
    join_traits(about->traits, joined, sizeof joined);
    table_cell(table, "%s", about->name);
    table_cell(table, "%u", about->wire_id);
    table_cell(table, "%.3g", bits);
    table_cell(table, "%u", about->passes);
    table_cell(table, "%s", about->summary);
    table_cell(table, "%s", joined);
}

static int print_all(int as_json)
{
    com_json *list = as_json ? com_json_array() : NULL;
    struct table *table = as_json ? NULL : table_create("lrrrll");
    static const char *const headings[] = {"name", "id", "bits", "passes", "summary", "traits"};
    for (size_t i = 0; i < 6; i++)
        table_cell(table, "%s", headings[i]);
    terse_codec_about about;
    for (uint32_t i = 0; terse_codec_list(i, &about) == TERSE_OK; i++) {
        terse_codec *codec;
        double bits;
        terse_fault fault = {0};
        terse_status status = sample(about.name, &codec, &bits, &fault);
        if (status != TERSE_OK)
            return msg_status(about.name, status, &fault);
        if (as_json)
            com_json_append(list, to_json(codec, bits));
        else
            table_row(table, &about, bits);
        terse_codec_destroy(codec);
    }
    if (as_json) {
        com_json *top = com_json_object();
        com_json_put(top, "codecs", list);
        return msg_json(top);
    }
    int code = table_print(table, 0);
    printf("\nbits: per element, with default options, one tensor of %d x %d\n"
           "`terse codecs NAME` shows the options of one.\n",
           SAMPLE_ROWS, SAMPLE_COLS);
    return code;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
    int as_json = 0;
    for (int letter; (letter = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (letter != 'j') {
            msg_note("Try 'terse codecs --help'.");
            return CLI_USAGE;
        }
        as_json = 1;
    }
    if (argc - optind > 1)
        return msg_usage("codecs", "one codec at a time");
    return optind < argc ? print_one(argv[optind], as_json) : print_all(as_json);
}
