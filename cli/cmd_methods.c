#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <terse/terse.h>

#include "command.h"
#include "common/json.h"
#include "common/number.h"
#include "message.h"
#include "method_bytes.h"
#include "table.h"

static int run(int argc, char **argv);

const struct command cmd_methods = {
    .name = "methods",
    .summary = "list the methods, or one with its formula, bytes and options",
    .usage = "terse methods [NAME | SPEC] [--json]",
    .help = "A method is named by a SPEC: NAME, or NAME:key=value,key=value; or composed of its\n"
            "stages: codec=SPEC with direction=, feedback=, combine=, update=. Bytes are counted\n"
            "in one real exchange of local workers with independent gradients, one tensor of 1000 "
            "x 1000.\n\n"
            "Options\n"
            "  --json   print JSON\n\n"
            "Examples\n"
            "  terse methods\n"
            "  terse methods regtopk\n"
            "  terse methods def:ratio=256,lambda=0.5\n"
            "  terse methods direction=momentum,feedback=residual,codec=topk:keep=0.01\n",
    .run = run,
};

enum { SAMPLES = 4 };

static const uint32_t workers_of_one[SAMPLES] = {2, 4, 8, 16};
static const uint32_t workers_of_all[] = {2, 8};

/* A method as this command shows it. */
struct shown {
    terse_method_about about; /* zero where it is composed */
    int index;                /* in terse_method_list; -1: composed */
    terse_method_description chosen;
    struct method_bytes bytes[SAMPLES];
    size_t bytes_count;
};

static double compression_ratio(const struct method_bytes *bytes)
{
    return bytes->dense / bytes->sent;
}

/* Prints what is wrong, and points at it. */
static int refuse(const char *spec, terse_status status, const terse_fault *fault)
{
    char subject[256];
    snprintf(subject, sizeof subject, "method '%s'", spec);
    int code = msg_status(subject, status, fault);
    if (status == TERSE_BAD_SPEC && fault->offset > 0 && fault->offset < strlen(spec))
        msg_note("  %s\n  %*s^", spec, (int)fault->offset, "");
    return code;
}

/* Reads a spec and counts the bytes among so many workers. */
static int look_at(const struct method_sample *sample, const char *spec, const uint32_t *workers,
                   size_t samples, struct shown *out)
{
    terse_fault fault = {0};
    *out = (struct shown){.bytes_count = samples, .chosen.size = sizeof out->chosen};
    terse_status status = terse_method_describe(spec, &out->chosen, &fault);
    if (status == TERSE_OK)
        out->index = method_index(out->chosen.name, &out->about);
    for (size_t i = 0; i < samples && status == TERSE_OK; i++)
        status = method_bytes_count(sample, spec, workers[i], &out->bytes[i], &fault);
    return status == TERSE_OK ? CLI_OK : refuse(spec, status, &fault);
}

static const char *summary_of(const struct shown *shown)
{
    return shown->index < 0 ? "composed of stages" : shown->about.summary;
}

/* ---- as JSON ---- */

static com_json *options_json(const struct shown *shown)
{
    com_json *options = com_json_array();
    terse_option option;
    for (uint32_t i = 0; i < shown->about.option_count; i++) {
        if (terse_method_option((uint32_t)shown->index, i, &option) == TERSE_OK) {
            com_json *object = com_json_object();
            com_json_put_text(object, "name", option.name);
            com_json_put_text(object, "range", option.range);
            com_json_put_text(object, "default", option.initial);
            com_json_put_text(object, "help", option.help);
            com_json_append(options, object);
        }
    }
    return options;
}

static com_json *bytes_json(const struct shown *shown)
{
    com_json *list = com_json_array();
    for (size_t i = 0; i < shown->bytes_count; i++) {
        com_json *object = com_json_object();
        com_json_put_u64(object, "workers", shown->bytes[i].workers);
        com_json_put_real(object, "bytes_sent", shown->bytes[i].sent);
        com_json_put_real(object, "dense_bytes", shown->bytes[i].dense);
        com_json_put_real(object, "compression_ratio", compression_ratio(&shown->bytes[i]));
        com_json_append(list, object);
    }
    return list;
}

static const char *const owner_names[] = {
    [TERSE_OWNER_NONE] = "none",
    [TERSE_OWNER_RESIDUAL] = "residual",
    [TERSE_OWNER_WEIGHTS] = "weights",
};

static com_json *stages_json(const terse_method_description *chosen)
{
    com_json *stages = com_json_object();
    com_json_put_text(stages, "point", chosen->point);
    com_json_put_text(stages, "direction", chosen->direction);
    com_json_put_text(stages, "feedback", chosen->feedback);
    com_json_put_text(stages, "unit", chosen->unit);
    com_json_put_text(stages, "codec", chosen->codec);
    com_json_put_text(stages, "scope", chosen->scope);
    com_json_put_text(stages, "combine", chosen->combine);
    com_json_put_text(stages, "owner", owner_names[chosen->owner]);
    com_json_put_text(stages, "back", chosen->back);
    com_json_put_text(stages, "update", chosen->update);
    return stages;
}

static com_json *facts_json(const terse_method_description *chosen)
{
    com_json *facts = com_json_object();
    com_json_put_u64(facts, "passes", chosen->passes);
    com_json_put_flag(facts, "dynamic_bits", (int)chosen->dynamic_bits);
    com_json_put_flag(facts, "votes", (int)chosen->votes);
    com_json_put_flag(facts, "has_gradient", (int)chosen->has_gradient);
    com_json_put_flag(facts, "has_eval_weights", (int)chosen->has_eval_weights);
    com_json_put_flag(facts, "has_plain", (int)chosen->has_plain);
    com_json_put_flag(facts, "has_buckets", (int)chosen->has_buckets);
    com_json_put_flag(facts, "needs_steps", (int)chosen->needs_steps);
    com_json_put_u64(facts, "local_steps", chosen->local_steps);
    return facts;
}

static void put_about(com_json *object, const terse_method_about *about)
{
    com_json_put_text(object, "formula", about->formula);
    com_json_put_text(object, "bytes", about->bytes);
    com_json_put_text(object, "citation", about->citation);
    com_json_put_text(object, "verified", about->verified);
}

static com_json *to_json(const struct shown *shown)
{
    com_json *object = com_json_object();
    com_json_put_text(object, "name", shown->chosen.name);
    com_json_put_text(object, "summary", summary_of(shown));
    com_json_put(object, "stages", stages_json(&shown->chosen));
    com_json_put(object, "facts", facts_json(&shown->chosen));
    if (shown->index >= 0) {
        put_about(object, &shown->about);
        com_json_put(object, "options", options_json(shown));
    }
    com_json_put_text(object, "spec", shown->chosen.spec);
    com_json_put(object, "measured", bytes_json(shown));
    return object;
}

/* ---- as text ---- */

/* Lines of a text, the second and later ones under the first. */
static void print_text(const char *label, const char *text)
{
    while (text) {
        int len = (int)strcspn(text, "\n");
        printf("  %-14s %.*s\n", label, len, text);
        label = "";
        text = text[len] == '\0' ? NULL : text + len + 1;
    }
}

/* A text too long for a line, broken at blanks. */
static void print_wrapped(const char *label, const char *text)
{
    enum { WIDTH = 80 };
    while (*text != '\0') {
        size_t len = strlen(text);
        if (len > WIDTH) {
            len = WIDTH;
            while (len > 1 && text[len] != ' ')
                len--;
        }
        printf("  %-14s %.*s\n", label, (int)len, text);
        label = "";
        text += len;
        text += *text == ' ';
    }
}

static int print_options(const struct shown *shown)
{
    struct table *table = table_create("llll");
    static const char *const headings[] = {"option", "default", "range", "meaning"};
    for (size_t i = 0; i < 4; i++)
        table_cell(table, "%s", headings[i]);
    terse_option option;
    for (uint32_t i = 0; i < shown->about.option_count; i++) {
        if (terse_method_option((uint32_t)shown->index, i, &option) == TERSE_OK) {
            table_cell(table, "%s", option.name);
            table_cell(table, "%s", option.initial);
            table_cell(table, "%s", option.range);
            table_cell(table, "%s", option.help);
        }
    }
    return table_print(table, 2);
}

static int print_bytes(const struct shown *shown)
{
    struct table *table = table_create("rrrr");
    static const char *const headings[] = {"workers K", "bytes sent", "dense f32",
                                           "compression ratio"};
    for (size_t i = 0; i < 4; i++)
        table_cell(table, "%s", headings[i]);
    for (size_t i = 0; i < shown->bytes_count; i++) {
        const struct method_bytes *bytes = &shown->bytes[i];
        table_cell(table, "%u", bytes->workers);
        table_cell(table, "%s", com_show_count((uint64_t)(bytes->sent + 0.5)).text);
        table_cell(table, "%s", com_show_count((uint64_t)(bytes->dense + 0.5)).text);
        table_cell(table, "%.4g", compression_ratio(bytes));
    }
    int code = table_print(table, 2);
    printf("  Bytes per worker in one exchange, counted: d = %d x %d, all headers included.\n",
           METHOD_SAMPLE_ROWS, METHOD_SAMPLE_COLS);
    if (shown->chosen.local_steps > 1)
        printf("  Exchanges happen every %u steps.\n", shown->chosen.local_steps);
    return code;
}

static const char *feedback_text(const terse_method_description *chosen)
{
    if (strcmp(chosen->feedback, "residual") != 0)
        return chosen->feedback;
    return strcmp(chosen->unit, "weights") == 0
               ? "residual, in units of weights: it includes lr, so a change of lr leaves it valid"
               : "residual, in units of gradients: it excludes lr, so a new lr also applies to "
                 "what "
                 "was dropped before, and a new loss scale mixes two scales";
}

static void print_stages(const terse_method_description *chosen)
{
    static const char *const owners[] = {
        [TERSE_OWNER_NONE] = "",
        [TERSE_OWNER_RESIDUAL] = "; owners keep a residual of what they send back",
        [TERSE_OWNER_WEIGHTS] = "; owners update the weights and send them back",
    };
    char text[3 * TERSE_MAX_CODEC_SPEC];
    print_text("point", chosen->point);
    print_text("direction", chosen->direction);
    print_wrapped("feedback", feedback_text(chosen));
    const char *more = chosen->dynamic_bits                  ? "; bits chosen in every step"
                       : strcmp(chosen->scope, "model") == 0 ? "; over all parameters together"
                                                             : "";
    snprintf(text, sizeof text, "%s%s%s%s%s", chosen->codec, chosen->back[0] ? " up, " : "",
             chosen->back, chosen->back[0] ? " down" : "", more);
    print_text("codec", text);
    snprintf(text, sizeof text, "%s%s", chosen->combine, owners[chosen->owner]);
    print_text("combine", text);
    print_text("update", chosen->update);
    putchar('\n');
}

static void print_about(const terse_method_about *about)
{
    print_text("formula", about->formula);
    print_text("bytes", about->bytes);
    print_wrapped("paper", about->citation);
    print_wrapped("verified", about->verified);
    putchar('\n');
}

static int print_text_of(const struct shown *shown)
{
    printf("%s%s%s: %s\n\n", msg_bold(stdout), shown->chosen.name, msg_plain(stdout),
           summary_of(shown));
    print_stages(&shown->chosen);
    if (shown->index >= 0)
        print_about(&shown->about);
    print_text("complete spec", shown->chosen.spec);
    putchar('\n');
    int code = print_bytes(shown);
    if (shown->index >= 0 && code == CLI_OK) {
        putchar('\n');
        code = print_options(shown);
    }
    return code;
}

/* ---- the command ---- */

static int print_one(const struct method_sample *sample, const char *spec, int as_json)
{
    struct shown shown;
    int code = look_at(sample, spec, workers_of_one, SAMPLES, &shown);
    if (code == CLI_OK && as_json)
        code = msg_json(to_json(&shown));
    else if (code == CLI_OK)
        code = print_text_of(&shown);
    return code;
}

static void table_row(struct table *table, const struct shown *shown)
{
    terse_codec_about codec = {.name = ""};
    (void)!terse_codec_check(shown->chosen.codec, &codec, NULL);
    table_cell(table, "%s", shown->chosen.name);
    table_cell(table, "%s", codec.name);
    table_cell(table, "%s", shown->chosen.combine);
    table_cell(table, "%.3g", compression_ratio(&shown->bytes[0]));
    table_cell(table, "%.3g", compression_ratio(&shown->bytes[1]));
    table_cell(table, "%s", shown->about.summary);
}

static int print_all(const struct method_sample *sample, int as_json)
{
    com_json *list = as_json ? com_json_array() : NULL;
    struct table *table = as_json ? NULL : table_create("lllrrl");
    static const char *const headings[] = {"name", "codec", "combine", "x K=2", "x K=8", "summary"};
    for (size_t i = 0; i < 6; i++)
        table_cell(table, "%s", headings[i]);
    terse_method_about about;
    for (uint32_t i = 0; terse_method_list(i, &about) == TERSE_OK; i++) {
        struct shown shown;
        int code = look_at(sample, about.name, workers_of_all, 2, &shown);
        if (code != CLI_OK)
            return code;
        if (as_json)
            com_json_append(list, to_json(&shown));
        else
            table_row(table, &shown);
    }
    if (as_json) {
        com_json *top = com_json_object();
        com_json_put(top, "methods", list);
        return msg_json(top);
    }
    int code = table_print(table, 0);
    printf("\nx K=2, x K=8: compression ratio against a dense f32 exchange of 2 and 8 workers, "
           "counted in\n"
           "one real exchange with default options, one tensor of %d x %d.\n"
           "`terse methods NAME` shows one: its formula, bytes, options, paper.\n"
           "`terse train --method auto` measures several and takes the fastest: docs/auto.md.\n",
           METHOD_SAMPLE_ROWS, METHOD_SAMPLE_COLS);
    return code;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
    int as_json = 0;
    for (int letter; (letter = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (letter != 'j') {
            msg_note("Try 'terse methods --help'.");
            return CLI_USAGE;
        }
        as_json = 1;
    }
    if (argc - optind > 1)
        return msg_usage("methods", "one method at a time");
    struct method_sample sample;
    int code = method_sample_create(&sample);
    if (code == CLI_OK) {
        code =
            optind < argc ? print_one(&sample, argv[optind], as_json) : print_all(&sample, as_json);
        method_sample_destroy(&sample);
    }
    return code;
}
