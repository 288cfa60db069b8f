#include "update/blank.h"

#include <stdlib.h>
#include <string.h>

#define PLACES_PER_FLOAT 8u /* one place for so many floats: beyond, clearing all is as fast */
#define AHEAD ((size_t)16)  /* places prefetched: about a memory latency */

int tsi_blank_create(struct tsi_blank *blank, size_t floats)
{
    *blank = (struct tsi_blank){.cap = floats / PLACES_PER_FLOAT};
    blank->place = malloc((blank->cap + 1) * sizeof *blank->place);
    return blank->place != NULL;
}

void tsi_blank_destroy(struct tsi_blank *blank)
{
    free(blank->place);
}

void tsi_blank_clear(struct tsi_blank *blank, float *buffer, size_t floats)
{
    for (size_t i = 0; blank->known && i < blank->count; i++) {
        __builtin_prefetch(&buffer[blank->place[i + AHEAD < blank->count ? i + AHEAD : i]], 1);
        buffer[blank->place[i]] = 0;
    }
    if (!blank->known && floats > 0)
        memset(buffer, 0, floats * sizeof *buffer);
    blank->count = 0;
    blank->known = 1;
}

void tsi_blank_mark(struct tsi_blank *blank, uint64_t base, const uint32_t *index, size_t count)
{
    if (count > blank->cap - blank->count)
        blank->known = 0;
    if (!blank->known)
        return;
    uint64_t *const place = blank->place + blank->count;
    for (size_t i = 0; i < count; i++)
        place[i] = base + (index ? index[i] : i);
    blank->count += count;
}
