/* A file of frames, read one after the other. */
#ifndef CLI_FRAMES_H
#define CLI_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include <terse/terse.h>

struct frames {
    const char *path;
    unsigned char *bytes;
    size_t len;
    size_t at; /* offset of the next frame */
};

/* Both return an exit code and print errors; "-" is standard input. */
int frames_open(struct frames *frames, const char *path);
void frames_close(struct frames *frames);

/* The next frame; *start is its offset in the file. Faults count from the start of the file. */
terse_status frames_next(struct frames *frames, terse_frame *frame, size_t *start,
                         terse_fault *fault);

/* Prints why a frame of this file was refused; returns an exit code. */
int frames_refuse(const struct frames *frames, terse_status status, const terse_fault *fault);

/* Decodes the payload into `out`. Faults count from the start of the file. */
terse_status frames_decode(const struct frames *frames, const terse_frame *frame,
                           terse_codec *codec, float *out, terse_fault *fault);

/* Are two frames of the same vector: same codec, layout, step, seed and worker? */
int frames_same_vector(const terse_frame *one, const terse_frame *other);

#endif
