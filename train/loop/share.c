#include "loop/share.h"

#include <stdlib.h>
#include <string.h>

#include "common/fault.h"
#include "common/file.h"
#include "files/hash.h"

/* Keyed by subject, step and sender: a record that is sound but of another place is noticed too. */
static trn_check check_of(enum trn_subject subject, uint64_t step, uint32_t rank,
                          const void *record, size_t len)
{
    const uint64_t place[3] = {(uint64_t)subject, step, rank};
    return trn_hash64(record, len - sizeof(trn_check), trn_hash64(place, sizeof place, 0));
}

static terse_status damaged(uint32_t rank, const char *what, terse_fault *fault)
{
    com_note(fault, "rank %u: %s arrived damaged", rank, what);
    if (fault)
        fault->rank = (int32_t)rank;
    return TERSE_BAD_CHECKSUM;
}

terse_status trn_share(terse_group *group, enum trn_subject subject, uint64_t step, void *record,
                       size_t len, void *all, terse_fault *fault)
{
    static const char *const names[] = {
        "the record of its settings", "its verdict about the settings",
        "the record of its step",     "the record of its evaluation",
        "the record of its state",    "the record of its checkpoint",
        "the record of its file",     "the record of its trial"};
    const uint32_t workers = terse_group_workers(group);
    const uint32_t rank = terse_group_rank(group);
    void *at[TERSE_MAX_WORKERS];
    size_t lens[TERSE_MAX_WORKERS];
    const trn_check mine = check_of(subject, step, rank, record, len);
    memcpy((uint8_t *)record + len - sizeof mine, &mine, sizeof mine);
    for (uint32_t r = 0; r < workers; r++) {
        at[r] = (uint8_t *)all + r * len;
        lens[r] = len;
    }
    const terse_status status = terse_group_allgatherv(group, record, len, at, lens, fault);
    for (uint32_t r = 0; r < workers && status == TERSE_OK; r++) {
        const trn_check right = check_of(subject, step, r, at[r], len);
        if (memcmp((uint8_t *)at[r] + len - sizeof right, &right, sizeof right) != 0)
            return damaged(r, names[subject], fault);
    }
    return status;
}

terse_status trn_share_compare(const void *bytes, size_t len, uint64_t hash, uint32_t rank,
                               const char *what, terse_fault *fault)
{
    return trn_hash64(bytes, len, 0) == hash ? TERSE_OK : damaged(rank, what, fault);
}

terse_status trn_share_bytes(terse_group *group, const char *what, void **bytes, uint64_t *len,
                             terse_fault *fault)
{
    struct told {
        uint64_t len;
        uint64_t hash;
        trn_check check;
    } mine = {0};
    const int is_root = terse_group_rank(group) == 0;
    struct told *const all = calloc(terse_group_workers(group), sizeof *all);
    if (!all)
        return com_fail(fault, TERSE_NO_MEMORY, "out of memory");
    if (is_root)
        mine = (struct told){.len = *len, .hash = trn_hash64(*bytes, (size_t)*len, 0)};
    terse_status status = trn_share(group, TRN_SHARE_FILE, 0, &mine, sizeof mine, all, fault);
    const struct told root = all[0];
    free(all);
    void *const received =
        status == TERSE_OK && !is_root && root.len ? malloc((size_t)root.len) : NULL;
    if (status == TERSE_OK && !is_root && root.len && !received)
        status = com_fail(fault, TERSE_NO_MEMORY, "no memory for %s, %llu bytes", what,
                          (unsigned long long)root.len);
    void *const at = is_root ? *bytes : received;
    if (status == TERSE_OK && root.len)
        status = terse_group_broadcast(group, 0, at, (size_t)root.len, fault);
    if (status == TERSE_OK && root.len)
        status = trn_share_compare(at, (size_t)root.len, root.hash, 0, what, fault);
    if (status != TERSE_OK) {
        free(received);
        return status;
    }
    *bytes = at;
    *len = root.len;
    return TERSE_OK;
}

terse_status trn_share_file(terse_group *group, const char *path, terse_status found,
                            const char *what, void **bytes, uint64_t *len, terse_fault *fault)
{
    uint8_t *read_bytes = NULL;
    size_t read = 0;
    terse_fault why = {.rank = -1};
    terse_status status = found;
    if (status == TERSE_OK && (!group || terse_group_rank(group) == 0))
        status = com_file_read(path, &read_bytes, &read, fault);
    *bytes = read_bytes;
    *len = read;
    if (!group)
        return status;
    terse_status shared = trn_share_bytes(group, what, bytes, len, &why);
    if (shared == TERSE_OK && *len == 0)
        shared = com_fail(&why, TERSE_MISMATCH, "rank 0 does not have %s", what);
    if (status == TERSE_OK && shared != TERSE_OK) {
        status = shared;
        *fault = why;
    }
    return status;
}
