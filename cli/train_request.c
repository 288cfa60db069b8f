#include "train_request.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <terse/terse.h>

#include "common/number.h"
#include "say.h"

#define MOST_SEED (1ull << 53) /* what JSON can carry */

enum {
    OPT_MODEL = 256,
    OPT_DATA,
    OPT_METHOD,
    OPT_METHODS,
    OPT_WORKERS,
    OPT_EPOCHS,
    OPT_STEPS,
    OPT_BATCH,
    OPT_ACCUMULATE,
    OPT_LR,
    OPT_SEED,
    OPT_SEEDS,
    OPT_OUT,
    OPT_CHECKPOINT_EVERY,
    OPT_RESUME,
    OPT_EVALUATE_EVERY,
    OPT_TARGET,
    OPT_SHARD,
    OPT_AUGMENT,
    OPT_THREADS,
    OPT_CODEC_THREADS,
    OPT_DEADLINE,
    OPT_JSON,
    OPT_LIVE,
    OPT_LIVE_HOST,
    OPT_ASCII,
};

static const struct option options[] = {
    {"model", required_argument, NULL, OPT_MODEL},
    {"data", required_argument, NULL, OPT_DATA},
    {"method", required_argument, NULL, OPT_METHOD},
    {"methods", required_argument, NULL, OPT_METHODS},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {"epochs", required_argument, NULL, OPT_EPOCHS},
    {"steps", required_argument, NULL, OPT_STEPS},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"accumulate", required_argument, NULL, OPT_ACCUMULATE},
    {"lr", required_argument, NULL, OPT_LR},
    {"seed", required_argument, NULL, OPT_SEED},
    {"seeds", required_argument, NULL, OPT_SEEDS},
    {"out", required_argument, NULL, OPT_OUT},
    {"checkpoint-every", required_argument, NULL, OPT_CHECKPOINT_EVERY},
    {"resume", required_argument, NULL, OPT_RESUME},
    {"evaluate-every", required_argument, NULL, OPT_EVALUATE_EVERY},
    {"target", required_argument, NULL, OPT_TARGET},
    {"shard", required_argument, NULL, OPT_SHARD},
    {"augment", no_argument, NULL, OPT_AUGMENT},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"codec-threads", required_argument, NULL, OPT_CODEC_THREADS},
    {"deadline", required_argument, NULL, OPT_DEADLINE},
    {"json", no_argument, NULL, OPT_JSON},
    {"live", required_argument, NULL, OPT_LIVE},
    {"live-host", required_argument, NULL, OPT_LIVE_HOST},
    {"ascii", no_argument, NULL, OPT_ASCII},
    {"quiet", no_argument, NULL, 'q'},
    {"verbose", no_argument, NULL, 'v'},
    {NULL, 0, NULL, 0},
};

/* ---- numbers ---- */

/* A whole number in low..high into *out, or what the range is. */
static int whole(const char *command, const char *name, uint64_t low, uint64_t high, uint64_t *out)
{
    if (com_parse_count(optarg, low, high, out))
        return CLI_OK;
    return say_usage(command, "--%s: '%s' is not a whole number from %llu to %llu", name, optarg,
                     (unsigned long long)low, (unsigned long long)high);
}

static int small(const char *command, const char *name, uint64_t low, uint64_t high, uint32_t *out)
{
    uint64_t value = 0;
    const int code = whole(command, name, low, high, &value);
    if (code == CLI_OK)
        *out = (uint32_t)value;
    return code;
}

static int real(const char *command, const char *name, double low, double high, double *out)
{
    if (com_parse_real(optarg, low, high, out))
        return CLI_OK;
    return say_usage(command, "--%s: '%s' is not a number from %g to %g", name, optarg, low, high);
}

static int read_number(const char *command, int option, struct train_request *out)
{
    struct trn_settings *const settings = &out->settings;
    uint64_t port = 0;
    int code = CLI_OK;
    switch (option) {
    case OPT_WORKERS:
        return small(command, "workers", 1, TERSE_MAX_LOCAL_WORKERS, &settings->workers);
    case OPT_EPOCHS: return whole(command, "epochs", 1, 1000000, &settings->epochs);
    case OPT_STEPS: return whole(command, "steps", 1, 1000000000, &settings->steps);
    case OPT_BATCH: return small(command, "batch", 1, 65536, &settings->batch);
    case OPT_ACCUMULATE: return small(command, "accumulate", 1, 65536, &settings->accumulate);
    case OPT_LR: return real(command, "lr", 0, 1000, &out->lr);
    case OPT_SEED: return whole(command, "seed", 0, MOST_SEED, &settings->seed);
    case OPT_SEEDS: return whole(command, "seeds", 1, 1000, &out->seeds);
    case OPT_CHECKPOINT_EVERY:
        return whole(command, "checkpoint-every", 1, 1000000000, &settings->checkpoint_every);
    case OPT_EVALUATE_EVERY:
        return whole(command, "evaluate-every", 1, 1000000000, &settings->evaluate_every);
    case OPT_TARGET: return real(command, "target", 0, 1, &settings->target);
    case OPT_THREADS: return small(command, "threads", 1, 256, &settings->threads);
    case OPT_CODEC_THREADS:
        return small(command, "codec-threads", 1, 256, &settings->codec_threads);
    case OPT_DEADLINE: return real(command, "deadline", 0.1, 86400, &settings->deadline);
    case OPT_LIVE:
        code = whole(command, "live", 0, 65535, &port);
        out->live_port = (int)port;
        return code;
    default: return say_usage(command, "unknown option");
    }
}

static int read_option(const char *command, int option, struct train_request *out)
{
    struct trn_settings *const settings = &out->settings;
    switch (option) {
    case OPT_MODEL: settings->model = optarg; return CLI_OK;
    case OPT_DATA: settings->data = optarg; return CLI_OK;
    case OPT_METHOD: out->method = optarg; return CLI_OK;
    case OPT_METHODS: out->methods = optarg; return CLI_OK;
    case OPT_OUT: settings->out = optarg; return CLI_OK;
    case OPT_RESUME: settings->resume = optarg; return CLI_OK;
    case OPT_SHARD: settings->shard = optarg; return CLI_OK;
    case OPT_AUGMENT: settings->augment = 1; return CLI_OK;
    case OPT_JSON: out->json = 1; return CLI_OK;
    case OPT_LIVE_HOST: out->live_host = optarg; return CLI_OK;
    case OPT_ASCII: out->ascii = 1; return CLI_OK;
    case 'q': out->quiet = 1; return CLI_OK;
    case 'v': out->verbose = 1; return CLI_OK;
    case '?': say_note("Try 'terse %s --help'.", command); return CLI_USAGE;
    default: return read_number(command, option, out);
    }
}

/* ---- the command ---- */

static void join_command(int argc, char **argv, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < argc && used < cap; i++) {
        const int quote = strpbrk(argv[i], " ;*?$&|<>()'\"") && i > 0;
        used += (size_t)snprintf(out + used, cap - used, "%s%s%s%s", i == 0 ? "" : " ",
                                 quote ? "'" : "", argv[i], quote ? "'" : "");
    }
}

int train_request_read(int argc, char **argv, int compare, struct train_request *out)
{
    const char *const command = compare ? "compare" : "train";
    *out = (struct train_request){.lr = -1, .live_port = -1, .seeds = 1};
    out->settings = (struct trn_settings){.seed = TRAIN_UNSAID, .target = -1, .deadline = -1};
    join_command(argc, argv, out->command, sizeof out->command);
    for (int option; (option = getopt_long(argc, argv, "qv", options, NULL)) != -1;) {
        const int code = read_option(command, option, out);
        if (code != CLI_OK)
            return code;
    }
    struct trn_settings *const settings = &out->settings;
    if (optind < argc)
        return say_usage(command, "unexpected '%s'", argv[optind]);
    if (settings->epochs && settings->steps)
        return say_usage(command, "--epochs or --steps, not both");
    if (!compare && (out->methods || out->seeds > 1))
        return say_usage(command, "--methods and --seeds are for terse compare");
    if (compare && !out->methods)
        return say_usage(command, "--methods \"dense;signum;...\" is missing");
    if (compare && (settings->resume || out->method))
        return say_usage(command, settings->resume
                                      ? "--resume: the same command goes on where it stopped"
                                      : "--method: write --methods \"dense;signum;...\"");
    settings->command = out->command;
    return CLI_OK;
}

/* ---- the method ---- */

static int mentions(const char *spec, const char *key)
{
    const size_t len = strlen(key);
    for (const char *at = strpbrk(spec, ":="); at; at = strpbrk(at + 1, ",:"))
        if (strncmp(at + 1, key, len) == 0 && at[1 + len] == '=')
            return 1;
    return strncmp(spec, key, len) == 0 && spec[len] == '=';
}

static int has_param(const char *spec, const char *name)
{
    const size_t len = strcspn(spec, ":");
    terse_method_about about;
    terse_param param;
    for (uint32_t i = 0; terse_method_list(i, &about) == TERSE_OK; i++) {
        if (strlen(about.name) != len || strncmp(about.name, spec, len) != 0)
            continue;
        for (uint32_t p = 0; terse_method_param(i, p, &param) == TERSE_OK; p++)
            if (strcmp(param.name, name) == 0)
                return 1;
    }
    return strchr(spec, '=') && strcspn(spec, "=") < strcspn(spec, ":,");
}

static void add_entry(char *spec, size_t cap, const char *entry)
{
    const size_t used = strlen(spec);
    (void)snprintf(spec + used, cap - used, "%s%s", strpbrk(spec, ":=") ? "," : ":", entry);
}

/* Learning rates with which the methods train the networks here, where the method's own default is
 * the paper's for another problem: docs/results.md tells how they were chosen. */
static const char *habit_of(const char *spec)
{
    static const struct {
        const char *method;
        const char *entries;
    } habits[] = {
        {"dense", "lr=0.02"},
        {"fp16", "lr=0.02"},
        {"bf16", "lr=0.02"},
        {"powersgd", "lr=0.02"},
        {"signsgd", "lr=0.0005"},
        {"signum", "lr=0.0005"},
        {"def", "lr=0.02"},
        {"def-a", "lr=0.02"},
        {"ef-sign", "lr=0.02"},
        {"topk", "lr=0.02,momentum=0.9"},
        {"regtopk", "lr=0.02,momentum=0.9"},
        {"dqsgd", "lr=0.02,momentum=0.9"},
        {"qsgd", "lr=0.02,momentum=0.9"},
        {"natural", "lr=0.02,momentum=0.9"},
        {"terngrad", "lr=0.01,momentum=0.9"},
    };
    const size_t len = strcspn(spec, ":");
    for (size_t i = 0; i < sizeof habits / sizeof habits[0]; i++)
        if (strlen(habits[i].method) == len && strncmp(habits[i].method, spec, len) == 0)
            return habits[i].entries;
    return "";
}

void train_request_method(struct train_request *request, const char *method, char *note,
                          size_t note_cap)
{
    char *const spec = request->spec;
    const size_t cap = sizeof request->spec;
    const char *habit = habit_of(method);
    char entry[64];
    (void)snprintf(spec, cap, "%s", method);
    if (request->lr >= 0 && !mentions(spec, "lr")) {
        (void)snprintf(entry, sizeof entry, "lr=%.9g", request->lr);
        add_entry(spec, cap, entry);
    }
    while (*habit != '\0') { /* each entry that the spec does not have yet */
        const size_t len = strcspn(habit, ",");
        const size_t key = strcspn(habit, "=");
        (void)snprintf(entry, sizeof entry, "%.*s", (int)key, habit);
        if (!mentions(spec, entry)) {
            (void)snprintf(entry, sizeof entry, "%.*s", (int)len, habit);
            add_entry(spec, cap, entry);
        }
        habit += len + (habit[len] == ',');
    }
    const int plain = strncmp(spec, "dense", 5) == 0 || strncmp(spec, "adam", 4) == 0;
    if (!plain && has_param(spec, "min") && !mentions(spec, "min"))
        add_entry(spec, cap, "min=1024");
    note[0] = '\0';
    if (strcmp(spec, method) != 0)
        (void)snprintf(note, note_cap, "method %s", spec);
    request->settings.method = spec;
}
