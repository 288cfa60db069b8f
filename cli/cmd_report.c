#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command.h"
#include "common/number.h"
#include "common/text.h"
#include "file.h"
#include "message.h"
#include "report/chart.h"
#include "report/report.h"
#include "report/run.h"
#include "report/tables.h"
#include "report_live.h"

static int run(int argc, char **argv);

const struct command cmd_report = {
    .name = "report",
    .summary = "one page over any number of training runs",
    .usage = "terse report RUN... [-o FILE]\n"
             "  terse report RUN... [--csv FILE] [--latex FILE]\n"
             "  terse report RUN... --chart [--ascii] [--width N]\n"
             "  terse report RUN --live PORT",
    .help =
        "Each RUN is a folder with run.json and metrics.jsonl, as training writes them. The\n"
        "page is one HTML file that needs no network and no server. Runs that differ by their\n"
        "seed alone are one group: one curve, one row with mean and standard deviation.\n\n"
        "A damaged file is read up to its last valid line, with a note on the page and on\n"
        "standard error.\n\n"
        "Options\n"
        "  -o, --output FILE   where the page goes; default report.html, - is standard output\n"
        "  --csv FILE          instead of the page: one row per evaluation of every run\n"
        "  --latex FILE        instead of the page: a table with the rules of booktabs, one row\n"
        "                      per group; - is standard output here too\n"
        "  --chart             print charts to the terminal instead\n"
        "  --ascii             charts without Unicode\n"
        "  --width N           columns of a chart; default those of the terminal, or 80\n\n"
        "Examples\n"
        "  terse report runs/*\n"
        "  terse report runs/dense runs/def -o compare.html\n"
        "  terse report runs/* --csv runs.csv --latex runs.tex\n"
        "  terse report runs/* --chart\n",
    .run = run,
};

struct request {
    const char *output; /* of the page; NULL: not given */
    const char *csv;
    const char *latex;
    int chart;
    int live;
    uint64_t port;
    struct rep_chart_style style;
};

/* The runs that could be read, and a line about each that could not. */
struct found {
    struct rep_run **runs;
    size_t count;
    char **notes;
    size_t note_count;
    struct rep_group *groups; /* of the runs */
    size_t group_count;
};

static unsigned terminal_width(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static int check_options(struct request *request, uint64_t width)
{
    const char *const files[] = {request->output, request->csv, request->latex};
    int to_stdout = 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        to_stdout += files[i] && strcmp(files[i], "-") == 0;
    if (to_stdout > 1)
        return msg_usage("report", "only one of --output, --csv and --latex can be -");
    if (request->live && (request->chart || request->output || request->csv || request->latex))
        return msg_usage("report", "--live serves a page; the other options write one");
    if (request->chart && (request->output || request->csv || request->latex))
        return msg_usage("report",
                         "--chart prints to the terminal; --output, --csv and --latex write files");
    if (!request->chart && (request->style.ascii || width > 0))
        return msg_usage("report", "--ascii and --width are for --chart");
    request->style.width = width > 0 ? (unsigned)width : terminal_width();
    return CLI_OK;
}

static int parse_options(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'}, {"csv", required_argument, NULL, 's'},
        {"latex", required_argument, NULL, 'l'},  {"live", required_argument, NULL, 'p'},
        {"chart", no_argument, NULL, 'c'},        {"ascii", no_argument, NULL, 'a'},
        {"width", required_argument, NULL, 'w'},  {NULL, 0, NULL, 0},
    };
    uint64_t width = 0;
    for (int letter; (letter = getopt_long(argc, argv, "o:", options, NULL)) != -1;) {
        switch (letter) {
        case 'o': request->output = optarg; break;
        case 's': request->csv = optarg; break;
        case 'l': request->latex = optarg; break;
        case 'p':
            request->live = 1;
            if (!com_parse_u64(optarg, 0, 65535, &request->port))
                return msg_usage("report", "--live: '%s' is not a port from 0 to 65535", optarg);
            break;
        case 'c': request->chart = 1; break;
        case 'a': request->style.ascii = 1; break;
        case 'w':
            if (!com_parse_u64(optarg, 40, 400, &width))
                return msg_usage("report", "--width: '%s' is not a number from 40 to 400", optarg);
            break;
        default: msg_note("Try 'terse report --help'."); return CLI_USAGE;
        }
    }
    const int code = check_options(request, width);
    if (code != CLI_OK)
        return code;
    if (request->live && argc - optind > 1)
        return msg_usage("report", "--live shows one run, not %d", argc - optind);
    return optind < argc ? CLI_OK : msg_usage("report", "a run's folder is missing");
}

static void print_notes(const char *folder, const struct rep_run *read)
{
    if (read->about_note[0] != '\0')
        msg_note("terse: note: %s: %s", folder, read->about_note);
    if (read->metrics_note[0] != '\0')
        msg_note("terse: note: %s: %s", folder, read->metrics_note);
}

static int read_run(const char *folder, struct found *found)
{
    terse_fault fault = {0};
    terse_status status = rep_run_read(folder, &found->runs[found->count], &fault);
    if (status == TERSE_OK) {
        print_notes(folder, found->runs[found->count++]);
        return CLI_OK;
    }
    if (status == TERSE_NO_MEMORY)
        return msg_error(CLI_MACHINE, "out of memory reading '%s'", folder);
    size_t cap = strlen(folder) + sizeof fault.text + 32;
    char *note = malloc(cap);
    if (!note)
        return msg_error(CLI_MACHINE, "out of memory");
    snprintf(note, cap, "%s: %s; left out", folder, fault.text);
    msg_note("terse: note: %s", note);
    found->notes[found->note_count++] = note;
    return CLI_OK;
}

static int write_file(const char *path, const char *text, size_t len)
{
    struct com_output output;
    int code = output_open(&output, path);
    code = code != CLI_OK ? code : output_write(&output, text, len);
    code = code != CLI_OK ? code : output_finish(&output);
    code = code != CLI_OK ? code : output_commit(&output);
    output_discard(&output);
    return code;
}

static int write_page(const char *path, const struct found *found)
{
    char *html;
    size_t len;
    if (rep_page_make(found->runs, found->count, (const char *const *)found->notes,
                      found->note_count, &html, &len) != TERSE_OK)
        return msg_error(CLI_MACHINE, "out of memory");
    const int code = write_file(path, html, len);
    free(html);
    if (code == CLI_OK && strcmp(path, "-") != 0) {
        printf("%s: %zu run%s, %s\n", path, found->count, found->count == 1 ? "" : "s",
               com_show_bytes((double)len).text);
    }
    return code;
}

/* `text` is freed; NULL: there was no memory for it. */
static int write_table(const char *path, char *text)
{
    if (!text)
        return msg_error(CLI_MACHINE, "out of memory");
    const int code = write_file(path, text, strlen(text));
    free(text);
    return code;
}

static int write_files(const struct request *request, const struct found *found)
{
    const int tables = request->csv || request->latex;
    int code = CLI_OK;
    if (request->output || !tables)
        code = write_page(request->output ? request->output : "report.html", found);
    if (code == CLI_OK && request->csv)
        code = write_table(request->csv, rep_csv(found->groups, found->group_count));
    if (code == CLI_OK && request->latex)
        code = write_table(request->latex, rep_latex(found->groups, found->group_count));
    return code;
}

static int print_or_fail(char *text)
{
    if (!text)
        return msg_error(CLI_MACHINE, "out of memory");
    fputs(text, stdout);
    free(text);
    return CLI_OK;
}

/* "topk keep=0.01, 3 seeds". */
static int print_chart(const struct rep_group *group, const struct rep_chart_style *style)
{
    struct com_text title = {0};
    com_text_put(&title, group->label);
    if (group->count > 1)
        com_text_format(&title, ", %zu seeds", group->count);
    const int code =
        title.failed ? msg_error(CLI_MACHINE, "out of memory")
                     : print_or_fail(rep_chart_runs(group->runs, group->count, title.bytes, style));
    com_text_free(&title);
    return code;
}

static int print_charts(const struct request *request, const struct found *found)
{
    struct rep_chart_point *points = calloc(found->group_count, sizeof *points);
    if (!points)
        return msg_error(CLI_MACHINE, "out of memory");
    int code = CLI_OK;
    for (size_t i = 0; i < found->group_count && code == CLI_OK; i++) {
        const struct rep_group *const group = &found->groups[i];
        points[i] = (struct rep_chart_point){
            .label = group->label,
            .bytes = rep_group_mean(group, rep_run_bytes_per_step).mean,
            .accuracy = rep_group_mean(group, rep_run_accuracy).mean,
        };
        fputs(i == 0 ? "" : "\n", stdout);
        code = print_chart(group, &request->style);
    }
    if (code == CLI_OK && found->group_count > 1) {
        putchar('\n');
        code = print_or_fail(rep_chart_tradeoff(points, found->group_count, &request->style));
    }
    free(points);
    return code;
}

static void found_free(struct found *found)
{
    rep_groups_free(found->groups, found->group_count);
    for (size_t i = 0; i < found->count; i++)
        rep_run_free(found->runs[i]);
    for (size_t i = 0; i < found->note_count; i++)
        free(found->notes[i]);
    free(found->runs);
    free(found->notes);
}

static int report(const struct request *request, char **folders, size_t count)
{
    struct found found = {.runs = calloc(count, sizeof *found.runs),
                          .notes = calloc(count, sizeof *found.notes)};
    if (!found.runs || !found.notes) {
        found_free(&found);
        return msg_error(CLI_MACHINE, "out of memory");
    }
    int code = CLI_OK;
    for (size_t i = 0; i < count && code == CLI_OK; i++)
        code = read_run(folders[i], &found);
    if (code == CLI_OK && found.count == 0)
        code = msg_error(CLI_REFUSED, "no run could be read");
    if (code == CLI_OK &&
        rep_groups_make(found.runs, found.count, &found.groups, &found.group_count) != TERSE_OK)
        code = msg_error(CLI_MACHINE, "out of memory");
    if (code == CLI_OK)
        code = request->chart ? print_charts(request, &found) : write_files(request, &found);
    found_free(&found);
    return code;
}

static int run(int argc, char **argv)
{
    struct request request = {0};
    int code = parse_options(argc, argv, &request);
    if (code == CLI_OK && request.live)
        return report_live(argv[optind], (uint16_t)request.port);
    return code != CLI_OK ? code : report(&request, argv + optind, (size_t)(argc - optind));
}
