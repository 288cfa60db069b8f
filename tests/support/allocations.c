#include "support/allocations.h"

#include <stdio.h>

#include "support/support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_ALLOCATOR 0 /* the sanitizer has its own malloc */
#else
#define OWN_ALLOCATOR 1
#endif

static long allocations;

#if OWN_ALLOCATOR
extern void *__libc_malloc(size_t len);
extern void *__libc_calloc(size_t count, size_t len);
extern void *__libc_realloc(void *old, size_t len);
extern void *__libc_memalign(size_t alignment, size_t len);

void *malloc(size_t len)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_malloc(len);
}

void *calloc(size_t count, size_t len)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_calloc(count, len);
}

void *realloc(void *old, size_t len)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_realloc(old, len);
}

void *aligned_alloc(size_t alignment, size_t len)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_memalign(alignment, len);
}
#endif

long test_allocations(void)
{
    return __atomic_load_n(&allocations, __ATOMIC_RELAXED);
}

void test_the_counter_counts(void **unused)
{
    (void)unused;
    const long before = test_allocations();
    void *volatile block = malloc(100);
    free(block);
    if (OWN_ALLOCATOR)
        assert_true(test_allocations() > before);
    else
        printf("skipped: a sanitizer owns malloc here\n");
}
