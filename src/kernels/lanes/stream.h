/* Long vectors are read in order: ask for what comes next. */
#ifndef TSK_LANES_STREAM_H
#define TSK_LANES_STREAM_H

#define STREAM_AHEAD 4096u /* bytes: the next tile where a codec goes tile by tile */

/* Loads, and fetches what will be loaded a little later; it need not exist. */
LANE vf vf_stream(const void *at)
{
    __builtin_prefetch((const void *)((uintptr_t)at + STREAM_AHEAD));
    return vf_load(at);
}

#endif
