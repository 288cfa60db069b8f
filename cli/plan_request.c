#include "plan_request.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "message.h"

enum { BUCKET = 4 << 20 }; /* bytes, those of terse train */

enum {
    LETTER_PARAMETERS = 256,
    LETTER_MODEL,
    LETTER_WEIGHTS,
    LETTER_SHAPES,
    LETTER_INPUT,
    LETTER_BATCH,
    LETTER_NODE_SIZE,
    LETTER_INSIDE,
    LETTER_LINK,
    LETTER_LATENCY,
    LETTER_BURST,
    LETTER_STEP,
    LETTER_RANKS_PER_CORE,
    LETTER_OVERLAP,
    LETTER_THREADS,
    LETTER_COMBINES,
    LETTER_EXACT,
    LETTER_NO_CACHE,
    LETTER_MEASURE,
    LETTER_JSON,
};

static const struct option options[] = {
    {"parameters", required_argument, NULL, LETTER_PARAMETERS},
    {"model", required_argument, NULL, LETTER_MODEL},
    {"weights", required_argument, NULL, LETTER_WEIGHTS},
    {"shapes", required_argument, NULL, LETTER_SHAPES},
    {"input", required_argument, NULL, LETTER_INPUT},
    {"batch", required_argument, NULL, LETTER_BATCH},
    {"workers", required_argument, NULL, 'w'},
    {"node-size", required_argument, NULL, LETTER_NODE_SIZE},
    {"inside", required_argument, NULL, LETTER_INSIDE},
    {"link", required_argument, NULL, LETTER_LINK},
    {"latency", required_argument, NULL, LETTER_LATENCY},
    {"burst", required_argument, NULL, LETTER_BURST},
    {"step", required_argument, NULL, LETTER_STEP},
    {"ranks-per-core", required_argument, NULL, LETTER_RANKS_PER_CORE},
    {"overlap", required_argument, NULL, LETTER_OVERLAP},
    {"threads", required_argument, NULL, LETTER_THREADS},
    {"method", required_argument, NULL, 'm'},
    {"combines", no_argument, NULL, LETTER_COMBINES},
    {"exact", no_argument, NULL, LETTER_EXACT},
    {"no-cache", no_argument, NULL, LETTER_NO_CACHE},
    {"measure", no_argument, NULL, LETTER_MEASURE},
    {"output", required_argument, NULL, 'o'},
    {"json", no_argument, NULL, LETTER_JSON},
    {NULL, 0, NULL, 0},
};

static int read_number(const char *option, const char *text, uint64_t low, uint64_t high,
                       uint64_t *out)
{
    if (com_parse_count(text, low, high, out))
        return CLI_OK;
    return msg_usage("plan", "--%s: '%s' is not a number from %llu to %llu", option, text,
                     (unsigned long long)low, (unsigned long long)high);
}

/* "4", or "2..4096": every power of two times the first, and the last. */
static int read_workers(char *text, struct plan_request *out)
{
    char *const dots = strstr(text, "..");
    uint64_t first = 0;
    uint64_t last = 0;
    if (dots)
        *dots = '\0';
    int code = read_number("workers", text, 1, PLN_MOST_WORKERS, &first);
    if (code == CLI_OK && dots)
        code = read_number("workers", dots + 2, first, PLN_MOST_WORKERS, &last);
    if (code != CLI_OK)
        return code;
    out->worker_counts = 0;
    for (uint64_t workers = first; !dots || workers < last; workers *= 2) {
        out->workers[out->worker_counts++] = (uint32_t)workers;
        if (!dots)
            return CLI_OK;
    }
    out->workers[out->worker_counts++] = (uint32_t)last;
    return CLI_OK;
}

static int read_rate(const char *option, const char *text, double *out)
{
    if (pln_parse_rate(text, out))
        return CLI_OK;
    return msg_usage("plan",
                     "--%s: '%s' is not a rate: a number above 0 and kbit, mbit, gbit "
                     "or tbit, like 100mbit",
                     option, text);
}

static int read_time(const char *option, const char *text, double *out)
{
    if (pln_parse_seconds(text, out))
        return CLI_OK;
    if (strcmp(text, "0") == 0) {
        *out = 0;
        return CLI_OK;
    }
    return msg_usage("plan",
                     "--%s: '%s' is not a time: 0, or a number above 0 and s, ms or us, "
                     "like 0.2ms",
                     option, text);
}

static int read_overlap(const char *text, struct plan_request *out)
{
    out->bucket = 0;
    if (strcmp(text, "off") == 0)
        return CLI_OK;
    if (strcmp(text, "on") != 0)
        return msg_usage("plan", "--overlap: '%s' is neither on nor off", text);
    out->bucket = BUCKET;
    return CLI_OK;
}

static int read_option(int letter, char *text, struct plan_request *out)
{
    switch (letter) {
    case LETTER_PARAMETERS: out->parameters = text; return CLI_OK;
    case LETTER_MODEL: out->model = text; return CLI_OK;
    case LETTER_WEIGHTS: out->weights = text; return CLI_OK;
    case LETTER_SHAPES: out->shapes = text; return CLI_OK;
    case LETTER_INPUT: out->input = text; return CLI_OK;
    case LETTER_BATCH: return read_number("batch", text, 1, 1u << 20, &out->batch);
    case LETTER_NODE_SIZE:
        return read_number("node-size", text, 1, PLN_MOST_RANKS, &out->node_size);
    case LETTER_INSIDE: return read_rate("inside", text, &out->inside);
    case LETTER_LINK: return read_rate("link", text, &out->link);
    case LETTER_LATENCY: return read_time("latency", text, &out->latency);
    case LETTER_BURST: return read_time("burst", text, &out->burst);
    case LETTER_STEP: return read_time("step", text, &out->step);
    case LETTER_OVERLAP: return read_overlap(text, out);
    case LETTER_THREADS: return read_number("threads", text, 1, 1024, &out->threads);
    case LETTER_COMBINES: out->all_combines = 1; return CLI_OK;
    case LETTER_EXACT: out->exact = 1; return CLI_OK;
    case LETTER_NO_CACHE: out->no_cache = 1; return CLI_OK;
    case LETTER_MEASURE: out->measure = 1; return CLI_OK;
    case LETTER_JSON: out->as_json = 1; return CLI_OK;
    case 'o': out->page = text; return CLI_OK;
    case 'w': return read_workers(text, out);
    case LETTER_RANKS_PER_CORE:
        return com_parse_real(text, 1, 1024, &out->ranks_per_core)
                   ? CLI_OK
                   : msg_usage("plan", "--ranks-per-core: '%s' is not a number from 1 to 1024",
                               text);
    case 'm':
        if (out->specs == PLAN_MOST_SPECS)
            return msg_usage("plan", "--method: at most %d", PLAN_MOST_SPECS);
        out->spec[out->specs++] = text;
        return CLI_OK;
    default: msg_note("Try 'terse plan --help'."); return CLI_USAGE;
    }
}

/* What is missing, or there twice. */
static int check(const struct plan_request *request)
{
    const int subjects = (request->parameters != NULL) + (request->model != NULL) +
                         (request->weights != NULL) + (request->shapes != NULL);
    if (subjects != 1)
        return msg_usage("plan",
                         "%s: give one of --parameters 25M, --model NAME, --weights FILE "
                         "and --shapes LIST",
                         subjects == 0 ? "no parameters" : "parameters are given more than once");
    if (request->link == 0 && !request->measure)
        return msg_usage("plan", "no link: give --link 1gbit, or measure it: mpirun -n 4 terse "
                                 "plan --measure");
    if (request->worker_counts == 0 && !request->measure)
        return msg_usage("plan", "no number of workers: give --workers 4, or --workers 2..4096");
    if (request->measure && request->node_size > 1)
        return msg_usage("plan", "--node-size: --measure sees ranks, not nodes: measure with one "
                                 "rank on every machine, and give what it prints as --link");
    for (size_t i = 0; i < request->worker_counts; i++)
        if (request->workers[i] % request->node_size != 0)
            return msg_usage("plan",
                             "--node-size %llu: %u workers are not divisible into such nodes; a "
                             "range of --workers doubles its first number",
                             (unsigned long long)request->node_size, request->workers[i]);
    return CLI_OK;
}

int plan_request_read(int argc, char **argv, struct plan_request *out)
{
    int code = CLI_OK;
    int letter;
    *out = (struct plan_request){.latency = -1,
                                 .burst = -1,
                                 .step = -1,
                                 .batch = 32,
                                 .threads = 1,
                                 .bucket = BUCKET,
                                 .node_size = 1,
                                 .inside = 2e10};
    while (code == CLI_OK && (letter = getopt_long(argc, argv, "w:m:o:", options, NULL)) != -1)
        code = read_option(letter, optarg, out);
    if (code == CLI_OK && optind < argc)
        code = msg_usage("plan", "'%s': there are only options", argv[optind]);
    return code == CLI_OK ? check(out) : code;
}
