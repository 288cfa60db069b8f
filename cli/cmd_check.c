#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <terse/terse.h>

#include "check/check.h"
#include "command.h"
#include "common/json.h"
#include "common/number.h"
#include "message.h"
#include "plugin.h"

enum { USUAL_SEED = 1, USUAL_LARGE = 40000, MOST_LARGE = 1000000000 };

static int run(int argc, char **argv);

const struct command cmd_check = {
    .name = "check",
    .summary = "check what a codec promises, also one of your own",
    .usage = "terse check codec SPEC [--plugin FILE] [options]",
    .help = "Encodes and decodes inputs of every kind and prints for each promise of a codec "
            "whether it\n"
            "holds, or the input that breaks it: lengths, decoded + residual = input, the same "
            "bits with\n"
            "any threads, contraction, unbiasedness (a z-test), damaged payloads, and the rest. "
            "What a\n"
            "codec does not claim is not checked. Exit code 4 if a promise is broken.\n\n"
            "Options\n"
            "  --plugin FILE   codecs of your own: a .so or .py file, or several separated by "
            "commas\n"
            "  --seed Z        of the inputs and of the codec; default 1\n"
            "  --count N       elements of the largest tensor; default 40000\n"
            "  --json          print {\"codec\": ..., \"broken\": N, \"promises\": [...]}\n\n"
            "Examples\n"
            "  terse check codec topk:keep=0.01\n"
            "  terse check codec random-k:keep=0.05 --plugin examples/random_k.py\n"
            "  terse check codec mine:p=2 --plugin ./mine.so --seed 7\n",
    .run = run,
};

static const char *const verdicts[] = {
    [CHK_HOLDS] = "holds", [CHK_BROKEN] = "broken", [CHK_NOT_CLAIMED] = "not claimed"};

static void print_finding(void *unused, const struct chk_finding *finding)
{
    (void)unused;
    printf("  %-13s %-12s %s\n", finding->promise, verdicts[finding->verdict], finding->meaning);
    if (finding->verdict == CHK_BROKEN)
        printf("                %s\n", finding->text);
    (void)fflush(stdout);
}

static void append_finding(void *list, const struct chk_finding *finding)
{
    com_json *const one = com_json_object();
    com_json_put_text(one, "promise", finding->promise);
    com_json_put_text(one, "meaning", finding->meaning);
    com_json_put_text(one, "verdict", verdicts[finding->verdict]);
    if (finding->verdict == CHK_BROKEN)
        com_json_put_text(one, "input", finding->text);
    com_json_append(list, one);
}

static int check_codec(const struct chk_settings *settings, int as_json)
{
    com_json *const list = as_json ? com_json_array() : NULL;
    terse_fault fault = {.text = ""};
    uint32_t broken = 0;
    if (terse_codec_check(settings->spec, NULL, &fault) == TERSE_OK && !as_json)
        printf("%s, seed %llu\n", settings->spec, (unsigned long long)settings->seed);
    const terse_status status =
        chk_codec(settings, as_json ? append_finding : print_finding, list, &broken, &fault);
    if (status != TERSE_OK) {
        com_json_free(list);
        return msg_status(settings->spec, status, &fault);
    }
    if (as_json) {
        com_json *const top = com_json_object();
        com_json_put_text(top, "codec", settings->spec);
        com_json_put_u64(top, "seed", settings->seed);
        com_json_put_u64(top, "broken", broken);
        com_json_put(top, "promises", list);
        const int code = msg_json(top);
        return code == CLI_OK && broken > 0 ? CLI_CLAIM : code;
    }
    if (broken == 0)
        printf("every promise that it claims holds\n");
    return broken == 0
               ? CLI_OK
               : msg_error(CLI_CLAIM, "codec %s breaks %u of its promises", settings->spec, broken);
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"plugin", required_argument, NULL, 'p'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"count", required_argument, NULL, 'n'},
                                            {"json", no_argument, NULL, 'j'},
                                            {NULL, 0, NULL, 0}};
    struct chk_settings settings = {.seed = USUAL_SEED, .large = USUAL_LARGE};
    const char *plugin = PLUGIN_NONE;
    int as_json = 0;
    for (int letter; (letter = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (letter == 'p') {
            plugin = optarg;
        } else if (letter == 's' && !com_parse_count(optarg, 0, UINT64_MAX, &settings.seed)) {
            return msg_usage("check", "--seed: '%s' is not a whole number", optarg);
        } else if (letter == 'n' && !com_parse_count(optarg, 1, MOST_LARGE, &settings.large)) {
            return msg_usage("check", "--count: '%s' is not a number from 1 to %d", optarg,
                             MOST_LARGE);
        } else if (letter == 'j') {
            as_json = 1;
        } else if (letter == '?') {
            msg_note("Try 'terse check --help'.");
            return CLI_USAGE;
        }
    }
    if (argc - optind != 2 || strcmp(argv[optind], "codec") != 0)
        return msg_usage("check", "write terse check codec SPEC");
    settings.spec = argv[optind + 1];
    const int code = plugin_load(plugin);
    return code == CLI_OK ? check_codec(&settings, as_json) : code;
}
