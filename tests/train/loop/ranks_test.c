/* A training in several ranks, each with its own settings and an engine that may lie: settings or
 * data that differ are named before the first step, and whatever arrives damaged is a status that
 * names its sender. Every message counts: those of the start, of steps, evaluations and
 * checkpoints. */
#include <pthread.h>

#include "loop/agree.h"
#include "loop/options.h"
#include "loop/share.h"
#include "method/lie_engine.h"
#include "support/folder.h"

enum { RANKS = 3 };

struct rank {
    struct engine engine;
    struct trn_settings settings;
    struct trn_result result;
    uint64_t data; /* the hash of a rank's data, where only trn_agree runs */
    terse_status status;
    terse_fault fault;
    pthread_t thread;
};

static struct trn_settings usual(const char *out)
{
    return (struct trn_settings){.model = "linear",
                                 .data = "regression",
                                 .method = "topk:keep=0.1,lr=0.01",
                                 .shard = "iid",
                                 .weighting = "equal",
                                 .adversaries = "none",
                                 .out = out,
                                 .command = "test",
                                 .lr = -1,
                                 .batch = 4,
                                 .accumulate = 1,
                                 .batches = 1,
                                 .steps = 3,
                                 .seed = 1,
                                 .threads = 1,
                                 .codec_threads = 1,
                                 .evaluate_every = 2,
                                 .timeout = 20};
}

static void start_all(struct rank *ranks, void *(*work)(void *))
{
    terse_group *inner[RANKS];
    assert_int_equal(terse_group_local(RANKS, inner), TERSE_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        ranks[r].engine.inner = inner[r];
        ranks[r].engine.rank = r;
        ranks[r].engine.ranks = RANKS;
        ranks[r].fault.rank = -2;
        assert_int_equal(
            terse_group_callbacks(&lie_ops, &ranks[r].engine, r, RANKS, &ranks[r].settings.group),
            TERSE_OK);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, work, &ranks[r]), 0);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(pthread_join(ranks[r].thread, NULL), 0);
}

/* Leaves the group, so that the others do not wait. */
static void leave(struct rank *rank)
{
    terse_group_destroy(rank->settings.group);
    terse_group_destroy(rank->engine.inner);
}

/* Rank 0's file for all, as the command does before a training. */
static terse_status broadcast_file(struct rank *rank)
{
    char file[] = "rank 0 has read this";
    void *bytes = rank->engine.rank == 0 ? file : NULL;
    uint64_t len = rank->engine.rank == 0 ? sizeof file : 0;
    const terse_status status =
        trn_share_bytes(rank->settings.group, "its file", &bytes, &len, &rank->fault);
    if (status == TERSE_OK)
        assert_true(len == sizeof file && memcmp(bytes, file, sizeof file) == 0);
    if (rank->engine.rank != 0)
        free(bytes);
    return status;
}

static void *train(void *opaque)
{
    struct rank *const rank = opaque;
    const struct trn_watch watch = {.context = NULL};
    rank->status = broadcast_file(rank);
    if (rank->status == TERSE_OK)
        rank->status = trn_train(&rank->settings, &watch, &rank->result, &rank->fault);
    leave(rank);
    return NULL;
}

static void *agree(void *opaque)
{
    struct rank *const rank = opaque;
    rank->status = trn_agree(rank->settings.group, &rank->settings, rank->data, &rank->fault);
    leave(rank);
    return NULL;
}

/* ---- settings that differ ---- */

/* All ranks with the same, but one with this value of an option. */
static void agree_but_one(struct rank *ranks, const struct com_option *row, uint32_t odd)
{
    struct com_option keyed = *row;
    const struct trn_settings other = {.model = "cnn",
                                       .data = "digits",
                                       .method = "dense",
                                       .plugin = "./mine.so",
                                       .shard = "range",
                                       .weighting = "shard",
                                       .adversaries = "1:zero",
                                       .classes = "0-4",
                                       .init = "weights.safetensors",
                                       .reinit = "fc.*",
                                       .overlap = "off",
                                       .out = "elsewhere",
                                       .resume = "folder",
                                       .lr = 3,
                                       .workers = 9,
                                       .node_size = 2,
                                       .batch = 8,
                                       .accumulate = 2,
                                       .batches = 3,
                                       .validation = 0.25,
                                       .epochs = 4,
                                       .steps = 5,
                                       .seed = 6,
                                       .threads = 7,
                                       .codec_threads = 8,
                                       .checkpoint_every = 9,
                                       .evaluate_every = 10,
                                       .target = 0.5,
                                       .augment = 1,
                                       .timeout = 12};
    keyed.key = row->key ? row->key : row->name;
    com_json *const json = com_json_object();
    com_option_write(&keyed, &other, json);
    memset(ranks, 0, RANKS * sizeof *ranks);
    for (uint32_t r = 0; r < RANKS; r++)
        ranks[r].settings = usual("runs");
    assert_true(com_option_read(&keyed, json, &ranks[odd].settings));
    start_all(ranks, agree);
    com_json_free(json);
}

/* Every option, on every rank: named on all ranks, or none of their business. */
static void the_rank_that_differs_is_named(void **state)
{
    static const char *const free_ones[] = {"plugin", "lr", "workers", "codec-threads", "timeout"};
    struct rank *const ranks = test_alloc(RANKS * sizeof *ranks);
    (void)state;
    for (const struct com_option *row = trn_options; row->name; row++)
        for (uint32_t odd = 0; odd < RANKS; odd++) {
            int is_free = 0;
            for (size_t i = 0; i < sizeof free_ones / sizeof free_ones[0]; i++)
                is_free |= strcmp(row->name, free_ones[i]) == 0;
            if (!(row->flags & TRN_OF_TRAIN)) /* terse compare's row of the same setting */
                continue;
            agree_but_one(ranks, row, odd);
            for (uint32_t r = 0; r < RANKS; r++) {
                const char *const text = ranks[r].fault.text;
                assert_int_equal(ranks[r].status, is_free ? TERSE_OK : TERSE_MISMATCH);
                if (is_free)
                    continue;
                /* the others differ from rank 0 if it is the odd one */
                assert_int_equal(ranks[r].fault.rank, odd == 0 ? 1 : odd);
                if (!strstr(text, row->key ? row->key : row->name) ||
                    !strstr(text, "differs: rank 0 "))
                    fail_msg("--%s: %s", row->name, text);
            }
        }
    free(ranks);
}

static void other_contents_of_the_data_are_named(void **state)
{
    struct rank *const ranks = test_alloc(RANKS * sizeof *ranks);
    (void)state;
    for (uint32_t odd = 0; odd <= RANKS; odd++) { /* the last time all have the same */
        memset(ranks, 0, RANKS * sizeof *ranks);
        for (uint32_t r = 0; r < RANKS; r++) {
            ranks[r].settings = usual(NULL);
            ranks[r].data = r == odd ? 6 : 5;
        }
        start_all(ranks, agree);
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_int_equal(ranks[r].status, odd < RANKS ? TERSE_MISMATCH : TERSE_OK);
            if (odd < RANKS) {
                assert_int_equal(ranks[r].fault.rank, odd == 0 ? 1 : odd);
                assert_non_null(strstr(ranks[r].fault.text, "other contents of the data"));
            }
        }
    }
    free(ranks);
}

/* ---- damaged messages ---- */

static void train_all(struct rank *ranks, const char *out)
{
    for (uint32_t r = 0; r < RANKS; r++)
        ranks[r].settings = usual(out);
    start_all(ranks, train);
}

/* The messages of an honest training. */
static uint32_t learn(struct message *out)
{
    struct rank *const ranks = test_alloc(RANKS * sizeof *ranks);
    const struct test_folder folder = test_folder_make();
    uint32_t count = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        ranks[r].engine.seen = test_alloc(LIE_MAX_MESSAGES * sizeof(struct message));
    train_all(ranks, folder.path);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (ranks[r].status != TERSE_OK)
            fail_msg("honest: rank %u: %s", r, ranks[r].fault.text);
        assert_true(ranks[r].result.weights_hash == ranks[0].result.weights_hash);
        assert_in_range(ranks[r].engine.seen_count, 1, LIE_MAX_MESSAGES / RANKS);
        for (uint32_t i = 0; i < ranks[r].engine.seen_count; i++)
            out[count++] = ranks[r].engine.seen[i];
        free(ranks[r].engine.seen);
    }
    test_folder_remove(&folder);
    free(ranks);
    return count;
}

/* One message is changed: its receiver fails and names the sender, nobody finishes, and no rank
 * blames another one. */
static void expect_named(const struct message *target, enum lie lie, const struct message *source,
                         uint64_t seed)
{
    struct rank *const ranks = test_alloc(RANKS * sizeof *ranks);
    const struct test_folder folder = test_folder_make();
    struct engine *const engine = &ranks[target->receiver].engine;
    engine->target = target;
    engine->source = source;
    engine->lie = lie;
    engine->random.state = seed;
    train_all(ranks, folder.path);
    const struct rank *const receiver = &ranks[target->receiver];
    assert_true(engine->passed);
    if (engine->changed &&
        (receiver->status == TERSE_OK || receiver->fault.rank != (int32_t)target->sender))
        fail_msg("%s, collective %u, %zu bytes from rank %u to %u: %s, rank %d: %s", lie_names[lie],
                 target->post, target->len, target->sender, target->receiver,
                 terse_status_text(receiver->status), receiver->fault.rank, receiver->fault.text);
    free(engine->kept);
    test_folder_remove(&folder);
    free(ranks);
}

/* The message before it of the same length and route: the same record of another step, perhaps. */
static const struct message *earlier(const struct message *all, const struct message *one)
{
    for (const struct message *other = one; other-- > all;)
        if (other->receiver == one->receiver && other->sender == one->sender &&
            other->len == one->len)
            return other;
    return NULL;
}

static void whatever_is_damaged_names_its_sender(void **state)
{
    static const enum lie lies[] = {FLIPPED, ZEROED, IMPERSONATED, EXTREME};
    struct message *const messages = test_alloc(LIE_MAX_MESSAGES * sizeof *messages);
    const uint32_t count = learn(messages);
    (void)state;
    print_message("%u messages\n", count);
    for (uint32_t i = 0; i < count; i++) {
        const struct message *const source = earlier(messages, &messages[i]);
        expect_named(&messages[i], lies[i % 4], NULL, test_seed() + i);
        if (source)
            expect_named(&messages[i], REPLAYED, source, 0);
    }
    free(messages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rank_that_differs_is_named),
        cmocka_unit_test(other_contents_of_the_data_are_named),
        cmocka_unit_test(whatever_is_damaged_names_its_sender),
    };
    return cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
}
