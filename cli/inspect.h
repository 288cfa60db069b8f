/* The output of `terse inspect` for a frame. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include <stddef.h>

#include <terse/terse.h>

#include "common/json.h"

/* One frame, and what was found beside its own fields. */
struct finding {
    size_t number;
    size_t start;
    size_t len;
    size_t payload_at; /* offset in the file */
    terse_frame frame;
    terse_layout *layout; /* NULL if the frame carries none */
    terse_codec *codec;   /* NULL if it could not be created */
    const char *payload;  /* "sound", or why it was not checked */
};

int inspect_print(const struct finding *found); /* returns an exit code */

com_json *inspect_json(const struct finding *found);

#endif
