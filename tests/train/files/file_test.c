/* Complete files or none: whatever goes wrong, the old file stays and nothing is left behind. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "train/folder.h"

static void expect_contents(const char *path, const char *text)
{
    uint8_t *bytes;
    size_t len;
    assert_int_equal(trn_file_read(path, &bytes, &len, NULL), TERSE_OK);
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
    assert_int_equal(trn_file_write(path, "one", 3, NULL), TERSE_OK);
    expect_contents(path, "one");
    assert_int_equal(trn_file_write(path, "second", 6, NULL), TERSE_OK);
    expect_contents(path, "second");
    assert_int_equal(test_entries(&folder), 1);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0600, 0600);
    assert_int_equal(trn_file_write(path, "", 0, NULL), TERSE_OK);
    expect_contents(path, "");
    test_folder_remove(&folder);
}

static void test_discarded_is_gone(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *path = test_path(&folder, "a");
    struct trn_output output;
    (void)state;
    assert_int_equal(trn_file_write(path, "old", 3, NULL), TERSE_OK);
    assert_int_equal(trn_output_open(&output, path, NULL), TERSE_OK);
    assert_int_equal(trn_output_write(&output, "new", 3, NULL), TERSE_OK);
    trn_output_discard(&output);
    expect_contents(path, "old");
    assert_int_equal(test_entries(&folder), 1);
    test_folder_remove(&folder);
}

static void test_unwritable_places_are_named(void **state)
{
    const struct test_folder folder = test_folder_make();
    terse_fault fault;
    (void)state;
    test_refused(trn_file_write(test_path(&folder, "no/such/file"), "x", 1, &fault), TRN_NO_FILE,
                 &fault, "no/such/file': No such file or directory");
    test_put(&folder, "file", "x", 1);
    test_refused(trn_file_write(test_path(&folder, "file/below"), "x", 1, &fault), TRN_NO_FILE,
                 &fault, "Not a directory");
    test_refused(trn_folder_make(test_path(&folder, "file/below"), &fault), TRN_NO_FILE, &fault,
                 "Not a directory");
    test_refused(trn_folder_make(test_path(&folder, "file"), &fault), TRN_NO_FILE, &fault,
                 "Not a directory");
    if (geteuid() == 0) {
        print_message("skip: root may write into every folder; /proc stands in\n");
        test_refused(trn_file_write("/proc/terse", "x", 1, &fault), TRN_NO_FILE, &fault,
                     "cannot write '/proc/terse'");
    } else {
        assert_int_equal(chmod(folder.path, 0500), 0);
        test_refused(trn_file_write(test_path(&folder, "a"), "x", 1, &fault), TRN_NO_FILE, &fault,
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
    test_refused(trn_file_read(test_path(&folder, "none"), &bytes, &len, &fault), TRN_NO_FILE,
                 &fault, "No such file");
    test_refused(trn_file_read(folder.path, &bytes, &len, &fault), TRN_NO_FILE, &fault,
                 "Is a directory");
    assert_int_equal(mkfifo(test_path(&folder, "pipe"), 0600), 0);
    test_refused(trn_file_read(test_path(&folder, "pipe"), &bytes, &len, &fault), TRN_NO_FILE,
                 &fault, "cannot read");
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
    assert_int_equal(trn_file_write(path, "old", 3, NULL), TERSE_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {.rlim_cur = 1 << 16, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const terse_status status = trn_file_write(path, large, 1 << 20, &fault);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    test_refused(status, TRN_BAD_DISK, &fault, "File too large");
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
    assert_int_equal(trn_file_write(path, "old", 3, NULL), TERSE_OK);
    const terse_status status = trn_file_write(path, large, 1 << 20, &fault);
    const int entries = test_entries(&folder);
    expect_contents(path, "old");
    assert_int_equal(umount(folder.path), 0);
    test_refused(status, TRN_BAD_DISK, &fault, "No space left on device");
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
        if (trn_file_write(path, bytes, LEN, NULL) != TERSE_OK)
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
        while (!trn_file_exists(path))
            (void)usleep(200);
        (void)usleep((useconds_t)(test_next(&random) % 8000));
        int status;
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        uint8_t *bytes;
        size_t len;
        assert_int_equal(trn_file_read(path, &bytes, &len, NULL), TERSE_OK);
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
    assert_int_equal(trn_folder_make(deep, NULL), TERSE_OK);
    assert_int_equal(trn_folder_make(deep, NULL), TERSE_OK);
    assert_int_equal(trn_file_write(test_path(&folder, "x/y/z/f"), "1", 1, NULL), TERSE_OK);
    assert_int_equal(unlink(test_path(&folder, "x/y/z/f")), 0);
    assert_int_equal(rmdir(deep), 0);
    assert_int_equal(rmdir(test_path(&folder, "x/y")), 0);
    assert_int_equal(rmdir(test_path(&folder, "x")), 0);
    test_folder_remove(&folder);
}

/* gzip of "terse " whose checksum is left at zero. */
static const uint8_t packed[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x01, 0x06, 0x00, 0xf9, 0xff,
    't',  'e',  'r',  's',  'e',  ' ',  0,    0,    0,    0,    0x06, 0x00, 0x00, 0x00,
};

static void test_gzip_that_is_damaged(void **state)
{
    uint8_t copy[sizeof packed];
    uint8_t *bytes;
    size_t len;
    terse_fault fault;
    (void)state;
    const struct trn_bytes wrong_sum = {.name = "f.gz", .at = packed, .len = sizeof packed};
    test_refused(trn_gunzip(&wrong_sum, &bytes, &len, &fault), TRN_BAD_FILE, &fault, "f.gz: byte ");
    for (size_t cut = 0; cut < sizeof packed; cut++) {
        memcpy(copy, packed, cut);
        uint8_t *exact = test_alloc(cut + (cut == 0));
        memcpy(exact, copy, cut);
        const struct trn_bytes in = {.name = "f.gz", .at = exact, .len = cut};
        assert_int_equal(trn_gunzip(&in, &bytes, &len, &fault), TRN_BAD_FILE);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_then_read),
        cmocka_unit_test(test_discarded_is_gone),
        cmocka_unit_test(test_unwritable_places_are_named),
        cmocka_unit_test(test_unreadable_things_are_named),
        cmocka_unit_test(test_a_limit_on_size_leaves_the_old_file),
        cmocka_unit_test(test_a_full_disk_leaves_the_old_file),
        cmocka_unit_test(test_kill_leaves_a_whole_file),
        cmocka_unit_test(test_folders_are_made),
        cmocka_unit_test(test_gzip_that_is_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
