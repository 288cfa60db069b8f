/* terse_method_describe: what it tells of a spec is what a method of that spec does. */
#include <math.h>
#include <stdio.h>

#include "method/subjects.h"

static terse_method_description described(const char *spec)
{
    terse_method_description chosen = {.size = sizeof chosen};
    terse_fault fault = {0};
    if (terse_method_describe(spec, &chosen, &fault) != TERSE_OK)
        fail_msg("%s: %s", spec, fault.text);
    return chosen;
}

static double number_of(const char *spec, const char *name)
{
    terse_method_entry entry;
    return terse_method_entry_of(spec, name, &entry, NULL) == TERSE_OK ? entry.number : 0;
}

static void equal(double told, double found, const char *spec, const char *what)
{
    if (told != found)
        fail_msg("%s: %s: described as %g, found to be %g", spec, what, told, found);
}

/* Can a method of one worker be made so? */
static int is_made(const char *spec, const terse_method_options *options)
{
    terse_layout *const layout = subject_layout();
    terse_method *method = NULL;
    float *weights = test_floats((size_t)terse_layout_count(layout));
    const terse_status status =
        terse_method_create_all(spec, 1, layout, &weights, options, &method, NULL);
    if (status == TERSE_OK)
        terse_method_destroy(method);
    free(weights);
    terse_layout_destroy(layout);
    return status == TERSE_OK;
}

/* ---- stages ---- */

static int is(const char *word, const char *other)
{
    return strcmp(word, other) == 0;
}

static int has_state(const struct crew *crew, const char *name)
{
    return crew_state(crew, 0, name).bytes != NULL;
}

static void check_stages(const char *spec, const struct crew *crew)
{
    const terse_method_description chosen = described(spec);
    char settings[TERSE_MAX_METHOD_SPEC];
    (void)snprintf(settings, sizeof settings, "codec=%s combine=%s feedback=%s%s", chosen.codec,
                   chosen.combine, chosen.feedback,
                   is(chosen.scope, "model") ? " scope=model" : "");
    assert_string_equal(settings, terse_method_settings(crew->method[0]));
    assert_string_equal(chosen.spec, terse_method_spec(crew->method[0]));
    equal(is(chosen.feedback, "residual"), has_state(crew, "residual"), spec, "a residual");
    equal(!is(chosen.direction, "gradient"), has_state(crew, "momentum"), spec, "a first moment");
    equal(is(chosen.direction, "adam"), has_state(crew, "second moment"), spec, "a second moment");
    equal(is(chosen.update, "adam"), has_state(crew, "update second moment"), spec,
          "an update by Adam");
    equal(chosen.owner == TERSE_OWNER_RESIDUAL, has_state(crew, "owner residual"), spec,
          "an owner's residual");
    equal(chosen.owner == TERSE_OWNER_WEIGHTS, has_state(crew, "owner weights"), spec,
          "an owner's weights");
    equal(chosen.owner == TERSE_OWNER_WEIGHTS, is(chosen.update, "replace"), spec, "replacement");
    equal(chosen.owner == TERSE_OWNER_WEIGHTS, chosen.back[0] != '\0', spec, "a codec back");
    equal(chosen.local_steps > 1 || is(chosen.point, "x - lambda e"),
          terse_method_point(crew->method[0]) != crew->weights[0], spec, "a point of its own");
    equal(chosen.dynamic_bits, has_state(crew, "bits"), spec, "dynamic bits");
    equal(chosen.passes > 1, has_state(crew, "factors"), spec, "a second pass");
    equal(chosen.has_eval_weights, terse_method_has_eval_weights(crew->method[0]), spec,
          "evaluation weights");
}

static void stages_are_those_of_the_method(void **unused)
{
    terse_layout *const layout = subject_layout();
    (void)unused;
    for (uint32_t i = 0; subject(i); i++) {
        const struct crew_plan plan = subject_plan(subject(i), 2, layout);
        struct crew crew = crew_new(&plan);
        check_stages(subject(i), &crew);
        crew_free(&crew);
    }
    terse_layout_destroy(layout);
}

/* A change of weights has the learning rate inside: twice the rate, twice the residual. */
static void the_unit_of_a_residual(void **unused)
{
    terse_layout *const layout = subject_layout();
    (void)unused;
    for (uint32_t i = 0; subject(i); i++) {
        const terse_method_description chosen = described(subject(i));
        char specs[2][TERSE_MAX_METHOD_SPEC];
        float first[2] = {0, 0};
        if (!is(chosen.feedback, "residual") || number_of(subject(i), "warmup") > 0)
            continue;
        for (int k = 0; k < 2; k++) {
            assert_int_equal(terse_method_spec_with(subject(i), k == 0 ? "lr=0.25" : "lr=0.5", 1,
                                                    specs[k], sizeof specs[k], NULL),
                             TERSE_OK);
            const struct crew_plan plan = subject_plan(specs[k], 2, layout);
            struct crew crew = crew_new(&plan);
            crew_train(&crew, TEST_NORMAL, 0, 1);
            for (size_t e = 0; e < crew.count && chosen.local_steps == 1; e++)
                first[k] += fabsf(crew_floats(&crew, 0, "residual")[e]);
            crew_free(&crew);
        }
        if (chosen.local_steps == 1 && first[0] > 0) /* e.g. f16 and f32 may leave nothing */
            equal(is(chosen.unit, "weights"), first[1] > 1.5f * first[0], subject(i),
                  "a unit of weights");
    }
    terse_layout_destroy(layout);
}

/* ---- facts ---- */

static void what_can_be_made(void **unused)
{
    const terse_method_options without = {.size = sizeof without};
    const terse_method_options gradient = {
        .size = sizeof gradient, .steps = 60, .aggregate_out = 1};
    const terse_method_options steps = {.size = sizeof steps, .steps = 60};
    (void)unused;
    for (uint32_t i = 0; subject(i); i++) {
        const char *const spec = subject(i);
        const terse_method_description chosen = described(spec);
        char with_min[TERSE_MAX_METHOD_SPEC] = "";
        equal(!chosen.needs_steps, is_made(spec, &without), spec,
              "a life without the number of steps");
        equal(chosen.has_gradient, is_made(spec, &gradient), spec, "a gradient");
        const terse_status status =
            terse_method_spec_with(spec, "min=7", 1, with_min, sizeof with_min, NULL);
        equal(chosen.has_plain, status == TERSE_OK && described(with_min).min == 7, spec, "min");
        if (status == TERSE_OK)
            assert_true(is_made(with_min, &steps));
    }
    assert_false(described("codec=sign").has_plain);
    assert_true(described("topk:combine=sparse-allreduce").has_plain);
}

static void votes_are_signs(void **unused)
{
    terse_layout *const layout = subject_layout();
    uint32_t voting = 0;
    (void)unused;
    for (uint32_t i = 0; subject(i); i++) {
        const terse_method_description chosen = described(subject(i));
        struct crew_plan plan = subject_plan(subject(i), 3, layout);
        size_t signs = 0;
        if (!chosen.has_gradient)
            continue;
        plan.aggregate_out = 1;
        struct crew crew = crew_new(&plan);
        crew_train(&crew, TEST_NORMAL, 0, 1 + (uint64_t)number_of(subject(i), "warmup"));
        for (size_t e = 0; e < crew.count; e++)
            signs += fabsf(crew.weights[0][e]) == 1;
        equal(chosen.votes, signs == crew.count, subject(i), "votes");
        voting += chosen.votes;
        crew_free(&crew);
    }
    assert_true(voting >= 3);
    terse_layout_destroy(layout);
}

static void buckets_may_be_posted(void **unused)
{
    terse_layout *const layout = subject_layout();
    (void)unused;
    for (uint32_t i = 0; subject(i); i++) {
        const struct crew_plan plan = subject_plan(subject(i), 1, layout);
        struct crew crew = crew_new(&plan);
        crew_gradients(&crew, TEST_NORMAL, 0);
        const terse_status status = terse_method_post(crew.method[0], crew.gradient[0], 0, 2, NULL);
        equal(described(subject(i)).has_buckets, status == TERSE_OK, subject(i), "buckets");
        crew_free(&crew);
    }
    terse_layout_destroy(layout);
}

static void exchanges_and_rates(void **unused)
{
    terse_layout *const layout = subject_layout();
    (void)unused;
    for (uint32_t i = 0; subject(i); i++) {
        const terse_method_description chosen = described(subject(i));
        const struct crew_plan plan = subject_plan(subject(i), 1, layout);
        struct crew crew = crew_new(&plan);
        uint32_t exchanges = 0;
        for (uint64_t step = 0; step < 2 * chosen.local_steps; step++) {
            crew_train(&crew, TEST_NORMAL, step, 1);
            exchanges += crew.report[0].exchanged;
            if (step == 0 && number_of(subject(i), "ramp") == 0)
                equal((float)chosen.lr, (float)crew.report[0].lr, subject(i), "lr");
        }
        equal(exchanges, 2, subject(i), "local steps");
        crew_free(&crew);
    }
    terse_layout_destroy(layout);
}

/* Code that describe and create share could be wrong for both. */
static void facts_by_hand(void **unused)
{
    static const struct {
        const char *spec;
        terse_owner owner;
        uint32_t has_gradient;
        uint32_t needs_steps;
        uint32_t passes;
    } cases[] = {
        {"dense", TERSE_OWNER_NONE, 1, 0, 1},
        {"dense:wd=0.1", TERSE_OWNER_NONE, 0, 0, 1},
        {"dense:every=2", TERSE_OWNER_NONE, 0, 0, 1},
        {"dense:schedule=cosine", TERSE_OWNER_NONE, 1, 1, 1},
        {"dense:schedule=sqrt", TERSE_OWNER_NONE, 1, 0, 1},
        {"def", TERSE_OWNER_NONE, 0, 0, 1},
        {"adam", TERSE_OWNER_NONE, 0, 0, 1},
        {"codec=f32,direction=adam", TERSE_OWNER_NONE, 0, 0, 1},
        {"qadam", TERSE_OWNER_WEIGHTS, 0, 0, 1},
        {"qadam:kx=0", TERSE_OWNER_NONE, 0, 0, 1},
        {"qadam:kg=off", TERSE_OWNER_WEIGHTS, 0, 0, 1},
        {"qadam:kg=off,kx=0", TERSE_OWNER_NONE, 0, 0, 1},
        {"ef-sign", TERSE_OWNER_RESIDUAL, 1, 0, 1},
        {"ef-sign:combine=parameter-server", TERSE_OWNER_RESIDUAL, 1, 0, 1},
        {"qsgd", TERSE_OWNER_NONE, 1, 0, 1},
        {"dqsgd:bits=error", TERSE_OWNER_NONE, 1, 1, 1},
        {"dqsgd:bits=rms", TERSE_OWNER_NONE, 1, 0, 1},
        {"powersgd", TERSE_OWNER_NONE, 1, 0, 2},
    };
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const terse_method_description chosen = described(cases[k].spec);
        equal(chosen.owner, cases[k].owner, cases[k].spec, "owner");
        equal(chosen.has_gradient, cases[k].has_gradient, cases[k].spec, "a gradient");
        equal(chosen.needs_steps, cases[k].needs_steps, cases[k].spec, "need of steps");
        equal(chosen.passes, cases[k].passes, cases[k].spec, "passes");
    }
}

/* ---- entries ---- */

static void entries_make_up_the_complete_spec(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; subject(i); i++) {
        const terse_method_description chosen = described(subject(i));
        const int composed = is(chosen.name, "composed");
        char spec[TERSE_MAX_METHOD_SPEC] = "";
        terse_method_entry entry;
        terse_method_entry same;
        size_t used = (size_t)snprintf(spec, sizeof spec, "%s", composed ? "" : chosen.name);
        uint32_t e = 0;
        for (; terse_method_entry_at(subject(i), e, &entry, NULL) == TERSE_OK; e++) {
            used += (size_t)snprintf(spec + used, sizeof spec - used, "%s%s=%s",
                                     e > 0      ? ","
                                     : composed ? ""
                                                : ":",
                                     entry.name, entry.value);
            assert_int_equal(terse_method_entry_of(subject(i), entry.name, &same, NULL), TERSE_OK);
            assert_string_equal(same.value, entry.value);
        }
        assert_string_equal(spec, chosen.spec);
        assert_int_equal(terse_method_entry_at(subject(i), e, &entry, NULL), TERSE_BAD_ARGUMENT);
    }
}

static void what_was_given_and_what_not(void **unused)
{
    static const struct {
        const char *spec;
        const char *name;
        const char *value;
        double number;
        uint32_t is_given;
        uint32_t is_stage;
    } cases[] = {
        {"topk:keep=0.1", "keep", "0.1", 0.1, 1, 0},
        {"topk:keep=0.1", "momentum", "0", 0, 0, 0},
        {"topk:keep=0.01", "keep", "0.01", 0.01, 1, 0}, /* the default, but given */
        {"signum:tie=plus", "tie", "plus", 1, 1, 0},
        {"topk:combine=shard", "combine", "shard", 0, 1, 1},
        {"codec=topk:keep=0.1,values=f16,lr=0.5", "codec", "topk:keep=0.1,values=f16", 0, 1, 1},
        {"codec=topk:keep=0.1,values=f16,lr=0.5", "lr", "0.5", 0.5, 1, 0},
        {"def:plain=a|b*", "plain", "a|b*", 0, 1, 1},
    };
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        terse_method_entry entry;
        assert_int_equal(terse_method_entry_of(cases[k].spec, cases[k].name, &entry, NULL),
                         TERSE_OK);
        assert_string_equal(entry.value, cases[k].value);
        assert_true(entry.number == cases[k].number);
        assert_int_equal(entry.is_given, cases[k].is_given);
        assert_int_equal(entry.is_stage, cases[k].is_stage);
    }
}

static void options_are_added_to_a_spec(void **unused)
{
    static const struct {
        const char *spec;
        const char *options;
        int replace;
        const char *result; /* NULL: refused */
    } cases[] = {
        {"dense", "", 0, "dense"},
        {"dense", "lr=0.02", 0, "dense:lr=0.02"},
        {"dense:lr=0.5", "lr=0.02", 0, "dense:lr=0.5"},
        {"dense:lr=0.5", "lr=0.02", 1, "dense:lr=0.02"},
        {"dense", "lr=0.3,lr=0.02", 0, "dense:lr=0.3"},
        {"signsgd", "lr=0.1,momentum=0.9,min=1024", 0, "signsgd:lr=0.1"}, /* has no such options */
        {"topk:combine=shard,min=4", "min=1024", 0, "topk:combine=shard,min=4"},
        {"codec=topk:keep=0.1,values=f16", "min=8", 0, "codec=topk:keep=0.1,values=f16,min=8"},
        {"codec=f32,lr=1", "every=1,warmup=0", 1, "codec=f32,lr=1,warmup=0,every=1"},
        {"topk", "combine=sparse-allreduce", 0, "topk:combine=sparse-allreduce"},
        {"topk:combine=shard", "combine=allgather", 0, "topk:combine=shard"},
        {"topk:combine=shard", "combine=allgather", 1, "topk:combine=allgather"},
        {"topk", "combine=vote", 0, NULL}, /* only signs can be voted on */
        {"topk", "combine=", 0, NULL},
        {"dense", "lr=5000", 0, NULL},
        {"dense", "lr", 0, NULL},
        {"dense:lr=nan", "wd=0", 0, NULL},
        {"codec=sign", "min=8", 0, NULL}, /* a vote has no plain tensors */
    };
    (void)unused;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char out[64] = "untouched";
        terse_fault fault = {0};
        const terse_status status = terse_method_spec_with(
            cases[k].spec, cases[k].options, cases[k].replace, out, sizeof out, &fault);
        assert_int_equal(status, cases[k].result ? TERSE_OK : TERSE_BAD_SPEC);
        assert_string_equal(out, cases[k].result ? cases[k].result : "untouched");
        assert_true(status == TERSE_OK || fault.text[0] != '\0');
    }
    char small[13];
    assert_int_equal(terse_method_spec_with("dense", "lr=0.02", 0, small, 13, NULL),
                     TERSE_TOO_SMALL); /* 13 letters */
    char room[14];
    assert_int_equal(terse_method_spec_with("dense", "lr=0.02", 0, room, 14, NULL), TERSE_OK);
}

/* ---- the rest ---- */

/* A combine that is not named counts as well as one that is. */
static void signs_are_voted_on_by_name_or_not(void **unused)
{
    static const char *const specs[] = {"codec=sign,combine=vote,lr=0.1", "codec=sign,lr=0.1",
                                        "codec=sign,combine=mean,lr=0.1"};
    uint64_t hash[3];
    (void)unused;
    for (int k = 0; k < 3; k++) {
        struct crew crew =
            crew_new(&(struct crew_plan){.spec = specs[k], .workers = 3, .count = 50});
        crew_train(&crew, TEST_NORMAL, 0, 5);
        hash[k] = crew_hash(&crew);
        crew_free(&crew);
        assert_true(described(specs[k]).votes);
        assert_string_equal(described(specs[k]).update, "signed");
    }
    assert_true(hash[0] == hash[1] && hash[0] == hash[2]);
    assert_int_equal(terse_method_check("codec=sign,every=2", NULL), TERSE_BAD_SPEC);
    assert_false(described("codec=sign,combine=allgather").votes);
}

static void check_finds_what_create_finds(void **unused)
{
    static const char *const specs[] = {"topk:combine=allreduce", "qsgd:feedback=residual",
                                        "signum:plain=bias", "dense:combine=alreduce",
                                        "signsgd:plain=bias"};
    (void)unused;
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        terse_layout *layout = NULL;
        terse_method *method = NULL;
        float weights[9] = {0};
        float *const one = weights;
        terse_fault fault = {0};
        terse_fault again = {0};
        assert_int_equal(terse_layout_vector(9, &layout), TERSE_OK);
        assert_int_equal(terse_method_check(specs[k], &fault), TERSE_BAD_SPEC);
        assert_int_equal(terse_method_create_all(specs[k], 1, layout, &one, NULL, &method, &again),
                         TERSE_BAD_SPEC);
        assert_string_equal(fault.text, again.text);
        terse_layout_destroy(layout);
    }
}

static void misuse_is_refused(void **unused)
{
    terse_method_description chosen = {.size = sizeof chosen, .name = "untouched"};
    terse_method_entry entry;
    terse_fault fault = {0};
    char out[32];
    (void)unused;
    assert_int_equal(terse_method_describe("topq", &chosen, &fault), TERSE_BAD_SPEC);
    assert_non_null(strstr(fault.text, "topk"));
    assert_int_equal(terse_method_describe(NULL, &chosen, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_method_describe("topk", NULL, NULL), TERSE_BAD_ARGUMENT);
    chosen.size = sizeof chosen + 1;
    assert_int_equal(terse_method_describe("topk", &chosen, NULL), TERSE_BAD_ARGUMENT);
    chosen.size = 0;
    assert_int_equal(terse_method_describe("topk", &chosen, NULL), TERSE_BAD_ARGUMENT);
    assert_string_equal(chosen.name, "untouched");
    chosen.size = offsetof(terse_method_description, point); /* of an earlier library */
    assert_int_equal(terse_method_describe("topk", &chosen, NULL), TERSE_OK);
    assert_string_equal(chosen.name, "topk");
    assert_true(!chosen.point && chosen.size == offsetof(terse_method_description, point));
    assert_int_equal(terse_method_entry_of("topk", "kepe", &entry, &fault), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_method_entry_of("topk", NULL, &entry, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_method_entry_of("topk", "keep", NULL, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_method_entry_at("topk", 0, NULL, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_method_entry_at("topq", 0, &entry, NULL), TERSE_BAD_SPEC);
    assert_int_equal(terse_method_spec_with("topk", NULL, 0, out, sizeof out, NULL),
                     TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_method_spec_with("topk", "", 0, NULL, 9, NULL), TERSE_BAD_ARGUMENT);
}

/* A payload is the sections of its tensors. */
static void sections_make_up_a_payload(void **unused)
{
    terse_layout *const layout = subject_layout();
    terse_codec_about listed;
    (void)unused;
    for (uint32_t i = 0; terse_codec_list(i, &listed) == TERSE_OK; i++) {
        terse_codec *codec = NULL;
        assert_int_equal(terse_codec_create(listed.name, layout, NULL, &codec, NULL), TERSE_OK);
        for (uint32_t pass = 0; pass < listed.passes; pass++) {
            size_t sum = 0;
            for (uint32_t t = 0; t < terse_layout_tensors(layout); t++)
                sum += terse_codec_section_bound(codec, pass, t);
            assert_int_equal(sum, terse_codec_payload_bound(codec, pass));
            assert_int_equal(terse_codec_section_bound(codec, pass, UINT32_MAX / 2), 0);
        }
        terse_codec_destroy(codec);
    }
    terse_layout_destroy(layout);
}

/* By spec as by object. */
static void codecs_are_described_by_spec(void **unused)
{
    terse_layout *layout = NULL;
    terse_codec_about listed;
    terse_fault fault = {0};
    (void)unused;
    assert_int_equal(terse_layout_vector(9, &layout), TERSE_OK);
    for (uint32_t i = 0; terse_codec_list(i, &listed) == TERSE_OK; i++) {
        terse_codec_about by_spec;
        terse_codec_about of_object;
        terse_codec *codec = NULL;
        assert_int_equal(terse_codec_check(listed.name, &by_spec, NULL), TERSE_OK);
        assert_int_equal(terse_codec_create(listed.name, layout, NULL, &codec, NULL), TERSE_OK);
        terse_codec_describe(codec, &of_object);
        assert_int_equal(by_spec.traits, of_object.traits);
        assert_int_equal(by_spec.passes, of_object.passes);
        assert_int_equal(by_spec.wire_id, of_object.wire_id);
        assert_string_equal(by_spec.name, of_object.name);
        terse_codec_destroy(codec);
    }
    assert_int_equal(terse_codec_check("topk:keep=2", NULL, &fault), TERSE_BAD_SPEC);
    assert_int_equal(fault.offset, 10);
    assert_int_equal(terse_codec_check(NULL, &listed, NULL), TERSE_BAD_ARGUMENT);
    terse_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_those_of_the_method),
        cmocka_unit_test(the_unit_of_a_residual),
        cmocka_unit_test(what_can_be_made),
        cmocka_unit_test(votes_are_signs),
        cmocka_unit_test(buckets_may_be_posted),
        cmocka_unit_test(exchanges_and_rates),
        cmocka_unit_test(facts_by_hand),
        cmocka_unit_test(entries_make_up_the_complete_spec),
        cmocka_unit_test(what_was_given_and_what_not),
        cmocka_unit_test(options_are_added_to_a_spec),
        cmocka_unit_test(signs_are_voted_on_by_name_or_not),
        cmocka_unit_test(check_finds_what_create_finds),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(codecs_are_described_by_spec),
        cmocka_unit_test(sections_make_up_a_payload),
    };
    return cmocka_run_group_tests_name("describe", tests, NULL, NULL);
}
