/* Fuzzes the records of a step. A peer sends what this rank sends, with bytes of the input added,
 * and a check that is right: the numbers themselves must be judged. Every status is a public one,
 * and a fault names a rank of the group or none. */
#include <math.h>
#include <string.h>

#include <terse/method.h>

#include "base/hash.h"
#include "fuzz/subject.h"
#include "method/method.h"

enum { WORKERS = 3, COUNT = 40, OPENING_LEN = 32, CLOSING_LEN = 40 };

struct peer {
    const uint8_t *bytes;
    size_t left;
    int in_step;
};

static uint8_t next_byte(struct peer *peer)
{
    if (peer->left == 0)
        return 0;
    peer->left--;
    return *peer->bytes++;
}

/* Every eighth byte of the input says which of the next eight numbers are changed. */
static void change(struct peer *peer, uint64_t *numbers, size_t count)
{
    const uint8_t which = next_byte(peer);
    for (size_t i = 0; i < count; i++)
        for (unsigned bit = 0; bit < 64 && which >> i % 8 & 1; bit += 8)
            numbers[i] ^= (uint64_t)next_byte(peer) << bit;
}

static terse_status post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                         int32_t *rank)
{
    struct peer *const peer = context;
    (void)slot;
    (void)rank;
    for (uint32_t r = 1; r < WORKERS; r++) {
        const size_t len = alltoallv->recv_len[r];
        uint64_t record[TSI_MAX_RECORD];
        if (len == 0)
            continue;
        memset(alltoallv->recv_at[r], 0, len);
        memcpy(alltoallv->recv_at[r], alltoallv->send_at[r],
               len < alltoallv->send_len[r] ? len : alltoallv->send_len[r]);
        if (len % 8 || len > sizeof record || len != alltoallv->send_len[r])
            continue;
        const size_t count = len / 8 - 1;
        const uint64_t key[4] = {!peer->in_step       ? TSI_RECORD_SETTINGS
                                 : len == OPENING_LEN ? TSI_RECORD_OPENING
                                                      : TSI_RECORD_CLOSING,
                                 0, 0, r};
        memcpy(record, alltoallv->recv_at[r], len);
        change(peer, record, count);
        record[count] = tsi_hash_keyed(key, sizeof key, record, count * 8);
        memcpy(alltoallv->recv_at[r], record, len);
    }
    return TERSE_OK;
}

static terse_status test(void *context, uint32_t slot, int *done, int32_t *rank)
{
    (void)context;
    (void)slot;
    (void)rank;
    *done = 1;
    return TERSE_OK;
}

static terse_status wait_for(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    (void)context;
    (void)slot;
    (void)nanoseconds;
    (void)rank;
    return TERSE_OK;
}

static void check(terse_status status, const terse_fault *fault)
{
    FUZZ_CHECK(strcmp(terse_status_text(status), "unknown status") != 0);
    FUZZ_CHECK(status == TERSE_OK || (fault->rank >= -1 && fault->rank < WORKERS));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const terse_group_ops ops = {
        .size = sizeof ops, .post = post, .test = test, .wait = wait_for};
    static const char *const specs[] = {"dense:lr=0.1", "signum:lr=0.1", "topk:keep=0.1,lr=0.1",
                                        "adam"};
    struct peer peer = {bytes, len, 0};
    float weights[COUNT] = {0};
    float gradient[COUNT];
    terse_group *group = NULL;
    terse_layout *layout = NULL;
    terse_method *method = NULL;
    terse_fault fault = {.rank = -1};
    const char *const spec = specs[next_byte(&peer) % 4];
    for (int i = 0; i < COUNT; i++)
        gradient[i] = sinf((float)i);
    FUZZ_CHECK(terse_group_callbacks(&ops, &peer, 0, WORKERS, &group) == TERSE_OK);
    FUZZ_CHECK(terse_layout_vector(COUNT, &layout) == TERSE_OK);
    terse_status status = terse_method_create(spec, group, layout, weights, NULL, &method, &fault);
    check(status, &fault);
    peer.in_step = 1;
    for (int step = 0; step < 3 && status == TERSE_OK; step++) {
        terse_method_report report;
        fault = (terse_fault){.rank = -1};
        status = terse_method_step(method, gradient, &report, &fault);
        check(status, &fault);
    }
    terse_method_destroy(method);
    terse_layout_destroy(layout);
    terse_group_destroy(group);
    return 0;
}
