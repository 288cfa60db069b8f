#include "base/parallel.h"

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

void tsi_each_chunk(unsigned threads, size_t count, tsi_chunk_fn *work, void *context)
{
    const size_t chunks = tsi_chunk_total(count);
#if defined(_OPENMP)
    if (threads > 1 && chunks > 1) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (size_t i = 0; i < chunks; i++)
            work(context, i, i * TSI_CHUNK,
                 count - i * TSI_CHUNK < TSI_CHUNK ? count - i * TSI_CHUNK : TSI_CHUNK);
        return;
    }
#endif
    (void)threads;
    for (size_t i = 0; i < chunks; i++)
        work(context, i, i * TSI_CHUNK,
             count - i * TSI_CHUNK < TSI_CHUNK ? count - i * TSI_CHUNK : TSI_CHUNK);
}
