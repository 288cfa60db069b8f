/* The list of codecs. A new codec is one file, one line here and one section of
 * docs/wire-format.md; a user's codec is registered (user.c). */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/fault.h"
#include "codec/codec.h"

#define MOST_OF_USERS ((size_t)64) /* as many as private wire ids */

static const struct terse_codec_ops *const built_in[] = {
    &tsi_codec_f32,         /* f32.c */
    &tsi_codec_f16,         /* half.c */
    &tsi_codec_bf16,        /* half.c */
    &tsi_codec_sign,        /* sign.c */
    &tsi_codec_scaled_sign, /* sign.c */
    &tsi_codec_topk,        /* topk.c */
    &tsi_codec_block,       /* block.c */
    &tsi_codec_log,         /* log.c */
    &tsi_codec_uniform,     /* uniform.c */
    &tsi_codec_nearest,     /* nearest.c */
    &tsi_codec_natural,     /* natural.c */
    &tsi_codec_low_rank,    /* low_rank.c */
};

/* Written by one thread at a time, and never again: who sees the count sees the entries. */
static const struct terse_codec_ops *of_users[MOST_OF_USERS];
static atomic_size_t users;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

const struct terse_codec_ops *tsi_codec_at(size_t index)
{
    const size_t count = sizeof built_in / sizeof built_in[0];
    if (index < count)
        return built_in[index];
    return index - count < atomic_load(&users) ? of_users[index - count] : NULL;
}

/* Why no other codec of this name and wire id may be there; NULL: none is. */
static const char *is_taken(const struct terse_codec_ops *ops)
{
    const struct terse_codec_ops *other;
    for (size_t i = 0; (other = tsi_codec_at(i)) != NULL; i++) {
        if (strcmp(other->name, ops->name) == 0)
            return "there is a codec of this name";
        if (other->wire_id == ops->wire_id)
            return "there is a codec with this wire id";
    }
    return NULL;
}

terse_status tsi_codec_add(const struct terse_codec_ops *ops, terse_fault *fault)
{
    terse_status status = TERSE_OK;
    (void)pthread_mutex_lock(&adding);
    const size_t count = atomic_load(&users);
    const char *const taken = is_taken(ops);
    if (taken) {
        status = tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "codec '%s' (wire id %u): %s", ops->name,
                          ops->wire_id, taken);
    } else if (count == MOST_OF_USERS) {
        status = tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                          "codec '%s': %zu are registered, no more "
                          "are possible",
                          ops->name, count);
    } else {
        of_users[count] = ops;
        atomic_store(&users, count + 1);
    }
    (void)pthread_mutex_unlock(&adding);
    return status;
}
