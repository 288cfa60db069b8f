/* Every malloc of the process is counted, unless a sanitizer owns malloc. */
#ifndef TEST_ALLOCATIONS_H
#define TEST_ALLOCATIONS_H

/* So far; always 0 where they cannot be counted. */
long test_allocations(void);

/* A test of its own: the counter counts, or it says why it cannot. */
void test_the_counter_counts(void **unused);

#endif
