/* One page of all results. */
#include "common/number.h"
#include "svg.h"

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
    "<style>\n"
    "body{font:15px/1.45 system-ui,sans-serif;color:#1c1c1c;background:#fff;margin:24px auto;"
    "max-width:1220px;padding:0 16px}\n"
    "h1{font-size:26px;margin:0 0 4px}h2{font-size:20px;margin:36px 0 2px}"
    "p{margin:4px 0 12px;color:#555}\n"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;"
    "padding:5px 10px;border-bottom:1px solid #e4e4e4}\n"
    ".number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
    "td.id{white-space:nowrap;font-family:ui-monospace,monospace;font-size:13px}\n"
    ".yes,.no{white-space:nowrap;font-weight:600}.yes{color:#1b7a3d}.no{color:#b3261e}\n"
    ".charts{display:flex;flex-wrap:wrap;gap:20px;margin-top:16px}\n"
    "figure{margin:0;border:1px solid #e4e4e4;border-radius:6px;padding:12px;width:560px;"
    "max-width:100%;box-sizing:content-box}figcaption{font-weight:600;margin-bottom:6px}\n"
    "svg{max-width:100%;height:auto}svg text{font-size:12px;fill:#444}svg text.label{fill:#1c1c1c}"
    "\n.grid{stroke:#ececec;fill:none}.axis{stroke:#888;fill:none}"
    ".line{fill:none;stroke-width:1.8}.first{stroke-width:5;stroke-opacity:0.4}\n"
    ".legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 18px;padding:0 0 0 8px;"
    "margin:6px 0 0;font-size:13px}.legend svg{vertical-align:middle;margin-right:6px}\n"
    "</style>\n";

void rpr_page_begin(struct com_text *out, const char *title)
{
    com_text_put(out, head);
    com_text_put(out, "<title>");
    com_text_html(out, title);
    com_text_put(out, "</title></head><body>\n");
}

static void say_claim(struct com_text *out, const struct rpr_claim *claim, unsigned seeds)
{
    com_text_format(out, "<tr><td class=\"%s\">%s</td><td class=\"id\">",
                    claim->holds ? "yes" : "no",
                    claim->holds ? "&#10003; holds" : "&#10007; fails");
    com_text_html(out, claim->id);
    com_text_format(out, "</td><td>");
    com_text_html(out, claim->text);
    com_text_format(out, "</td><td class=\"number\">%s", com_show_number(claim->measured).text);
    if (seeds > 1)
        com_text_format(out, "<br>%s .. %s", com_show_number(claim->low).text,
                        com_show_number(claim->high).text);
    static const char *const sides[] = {
        [RPR_AT_MOST] = "&le; ", [RPR_AT_LEAST] = "&ge; ", [RPR_WITHIN] = ""};
    com_text_format(out, "</td><td class=\"number\">%s%s", sides[claim->side],
                    com_show_number(claim->bound).text);
    if (claim->side == RPR_WITHIN)
        com_text_format(out, " .. %s", com_show_number(claim->upper).text);
    com_text_format(out, "</td></tr>\n");
}

static void say_paper(struct com_text *out, const struct rpr_result *result)
{
    com_text_format(out, "<h2 id=\"%s\">%s: ", result->paper, result->paper);
    com_text_html(out, result->title);
    com_text_format(out, "</h2>\n<p>");
    com_text_html(out, result->citation);
    com_text_format(out, "</p>\n<table><tr><th></th><th>claim</th><th></th><th>measured</th>"
                         "<th>bound</th></tr>\n");
    for (size_t i = 0; i < result->claims; i++)
        say_claim(out, &result->claim[i], result->seeds);
    com_text_format(out, "</table>\n<div class=\"charts\">\n");
    for (size_t i = 0; i < result->charts; i++)
        rpr_svg(out, &result->chart[i]);
    com_text_format(out, "</div>\n");
}

void rpr_page(struct com_text *out, struct rpr_result *const *results, size_t count)
{
    size_t claims = 0;
    size_t holding = 0;
    for (size_t i = 0; i < count; i++) {
        claims += results[i]->claims;
        for (size_t j = 0; j < results[i]->claims; j++)
            holding += results[i]->claim[j].holds != 0;
    }
    rpr_page_begin(out, "terse reproduce");
    com_text_format(
        out,
        "<h1>The papers' small experiments, through libterse</h1>\n<p>%zu of %zu claims "
        "hold; seed %llu",
        holding, claims, (unsigned long long)results[0]->seed);
    if (results[0]->seeds > 1)
        com_text_format(out, " and the %u after it; bands lie between the lowest and the highest",
                        results[0]->seeds - 1);
    com_text_format(out, ".</p>\n");
    for (size_t i = 0; i < count; i++)
        say_paper(out, results[i]);
    com_text_format(out, "</body></html>\n");
}
