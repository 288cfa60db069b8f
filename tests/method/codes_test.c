/* A peer whose checksums are right and whose codes are not: nobody believes it, whether it speaks
 * as a worker or as the owner of a slice. */
#include <stdio.h>

#include "method/crew.h"
#include "method/method.h"

enum { WORKERS = 3, LIAR = 1, COUNT = 40000 };

struct codes_case {
    const char *spec;
    uint8_t fill; /* bytes of codes that no encoder writes */
    int as_owner;
    const char *rule;
};

static const struct codes_case cases[] = {
    {"qsgd:bits=4", 0x88, 0, "a code is not on the grid"},
    {"qsgd:bits=4", 0x88, 1, "a code is not on the grid"},
    {"natural", 0xff, 0, "a code is not on the grid"},
    {"natural", 0xff, 1, "a code is not on the grid"},
    {"fp16", 0xff, 0, "a value is not finite"},
    {"fp16", 0xff, 1, "a value is not finite"},
    {"median", 0xff, 0, "a value is not finite"},
    {"median", 0xff, 1, "a value is not finite"},
    {"signum:zero=keep", 0xaa, 0, "a code is not on the grid"},
    {"signum:zero=keep", 0xaa, 1, "a code is not on the grid"},
    {"qadam", 0xff, 1, "a code is not on the grid"},
};

static const struct codes_case *current;
static const struct terse_codec_ops *honest;
static struct terse_codec_ops lying;
static uint32_t lies;

static terse_status encode_lie(const struct tsi_call *call, const float *in, float *take,
                               uint8_t *section, size_t *len)
{
    const terse_status status = honest->encode(call, in, take, section, len);
    if (status == TERSE_OK && (call->key->worker >= WORKERS) == current->as_owner) {
        memset(section + *len / 2, current->fill, 8);
        lies++;
    }
    return status;
}

static void check(const struct codes_case *here)
{
    struct crew crew = crew_new(
        &(struct crew_plan){.spec = here->spec, .workers = WORKERS, .count = COUNT, .seed = 5});
    float *const before = test_floats(COUNT);
    terse_fault fault = {.rank = -1};
    for (uint32_t r = 0; r < WORKERS; r++) /* as if the ranks were processes */
        crew.method[r]->collective[TSI_MAIN]->unchecked = 0;
    crew_train(&crew, TEST_NORMAL, 0, 2);
    struct tsi_bucket *const bucket = crew.method[LIAR]->collective[TSI_MAIN]->buckets.list[0];
    terse_codec *const codec = here->as_owner ? bucket->back_codec : bucket->codec;
    current = here;
    honest = codec->ops;
    lying = *honest;
    lying.encode = encode_lie;
    codec->ops = &lying;
    lies = 0;
    memcpy(before, crew.weights[0], COUNT * sizeof *before);
    crew_gradients(&crew, TEST_NORMAL, 2);
    const terse_status status = terse_method_step_all(
        crew.method, (const float *const *)crew.gradient, crew.report, &fault);
    assert_true(lies > 0);
    if (status != TERSE_BAD_FRAME || fault.rank != LIAR || !strstr(fault.text, here->rule))
        fail_msg("%s, %s: status %d, rank %d: \"%s\"", here->spec,
                 here->as_owner ? "as an owner" : "as a worker", status, fault.rank, fault.text);
    for (uint32_t r = 0; r < WORKERS; r++)
        if (!test_same_bits(before, crew.weights[r], COUNT))
            fail_msg("%s: worker %u has moved its weights", here->spec, r);
    codec->ops = honest;
    free(before);
    crew_free(&crew);
}

static void invalid_codes_are_refused_before_a_step_is_committed(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check(&cases[i]);
}

/* A tensor whose gradient is 0 has a section without codes. */
static void a_zero_gradient_does_not_repeat_the_last_step(void **unused)
{
    struct crew crew = crew_new(
        &(struct crew_plan){.spec = "qsgd:momentum=0", .workers = 2, .count = COUNT, .seed = 5});
    float *const before = test_floats(COUNT);
    (void)unused;
    crew_train(&crew, TEST_NORMAL, 0, 2);
    memcpy(before, crew.weights[0], COUNT * sizeof *before);
    for (uint32_t r = 0; r < 2; r++)
        memset(crew.gradient[r], 0, COUNT * sizeof(float));
    crew_step(&crew);
    assert_true(test_same_bits(before, crew.weights[0], COUNT));
    free(before);
    crew_free(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_codes_are_refused_before_a_step_is_committed),
        cmocka_unit_test(a_zero_gradient_does_not_repeat_the_last_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
