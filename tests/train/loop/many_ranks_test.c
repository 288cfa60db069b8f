/* A training of more ranks than threads of one process may be: 130 here, each with a group handle
 * of its own, as 130 processes would have. */
#include <pthread.h>

#include "files/checkpoint.h"
#include "loop/train.h"
#include "support/folder.h"

enum { RANKS = 130, AT_ONCE = 64, LIED_TO = 5, ANSWER_LEN = 24 };

/* ---- an engine in memory: the last rank that posts a collective carries all its messages ---- */

struct posted {
    const void *send_at[RANKS];
    size_t send_len[RANKS];
    void *recv_at[RANKS];
    size_t recv_len[RANKS];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t carried;
    uint64_t next[RANKS];   /* number of the rank's next collective */
    uint32_t here[AT_ONCE]; /* ranks that have posted a collective, by its number */
    uint64_t done[AT_ONCE]; /* 1 + the last collective of this place that is done */
    int lies;               /* 1: the next message of ANSWER_LEN bytes to rank LIED_TO is damaged */
    int lost;               /* 1: a rank has left */
    struct posted post[AT_ONCE][RANKS];
} wires = {.lock = PTHREAD_MUTEX_INITIALIZER, .carried = PTHREAD_COND_INITIALIZER};

struct rank {
    uint32_t rank;
    uint64_t number[TERSE_MAX_REQUESTS]; /* of the collective, by slot */
    terse_group *group;
    const struct trn_settings *settings;
    struct trn_result result;
    terse_status status;
    terse_fault fault;
};

static void carry(uint32_t place)
{
    struct posted *const all = wires.post[place];
    for (uint32_t to = 0; to < RANKS; to++)
        for (uint32_t from = 0; from < RANKS; from++)
            if (all[to].recv_len[from] > 0)
                memcpy(all[to].recv_at[from], all[from].send_at[to], all[to].recv_len[from]);
    if (wires.lies && all[LIED_TO].recv_len[0] == ANSWER_LEN && all[0].recv_len[LIED_TO] == 0) {
        ((uint8_t *)all[LIED_TO].recv_at[0])[8] ^= 1; /* busy, where it was not */
        wires.lies = 0;
    }
    wires.here[place] = 0;
}

static terse_status post(void *context, uint32_t slot, const terse_alltoallv *alltoallv,
                         int32_t *rank)
{
    struct rank *const me = context;
    (void)rank;
    (void)pthread_mutex_lock(&wires.lock);
    const uint64_t number = wires.next[me->rank]++;
    const uint32_t place = (uint32_t)(number % AT_ONCE);
    struct posted *const mine = &wires.post[place][me->rank];
    for (uint32_t r = 0; r < RANKS; r++) {
        mine->send_at[r] = alltoallv->send_at[r];
        mine->send_len[r] = alltoallv->send_len[r];
        mine->recv_at[r] = alltoallv->recv_at[r];
        mine->recv_len[r] = alltoallv->recv_len[r];
    }
    me->number[slot] = number;
    if (++wires.here[place] == RANKS) {
        carry(place);
        wires.done[place] = number + 1;
        (void)pthread_cond_broadcast(&wires.carried);
    }
    (void)pthread_mutex_unlock(&wires.lock);
    return TERSE_OK;
}

static int is_done(const struct rank *me, uint32_t slot)
{
    return wires.done[me->number[slot] % AT_ONCE] > me->number[slot];
}

static terse_status poll_slot(void *context, uint32_t slot, int *done, int32_t *rank)
{
    (void)rank;
    (void)pthread_mutex_lock(&wires.lock);
    *done = is_done(context, slot);
    (void)pthread_mutex_unlock(&wires.lock);
    return TERSE_OK;
}

static terse_status wait_slot(void *context, uint32_t slot, uint64_t nanoseconds, int32_t *rank)
{
    (void)nanoseconds; /* the test's own timeout is enough */
    (void)pthread_mutex_lock(&wires.lock);
    while (!is_done(context, slot) && !wires.lost)
        (void)pthread_cond_wait(&wires.carried, &wires.lock);
    const int done = is_done(context, slot);
    (void)pthread_mutex_unlock(&wires.lock);
    *rank = done ? -1 : LIED_TO;
    return done ? TERSE_OK : TERSE_PEER_LOST;
}

static void leave(void *context)
{
    (void)context;
    (void)pthread_mutex_lock(&wires.lock);
    wires.lost = 1;
    (void)pthread_cond_broadcast(&wires.carried);
    (void)pthread_mutex_unlock(&wires.lock);
}

/* ---- the trainings ---- */

static void *run_rank(void *opaque)
{
    static const terse_group_ops ops = {
        .size = sizeof ops, .post = post, .test = poll_slot, .wait = wait_slot, .destroy = leave};
    static const struct trn_watch watch = {.context = NULL};
    struct rank *const me = opaque;
    struct trn_settings settings = *me->settings;
    me->status = terse_group_callbacks(&ops, me, me->rank, RANKS, &me->group);
    settings.group = me->group;
    if (me->status == TERSE_OK)
        me->status = trn_train(&settings, &watch, &me->result, &me->fault);
    terse_group_destroy(me->group);
    return NULL;
}

static struct rank ranks[RANKS];

static void run_all(const struct trn_settings *settings)
{
    pthread_t threads[RANKS];
    wires.lost = 0;
    for (uint32_t r = 0; r < RANKS; r++) {
        ranks[r] = (struct rank){.rank = r, .settings = settings};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(pthread_join(threads[r], NULL), 0);
}

/* The hash of the weights, which all ranks have. */
static uint64_t train(const struct trn_settings *settings)
{
    run_all(settings);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (ranks[r].status != TERSE_OK)
            fail_msg("rank %u: %s", r, ranks[r].fault.text);
        assert_int_equal(ranks[r].result.workers, RANKS);
        assert_int_equal(ranks[r].result.steps, settings->steps);
        assert_true(ranks[r].result.weights_hash == ranks[0].result.weights_hash);
    }
    return ranks[0].result.weights_hash;
}

static struct trn_settings small_training(void)
{
    return (struct trn_settings){.model = "linear",
                                 .data = "regression",
                                 .method = "topk:keep=0.1,lr=0.01,min=1",
                                 .shard = "iid",
                                 .weighting = "equal",
                                 .adversaries = "none",
                                 .lr = -1,
                                 .workers = RANKS,
                                 .batch = 2,
                                 .accumulate = 1,
                                 .batches = 1,
                                 .steps = 4,
                                 .seed = 1,
                                 .threads = 1,
                                 .codec_threads = 1,
                                 .evaluate_every = 4,
                                 .timeout = 60};
}

static void test_train_checkpoint_and_resume(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct trn_checkpoint *checkpoint;
    uint64_t workers = 0;
    struct trn_settings settings = small_training();
    (void)state;
    const uint64_t whole = train(&settings);
    settings.out = folder.path;
    settings.steps = 2;
    assert_true(train(&settings) != whole);
    assert_int_equal(
        trn_checkpoint_read(test_path(&folder, "checkpoint-2.terse"), &checkpoint, NULL), TERSE_OK);
    assert_true(com_json_get_u64(trn_checkpoint_settings(checkpoint), "workers", &workers));
    assert_int_equal(workers, RANKS);
    assert_non_null(trn_checkpoint_find(checkpoint, "residual", RANKS - 1));
    trn_checkpoint_free(checkpoint);
    settings.steps = 4;
    settings.resume = folder.path;
    assert_true(train(&settings) == whole);
    test_folder_remove(&folder);
}

/* The last test: afterwards ranks have posted different numbers of collectives. */
static void test_a_damaged_message_about_checkpoints_is_named(void **state)
{
    const struct test_folder folder = test_folder_make();
    struct trn_settings settings = small_training();
    (void)state;
    settings.out = folder.path;
    settings.checkpoint_every = 2;
    wires.lies = 1;
    run_all(&settings);
    assert_int_equal(wires.lies, 0);
    assert_int_equal(ranks[LIED_TO].status, TERSE_BAD_CHECKSUM);
    assert_int_equal(ranks[LIED_TO].fault.rank, 0);
    assert_non_null(strstr(ranks[LIED_TO].fault.text, "its message about checkpoints"));
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_not_equal(ranks[r].status, TERSE_OK);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_train_checkpoint_and_resume),
        cmocka_unit_test(test_a_damaged_message_about_checkpoints_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
