#include "frames.h"

#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "message.h"

int frames_open(struct frames *frames, const char *path)
{
    *frames = (struct frames){.path = strcmp(path, "-") == 0 ? "standard input" : path};
    int code = file_read(path, &frames->bytes, &frames->len);
    if (code == CLI_OK && frames->len == 0) {
        frames_close(frames);
        return msg_error(CLI_REFUSED, "'%s' is empty", frames->path);
    }
    return code;
}

void frames_close(struct frames *frames)
{
    free(frames->bytes);
    frames->bytes = NULL;
}

terse_status frames_next(struct frames *frames, terse_frame *frame, size_t *start,
                         terse_fault *fault)
{
    size_t used;
    *start = frames->at;
    terse_status status =
        terse_frame_open(frames->bytes + frames->at, frames->len - frames->at, frame, &used, fault);
    if (status != TERSE_OK) {
        fault->offset += frames->at;
        return status;
    }
    frames->at += used;
    return TERSE_OK;
}

int frames_refuse(const struct frames *frames, terse_status status, const terse_fault *fault)
{
    const char *rule = fault->text[0] != '\0' ? fault->text : terse_status_text(status);
    if (status == TERSE_NO_MEMORY)
        return msg_error(CLI_MACHINE, "out of memory reading '%s'", frames->path);
    return msg_error(CLI_REFUSED, "'%s' is refused: offset %llu: %s", frames->path,
                     (unsigned long long)fault->offset, rule);
}

terse_status frames_decode(const struct frames *frames, const terse_frame *frame,
                           terse_codec *codec, float *out, terse_fault *fault)
{
    terse_rng_key key = {.seed = frame->seed, .step = frame->step, .worker = frame->worker};
    terse_status status = terse_codec_decode_add(codec, frame->pass, &key, frame->payload,
                                                 frame->payload_len, out, fault);
    if (status != TERSE_OK)
        fault->offset += (uint64_t)(frame->payload - frames->bytes);
    return status;
}

int frames_same_vector(const terse_frame *one, const terse_frame *other)
{
    return one->codec == other->codec && one->worker == other->worker && one->step == other->step &&
           one->seed == other->seed && one->layout_hash == other->layout_hash &&
           one->first == other->first && one->count == other->count &&
           memcmp(one->option_bytes, other->option_bytes, sizeof one->option_bytes) == 0;
}
