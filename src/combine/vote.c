/* vote: the majority of the workers' signs, one bit both ways (Bernstein et al., ICLR 2019). Every
 * rank counts the votes for its slice. Bits are counted as they came, sixty-four side by side,
 * never unpacked, and the aggregate stays in bits. 2(K-1)/K payloads per worker. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "codec/section.h"
#include "combine/combine.h"

#define WORDS 64u  /* counted at a time */
#define PLANES 13u /* bits of a count: up to TERSE_MAX_WORKERS votes */
#define COINS_PER_DRAW 32u

/* ---- counting ---- */

/* Majorities of `len` bytes (at most WORDS * 8) at `at` of every ballot, and where there are ties.
 * Counters lie in planes: plane p holds bit p of every count. */
static void decide(const uint8_t *const *ballot, uint32_t votes, size_t at, size_t len,
                   uint8_t *majority, uint8_t *tied)
{
    uint64_t plane[PLANES][WORDS];
    uint64_t carry[WORDS];
    uint64_t above[WORDS];
    uint64_t equal[WORDS];
    unsigned planes = 1;
    while (votes >> planes)
        planes++;
    memset(plane, 0, planes * sizeof plane[0]);
    for (uint32_t r = 0; r < votes; r++) {
        if (len < sizeof carry)
            memset(carry, 0, sizeof carry);
        memcpy(carry, ballot[r] + at, len);
        for (unsigned p = 0; p < planes; p++) /* a ripple of half adders */
            for (size_t i = 0; i < WORDS; i++) {
                const uint64_t sum = plane[p][i] ^ carry[i];
                carry[i] &= plane[p][i];
                plane[p][i] = sum;
            }
    }
    for (size_t i = 0; i < WORDS; i++) { /* compared with half of the votes */
        above[i] = 0;
        equal[i] = ~UINT64_C(0);
        for (unsigned p = planes; p-- > 0;) {
            const uint64_t bit = votes / 2 >> p & 1u ? ~UINT64_C(0) : 0;
            above[i] |= equal[i] & plane[p][i] & ~bit;
            equal[i] &= ~(plane[p][i] ^ bit);
        }
    }
    memcpy(majority, above, len);
    if (votes % 2 != 0)
        memset(equal, 0, sizeof equal);
    memcpy(tied, equal, len);
}

/* A tied element is negative where its coin says so. The bits behind the last element of a piece
 * are cleared: an even split of nothing is no tie. */
static void settle_ties(const struct tsi_bucket *bucket, const uint8_t *tied, uint8_t *bits)
{
    const struct tsi_collective *const in = bucket->in;
    const struct tsi_pieces mine = bucket->owned[in->rank];
    for (uint32_t i = mine.first; i < mine.first + mine.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        const struct tsk_stream stream = tsi_stream(&in->key, TSI_RANDOM_TIE, piece->tensor);
        const size_t len = (piece->count + 7) / 8;
        uint32_t coins[TSK_RANDOM_GROUP];
        const uint8_t *const coin = (const uint8_t *)coins;
        for (size_t at = 0; in->owner.tie_coin && at < len; at += sizeof coins) {
            const uint64_t first = (piece->first + 8 * (uint64_t)at) / COINS_PER_DRAW;
            in->kernel->random_u32(&stream, first, TSK_RANDOM_GROUP, coins);
            for (size_t b = 0; b < len - at && b < sizeof coins; b++)
                bits[at + b] |= tied[at + b] & coin[b];
        }
        if (piece->count % 8 != 0)
            bits[piece->count / 8] &= (uint8_t)((1u << piece->count % 8) - 1);
        tied += len;
        bits += len;
    }
}

/* ---- the combine ---- */

struct vote {
    uint8_t *tied;          /* bits of this rank's pieces: no majority there */
    const uint8_t **ballot; /* by rank: the bits it sent about them */
};

static const char *refuses(const terse_codec_about *codec)
{
    if (codec->traits & TERSE_CODEC_TERNARY)
        return "a vote has two sides, and zero=keep a third: use shard";
    return strcmp(codec->name, "sign") == 0 ? NULL : "only signs can be voted on";
}

static terse_status create(struct tsi_bucket *bucket)
{
    struct vote *const vote = calloc(1, sizeof *vote);
    bucket->private = vote;
    if (!vote)
        return TERSE_NO_MEMORY;
    vote->tied = malloc(tsi_codec_bound(bucket->codec, 0, bucket->owned[bucket->in->rank]) + 1);
    vote->ballot = calloc(bucket->in->workers, sizeof *vote->ballot);
    if (!vote->tied || !vote->ballot ||
        !tsi_aggregate_create(&bucket->aggregate, bucket->codec->piece_count))
        return TERSE_NO_MEMORY;
    return tsi_create_for_owners(bucket);
}

static void destroy(struct tsi_bucket *bucket)
{
    struct vote *const vote = bucket->private;
    free(vote->tied);
    free(vote->ballot);
}

/* The bits of a part that was received: as many as its pieces need. NULL if there is none, or the
 * bucket fails. */
static const uint8_t *open_bits(struct tsi_bucket *bucket, const struct tsi_messages *messages,
                                uint32_t sender)
{
    terse_fault fault;
    struct tsi_opened part;
    if (!tsi_open_part(bucket, messages, sender, &part))
        return NULL;
    const size_t expected = tsi_codec_bound(bucket->codec, 0, part.pieces);
    if (part.len == expected)
        return part.payload;
    (void)tsi_bucket_fail(
        bucket,
        tsi_fail(&fault, TERSE_BAD_FRAME, 0, "%zu bytes of votes, not %zu", part.len, expected),
        (int32_t)sender, &fault);
    return NULL;
}

/* As an owner: counts the votes and sends the majority to all. */
static terse_status count(struct tsi_bucket *bucket)
{
    struct tsi_collective *const in = bucket->in;
    struct vote *const vote = bucket->private;
    const size_t len = tsi_codec_bound(bucket->codec, 0, bucket->owned[in->rank]);
    uint8_t *const bits = (uint8_t *)bucket->back.send_at[in->rank] + TSI_PART_PAYLOAD_AT;
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < in->workers; r++)
        vote->ballot[r] = open_bits(bucket, &bucket->there, r);
    uint64_t from = tsi_now();
    for (size_t at = 0; at < len && bucket->status == TERSE_OK; at += WORDS * 8) {
        const size_t block = len - at < WORDS * 8 ? len - at : WORDS * 8;
        decide(vote->ballot, in->workers, at, block, bits + at, vote->tied + at);
    }
    if (bucket->status == TERSE_OK)
        settle_ties(bucket, vote->tied, bits);
    tsi_clock(in, TERSE_STAGE_COMBINE, &from);
    if (bucket->owned[in->rank].count > 0)
        (void)tsi_seal_part(bucket, &bucket->back, in->rank, len);
    return tsi_messages_post(bucket, &bucket->back);
}

/* The owners' bits are the aggregate, where they lie. */
static terse_status receive(struct tsi_bucket *bucket)
{
    const terse_status status = tsi_messages_wait(bucket);
    bucket->aggregate.largest = 0x3f800000u; /* 1.0f */
    for (uint32_t r = 0; r < bucket->in->workers && status == TERSE_OK; r++) {
        const struct tsi_pieces pieces = bucket->owned[r];
        const uint8_t *bits = open_bits(bucket, &bucket->back, r);
        for (uint32_t i = pieces.first; bits && i < pieces.first + pieces.count; i++) {
            const struct tsi_piece *const piece = &bucket->codec->piece[i];
            terse_fault fault = {.rank = -1};
            (void)tsi_bucket_fail(bucket, tsi_section_padding(bits, 0, piece->count, &fault),
                                  (int32_t)r, &fault);
            tsi_aggregate_add(
                &bucket->aggregate,
                (struct tsi_span){TSI_SPAN_SIGNS, piece->offset, piece->count, .negative = bits});
            bits += (piece->count + 7) / 8;
        }
    }
    return status;
}

const struct tsi_combine_ops tsi_combine_vote = {
    .name = "vote",
    .summary = "the majority of the signs, one bit both ways: 2(K-1)/K payloads per worker",
    .cut = TSI_CUT_SLICES,
    .refuses = refuses,
    .create = create,
    .destroy = destroy,
    .phase = {tsi_send_to_owners, tsi_confirm_lengths, tsi_send_parts, count, tsi_confirm_lengths,
              tsi_send_parts, receive},
    .rest = tsi_encode_own,
};
