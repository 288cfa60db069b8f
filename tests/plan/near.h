/* A number within a share of what is expected. */
#ifndef TESTS_PLAN_NEAR_H
#define TESTS_PLAN_NEAR_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define check_near(got, want, share)                                                             \
    do {                                                                                         \
        const double got_ = (got);                                                               \
        const double want_ = (want);                                                             \
        if (!(fabs(got_ - want_) <= (share)*fabs(want_)))                                        \
            fail_msg("%s is %.9g, expected %.9g within %g", #got, got_, want_, (double)(share)); \
    } while (0)

#endif
