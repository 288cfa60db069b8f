/* Event files: whole records after any failure. test_formats.py reads their contents. */
#include "files/events.h"

#include <signal.h>
#include <sys/resource.h>

#include "files/bytes.h"
#include "support/folder.h"

/* The number of records; the file must end with the last one. */
static int count_records(const char *path)
{
    uint8_t *bytes;
    size_t len;
    size_t at = 0;
    int count = 0;
    assert_int_equal(com_file_read(path, &bytes, &len, NULL), TERSE_OK);
    for (; at + 16 <= len; count++)
        at += 16 + (size_t)trn_get_u64(bytes + at);
    assert_int_equal(at, len);
    free(bytes);
    return count;
}

static void test_a_record_that_does_not_fit_leaves_no_half(void **state)
{
    const struct test_folder folder = test_folder_make();
    const struct trn_scalar scalar = {"loss", 1};
    struct trn_events *events;
    struct rlimit old;
    terse_fault fault;
    int written = 0;
    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(trn_events_open(folder.path, 0, &events, &fault), TERSE_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {.rlim_cur = 333, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    while (written < 100 && trn_events_scalars(events, 1, &scalar, 1, &fault) == TERSE_OK)
        written++;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_in_range(written, 1, 20);
    assert_non_null(strstr(fault.text, "File too large"));
    assert_int_equal(count_records(trn_events_path(events)), 1 + written);
    assert_int_equal(trn_events_scalars(events, 2, &scalar, 1, &fault), TERSE_OK);
    assert_int_equal(count_records(trn_events_path(events)), 2 + written);
    trn_events_close(events);
    test_folder_remove(&folder);
}

static void test_what_cannot_be_opened_leaves_nothing(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct trn_events *events;
    struct rlimit old;
    terse_fault fault;
    (void)state;
    test_refused(trn_events_open(test_path(&folder, "none"), 0, &events, &fault), COM_NO_FILE,
                 &fault, "cannot write");
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {.rlim_cur = 10, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const terse_status status = trn_events_open(folder.path, 0, &events, &fault);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, COM_BAD_DISK);
    assert_int_equal(test_entries(&folder), 0);
    test_folder_remove(&folder);
}

static void test_two_of_a_run_do_not_meet(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct trn_events *a;
    struct trn_events *b;
    (void)state;
    assert_int_equal(trn_events_open(folder.path, 0, &a, NULL), TERSE_OK);
    assert_int_equal(trn_events_open(folder.path, 7, &b, NULL), TERSE_OK);
    assert_string_not_equal(trn_events_path(a), trn_events_path(b));
    assert_int_equal(count_records(trn_events_path(a)), 1);
    assert_int_equal(count_records(trn_events_path(b)), 2);
    trn_events_close(a);
    trn_events_close(b);
    test_folder_remove(&folder);
}

static void test_all_of_a_folder_are_removed(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct trn_events *events;
    terse_fault fault = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(trn_events_open(folder.path, 0, &events, &fault), TERSE_OK);
        trn_events_close(events);
    }
    test_put(&folder, "metrics.jsonl", "x", 1);
    assert_int_equal(trn_events_remove(folder.path, &fault), TERSE_OK);
    assert_int_equal(test_entries(&folder), 1);
    assert_int_equal(trn_events_remove("/no/such", &fault), COM_NO_FILE);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_record_that_does_not_fit_leaves_no_half),
        cmocka_unit_test(test_what_cannot_be_opened_leaves_nothing),
        cmocka_unit_test(test_two_of_a_run_do_not_meet),
        cmocka_unit_test(test_all_of_a_folder_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
