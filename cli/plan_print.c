/* A plan as a table, as JSON, as a chart, and as a page. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "file.h"
#include "message.h"
#include "plan_request.h"
#include "reproduce/svg.h"
#include "table.h"

/* ---- JSON ---- */

com_json *plan_json(const struct plan *plan)
{
    com_json *const object = com_json_object();
    com_json *const rows = com_json_array();
    for (size_t i = 0; i < plan->rows; i++) {
        const struct plan_row *const row = &plan->row[i];
        com_json *const line = com_json_object();
        com_json_put_text(line, "method", row->spec);
        com_json_put_real(line, "seconds", row->cost.seconds);
        com_json_put_real(line, "compute_seconds", row->cost.compute_seconds);
        com_json_put_real(line, "codec_seconds", row->cost.codec_seconds);
        com_json_put_real(line, "wire_seconds", row->cost.wire_seconds);
        com_json_put_real(line, "hidden_seconds", row->cost.hidden_seconds);
        com_json_put_real(line, "bytes_sent", row->cost.bytes_sent);
        com_json_put_real(line, "over_dense", row->over_dense);
        com_json_put_real(line, "break_even_bits_per_second", row->break_even);
        com_json_append(rows, line);
    }
    com_json_put(object, "rows", rows);
    com_json_put_text(object, "recommended", plan->recommended->spec);
    com_json_put_text(object, "reason", plan->reason);
    return object;
}

/* ---- the table ---- */

static const char *pays_text(const struct plan *plan, const struct plan_row *row,
                             struct pln_shown *room)
{
    *room = plan_pays(row->break_even);
    return row == plan->dense ? "-" : room->text;
}

/* Of the table, in the terminal and on the page. */
static const char *const headings[] = {"method", "compute", "codec",   "wire",       "hidden",
                                       "step",   "bytes",   "x dense", "x no comm.", "pays"};
enum { HEADINGS = sizeof headings / sizeof headings[0] };

static int print_rows(const struct plan *plan)
{
    struct table *const table = table_create("lrrrrrrrrl");
    for (size_t i = 0; i < HEADINGS; i++)
        table_cell(table, "%s", headings[i]);
    for (size_t i = 0; i < plan->rows; i++) {
        const struct plan_row *const row = &plan->row[i];
        const struct pln_cost *const cost = &row->cost;
        struct pln_shown pays;
        table_cell(table, "%s", row->spec);
        table_cell(table, "%s", pln_show_seconds(cost->compute_seconds).text);
        table_cell(table, "%s", pln_show_seconds(cost->codec_seconds).text);
        table_cell(table, "%s", pln_show_seconds(cost->wire_seconds).text);
        table_cell(table, "%s", pln_show_seconds(cost->hidden_seconds).text);
        table_cell(table, "%s", pln_show_seconds(cost->seconds).text);
        table_cell(table, "%s", com_show_bytes(cost->bytes_sent).text);
        table_cell(table, "%.3f", row->over_dense);
        if (cost->compute_seconds > 0)
            table_cell(table, "%.2f", cost->seconds / cost->compute_seconds);
        else
            table_cell(table, "-");
        table_cell(table, "%s", pays_text(plan, row, &pays));
    }
    return table_print(table, 0);
}

/* "4 workers", "4 workers in 2 nodes" */
static struct pln_shown workers_text(const struct plan *plan)
{
    struct pln_shown shown;
    if (plan->nodes == plan->workers)
        (void)snprintf(shown.text, sizeof shown.text, "%u workers", plan->workers);
    else
        (void)snprintf(shown.text, sizeof shown.text, "%u workers in %u nodes", plan->workers,
                       plan->nodes);
    return shown;
}

void plan_print_place(const struct plan *plan)
{
    const struct pln_place *const place = &plan->place;
    printf("%s parameters, %s, %s, compute %s per step\n\n",
           com_show_count((uint64_t)plan->parameters).text, workers_text(plan).text,
           pln_show_link(place).text, pln_show_seconds(place->compute).text);
}

static void print_notes(const struct plan *plan)
{
    const double scale = plan->dense->trace->scale;
    if (scale > 1)
        printf("Bytes and codec times come from a sample of one in %.3g parameters; --exact takes "
               "all.\n",
               scale);
    if (plan_is_extended(plan))
        puts("Extrapolated from three smaller numbers of workers.");
    if (plan->place.compute == 0)
        puts("Communication alone: --step gives the time of a gradient.");
}

/* ---- step time against the rate of the link ---- */

enum { RATES = 41, LINES = 7 };

/* The chart's lines are dense and the fastest. Returns 0 for lack of memory. */
static int chart_create(const struct plan *plan, struct rpr_chart *out)
{
    *out = (struct rpr_chart){.id = "rates",
                              .x_label = "Mbit/s",
                              .y_label = "ms per step",
                              .flags = RPR_LOG_X | RPR_LOG_Y,
                              .count = RATES};
    (void)snprintf(out->title, sizeof out->title, "step time against the rate of the link, %s",
                   workers_text(plan).text);
    out->x = calloc(RATES, sizeof *out->x);
    out->line = calloc(LINES, sizeof *out->line);
    for (size_t i = 0; i < RATES && out->x; i++)
        out->x[i] = pow(10, (double)i / 8); /* 1 Mbit/s to 100 Gbit/s */
    for (size_t r = 0; r < plan->rows + 1 && out->line && out->lines < LINES; r++) {
        const struct plan_row *const row = r == 0 ? plan->dense : &plan->row[r - 1];
        struct rpr_line *const line = &out->line[out->lines];
        if (r > 0 && row == plan->dense)
            continue;
        (void)snprintf(line->name, sizeof line->name, "%.47s", row->spec);
        line->value = calloc(RATES, sizeof *line->value);
        line->low = line->high = line->value;
        if (!line->value || !out->x)
            return 0;
        out->lines++;
        for (size_t i = 0; i < RATES; i++) {
            struct pln_place place = plan->place;
            place.bits_per_second = 1e6 * out->x[i];
            line->value[i] = 1e3 * pln_simulate(row->trace, &place).seconds;
        }
    }
    return out->x && out->line;
}

void plan_chart_destroy(struct rpr_chart *chart)
{
    for (size_t i = 0; i < chart->lines; i++)
        free(chart->line[i].value);
    free(chart->line);
    free(chart->x);
}

static int print_chart(const struct rpr_chart *chart)
{
    const struct rpr_terminal terminal = {
        .bold = msg_bold(stdout), .good = "", .bad = "", .plain = msg_plain(stdout)};
    struct com_text text = {0};
    rpr_draw(&text, chart, &terminal);
    const int failed = text.failed;
    if (!failed)
        (void)fputs(text.bytes, stdout);
    com_text_free(&text);
    return failed ? msg_error(CLI_MACHINE, "out of memory") : CLI_OK;
}

/* ---- the page ---- */

static void page_rows(struct com_text *out, const struct plan *plan)
{
    com_text_put(out, "<table><tr>");
    for (size_t i = 0; i < HEADINGS; i++)
        com_text_format(out, "<th%s>%s</th>", i > 0 && i + 1 < HEADINGS ? " class=\"number\"" : "",
                        headings[i]);
    com_text_put(out, "</tr>\n");
    for (size_t i = 0; i < plan->rows; i++) {
        const struct plan_row *const row = &plan->row[i];
        const double seconds[] = {row->cost.compute_seconds, row->cost.codec_seconds,
                                  row->cost.wire_seconds, row->cost.hidden_seconds,
                                  row->cost.seconds};
        struct pln_shown pays;
        com_text_put(out, "<tr><td class=\"id\">");
        com_text_html(out, row->spec);
        com_text_put(out, "</td>");
        for (size_t j = 0; j < sizeof seconds / sizeof seconds[0]; j++)
            com_text_format(out, "<td class=\"number\">%s</td>", pln_show_seconds(seconds[j]).text);
        com_text_format(out, "<td class=\"number\">%s</td><td class=\"number\">%.3f</td>",
                        com_show_bytes(row->cost.bytes_sent).text, row->over_dense);
        if (row->cost.compute_seconds > 0)
            com_text_format(out, "<td class=\"number\">%.2f</td>",
                            row->cost.seconds / row->cost.compute_seconds);
        else
            com_text_put(out, "<td class=\"number\">-</td>");
        com_text_format(out, "<td>%s</td></tr>\n", pays_text(plan, row, &pays));
    }
    com_text_put(out, "</table>\n");
}

int plan_page_write(const char *path, struct com_text *page)
{
    struct com_output output;
    int code = page->failed ? msg_error(CLI_MACHINE, "out of memory") : output_open(&output, path);
    if (code == CLI_OK) {
        code = output_write(&output, page->bytes, page->len);
        if (code == CLI_OK)
            code = output_commit(&output);
        output_discard(&output);
    }
    com_text_free(page);
    return code;
}

static int write_page(const char *path, const struct plan *plan, const struct rpr_chart *chart)
{
    struct com_text page = {0};
    rpr_page_begin(&page, "terse plan");
    com_text_format(&page,
                    "<h1>Should I compress?</h1>\n<p>%s parameters, %s, %s</p>\n"
                    "<p>Recommended: ",
                    com_show_count((uint64_t)plan->parameters).text, workers_text(plan).text,
                    pln_show_link(&plan->place).text);
    com_text_html(&page, plan->reason);
    com_text_put(&page, ".</p>\n");
    page_rows(&page, plan);
    com_text_put(&page, "<div class=\"charts\">\n");
    rpr_svg(&page, chart);
    com_text_put(&page, "</div>\n</body></html>\n");
    return plan_page_write(path, &page);
}

int plan_print(const struct plan_request *request, const struct plan *plan)
{
    struct rpr_chart chart;
    int code = CLI_OK;
    if (!chart_create(plan, &chart))
        code = msg_error(CLI_MACHINE, "out of memory");
    if (code == CLI_OK && request->page)
        code = write_page(request->page, plan, &chart);
    if (code == CLI_OK && request->as_json) {
        code = msg_json(plan_json(plan));
    } else if (code == CLI_OK) {
        plan_print_place(plan);
        code = print_rows(plan);
        if (code == CLI_OK)
            code = print_chart(&chart);
        printf("\nRecommended: %s.\n", plan->reason);
        print_notes(plan);
    }
    plan_chart_destroy(&chart);
    return code;
}
