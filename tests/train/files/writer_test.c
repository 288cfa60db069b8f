/* Checkpoints that are written while their caller goes on: what is in them, what a slow or a full
 * disk does. fsync is this file's own, so that a disk can be slow. */
#include "files/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "support/folder.h"

static atomic_int slow_ms;

int fsync(int fd)
{
    const struct timespec pause = {.tv_nsec = atomic_load(&slow_ms) * 1000000L};
    (void)nanosleep(&pause, NULL);
    return (int)syscall(SYS_fsync, fd);
}

static com_json *settings(void)
{
    com_json *json = com_json_object();
    com_json_put_text(json, "method", "dense");
    return json;
}

static terse_status begin(struct trn_writer *writer, uint64_t step, const uint64_t *values,
                          size_t count, terse_fault *fault)
{
    static struct trn_blob blobs[2];
    blobs[0] = (struct trn_blob){
        .name = "weights", .kind = 1, .bytes = values, .len = count * sizeof *values};
    blobs[1] = (struct trn_blob){.name = "empty", .worker = 3, .bytes = NULL, .len = 0};
    return trn_writer_begin(writer, step, settings(), blobs, 2, fault);
}

static void expect(const struct test_folder *folder, uint64_t step, size_t count)
{
    struct trn_checkpoint *checkpoint;
    char *path;
    char *notes;
    assert_int_equal(trn_checkpoint_latest(folder->path, &checkpoint, &path, &notes, NULL),
                     TERSE_OK);
    assert_null(notes);
    assert_int_equal(trn_checkpoint_step(checkpoint), step);
    const struct trn_blob *const blob = trn_checkpoint_find(checkpoint, "weights", 0);
    assert_non_null(blob);
    assert_non_null(trn_checkpoint_find(checkpoint, "empty", 3));
    assert_int_equal(blob->len, count * sizeof(uint64_t));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(((const uint64_t *)blob->bytes)[i], step);
    trn_checkpoint_free(checkpoint);
    free(path);
    free(notes);
}

/* The caller's buffers are its own again once nothing is being written. */
static void test_one_checkpoint_after_the_other(void **state)
{
    enum { MOST = 100000 };
    const struct test_folder folder = test_folder_make();
    static uint64_t values[MOST];
    struct trn_writer *writer;
    struct trn_written written;
    (void)state;
    atomic_store(&slow_ms, 20);
    assert_int_equal(trn_writer_create(folder.path, 2, &writer, NULL), TERSE_OK);
    for (uint64_t step = 1; step <= 5; step++) {
        const size_t count = step == 3 ? MOST : 1000 * step; /* larger, and then smaller */
        for (size_t i = 0; i < count; i++)
            values[i] = step;
        assert_int_equal(begin(writer, step, values, count, NULL), TERSE_OK);
        assert_true(trn_writer_wait(writer, 30));
        memset(values, 0xAA, sizeof values);
        expect(&folder, step, count);
    }
    trn_writer_result(writer, &written);
    assert_int_equal(written.count, 5);
    assert_int_equal(written.step, 5);
    assert_int_equal(written.status, TERSE_OK);
    assert_true(written.seconds >= 5 * 0.02);
    assert_int_equal(test_entries(&folder), 2);
    trn_writer_destroy(writer);
    test_folder_remove(&folder);
}

/* The writer does not read again what it wrote, unless the file is another than it was: one byte
 * of the second checkpoint is changed, so the first has to stay beside the third. */
static void test_a_file_that_was_changed_is_not_counted(void **state)
{
    const struct test_folder folder = test_folder_make();
    const uint64_t values[] = {7, 7};
    struct trn_writer *writer;
    (void)state;
    atomic_store(&slow_ms, 0);
    assert_int_equal(trn_writer_create(folder.path, 2, &writer, NULL), TERSE_OK);
    for (uint64_t step = 1; step <= 4; step++) {
        assert_int_equal(begin(writer, step, values, 2, NULL), TERSE_OK);
        assert_true(trn_writer_wait(writer, 30));
        assert_int_equal(test_entries(&folder), step == 3 ? 3 : step == 1 ? 1 : 2);
        if (step == 2) {
            const int fd = open(test_path(&folder, "checkpoint-2.terse"), O_WRONLY);
            assert_int_equal(pwrite(fd, "X", 1, 100), 1);
            assert_int_equal(close(fd), 0);
        }
    }
    trn_writer_destroy(writer);
    test_folder_remove(&folder);
}

static void test_a_slow_disk_makes_nobody_wait(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct trn_writer *writer;
    struct trn_written written;
    struct timespec start;
    struct timespec end;
    terse_fault fault;
    const uint64_t value = 7;
    (void)state;
    assert_int_equal(trn_writer_create(folder.path, 2, &writer, NULL), TERSE_OK);
    atomic_store(&slow_ms, 700);
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    assert_int_equal(begin(writer, 7, &value, 1, NULL), TERSE_OK);
    assert_false(trn_writer_wait(writer, 0));
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true((double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec) <
                0.5);
    test_refused(begin(writer, 8, &value, 1, &fault), TERSE_BAD_ARGUMENT, &fault,
                 "is being written");
    trn_writer_result(writer, &written);
    assert_int_equal(written.count, 0);
    atomic_store(&slow_ms, 0);
    trn_writer_destroy(writer); /* waits */
    expect(&folder, 7, 1);
    trn_writer_destroy(NULL);
    test_folder_remove(&folder);
}

static void test_a_full_disk_is_told_and_does_no_harm(void **state)
{
    const struct test_folder folder = test_folder_make();
    static uint64_t values[1000];
    struct trn_writer *writer;
    struct trn_written written;
    struct rlimit old;
    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    atomic_store(&slow_ms, 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(trn_writer_create(folder.path, 2, &writer, NULL), TERSE_OK);
    for (uint64_t step = 1; step <= 3; step++) {
        const struct rlimit limit = {.rlim_cur = step == 2 ? 100 : old.rlim_cur,
                                     .rlim_max = old.rlim_max};
        for (size_t i = 0; i < 1000; i++)
            values[i] = step;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(begin(writer, step, values, 1000, NULL), TERSE_OK);
        assert_true(trn_writer_wait(writer, 30));
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        expect(&folder, step == 2 ? 1 : step, 1000);
    }
    trn_writer_result(writer, &written);
    assert_int_equal(written.count, 2);
    assert_int_equal(written.step, 3);
    test_refused(written.status, COM_BAD_DISK, &written.fault,
                 "checkpoint-2.terse': File too large");
    assert_int_equal(test_entries(&folder), 2);
    trn_writer_destroy(writer);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_checkpoint_after_the_other),
        cmocka_unit_test(test_a_file_that_was_changed_is_not_counted),
        cmocka_unit_test(test_a_slow_disk_makes_nobody_wait),
        cmocka_unit_test(test_a_full_disk_is_told_and_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
