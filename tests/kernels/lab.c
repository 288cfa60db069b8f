#include "kernels/lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define AROUND 64u /* bytes that are watched on either side of an output */

uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- memory ---- */

static int guarded_open(struct guarded *memory, size_t len)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    memory->len = (len + page - 1) / page * page;
    uint8_t *map =
        mmap(NULL, memory->len + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return -1;
    memory->first = map + page;
    return mprotect(memory->first, memory->len, PROT_READ | PROT_WRITE);
}

static void guarded_close(struct guarded *memory)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (memory->first)
        (void)munmap(memory->first - page, memory->len + 2 * page);
    memory->first = NULL;
}

static uint8_t *place_in(const struct guarded *memory, unsigned place, size_t size, size_t element)
{
    if (place == PLACE_END)
        return memory->first + memory->len - size;
    return memory->first + place * element;
}

int lab_open(struct lab *lab)
{
    const char *seed = getenv("TERSE_TEST_SEED");
    const char *quick = getenv("TERSE_TEST_QUICK");
    const size_t len = (LAB_LARGE + PLACES + TSK_COLLECT_ROOM) * sizeof(float);
    memset(lab, 0, sizeof *lab);
    lab->seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
    lab->state = lab->seed;
    lab->quick = quick && strcmp(quick, "1") == 0;
    printf("seed %llu (TERSE_TEST_SEED sets it)\n", (unsigned long long)lab->seed);
    if (lab->quick)
        printf("TERSE_TEST_QUICK=1: fewer lengths and places\n");
    for (unsigned i = 0; i < LAB_BUFFERS; i++)
        if (guarded_open(&lab->in[i], len) || guarded_open(&lab->ref[i], len) ||
            guarded_open(&lab->set[i], len))
            return -1;
    return 0;
}

void lab_close(struct lab *lab)
{
    for (unsigned i = 0; i < LAB_BUFFERS; i++) {
        guarded_close(&lab->in[i]);
        guarded_close(&lab->ref[i]);
        guarded_close(&lab->set[i]);
    }
}

/* ---- numbers ---- */

/* SplitMix64 */
uint64_t lab_random(struct lab *lab)
{
    uint64_t z = lab->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint32_t lab_below(struct lab *lab, uint32_t limit)
{
    return (uint32_t)((lab_random(lab) >> 32) * limit >> 32);
}

static void fill_noise(struct lab *lab, uint8_t *at, size_t len)
{
    for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
        const uint64_t random = lab_random(lab);
        memcpy(at + i, &random, len - i < sizeof random ? len - i : sizeof random);
    }
}

/* A sum of four uniform numbers is bell-shaped enough. */
static float normal_float(uint64_t random)
{
    int sum = -2 * 65535;
    for (unsigned i = 0; i < 4; i++)
        sum += (int)(random >> 16 * i & 0xffff);
    return (float)sum * 0x1p-16f;
}

static float special_float(uint32_t random)
{
    static const uint32_t special[] = {
        0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, /* infinities, quiet */
        0x7f800001u, 0xffa00000u, 0x7fbfffffu, 0x7fffffffu, /* signalling; all ones */
    };
    return float_of_bits(special[random % 8]);
}

static float tie_float(uint64_t random)
{
    const uint32_t any = (uint32_t)random;
    switch (random >> 62) {
    case 0: return float_of_bits((any & 0xbfffe000u) | 0x1000u); /* f16 */
    case 1: return float_of_bits((any & 0xbfff0000u) | 0x8000u); /* bf16 */
    case 2: return ((float)(any % 64) - 32.0f) * 0.5f;           /* small steps */
    default: return ((float)(any % 4096) - 2048.0f) * 0x1p-25f;  /* f16 denormals */
    }
}

static float some_float(struct lab *lab, enum fill fill)
{
    const uint64_t random = lab_random(lab);
    const uint32_t any = (uint32_t)random;
    const uint32_t kind = (uint32_t)(random >> 32) % 8;
    switch (fill) {
    case FILL_ZEROS: return kind == 0 ? normal_float(random) : float_of_bits(any & 0x80000000u);
    case FILL_DENORMAL: return float_of_bits(any & 0x80ffffffu);
    case FILL_HUGE: return float_of_bits((any & 0x837fffffu) | 0x7c000000u);
    case FILL_TIES: return tie_float(random);
    case FILL_FINITE: return (any & 0x7f800000u) == 0x7f800000u ? 1.0f : float_of_bits(any);
    case FILL_SPECIAL: return kind == 0 ? special_float(any) : normal_float(random);
    case FILL_ANY: return float_of_bits(any);
    case FILL_NORMAL:
    case FILL_COUNT: break;
    }
    return normal_float(random);
}

float *lab_floats(struct lab *lab, unsigned which, const struct trial *trial, size_t count,
                  enum fill fill)
{
    const size_t element = sizeof(float);
    uint8_t *at = place_in(&lab->in[which], trial->place % (PLACES + 1), count * element, element);
    for (size_t i = 0; i < count; i++) {
        const float x = some_float(lab, fill);
        memcpy(at + i * element, &x, element);
    }
    return (float *)(void *)at;
}

uint8_t *lab_payload_floats(struct lab *lab, unsigned which, const struct trial *trial,
                            size_t count, enum fill fill)
{
    uint8_t *at = place_in(&lab->in[which], trial->place, count * sizeof(float), 1);
    for (size_t i = 0; i < count; i++) {
        const float x = some_float(lab, fill);
        memcpy(at + i * sizeof x, &x, sizeof x);
    }
    return at;
}

uint16_t *lab_codes(struct lab *lab, unsigned which, const struct trial *trial, size_t count)
{
    return (uint16_t *)(void *)place_in(&lab->in[which], trial->place, count * 2, 2);
}

uint8_t *lab_bytes(struct lab *lab, unsigned which, const struct trial *trial, size_t len)
{
    uint8_t *at = place_in(&lab->in[which], trial->place, len, 1);
    fill_noise(lab, at, len);
    return at;
}

/* ---- outputs ---- */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static struct pair pair_at(struct lab *lab, unsigned which, const struct trial *trial, size_t size,
                           size_t element)
{
    const struct guarded *memory = &lab->ref[which];
    /* Another alignment than that of the inputs. */
    const unsigned place = trial->place == PLACE_END ? PLACE_END : (trial->place * 7 + 3) % PLACES;
    uint8_t *ref = place_in(memory, place, size, element);
    const size_t at = (size_t)(ref - memory->first);
    struct pair pair = {
        .ref = ref,
        .set = lab->set[which].first + at,
        .size = size,
        .before = smaller(at, AROUND),
        .behind = smaller(memory->len - at - size, AROUND),
    };
    fill_noise(lab, ref - pair.before, pair.before);
    fill_noise(lab, ref + size, pair.behind);
    return pair;
}

static void pair_copy(const struct pair *pair)
{
    memcpy(pair->set - pair->before, pair->ref - pair->before,
           pair->before + pair->size + pair->behind);
}

struct pair lab_output(struct lab *lab, unsigned which, const struct trial *trial, size_t count,
                       size_t element)
{
    const struct pair pair = pair_at(lab, which, trial, count * element, element);
    fill_noise(lab, pair.ref, pair.size);
    pair_copy(&pair);
    return pair;
}

struct pair lab_output_floats(struct lab *lab, unsigned which, const struct trial *trial,
                              size_t count, enum fill fill)
{
    const struct pair pair = pair_at(lab, which, trial, count * sizeof(float), sizeof(float));
    for (size_t i = 0; i < count; i++) {
        const float x = some_float(lab, fill);
        memcpy(pair.ref + i * sizeof x, &x, sizeof x);
    }
    pair_copy(&pair);
    return pair;
}

size_t pair_bytes_differ(const struct pair *pair)
{
    size_t different = 0;
    for (size_t i = 0; i < pair->size; i++)
        different += pair->ref[i] != pair->set[i];
    return different;
}

size_t pair_floats_differ(const struct pair *pair)
{
    size_t different = 0;
    for (size_t i = 0; i < pair->size / sizeof(float); i++) {
        float a, b;
        memcpy(&a, pair->ref + i * sizeof a, sizeof a);
        memcpy(&b, pair->set + i * sizeof b, sizeof b);
        different += !(isnan(a) && isnan(b)) && bits_of_float(a) != bits_of_float(b);
    }
    return different;
}

int pair_around_differs(const struct pair *pair)
{
    return memcmp(pair->ref - pair->before, pair->set - pair->before, pair->before) != 0 ||
           memcmp(pair->ref + pair->size, pair->set + pair->size, pair->behind) != 0;
}
