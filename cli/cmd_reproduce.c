#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "common/json.h"
#include "common/names.h"
#include "common/number.h"
#include "file.h"
#include "machine.h"
#include "message.h"
#include "reproduce/reproduce.h"

static int run(int argc, char **argv);

const struct command cmd_reproduce = {
    .name = "reproduce",
    .summary = "the five papers' small experiments, and whether their claims hold",
    .usage = "terse reproduce [signsgd|def|qadam|regtopk|dqsgd|all]... [--seed S] [--seeds N]\n"
             "                  [--out FILE.html] [--threads N] [--json]",
    .help =
        "Runs each paper's small experiments with the methods of this library, offline. Prints\n"
        "every claim with its measurement and bound and whether it holds, draws the curves, and\n"
        "writes them to a page. Without a name runs all five, which takes about a minute.\n\n"
        "All randomness depends on the seed: the same seed gives the same numbers. The claims\n"
        "are statistics that hold for any seed; one that fails is an error of the library.\n\n"
        "Options\n"
        "  --seed S       seed of all randomness; default 1\n"
        "  --seeds N      run S, S+1, .. S+N-1: means, lowest and highest; a claim holds only if\n"
        "                 it holds for each of them\n"
        "  -o, --out F    the page of claims and curves (HTML with SVG, one file); default\n"
        "                 reproduce.html, with --json none; 'none' writes no page\n"
        "  --threads N    default as many as there are CPUs; never changes a number\n"
        "  --json         print JSON: papers, each with claims (id, text, measured, bound, holds)\n"
        "                 and series (name: values)\n\n"
        "Exit code 4: a claim does not hold.\n\n"
        "Examples\n"
        "  terse reproduce all\n"
        "  terse reproduce def regtopk --seed 7 --out none\n"
        "  terse reproduce signsgd --seeds 10 -o signsgd.html\n"
        "  terse reproduce all --json > claims.json\n",
    .run = run,
};

enum { MOST_PAPERS = 8, MOST_SEEDS = 1000 };

struct request {
    const char *paper[MOST_PAPERS];
    size_t papers;
    uint64_t seed;
    uint64_t seeds;
    uint64_t threads;
    const char *out; /* NULL: no page */
    int as_json;
};

/* ---- the command line ---- */

static int add_paper(struct request *request, const char *name)
{
    for (size_t i = 0; i < request->papers; i++)
        if (strcmp(request->paper[i], name) == 0)
            return CLI_OK;
    request->paper[request->papers++] = name;
    return CLI_OK;
}

static int add_named(struct request *request, const char *word)
{
    char papers[120];
    int found = 0;
    for (unsigned i = 0; rpr_paper(i); i++) {
        if (strcmp(word, "all") != 0 && strcmp(word, rpr_paper(i)) != 0)
            continue;
        add_paper(request, rpr_paper(i));
        found = 1;
    }
    if (found)
        return CLI_OK;
    const int nearest = com_names_nearest(rpr_paper, word, strlen(word));
    if (nearest != COM_NO_NAME)
        return msg_usage("reproduce", "no paper '%s'; did you mean '%s'?", word,
                         rpr_paper((unsigned)nearest));
    return msg_usage("reproduce", "no paper '%s': %s or all", word,
                     com_names_join(rpr_paper, ", ", papers, sizeof papers));
}

static int read_number(const char *option, uint64_t low, uint64_t high, uint64_t *out)
{
    if (com_parse_u64(optarg, low, high, out))
        return CLI_OK;
    return msg_usage("reproduce", "%s: '%s' is not a number in %llu..%llu", option, optarg,
                     (unsigned long long)low, (unsigned long long)high);
}

static int read_option(struct request *request, int letter)
{
    switch (letter) {
    case 's': return read_number("--seed", 0, UINT64_MAX, &request->seed);
    case 'n': return read_number("--seeds", 1, MOST_SEEDS, &request->seeds);
    case 't': return read_number("--threads", 1, 64, &request->threads);
    case 'o': request->out = optarg; return CLI_OK;
    case 'j': request->as_json = 1; return CLI_OK;
    default: msg_note("Try 'terse reproduce --help'."); return CLI_USAGE;
    }
}

static int read_request(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},    {"seeds", required_argument, NULL, 'n'},
        {"threads", required_argument, NULL, 't'}, {"out", required_argument, NULL, 'o'},
        {"json", no_argument, NULL, 'j'},          {NULL, 0, NULL, 0}};
    int code = CLI_OK;
    *request = (struct request){.seed = 1, .seeds = 1, .threads = machine_cpus()};
    for (int letter; (letter = getopt_long(argc, argv, "o:", options, NULL)) != -1;) {
        code = read_option(request, letter);
        if (code != CLI_OK)
            return code;
    }
    for (int i = optind; i < argc && code == CLI_OK; i++)
        code = add_named(request, argv[i]);
    if (code == CLI_OK && request->papers == 0)
        code = add_named(request, "all");
    if (!request->out && !request->as_json)
        request->out = "reproduce.html";
    if (request->out && strcmp(request->out, "none") == 0)
        request->out = NULL;
    return code;
}

/* ---- output ---- */

static com_json *claims_json(const struct rpr_result *result)
{
    static const char *const side_name[] = {
        [RPR_AT_MOST] = "at most", [RPR_AT_LEAST] = "at least", [RPR_WITHIN] = "within"};
    com_json *list = com_json_array();
    for (size_t i = 0; i < result->claims; i++) {
        const struct rpr_claim *claim = &result->claim[i];
        com_json *one = com_json_object();
        com_json_put_text(one, "id", claim->id);
        com_json_put_text(one, "text", claim->text);
        com_json_put_real(one, "measured", claim->measured);
        com_json_put_real(one, "bound", claim->bound);
        if (claim->side == RPR_WITHIN)
            com_json_put_real(one, "upper", claim->upper);
        com_json_put_text(one, "side", side_name[claim->side]);
        com_json_put_flag(one, "holds", claim->holds);
        if (result->seeds > 1) {
            com_json_put_real(one, "low", claim->low);
            com_json_put_real(one, "high", claim->high);
            com_json_put_real(one, "deviation", claim->deviation);
        }
        com_json_append(list, one);
    }
    return list;
}

static com_json *values_json(const double *value, size_t count)
{
    com_json *list = com_json_array();
    for (size_t i = 0; i < count; i++)
        com_json_append_real(list, value[i]);
    return list;
}

/* A line's name is unique within its chart, a chart's id within its paper. */
static void put_charts(com_json *paper, const struct rpr_result *result)
{
    com_json *series = com_json_object();
    com_json *spread = com_json_object();
    com_json *charts = com_json_array();
    for (size_t i = 0; i < result->charts; i++) {
        const struct rpr_chart *chart = &result->chart[i];
        com_json *one = com_json_object();
        com_json *names = com_json_array();
        for (size_t j = 0; j < chart->lines; j++) {
            char name[sizeof chart->id + sizeof chart->line[j].name + 2];
            com_json *range = com_json_object();
            snprintf(name, sizeof name, "%s/%s", chart->id, chart->line[j].name);
            com_json_put(series, name, values_json(chart->line[j].value, chart->count));
            com_json_put(range, "low", values_json(chart->line[j].low, chart->count));
            com_json_put(range, "high", values_json(chart->line[j].high, chart->count));
            com_json_put(spread, name, range);
            com_json_append_text(names, name);
        }
        com_json_put_text(one, "id", chart->id);
        com_json_put_text(one, "title", chart->title);
        com_json_put_text(one, "x_label", chart->x_label);
        com_json_put_text(one, "y_label", chart->y_label);
        com_json_put(one, "x", values_json(chart->x, chart->count));
        com_json_put(one, "series", names);
        com_json_append(charts, one);
    }
    com_json_put(paper, "series", series);
    com_json_put(paper, "charts", charts);
    if (result->seeds > 1)
        com_json_put(paper, "spread", spread);
    else
        com_json_free(spread);
}

static int print_json(struct rpr_result *const *results, size_t count)
{
    com_json *top = com_json_object();
    com_json *papers = com_json_array();
    for (size_t i = 0; i < count; i++) {
        com_json *paper = com_json_object();
        com_json_put_text(paper, "paper", results[i]->paper);
        com_json_put_text(paper, "citation", results[i]->citation);
        com_json_put_u64(paper, "seed", results[i]->seed);
        com_json_put_u64(paper, "seeds", results[i]->seeds);
        com_json_put(paper, "claims", claims_json(results[i]));
        put_charts(paper, results[i]);
        com_json_append(papers, paper);
    }
    com_json_put(top, "papers", papers);
    return msg_json(top);
}

static int locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && value[0] != '\0')
            return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "utf-8");
    }
    return 0;
}

static int print_text(const struct rpr_result *result)
{
    const char *bold = msg_bold(stdout);
    const int colour = bold[0] != '\0';
    const struct rpr_terminal terminal = {.unicode = locale_is_utf8(),
                                          .bold = bold,
                                          .good = colour ? "\033[32m" : "",
                                          .bad = colour ? "\033[31m" : "",
                                          .plain = msg_plain(stdout)};
    struct com_text text = {0};
    rpr_print(&text, result, &terminal);
    if (text.failed) {
        com_text_free(&text);
        return msg_error(CLI_MACHINE, "out of memory");
    }
    fputs(text.bytes, stdout);
    fflush(stdout);
    com_text_free(&text);
    return CLI_OK;
}

static int write_page(struct com_output *output, struct rpr_result *const *results, size_t count)
{
    struct com_text text = {0};
    rpr_page(&text, results, count);
    int code = text.failed ? msg_error(CLI_MACHINE, "out of memory") : CLI_OK;
    if (code == CLI_OK)
        code = output_write(output, text.bytes, text.len);
    if (code == CLI_OK)
        code = output_finish(output);
    if (code == CLI_OK)
        code = output_commit(output);
    com_text_free(&text);
    return code;
}

/* ---- the command ---- */

static int run_paper(const struct request *request, const char *paper, struct rpr_result **out)
{
    struct rpr_result **results = calloc(request->seeds, sizeof *results);
    if (!results)
        return msg_error(CLI_MACHINE, "out of memory");
    int code = CLI_OK;
    unsigned done = 0;
    while (done < request->seeds && code == CLI_OK) {
        terse_fault fault = {0};
        terse_status status = rpr_run(paper, request->seed + done, (unsigned)request->threads,
                                      &results[done], &fault);
        if (status != TERSE_OK) {
            code = msg_status(paper, status, &fault);
            break;
        }
        done++;
    }
    if (code == CLI_OK)
        *out = rpr_merge(results, done);
    else
        for (unsigned i = 0; i < done; i++)
            rpr_free(results[i]);
    free(results);
    return code;
}

static void count_claims(struct rpr_result *const *results, size_t count, size_t *all,
                         size_t *holding)
{
    *all = *holding = 0;
    for (size_t i = 0; i < count && results[i]; i++) {
        *all += results[i]->claims;
        for (size_t j = 0; j < results[i]->claims; j++)
            *holding += results[i]->claim[j].holds != 0;
    }
}

static int conclude(const struct request *request, struct com_output *page,
                    struct rpr_result *const *results, double seconds)
{
    size_t all;
    size_t holding;
    count_claims(results, request->papers, &all, &holding);
    int code = CLI_OK;
    if (request->as_json) {
        code = print_json(results, request->papers);
    } else {
        printf("%zu of %zu claims hold (seed %llu%s, %.0f s).\n", holding, all,
               (unsigned long long)request->seed, request->seeds > 1 ? " and on" : "", seconds);
    }
    if (code == CLI_OK && page) {
        code = write_page(page, results, request->papers);
        if (code == CLI_OK && !request->as_json && strcmp(request->out, "-") != 0)
            printf("The curves: %s\n", request->out);
    }
    return code != CLI_OK ? code : holding == all ? CLI_OK : CLI_CLAIM;
}

static int run_papers(const struct request *request, struct com_output *page)
{
    struct rpr_result *results[MOST_PAPERS] = {NULL};
    double start = machine_seconds();
    int code = CLI_OK;
    for (size_t i = 0; i < request->papers && code == CLI_OK; i++) {
        code = run_paper(request, request->paper[i], &results[i]);
        if (code == CLI_OK && !request->as_json)
            code = print_text(results[i]);
    }
    if (code == CLI_OK)
        code = conclude(request, page, results, machine_seconds() - start);
    for (size_t i = 0; i < MOST_PAPERS; i++)
        rpr_free(results[i]);
    return code;
}

/* The page is opened first, so that a failure to write it is reported at once. */
static int run(int argc, char **argv)
{
    struct request request;
    struct com_output output;
    int code = read_request(argc, argv, &request);
    if (code != CLI_OK)
        return code;
    if (!request.out)
        return run_papers(&request, NULL);
    code = output_open(&output, request.out);
    if (code == CLI_OK)
        code = run_papers(&request, &output);
    output_discard(&output);
    return code;
}
