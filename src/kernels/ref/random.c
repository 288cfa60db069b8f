#include "kernels/philox.h"
#include "kernels/ref/ref.h"

uint32_t tsk_ref_random(const struct tsk_stream *stream, uint64_t element)
{
    uint32_t word[4] = {(uint32_t)(element / 64 * 16 + element % 16), stream->counter[0],
                        stream->counter[1], stream->counter[2]};
    tsk_philox_block(stream->key, word);
    return word[element / 16 % 4];
}

void tsk_ref_random_u32(const struct tsk_stream *stream, uint64_t first, size_t count,
                        uint32_t *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = tsk_ref_random(stream, first + i);
}
