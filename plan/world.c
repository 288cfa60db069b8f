/* The engine of a recording: an all-to-all is done when every rank has posted it. It delivers the
 * real bytes, so checks, sums and lengths are those of a real step. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "record.h"

/* An all-to-all under way: the arrays of rank r begin at r * workers. */
struct pln_alltoall {
    uint32_t posted;
    const void **send_at;
    size_t *send_len;
    void **recv_at;
    size_t *recv_len;
};

terse_status pln_world_create(struct pln_world *world, uint32_t workers, uint32_t at_once)
{
    *world =
        (struct pln_world){.workers = workers, .at_once = at_once > 1 ? at_once : 1, .left = -1};
    world->under_way = calloc(TERSE_MAX_REQUESTS, sizeof *world->under_way);
    if (!world->under_way)
        return TERSE_NO_MEMORY;
    (void)pthread_mutex_init(&world->lock, NULL);
    (void)pthread_cond_init(&world->changed, NULL);
    return TERSE_OK;
}

void pln_world_destroy(struct pln_world *world)
{
    if (!world->under_way)
        return;
    for (uint32_t i = 0; i < TERSE_MAX_REQUESTS; i++) {
        free(world->under_way[i].send_at);
        free(world->under_way[i].send_len);
        free(world->under_way[i].recv_at);
        free(world->under_way[i].recv_len);
    }
    free(world->under_way);
    (void)pthread_mutex_destroy(&world->lock);
    (void)pthread_cond_destroy(&world->changed);
}

/* ---- notes ---- */

static double cpu_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void note(struct pln_member *member, struct pln_event event)
{
    struct pln_rank *const notes = member->notes;
    if (!notes)
        return;
    if (notes->count == notes->cap) {
        const size_t cap = 2 * notes->cap + 32;
        struct pln_event *const more = realloc(notes->event, cap * sizeof *more);
        member->no_memory |= !more;
        if (!more)
            return;
        notes->event = more;
        notes->cap = cap;
    }
    notes->event[notes->count++] = event;
}

static void note_cpu(struct pln_member *member)
{
    note(member, (struct pln_event){.kind = PLN_CPU, .amount = cpu_seconds() - member->since});
}

void pln_member_note(struct pln_member *member, struct pln_rank *notes)
{
    note_cpu(member);
    member->notes = notes;
    member->first = member->posted;
    member->since = cpu_seconds();
}

void pln_member_compute(struct pln_member *member, double share)
{
    note_cpu(member);
    note(member, (struct pln_event){.kind = PLN_COMPUTE, .amount = share});
    member->since = cpu_seconds();
}

/* ---- the engine ---- */

/* Both with the lock. */
static void begin_work(struct pln_world *world)
{
    while (world->working == world->at_once)
        (void)pthread_cond_wait(&world->changed, &world->lock);
    world->working++;
}

static void end_work(struct pln_world *world)
{
    world->working--;
    (void)pthread_cond_broadcast(&world->changed);
}

static int make_arrays(struct pln_alltoall *all, size_t workers)
{
    const size_t count = workers * workers;
    if (!all->send_at) {
        all->send_at = calloc(count, sizeof *all->send_at);
        all->send_len = calloc(count, sizeof *all->send_len);
        all->recv_at = calloc(count, sizeof *all->recv_at);
        all->recv_len = calloc(count, sizeof *all->recv_len);
    }
    return all->send_at && all->send_len && all->recv_at && all->recv_len;
}

/* TERSE_MISMATCH where sender and receiver expect other lengths: *rank is the sender. */
static terse_status deliver(const struct pln_alltoall *all, size_t workers, int32_t *rank)
{
    for (size_t from = 0; from < workers; from++)
        for (size_t to = 0; to < workers; to++) {
            const size_t sent = from * workers + to;
            const size_t received = to * workers + from;
            *rank = (int32_t)from;
            if (all->send_len[sent] != all->recv_len[received])
                return TERSE_MISMATCH;
            if (all->send_len[sent] > 0)
                memcpy(all->recv_at[received], all->send_at[sent], all->send_len[sent]);
        }
    *rank = -1;
    return TERSE_OK;
}

/* With the lock. */
static terse_status post_locked(struct pln_member *member, uint32_t slot,
                                const terse_alltoallv *alltoallv, int32_t *rank)
{
    struct pln_world *const world = member->world;
    const size_t workers = world->workers;
    const size_t at = member->rank * workers;
    struct pln_alltoall *const all = &world->under_way[member->posted % TERSE_MAX_REQUESTS];
    struct pln_event event = {.kind = PLN_POST,
                              .operation = (uint32_t)(member->posted - member->first)};
    terse_status status = TERSE_OK;
    if (!make_arrays(all, workers))
        return TERSE_NO_MEMORY;
    memcpy(all->send_at + at, alltoallv->send_at, workers * sizeof *all->send_at);
    memcpy(all->send_len + at, alltoallv->send_len, workers * sizeof *all->send_len);
    memcpy(all->recv_at + at, alltoallv->recv_at, workers * sizeof *all->recv_at);
    memcpy(all->recv_len + at, alltoallv->recv_len, workers * sizeof *all->recv_len);
    for (size_t r = 0; r < workers; r++) {
        event.sent += (double)alltoallv->send_len[r];
        event.received += (double)alltoallv->recv_len[r];
    }
    note(member, event);
    member->of_slot[slot] = member->posted++;
    if (++all->posted == workers) {
        all->posted = 0;
        status = deliver(all, workers, rank);
        world->done++;
        (void)pthread_cond_broadcast(&world->changed);
    }
    return status;
}

static terse_status post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                         int32_t *rank)
{
    struct pln_member *const member = context;
    note_cpu(member);
    (void)pthread_mutex_lock(&member->world->lock);
    const terse_status status = post_locked(member, slot, alltoallv, rank);
    (void)pthread_mutex_unlock(&member->world->lock);
    member->since = cpu_seconds();
    return status;
}

static terse_status wait(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    struct pln_member *const member = context;
    struct pln_world *const world = member->world;
    const uint64_t number = member->of_slot[slot];
    (void)nanoseconds; /* nobody is late in one process, and whoever fails says so */
    note_cpu(member);
    (void)pthread_mutex_lock(&world->lock);
    if (world->done <= number && world->left < 0) {
        end_work(world);
        while (world->done <= number && world->left < 0)
            (void)pthread_cond_wait(&world->changed, &world->lock);
        begin_work(world);
    }
    const terse_status status = world->done > number ? TERSE_OK : TERSE_PEER_LOST;
    *rank = world->left;
    (void)pthread_mutex_unlock(&world->lock);
    note(member,
         (struct pln_event){.kind = PLN_WAIT, .operation = (uint32_t)(number - member->first)});
    member->since = cpu_seconds();
    return status;
}

/* During the backward pass a step only looks whether something has arrived, and computes on where
 * nothing has. That depends on the link, but the order of messages does not (terse_method_post). So
 * here it waits, and the simulation, which has a link, computes on. */
static terse_status test(void *context, uint32_t slot, int *done, int32_t *rank)
{
    struct pln_member *const member = context;
    (void)pthread_mutex_lock(&member->world->lock);
    const int arrived = member->world->done > member->of_slot[slot];
    (void)pthread_mutex_unlock(&member->world->lock);
    *done = !member->opening && (member->backward || arrived);
    return *done ? wait(context, slot, 0, rank) : TERSE_OK;
}

/* ---- ranks ---- */

terse_status pln_member_enter(struct pln_member *member, terse_group **out)
{
    static const terse_group_ops ops = {
        .size = sizeof ops, .post = post, .test = test, .wait = wait};
    (void)pthread_mutex_lock(&member->world->lock);
    begin_work(member->world);
    (void)pthread_mutex_unlock(&member->world->lock);
    member->since = cpu_seconds();
    return terse_group_callbacks(&ops, member, member->rank, member->world->workers, out);
}

void pln_member_leave(struct pln_member *member, int failed)
{
    (void)pthread_mutex_lock(&member->world->lock);
    if (failed)
        member->world->left = (int32_t)member->rank;
    end_work(member->world);
    (void)pthread_mutex_unlock(&member->world->lock);
}
