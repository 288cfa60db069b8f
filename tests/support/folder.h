/* A folder of its own for every test, removed with all that is in it. */
#ifndef TRN_TEST_FOLDER_H
#define TRN_TEST_FOLDER_H

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "support/support.h"

struct test_folder {
    char path[64];
};

static inline struct test_folder test_folder_make(void)
{
    struct test_folder folder;
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder.path, sizeof folder.path, "%.40s/terse-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(folder.path));
    return folder;
}

/* "FOLDER/NAME" in one of a few buffers. */
static inline const char *test_path(const struct test_folder *folder, const char *name)
{
    static char paths[8][160];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder->path, name);
    return path;
}

static inline void test_put(const struct test_folder *folder, const char *name, const void *bytes,
                            size_t len)
{
    FILE *file = fopen(test_path(folder, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* Entries, with those that begin with a dot. */
static inline int test_entries(const struct test_folder *folder)
{
    int count = 0;
    DIR *entries = opendir(folder->path);
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    (void)closedir(entries);
    return count - 2;
}

static inline void test_folder_remove(const struct test_folder *folder)
{
    DIR *entries = opendir(folder->path);
    struct dirent *entry;
    assert_non_null(entries);
    while ((entry = readdir(entries)) != NULL)
        (void)unlinkat(dirfd(entries), entry->d_name, 0);
    (void)closedir(entries);
    assert_int_equal(rmdir(folder->path), 0);
}

/* What a test expects of a refusal: status, and a piece of its text. */
static inline void test_refused(terse_status status, terse_status expected,
                                const terse_fault *fault, const char *piece)
{
    if (status != expected || !strstr(fault->text, piece))
        print_error("status %d, '%s'; expected %d, '%s'\n", (int)status, fault->text, (int)expected,
                    piece);
    assert_int_equal(status, expected);
    assert_non_null(strstr(fault->text, piece));
}

#endif
