/* Every bit of every method is pinned: after 20 steps the weights, the point and all state are
 * those of a committed table, and a step that is skipped is as if it had never been tried.
 *
 *     test-method-pinned TABLE [--only TEXT] [--write]
 *
 * TABLE has a line for each spec, number of ranks and part of the state: its hash over all ranks
 * after a training whose gradients come whole, posted in layout order (forward) and in another
 * (mixed), and whole with one NaN in step 10. "same" is the hash of "whole"; "refused" a spec that
 * takes no buckets; "skipped" a step that all ranks skipped, whose exactness is checked here (a
 * local step is left out by one rank alone, so its hash is pinned). Lines "late huge" and "late
 * f16" have the outcome of gradients near FLT_MAX and of 1e6: taken, or skipped, why and by which
 * rank.
 *
 * --only runs the specs that contain TEXT. --write makes the table anew: a row changes only in a
 * commit that names the row and the reason. */
#include <stdio.h>

#include "method/pinned_run.h"

enum { STEPS = 20, SKIP_AT = 10, LATE_STEPS = 8, LATE_AT = 5, MAX_LINES = 4096, MAX_LINE = 400 };

struct line {
    char text[MAX_LINE];
    int seen;
};

struct table {
    struct line *line;
    uint32_t count;
};

#define TABLE_HEAD                                                                \
    "# Made by test-method-pinned --write; pinned_test.c explains the columns.\n" \
    "# spec\tranks\tpart\twhole\tforward\tmixed\tnan\n"

static const char *table_path;
static const char *only;
static int writing;
static struct table pinned; /* as committed */
static struct table made;   /* by this run */
static uint32_t differences;

/* ---- tables ---- */

static void add_line(struct table *table, const char *text)
{
    if (!table->line)
        table->line = test_alloc(MAX_LINES * sizeof *table->line);
    assert_true(table->count < MAX_LINES);
    assert_true(strlen(text) < MAX_LINE);
    (void)snprintf(table->line[table->count].text, MAX_LINE, "%s", text);
    table->line[table->count++].seen = 0;
}

/* Lines that begin with # are comments. 0: there is no such file. */
static int read_table(const char *path, struct table *out)
{
    char text[MAX_LINE];
    FILE *const file = fopen(path, "r");
    if (!file)
        return 0;
    while (fgets(text, sizeof text, file)) {
        text[strcspn(text, "\n")] = '\0';
        if (text[0] != '#' && text[0] != '\0')
            add_line(out, text);
    }
    (void)fclose(file);
    return 1;
}

static void write_table(const char *path, const char *head, const struct table *table)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(head, file);
    for (uint32_t i = 0; i < table->count; i++)
        (void)fprintf(file, "%s\n", table->line[i].text);
    assert_int_equal(fclose(file), 0);
}

static struct line *find(const struct table *table, const char *text, size_t len)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (strncmp(table->line[i].text, text, len) == 0)
            return &table->line[i];
    return NULL;
}

/* Compares a line with the one of the table that has the same first `key` characters. */
static void check_line(const char *text, size_t key)
{
    struct line *const line = find(&pinned, text, key);
    add_line(&made, text);
    if (writing)
        return;
    if (line)
        line->seen = 1;
    if (line && strcmp(line->text, text) == 0)
        return;
    differences++;
    print_error("pinned: %s\nfound:  %s\n", line ? line->text : "no such line", text);
}

static int is_run(const char *spec)
{
    return !only || strstr(spec, only);
}

/* ---- the state after 20 steps ---- */

/* A skipped step must leave no trace, and the training must continue as one without it. */
static void check_exact(const struct run *run, const struct run *clean)
{
    char text[MAX_LINE];
    const char *part = run->trace ? run->trace : marks_differ(&run->marks, &clean->marks);
    const char *why = run->trace ? "the skipped step has changed" : "later steps have another";
    if (run->failed != TERSE_OK) {
        why = "the step fails";
        part = terse_status_text(run->failed);
    }
    if (!part)
        return;
    (void)snprintf(text, sizeof text, "%s\t%u\t%s\t%s", run->spec, run->ranks,
                   order_names[run->order], trouble_names[run->trouble]);
    differences++;
    print_error("not exact: %s: %s: %s\n", text, why, part);
}

/* The column of one training, beside that of whole gradients. */
static int print_mark(char *out, size_t room, const struct run *run, const struct run *whole,
                      uint32_t part)
{
    const uint64_t hash = run->marks.part[part].hash;
    if (run->refused)
        return snprintf(out, room, "\trefused");
    if (run->trouble != SOUND && !run->taken)
        return snprintf(out, room, "\tskipped");
    if (run != whole && hash == whole->marks.part[part].hash)
        return snprintf(out, room, "\tsame");
    return snprintf(out, room, "\t%016llx", (unsigned long long)hash);
}

/* `runs` are one of each order, and one whole with a NaN. */
static void check_state(const struct run runs[ORDERS + 1])
{
    for (uint32_t part = 0; part < runs[WHOLE].marks.count; part++) {
        char text[MAX_LINE];
        size_t len = (size_t)snprintf(text, sizeof text, "%s\t%u\t%s\t", runs[WHOLE].spec,
                                      runs[WHOLE].ranks, runs[WHOLE].marks.part[part].name);
        const size_t key = len--;
        for (int c = 0; c <= ORDERS; c++)
            len += (size_t)print_mark(text + len, sizeof text - len, &runs[c], &runs[WHOLE], part);
        check_line(text, key);
    }
}

static void pin_state(const char *spec, uint32_t ranks)
{
    struct run runs[ORDERS + 1];
    for (int order = WHOLE; order < ORDERS; order++) {
        runs[order] =
            (struct run){.spec = spec, .ranks = ranks, .order = (enum order)order, .steps = STEPS};
        run_training(&runs[order]);
    }
    for (int order = ORDERS - 1; order >= WHOLE; order--) { /* the last one is the whole gradient */
        struct run *const run = &runs[ORDERS];
        if (runs[order].refused)
            continue;
        *run = (struct run){.spec = spec,
                            .ranks = ranks,
                            .order = (enum order)order,
                            .steps = STEPS,
                            .trouble = ONE_NAN,
                            .at = SKIP_AT};
        run_training(run);
        if (!run->taken)
            check_exact(run, &runs[order]);
    }
    check_state(runs);
}

static void every_bit_is_as_pinned(void **unused)
{
    static const uint32_t ranks[] = {1, 2, 3, 8};
    const char *spec;
    (void)unused;
    differences = 0;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++)
        for (size_t k = 0; k < sizeof ranks / sizeof ranks[0] && is_run(spec); k++)
            pin_state(spec, ranks[k]);
    assert_int_equal(differences, 0);
}

/* ---- steps whose failure is found late ---- */

static int print_outcome(char *out, size_t room, const struct run *run)
{
    if (run->refused)
        return snprintf(out, room, "\trefused");
    if (run->taken)
        return snprintf(out, room, "\ttaken");
    return snprintf(out, room, "\t%s, rank %d", terse_status_text(run->skipped), run->skipped_by);
}

/* If the step fails, the outcome with whole gradients is pinned. */
static void pin_late(const char *spec, uint32_t ranks, enum trouble trouble,
                     const struct run clean[ORDERS])
{
    struct run runs[ORDERS];
    char text[MAX_LINE];
    size_t len = (size_t)snprintf(text, sizeof text, "%s\t%u\tlate %s\t", spec, ranks,
                                  trouble_names[trouble]);
    const size_t key = len--;
    for (int order = WHOLE; order < ORDERS; order++) {
        struct run *const run = &runs[order];
        *run = clean[order];
        run->trouble = trouble;
        run->at = LATE_AT;
        run->marks.count = 0;
        if (!run->refused)
            run_training(run);
        if (!run->refused && !run->taken)
            check_exact(run, &clean[order]);
        len += (size_t)print_outcome(text + len, sizeof text - len,
                                     run->failed == TERSE_OK ? run : &runs[WHOLE]);
    }
    check_line(text, key);
}

static void late_skips_are_exact(void **unused)
{
    const char *spec;
    (void)unused;
    differences = 0;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++)
        for (uint32_t ranks = 1; ranks <= 3 && is_run(spec); ranks++) {
            struct run clean[ORDERS];
            for (int order = WHOLE; order < ORDERS; order++) {
                clean[order] = (struct run){
                    .spec = spec, .ranks = ranks, .order = (enum order)order, .steps = LATE_STEPS};
                run_training(&clean[order]);
            }
            for (int trouble = HUGE_SUM; trouble < TROUBLES; trouble++)
                pin_late(spec, ranks, (enum trouble)trouble, clean);
        }
    assert_int_equal(differences, 0);
}

/* ---- the table as a whole ---- */

static void nothing_pinned_is_left_out(void **unused)
{
    (void)unused;
    differences = 0;
    for (uint32_t i = 0; i < pinned.count && !only && !writing; i++)
        if (!pinned.line[i].seen) {
            differences++;
            print_error("pinned, but not found: %s\n", pinned.line[i].text);
        }
    assert_int_equal(differences, 0);
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: test-method-pinned TABLE [--only TEXT] [--write]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit_is_as_pinned),
        cmocka_unit_test(late_skips_are_exact),
        cmocka_unit_test(nothing_pinned_is_left_out),
    };
    if (argc < 2)
        return usage();
    table_path = argv[1];
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "--write") == 0)
            writing = 1;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else
            return usage();
    if ((!read_table(table_path, &pinned) && !writing) || (writing && only))
        return usage();
    const int failed = cmocka_run_group_tests_name("pinned", tests, NULL, NULL);
    if (writing)
        write_table(table_path, TABLE_HEAD, &made);
    free(pinned.line);
    free(made.line);
    return failed;
}
