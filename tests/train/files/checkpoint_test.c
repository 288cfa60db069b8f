#define _GNU_SOURCE /* RTLD_NEXT */
#include "files/checkpoint.h"

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "files/bytes.h"
#include "files/hash.h"
#include "support/folder.h"

static const float memory[] = {1.5f, -2.0f, 3.0f};

static com_json *settings(void)
{
    com_json *json = com_json_object();
    com_json_put_text(json, "method", "def:ratio=16");
    com_json_put_hex(json, "seed", UINT64_MAX);
    return json;
}

/* Three blobs, not in the file's order. */
static terse_status write_step(const struct test_folder *folder, uint64_t step, terse_fault *fault)
{
    const struct trn_blob blobs[] = {
        {.name = "memory", .kind = 7, .worker = 1, .bytes = memory, .len = sizeof memory},
        {.name = "weights", .kind = 1, .worker = 0, .bytes = "w", .len = 1},
        {.name = "memory", .kind = 7, .worker = 0, .bytes = NULL, .len = 0},
    };
    com_json *json = settings();
    const terse_status status = trn_checkpoint_write(folder->path, step, json, blobs, 3, fault);
    com_json_free(json);
    return status;
}

static uint8_t *read_step(const struct test_folder *folder, const char *name, size_t *len)
{
    uint8_t *bytes;
    assert_int_equal(com_file_read(test_path(folder, name), &bytes, len, NULL), TERSE_OK);
    return bytes;
}

static void test_written_then_read(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct trn_checkpoint *checkpoint;
    uint64_t seed;
    (void)state;
    assert_int_equal(write_step(&folder, 12, NULL), TERSE_OK);
    assert_int_equal(
        trn_checkpoint_read(test_path(&folder, "checkpoint-12.terse"), &checkpoint, NULL),
        TERSE_OK);
    assert_int_equal(trn_checkpoint_step(checkpoint), 12);
    assert_int_equal(trn_checkpoint_count(checkpoint), 3);
    assert_true(com_json_get_u64(trn_checkpoint_settings(checkpoint), "seed", &seed));
    assert_true(seed == UINT64_MAX);
    const struct trn_blob *blob = trn_checkpoint_find(checkpoint, "memory", 1);
    assert_non_null(blob);
    assert_int_equal(blob->kind, 7);
    assert_int_equal(blob->len, sizeof memory);
    assert_int_equal((uintptr_t)blob->bytes % 8, 0);
    assert_memory_equal(blob->bytes, memory, sizeof memory);
    assert_int_equal(trn_checkpoint_find(checkpoint, "memory", 0)->len, 0);
    assert_null(trn_checkpoint_find(checkpoint, "memory", 2));
    assert_null(trn_checkpoint_find(checkpoint, "memor", 0));
    assert_null(trn_checkpoint_at(checkpoint, 3));
    assert_string_equal(trn_checkpoint_at(checkpoint, 2)->name, "weights");
    trn_checkpoint_free(checkpoint);
    test_folder_remove(&folder);
}

/* Exact bytes, so that a sanitizer sees every step beyond. */
static terse_status parse(const uint8_t *bytes, size_t len, terse_fault *fault)
{
    struct trn_checkpoint *checkpoint;
    uint8_t *exact = test_alloc(len + (len == 0));
    memcpy(exact, bytes, len);
    const struct trn_bytes in = {.name = "c", .at = exact, .len = len};
    const terse_status status = trn_checkpoint_parse(&in, &checkpoint, fault);
    if (status == TERSE_OK)
        trn_checkpoint_free(checkpoint);
    free(exact);
    return status;
}

static void test_every_damage_is_noticed(void **state)
{
    const struct test_folder folder = test_folder_make();
    size_t len;
    terse_fault fault;
    (void)state;
    assert_int_equal(write_step(&folder, 12, NULL), TERSE_OK);
    uint8_t *bytes = read_step(&folder, "checkpoint-12.terse", &len);
    for (size_t cut = 0; cut < len; cut++)
        assert_int_not_equal(parse(bytes, cut, &fault), TERSE_OK);
    for (size_t i = 0; i < 8 * len; i++) {
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_int_not_equal(parse(bytes, len, &fault), TERSE_OK);
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    assert_int_equal(parse(bytes, len, &fault), TERSE_OK);
    free(bytes);
    test_folder_remove(&folder);
}

/* With a checksum that fits every change: the rules alone must hold. */
static void test_every_rule_is_checked_behind_the_checksum(void **state)
{
    const struct test_folder folder = test_folder_make();
    size_t len;
    (void)state;
    assert_int_equal(write_step(&folder, 12, NULL), TERSE_OK);
    uint8_t *bytes = read_step(&folder, "checkpoint-12.terse", &len);
    unsigned taken = 0;
    for (size_t i = 0; i < len - 8; i++) {
        for (unsigned change = 1; change < 256; change += 127) {
            terse_fault fault = {0};
            bytes[i] ^= (uint8_t)change;
            trn_put_u64(bytes + len - 8, trn_hash64(bytes, len - 8, 0));
            const terse_status status = parse(bytes, len, &fault);
            taken += status == TERSE_OK;
            if (status != TERSE_OK)
                assert_true(fault.text[0] && fault.offset <= len);
            bytes[i] ^= (uint8_t)change;
        }
    }
    /* step, kinds, workers, names and values may be anything; lengths, order and zeros may not */
    assert_in_range(taken, 1, 2 * len);
    trn_put_u32(bytes + 8, 2);
    trn_put_u64(bytes + len - 8, trn_hash64(bytes, len - 8, 0));
    terse_fault fault;
    test_refused(parse(bytes, len, &fault), TERSE_BAD_VERSION, &fault, "version 2");
    free(bytes);
    test_folder_remove(&folder);
}

static void test_refusals_have_a_reason(void **state)
{
    terse_fault fault;
    uint8_t file[48] = "TERSECKP";
    (void)state;
    test_refused(parse((const uint8_t *)"PK\x03\x04 something else", 18, &fault), COM_BAD_FILE,
                 &fault, "c: byte 0: not a checkpoint of terse");
    test_refused(parse(file, 20, &fault), COM_BAD_FILE, &fault, "ends in its head");
    trn_put_u32(file + 8, TRN_CHECKPOINT_VERSION);
    test_refused(parse(file, sizeof file, &fault), TERSE_BAD_CHECKSUM, &fault, "damaged");
    trn_put_u32(file + 12, UINT32_MAX); /* blobs */
    trn_put_u64(file + 24, 2);
    memcpy(file + 32, "{}", 2);
    trn_put_u64(file + 40, trn_hash64(file, 40, 0));
    test_refused(parse(file, sizeof file, &fault), COM_BAD_FILE, &fault, "number of blobs");
    trn_put_u64(file + 24, UINT64_MAX);
    trn_put_u64(file + 40, trn_hash64(file, 40, 0));
    test_refused(parse(file, sizeof file, &fault), COM_BAD_FILE, &fault, "settings are cut off");
}

/* Refusals of a blob's head and of its name say where the blob begins. */
static void test_a_bad_blob_is_named_by_its_place(void **state)
{
    enum { BLOB = 40, NAME = BLOB + 24, TAIL = NAME + 8 };
    terse_fault fault;
    uint8_t file[TAIL + 8] = "TERSECKP";
    (void)state;
    trn_put_u32(file + 8, TRN_CHECKPOINT_VERSION);
    trn_put_u32(file + 12, 1);
    trn_put_u64(file + 24, 2);
    memcpy(file + 32, "{}", 2);
    trn_put_u32(file + BLOB + 16, 1);
    file[NAME] = 'a';
    trn_put_u64(file + TAIL, trn_hash64(file, TAIL, 0));
    assert_int_equal(parse(file, sizeof file, &fault), TERSE_OK);
    file[NAME] = '\n';
    trn_put_u64(file + TAIL, trn_hash64(file, TAIL, 0));
    test_refused(parse(file, sizeof file, &fault), COM_BAD_FILE, &fault,
                 "c: byte 40: a blob's name");
    trn_put_u32(file + BLOB + 20, 1);
    trn_put_u64(file + TAIL, trn_hash64(file, TAIL, 0));
    test_refused(parse(file, sizeof file, &fault), COM_BAD_FILE, &fault,
                 "c: byte 40: not a blob's");
}

/* A check without reading it whole: magic, version and checksum of the shortest file. */
static void test_the_shortest_file_is_checked(void **state)
{
    const struct test_folder folder = test_folder_make();
    const char *const path = test_path(&folder, "short");
    terse_fault fault;
    uint8_t file[40] = "TERSECKP";
    (void)state;
    trn_put_u32(file + 8, TRN_CHECKPOINT_VERSION);
    trn_put_u64(file + 32, trn_hash64(file, 32, 0));
    test_put(&folder, "short", file, sizeof file);
    assert_int_equal(trn_checkpoint_check(path, &fault), TERSE_OK);
    test_put(&folder, "short", file, sizeof file - 1);
    test_refused(trn_checkpoint_check(path, &fault), COM_BAD_FILE, &fault, "too short");
    file[20] ^= 1;
    test_put(&folder, "short", file, sizeof file);
    test_refused(trn_checkpoint_check(path, &fault), TERSE_BAD_CHECKSUM, &fault, "damaged");
    test_folder_remove(&folder);
}

static void test_what_cannot_be_written_is_refused(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct trn_blob blobs[2] = {{.name = "a"}, {.name = "a"}};
    com_json *json = settings();
    com_json *array = com_json_array();
    terse_fault fault;
    (void)state;
    test_refused(trn_checkpoint_write(folder.path, 1, json, blobs, 2, &fault), TERSE_BAD_ARGUMENT,
                 &fault, "is given twice");
    blobs[1].name = "b\n";
    test_refused(trn_checkpoint_write(folder.path, 1, json, blobs, 2, &fault), TERSE_BAD_ARGUMENT,
                 &fault, "cannot be named");
    test_refused(trn_checkpoint_write(folder.path, 1, array, blobs, 1, &fault), TERSE_BAD_ARGUMENT,
                 &fault, "JSON object");
    assert_int_equal(test_entries(&folder), 0);
    com_json_free(json);
    com_json_free(array);
    test_folder_remove(&folder);
}

/* The step of the newest sound one, and a piece of the notes ("" for none at all). */
static void expect_latest(const struct test_folder *folder, uint64_t step, const char *note)
{
    struct trn_checkpoint *checkpoint;
    char *path;
    char *notes;
    terse_fault fault;
    assert_int_equal(trn_checkpoint_latest(folder->path, &checkpoint, &path, &notes, &fault),
                     TERSE_OK);
    assert_int_equal(trn_checkpoint_step(checkpoint), step);
    if (note[0])
        assert_non_null(strstr(notes, note));
    else
        assert_null(notes);
    trn_checkpoint_free(checkpoint);
    free(path);
    free(notes);
}

static void test_damaged_ones_exist_too(void **state)
{
    const struct test_folder folder = test_folder_make();
    (void)state;
    assert_int_equal(trn_checkpoint_exists("/no/such"), 0);
    assert_int_equal(trn_checkpoint_exists(folder.path), 0);
    test_put(&folder, ".checkpoint-7.terse.abcdef", "x", 1);
    test_put(&folder, "checkpoint-x.terse", "x", 1);
    assert_int_equal(trn_checkpoint_exists(folder.path), 0);
    test_put(&folder, "checkpoint-7.terse", "x", 1);
    assert_int_equal(trn_checkpoint_exists(folder.path), 1);
    test_folder_remove(&folder);
}

static void test_the_newest_sound_one_is_found(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct trn_checkpoint *checkpoint;
    char *path;
    char *notes;
    terse_fault fault;
    (void)state;
    test_refused(trn_checkpoint_latest(folder.path, &checkpoint, &path, &notes, &fault),
                 COM_NO_FILE, &fault, "no checkpoint in");
    assert_int_equal(write_step(&folder, 9, NULL), TERSE_OK);
    assert_int_equal(write_step(&folder, 10, NULL), TERSE_OK);
    test_put(&folder, "checkpoint-007.terse", "x", 1);
    test_put(&folder, "checkpoint-11.terse.bak", "x", 1);
    expect_latest(&folder, 10, "");
    test_put(&folder, "checkpoint-200.terse", "TERSECKPxxx", 11);
    expect_latest(&folder, 10, "checkpoint-200.terse: byte 11: the file ends in its head");
    assert_int_equal(unlink(test_path(&folder, "checkpoint-200.terse")), 0);
    assert_int_equal(trn_checkpoint_prune(folder.path, &(uint64_t){10}, 1, 1, NULL), TERSE_OK);
    assert_int_equal(test_entries(&folder), 3); /* step 10 and the two strangers */
    expect_latest(&folder, 10, "");
    test_put(&folder, "checkpoint-10.terse", "damaged", 7);
    test_refused(trn_checkpoint_latest(folder.path, &checkpoint, &path, &notes, &fault),
                 COM_NO_FILE, &fault, "not a checkpoint of terse");
    test_folder_remove(&folder);
}

/* A damaged file of a larger step is neither counted nor removed; behind the kept ones everything
 * goes. */
static void test_pruning_keeps_the_newest_sound_ones(void **state)
{
    const struct test_folder folder = test_folder_make();
    (void)state;
    for (uint64_t step = 1; step <= 4; step++)
        assert_int_equal(write_step(&folder, step, NULL), TERSE_OK);
    test_put(&folder, "checkpoint-2.terse", "TERSECKPxxx", 11);
    test_put(&folder, "checkpoint-80.terse", "TERSECKPxxx", 11);
    size_t len;
    uint8_t *bytes = read_step(&folder, "checkpoint-4.terse", &len);
    bytes[len / 2] ^= 1;
    test_put(&folder, "checkpoint-90.terse", bytes, len);
    free(bytes);
    assert_int_equal(trn_checkpoint_prune(folder.path, &(uint64_t){4}, 1, 2, NULL), TERSE_OK);
    assert_int_equal(test_entries(&folder), 4); /* 3 and 4, 80 and 90 */
    expect_latest(&folder, 4, "checkpoint-90.terse");
    assert_int_equal(unlink(test_path(&folder, "checkpoint-4.terse")), 0);
    expect_latest(&folder, 3, "checkpoint-80.terse");

    /* The second newest is damaged: the third takes its place, and the damaged one stays. */
    assert_int_equal(write_step(&folder, 5, NULL), TERSE_OK);
    assert_int_equal(write_step(&folder, 6, NULL), TERSE_OK);
    test_put(&folder, "checkpoint-5.terse", "", 0);
    assert_int_equal(trn_checkpoint_prune(folder.path, &(uint64_t){6}, 1, 2, NULL), TERSE_OK);
    assert_int_equal(test_entries(&folder), 5); /* 3, 5, 6, 80 and 90 */
    assert_int_equal(write_step(&folder, 7, NULL), TERSE_OK);
    assert_int_equal(trn_checkpoint_prune(folder.path, &(uint64_t){7}, 1, 2, NULL), TERSE_OK);
    assert_int_equal(test_entries(&folder), 4); /* 6, 7, 80 and 90 */
    test_folder_remove(&folder);
}

static void test_only_what_killed_writers_left_is_removed(void **state)
{
    static const char *const left[] = {".checkpoint-300.terse.abcdef", ".run.json.abc123",
                                       ".weights.safetensors.zzzzzz"};
    static const char *const others[] = {".checkpoint-300.terse.abcde",
                                         ".checkpoint-x.terse.abcdef",
                                         ".checkpoint-007.terse.abcdef",
                                         ".run.json",
                                         "run.json.abc123",
                                         ".notes.txt.abc123",
                                         ".lock",
                                         ".abcdef",
                                         "..abcdef"};
    enum { LEFT = sizeof left / sizeof left[0], OTHERS = sizeof others / sizeof others[0] };
    const struct test_folder folder = test_folder_make();
    (void)state;
    for (size_t i = 0; i < LEFT; i++)
        test_put(&folder, left[i], "x", 1);
    for (size_t i = 0; i < OTHERS; i++)
        test_put(&folder, others[i], "x", 1);
    assert_int_equal(trn_checkpoint_clean(folder.path, NULL), TERSE_OK);
    assert_int_equal(test_entries(&folder), OTHERS);
    for (size_t i = 0; i < OTHERS; i++)
        assert_true(com_file_exists(test_path(&folder, others[i])));
    test_folder_remove(&folder);
}

static void test_a_disk_that_fills_up_keeps_the_last_good(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct rlimit old;
    terse_fault fault;
    (void)state;
    assert_int_equal(write_step(&folder, 1, NULL), TERSE_OK);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (rlim_t limit = 0; limit < 200; limit += 9) {
        const struct rlimit small = {.rlim_cur = limit, .rlim_max = old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const terse_status status = write_step(&folder, 2, &fault);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        test_refused(status, COM_BAD_DISK, &fault, "File too large");
        assert_int_equal(test_entries(&folder), 1);
        expect_latest(&folder, 1, "");
    }
    test_folder_remove(&folder);
}

/* A run that writes checkpoints as fast as it can, two kept. */
static void write_for_ever(const struct test_folder *folder, uint64_t step)
{
    enum { LEN = 1 << 17 };
    com_json *json = settings();
    uint64_t *values = malloc(LEN * sizeof *values);
    for (;; step++) {
        for (size_t i = 0; values && i < LEN; i++)
            values[i] = step;
        const struct trn_blob blob = {.name = "w", .bytes = values, .len = LEN * sizeof *values};
        if (!values || trn_checkpoint_write(folder->path, step, json, &blob, 1, NULL) != TERSE_OK ||
            trn_checkpoint_prune(folder->path, &step, 1, 2, NULL) != TERSE_OK)
            _exit(1);
    }
}

/* The folder's writer goes on while a reader has the list of files and none of them yet. */
static const struct test_folder *busy_folder;

int closedir(DIR *entries)
{
    typedef int close_fn(DIR *);
    const struct test_folder *const folder = busy_folder;
    void *const symbol = dlsym(RTLD_NEXT, "closedir");
    close_fn *real;
    memcpy(&real, &symbol, sizeof real);
    const int done = real(entries);
    busy_folder = NULL;
    if (folder) {
        assert_int_equal(write_step(folder, 3, NULL), TERSE_OK);
        assert_int_equal(write_step(folder, 4, NULL), TERSE_OK);
        assert_int_equal(trn_checkpoint_prune(folder->path, &(uint64_t){4}, 1, 2, NULL), TERSE_OK);
    }
    return done;
}

static void test_reading_beside_a_writer(void **state)
{
    const struct test_folder folder = test_folder_make();
    (void)state;
    assert_int_equal(write_step(&folder, 1, NULL), TERSE_OK);
    assert_int_equal(write_step(&folder, 2, NULL), TERSE_OK);
    busy_folder = &folder;
    expect_latest(&folder, 4, "");
    assert_null(busy_folder);
    test_folder_remove(&folder);
}

static void test_kill_leaves_the_last_good(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct test_random random = {test_seed()};
    uint64_t last = 1;
    (void)state;
    assert_int_equal(write_step(&folder, 1, NULL), TERSE_OK);
    for (int round = 0; round < 15; round++) {
        struct trn_checkpoint *checkpoint;
        char *path;
        char *notes;
        int status;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_for_ever(&folder, last + 1);
        (void)usleep((useconds_t)(test_next(&random) % 30000));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(trn_checkpoint_latest(folder.path, &checkpoint, &path, &notes, NULL),
                         TERSE_OK);
        assert_null(notes); /* not one that is half written */
        assert_true(trn_checkpoint_step(checkpoint) >= last);
        last = trn_checkpoint_step(checkpoint);
        trn_checkpoint_free(checkpoint);
        free(path);
    }
    print_message("steps reached: %llu\n", (unsigned long long)last);
    assert_true(last > 1);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_then_read),
        cmocka_unit_test(test_every_damage_is_noticed),
        cmocka_unit_test(test_every_rule_is_checked_behind_the_checksum),
        cmocka_unit_test(test_refusals_have_a_reason),
        cmocka_unit_test(test_a_bad_blob_is_named_by_its_place),
        cmocka_unit_test(test_the_shortest_file_is_checked),
        cmocka_unit_test(test_what_cannot_be_written_is_refused),
        cmocka_unit_test(test_damaged_ones_exist_too),
        cmocka_unit_test(test_the_newest_sound_one_is_found),
        cmocka_unit_test(test_pruning_keeps_the_newest_sound_ones),
        cmocka_unit_test(test_only_what_killed_writers_left_is_removed),
        cmocka_unit_test(test_a_disk_that_fills_up_keeps_the_last_good),
        cmocka_unit_test(test_reading_beside_a_writer),
        cmocka_unit_test(test_kill_leaves_the_last_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
