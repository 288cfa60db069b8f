/* The ordered all-reduce: a reduce-scatter and an all-gather. Every rank owns a slice, receives
 * everybody's version of it, adds them in rank order and sends the sums to all. A slice goes in
 * segments, so that adding one overlaps the way of others; slices and segments depend on count and
 * workers alone, and the result on neither.
 *
 * Segments travel as they lie. Their checks, keyed by the operation, segment, sender and receiver,
 * follow in one message per phase: a receiver hashes a segment while it is in the cache and
 * compares at the end of the phase. A segment that is damaged is reported once the phase is
 * complete, so that nobody waits for this rank. Between threads of one process nothing is checked.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "group/group.h"
#include "kernels/bind.h"

enum {
    SLICE_STEP = 16,     /* floats */
    SEGMENT = 32 * 1024, /* floats: 128 KiB, what Open MPI sends over TCP in
                          * one piece */
    CHECK_LEN = 8,       /* bytes */
    CHECK_FLOATS = CHECK_LEN / sizeof(float),
};

enum phase { REDUCE_SCATTER, ALLGATHER };

/* What is sent in the first phase may still be under way when the second fills in its own. */
enum check_role { SENT, SENT_SUMS, ARRIVED, COMPUTED, CHECK_ROLES };

/* The smallest multiple of SLICE_STEP of which `parts` hold `count` floats. */
static size_t share_of(size_t count, size_t parts)
{
    const size_t steps = parts * SLICE_STEP;
    return (count / steps + (count % steps != 0)) * SLICE_STEP;
}

/* The slices of all other ranks, and the checks of all. */
size_t terse_group_allreduce_scratch(const terse_group *group, size_t count)
{
    const size_t checks = (size_t)CHECK_ROLES * group->workers * TERSE_ALLREDUCE_SEGMENTS;
    return share_of(count, group->workers) * (group->workers - 1) + checks * CHECK_FLOATS;
}

/* How `count` floats are cut. */
static terse_allreduce cut(const terse_group *group, size_t count)
{
    terse_allreduce all = {.count = count, .slice = share_of(count, group->workers)};
    all.segment = share_of(all.slice, TERSE_ALLREDUCE_SEGMENTS);
    if (all.segment < SEGMENT)
        all.segment = SEGMENT;
    all.segments = (uint32_t)((all.slice + all.segment - 1) / all.segment);
    return all;
}

void tsi_allreduce_reserve(terse_group *group, size_t count)
{
    const terse_allreduce all = cut(group, count);
    const size_t floats = all.slice < all.segment ? all.slice : all.segment;
    const size_t checks = (size_t)all.segments * CHECK_LEN;
    const size_t len = floats * sizeof(float) > checks ? floats * sizeof(float) : checks;
    tsi_group_reserve(group, len * (group->workers - 1));
}

/* ---- where things lie ---- */

/* A segment of rank r's slice: where it begins, and how many floats it has; 0 behind the end. */
struct span {
    size_t first;
    size_t count;
};

static struct span span_of(const terse_allreduce *all, uint32_t r, uint32_t segment)
{
    const size_t within = segment * all->segment;
    const size_t slice_left = all->slice - within;
    const size_t first = r * all->slice + within;
    const size_t left = first < all->count ? all->count - first : 0;
    size_t count = slice_left < all->segment ? slice_left : all->segment;
    if (count > left)
        count = left;
    return (struct span){left ? first : 0, count};
}

/* What rank r sent about a segment of this rank's slice: the slices of all other ranks lie one
 * after the other. */
static float *received_from(const terse_group *group, const terse_allreduce *all, uint32_t r,
                            uint32_t segment)
{
    return all->scratch + (r - (r > group->rank)) * all->slice + segment * all->segment;
}

/* Behind them: by role, rank and segment. */
static uint8_t *check_at(const terse_group *group, const terse_allreduce *all, enum check_role role,
                         uint32_t r, uint32_t segment)
{
    float *const checks = all->scratch + all->slice * (group->workers - 1);
    const size_t of_rank = ((size_t)role * group->workers + r) * TERSE_ALLREDUCE_SEGMENTS;
    return (uint8_t *)(checks + (of_rank + segment) * CHECK_FLOATS);
}

static void compute_check(const terse_group *group, const terse_allreduce *all,
                          enum check_role role, enum phase phase, uint32_t r, uint32_t segment,
                          const float *floats, size_t count)
{
    const uint32_t sender = role == COMPUTED ? r : group->rank;
    const uint32_t receiver = role == COMPUTED ? group->rank : r;
    const uint64_t key[3] = {all->key, (uint64_t)segment << 32 | (uint32_t)phase,
                             (uint64_t)sender << 32 | (phase == ALLGATHER ? 0 : receiver + 1)};
    tsi_store_u64(check_at(group, all, role, r, segment),
                  tsi_hash_keyed(key, sizeof key, floats, count * sizeof *floats));
}

/* ---- messages ---- */

/* One segment to and from every rank: slices where they are reduced, or sums to all. */
static terse_status post_segment(terse_group *group, terse_allreduce *all, enum phase phase,
                                 uint32_t segment, terse_fault *fault)
{
    const struct span mine = span_of(all, group->rank, segment);
    if (!group->in_process && phase == ALLGATHER) /* the same check to all */
        compute_check(group, all, SENT_SUMS, phase, group->rank, segment, all->floats + mine.first,
                      mine.count);
    for (uint32_t r = 0; r < group->workers; r++) {
        const struct span theirs = span_of(all, r, segment);
        const struct span out = phase == REDUCE_SCATTER ? theirs : mine;
        const struct span in = phase == REDUCE_SCATTER ? mine : theirs;
        group->send_len[r] = r == group->rank ? 0 : out.count * sizeof(float);
        group->recv_len[r] = r == group->rank ? 0 : in.count * sizeof(float);
        if (r == group->rank)
            continue;
        group->send_at[r] = all->floats + out.first;
        group->recv_at[r] = phase == REDUCE_SCATTER ? received_from(group, all, r, segment)
                                                    : all->floats + in.first;
        if (!group->in_process && phase == REDUCE_SCATTER)
            compute_check(group, all, SENT, phase, r, segment, all->floats + out.first, out.count);
        else if (!group->in_process)
            memcpy(check_at(group, all, SENT_SUMS, r, segment),
                   check_at(group, all, SENT_SUMS, group->rank, segment), CHECK_LEN);
    }
    return tsi_group_post(group, &all->requests[segment], fault);
}

/* In one process they are zeros: every engine sends as many bytes. */
static terse_status post_checks(terse_group *group, terse_allreduce *all, enum check_role sent,
                                terse_fault *fault)
{
    const size_t len = (size_t)all->segments * CHECK_LEN;
    for (uint32_t r = 0; r < group->workers; r++) {
        group->send_len[r] = group->recv_len[r] = r == group->rank ? 0 : len;
        if (r == group->rank)
            continue;
        group->send_at[r] = check_at(group, all, sent, r, 0);
        group->recv_at[r] = check_at(group, all, ARRIVED, r, 0);
        if (group->in_process)
            memset(check_at(group, all, sent, r, 0), 0, len);
    }
    return tsi_group_post(group, &all->checks, fault);
}

/* Waits for the checks of a phase and compares; the first rank that differs is to blame. */
static terse_status compare_checks(terse_group *group, terse_allreduce *all, terse_fault *fault)
{
    terse_status status = terse_group_wait(group, all->checks, fault);
    for (uint32_t r = 0; r < group->workers && status == TERSE_OK && !group->in_process; r++) {
        if (r == group->rank ||
            memcmp(check_at(group, all, ARRIVED, r, 0), check_at(group, all, COMPUTED, r, 0),
                   (size_t)all->segments * CHECK_LEN) == 0)
            continue;
        status = tsi_fail(fault, TERSE_BAD_CHECKSUM, 0,
                          "rank %u: a segment of its all-reduce arrived damaged", r);
        if (fault)
            fault->rank = (int32_t)r;
    }
    return status;
}

/* ---- arithmetic ---- */

/* Adds one segment tile by tile, and finds the largest magnitude of the sums. The sum starts from
 * what rank 0 sent, in its place, and moves to this rank's own floats when they have been added. */
static void add_segment(const terse_group *group, terse_allreduce *all, uint32_t segment,
                        const struct tsk_table *kernel)
{
    const struct span mine = span_of(all, group->rank, segment);
    for (uint32_t r = 0; r < group->workers && !group->in_process; r++)
        if (r != group->rank)
            compute_check(group, all, COMPUTED, REDUCE_SCATTER, r, segment,
                          received_from(group, all, r, segment), mine.count);
    for (size_t at = 0; at < mine.count; at += TSI_TILE) {
        const size_t left = mine.count - at;
        const size_t count = left < TSI_TILE ? left : TSI_TILE;
        float *const own = all->floats + mine.first + at;
        float *const total = group->rank ? received_from(group, all, 0, segment) + at : own;
        for (uint32_t r = 1; r < group->workers; r++) {
            const float *const next =
                r == group->rank ? own : received_from(group, all, r, segment) + at;
            (void)kernel->add_f32(total, (const uint8_t *)next, count);
        }
        if (total != own)
            memcpy(own, total, count * sizeof *own);
        const uint32_t here = group->workers > 1 ? kernel->magnitude_max_f32(own, count) : 0;
        all->largest = here > all->largest ? here : all->largest;
    }
}

/* ---- in three calls ---- */

terse_status tsi_allreduce_post(terse_group *group, float *floats, size_t count, float *scratch,
                                uint64_t key, terse_allreduce *out, terse_fault *fault)
{
    terse_allreduce all = {.floats = floats, .scratch = scratch, .count = count, .key = key};
    terse_status status = tsi_group_usable(group, NULL, fault);
    if (status != TERSE_OK)
        return status;
    if (!out || (count && !floats) || count > SIZE_MAX / 16 ||
        (count && group->workers > 1 && !scratch))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0,
                        "all-reduce: no floats, no scratch or too many");
    const terse_allreduce shape = cut(group, count);
    all.slice = shape.slice;
    all.segment = shape.segment;
    all.segments = shape.segments;
    if (all.segments + 1 > group->free_count)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "all-reduce: needs %u requests, %u are free",
                        (unsigned)all.segments + 1, (unsigned)group->free_count);
    for (uint32_t i = 0; status == TERSE_OK && i < all.segments; i++)
        status = post_segment(group, &all, REDUCE_SCATTER, i, fault);
    if (status == TERSE_OK)
        status = post_checks(group, &all, SENT, fault);
    if (status == TERSE_OK)
        *out = all;
    return status;
}

terse_status terse_group_allreduce_post(terse_group *group, float *floats, size_t count,
                                        float *scratch, terse_allreduce *out, terse_fault *fault)
{
    const terse_status status = tsi_group_usable(group, NULL, fault);
    if (status != TERSE_OK)
        return status;
    return tsi_allreduce_post(group, floats, count, scratch, ++group->allreduces, out, fault);
}

terse_status tsi_allreduce_arrived(terse_group *group, const terse_allreduce *all, int *arrived,
                                   terse_fault *fault)
{
    terse_status status = TERSE_OK;
    *arrived = 1;
    for (uint32_t i = 0; i < all->segments && *arrived && status == TERSE_OK; i++)
        status = tsi_group_arrived(group, all->requests[i], arrived, fault);
    return *arrived && status == TERSE_OK ? tsi_group_arrived(group, all->checks, arrived, fault)
                                          : status;
}

terse_status terse_group_allreduce_advance(terse_group *group, terse_allreduce *all,
                                           terse_fault *fault)
{
    const struct tsk_table *kernel = NULL;
    terse_status status = all ? tsi_group_usable(group, NULL, fault) : TERSE_BAD_ARGUMENT;
    if (status == TERSE_OK)
        status = tsk_bound(&kernel, fault);
    for (uint32_t i = 0; status == TERSE_OK && i < all->segments; i++) {
        status = terse_group_wait(group, all->requests[i], fault);
        if (status != TERSE_OK)
            break;
        add_segment(group, all, i, kernel);
        status = post_segment(group, all, ALLGATHER, i, fault);
    }
    if (status != TERSE_OK)
        return status;
    const terse_status damaged = compare_checks(group, all, fault);
    if (damaged != TERSE_OK && damaged != TERSE_BAD_CHECKSUM)
        return damaged;
    status = post_checks(group, all, SENT_SUMS, damaged == TERSE_OK ? fault : NULL);
    return status == TERSE_OK ? damaged : status;
}

terse_status terse_group_allreduce_wait(terse_group *group, terse_allreduce *all,
                                        terse_fault *fault)
{
    terse_status status = all ? tsi_group_usable(group, NULL, fault) : TERSE_BAD_ARGUMENT;
    for (uint32_t i = 0; status == TERSE_OK && i < all->segments; i++) {
        status = terse_group_wait(group, all->requests[i], fault);
        for (uint32_t r = 0; r < group->workers && status == TERSE_OK && !group->in_process; r++) {
            const struct span theirs = span_of(all, r, i);
            uint8_t *const check = check_at(group, all, COMPUTED, r, i);
            if (r == group->rank) /* the others compute the same */
                memcpy(check, check_at(group, all, SENT_SUMS, r, i), CHECK_LEN);
            else
                compute_check(group, all, COMPUTED, ALLGATHER, r, i, all->floats + theirs.first,
                              theirs.count);
            all->agreed = (all->agreed ^ tsi_load_u64(check)) * UINT64_C(0x9E3779B97F4A7C15);
        }
    }
    return status == TERSE_OK ? compare_checks(group, all, fault) : status;
}

/* ---- at once ---- */

terse_status terse_group_allreduce(terse_group *group, float *floats, size_t count, float *scratch,
                                   terse_fault *fault)
{
    terse_allreduce all;
    terse_status status = terse_group_allreduce_post(group, floats, count, scratch, &all, fault);
    if (status != TERSE_OK)
        return status;
    const terse_status reduced = terse_group_allreduce_advance(group, &all, fault);
    if (reduced != TERSE_OK && reduced != TERSE_BAD_CHECKSUM)
        return reduced;
    status = terse_group_allreduce_wait(group, &all, reduced == TERSE_OK ? fault : NULL);
    return reduced == TERSE_OK ? status : reduced;
}
