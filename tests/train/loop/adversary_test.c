/* Adversaries: the text that names them, and what they contribute. */
#include "loop/adversary.h"

#include <math.h>

#include "support/support.h"

enum { COUNT = 10000 };

static struct trn_adversaries parsed(const char *text)
{
    struct trn_adversaries out;
    terse_fault fault = {0};
    if (trn_adversaries_parse(text, &out, &fault) != TERSE_OK)
        fail_msg("%s: %s", text, fault.text);
    return out;
}

static void texts(void **unused)
{
    (void)unused;
    assert_int_equal(parsed("none").count, 0);
    const struct trn_adversaries plain = parsed("3:invert");
    assert_true(plain.count == 3 && plain.attack == TRN_ATTACK_INVERT && plain.factor == 1);
    const struct trn_adversaries scaled = parsed("12:invert*10");
    assert_true(scaled.count == 12 && scaled.attack == TRN_ATTACK_INVERT && scaled.factor == 10);
    assert_true(parsed("1:random*0.5").attack == TRN_ATTACK_RANDOM);
    assert_true(parsed("1:random*0.5").factor == 0.5f);
    assert_true(parsed("1:zero").attack == TRN_ATTACK_ZERO);
    assert_true(parsed("4096:blind").attack == TRN_ATTACK_BLIND);
}

static void wrong_texts_are_explained(void **unused)
{
    static const char *const wrong[][2] = {
        {"", "'' is not their number and what they do; write 3:invert, or none"},
        {"3", "'3' is not their number"},
        {"invert", "'invert' is not their number"},
        {":invert", "'' is not a whole number from 1 to 4096"},
        {"0:invert", "'0' is not a whole number from 1 to 4096"},
        {"-1:invert", "'-1' is not a whole number"},
        {"4097:invert", "'4097' is not a whole number"},
        {"99999999999999999999:zero", "is not a whole number"},
        {"3:inverts", "no attack named 'inverts'; did you mean 'invert'?"},
        {"3:inv", "did you mean 'invert'?"},
        {"3:rendom*2", "no attack named 'rendom'; did you mean 'random'?"},
        {"3:sabotage", "no attack named 'sabotage'; there are invert, random, zero, blind"},
        {"3:", "no attack named ''"},
        {"3:invert*", "the factor '' is not a number from 1e-06 to 1e+06; write 3:invert*10"},
        {"3:invert*0", "the factor '0' is not a number"},
        {"3:blind*-2", "the factor '-2' is not a number from"},
        {"3:random*nan", "the factor 'nan' is not a number"},
        {"3:random*1e7", "write 3:random*10"},
        {"3:zero*2", "zero takes no factor"},
        {"3:invert:2", "no attack named 'invert:2'"},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct trn_adversaries out;
        terse_fault fault = {0};
        assert_int_equal(trn_adversaries_parse(wrong[i][0], &out, &fault), TERSE_BAD_SPEC);
        if (!strstr(fault.text, wrong[i][1]) || !strstr(fault.text, "--adversaries: "))
            fail_msg("'%s': %s", wrong[i][0], fault.text);
    }
}

static void they_are_the_last_ranks(void **unused)
{
    const struct trn_adversaries three = parsed("3:zero");
    const struct trn_adversaries none = parsed("none");
    (void)unused;
    for (uint32_t rank = 0; rank < 7; rank++) {
        assert_int_equal(trn_is_adversary(&three, rank, 7), rank >= 4);
        assert_int_equal(trn_is_adversary(&none, rank, 7), 0);
        assert_int_equal(trn_is_adversary(&three, rank % 3, 3), 1);
    }
}

/* ---- what they contribute ---- */

static float gradient[COUNT];

static int fill(void **unused)
{
    struct test_random random = {test_seed()};
    (void)unused;
    test_fill(&random, TEST_NORMAL, gradient, COUNT);
    gradient[7] = 0;
    return 0;
}

static const float *contributed(const char *text, uint64_t seed, uint64_t step, uint32_t rank)
{
    static float out[8][COUNT];
    static int next;
    const struct trn_adversaries adversaries = parsed(text);
    const struct trn_attacker attacker = {.seed = seed, .step = step, .rank = rank};
    float *const here = out[next++ % 8];
    trn_attack(&adversaries, &attacker, gradient, here, COUNT);
    return here;
}

static void an_inverter_contributes_minus_g(void **unused)
{
    const float *const plain = contributed("1:invert", 1, 0, 3);
    const float *const scaled = contributed("1:invert*10", 1, 0, 3);
    const float *const zero = contributed("1:zero", 1, 0, 3);
    (void)unused;
    for (size_t i = 0; i < COUNT; i++) {
        const float minus = -gradient[i];
        assert_memory_equal(&plain[i], &minus, sizeof minus);
        assert_true(scaled[i] == -10.0f * gradient[i]);
        assert_true(zero[i] == 0);
    }
}

static double mean_square(const float *v)
{
    double sum = 0;
    for (size_t i = 0; i < COUNT; i++)
        sum += (double)v[i] * (double)v[i] / COUNT;
    return sum;
}

static void random_numbers_have_the_size_of_g(void **unused)
{
    const float *const first = contributed("1:random", 1, 5, 3);
    double mean = 0;
    (void)unused;
    for (size_t i = 0; i < COUNT; i++)
        mean += (double)first[i] / COUNT;
    /* six standard deviations: 6 / sqrt(COUNT), and of the square 6 sqrt(2 / COUNT) */
    assert_true(fabs(mean) < 0.06 * sqrt(mean_square(gradient)));
    assert_true(fabs(mean_square(first) / mean_square(gradient) - 1) < 0.085);
    const float *const twice = contributed("1:random*2", 1, 5, 3);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(twice[i] == 2 * first[i]);
}

static void draws_depend_on_seed_rank_and_step(void **unused)
{
    const float *const first = contributed("1:random", 1, 5, 3);
    (void)unused;
    assert_memory_equal(first, contributed("2:random", 1, 5, 3), sizeof gradient);
    assert_memory_not_equal(first, contributed("1:random", 2, 5, 3), sizeof gradient);
    assert_memory_not_equal(first, contributed("1:random", 1, 6, 3), sizeof gradient);
    assert_memory_not_equal(first, contributed("1:random", 1, 5, 2), sizeof gradient);
}

static void a_blind_one_multiplies_by_a_fixed_vector(void **unused)
{
    const float *const first = contributed("1:blind", 1, 0, 3);
    double squares = 0;
    int negative = 0;
    (void)unused;
    assert_memory_equal(first, contributed("1:blind", 1, 99, 3), sizeof gradient);
    assert_memory_not_equal(first, contributed("1:blind", 1, 0, 2), sizeof gradient);
    assert_memory_not_equal(first, contributed("1:blind", 2, 0, 3), sizeof gradient);
    assert_true(first[7] == 0);
    for (size_t i = 0; i < COUNT; i++) {
        const double times = gradient[i] != 0 ? (double)first[i] / (double)gradient[i] : 0;
        squares += times * times / COUNT;
        negative += times < 0;
    }
    assert_true(fabs(squares - 1) < 0.085 && abs(negative - COUNT / 2) < 300);
    /* another gradient, the same vector */
    float *const doubled = malloc(sizeof gradient);
    assert_non_null(doubled);
    for (size_t i = 0; i < COUNT; i++)
        doubled[i] = 2 * gradient[i];
    const struct trn_adversaries blind = parsed("1:blind");
    const struct trn_attacker attacker = {.seed = 1, .step = 4, .rank = 3};
    trn_attack(&blind, &attacker, doubled, doubled, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(doubled[i] == 2 * first[i]);
    free(doubled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(wrong_texts_are_explained),
        cmocka_unit_test(they_are_the_last_ranks),
        cmocka_unit_test(an_inverter_contributes_minus_g),
        cmocka_unit_test(random_numbers_have_the_size_of_g),
        cmocka_unit_test(draws_depend_on_seed_rank_and_step),
        cmocka_unit_test(a_blind_one_multiplies_by_a_fixed_vector),
    };
    return cmocka_run_group_tests_name("adversary", tests, fill, NULL);
}
