/* --method auto: the training is that of the chosen method, bit for bit, whichever is chosen; what
 * takes over in the middle has the state of the one before; dense stays unless another one is
 * faster by more than 3 % in every turn. Times are pretended, steps are real. */
#include <stdatomic.h>

#include "loop/auto.h"
#include "support/folder.h"

static const char *const candidates[] = {
    "dense:lr=0.05",
    "fp16:lr=0.05",
    "bf16:lr=0.05",
    "topk:keep=0.1,lr=0.05,momentum=0.9",
    "regtopk:keep=0.1,lr=0.05,momentum=0.9",
    "qsgd:bits=4,lr=0.05,momentum=0.9",
    "dqsgd:target=4,lr=0.05,momentum=0.9",
    "powersgd:rank=2,lr=0.05",
};
enum { CANDIDATES = sizeof candidates / sizeof candidates[0], STEPS = 12 };

static char all_of_them[TERSE_MAX_METHOD_SPEC];

static int make_text(void **state)
{
    (void)state;
    (void)snprintf(all_of_them, sizeof all_of_them, "auto:every=0,methods=");
    for (size_t i = 0; i < CANDIDATES; i++) {
        const size_t used = strlen(all_of_them);
        (void)snprintf(all_of_them + used, sizeof all_of_them - used, "%s%s", i ? ";" : "",
                       candidates[i]);
    }
    return 0;
}

/* resnet20 has running statistics, which a trial must leave alone. */
static struct trn_settings usual(const char *method, const char *model)
{
    const int is_net = strcmp(model, "resnet20") == 0;
    return (struct trn_settings){.model = model,
                                 .data = is_net ? "digits" : "regression",
                                 .method = method,
                                 .shard = "iid",
                                 .weighting = "equal",
                                 .adversaries = "none",
                                 .command = "test",
                                 .lr = -1,
                                 .workers = 2,
                                 .node_size = 1,
                                 .batch = 4,
                                 .accumulate = 1,
                                 .batches = 1,
                                 .steps = is_net ? 3 : STEPS,
                                 .seed = 1,
                                 .threads = 1,
                                 .codec_threads = 1,
                                 .evaluate_every = 100,
                                 .timeout = 20};
}

static struct trn_result train(const struct trn_settings *settings)
{
    const struct trn_watch watch = {NULL, NULL, NULL, NULL};
    struct trn_result result;
    terse_fault fault = {.rank = -1};
    const terse_status status = trn_train(settings, &watch, &result, &fault);
    if (status != TERSE_OK)
        print_message("%s: %s\n", settings->method, fault.text);
    assert_int_equal(status, TERSE_OK);
    return result;
}

static struct trn_result plain(const char *method, const char *model)
{
    const struct trn_settings settings = usual(method, model);
    return train(&settings);
}

/* ---- the first choice ---- */

static const char *wanted;

static double wanted_is_fast(const char *spec, uint64_t step)
{
    (void)step;
    return strcmp(spec, wanted) == 0 ? 0.01 : 1;
}

static void training_is_that_of_the_chosen_method(void **state)
{
    (void)state;
    for (size_t i = 0; i < CANDIDATES; i++) {
        struct trn_settings settings = usual(all_of_them, "linear");
        wanted = candidates[i];
        settings.pretend = wanted_is_fast;
        const struct trn_result chosen = train(&settings);
        const struct trn_result given = plain(wanted, "linear");
        print_message("%s\n", wanted);
        assert_string_equal(chosen.given, wanted);
        assert_true(chosen.weights_hash == given.weights_hash);
        assert_true(chosen.bytes_sent == given.bytes_sent);
        assert_true(chosen.bytes_other > given.bytes_other); /* the trials */
    }
}

static void running_statistics_are_put_back(void **state)
{
    struct trn_settings settings =
        usual("auto:every=0,methods=dense:lr=0.05;fp16:lr=0.05", "resnet20");
    (void)state;
    wanted = candidates[1];
    settings.pretend = wanted_is_fast;
    const struct trn_result chosen = train(&settings);
    const struct trn_result given = plain(wanted, "resnet20");
    assert_true(chosen.weights_hash == given.weights_hash);
    assert_true(chosen.loss == given.loss); /* it is evaluated with them */
}

static void one_worker_measures_nothing(void **state)
{
    struct trn_settings settings = usual(all_of_them, "linear");
    (void)state;
    wanted = candidates[1];
    settings.pretend = wanted_is_fast;
    settings.workers = 1;
    assert_string_equal(train(&settings).given, candidates[0]);
}

/* ---- by how much ---- */

static double factor; /* of the other's time, in the first visit, */
static double later;  /* and after it */
static atomic_int visits;

static double nearly(const char *spec, uint64_t step)
{
    (void)step;
    if (strcmp(spec, candidates[0]) == 0)
        return 1;
    return visits++ < 2 ? factor : later; /* two workers ask */
}

static const char *choice_at(double first, double then)
{
    struct trn_settings settings =
        usual("auto:every=0,methods=dense:lr=0.05;fp16:lr=0.05", "linear");
    static struct trn_result result;
    settings.pretend = nearly;
    factor = first;
    later = then;
    visits = 0;
    result = train(&settings);
    return result.given;
}

static void dense_stays_unless_another_is_faster_in_every_turn(void **state)
{
    (void)state;
    assert_string_equal(choice_at(0.96, 0.96), candidates[1]);
    assert_string_equal(choice_at(0.98, 0.5), candidates[0]);
    assert_string_equal(choice_at(0.9, 0.98), candidates[0]); /* only in the first turn */
    assert_string_equal(choice_at(0.4, 2), candidates[1]);    /* twice as fast: no more turns */
    assert_string_equal(choice_at(1.5, 0.5), candidates[0]);
}

/* ---- in the middle ---- */

static double second_from_step_4(const char *spec, uint64_t step)
{
    return (strcmp(spec, wanted) == 0) == (step >= 4) ? 0.01 : 1;
}

/* Pairs that compute the same bits: whatever of the state did not go over would change them. */
static void what_takes_over_has_the_state_of_the_one_before(void **state)
{
    static const char *const pairs[][2] = {
        {"topk:keep=0.1,lr=0.05,momentum=0.9,schedule=cosine",
         "topk:keep=0.1,lr=0.05,momentum=0.9,schedule=cosine,combine=sparse-allreduce"},
        {"dense:lr=0.05,schedule=cosine", "dense:lr=0.05,schedule=cosine,min=1"},
        {"qsgd:bits=4,lr=0.05,momentum=0.9", "qsgd:bits=4,lr=0.05,momentum=0.9,nesterov=yes"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char text[TERSE_MAX_METHOD_SPEC];
        (void)snprintf(text, sizeof text, "auto:every=4,methods=%s;%s", pairs[i][0], pairs[i][1]);
        struct trn_settings settings = usual(text, "linear");
        wanted = pairs[i][1];
        settings.pretend = second_from_step_4;
        const struct trn_result changed = train(&settings);
        print_message("%s\n", text);
        assert_string_equal(changed.given, wanted);
        assert_true(changed.weights_hash == plain(pairs[i][0], "linear").weights_hash);
    }
}

static void a_change_in_the_middle_changes_the_method(void **state)
{
    struct trn_settings settings =
        usual("auto:every=4,methods=dense:lr=0.05;topk:keep=0.1,lr=0.05,momentum=0.9", "linear");
    (void)state;
    wanted = candidates[3];
    settings.pretend = second_from_step_4;
    const struct trn_result changed = train(&settings);
    assert_string_equal(changed.given, wanted);
    assert_true(changed.weights_hash != plain(candidates[0], "linear").weights_hash);
    assert_true(changed.weights_hash != plain(candidates[3], "linear").weights_hash);
}

/* ---- resuming ---- */

static double count_visits(const char *spec, uint64_t step)
{
    (void)spec;
    (void)step;
    visits++;
    return 1;
}

static void a_resumed_run_has_the_choice_of_its_checkpoint(void **state)
{
    const struct test_folder folder = test_folder_make();
    (void)state;
    struct trn_settings settings = usual(all_of_them, "linear");
    wanted = candidates[4];
    settings.pretend = wanted_is_fast;
    settings.out = folder.path;
    settings.steps = STEPS / 2;
    assert_string_equal(train(&settings).given, wanted);
    settings.pretend = count_visits;
    visits = 0;
    settings.resume = folder.path;
    settings.steps = STEPS;
    assert_true(train(&settings).weights_hash == plain(wanted, "linear").weights_hash);
    settings.workers = 3;
    settings.steps = STEPS + 2;
    assert_string_equal(train(&settings).given, wanted);
    assert_int_equal(visits, 0);
    test_folder_remove(&folder);
}

/* ---- the text ---- */

static void a_text_comes_back(void **state)
{
    static struct trn_auto_words words;
    char text[TERSE_MAX_METHOD_SPEC];
    terse_fault fault;
    (void)state;
    assert_int_equal(
        trn_auto_parse("auto:lr=0.1,every=7,wd=0,methods=topk:keep=0.1,lr=1;fp16", &words, &fault),
        TERSE_OK);
    assert_string_equal(words.options, "lr=0.1,wd=0");
    assert_int_equal(words.count, 2);
    assert_string_equal(words.method[0], "topk:keep=0.1,lr=1");
    assert_int_equal(trn_auto_print(&words, text, sizeof text), TERSE_OK);
    assert_string_equal(text, "auto:every=7,methods=topk:keep=0.1,lr=1;fp16");
    assert_int_equal(trn_auto_print(&words, text, 20), TERSE_TOO_SMALL);
    assert_true(trn_is_auto("auto") && trn_is_auto("auto:x") && !trn_is_auto("automatic"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_is_that_of_the_chosen_method),
        cmocka_unit_test(running_statistics_are_put_back),
        cmocka_unit_test(one_worker_measures_nothing),
        cmocka_unit_test(dense_stays_unless_another_is_faster_in_every_turn),
        cmocka_unit_test(what_takes_over_has_the_state_of_the_one_before),
        cmocka_unit_test(a_change_in_the_middle_changes_the_method),
        cmocka_unit_test(a_resumed_run_has_the_choice_of_its_checkpoint),
        cmocka_unit_test(a_text_comes_back),
    };
    return cmocka_run_group_tests(tests, make_text, NULL);
}
