/* vote: the majority of the workers' signs, one bit both ways (Bernstein et al., ICLR 2019). Every
 * rank counts the votes for its slice. Bits are counted as they came, sixty-four side by side,
 * never unpacked, and the aggregate stays in bits. 2(K-1)/K payloads per worker. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "codec/section.h"
#include "combine/sharded.h"

#define WORDS 64u  /* counted at a time */
#define PLANES 13u /* bits of a count: up to TERSE_MAX_WORKERS votes */
#define COINS_PER_DRAW 32u

/* Counters of WORDS * 64 elements: plane p holds bit p of every count. */
struct tally {
    uint64_t plane[PLANES][WORDS];
    unsigned planes; /* in use */
};

/* ---- counting ---- */

static unsigned planes_for(uint32_t votes)
{
    unsigned planes = 1;
    while (votes >> planes)
        planes++;
    return planes;
}

/* Adds one bit to every counter: a ripple of half adders. */
static void count_votes(struct tally *tally, const uint64_t *votes)
{
    uint64_t carry[WORDS];
    memcpy(carry, votes, sizeof carry);
    for (unsigned p = 0; p < tally->planes; p++) {
        uint64_t *const plane = tally->plane[p];
        for (size_t i = 0; i < WORDS; i++) {
            const uint64_t sum = plane[i] ^ carry[i];
            carry[i] &= plane[i];
            plane[i] = sum;
        }
    }
}

/* Where the count is above `half`, and where it equals it. */
static void compare(const struct tally *tally, uint32_t half, uint64_t *above, uint64_t *equal)
{
    for (size_t i = 0; i < WORDS; i++) {
        above[i] = 0;
        equal[i] = ~UINT64_C(0);
        for (unsigned p = tally->planes; p-- > 0;) {
            const uint64_t plane = tally->plane[p][i];
            const uint64_t bit = half >> p & 1u ? ~UINT64_C(0) : 0;
            above[i] |= equal[i] & plane & ~bit;
            equal[i] &= ~(plane ^ bit);
        }
    }
}

/* Majorities of `len` bytes (at most WORDS * 8) at `at` of every ballot, and where there are ties.
 */
static void decide(const uint8_t *const *ballot, uint32_t votes, size_t at, size_t len,
                   uint8_t *majority, uint8_t *tied)
{
    struct tally tally;
    uint64_t words[WORDS];
    uint64_t above[WORDS];
    uint64_t equal[WORDS];
    tally.planes = planes_for(votes);
    memset(tally.plane, 0, tally.planes * sizeof tally.plane[0]);
    for (uint32_t r = 0; r < votes; r++) {
        if (len < sizeof words)
            memset(words, 0, sizeof words);
        memcpy(words, ballot[r] + at, len);
        count_votes(&tally, words);
    }
    compare(&tally, votes / 2, above, equal);
    memcpy(majority, above, len);
    if (votes % 2 != 0)
        memset(equal, 0, sizeof equal);
    memcpy(tied, equal, len);
}

/* ---- ties ---- */

/* A tied element of a piece is negative where its coin says so. `bits` are the piece's own. */
static void toss(const struct tsi_bucket *bucket, const struct tsi_piece *piece,
                 const uint8_t *tied, uint8_t *bits)
{
    const struct tsk_stream stream = tsi_stream(&bucket->in->key, TSI_RANDOM_TIE, piece->tensor);
    const size_t len = (piece->count + 7) / 8;
    for (size_t at = 0; at < len; at += TSK_RANDOM_GROUP * sizeof(uint32_t)) {
        uint32_t coins[TSK_RANDOM_GROUP];
        const size_t left = len - at;
        const uint64_t first = (piece->first + 8 * (uint64_t)at) / COINS_PER_DRAW;
        bucket->in->kernel->random_u32(&stream, first, TSK_RANDOM_GROUP, coins);
        const uint8_t *const coin = (const uint8_t *)coins;
        for (size_t i = 0; i < left && i < sizeof coins; i++)
            bits[at + i] |= tied[at + i] & coin[i];
    }
}

/* Ties get their coins, and the bits behind the last element of a piece are cleared: an even split
 * of nothing is no tie. */
static void settle_ties(const struct tsi_bucket *bucket, const uint8_t *tied, uint8_t *bits)
{
    const struct tsi_pieces mine = bucket->owned[bucket->in->rank];
    for (uint32_t i = mine.first; i < mine.first + mine.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        if (bucket->in->tie_coin)
            toss(bucket, piece, tied, bits);
        if (piece->count % 8 != 0)
            bits[piece->count / 8] &= (uint8_t)((1u << piece->count % 8) - 1);
        tied += (piece->count + 7) / 8;
        bits += (piece->count + 7) / 8;
    }
}

/* ---- the combine ---- */

struct vote {
    struct tsi_sharded sharded;
    uint8_t *tied;          /* bits of this rank's pieces: no majority there */
    const uint8_t **ballot; /* by rank: the bits it sent about them */
};

static const char *refuses(const terse_codec_about *codec)
{
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
    return tsi_sharded_create(bucket, &vote->sharded);
}

static void destroy(struct tsi_bucket *bucket)
{
    struct vote *const vote = bucket->private;
    free(vote->tied);
    free(vote->ballot);
    tsi_sharded_destroy(&vote->sharded);
}

static terse_status send(struct tsi_bucket *bucket)
{
    return tsi_sharded_send(bucket, &((struct vote *)bucket->private)->sharded);
}

static void rest(struct tsi_bucket *bucket)
{
    tsi_sharded_rest(bucket, &((struct vote *)bucket->private)->sharded);
}

/* The bits of a part that was received: as many as its pieces need. NULL if the bucket fails. */
static const uint8_t *open_bits(struct tsi_bucket *bucket, const struct tsi_part *part,
                                const struct tsi_messages *messages, struct tsi_pieces pieces)
{
    const size_t expected = tsi_codec_bound(bucket->codec, 0, pieces);
    const uint8_t *bits = NULL;
    terse_fault fault;
    size_t len = 0;
    if (!tsi_open_part(bucket, bucket->codec, part, messages, &bits, &len))
        return NULL;
    if (len == expected)
        return bits;
    (void)tsi_bucket_fail(
        bucket, tsi_fail(&fault, TERSE_BAD_FRAME, 0, "%zu bytes of votes, not %zu", len, expected),
        (int32_t)part->route.sender, &fault);
    return NULL;
}

/* As an owner: counts the votes and sends the majority to all. */
static terse_status count(struct tsi_bucket *bucket)
{
    struct tsi_collective *const in = bucket->in;
    struct vote *const vote = bucket->private;
    const struct tsi_pieces mine = bucket->owned[in->rank];
    const size_t len = tsi_codec_bound(bucket->codec, 0, mine);
    const struct tsi_messages *const there = &vote->sharded.there;
    uint8_t *const frame = vote->sharded.back.memory;
    uint8_t *const bits = frame + TSI_PART_PAYLOAD_AT;
    const struct tsi_part back =
        tsi_part_of(bucket, &vote->sharded.back, in->rank, TSI_TO_ALL,
                    tsi_owner_key(bucket, in->rank), bucket->codec->piece, mine);
    const terse_status status = tsi_messages_wait(bucket);
    if (status != TERSE_OK)
        return status;
    for (uint32_t r = 0; r < in->workers && mine.count > 0 && bucket->status == TERSE_OK; r++) {
        const struct tsi_part part = tsi_part_of(
            bucket, there, r, in->rank, tsi_worker_key(bucket, r), bucket->codec->piece, mine);
        vote->ballot[r] = open_bits(bucket, &part, there, mine);
    }
    uint64_t from = tsi_now();
    if (mine.count > 0 && bucket->status == TERSE_OK) {
        for (size_t at = 0; at < len; at += WORDS * 8) {
            const size_t block = len - at < WORDS * 8 ? len - at : WORDS * 8;
            decide(vote->ballot, in->workers, at, block, bits + at, vote->tied + at);
        }
        settle_ties(bucket, vote->tied, bits);
        tsi_clock(in, TERSE_STAGE_COMBINE, &from);
        tsi_part_seal(bucket->codec, &back, len, frame);
    } else if (mine.count > 0) {
        tsi_part_void(&back, frame);
    }
    tsi_clock(in, TERSE_STAGE_WIRE, &from);
    return tsi_messages_post(bucket, &vote->sharded.back);
}

/* The owners' bits are the aggregate, where they lie. */
static void add_spans(struct tsi_bucket *bucket, uint32_t owner, const uint8_t *bits)
{
    const struct tsi_pieces pieces = bucket->owned[owner];
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        terse_fault fault = {.rank = -1};
        const terse_status status = tsi_section_padding(bits, 0, piece->count, &fault);
        (void)tsi_bucket_fail(bucket, status, (int32_t)owner, &fault);
        tsi_aggregate_add(&bucket->aggregate, (struct tsi_span){.kind = TSI_SPAN_SIGNS,
                                                                .first = piece->offset,
                                                                .count = piece->count,
                                                                .negative = bits});
        bits += (piece->count + 7) / 8;
    }
}

static terse_status receive(struct tsi_bucket *bucket)
{
    const struct tsi_messages *const back = &((struct vote *)bucket->private)->sharded.back;
    const terse_status status = tsi_messages_wait(bucket);
    for (uint32_t r = 0; r < bucket->in->workers && status == TERSE_OK; r++) {
        const struct tsi_pieces pieces = bucket->owned[r];
        const struct tsi_part part = tsi_part_of(
            bucket, back, r, TSI_TO_ALL, tsi_owner_key(bucket, r), bucket->codec->piece, pieces);
        if (pieces.count == 0 || bucket->status != TERSE_OK)
            continue;
        const uint8_t *const bits = open_bits(bucket, &part, back, pieces);
        if (!bits)
            continue;
        add_spans(bucket, r, bits);
        bucket->agreed = tsi_fold(bucket->agreed, tsi_part_checksum(back->recv_at[r]));
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
    .phase = {send, count, receive},
    .rest = rest,
};
