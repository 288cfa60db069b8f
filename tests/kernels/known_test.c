/* Every set, ref included, against answers from elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <terse/info.h>

#include "kernels/bind.h"
#include "kernels/known.h"

#define MAX_KNOWN 16u

static void sets_know(void **state)
{
    const struct known *known = *state;
    terse_kernel_set_about about;
    for (uint32_t i = 0; terse_kernel_set_list(i, &about) == TERSE_OK; i++) {
        const struct tsk_table *set;
        if (!about.supported) {
            printf("%s not asked: this CPU does not have it\n", about.name);
            continue;
        }
        assert_int_equal(terse_kernel_set_select(about.name, NULL), TERSE_OK);
        assert_int_equal(tsk_bound(&set, NULL), TERSE_OK);
        assert_int_equal(known->wrong(set), 0);
    }
}

int main(void)
{
    static struct known known[MAX_KNOWN];
    static struct CMUnitTest tests[MAX_KNOWN];
    if (known_count > MAX_KNOWN)
        return 1;
    for (size_t i = 0; i < known_count; i++) {
        known[i] = known_all[i];
        tests[i] = (struct CMUnitTest){known[i].name, sets_know, NULL, NULL, &known[i]};
    }
    return _cmocka_run_group_tests("kernels/known", tests, known_count, NULL, NULL);
}
