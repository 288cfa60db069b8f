#include "base/parallel.h"

struct chunks {
    size_t count;
    tsi_chunk_fn *work;
    void *context;
};

void tsi_each_part(unsigned threads, size_t parts, tsi_part_fn *work, void *context)
{
#if defined(_OPENMP)
    if (threads > 1 && parts > 1) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (size_t part = 0; part < parts; part++)
            work(context, part);
        return;
    }
#endif
    (void)threads;
    for (size_t part = 0; part < parts; part++)
        work(context, part);
}

static void one_chunk(void *context, size_t part)
{
    const struct chunks *const chunks = context;
    const size_t first = part * TSI_CHUNK;
    const size_t left = chunks->count - first;
    chunks->work(chunks->context, part, first, left < TSI_CHUNK ? left : TSI_CHUNK);
}

void tsi_each_chunk(unsigned threads, size_t count, tsi_chunk_fn *work, void *context)
{
    struct chunks chunks = {count, work, context};
    tsi_each_part(threads, tsi_chunk_total(count), one_chunk, &chunks);
}
