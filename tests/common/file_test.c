/* Complete files or none: whatever goes wrong, the old file stays and nothing is left behind. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/output.h"
#include "support/folder.h"

static void expect_contents(const char *path, const char *text)
{
    uint8_t *bytes;
    size_t len;
    assert_int_equal(com_file_read(path, &bytes, &len, NULL), TERSE_OK);
    assert_int_equal(len, strlen(text));
    assert_memory_equal(bytes, text, len);
    free(bytes);
}

static void test_written_then_read(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "a");
    struct stat about;
    (void)state;
    assert_int_equal(com_file_write(path, "one", 3, NULL), TERSE_OK);
    expect_contents(path, "one");
    assert_int_equal(com_file_write(path, "second", 6, NULL), TERSE_OK);
    expect_contents(path, "second");
    assert_int_equal(test_entries(&folder), 1);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0600, 0600);
    assert_int_equal(com_file_write(path, "", 0, NULL), TERSE_OK);
    expect_contents(path, "");
    test_folder_remove(&folder);
}

static void test_discarded_is_gone(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "a");
    struct com_output output;
    (void)state;
    assert_int_equal(com_file_write(path, "old", 3, NULL), TERSE_OK);
    assert_int_equal(com_output_open(&output, path, NULL), TERSE_OK);
    assert_int_equal(com_output_write(&output, "new", 3, NULL), TERSE_OK);
    com_output_discard(&output);
    expect_contents(path, "old");
    assert_int_equal(test_entries(&folder), 1);
    test_folder_remove(&folder);
}

static void test_unwritable_places_are_named(void **state)
{
    const struct test_folder folder = test_folder_make();
    terse_fault fault;
    (void)state;
    test_refused(com_file_write(test_path(&folder, "no/such/file"), "x", 1, &fault), COM_NO_FILE,
                 &fault, "no/such/file': No such file or directory");
    test_put(&folder, "file", "x", 1);
    test_refused(com_file_write(test_path(&folder, "file/below"), "x", 1, &fault), COM_NO_FILE,
                 &fault, "Not a directory");
    test_refused(com_folder_make(test_path(&folder, "file/below"), &fault), COM_NO_FILE, &fault,
                 "Not a directory");
    test_refused(com_folder_make(test_path(&folder, "file"), &fault), COM_NO_FILE, &fault,
                 "Not a directory");
    if (geteuid() == 0) {
        print_message("skip: root may write into every folder; /proc is used instead\n");
        test_refused(com_file_write("/proc/terse", "x", 1, &fault), COM_NO_FILE, &fault,
                     "cannot write '/proc/terse'");
    } else {
        assert_int_equal(chmod(folder.path, 0500), 0);
        test_refused(com_file_write(test_path(&folder, "a"), "x", 1, &fault), COM_NO_FILE, &fault,
                     "Permission denied");
        assert_int_equal(chmod(folder.path, 0700), 0);
    }
    assert_int_equal(test_entries(&folder), 1);
    test_folder_remove(&folder);
}

static void test_unreadable_things_are_named(void **state)
{
    const struct test_folder folder = test_folder_make();
    uint8_t *bytes;
    size_t len;
    terse_fault fault;
    (void)state;
    test_refused(com_file_read(test_path(&folder, "none"), &bytes, &len, &fault), COM_NO_FILE,
                 &fault, "No such file");
    test_refused(com_file_read(folder.path, &bytes, &len, &fault), COM_NO_FILE, &fault,
                 "Is a directory");
    assert_int_equal(mkfifo(test_path(&folder, "pipe"), 0600), 0);
    test_refused(com_file_read(test_path(&folder, "pipe"), &bytes, &len, &fault), COM_NO_FILE,
                 &fault, "cannot read");
    test_folder_remove(&folder);
}

static void test_any_reads_pipes(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "pipe");
    enum { LEN = 200000 }; /* more than the first buffer of a reader that knows no size */
    uint8_t *bytes;
    size_t len;
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        FILE *const pipe = fopen(path, "wb");
        for (int i = 0; pipe && i < LEN; i++)
            (void)fputc(i % 251, pipe);
        _exit(!pipe || fclose(pipe) != 0);
    }
    assert_int_equal(com_file_read_any(path, &bytes, &len, NULL), TERSE_OK);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(len, LEN);
    for (int i = 0; i < LEN; i++)
        assert_int_equal(bytes[i], i % 251);
    free(bytes);
    test_folder_remove(&folder);
}

static void test_links_and_permissions_stay(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "a");
    const char *link = test_path(&folder, "link");
    struct stat about;
    (void)state;
    assert_int_equal(com_file_write(path, "old", 3, NULL), TERSE_OK);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink("a", link), 0);
    assert_int_equal(com_file_write(link, "new", 3, NULL), TERSE_OK);
    assert_int_equal(lstat(link, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
    expect_contents(path, "new");
    assert_int_equal(test_entries(&folder), 2);
    test_folder_remove(&folder);
}

static void test_devices_are_written_directly(void **state)
{
    struct com_output output;
    terse_fault fault;
    (void)state;
    assert_int_equal(com_file_write("/dev/null", "x", 1, NULL), TERSE_OK);
    assert_int_equal(com_output_open(&output, "/dev/full", NULL), TERSE_OK);
    assert_null(output.temp);
    test_refused(com_output_write(&output, "x", 1, &fault), COM_BAD_DISK, &fault,
                 "cannot write '/dev/full': No space left on device");
    com_output_discard(&output);
}

static void test_finished_is_not_there_yet(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "a");
    struct com_output output;
    (void)state;
    assert_int_equal(com_output_open(&output, path, NULL), TERSE_OK);
    assert_int_equal(com_output_write(&output, "one", 3, NULL), TERSE_OK);
    assert_int_equal(com_output_finish(&output, NULL), TERSE_OK);
    assert_false(com_file_exists(path));
    assert_int_equal(com_output_commit(&output, NULL), TERSE_OK);
    com_output_discard(&output);
    expect_contents(path, "one");
    assert_int_equal(test_entries(&folder), 1);
    test_folder_remove(&folder);
}

static void test_a_limit_on_size_leaves_the_old_file(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "a");
    char *large = test_alloc(1 << 20);
    struct rlimit old;
    terse_fault fault;
    (void)state;
    assert_int_equal(com_file_write(path, "old", 3, NULL), TERSE_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {.rlim_cur = 1 << 16, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const terse_status status = com_file_write(path, large, 1 << 20, &fault);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    test_refused(status, COM_BAD_DISK, &fault, "File too large");
    expect_contents(path, "old");
    assert_int_equal(test_entries(&folder), 1);
    free(large);
    test_folder_remove(&folder);
}

static void test_a_full_disk_leaves_the_old_file(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "a");
    char *large = test_alloc(1 << 20);
    terse_fault fault;
    (void)state;
    if (mount("terse-test", folder.path, "tmpfs", 0, "size=64k") != 0) {
        print_message("skip: cannot mount a small tmpfs: %s\n", strerror(errno));
        free(large);
        test_folder_remove(&folder);
        skip();
        return;
    }
    assert_int_equal(com_file_write(path, "old", 3, NULL), TERSE_OK);
    const terse_status status = com_file_write(path, large, 1 << 20, &fault);
    const int entries = test_entries(&folder);
    expect_contents(path, "old");
    assert_int_equal(umount(folder.path), 0);
    test_refused(status, COM_BAD_DISK, &fault, "No space left on device");
    assert_int_equal(entries, 1);
    free(large);
    test_folder_remove(&folder);
}

/* Rewrites a file for ever: "AAAA..." and "BBBB..." in turn. */
static void write_for_ever(const char *path)
{
    enum { LEN = 1 << 18 };
    char *bytes = malloc(LEN);
    if (!bytes)
        _exit(2);
    for (int i = 0;; i ^= 1) {
        memset(bytes, 'A' + i, LEN);
        if (com_file_write(path, bytes, LEN, NULL) != TERSE_OK)
            _exit(1);
    }
}

static void test_kill_leaves_a_whole_file(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "a");
    struct test_random random = {test_seed()};
    (void)state;
    for (int round = 0; round < 20; round++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_for_ever(path);
        while (!com_file_exists(path))
            (void)usleep(200);
        (void)usleep((useconds_t)(test_next(&random) % 8000));
        int status;
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        uint8_t *bytes;
        size_t len;
        assert_int_equal(com_file_read(path, &bytes, &len, NULL), TERSE_OK);
        assert_int_equal(len, 1 << 18);
        for (size_t i = 1; i < len; i++)
            if (bytes[i] != bytes[0])
                fail_msg("byte %zu differs: the file is not whole", i);
        free(bytes);
    }
    test_folder_remove(&folder);
}

static void test_folders_are_made(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *deep = test_path(&folder, "x/y/z");
    (void)state;
    assert_int_equal(com_folder_make(deep, NULL), TERSE_OK);
    assert_int_equal(com_folder_make(deep, NULL), TERSE_OK);
    assert_int_equal(com_file_write(test_path(&folder, "x/y/z/f"), "1", 1, NULL), TERSE_OK);
    assert_int_equal(unlink(test_path(&folder, "x/y/z/f")), 0);
    assert_int_equal(rmdir(deep), 0);
    assert_int_equal(rmdir(test_path(&folder, "x/y")), 0);
    assert_int_equal(rmdir(test_path(&folder, "x")), 0);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_then_read),
        cmocka_unit_test(test_discarded_is_gone),
        cmocka_unit_test(test_unwritable_places_are_named),
        cmocka_unit_test(test_unreadable_things_are_named),
        cmocka_unit_test(test_any_reads_pipes),
        cmocka_unit_test(test_links_and_permissions_stay),
        cmocka_unit_test(test_devices_are_written_directly),
        cmocka_unit_test(test_finished_is_not_there_yet),
        cmocka_unit_test(test_a_limit_on_size_leaves_the_old_file),
        cmocka_unit_test(test_a_full_disk_leaves_the_old_file),
        cmocka_unit_test(test_kill_leaves_a_whole_file),
        cmocka_unit_test(test_folders_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
