/* Prefetching loads, for long vectors that are read in order. */
#ifndef TSK_LANES_STREAM_H
#define TSK_LANES_STREAM_H

#define STREAM_AHEAD 4096u /* bytes; the next tile where a codec works by tile */

/* Loads a vector and prefetches ahead of it; the prefetched address need not exist. */
LANE vf vf_stream(const void *at)
{
    __builtin_prefetch((const void *)((uintptr_t)at + STREAM_AHEAD));
    return vf_load(at);
}

#endif
