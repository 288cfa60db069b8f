/* The parts of a report, each alone: reading, thinning, escaping, history, charts. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/chart.h"
#include "report/decimate.h"
#include "report/history.h"
#include "report/run.h"

#define STEP(number, seconds, loss)                                                 \
    "{\"kind\":\"step\",\"step\":" number ",\"seconds\":" seconds ",\"loss\":" loss \
    ",\"bytes_sent\":100,\"dense_bytes\":400}\n"
#define ABOUT                                                                                     \
    "{\"format\":1,\"method\":\"def\",\"workers\":4,\"augment\":false,\"seed\":7,\"target\":0.9," \
    "\"train\":\"terse train\",\"tensors\":[{\"name\":\"a\",\"count\":60}]}"

static struct rep_run *parse(const char *about, const char *metrics)
{
    struct rep_run *run = NULL;
    assert_int_equal(
        rep_run_parse("name", about, !about ? 0 : strlen(about), metrics, strlen(metrics), &run),
        TERSE_OK);
    return run;
}

static void a_run_is_read(void **state)
{
    (void)state;
    struct rep_run *run = parse(
        ABOUT,
        STEP("10", "1.5", "0.7")
            STEP("30", "2.5",
                 "null") "{\"kind\":\"evaluation\",\"step\":30,\"seconds\":2.5,\"accuracy\":0.8}\n"
                         "{\"kind\":\"end\",\"status\":\"finished\",\"step\":30}\n");
    assert_string_equal(run->about_note, "");
    assert_string_equal(run->metrics_note, "");
    assert_string_equal(run->method, "def");
    assert_int_equal(run->step_count, 2);
    assert_true(rep_run_stride(run, 0) == 10);
    assert_true(rep_run_stride(run, 1) == 20);
    assert_true(!!isnan(run->steps[1].loss));
    assert_true(!!isnan(run->steps[0].residual_norm));
    assert_true(rep_run_bytes_per_step(run) == 100);
    assert_true(run->target == 0.9);
    assert_string_equal(run->train, "terse train");
    assert_int_equal(run->settings.count, 2); /* not the seed, not lists */
    assert_string_equal(run->settings.item[0].key, "workers");
    assert_string_equal(run->settings.item[0].value, "4");
    assert_string_equal(run->settings.item[1].value, "false");
    assert_int_equal(run->evaluation_count, 1);
    assert_true(run->evaluations[0].accuracy == 0.8);
    assert_true(run->has_end);
    rep_run_free(run);
}

/* Each is good for one line and then something else; the note names line 2 and why. */
static void reading_stops_at_the_first_bad_line(void **state)
{
    (void)state;
    static const struct {
        const char *second;
        const char *why;
    } cases[] = {
        {"{\"kind\":\"step\",\"step\":20,\"seco", "not a complete JSON object"},
        {"garbage\n", "not a complete JSON object"},
        {"[1]\n", "not a complete JSON object"},
        {"{} {}\n", "not a complete JSON object"},
        {"{\"step\":3}\n", "no kind"},
        {"{\"kind\":\"epoch\"}\n", "unknown kind"},
        {"{\"kind\":\"step\",\"step\":20}\n", "lacks a number"},
        {STEP("\"20\"", "2", "1"), "another type"},
        {STEP("20", "2", "1e999"), "out of range"},
        {STEP("-1", "2", "1"), "out of range"},
        {STEP("10", "2", "1"), "earlier step"},
        {STEP("20", "0.5", "1"), "back in time"},
        {"{\"kind\":\"evaluation\",\"step\":5,\"seconds\":2}\n", "earlier step"},
        {"{\"kind\":\"evaluation\",\"step\":10,\"seconds\":2,\"accuracy\":91}\n", "out of range"},
        {"{\"kind\":\"end\"}\n", "no status"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char metrics[1024];
        snprintf(metrics, sizeof metrics, "%s%s%s", STEP("10", "1", "1"), cases[i].second,
                 STEP("50", "9", "1"));
        struct rep_run *run = parse(ABOUT, metrics);
        assert_int_equal(run->step_count, 1);
        assert_non_null(strstr(run->metrics_note, "line 2 "));
        if (!strstr(run->metrics_note, cases[i].why))
            fail_msg("\"%s\" does not contain \"%s\"", run->metrics_note, cases[i].why);
        rep_run_free(run);
    }
    struct rep_run *run = parse(ABOUT, "{\"kind\":\"end\",\"status\":\"x\"}\n" STEP("1", "1", "1"));
    assert_non_null(strstr(run->metrics_note, "follows the end"));
    rep_run_free(run);
}

static void a_bad_description_is_noted(void **state)
{
    (void)state;
    static const char *const bad[] = {
        NULL, "", "{", "{\"format\":2}", "[]", "{\"format\":1,\"workers\":\"four\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct rep_run *run = parse(bad[i], STEP("10", "1", "1"));
        assert_non_null(strstr(run->about_note, "run.json"));
        assert_int_equal(run->step_count, 1);
        assert_string_equal(run->name, "name");
        rep_run_free(run);
    }
}

static void fewer_points_keep_the_extremes(void **state)
{
    (void)state;
    enum { COUNT = 10007, LIMIT = 100 };
    static double values[COUNT];
    size_t keep[LIMIT];
    for (size_t i = 0; i < COUNT; i++)
        values[i] = sin((double)i * 0.01);
    values[5003] = 40;
    values[5004] = -40;
    values[77] = NAN;
    size_t kept = rep_decimate(values, COUNT, LIMIT, keep);
    assert_in_range(kept, LIMIT / 2, LIMIT);
    assert_int_equal(keep[0], 0);
    assert_int_equal(keep[kept - 1], COUNT - 1);
    int highest = 0;
    int lowest = 0;
    for (size_t i = 0; i < kept; i++) {
        assert_true(i == 0 || keep[i] > keep[i - 1]);
        assert_true(!isnan(values[keep[i]]));
        highest |= keep[i] == 5003;
        lowest |= keep[i] == 5004;
    }
    assert_true(highest && lowest);
    assert_int_equal(rep_decimate(values, LIMIT, LIMIT, keep), LIMIT);
    assert_true(rep_decimate(values, 0, LIMIT, keep) == 0);
    assert_in_range(rep_decimate(values, LIMIT + 1, LIMIT, keep), 2, LIMIT);
}

static void history_is_bounded_and_in_order(void **state)
{
    (void)state;
    enum { LINES = 64, PUSHED = 10000 };
    static char line[REP_MOST_LINE + 1];
    struct rep_history *history = rep_history_create(LINES, 1 << 20);
    for (int i = 1; i <= PUSHED; i++) {
        int len = snprintf(line, sizeof line, "%d", i);
        assert_true(rep_history_push(history, line, (size_t)len, i % 1000 != 0));
    }
    uint64_t cursor = 0;
    int last = 0;
    int read = 0;
    int kept_all = 0;
    for (size_t len; (len = rep_history_next(history, &cursor, line)) > 0; read++) {
        line[len] = '\0';
        int number = (int)strtol(line, NULL, 10);
        assert_true(number > last);
        kept_all += number % 1000 == 0;
        last = number;
    }
    assert_int_equal(last, PUSHED);
    assert_int_equal(kept_all, PUSHED / 1000); /* what may not be thinned is all there */
    assert_true(read >= LINES / 4 && read <= LINES);
    assert_int_equal(rep_history_next(history, &cursor, line), 0);
    memset(line, 'x', sizeof line);
    assert_false(rep_history_push(history, line, REP_MOST_LINE + 1, 1));
    assert_true(rep_history_push(history, line, REP_MOST_LINE, 1));
    assert_int_equal(rep_history_next(history, &cursor, line), REP_MOST_LINE);
    rep_history_destroy(history);

    history = rep_history_create(1000, 300); /* bounded in bytes, also where nothing is thin */
    for (int i = 0; i < 100; i++)
        assert_true(rep_history_push(history, line, 100, 0));
    cursor = 0;
    read = 0;
    while (rep_history_next(history, &cursor, line) > 0)
        read++;
    assert_true(read >= 1 && read <= 3);
    rep_history_destroy(history);
}

struct reading {
    struct rep_history *history;
    atomic_int stop;
    int wrong;
};

static void *read_on(void *context)
{
    struct reading *reading = context;
    char *line = malloc(REP_MOST_LINE);
    uint64_t cursor = 0;
    uint64_t before = 0;
    int stopping = 0;
    while (line) {
        size_t len = rep_history_next(reading->history, &cursor, line);
        if (len == 0 && stopping)
            break;
        stopping = atomic_load(&reading->stop);
        reading->wrong += len > 0 && (cursor <= before || len != 8);
        before = cursor;
    }
    free(line);
    reading->wrong += cursor != 50000; /* the last line arrives, without another push */
    return NULL;
}

static void readers_do_not_disturb(void **state)
{
    (void)state;
    struct reading readings[3] = {0};
    pthread_t threads[3];
    struct rep_history *history = rep_history_create(256, 1 << 16);
    for (int i = 0; i < 3; i++) {
        readings[i].history = history;
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &readings[i]), 0);
    }
    for (int taken = 0; taken < 50000;)
        taken += rep_history_push(history, "12345678", 8, 1);
    for (int i = 0; i < 3; i++) {
        atomic_store(&readings[i].stop, 1);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(readings[i].wrong, 0);
    }
    rep_history_destroy(history);
}

/* Columns of a line of UTF-8. */
static unsigned columns(const char *line)
{
    unsigned count = 0;
    for (; *line != '\0' && *line != '\n'; line++)
        count += ((unsigned char)*line & 0xC0) != 0x80;
    return count;
}

static void check_width(const char *text, unsigned most, int ascii)
{
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_true(columns(line) <= most);
        assert_non_null(strchr(line, '\n'));
    }
    for (const char *at = text; *at != '\0'; at++) {
        assert_true((unsigned char)*at >= 0x20 || *at == '\n');
        assert_true(!ascii || (unsigned char)*at < 0x7F);
    }
}

static void charts_fit_and_show_the_ends(void **state)
{
    (void)state;
    struct rep_run *run = parse(
        ABOUT,
        STEP("10", "1", "2.5") STEP("20", "2", "null") STEP(
            "3000", "3",
            "0.25") "{\"kind\":\"evaluation\",\"step\":3000,\"seconds\":3,\"accuracy\":0.875}");
    for (unsigned width = 0; width <= 120; width += 20) {
        for (int ascii = 0; ascii < 2; ascii++) {
            const struct rep_chart_style style = {.width = width, .ascii = ascii};
            char *text = rep_chart_run(run, "t\x1b[31m\xC3\xA9", &style);
            assert_non_null(text);
            check_width(text, width < 40 ? 40 : width, ascii);
            assert_non_null(strstr(text, "87.5 %"));
            assert_non_null(strstr(text, "0.25"));
            assert_non_null(strstr(text, "3000 steps"));
            assert_int_equal(strncmp(text, "t?[31m", 6), 0);
            free(text);
        }
    }
    rep_run_free(run);
    run = parse(ABOUT, STEP("1", "1", "-1e308") STEP("2", "2", "1e308"));
    const struct rep_chart_style style = {.width = 80, .ascii = 1};
    free(rep_chart_run(run, NULL, &style));
    rep_run_free(run);
    run = parse(NULL, "");
    char *text = rep_chart_run(run, NULL, &style);
    assert_non_null(strstr(text, "nothing measured"));
    free(text);
    rep_run_free(run);
}

static void every_point_has_its_label(void **state)
{
    (void)state;
    static const struct rep_chart_point points[] = {
        {"dense", 1350204, 0.914}, {"def:ratio=64", 21162, 0.9113},
        {"topk", 17265, 0.9112},   {"regtopk", 17265, 0.9112},
        {"left out", 0, 0.9},      {"and this", 10, NAN},
    };
    const struct rep_chart_style style = {.width = 60, .ascii = 1};
    char *text = rep_chart_tradeoff(points, 6, &style);
    check_width(text, 60, 1);
    for (size_t i = 0; i < 4; i++)
        assert_non_null(strstr(text, points[i].label));
    assert_null(strstr(text, "left out"));
    assert_null(strstr(text, "and this"));
    assert_non_null(strstr(text, "d  regtopk  91.1 %, 17.3 kB")); /* no place beside topk */
    assert_non_null(strstr(text, "1.4 MB"));
    free(text);
    text = rep_chart_tradeoff(points, 0, &style);
    assert_non_null(strstr(text, "nothing measured"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_read),
        cmocka_unit_test(reading_stops_at_the_first_bad_line),
        cmocka_unit_test(a_bad_description_is_noted),
        cmocka_unit_test(fewer_points_keep_the_extremes),
        cmocka_unit_test(history_is_bounded_and_in_order),
        cmocka_unit_test(readers_do_not_disturb),
        cmocka_unit_test(charts_fit_and_show_the_ends),
        cmocka_unit_test(every_point_has_its_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
