#include "update/sparse_clear.h"

#include <stdlib.h>
#include <string.h>

#define FLOATS_PER_PLACE 8u /* with more places than that, clearing the whole buffer is as fast */
#define AHEAD ((size_t)16)  /* places prefetched: about a memory latency */

int tsi_sparse_clear_create(struct tsi_sparse_clear *clear, size_t floats)
{
    *clear = (struct tsi_sparse_clear){.cap = floats / FLOATS_PER_PLACE};
    clear->place = malloc((clear->cap + 1) * sizeof *clear->place);
    return clear->place != NULL;
}

void tsi_sparse_clear_destroy(struct tsi_sparse_clear *clear)
{
    free(clear->place);
}

void tsi_sparse_clear_clear(struct tsi_sparse_clear *clear, float *buffer, size_t floats)
{
    for (size_t i = 0; clear->known && i < clear->count; i++) {
        __builtin_prefetch(&buffer[clear->place[i + AHEAD < clear->count ? i + AHEAD : i]], 1);
        buffer[clear->place[i]] = 0;
    }
    if (!clear->known && floats > 0)
        memset(buffer, 0, floats * sizeof *buffer);
    clear->count = 0;
    clear->known = 1;
}

void tsi_sparse_clear_mark(struct tsi_sparse_clear *clear, uint64_t base, const uint32_t *index,
                           size_t count)
{
    if (count > clear->cap - clear->count)
        clear->known = 0;
    if (!clear->known)
        return;
    uint64_t *const place = clear->place + clear->count;
    for (size_t i = 0; i < count; i++)
        place[i] = base + (index ? index[i] : i);
    clear->count += count;
}
