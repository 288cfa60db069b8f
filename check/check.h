/* The promises of a codec (include/terse/codec.h) as checks that need the installed headers alone:
 * `terse check codec` runs them on anybody's codec, tests/conform on every codec of the library. */
#ifndef CHK_CHECK_H
#define CHK_CHECK_H

#include <stdint.h>

#include <terse/codec.h>

enum chk_verdict {
    CHK_HOLDS,
    CHK_BROKEN,
    CHK_NOT_CLAIMED, /* the codec has not the trait that promises it */
};

/* What one check found. */
struct chk_finding {
    const char *promise; /* a word: "conservation" */
    const char *meaning; /* what is promised, one line */
    enum chk_verdict verdict;
    char text[400]; /* CHK_BROKEN: which input broke it, and how; else "" */
};

struct chk_settings {
    const char *spec;
    uint64_t seed;  /* of the inputs and of the codec's random key */
    uint64_t large; /* elements of the largest tensor, at least 1 */
};

typedef void chk_watch(void *context, const struct chk_finding *finding);

/* Runs every check, tells `watch` what each found, and writes how many promises are broken. A codec
 * whose lengths are wrong is checked no further. The kernel set in use is the default one
 * afterwards. TERSE_BAD_SPEC, TERSE_NO_MEMORY: nothing was checked. */
TERSE_CHECK terse_status chk_codec(const struct chk_settings *settings, chk_watch *watch,
                                   void *context, uint32_t *broken, terse_fault *fault);

#endif
