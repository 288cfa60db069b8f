/* vote: the majority of the workers' signs, one bit both ways (Bernstein et al., ICLR 2019). Every
 * rank counts the votes for its slice. Bits are counted as they came, sixty-four side by side,
 * never unpacked. 2(K-1)/K payloads per worker. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/parallel.h"
#include "codec/section.h"
#include "combine/combine.h"
#include "kernels/bind.h"

#define WORDS 64u  /* counted at a time */
#define PLANES 13u /* bits of a count: up to TERSE_MAX_WORKERS votes */
#define COINS_PER_DRAW 32u

/* Counters of WORDS * 64 elements: plane p holds bit p of every count. */
struct tally {
    uint64_t plane[PLANES][WORDS];
    unsigned planes; /* in use */
};

static const char *refuses(const terse_codec_about *codec)
{
    return strcmp(codec->name, "sign") == 0 ? NULL : "only signs can be voted on";
}

static terse_status create(struct tsi_bucket *bucket)
{
    const size_t len = tsi_codec_bound(bucket->codec, 0, bucket->owned[bucket->room->rank]);
    bucket->tied = malloc(len + 1);
    bucket->ballot = calloc(bucket->room->workers, sizeof *bucket->ballot);
    return bucket->tied && bucket->ballot ? tsi_mail_both(bucket) : TERSE_NO_MEMORY;
}

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
static void toss(const struct tsi_bucket *bucket, const struct tsk_table *kernel,
                 const struct tsi_piece *piece, const uint8_t *tied, uint8_t *bits)
{
    const struct tsk_stream stream =
        tsi_stream_shared(&bucket->room->draw, TSI_RANDOM_TIE, piece->tensor);
    const size_t len = (piece->count + 7) / 8;
    for (size_t at = 0; at < len; at += TSK_RANDOM_GROUP * sizeof(uint32_t)) {
        uint32_t coins[TSK_RANDOM_GROUP];
        const size_t left = len - at;
        const uint64_t first = (piece->first + 8 * (uint64_t)at) / COINS_PER_DRAW;
        kernel->random_u32(&stream, first, TSK_RANDOM_GROUP, coins);
        const uint8_t *const coin = (const uint8_t *)coins;
        for (size_t i = 0; i < left && i < sizeof coins; i++)
            bits[at + i] |= tied[at + i] & coin[i];
    }
}

/* Clears the bits behind the last element: an even split of nothing is no tie. */
static void clear_padding(const struct tsi_piece *piece, uint8_t *bits)
{
    if (piece->count % 8 != 0)
        bits[piece->count / 8] &= (uint8_t)((1u << piece->count % 8) - 1);
}

static terse_status settle_ties(struct tsi_bucket *bucket, const uint8_t *tied, uint8_t *bits)
{
    const struct tsi_pieces mine = bucket->owned[bucket->room->rank];
    const struct tsk_table *kernel;
    const terse_status status = tsk_bound(&kernel, NULL);
    size_t at = 0;
    for (uint32_t i = mine.first; status == TERSE_OK && i < mine.first + mine.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        if (bucket->room->tie_coin)
            toss(bucket, kernel, piece, tied + at, bits + at);
        if (piece->count > 0)
            clear_padding(piece, bits + at);
        at += (piece->count + 7) / 8;
    }
    return status;
}

/* ---- frames ---- */

static struct tsi_part part_of(const struct tsi_bucket *bucket, struct tsi_pieces pieces,
                               terse_rng_key draw)
{
    return (struct tsi_part){.pass = bucket->round,
                             .key = draw,
                             .first = bucket->first,
                             .count = tsi_pieces_elements(bucket, pieces)};
}

/* Opens the bits that `rank` said of these pieces: as many as they need. */
static terse_status open_bits(struct tsi_bucket *bucket, struct tsi_pieces pieces,
                              terse_rng_key draw, const struct tsi_mail *mail, uint32_t rank,
                              const uint8_t **bits)
{
    const struct tsi_part part = part_of(bucket, pieces, draw);
    const size_t len = tsi_codec_bound(bucket->codec, 0, pieces);
    size_t heard = 0;
    terse_status status = tsi_part_open(bucket->codec, &part, mail->recv_at[rank],
                                        mail->recv_cap[rank], bits, &heard, &bucket->fault);
    if (status == TERSE_OK && heard != len)
        status =
            tsi_fail(&bucket->fault, TERSE_BAD_FRAME, 0, "%zu bytes of votes, not %zu", heard, len);
    /* who sent nothing knows why and says so itself */
    return tsi_bucket_fail(bucket, status,
                           tsi_part_is_void(mail->recv_at[rank]) ? -1 : (int32_t)rank);
}

/* ---- the three moves ---- */

static terse_status open_ballots(struct tsi_bucket *bucket, const uint8_t **ballot)
{
    const struct tsi_room *const room = bucket->room;
    terse_status status = TERSE_OK;
    for (uint32_t r = 0; r < room->workers && status == TERSE_OK; r++) {
        terse_rng_key draw = room->draw;
        draw.worker = r;
        status = open_bits(bucket, bucket->owned[room->rank], draw, &bucket->there, r, &ballot[r]);
    }
    return status;
}

static terse_status count(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    const struct tsi_pieces mine = bucket->owned[room->rank];
    const size_t len = tsi_codec_bound(bucket->codec, 0, mine);
    const uint8_t **const ballot = bucket->ballot;
    uint8_t *const bits = bucket->back.memory + TERSE_FRAME_HEADER_LEN;
    uint8_t *const tied = bucket->tied;
    const struct tsi_part part = part_of(bucket, mine, tsi_owner_draw(bucket, room->rank));
    uint64_t from = tsi_now();
    terse_status status = open_ballots(bucket, ballot);
    tsi_clock(room, TERSE_STAGE_WIRE, &from);
    for (size_t at = 0; at < len && status == TERSE_OK; at += WORDS * 8) {
        const size_t block = len - at < WORDS * 8 ? len - at : WORDS * 8;
        decide(ballot, room->workers, at, block, bits + at, tied + at);
    }
    if (status == TERSE_OK)
        status = settle_ties(bucket, tied, bits);
    tsi_clock(room, TERSE_STAGE_COMBINE, &from);
    if (status != TERSE_OK) {
        tsi_part_void(bucket->back.memory);
        return tsi_bucket_fail(bucket, status, -1);
    }
    tsi_part_seal(bucket->codec, &part, len, bucket->back.memory);
    tsi_clock(room, TERSE_STAGE_WIRE, &from);
    return TERSE_OK;
}

static terse_status turn(struct tsi_bucket *bucket)
{
    const terse_status status = tsi_mail_wait(bucket);
    if (status != TERSE_OK)
        return status;
    if (bucket->owned[bucket->room->rank].count > 0)
        (void)!count(bucket);
    return tsi_mail_post(bucket, &bucket->back);
}

struct signs_job {
    const struct tsk_table *kernel;
    const uint8_t *bits;
    float *out;
};

/* Chunk by chunk, so that zeros and what is added to them meet in the cache. */
static void write_signs(void *context, size_t chunk, size_t first, size_t count)
{
    const struct signs_job *const job = context;
    (void)chunk;
    memset(job->out + first, 0, count * sizeof *job->out);
    job->kernel->sign_add_f32(job->out + first, job->bits + first / 8, count, 1.0f);
}

static terse_status hear_owner(struct tsi_bucket *bucket, const struct tsk_table *kernel,
                               uint32_t owner)
{
    const struct tsi_pieces pieces = bucket->owned[owner];
    const uint8_t *bits = NULL;
    uint64_t from = tsi_now();
    terse_status status = TERSE_OK;
    if (pieces.count > 0)
        status =
            open_bits(bucket, pieces, tsi_owner_draw(bucket, owner), &bucket->back, owner, &bits);
    tsi_clock(bucket->room, TERSE_STAGE_WIRE, &from);
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count && status == TERSE_OK; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        struct signs_job job = {kernel, bits, bucket->room->sum + piece->offset};
        status = tsi_section_padding(bits, 0, piece->count, &bucket->fault);
        if (status == TERSE_OK && !bucket->packed)
            tsi_each_chunk(bucket->codec->threads, piece->count, write_signs, &job);
        bits += (piece->count + 7) / 8;
    }
    tsi_clock(bucket->room, TERSE_STAGE_DECODE, &from);
    return tsi_bucket_fail(bucket, status, (int32_t)owner);
}

static terse_status hear(struct tsi_bucket *bucket)
{
    const struct tsk_table *kernel = NULL;
    terse_status status = tsi_mail_wait(bucket);
    if (status == TERSE_OK)
        status = tsk_bound(&kernel, &bucket->fault);
    for (uint32_t r = 0; r < bucket->room->workers && status == TERSE_OK; r++)
        status = hear_owner(bucket, kernel, r);
    return status;
}

/* The owners' bits, which were checked when they came. */
static void signs(const struct tsi_bucket *bucket, const struct tsi_signer *signer)
{
    for (uint32_t r = 0; r < bucket->room->workers; r++) {
        const struct tsi_pieces pieces = bucket->owned[r];
        const uint8_t *bits = (const uint8_t *)bucket->back.recv_at[r] + TERSE_FRAME_HEADER_LEN;
        for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++) {
            const struct tsi_piece *const piece = &bucket->codec->piece[i];
            signer->take(signer->context, piece->offset, piece->count, bits);
            bits += (piece->count + 7) / 8;
        }
    }
}

/* Signs are said without memory: nothing was taken. */
static void undo(struct tsi_bucket *bucket)
{
    (void)bucket;
}

const struct tsi_combine_ops tsi_combine_vote = {
    .name = "vote",
    .summary = "the majority of the signs, one bit both ways: 2(K-1)/K payloads per worker",
    .cut = TSI_CUT_SLICES,
    .refuses = refuses,
    .create = create,
    .move = {tsi_say_to_owners, turn, hear},
    .runs = tsi_owners_runs,
    .say_rest = tsi_say_to_itself,
    .undo = undo,
    .signs = signs,
};
