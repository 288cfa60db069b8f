#include "support/allocations.h"

#include <stdio.h>

#include "support/support.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_ALLOCATOR 0 /* the sanitizer has its own malloc */
#else
#define OWN_ALLOCATOR 1
#endif

static long allocations;
static long blocks; /* that were not freed */

#if OWN_ALLOCATOR
extern void *__libc_malloc(size_t len);
extern void *__libc_calloc(size_t count, size_t len);
extern void *__libc_realloc(void *old, size_t len);
extern void *__libc_memalign(size_t alignment, size_t len);
extern void __libc_free(void *block);

static void *counted(void *block)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&blocks, block != NULL, __ATOMIC_RELAXED);
    return block;
}

void *malloc(size_t len)
{
    return counted(__libc_malloc(len));
}

void *calloc(size_t count, size_t len)
{
    return counted(__libc_calloc(count, len));
}

void *realloc(void *old, size_t len)
{
    __atomic_sub_fetch(&blocks, old != NULL, __ATOMIC_RELAXED);
    return counted(__libc_realloc(old, len));
}

void *aligned_alloc(size_t alignment, size_t len)
{
    return counted(__libc_memalign(alignment, len));
}

/* The C library's would allocate with its own malloc. */
char *strdup(const char *text)
{
    const size_t len = strlen(text) + 1;
    char *const copy = malloc(len);
    return copy ? memcpy(copy, text, len) : NULL;
}

void free(void *block)
{
    __atomic_sub_fetch(&blocks, block != NULL, __ATOMIC_RELAXED);
    __libc_free(block);
}
#endif

long test_allocations(void)
{
    return __atomic_load_n(&allocations, __ATOMIC_RELAXED);
}

long test_blocks(void)
{
    return __atomic_load_n(&blocks, __ATOMIC_RELAXED);
}

void test_the_counter_counts(void **unused)
{
    (void)unused;
    const long before = test_allocations();
    const long held = test_blocks();
    void *volatile block = malloc(100);
    assert_int_equal(test_blocks(), held + OWN_ALLOCATOR);
    free(block);
    assert_int_equal(test_blocks(), held);
    if (OWN_ALLOCATOR)
        assert_true(test_allocations() > before);
    else
        printf("skipped: a sanitizer owns malloc here\n");
}
