/* The ordered sum: every rank owns a slice, hears everybody's version of it, adds them in rank
 * order and says the sums to all. A slice goes in segments, so that adding one overlaps the way of
 * others; slices and segments depend on count and workers alone, and the result on neither. */
#include <string.h>

#include "base/fault.h"
#include "base/parallel.h"
#include "group/group.h"
#include "kernels/bind.h"

enum {
    SLICE_STEP = 16,     /* floats */
    SEGMENT = 32 * 1024, /* floats: 128 KiB, what Open MPI sends over TCP in one piece */
    WINDOW = 8,          /* segments on their way to be added, and as many sums on their way back */
};

static size_t round_up(size_t count)
{
    return (count + SLICE_STEP - 1) / SLICE_STEP * SLICE_STEP;
}

static size_t divide_up(size_t count, size_t parts)
{
    return count / parts + (count % parts != 0);
}

static size_t slice_of(const terse_group *group, size_t count)
{
    return round_up(divide_up(count, group->workers));
}

size_t terse_group_allreduce_scratch(const terse_group *group, size_t count)
{
    return slice_of(group, count) * (group->workers - 1);
}

/* Where the segment of rank r's slice begins, and how many floats it has; 0 behind the end. */
struct span {
    size_t first;
    size_t count;
};

static struct span span_of(const terse_allreduce *sum, uint32_t r, uint32_t segment)
{
    const size_t within = segment * sum->segment;
    const size_t slice_left = sum->slice - within;
    const size_t first = r * sum->slice + within;
    const size_t left = first < sum->count ? sum->count - first : 0;
    size_t count = slice_left < sum->segment ? slice_left : sum->segment;
    if (count > left)
        count = left;
    return (struct span){left ? first : 0, count};
}

/* What rank r said about this rank's slice; nothing is kept for this rank itself. */
static float *heard_from(const terse_group *group, const terse_allreduce *sum, uint32_t r,
                         uint32_t segment)
{
    const size_t row = r < group->rank ? r : r - 1;
    return sum->scratch + row * sum->slice + segment * sum->segment;
}

static terse_status post_slices(terse_group *group, const terse_allreduce *sum, uint32_t segment,
                                terse_request *out, terse_fault *fault)
{
    const struct span mine = span_of(sum, group->rank, segment);
    tsi_group_clear(group);
    for (uint32_t r = 0; r < group->workers; r++) {
        const struct span theirs = span_of(sum, r, segment);
        if (r == group->rank)
            continue;
        group->send_at[r] = sum->floats + theirs.first;
        group->send_len[r] = theirs.count * sizeof(float);
        group->recv_at[r] = heard_from(group, sum, r, segment);
        group->recv_len[r] = mine.count * sizeof(float);
    }
    return tsi_group_post(group, out, fault);
}

static terse_status post_sums(terse_group *group, const terse_allreduce *sum, uint32_t segment,
                              terse_request *out, terse_fault *fault)
{
    const struct span mine = span_of(sum, group->rank, segment);
    tsi_group_clear(group);
    for (uint32_t r = 0; r < group->workers; r++) {
        const struct span theirs = span_of(sum, r, segment);
        if (r == group->rank)
            continue;
        group->send_at[r] = sum->floats + mine.first;
        group->send_len[r] = mine.count * sizeof(float);
        group->recv_at[r] = sum->floats + theirs.first;
        group->recv_len[r] = theirs.count * sizeof(float);
    }
    return tsi_group_post(group, out, fault);
}

/* Adds one segment tile by tile. The sum starts from what rank 0 said, in rank 0's place, and
 * moves to this rank's own floats when they have been added. */
static void add_segment(const terse_group *group, const terse_allreduce *sum, uint32_t segment,
                        const struct tsk_table *kernels)
{
    const struct span mine = span_of(sum, group->rank, segment);
    for (size_t at = 0; at < mine.count; at += TSI_TILE) {
        const size_t left = mine.count - at;
        const size_t count = left < TSI_TILE ? left : TSI_TILE;
        float *const own = sum->floats + mine.first + at;
        float *const total = group->rank ? heard_from(group, sum, 0, segment) + at : own;
        for (uint32_t r = 1; r < group->workers; r++) {
            const float *const next =
                r == group->rank ? own : heard_from(group, sum, r, segment) + at;
            (void)kernels->add_f32(total, (const uint8_t *)next, count);
        }
        if (total != own)
            memcpy(own, total, count * sizeof *own);
    }
}

/* Waits for a segment, adds it and says its sum. */
static terse_status turn_segment(terse_group *group, const terse_allreduce *sum, uint32_t segment,
                                 terse_request *request, terse_fault *fault)
{
    const struct tsk_table *kernels = NULL;
    terse_status status = tsk_bound(&kernels, fault);
    if (!status)
        status = terse_group_wait(group, *request, fault);
    if (status)
        return status;
    add_segment(group, sum, segment, kernels);
    return post_sums(group, sum, segment, request, fault);
}

static terse_status divide(const terse_group *group, float *floats, size_t count, float *scratch,
                           uint32_t most_segments, terse_allreduce *out, terse_fault *fault)
{
    const terse_status status = tsi_group_alive(group, fault);
    if (status)
        return status;
    if ((count && !floats) || count > SIZE_MAX / 16 || (count && group->workers > 1 && !scratch))
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "sum: no floats, no scratch or too many");
    out->floats = floats;
    out->scratch = scratch;
    out->count = count;
    out->slice = slice_of(group, count);
    out->segment = round_up(divide_up(out->slice, most_segments));
    if (out->segment < SEGMENT)
        out->segment = SEGMENT;
    out->segments = (uint32_t)divide_up(out->slice, out->segment);
    return TERSE_OK;
}

static terse_status check_free(const terse_group *group, uint32_t needed, terse_fault *fault)
{
    if (needed <= group->free_count)
        return TERSE_OK;
    return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "sum: needs %u requests, %u are free",
                    (unsigned)needed, (unsigned)group->free_count);
}

/* ---- in three calls: all segments at once ---- */

terse_status terse_group_allreduce_post(terse_group *group, float *floats, size_t count,
                                        float *scratch, terse_allreduce *out, terse_fault *fault)
{
    terse_allreduce sum = {0};
    terse_status status = out ? TERSE_OK : TERSE_BAD_ARGUMENT;
    if (!status)
        status = divide(group, floats, count, scratch, TERSE_ALLREDUCE_SEGMENTS, &sum, fault);
    if (!status)
        status = check_free(group, sum.segments, fault);
    for (uint32_t i = 0; !status && i < sum.segments; i++)
        status = post_slices(group, &sum, i, &sum.requests[i], fault);
    if (!status)
        *out = sum;
    return status;
}

terse_status terse_group_allreduce_advance(terse_group *group, terse_allreduce *sum,
                                           terse_fault *fault)
{
    terse_status status = sum ? tsi_group_alive(group, fault) : TERSE_BAD_ARGUMENT;
    for (uint32_t i = 0; !status && i < sum->segments; i++)
        status = turn_segment(group, sum, i, &sum->requests[i], fault);
    return status;
}

terse_status terse_group_allreduce_wait(terse_group *group, terse_allreduce *sum,
                                        terse_fault *fault)
{
    terse_status status = sum ? tsi_group_alive(group, fault) : TERSE_BAD_ARGUMENT;
    for (uint32_t i = 0; !status && i < sum->segments; i++)
        status = terse_group_wait(group, sum->requests[i], fault);
    return status;
}

/* ---- at once: a window of segments, so that they arrive one after the other ---- */

/* At time i segment i leaves, segment i - WINDOW is added and its sum leaves, and the sum of
 * segment i - 2 WINDOW has arrived. */
terse_status terse_group_allreduce(terse_group *group, float *floats, size_t count, float *scratch,
                                   terse_fault *fault)
{
    terse_allreduce sum = {0};
    terse_request requests[2 * WINDOW];
    terse_status status = divide(group, floats, count, scratch, UINT32_MAX, &sum, fault);
    if (!status)
        status = check_free(group, sum.segments < 2 * WINDOW ? sum.segments : 2 * WINDOW, fault);
    const uint64_t segments = status ? 0 : sum.segments;
    for (uint64_t i = 0; !status && i < segments + 2 * WINDOW; i++) {
        terse_request *const request = &requests[i % (2 * WINDOW)];
        const uint64_t turned = i - WINDOW; /* huge before its time */
        if (i >= 2 * WINDOW && i - 2 * WINDOW < segments)
            status = terse_group_wait(group, *request, fault);
        if (!status && i < segments)
            status = post_slices(group, &sum, (uint32_t)i, request, fault);
        if (!status && turned < segments)
            status = turn_segment(group, &sum, (uint32_t)turned, &requests[turned % (2 * WINDOW)],
                                  fault);
    }
    return status;
}
