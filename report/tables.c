#include "tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/text.h"

static char *finish(struct com_text *text)
{
    if (!text->failed)
        return text->bytes;
    free(text->bytes);
    return NULL;
}

/* ---- CSV ---- */

/* Quoted where a reader would see more than one cell. */
static void put_cell(struct com_text *text, const char *words)
{
    if (!strpbrk(words, ",\"\r\n")) {
        com_text_put(text, words);
        return;
    }
    com_text_put(text, "\"");
    for (; *words; words++) {
        com_text_put(text, *words == '"' ? "\"" : "");
        com_text_add(text, words, 1);
    }
    com_text_put(text, "\"");
}

/* An empty cell if it was not measured. */
static void put_value(struct com_text *text, double value)
{
    com_text_put(text, ",");
    if (isfinite(value))
        com_text_json_number(text, value);
}

/* Bytes of one worker until this evaluation: as recorded, else summed over the steps. */
static double bytes_until(const struct rep_run *run, const struct rep_evaluation *evaluation)
{
    double sum = 0;
    if (!isnan(evaluation->bytes_sent_total))
        return evaluation->bytes_sent_total;
    for (size_t i = 0; i < run->step_count && run->steps[i].step <= evaluation->step; i++)
        sum += run->steps[i].bytes_sent * rep_run_stride(run, i);
    return sum;
}

static void put_evaluations(struct com_text *text, const struct rep_group *group,
                            const struct rep_run *run)
{
    for (size_t i = 0; i < run->evaluation_count; i++) {
        const struct rep_evaluation *const at = &run->evaluations[i];
        put_cell(text, run->name);
        com_text_put(text, ",");
        put_cell(text, group->label);
        com_text_put(text, ",");
        put_cell(text, run->method ? run->method : "");
        put_value(text, run->seed);
        put_value(text, at->step);
        put_value(text, at->seconds);
        put_value(text, bytes_until(run, at));
        put_value(text, at->loss);
        put_value(text, at->accuracy);
        com_text_put(text, "\n");
    }
}

char *rep_csv(const struct rep_group *groups, size_t count)
{
    struct com_text text = {0};
    com_text_put(&text, "run,name,method,seed,step,seconds,bytes,loss,accuracy\n");
    for (size_t g = 0; g < count; g++)
        for (size_t i = 0; i < groups[g].count; i++)
            put_evaluations(&text, &groups[g], groups[g].runs[i]);
    return finish(&text);
}

/* ---- LaTeX ---- */

static void put_latex(struct com_text *text, const char *words)
{
    static const struct {
        char letter;
        const char *is;
    } special[] = {
        {'\\', "\\textbackslash{}"},
        {'{', "\\{"},
        {'}', "\\}"},
        {'$', "\\$"},
        {'&', "\\&"},
        {'#', "\\#"},
        {'%', "\\%"},
        {'_', "\\_"},
        {'^', "\\textasciicircum{}"},
        {'~', "\\textasciitilde{}"},
        {'<', "\\textless{}"},
        {'>', "\\textgreater{}"},
        {'|', "\\textbar{}"},
        {'"', "''"},
    };
    for (; *words; words++) {
        const char *is = (unsigned char)*words < 0x20 ? "?" : NULL;
        for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
            if (special[i].letter == *words)
                is = special[i].is;
        com_text_add(text, is ? is : words, is ? strlen(is) : 1);
    }
}

static void put_mean(struct com_text *text, struct rep_mean of, double scale, int digits)
{
    if (!isfinite(of.mean))
        com_text_put(text, " & --");
    else if (of.count > 1)
        com_text_format(text, " & $%.*f \\pm %.*f$", digits, of.mean * scale, digits,
                        of.deviation * scale);
    else
        com_text_format(text, " & $%.*f$", digits, of.mean * scale);
}

static double ratio(const struct rep_run *run)
{
    const double bytes = rep_run_bytes_per_step(run);
    return bytes > 0 ? rep_run_dense_per_step(run) / bytes : NAN;
}

static void put_group(struct com_text *text, const struct rep_group *group, int with_accuracy)
{
    const struct rep_mean bytes = rep_group_mean(group, rep_run_bytes_per_step);
    const struct rep_mean smaller = rep_group_mean(group, ratio);
    put_latex(text, group->label);
    com_text_format(text, " & %zu", bytes.count);
    if (with_accuracy && rep_group_diverged(group))
        com_text_put(text, " & diverged");
    else if (with_accuracy)
        put_mean(text, rep_group_mean(group, rep_run_accuracy), 100, 2);
    put_mean(text, rep_group_mean(group, rep_run_loss), 1, 4);
    com_text_format(text, " & %s", isfinite(bytes.mean) ? com_show_bytes(bytes.mean).text : "--");
    if (isfinite(smaller.mean))
        com_text_format(text, " & $%.1f$", smaller.mean);
    else
        com_text_put(text, " & --");
    com_text_put(text, " \\\\\n");
}

char *rep_latex(const struct rep_group *groups, size_t count)
{
    struct com_text text = {0};
    int with_accuracy = 0;
    for (size_t g = 0; g < count; g++)
        for (size_t i = 0; i < groups[g].count; i++)
            with_accuracy |= isfinite(rep_run_accuracy(groups[g].runs[i]));
    com_text_put(&text, "% \\usepackage{booktabs}\n"
                        "% Means over the seeds, with standard deviation.\n");
    com_text_format(&text, "\\begin{tabular}{lr%srrr}\n\\toprule\n", with_accuracy ? "r" : "");
    com_text_format(&text, "Method & Seeds%s & Loss & Bytes/step & Compression ratio \\\\\n",
                    with_accuracy ? " & Accuracy (\\%)" : "");
    com_text_put(&text, "\\midrule\n");
    for (size_t g = 0; g < count; g++)
        put_group(&text, &groups[g], with_accuracy);
    com_text_put(&text, "\\bottomrule\n\\end{tabular}\n");
    return finish(&text);
}
