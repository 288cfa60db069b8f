/* replay FILE...: runs a fuzz target on files without a fuzzer, so that the corpus is a regression
 * test with any compiler. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/subject.h"

#define MAX_FILE (1u << 20)

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 0;
    }
    uint8_t *bytes = fuzz_room(MAX_FILE);
    const size_t len = fread(bytes, 1, MAX_FILE, file);
    const int is_read = !ferror(file) && len < MAX_FILE;
    (void)fclose(file);
    if (is_read)
        (void)LLVMFuzzerTestOneInput(bytes, len);
    else
        (void)fprintf(stderr, "cannot read %s\n", path);
    free(bytes);
    return is_read;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!replay(argv[i]))
            return EXIT_FAILURE;
    if (argc < 2) {
        (void)fprintf(stderr, "usage: replay FILE...\n");
        return 2;
    }
    (void)printf("ok %d files\n", argc - 1);
    return EXIT_SUCCESS;
}
