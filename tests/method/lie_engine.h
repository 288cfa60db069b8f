/* An engine that lies once: it transports the messages of a group of threads and changes one of
 * them for one receiver. */
#ifndef TEST_METHOD_LIE_ENGINE_H
#define TEST_METHOD_LIE_ENGINE_H

#include "support/support.h"

enum { LIE_MAX_RANKS = 5, LIE_MAX_MESSAGES = 4096 };

/* A message as its receiver counts it: the same in every run up to the first lie. */
struct message {
    uint32_t receiver;
    uint32_t sender;
    uint32_t post;     /* the number of the collective on the receiver, from 0 */
    uint32_t position; /* its number within the step */
    int32_t step;      /* -1: while the method is created */
    size_t len;
};

enum lie {
    FLIPPED,      /* one bit */
    ZEROED,       /* some adjacent bytes */
    REPLAYED,     /* the message of an earlier step with the same length */
    TRUNCATED,    /* the tail is zero */
    IMPERSONATED, /* another sender's bytes of the same collective; or the receiver's own */
    RANDOM,
    EXTREME, /* a number of a small record is at the end of its range */
    LOST,    /* it never arrives: the receiver's group tells that the sender is lost */
    LIES
};
extern const char *const lie_names[LIES];

struct slot {
    terse_request request;
    uint32_t post;
    void *received[LIE_MAX_RANKS];
    size_t received_len[LIE_MAX_RANKS];
    const void *sent[LIE_MAX_RANKS];
    size_t sent_len[LIE_MAX_RANKS];
};

struct engine {
    terse_group *inner; /* of threads, honest */
    uint32_t rank;
    uint32_t ranks;
    int32_t step;      /* set by the rank before each step, */
    uint32_t position; /* and this to 0 */
    uint32_t posts;
    struct slot slot[TERSE_MAX_REQUESTS];
    /* filled by an honest run unless NULL */
    struct message *seen;
    uint32_t seen_count;
    /* for a lying run */
    const struct message *target; /* NULL: nothing, or another rank receives it */
    const struct message *source; /* the message that REPLAYED copies */
    enum lie lie;
    struct test_random random;
    void *kept;  /* the bytes of `source` */
    int passed;  /* the message has passed */
    int changed; /* and its bytes were others than the honest ones */
};

/* The functions of terse_group_callbacks; the context is a struct engine. */
extern const terse_group_ops lie_ops;

#endif
