/* Errors. Every function that can fail returns a terse_status; results go through
 * out-parameters, which are written only on TERSE_OK. The library never prints, exits or aborts. */
#ifndef TERSE_STATUS_H
#define TERSE_STATUS_H

#include <stdint.h>

#include <terse/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grouped by what the caller can do. New values are added at the end of a group. */
typedef enum terse_status {
    TERSE_OK = 0,

    /* The call is wrong; nothing was changed. */
    TERSE_BAD_ARGUMENT = -1, /* NULL, zero or out of the documented range */
    TERSE_BAD_SPEC = -2,     /* a spec that cannot be parsed; the fault holds position and reason */
    TERSE_TOO_SMALL = -3,    /* a buffer is smaller than the documented bound */
    TERSE_NOT_FINITE = -4,   /* NaN or infinity in the input */
    TERSE_OUT_OF_RANGE = -5, /* a number that the codec cannot encode (e.g. 1e6 in f16), or an
                              * overflow: of a sum, of the weights */

    /* The received bytes are invalid; drop them. */
    TERSE_BAD_FRAME = -20,    /* breaks a rule of the format; the fault holds offset and rule */
    TERSE_BAD_VERSION = -21,  /* a format version or codec this library does not know */
    TERSE_BAD_CHECKSUM = -22, /* damaged in transit */
    TERSE_MISMATCH = -23,     /* valid, but for another layout, codec, range or step */

    /* The machine or a peer failed. */
    TERSE_NO_MEMORY = -40,
    TERSE_TIMEOUT = -41,   /* no message from a worker within the timeout; the fault names it */
    TERSE_PEER_LOST = -42, /* a worker left or the engine failed; create a new group */

    /* Not in this build or not on this CPU. */
    TERSE_UNSUPPORTED = -60,
} terse_status;

/* The place and the reason of a failure. Written only on failure; every function that takes one
 * accepts NULL. */
typedef struct terse_fault {
    uint64_t offset; /* byte offset in the input (frame, payload or spec text) */
    int32_t rank;    /* the rank at fault, or -1 */
    char text[228];  /* one line, no full stop, e.g. "index stream: 12 ones, 13 expected" */
} terse_fault;

/* A short constant text for a status, never NULL: "not finite", "bad frame", ... */
TERSE_API const char *terse_status_text(terse_status status);

#ifdef __cplusplus
}
#endif
#endif
