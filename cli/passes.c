#include "passes.h"

#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

/* A cache line of integers or floats; the compiler splits it where registers are narrower. */
typedef uint32_t line_u32 __attribute__((vector_size(64), aligned(64), may_alias));
typedef float line_f32 __attribute__((vector_size(64), aligned(64), may_alias));

enum { LINE = 16 /* floats */, LANES = 4 /* lines in flight */ };

static volatile uint32_t sink; /* so that the reads are not optimised away */

static inline __attribute__((always_inline)) void read_lines(const float *values, size_t lines)
{
    const line_u32 *at = (const line_u32 *)(const void *)values;
    line_u32 seen[LANES] = {{0}};
    size_t i = 0;
    for (; i + LANES <= lines; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            seen[lane] |= at[i + lane];
    for (; i < lines; i++)
        seen[0] |= at[i];
    line_u32 all = seen[0] | seen[1] | seen[2] | seen[3];
    uint32_t bits = 0;
    for (size_t j = 0; j < LINE; j++)
        bits |= all[j];
    sink = bits;
}

static inline __attribute__((always_inline)) void write_lines(float *values, size_t lines)
{
    line_f32 *at = (line_f32 *)(void *)values;
    line_f32 one = {0};
    one += 1.0f;
    for (size_t i = 0; i < lines; i++) {
        at[i] = one;
        __asm__ volatile("" ::: "memory"); /* a store per line, not a call of memset */
    }
}

static inline __attribute__((always_inline)) void update_lines(float *values, size_t lines)
{
    line_f32 *at = (line_f32 *)(void *)values;
    for (size_t i = 0; i < lines; i++)
        at[i] += 0.5f;
}

enum pass { READ, WRITE, UPDATE };

static inline __attribute__((always_inline)) void run_lines(enum pass pass, float *values,
                                                            size_t lines)
{
    switch (pass) {
    case READ: read_lines(values, lines); break;
    case WRITE: write_lines(values, lines); break;
    case UPDATE: update_lines(values, lines); break;
    }
}

typedef void run_fn(enum pass pass, float *values, size_t lines);

static void run_plain(enum pass pass, float *values, size_t lines)
{
    run_lines(pass, values, lines);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void run_avx2(enum pass pass, float *values, size_t lines)
{
    run_lines(pass, values, lines);
}

__attribute__((target("avx512f"))) static void run_avx512(enum pass pass, float *values,
                                                          size_t lines)
{
    run_lines(pass, values, lines);
}
#endif

static run_fn *best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return run_avx512;
    if (__builtin_cpu_supports("avx2"))
        return run_avx2;
#endif
    return run_plain;
}

/* The share of thread `me` of `threads`, in whole lines. The last, incomplete line of a buffer is
 * left out: 15 floats are below the noise. */
static void run_share(enum pass pass, float *values, size_t count, unsigned me, unsigned threads)
{
    size_t lines = count / LINE;
    size_t first = lines / threads * me;
    size_t end = me + 1 == threads ? lines : first + lines / threads;
    best()(pass, values + first * LINE, end - first);
}

static void run(enum pass pass, float *values, size_t count, unsigned threads)
{
#ifdef _OPENMP
#pragma omp parallel num_threads((int)threads)
    run_share(pass, values, count, (unsigned)omp_get_thread_num(), (unsigned)omp_get_num_threads());
#else
    (void)threads;
    run_share(pass, values, count, 0, 1);
#endif
}

void pass_read(float *values, size_t count, unsigned threads)
{
    run(READ, values, count, threads);
}

void pass_write(float *values, size_t count, unsigned threads)
{
    run(WRITE, values, count, threads);
}

void pass_update(float *values, size_t count, unsigned threads)
{
    run(UPDATE, values, count, threads);
}

void pass_move(float *from, float *to, size_t count)
{
    enum { PIECE = 2048 }; /* floats that stay in the first cache between copy and zeroing */
    for (size_t i = 0; i < count; i += PIECE) {
        size_t piece = count - i < PIECE ? count - i : PIECE;
        memcpy(to + i, from + i, piece * sizeof *from);
        memset(from + i, 0, piece * sizeof *from);
    }
}

void pass_scatter(float *to, const uint32_t *index, const float *value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[index[i]] += value[i];
}
