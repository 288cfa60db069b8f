/* Every kernel of every set that this CPU has, against ref. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <terse/info.h>

#include "kernels/bind.h"
#include "kernels/compare.h"

#define MAX_SLOTS 64u

static struct lab lab;

static void slot_agrees(void **state)
{
    const size_t slot = *(const size_t *)*state;
    assert_string_equal(compare_name(slot), tsk_slot_names[slot]);
    terse_kernel_set_about about;
    for (uint32_t i = 1; terse_kernel_set_list(i, &about) == TERSE_OK; i++) {
        const struct tsk_table *set;
        if (!about.supported) {
            printf("%s not compared: this CPU does not have it\n", about.name);
            continue;
        }
        assert_int_equal(terse_kernel_set_select(about.name, NULL), TERSE_OK);
        assert_int_equal(tsk_bound(&set, NULL), TERSE_OK);
        assert_int_equal(compare_slot(&lab, set, about.name, slot), 0);
    }
}

int main(void)
{
    static size_t slots[MAX_SLOTS];
    static struct CMUnitTest tests[MAX_SLOTS];
    if (tsk_slot_count > MAX_SLOTS || lab_open(&lab) != 0)
        return 1;
    for (size_t i = 0; i < tsk_slot_count; i++) {
        slots[i] = i;
        tests[i] = (struct CMUnitTest){tsk_slot_names[i], slot_agrees, NULL, NULL, &slots[i]};
    }
    const int failed = _cmocka_run_group_tests("kernels/sets", tests, tsk_slot_count, NULL, NULL);
    printf("%zu trials\n", lab.trials);
    lab_close(&lab);
    return failed;
}
