#include "bench_request.h"

#include <getopt.h>
#include <string.h>

#include <terse/terse.h>

#include "codec_specs.h"
#include "common/number.h"
#include "machine.h"
#include "message.h"
#include "plugin.h"

/* Options worth comparing; other codecs follow by name. */
static const char *const default_codecs[] = {
    "f32",
    "f16",
    "bf16",
    "sign",
    "scaled-sign",
    "topk:keep=0.01",
    "topk:keep=0.001",
    "block:ratio=64",
    "log:k=2",
    "uniform:bits=2",
    "uniform:bits=4",
    "uniform:bits=8",
    "nearest:k=6",
    "natural",
    "low-rank:rank=4",
};

_Static_assert((int)MAX_CODEC_SPECS <= (int)LONGEST_LIST, "all codecs fit into a list");

const struct bench_kind bench_codecs_kind = {
    .name = "codecs",
    .option = "codec",
    .vectors = 4.5, /* three vectors, payload, scratch */
    .counts = {65536, 25000000, 100000000},
    .quick_counts = {65536, 4000000},
};

static int list_add(struct list *list, const char *item)
{
    if (list->count == LONGEST_LIST)
        return msg_usage("bench", "at most %d values for an option", LONGEST_LIST);
    list->items[list->count++] = item;
    return CLI_OK;
}

static int number_add(uint64_t *numbers, size_t *count, const char *option, const char *text,
                      uint64_t low, uint64_t high)
{
    if (*count == LONGEST_LIST || !com_parse_count(text, low, high, &numbers[*count])) {
        return msg_usage("bench", "--%s: '%s' is not a number from %llu to %llu", option, text,
                         (unsigned long long)low, (unsigned long long)high);
    }
    ++*count;
    return CLI_OK;
}

/* One value of a list option. */
static int add_value(struct bench_request *request, int letter, const char *value)
{
    switch (letter) {
    case 'n':
        return number_add(request->counts, &request->count_count, "count", value, 16,
                          TERSE_MAX_TENSOR_COUNT);
    case 't':
        return number_add(request->threads, &request->threads_count, "threads", value, 1, 1024);
    case 'l': return list_add(&request->kernels, value);
    default: return list_add(&request->items, value);
    }
}

/* "1,2" as two values; a spec has commas of its own. */
static int add_values(struct bench_request *request, int letter, char *text)
{
    int code = CLI_OK;
    char *rest = text;
    while (code == CLI_OK && rest) {
        char *comma = letter == 'c' ? NULL : strchr(rest, ',');
        if (comma)
            *comma = '\0';
        code = add_value(request, letter, rest);
        rest = !comma ? NULL : comma + 1;
    }
    return code;
}

static void set_counts(struct bench_request *request, const uint64_t counts[3])
{
    while (request->count_count < 3 && counts[request->count_count] != 0) {
        request->counts[request->count_count] = counts[request->count_count];
        request->count_count++;
    }
}

static void set_defaults(struct bench_request *request, int quick)
{
    const struct bench_kind *kind = request->kind;
    if (request->count_count == 0)
        set_counts(request, quick ? kind->quick_counts : kind->counts);
    if (request->seconds < 0)
        request->seconds = quick ? 0.1 : 1.5;
    if (request->threads_count == 0)
        request->threads[request->threads_count++] = 1;
    if (request->items.count == 0 && kind == &bench_codecs_kind)
        request->items.count = codec_specs(
            default_codecs, sizeof default_codecs / sizeof default_codecs[0], request->items.items);
}

int bench_request_read(struct bench_request *request, int argc, char **argv)
{
    const struct option options[] = {
        {request->kind->option, required_argument, NULL, 'c'},
        {"count", required_argument, NULL, 'n'},
        {"threads", required_argument, NULL, 't'},
        {"kernels", required_argument, NULL, 'l'},
        {"seconds", required_argument, NULL, 's'},
        {"quick", no_argument, NULL, 'q'},
        {"json", no_argument, NULL, 'j'},
        {"plugin", required_argument, NULL, 'p'},
        {NULL, 0, NULL, 0},
    };
    int quick = 0;
    int list = 0; /* the option whose list goes on */
    request->seconds = -1;
    /* "-": words that are no options arrive in order, as letter 1 */
    for (int letter; (letter = getopt_long(argc, argv, "-", options, NULL)) != -1;) {
        int code = CLI_OK;
        if (letter == 1 && list == 0) {
            code = msg_usage("bench", "'%s' belongs to no option", optarg);
        } else if (letter == 1) {
            code = add_values(request, list, optarg);
        } else if (strchr("cntl", letter)) {
            list = letter;
            code = add_values(request, letter, optarg);
        } else if (letter == 's' && !com_parse_real(optarg, 0, 3600, &request->seconds)) {
            code = msg_usage("bench", "--seconds: '%s' is not a number from 0 to 3600", optarg);
        } else if (letter == 'q') {
            quick = 1;
        } else if (letter == 'j') {
            request->as_json = 1;
        } else if (letter == 'p') {
            code = plugin_load(optarg);
        } else if (letter == '?') {
            msg_note("Try 'terse bench --help'.");
            code = CLI_USAGE;
        }
        list = strchr("sqjp", letter) ? 0 : list;
        if (code != CLI_OK)
            return code;
    }
    set_defaults(request, quick);
    return CLI_OK;
}

int bench_request_kernels(struct bench_request *request)
{
    const char *in_use;
    terse_fault fault = {0};
    terse_status status = terse_kernel_set_name(&in_use, &fault);
    if (status != TERSE_OK)
        return msg_status("kernels", status, &fault);
    if (request->kernels.count == 0)
        return list_add(&request->kernels, in_use);
    if (request->kernels.count == 1 && strcmp(request->kernels.items[0], "all") == 0) {
        request->kernels.count = 0;
        terse_kernel_set_about about;
        for (uint32_t i = 0; terse_kernel_set_list(i, &about) == TERSE_OK; i++)
            if (about.supported)
                request->kernels.items[request->kernels.count++] = about.name;
    }
    return CLI_OK;
}

int bench_request_fit(struct bench_request *request, uint64_t *largest)
{
    size_t kept = 0;
    *largest = 0;
    for (size_t i = 0; i < request->count_count; i++) {
        uint64_t count = request->counts[i];
        double needed = request->kind->vectors * sizeof(float) * (double)count;
        if (machine_memory() != 0 && needed > 0.8 * (double)machine_memory()) {
            msg_note("terse: %s floats are left out: they need %s, this machine has %s",
                     com_show_count(count).text, com_show_bytes(needed).text,
                     com_show_bytes((double)machine_memory()).text);
            continue;
        }
        request->counts[kept++] = count;
        *largest = count > *largest ? count : *largest;
    }
    request->count_count = kept;
    return kept > 0 ? CLI_OK : msg_error(CLI_MACHINE, "no size fits this machine's memory");
}
