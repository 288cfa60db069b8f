/* Traces written by hand, played on links: the times are worked out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "tests/plan/near.h"

/* One second of bytes from rank 0 to rank 1 and one to rank 2, posted at once, leave one after the
 * other; then rank 2 sends as much to rank 0. Or both send at once, and it comes in one after the
 * other. */
static void a_link_carries_one_thing_at_a_time(void **state)
{
    const struct pln_place place = {.bits_per_second = 1e6};
    struct pln_event of_root[] = {
        {.kind = PLN_POST, .operation = 0, .sent = 125000},
        {.kind = PLN_POST, .operation = 1, .sent = 125000},
        {.kind = PLN_POST, .operation = 2, .received = 125000},
        {.kind = PLN_WAIT, .operation = 2},
    };
    struct pln_event of_first[] = {
        {.kind = PLN_POST, .operation = 0, .received = 125000},
        {.kind = PLN_POST, .operation = 1},
        {.kind = PLN_WAIT, .operation = 0},
        {.kind = PLN_POST, .operation = 2},
    };
    struct pln_event of_second[] = {
        {.kind = PLN_POST, .operation = 0},
        {.kind = PLN_POST, .operation = 1, .received = 125000},
        {.kind = PLN_WAIT, .operation = 1},
        {.kind = PLN_POST, .operation = 2, .sent = 125000},
    };
    struct pln_rank ranks[] = {{of_root, 4, 4}, {of_first, 4, 4}, {of_second, 4, 4}};
    const struct pln_trace trace = {
        .workers = 3, .ranks = 3, .rank = ranks, .operations = 3, .every = 1, .scale = 1};
    (void)state;
    check_near(pln_simulate(&trace, &place).seconds, 3, 1e-9); /* rank 2 has its bytes after 2 s */
    of_first[2].kind = of_second[2].kind = PLN_CPU;            /* nobody waits before it sends */
    of_first[3].sent = 125000;
    of_root[2].received = 250000;
    check_near(pln_simulate(&trace, &place).seconds, 2, 1e-9);
    of_first[3].sent = of_second[3].sent = 0; /* as an extrapolation may have it */
    check_near(pln_simulate(&trace, &place).seconds, 2, 1e-9);
}

/* A link that saves up a quarter of a second carries a second of bytes in three quarters. It saves
 * up no more than that in a pause, and nothing while it is busy. */
static void a_burst_is_ahead_of_the_rate_once(void **state)
{
    struct pln_place place = {.bits_per_second = 1e6, .burst = 0.25};
    struct pln_event of_root[] = {
        {.kind = PLN_POST, .operation = 0, .sent = 125000},
        {.kind = PLN_WAIT, .operation = 0},
        {.kind = PLN_CPU},
        {.kind = PLN_POST, .operation = 1, .sent = 125000},
        {.kind = PLN_WAIT, .operation = 1},
    };
    struct pln_event of_other[] = {
        {.kind = PLN_POST, .operation = 0, .received = 125000},
        {.kind = PLN_WAIT, .operation = 0},
        {.kind = PLN_CPU},
        {.kind = PLN_POST, .operation = 1, .received = 125000},
        {.kind = PLN_WAIT, .operation = 1},
    };
    struct pln_rank ranks[] = {{of_root, 5, 5}, {of_other, 5, 5}};
    const struct pln_trace trace = {
        .workers = 2, .ranks = 2, .rank = ranks, .operations = 2, .every = 1, .scale = 1};
    (void)state;
    check_near(pln_simulate(&trace, &place).seconds, 0.75 + 1, 1e-9);
    of_root[2].amount = of_other[2].amount = 0.1;
    check_near(pln_simulate(&trace, &place).seconds, 0.75 + 0.1 + 0.9, 1e-9);
    of_root[2].amount = of_other[2].amount = 7;
    check_near(pln_simulate(&trace, &place).seconds, 0.75 + 7 + 0.75, 1e-9);
    of_root[0].sent = of_other[0].received = 12500; /* a tenth of a second: all of it at once */
    check_near(pln_simulate(&trace, &place).seconds, 7 + 0.75, 1e-9);
    place.burst = 0;
    check_near(pln_simulate(&trace, &place).seconds, 0.1 + 7 + 1, 1e-9);
}

/* Both ranks hand over a bucket after half of the gradient. Where its bytes are there early, what
 * follows is sent before the other half is computed; where not, afterwards. In a node its ranks
 * average while they compute, and the leader passes on what it receives. */
static void ranks_compute_on_while_they_wait(void **state)
{
    struct pln_event events[] = {
        {.kind = PLN_COMPUTE, .amount = 0.5},
        {.kind = PLN_POST, .operation = 0, .sent = 125000, .received = 125000},
        {.kind = PLN_WAIT, .operation = 0},
        {.kind = PLN_POST, .operation = 1, .sent = 125000, .received = 125000},
        {.kind = PLN_COMPUTE, .amount = 0.5},
        {.kind = PLN_WAIT, .operation = 1},
    };
    struct pln_rank ranks[] = {{events, 6, 6}, {events, 6, 6}};
    const struct pln_trace trace = {
        .workers = 2, .ranks = 2, .rank = ranks, .operations = 2, .every = 1, .scale = 1};
    struct pln_place place = {.bits_per_second = 1e6, .compute = 4};
    (void)state;
    struct pln_cost cost = pln_simulate(&trace, &place);
    check_near(cost.seconds, 4, 1e-9); /* sent at 2 and 3 s, a second each */
    check_near(cost.compute_seconds, 4, 1e-9);
    check_near(cost.hidden_seconds, 2, 1e-9);
    place.bits_per_second = 1e5;
    cost = pln_simulate(&trace, &place);
    check_near(cost.seconds, 22, 1e-9); /* 2 s, and 10 s each */
    check_near(cost.hidden_seconds, 2, 1e-9);
    place = (struct pln_place){
        .bits_per_second = 1e6, .compute = 4, .inside = 2, .passes_on = 0.5 / 125000};
    cost = pln_simulate(&trace, &place);
    check_near(cost.seconds, 6, 1e-9); /* sent at 3 and 4.5 s, 1.5 s each */
    check_near(cost.compute_seconds, 4, 1e-9);
    check_near(cost.wire_seconds, 5, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_carries_one_thing_at_a_time),
        cmocka_unit_test(a_burst_is_ahead_of_the_rate_once),
        cmocka_unit_test(ranks_compute_on_while_they_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
