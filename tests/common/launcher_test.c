/* Programs and libterse-mpi see the same launcher in any environment. */
#include "common/launcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <terse/mpi.h>

static const char *const variables[] = {
    "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",    "PMIX_RANK", "PMI_RANK",
    "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"};
enum { VARIABLES = sizeof variables / sizeof variables[0] };
static const char *const values[] = {NULL, "4", "0", "x", "99999"};
enum { VALUES = sizeof values / sizeof values[0] };

static void put(const char *name, const char *value)
{
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

static void both_see_the_same(void **state)
{
    unsigned cases = 1;
    (void)state;
    for (int i = 0; i < VARIABLES; i++)
        cases *= VALUES;
    for (unsigned number = 0; number < cases; number++) {
        unsigned rest = number;
        for (int i = 0; i < VARIABLES; i++, rest /= VALUES)
            put(variables[i], values[rest % VALUES]);
        if (com_launched() != terse_mpi_launched())
            fail_msg("case %u: %u and %u workers", number, (unsigned)com_launched(),
                     (unsigned)terse_mpi_launched());
    }
}

static void known_launchers_are_seen(void **state)
{
    (void)state;
    for (int i = 0; i < VARIABLES; i++)
        put(variables[i], NULL);
    assert_int_equal(com_launched(), 0);
    put("SLURM_NTASKS", "8"); /* a batch script, which is no worker */
    assert_int_equal(com_launched(), 0);
    put("PMIX_RANK", "3");
    assert_int_equal(com_launched(), 1);
    put("SLURM_STEP_NUM_TASKS", "8");
    assert_int_equal(com_launched(), 8);
    put("PMI_SIZE", "2");
    assert_int_equal(com_launched(), 2);
    put("OMPI_COMM_WORLD_SIZE", "4");
    assert_int_equal(com_launched(), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_see_the_same),
        cmocka_unit_test(known_launchers_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
