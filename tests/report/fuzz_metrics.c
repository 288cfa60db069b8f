/* The metrics reader: from any bytes it makes a run whose numbers are in order, and a page over it
 * can be made. The input is run.json, a zero byte, metrics.jsonl. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/chart.h"
#include "report/report.h"
#include "report/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check(const struct rep_run *run)
{
    for (size_t i = 0; i < run->step_count; i++) {
        const struct rep_step *step = &run->steps[i];
        if (!isfinite(step->step) || !isfinite(step->seconds) || !(step->bytes_sent >= 0) ||
            (i > 0 && step->step <= step[-1].step) || !(rep_run_stride(run, i) > 0))
            abort();
    }
    for (size_t i = 0; i < run->settings.count; i++)
        if (!run->settings.item[i].key || !run->settings.item[i].value)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const char *text = (const char *)bytes;
    const char *zero = len == 0 ? NULL : memchr(text, 0, len);
    size_t about_len = !zero ? len : (size_t)(zero - text);
    size_t metrics_len = !zero ? 0 : len - about_len - 1;
    struct rep_run *run = NULL;
    if (rep_run_parse("fuzz", text, about_len, !zero ? NULL : zero + 1, metrics_len, &run) !=
        TERSE_OK)
        return 0;
    check(run);
    char *html = NULL;
    size_t html_len = 0;
    if (rep_page_make(&run, 1, NULL, 0, &html, &html_len) == TERSE_OK) {
        if (strlen(html) != html_len)
            abort();
        free(html);
    }
    const struct rep_chart_style style = {.width = 80, .ascii = 0};
    free(rep_chart_run(run, run->method, &style));
    rep_run_free(run);
    return 0;
}
