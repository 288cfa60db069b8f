#include "files/lines.h"

#include <signal.h>
#include <sys/resource.h>

#include "support/folder.h"

static com_json *step_line(uint64_t step)
{
    com_json *line = com_json_object();
    com_json_put_u64(line, "step", step);
    com_json_put_text(line, "note", "0123456789012345678901234567890123456789");
    return line;
}

static int count_lines(void *context, const com_json *line)
{
    uint64_t step;
    uint64_t *next = context;
    assert_true(com_json_get_u64(line, "step", &step));
    assert_int_equal(step, *next);
    (*next)++;
    return 1;
}

/* The file holds lines of steps 0 .. count-1 and nothing else. */
static void expect_steps(const char *path, uint64_t count)
{
    uint64_t next = 0;
    size_t good_len;
    struct stat about;
    assert_int_equal(trn_lines_read(path, count_lines, &next, &good_len, NULL), TERSE_OK);
    assert_int_equal(next, count);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(good_len, about.st_size);
}

static void append(const char *path, const uint64_t *last_step, uint64_t from, uint64_t to)
{
    struct trn_lines *lines;
    assert_int_equal(trn_lines_open(path, last_step, &lines, NULL), TERSE_OK);
    for (uint64_t i = from; i < to; i++)
        assert_int_equal(trn_lines_append(lines, step_line(i), NULL), TERSE_OK);
    trn_lines_close(lines);
}

static void test_lines_are_appended(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "m");
    (void)state;
    append(path, NULL, 0, 5);
    append(path, NULL, 5, 7);
    expect_steps(path, 7);
    test_folder_remove(&folder);
}

static void test_a_resumed_run_writes_later_steps_again(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "m");
    const uint64_t last = 2;
    (void)state;
    append(path, NULL, 0, 5);
    append(path, &last, 3, 4);
    expect_steps(path, 4);
    test_folder_remove(&folder);
}

/* Whatever the last bytes are, opening continues after the last good line. */
static void test_a_torn_tail_is_cut_off(void **state)
{
    static const char *const tails[] = {"{\"step\":", "{}x\n", "\n", "[]\n", "{\"step\":1", "\x01"};
    const struct test_folder folder = test_folder_make();
    (void)state;
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        const char *path = test_path(&folder, "m");
        uint64_t next = 0;
        size_t good_len;
        append(path, NULL, 0, 3);
        FILE *file = fopen(path, "ab");
        assert_non_null(file);
        assert_int_equal(fseek(file, 0, SEEK_END), 0);
        const long whole = ftell(file);
        assert_true(fputs(tails[i], file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(trn_lines_read(path, count_lines, &next, &good_len, NULL), TERSE_OK);
        assert_int_equal(next, 3);
        assert_int_equal(good_len, whole);
        append(path, NULL, 3, 5);
        expect_steps(path, 5);
        assert_int_equal(unlink(path), 0);
    }
    test_folder_remove(&folder);
}

static void test_a_line_that_does_not_fit_leaves_no_half(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "m");
    struct trn_lines *lines;
    struct rlimit old;
    terse_fault fault;
    uint64_t written = 0;
    terse_status status = TERSE_OK;
    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {.rlim_cur = 1000, .rlim_max = old.rlim_max};
    assert_int_equal(trn_lines_open(path, NULL, &lines, NULL), TERSE_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (; written < 100 && status == TERSE_OK; written += status == TERSE_OK)
        status = trn_lines_append(lines, step_line(written), &fault);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    test_refused(status, COM_BAD_DISK, &fault, "File too large");
    expect_steps(path, written);
    assert_int_equal(trn_lines_append(lines, step_line(written), &fault), TERSE_OK);
    expect_steps(path, written + 1);
    trn_lines_close(lines);
    test_folder_remove(&folder);
}

static void test_a_folder_that_is_not_there_is_named(void **state)
{
    struct trn_lines *lines;
    terse_fault fault;
    (void)state;
    test_refused(trn_lines_open("/no/such/folder/m", NULL, &lines, &fault), COM_NO_FILE, &fault,
                 "cannot write '/no/such/folder/m'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_appended),
        cmocka_unit_test(test_a_resumed_run_writes_later_steps_again),
        cmocka_unit_test(test_a_torn_tail_is_cut_off),
        cmocka_unit_test(test_a_line_that_does_not_fit_leaves_no_half),
        cmocka_unit_test(test_a_folder_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
