/* Every malloc of the process is counted, unless a sanitizer owns malloc. */
#ifndef TEST_ALLOCATIONS_H
#define TEST_ALLOCATIONS_H

/* Allocations so far; always 0 where they cannot be counted. */
long test_allocations(void);

/* Blocks that were allocated and not freed; always 0 where they cannot be counted. */
long test_blocks(void);

/* A test of the counter; it is skipped with the reason where it cannot count. */
void test_the_counter_counts(void **unused);

#endif
