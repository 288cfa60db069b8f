/* terse plan keeps its traces in the cache folder. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/record.h"
#include "support/folder.h"

static const struct pln_place slow = {
    .bits_per_second = 1e8, .latency = 1e-4, .compute = 0.2, .ranks_per_core = 1};

static struct test_folder folder_in(const struct test_folder *outer, const char *name)
{
    struct test_folder folder;
    (void)snprintf(folder.path, sizeof folder.path, "%.40s/%.20s", outer->path, name);
    return folder;
}

/* The number of operations becomes 1 in every file of the folder. */
static void damage_all(const struct test_folder *folder)
{
    DIR *const entries = opendir(folder->path);
    int damaged = 0;
    struct dirent *entry;
    assert_non_null(entries);
    while ((entry = readdir(entries)) != NULL) {
        uint8_t *bytes = NULL;
        size_t len = 0;
        terse_fault fault;
        char name[96];
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof name, "%.90s", entry->d_name);
        assert_int_equal(com_file_read(test_path(folder, name), &bytes, &len, &fault), TERSE_OK);
        char *at = (char *)bytes;
        while (at + 13 < (char *)bytes + len && strncmp(at, "\"operations\":", 13) != 0)
            at++;
        assert_true(at + 13 < (char *)bytes + len);
        at += 13 + strspn(at + 13, " \t");
        for (int i = 0; at[i] >= '0' && at[i] <= '9'; i++)
            at[i] = i == 0 ? '1' : ' ';
        test_put(folder, name, bytes, len);
        free(bytes);
        damaged++;
    }
    (void)closedir(entries);
    assert_true(damaged > 0);
}

/* The second recording is the first one, event by event; a damaged file is recorded anew. */
static void traces_are_kept(void **state)
{
    const struct test_folder folder = test_folder_make();
    terse_layout *layout = NULL;
    struct pln_trace *first = NULL;
    struct pln_trace *second = NULL;
    terse_fault fault;
    (void)state;
    assert_int_equal(pln_layout_parse("300x300,70", &layout, &fault), TERSE_OK);
    const struct pln_job job = {.spec = "topk", .workers = 3, .layout = layout, .threads = 1};
    assert_int_equal(setenv("XDG_CACHE_HOME", folder.path, 1), 0);
    assert_int_equal(pln_record_cached(&job, &first, &fault), TERSE_OK);
    assert_int_equal(pln_record_cached(&job, &second, &fault), TERSE_OK);
    const struct pln_cost one = pln_simulate(first, &slow);
    const struct pln_cost two = pln_simulate(second, &slow);
    /* a new recording has other CPU times */
    assert_true(fabs(two.seconds - one.seconds) <= 1e-12 * one.seconds);
    assert_true(fabs(two.codec_seconds - one.codec_seconds) <= 1e-12 * one.codec_seconds);
    pln_trace_free(second);
    const struct test_folder inner = folder_in(&folder, "terse");
    const struct test_folder plans = folder_in(&inner, "plan");
    damage_all(&plans);
    assert_int_equal(pln_record_cached(&job, &second, &fault), TERSE_OK);
    assert_true(pln_simulate(second, &slow).bytes_sent == one.bytes_sent);
    pln_trace_free(first);
    pln_trace_free(second);
    test_folder_remove(&plans);
    test_folder_remove(&inner);
    test_folder_remove(&folder);
    terse_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
