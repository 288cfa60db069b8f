/* Errors. Every function that can fail returns a terse_status; results go through
 * out-parameters, which are written only on TERSE_OK. The library never prints, exits or aborts. */
#ifndef TERSE_STATUS_H
#define TERSE_STATUS_H

#include <stdint.h>

#include <terse/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grouped by what the caller should do. New values are added at the end of a group. */
typedef enum terse_status {
    TERSE_OK = 0,

    /* fix the call: nothing has changed */
    TERSE_BAD_ARGUMENT = -1, /* NULL, zero or out of the documented range */
    TERSE_BAD_SPEC = -2,     /* a codec spec that cannot be read; the fault says where and why */
    TERSE_TOO_SMALL = -3,    /* the buffer handed in is smaller than the documented bound */
    TERSE_NOT_FINITE = -4,   /* NaN or infinity in the numbers handed in */
    TERSE_OUT_OF_RANGE = -5, /* a number that the codec cannot say (e.g. 1e6 in f16) */

    /* drop the bytes: what came in is not what it claims to be */
    TERSE_BAD_FRAME = -20,    /* breaks a rule of the format; the fault says offset and rule */
    TERSE_BAD_VERSION = -21,  /* a format version or codec this library does not know */
    TERSE_BAD_CHECKSUM = -22, /* damaged on the way */
    TERSE_MISMATCH = -23,     /* sound, but made for another layout, codec, range or step */

    /* the machine failed */
    TERSE_NO_MEMORY = -40,
    TERSE_TIMEOUT = -41, /* a worker was not heard of before the timeout; the fault names it */
    TERSE_PEER_LOST =
        -42, /* the group is dead: a worker left or the engine failed; make a new one */

    /* not in this build or on this CPU */
    TERSE_UNSUPPORTED = -60,
} terse_status;

/* Where and why something was refused. Filled in only on failure; every function that takes one
 * accepts NULL. */
typedef struct terse_fault {
    uint64_t offset; /* byte offset in the input (frame, payload or spec text) */
    int32_t rank;    /* the worker to blame, or -1 */
    char text[228];  /* one line, no full stop, e.g. "index stream: 12 ones, 13 expected" */
} terse_fault;

/* A short constant text for a status, never NULL: "not finite", "bad frame", ... */
TERSE_API const char *terse_status_text(terse_status status);

#ifdef __cplusplus
}
#endif
#endif
