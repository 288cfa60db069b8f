#include "codec_specs.h"

#include <string.h>

#include <terse/terse.h>

static int is_named(const char *codec, const char *const *specs, size_t count)
{
    const size_t len = strlen(codec);
    for (size_t i = 0; i < count; i++)
        if (strncmp(specs[i], codec, len) == 0 && (specs[i][len] == ':' || specs[i][len] == '\0'))
            return 1;
    return 0;
}

size_t codec_specs(const char *const *some, size_t count, const char *out[MAX_CODEC_SPECS])
{
    terse_codec_about about;
    size_t used = count;
    memcpy(out, some, count * sizeof *out);
    for (uint32_t i = 0; terse_codec_list(i, &about) == TERSE_OK && used < MAX_CODEC_SPECS; i++)
        if (!is_named(about.name, some, count))
            out[used++] = about.name;
    return used;
}
