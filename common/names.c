#include "common/names.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 32, LONGEST_PATTERN = 256 };

static size_t least_of(size_t a, size_t b, size_t c)
{
    const size_t least = a < b ? a : b;
    return least < c ? least : c;
}

size_t com_edits(const char *word, size_t len, const char *name)
{
    const size_t name_len = strlen(name);
    if (len > LONGEST || name_len > LONGEST)
        return len + name_len;
    /* Levenshtein: edits[j] turns the letters of `word` read so far into the first j of `name`. */
    size_t edits[LONGEST + 1];
    for (size_t j = 0; j <= name_len; j++)
        edits[j] = j;
    for (size_t i = 1; i <= len; i++) {
        size_t diagonal = edits[0];
        edits[0] = i;
        for (size_t j = 1; j <= name_len; j++) {
            const size_t above = edits[j];
            const size_t change = diagonal + (word[i - 1] != name[j - 1]);
            edits[j] = least_of(change, above + 1, edits[j - 1] + 1);
            diagonal = above;
        }
    }
    return edits[name_len];
}

int com_names_nearest(com_names *names, const char *word, size_t len)
{
    int nearest = COM_NO_NAME;
    size_t least = SIZE_MAX;
    const char *name;
    for (uint32_t i = 0; len > 0 && (name = names(i)); i++) {
        const int begins = len > 1 && strncmp(word, name, len) == 0;
        const size_t edits = begins ? 0 : com_edits(word, len, name);
        if (edits <= 1 + strlen(name) / 3 && edits < least) {
            least = edits;
            nearest = (int)i;
        }
    }
    return nearest;
}

char *com_names_join(com_names *names, const char *between, char *out, size_t cap)
{
    size_t used = 0;
    const char *name;
    out[0] = '\0';
    for (uint32_t i = 0; used < cap && (name = names(i)); i++)
        used += (size_t)snprintf(out + used, cap - used, "%s%s", i == 0 ? "" : between, name);
    return out;
}

const char *com_pattern_next(const char *patterns, char *out, size_t cap)
{
    if (!patterns || !*patterns)
        return NULL;
    const size_t len = strcspn(patterns, ",");
    (void)snprintf(out, cap, "%.*s", (int)(len < cap ? len : cap - 1), patterns);
    return patterns + len + (patterns[len] == ',');
}

int com_patterns_match(const char *patterns, const char *name)
{
    char pattern[LONGEST_PATTERN];
    while ((patterns = com_pattern_next(patterns, pattern, sizeof pattern)))
        if (fnmatch(pattern, name, 0) == 0)
            return 1;
    return 0;
}
