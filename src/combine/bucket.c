/* A bucket: its codec, its mail, and what every combine does with them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"
#include "combine/combine.h"
#include "kernels/bind.h"

/* ---- time ---- */

uint64_t tsi_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void tsi_clock(struct tsi_room *room, int station, uint64_t *from)
{
    const uint64_t now = tsi_now();
    room->nanoseconds[station] += now - *from;
    *from = now;
}

/* ---- creation ---- */

static terse_status create_codec(struct tsi_bucket *bucket, terse_fault *fault)
{
    const struct tsi_room *const room = bucket->room;
    struct tsi_piece *const piece =
        calloc((size_t)bucket->tensor_count * room->workers + 1, sizeof *piece);
    bucket->owned = calloc(room->workers, sizeof *bucket->owned);
    if (!piece || !bucket->owned) {
        free(piece);
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    }
    const uint32_t pieces = tsi_cut(room->layout, bucket->ops->cut, bucket->first_tensor,
                                    bucket->tensor_count, room->workers, piece, bucket->owned);
    for (uint32_t i = 0; i < pieces; i++)
        piece[i].plain = room->plain && room->plain[piece[i].tensor];
    terse_status status = tsi_codec_create(room->codec_spec, room->layout, piece, pieces,
                                           &room->codec_options, &bucket->codec, fault);
    bucket->back_codec = bucket->codec;
    if (status == TERSE_OK && room->back_spec)
        status = tsi_codec_create(room->back_spec, room->layout, piece, pieces,
                                  &room->codec_options, &bucket->back_codec, fault);
    if (status == TERSE_OK && tsi_codec_enable_prescan(bucket->codec) != TERSE_OK)
        status = tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    if (status == TERSE_OK) {
        bucket->codec->rule = room->rule;
        bucket->back_codec->rule = room->rule;
    }
    free(piece);
    return status;
}

static void measure(struct tsi_bucket *bucket)
{
    for (uint32_t t = 0; t < bucket->tensor_count; t++) {
        const struct tsi_piece whole =
            tsi_layout_piece(bucket->room->layout, bucket->first_tensor + t);
        if (t == 0)
            bucket->first = whole.offset;
        bucket->count += whole.count;
    }
}

terse_status tsi_bucket_create(struct tsi_room *room, const struct tsi_combine_ops *ops,
                               uint32_t first_tensor, uint32_t tensor_count,
                               struct tsi_bucket **out, terse_fault *fault)
{
    struct tsi_bucket *const bucket = calloc(1, sizeof *bucket);
    if (!bucket)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    bucket->room = room;
    bucket->ops = ops;
    bucket->first_tensor = first_tensor;
    bucket->tensor_count = tensor_count;
    measure(bucket);
    terse_status status = create_codec(bucket, fault);
    if (status == TERSE_OK) {
        bucket->sparse =
            ops->touch && bucket->codec->ops->touch && room->host && room->host->sparse;
        bucket->clean = bucket->sparse; /* the sum is 0 at first */
        bucket->packed = ops->signs && room->host && room->host->packed;
        status = ops->create(bucket);
        if (status != TERSE_OK)
            (void)tsi_fail(fault, status, 0, "out of memory");
    }
    if (status != TERSE_OK) {
        tsi_bucket_destroy(bucket);
        return status;
    }
    *out = bucket;
    return TERSE_OK;
}

void tsi_bucket_destroy(struct tsi_bucket *bucket)
{
    if (!bucket)
        return;
    if (bucket->ops->destroy)
        bucket->ops->destroy(bucket);
    tsi_mail_destroy(&bucket->there);
    tsi_mail_destroy(&bucket->back);
    free(bucket->sum_scratch);
    free(bucket->run);
    free(bucket->tied);
    free(bucket->ballot);
    free(bucket->owned);
    if (bucket->back_codec != bucket->codec)
        terse_codec_destroy(bucket->back_codec);
    terse_codec_destroy(bucket->codec);
    free(bucket);
}

terse_status tsi_bucket_fail(struct tsi_bucket *bucket, terse_status status, int32_t rank)
{
    if (status != TERSE_OK && bucket->status == TERSE_OK) {
        bucket->status = status;
        bucket->cause = bucket->fault;
        bucket->cause.rank = rank;
    }
    return status;
}

/* ---- pieces ---- */

uint64_t tsi_pieces_elements(const struct tsi_bucket *bucket, struct tsi_pieces pieces)
{
    uint64_t count = 0;
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
        count += bucket->codec->piece[i].count;
    return count;
}

void tsi_zero_pieces(const struct tsi_bucket *bucket, struct tsi_pieces pieces, float *floats)
{
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        memset(floats + piece->offset, 0, piece->count * sizeof *floats);
    }
}

terse_status tsi_check_sum(struct tsi_bucket *bucket, struct tsi_pieces pieces)
{
    const struct tsk_table *kernel = NULL;
    uint32_t most = 0;
    uint64_t from = tsi_now();
    terse_status status = tsk_bound(&kernel, &bucket->fault);
    for (uint32_t i = pieces.first; i < pieces.first + pieces.count && status == TERSE_OK; i++) {
        const struct tsi_piece *const piece = &bucket->codec->piece[i];
        const uint32_t here =
            kernel->magnitude_max_f32(bucket->room->sum + piece->offset, piece->count);
        most = here > most ? here : most;
    }
    if (most >= TSK_INFINITY_BITS)
        status = tsi_fail(&bucket->fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite");
    tsi_clock(bucket->room, TERSE_STAGE_COMBINE, &from);
    return tsi_bucket_fail(bucket, status, -1);
}

/* The largest magnitude among what was touched. */
struct largest {
    const float *sum;
    float most;
};

static void find_largest(void *context, uint64_t base, const uint32_t *index, size_t count)
{
    struct largest *const largest = context;
    const float *const sum = largest->sum + base;
    for (size_t i = 0; i < count; i++) {
        const float here = fabsf(sum[index ? index[i] : i]);
        if (!(here <= largest->most)) /* a NaN stays */
            largest->most = here;
    }
}

terse_status tsi_check_touched(struct tsi_bucket *bucket)
{
    struct largest largest = {bucket->room->sum, 0};
    const struct tsi_toucher toucher = {&largest, find_largest, bucket->room->sum};
    uint64_t from = tsi_now();
    terse_status status = TERSE_OK;
    bucket->ops->touch(bucket, &toucher);
    if (!isfinite(largest.most))
        status = tsi_fail(&bucket->fault, TERSE_OUT_OF_RANGE, 0, "the sum is not finite");
    tsi_clock(bucket->room, TERSE_STAGE_COMBINE, &from);
    return tsi_bucket_fail(bucket, status, -1);
}

void tsi_clear_sum(struct tsi_bucket *bucket)
{
    if (!bucket->clean)
        memset(bucket->room->sum + bucket->first, 0, (size_t)bucket->count * sizeof(float));
    bucket->clean = 0;
}

/* ---- mail ---- */

static size_t frame_cap(const terse_codec *codec, struct tsi_pieces pieces)
{
    return pieces.count == 0 ? 0 : TSI_PART_EXTRA + tsi_codec_bound(codec, 0, pieces);
}

static terse_status create_arrays(struct tsi_mail *mail, uint32_t workers)
{
    mail->send_at = calloc(workers, sizeof *mail->send_at);
    mail->recv_at = calloc(workers, sizeof *mail->recv_at);
    mail->send_cap = calloc(workers, sizeof *mail->send_cap);
    mail->recv_cap = calloc(workers, sizeof *mail->recv_cap);
    mail->send_len = calloc(workers, sizeof *mail->send_len);
    mail->recv_len = calloc(workers, sizeof *mail->recv_len);
    mail->send_len_at = calloc(workers, sizeof *mail->send_len_at);
    mail->recv_len_at = calloc(workers, sizeof *mail->recv_len_at);
    mail->len_len = calloc(workers, sizeof *mail->len_len);
    if (!mail->send_at || !mail->recv_at || !mail->send_cap || !mail->recv_cap || !mail->send_len ||
        !mail->recv_len || !mail->send_len_at || !mail->recv_len_at || !mail->len_len)
        return TERSE_NO_MEMORY;
    for (uint32_t r = 0; r < workers; r++) {
        mail->send_len_at[r] = &mail->send_len[r];
        mail->recv_len_at[r] = &mail->recv_len[r];
        mail->len_len[r] = sizeof mail->send_len[r];
    }
    return TERSE_OK;
}

/* There: a frame for each owner's pieces; everybody's frames for one's own. Back: the one frame of
 * one's own pieces to all; the owners' frames. */
terse_status tsi_mail_create(struct tsi_bucket *bucket, struct tsi_mail *mail, int back)
{
    const uint32_t workers = bucket->room->workers;
    const struct tsi_pieces mine = bucket->owned[bucket->room->rank];
    const terse_codec *const codec = back ? bucket->back_codec : bucket->codec;
    size_t len = back ? frame_cap(codec, mine) : 0;
    if (create_arrays(mail, workers) != TERSE_OK)
        return TERSE_NO_MEMORY;
    for (uint32_t r = 0; r < workers; r++) {
        mail->send_cap[r] = frame_cap(codec, back ? mine : bucket->owned[r]);
        mail->recv_cap[r] = frame_cap(codec, back ? bucket->owned[r] : mine);
        len += mail->recv_cap[r] + (back ? 0 : mail->send_cap[r]);
    }
    mail->memory = calloc(len + 1, 1);
    if (!mail->memory)
        return TERSE_NO_MEMORY;
    uint8_t *at = mail->memory + (back ? mail->send_cap[0] : 0);
    for (uint32_t r = 0; r < workers; r++) {
        mail->send_at[r] = back ? mail->memory : at;
        at += back ? 0 : mail->send_cap[r];
        mail->recv_at[r] = at;
        at += mail->recv_cap[r];
    }
    if (!back) /* what a rank says to itself lies where it hears it */
        mail->send_at[bucket->room->rank] = mail->recv_at[bucket->room->rank];
    return TERSE_OK;
}

void tsi_mail_destroy(struct tsi_mail *mail)
{
    free(mail->memory);
    free(mail->send_at);
    free(mail->recv_at);
    free(mail->send_cap);
    free(mail->recv_cap);
    free(mail->send_len);
    free(mail->recv_len);
    free(mail->send_len_at);
    free(mail->recv_len_at);
    free(mail->len_len);
    *mail = (struct tsi_mail){0};
}

static terse_status post_swap(struct tsi_bucket *bucket, const terse_alltoallv *swap)
{
    uint64_t from = tsi_now();
    const terse_status status =
        terse_group_post_alltoallv(bucket->room->group, swap, &bucket->request, &bucket->fault);
    tsi_clock(bucket->room, TERSE_STAGE_GROUP, &from);
    return tsi_bucket_fail(bucket, status, bucket->fault.rank);
}

terse_status tsi_mail_post(struct tsi_bucket *bucket, struct tsi_mail *mail)
{
    const terse_alltoallv whole = {(const void *const *)mail->send_at, mail->send_cap,
                                   mail->recv_at, mail->recv_cap};
    const terse_alltoallv lens = {(const void *const *)mail->send_len_at, mail->len_len,
                                  mail->recv_len_at, mail->len_len};
    if (!bucket->room->rule)
        return post_swap(bucket, &whole);
    for (uint32_t r = 0; r < bucket->room->workers; r++)
        mail->send_len[r] = mail->send_cap[r] > 0 ? tsi_part_len(mail->send_at[r]) : 0;
    return post_swap(bucket, &lens);
}

terse_status tsi_mail_send(struct tsi_bucket *bucket, struct tsi_mail *mail)
{
    if (!bucket->room->rule)
        return TERSE_OK;
    const terse_status status = tsi_mail_wait(bucket);
    for (uint32_t r = 0; r < bucket->room->workers && status == TERSE_OK; r++)
        if (mail->recv_len[r] > mail->recv_cap[r])
            return tsi_bucket_fail(bucket,
                                   tsi_fail(&bucket->fault, TERSE_PEER_LOST, 0,
                                            "rank %u announces %zu bytes, at most %zu", r,
                                            mail->recv_len[r], mail->recv_cap[r]),
                                   (int32_t)r);
    const terse_alltoallv swap = {(const void *const *)mail->send_at, mail->send_len, mail->recv_at,
                                  mail->recv_len};
    return status == TERSE_OK ? post_swap(bucket, &swap) : status;
}

terse_status tsi_mail_wait(struct tsi_bucket *bucket)
{
    uint64_t from = tsi_now();
    const terse_status status =
        terse_group_wait(bucket->room->group, bucket->request, &bucket->fault);
    tsi_clock(bucket->room, TERSE_STAGE_GROUP, &from);
    return tsi_bucket_fail(bucket, status, bucket->fault.rank);
}

/* ---- saying and hearing ---- */

static struct tsi_part part_of(const struct tsi_bucket *bucket, struct tsi_pieces pieces,
                               terse_rng_key draw)
{
    return (struct tsi_part){.pass = bucket->round,
                             .key = draw,
                             .first = bucket->first,
                             .count = tsi_pieces_elements(bucket, pieces)};
}

terse_rng_key tsi_owner_draw(const struct tsi_bucket *bucket, uint32_t owner)
{
    terse_rng_key draw = bucket->room->draw;
    draw.worker = bucket->room->workers + owner;
    return draw;
}

/* Encodes `in` (taking, where `take`) and seals it. */
static terse_status say(struct tsi_bucket *bucket, terse_codec *codec, struct tsi_pieces pieces,
                        terse_rng_key draw, const float *in, float *take, uint8_t *frame)
{
    const struct tsi_part part = part_of(bucket, pieces, draw);
    uint64_t from = tsi_now();
    size_t len = 0;
    const terse_status status = tsi_codec_encode(codec, bucket->round, &draw, pieces, in, take,
                                                 frame + TERSE_FRAME_HEADER_LEN, SIZE_MAX, &len);
    tsi_clock(bucket->room, TERSE_STAGE_ENCODE, &from);
    if (status != TERSE_OK) {
        tsi_part_void(frame);
        return tsi_bucket_fail(bucket, status, (int32_t)bucket->room->rank);
    }
    tsi_part_seal(codec, &part, len, frame);
    tsi_clock(bucket->room, TERSE_STAGE_WIRE, &from);
    return TERSE_OK;
}

terse_status tsi_say(struct tsi_bucket *bucket, struct tsi_pieces pieces, uint8_t *frame)
{
    const struct tsi_room *const room = bucket->room;
    const terse_status status =
        say(bucket, bucket->codec, pieces, room->draw, room->memory ? room->memory : room->gradient,
            room->memory, frame);
    bucket->payload = frame + TERSE_FRAME_HEADER_LEN;
    if (status == TERSE_OK)
        bucket->said_len += tsi_part_len(frame) - TSI_PART_EXTRA;
    return status;
}

terse_status tsi_say_back(struct tsi_bucket *bucket, const float *in, float *take, uint8_t *frame)
{
    const uint32_t rank = bucket->room->rank;
    return say(bucket, bucket->back_codec, bucket->owned[rank], tsi_owner_draw(bucket, rank), in,
               take, frame);
}

/* What `rank` said about some pieces, as it came. */
struct letter {
    struct tsi_pieces pieces;
    terse_rng_key draw;
    int32_t rank;
    const uint8_t *frame;
    size_t cap;
};

static terse_status hear(struct tsi_bucket *bucket, terse_codec *codec, const struct letter *letter,
                         float *out, int station, int fresh)
{
    const struct tsi_part part = part_of(bucket, letter->pieces, letter->draw);
    const uint8_t *payload = NULL;
    size_t len = 0;
    uint64_t from = tsi_now();
    if (letter->pieces.count == 0)
        return TERSE_OK;
    terse_status status =
        tsi_part_open(codec, &part, letter->frame, letter->cap, &payload, &len, &bucket->fault);
    tsi_clock(bucket->room, TERSE_STAGE_WIRE, &from);
    if (status == TERSE_OK)
        status = (fresh ? tsi_codec_decode : tsi_codec_decode_add)(
            codec, bucket->round, &letter->draw, letter->pieces, payload, len, out, &bucket->fault);
    tsi_clock(bucket->room, station, &from);
    /* who sent nothing knows why and says so itself */
    return tsi_bucket_fail(bucket, status, tsi_part_is_void(letter->frame) ? -1 : letter->rank);
}

terse_status tsi_open(struct tsi_bucket *bucket, struct tsi_pieces pieces, terse_rng_key draw,
                      int32_t rank, const uint8_t *frame, size_t cap, const uint8_t **payload,
                      size_t *len)
{
    const struct tsi_part part = part_of(bucket, pieces, draw);
    uint64_t from = tsi_now();
    const terse_status status =
        tsi_part_open(bucket->codec, &part, frame, cap, payload, len, &bucket->fault);
    tsi_clock(bucket->room, TERSE_STAGE_WIRE, &from);
    return tsi_bucket_fail(bucket, status, tsi_part_is_void(frame) ? -1 : rank);
}

terse_status tsi_hear(struct tsi_bucket *bucket, struct tsi_pieces pieces, terse_rng_key draw,
                      int32_t rank, const uint8_t *frame, size_t cap, float *out, int station)
{
    const struct letter letter = {pieces, draw, rank, frame, cap};
    return hear(bucket, bucket->codec, &letter, out, station, 0);
}

terse_status tsi_hear_fresh(struct tsi_bucket *bucket, struct tsi_pieces pieces, terse_rng_key draw,
                            int32_t rank, const uint8_t *frame, size_t cap, float *out, int station)
{
    const struct letter letter = {pieces, draw, rank, frame, cap};
    return hear(bucket, bucket->codec, &letter, out, station, 1);
}

/* ---- to the owners and back ---- */

terse_status tsi_mail_both(struct tsi_bucket *bucket)
{
    const terse_status status = tsi_mail_create(bucket, &bucket->there, 0);
    return status == TERSE_OK ? tsi_mail_create(bucket, &bucket->back, 1) : status;
}

/* To the other owners. A failure is noted and the mail goes all the same, so that nobody waits: the
 * agreement tells. */
terse_status tsi_say_to_owners(struct tsi_bucket *bucket)
{
    for (uint32_t r = 0; r < bucket->room->workers; r++)
        if (bucket->owned[r].count > 0 && r != bucket->room->rank)
            (void)!tsi_say(bucket, bucket->owned[r], bucket->there.send_at[r]);
    return tsi_mail_post(bucket, &bucket->there);
}

/* As an owner, while the mail travels: straight to where it will be heard. */
void tsi_say_to_itself(struct tsi_bucket *bucket)
{
    const uint32_t rank = bucket->room->rank;
    if (bucket->owned[rank].count > 0)
        (void)!tsi_say(bucket, bucket->owned[rank], bucket->there.send_at[rank]);
}

void tsi_owners_runs(struct tsi_bucket *bucket, int rest, const struct tsi_runner *runner)
{
    for (uint32_t r = 0; r < bucket->room->workers; r++) {
        const struct tsi_pieces pieces = bucket->owned[r];
        if ((r == bucket->room->rank) != rest)
            continue;
        for (uint32_t i = pieces.first; i < pieces.first + pieces.count; i++)
            runner->run(runner->context, bucket->codec->piece[i].offset,
                        bucket->codec->piece[i].count);
    }
}

terse_status tsi_send_to_owners(struct tsi_bucket *bucket)
{
    return tsi_mail_send(bucket, &bucket->there);
}

terse_status tsi_send_back(struct tsi_bucket *bucket)
{
    return tsi_mail_send(bucket, &bucket->back);
}

terse_status tsi_hear_owners(struct tsi_bucket *bucket)
{
    struct tsi_room *const room = bucket->room;
    terse_status status = tsi_mail_wait(bucket);
    for (uint32_t r = 0; r < room->workers && status == TERSE_OK; r++) {
        const struct letter letter = {bucket->owned[r], tsi_owner_draw(bucket, r), (int32_t)r,
                                      bucket->back.recv_at[r], bucket->back.recv_cap[r]};
        status = hear(bucket, bucket->back_codec, &letter, room->sum, TERSE_STAGE_DECODE, 1);
    }
    return status;
}
