#include "codec_specs.h"

#include <string.h>

#include <terse/terse.h>

/* Is the spec one of this codec? */
static int is_of(const char *one, const char *codec)
{
    terse_layout *layout = NULL;
    terse_codec *made = NULL;
    terse_codec_about about = {.name = ""};
    if (terse_layout_vector(1, &layout) == TERSE_OK &&
        terse_codec_create(one, layout, NULL, &made, NULL) == TERSE_OK)
        terse_codec_describe(made, &about);
    terse_codec_destroy(made);
    terse_layout_destroy(layout);
    return strcmp(about.name, codec) == 0;
}

static int is_named(const char *codec, const char *const *some, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_of(some[i], codec))
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
