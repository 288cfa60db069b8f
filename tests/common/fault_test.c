/* Faults of programs: one line for any path, and a status that distinguishes path and machine. */
#include "common/fault.h"

#include <errno.h>

#include "support/support.h"

static void a_long_path_loses_its_beginning(void **state)
{
    char path[400];
    terse_fault fault;
    (void)state;
    memset(path, 'x', sizeof path);
    memcpy(path + sizeof path - 9, "/end.bin", 9);
    assert_int_equal(com_refuse(&fault, COM_BAD_FILE, path, 77, "the %s is wrong", "reason"),
                     COM_BAD_FILE);
    assert_memory_equal(fault.text, "...xxx", 6);
    assert_non_null(strstr(fault.text, "/end.bin: byte 77: the reason is wrong"));
    assert_true(fault.offset == 77 && fault.rank == -1);
    assert_int_equal(com_fail_errno(&fault, "read", path, ENOENT), COM_NO_FILE);
    assert_non_null(strstr(fault.text, "/end.bin': No such file or directory"));
}

static void the_status_distinguishes_path_and_machine(void **state)
{
    (void)state;
    assert_int_equal(com_errno_status(EACCES), COM_NO_FILE);
    assert_int_equal(com_errno_status(EISDIR), COM_NO_FILE);
    assert_int_equal(com_errno_status(ENOSPC), COM_BAD_DISK);
    assert_int_equal(com_errno_status(EIO), COM_BAD_DISK);
    assert_int_equal(com_fail(NULL, TERSE_NO_MEMORY, "nobody listens"), TERSE_NO_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_path_loses_its_beginning),
        cmocka_unit_test(the_status_distinguishes_path_and_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
