/* A sweep over numbers of workers: steps and bytes, and where their curves bend. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "message.h"
#include "plan_request.h"
#include "table.h"

/* Not all of its workers were run. */
int plan_is_extended(const struct plan *plan)
{
    return plan->dense->trace->ranks < plan->nodes;
}

/* Which part of a step is the longest. */
static char longest_part(const struct pln_cost *cost)
{
    if (cost->wire_seconds >= cost->codec_seconds && cost->wire_seconds >= cost->compute_seconds)
        return 'w';
    return cost->codec_seconds >= cost->compute_seconds ? 'c' : 'g';
}

const struct plan_row *plan_row_of(const struct plan *plan, const char *shown)
{
    for (size_t i = 0; i < plan->rows; i++)
        if (strcmp(plan->row[i].spec, shown) == 0)
            return &plan->row[i];
    return NULL;
}

static int print_grid(const struct plan *plans, size_t count, int bytes)
{
    char columns[PLAN_MOST_SWEEP + 2] = "l";
    for (size_t k = 0; k < count; k++)
        columns[k + 1] = 'r';
    columns[count + 1] = '\0';
    struct table *const table = table_create(columns);
    table_cell(table, "%s", bytes ? "bytes" : "step");
    for (size_t k = 0; k < count; k++)
        table_cell(table, "%u%s", plans[k].workers, plan_is_extended(&plans[k]) ? "*" : "");
    for (size_t i = 0; i < plans[0].rows; i++) {
        table_cell(table, "%s", plans[0].row[i].spec);
        for (size_t k = 0; k < count; k++) {
            const struct plan_row *const row = plan_row_of(&plans[k], plans[0].row[i].spec);
            if (!row)
                table_cell(table, "-");
            else if (bytes)
                table_cell(table, "%s", com_show_bytes(row->cost.bytes_sent).text);
            else
                table_cell(table, "%s %c", pln_show_seconds(row->cost.seconds).text,
                           longest_part(&row->cost));
        }
    }
    return table_print(table, 0);
}

/* ---- where the curves bend ---- */

static com_json *bends_json(const struct plan *plans, size_t count)
{
    com_json *const list = com_json_array();
    for (size_t i = 0; i < plans[0].rows; i++) {
        struct plan_bend bend[PLAN_MOST_SWEEP];
        const size_t bends = plan_bends(plans, count, plans[0].row[i].spec, bend);
        for (size_t b = 0; b < bends; b++) {
            com_json *const line = com_json_object();
            com_json_put_text(line, "method", plans[0].row[i].spec);
            com_json_put_u64(line, "nodes", bend[b].nodes);
            com_json_put_text(line, "shape", bend[b].shape);
            com_json_put_text(line, "part", bend[b].part);
            com_json_put_text(line, "why", bend[b].why);
            com_json_append(list, line);
        }
    }
    return list;
}

static int print_bends(const struct plan *plans, size_t count)
{
    struct table *const table = table_create("lrll");
    table_cell(table, "bends");
    table_cell(table, "from K");
    table_cell(table, "step");
    table_cell(table, "because");
    for (size_t i = 0; i < plans[0].rows; i++) {
        struct plan_bend bend[PLAN_MOST_SWEEP];
        const size_t bends = plan_bends(plans, count, plans[0].row[i].spec, bend);
        for (size_t b = 0; b < bends; b++) {
            table_cell(table, "%s", b == 0 ? plans[0].row[i].spec : "");
            table_cell(table, "%u", bend[b].nodes);
            table_cell(table, "%s", bend[b].shape);
            table_cell(table, "%s", bend[b].why);
        }
    }
    (void)putchar('\n');
    return table_print(table, 0);
}

/* ---- the page ---- */

enum { LINES = 7 };

/* Step time against workers, of dense and of what is fastest with most workers. */
static int chart_create(const struct plan *plans, size_t count, struct rpr_chart *out)
{
    const struct plan *const last = &plans[count - 1];
    *out = (struct rpr_chart){.id = "workers",
                              .title = "step time against the number of workers",
                              .x_label = "workers",
                              .y_label = "ms per step",
                              .flags = RPR_LOG_X | RPR_LOG_Y,
                              .count = count};
    out->x = calloc(count, sizeof *out->x);
    out->line = calloc(LINES, sizeof *out->line);
    for (size_t k = 0; k < count && out->x; k++)
        out->x[k] = plans[k].workers;
    for (size_t r = 0; r < last->rows + 1 && out->line && out->lines < LINES; r++) {
        const struct plan_row *const row = r == 0 ? last->dense : &last->row[r - 1];
        struct rpr_line *const line = &out->line[out->lines];
        if (r > 0 && row == last->dense)
            continue;
        (void)snprintf(line->name, sizeof line->name, "%.47s", row->spec);
        line->value = calloc(count, sizeof *line->value);
        line->low = line->high = line->value;
        if (!line->value || !out->x)
            return 0;
        out->lines++;
        for (size_t k = 0; k < count; k++) {
            const struct plan_row *const here = plan_row_of(&plans[k], row->spec);
            line->value[k] = here ? 1e3 * here->cost.seconds : 0;
        }
    }
    return out->x && out->line;
}

static void page_bends(struct com_text *out, const struct plan *plans, size_t count)
{
    com_text_put(out, "<table><tr><th>method</th><th class=\"number\">from K</th><th>step</th>"
                      "<th>because</th></tr>\n");
    for (size_t i = 0; i < plans[0].rows; i++) {
        struct plan_bend bend[PLAN_MOST_SWEEP];
        const size_t bends = plan_bends(plans, count, plans[0].row[i].spec, bend);
        for (size_t b = 0; b < bends; b++) {
            com_text_put(out, "<tr><td class=\"id\">");
            com_text_html(out, plans[0].row[i].spec);
            com_text_format(out, "</td><td class=\"number\">%u</td><td>%s</td><td>%s</td></tr>\n",
                            bend[b].nodes, bend[b].shape, bend[b].why);
        }
    }
    com_text_put(out, "</table>\n");
}

static int write_page(const char *path, const struct plan *plans, size_t count)
{
    struct com_text page = {0};
    struct rpr_chart chart;
    if (!chart_create(plans, count, &chart)) {
        plan_chart_destroy(&chart);
        return msg_error(CLI_MACHINE, "out of memory");
    }
    rpr_page_begin(&page, "terse plan");
    com_text_format(&page,
                    "<h1>Should I compress?</h1>\n<p>%s parameters, %u to %u workers, %s</p>\n"
                    "<div class=\"charts\">\n",
                    com_show_count((uint64_t)plans->parameters).text, plans[0].workers,
                    plans[count - 1].workers, pln_show_link(&plans->place).text);
    rpr_svg(&page, &chart);
    com_text_put(&page, "</div>\n");
    page_bends(&page, plans, count);
    com_text_put(&page, "</body></html>\n");
    plan_chart_destroy(&chart);
    return plan_page_write(path, &page);
}

int plan_print_sweep(const struct plan_request *request, const struct plan *plans, size_t count)
{
    int code = request->page ? write_page(request->page, plans, count) : CLI_OK;
    if (code != CLI_OK)
        return code;
    if (request->as_json) {
        com_json *const top = com_json_object();
        com_json *const list = com_json_array();
        for (size_t k = 0; k < count; k++) {
            com_json *const one = plan_json(&plans[k]);
            com_json_put_u64(one, "workers", plans[k].workers);
            com_json_put_u64(one, "nodes", plans[k].nodes);
            com_json_put_flag(one, "extrapolated", plan_is_extended(&plans[k]));
            com_json_append(list, one);
        }
        com_json_put(top, "sweep", list);
        com_json_put(top, "bends", bends_json(plans, count));
        return msg_json(top);
    }
    plan_print_place(&plans[count - 1]);
    code = print_grid(plans, count, 0);
    (void)putchar('\n');
    if (code == CLI_OK)
        code = print_grid(plans, count, 1);
    puts("\nThe longest part of a step: w wire, c codec, g gradient.");
    if (plan_is_extended(&plans[count - 1]))
        puts("* extrapolated from three smaller numbers of workers.");
    if (code == CLI_OK)
        code = print_bends(plans, count);
    puts("");
    for (size_t k = 0; k < count; k++)
        printf("%u workers: %s.\n", plans[k].workers, plans[k].reason);
    return code;
}
