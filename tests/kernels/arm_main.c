/* The comparisons of sets_test.c and known_test.c for machines without cmocka. Prints counts and
 * exits with 1 if a result differs. */
#include <stdio.h>
#include <string.h>

#include <terse/info.h>

#include "kernels/bind.h"
#include "kernels/compare.h"
#include "kernels/known.h"

static size_t set_fails(struct lab *lab, const char *name)
{
    const struct tsk_table *set;
    size_t failed = 0;
    if (terse_kernel_set_select(name, NULL) != TERSE_OK || tsk_bound(&set, NULL) != TERSE_OK) {
        printf("not ok %s: cannot be bound\n", name);
        return 1;
    }
    for (size_t i = 0; i < known_count; i++) {
        const size_t wrong = known_all[i].wrong(set);
        printf("%s %s knows %s\n", wrong ? "not ok" : "ok", name, known_all[i].name);
        failed += wrong > 0;
    }
    for (size_t slot = 0; strcmp(name, "ref") != 0 && slot < tsk_slot_count; slot++) {
        const size_t different = compare_slot(lab, set, name, slot);
        printf("%s %s %s\n", different ? "not ok" : "ok", name, tsk_slot_names[slot]);
        failed += different > 0;
    }
    return failed;
}

int main(void)
{
    static struct lab lab;
    terse_kernel_set_about about;
    size_t failed = 0;
    if (lab_open(&lab) != 0)
        return 1;
    for (uint32_t i = 0; terse_kernel_set_list(i, &about) == TERSE_OK; i++)
        if (about.supported)
            failed += set_fails(&lab, about.name);
        else
            printf("skip %s: this CPU does not have it\n", about.name);
    printf("%zu trials, %zu tests failed\n", lab.trials, failed);
    lab_close(&lab);
    return failed > 0;
}
