/* make_golden DIRECTORY: writes the golden frames and their decoded floats. Run it only for a new
 * case: the bytes of a case never change within a version of the format. */
#include <stdio.h>
#include <stdlib.h>

#include "golden/cases.h"

static int write_file(const char *directory, const char *name, const void *bytes, size_t len)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        return 0;
    }
    const int written = fwrite(bytes, 1, len, file) == len;
    if (fclose(file) != 0 || !written) {
        perror(path);
        return 0;
    }
    return 1;
}

static int write_case(const char *directory, const struct golden_case *golden)
{
    struct golden_made made;
    char name[128];
    int written = 1;
    const terse_status status = golden_make(golden, &made);
    if (status != TERSE_OK) {
        (void)fprintf(stderr, "%s: %s\n", golden->name, terse_status_text(status));
        written = 0;
    }
    for (uint32_t i = 0; written && i < made.frame_count; i++) {
        golden_frame_name(golden, &made, i, name, sizeof name);
        written = write_file(directory, name, made.frame[i], made.len[i]);
    }
    if (written) {
        (void)snprintf(name, sizeof name, "%s.f32", golden->name);
        written = write_file(directory, name, made.decoded, made.count * sizeof(float));
    }
    golden_free(&made);
    return written;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: make_golden DIRECTORY\n");
        return 2;
    }
    for (uint32_t i = 0; i < golden_case_count; i++)
        if (!write_case(argv[1], &golden_cases[i]))
            return EXIT_FAILURE;
    (void)printf("%u cases\n", golden_case_count);
    return EXIT_SUCCESS;
}
