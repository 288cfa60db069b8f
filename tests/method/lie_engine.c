#include "method/lie_engine.h"

const char *const lie_names[LIES] = {"flipped",      "zeroed", "replayed", "truncated",
                                     "impersonated", "random", "extreme",  "lost"};

/* An offset and a length within `len` bytes, at least one byte. */
static size_t some_of(struct engine *engine, size_t len, size_t *first)
{
    *first = (size_t)(test_next(&engine->random) % len);
    return 1 + (size_t)(test_next(&engine->random) % (len - *first));
}

static void tell_random(struct engine *engine, unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)test_next(&engine->random);
}

static void tell_extreme(struct engine *engine, unsigned char *bytes, size_t len)
{
    static const uint64_t ends[] = {0,
                                    1,
                                    255,
                                    UINT64_C(1) << 31,
                                    UINT32_MAX,
                                    UINT64_C(1) << 32,
                                    UINT64_C(0x80000000) << 32,
                                    UINT64_C(1) << 40,
                                    INT64_MAX,
                                    UINT64_C(1) << 63,
                                    UINT64_MAX - 7,
                                    UINT64_MAX};
    const uint64_t number = ends[test_next(&engine->random) % (sizeof ends / sizeof ends[0])];
    const size_t width = len >= 8 && test_next(&engine->random) % 2 ? 8 : len < 4 ? len : 4;
    const size_t at = (size_t)(test_next(&engine->random) % (len / width)) * width;
    memcpy(bytes + at, &number, width);
}

/* The bytes of the next sender with the same length, else those that the receiver itself sent, else
 * random ones. */
static void tell_another(struct engine *engine, const struct slot *slot, unsigned char *bytes,
                         size_t len)
{
    const uint32_t sender = engine->target->sender;
    for (uint32_t i = 1; i < engine->ranks; i++) {
        const uint32_t other = (sender + i) % engine->ranks;
        if (other != engine->rank && slot->received_len[other] == len) {
            memcpy(bytes, slot->received[other], len);
            return;
        }
    }
    if (slot->sent_len[sender] == len)
        memcpy(bytes, slot->sent[sender], len);
    else
        tell_random(engine, bytes, len);
}

static void lie_about(struct engine *engine, const struct slot *slot, unsigned char *bytes,
                      size_t len)
{
    size_t first = 0;
    size_t some;
    switch (engine->lie) {
    case FLIPPED:
        first = (size_t)(test_next(&engine->random) % len);
        bytes[first] ^= (unsigned char)(1u << test_next(&engine->random) % 8);
        break;
    case ZEROED:
        some = some_of(engine, len, &first);
        memset(bytes + first, 0, some);
        break;
    case REPLAYED: memcpy(bytes, engine->kept, len); break;
    case TRUNCATED:
        (void)some_of(engine, len, &first);
        memset(bytes + first, 0, len - first);
        break;
    case IMPERSONATED: tell_another(engine, slot, bytes, len); break;
    case RANDOM: tell_random(engine, bytes, len); break;
    case EXTREME: tell_extreme(engine, bytes, len); break;
    case LOST:
    case LIES: memset(bytes, 0xA5, len); break;
    }
}

/* The bytes of a collective have arrived in the receiver's buffers; or they are lost, by *rank. */
static terse_status arrived(struct engine *engine, const struct slot *slot, int32_t *rank)
{
    const struct message *const target = engine->target;
    const struct message *const source = engine->source;
    if (source && slot->post == source->post) {
        engine->kept = test_alloc(source->len);
        memcpy(engine->kept, slot->received[source->sender], source->len);
    }
    if (!target || slot->post != target->post || slot->received_len[target->sender] != target->len)
        return TERSE_OK;
    unsigned char *const bytes = slot->received[target->sender];
    unsigned char *const honest = test_alloc(target->len);
    memcpy(honest, bytes, target->len);
    engine->passed = 1;
    if (engine->lie != REPLAYED || engine->kept)
        lie_about(engine, slot, bytes, target->len);
    engine->changed = engine->lie == LOST || memcmp(honest, bytes, target->len) != 0;
    free(honest);
    *rank = engine->lie == LOST ? (int32_t)target->sender : *rank;
    return engine->lie == LOST ? TERSE_PEER_LOST : TERSE_OK;
}

static void record(struct engine *engine, const terse_alltoallv *alltoallv)
{
    for (uint32_t s = 0; s < engine->ranks; s++)
        if (s != engine->rank && alltoallv->recv_len[s] > 0 &&
            engine->seen_count < LIE_MAX_MESSAGES)
            engine->seen[engine->seen_count++] = (struct message){.receiver = engine->rank,
                                                                  .sender = s,
                                                                  .post = engine->posts,
                                                                  .position = engine->position,
                                                                  .step = engine->step,
                                                                  .len = alltoallv->recv_len[s]};
}

static terse_status post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                         int32_t *rank)
{
    struct engine *const engine = context;
    struct slot *const kept = &engine->slot[slot];
    terse_fault fault = {.rank = -1};
    for (uint32_t r = 0; r < engine->ranks; r++) {
        kept->received[r] = alltoallv->recv_at[r];
        kept->received_len[r] = alltoallv->recv_len[r];
        kept->sent[r] = alltoallv->send_at[r];
        kept->sent_len[r] = alltoallv->send_len[r];
    }
    if (engine->seen)
        record(engine, alltoallv);
    kept->post = engine->posts++;
    engine->position++;
    const terse_status status =
        terse_group_post_alltoallv(engine->inner, alltoallv, &kept->request, &fault);
    *rank = fault.rank;
    return status;
}

static terse_status test(void *context, uint32_t slot, int *done, int32_t *rank)
{
    struct engine *const engine = context;
    terse_fault fault = {.rank = -1};
    terse_status status = terse_group_test(engine->inner, engine->slot[slot].request, done, &fault);
    if (status == TERSE_OK && *done)
        status = arrived(engine, &engine->slot[slot], &fault.rank);
    *rank = fault.rank;
    return status;
}

/* The inner group has a timeout of its own. */
static terse_status wait_for(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    struct engine *const engine = context;
    terse_fault fault = {.rank = -1};
    (void)nanoseconds;
    terse_status status = terse_group_wait(engine->inner, engine->slot[slot].request, &fault);
    if (status == TERSE_OK)
        status = arrived(engine, &engine->slot[slot], &fault.rank);
    *rank = fault.rank;
    return status;
}

const terse_group_ops lie_ops = {
    .size = sizeof lie_ops, .post = post, .test = test, .wait = wait_for};
