/* One process has a folder at a time; a lock ends with its process; nothing is left behind. */
#include "common/lock.h"

#include <signal.h>
#include <sys/wait.h>

#include "support/folder.h"

static void test_one_at_a_time(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct com_lock *first = NULL;
    struct com_lock *second = NULL;
    terse_fault fault;
    char mine[64];
    (void)state;
    (void)snprintf(mine, sizeof mine, "is in use: process %ld on ", (long)getpid());
    for (int i = 0; i < 3; i++) {
        assert_int_equal(com_lock_take(folder.path, &first, NULL), TERSE_OK);
        test_refused(com_lock_take(folder.path, &second, &fault), COM_NO_FILE, &fault, mine);
        assert_null(second);
        com_lock_release(first);
        assert_int_equal(test_entries(&folder), 0);
    }
    com_lock_release(NULL);
    test_folder_remove(&folder);
}

static void test_a_folder_that_is_not_there(void **state)
{
    struct com_lock *lock = NULL;
    terse_fault fault;
    (void)state;
    test_refused(com_lock_take("/nonexistent/folder", &lock, &fault), COM_NO_FILE, &fault,
                 "No such file");
}

/* Takes the lock, says so, and waits for its death. */
static void hold(const struct test_folder *folder, int pipe_fd)
{
    struct com_lock *lock;
    if (com_lock_take(folder->path, &lock, NULL) != TERSE_OK || write(pipe_fd, "x", 1) != 1)
        _exit(1);
    for (;;)
        (void)pause();
}

static void test_the_lock_of_a_dead_process_is_free(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct com_lock *lock = NULL;
    terse_fault fault;
    int ends[2];
    char byte;
    char owner[64];
    int status;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        hold(&folder, ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    (void)snprintf(owner, sizeof owner, "process %ld on ", (long)child);
    test_refused(com_lock_take(folder.path, &lock, &fault), COM_NO_FILE, &fault, owner);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(test_entries(&folder), 1);
    assert_int_equal(com_lock_take(folder.path, &lock, NULL), TERSE_OK);
    com_lock_release(lock);
    assert_int_equal(test_entries(&folder), 0);
    test_folder_remove(&folder);
}

/* Counts in a file that only the owner of the lock may touch. */
static void count_up(const struct test_folder *folder, int times)
{
    const char *const path = test_path(folder, "count");
    while (times > 0) {
        struct com_lock *lock;
        char text[16] = "";
        if (com_lock_take(folder->path, &lock, NULL) != TERSE_OK)
            continue;
        FILE *file = fopen(path, "r+");
        if (!file || !fgets(text, sizeof text, file) || fseek(file, 0, SEEK_SET) != 0 ||
            fprintf(file, "%ld", strtol(text, NULL, 10) + 1) < 0 || fclose(file) != 0)
            _exit(1);
        com_lock_release(lock);
        times--;
    }
    _exit(0);
}

static void test_many_processes(void **state)
{
    enum { CHILDREN = 4, TIMES = 200 };
    const struct test_folder folder = test_folder_make();
    size_t len = 0;
    uint8_t *bytes;
    (void)state;
    test_put(&folder, "count", "0", 1);
    for (int i = 0; i < CHILDREN; i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            count_up(&folder, TIMES);
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(com_file_read(test_path(&folder, "count"), &bytes, &len, NULL), TERSE_OK);
    bytes[len] = '\0';
    assert_string_equal((const char *)bytes, "800");
    free(bytes);
    assert_int_equal(test_entries(&folder), 1);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_a_folder_that_is_not_there),
        cmocka_unit_test(test_the_lock_of_a_dead_process_is_free),
        cmocka_unit_test(test_many_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
