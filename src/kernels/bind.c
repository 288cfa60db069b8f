/* Which set is in use: decided on first use, changed by terse_kernel_set_select alone.
 *
 * Every supported set gets a complete table, its own kernels laid over those of ref, before the
 * first caller sees any; afterwards only the number of the set in use changes. */
#include "kernels/bind.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define SLOT_COUNT (sizeof(struct tsk_table) / sizeof(kernel_address))

typedef void (*kernel_address)(void);

/* ---- the sets of this build ---- */

static const char *nothing_missing(void)
{
    return NULL;
}

#if defined(__x86_64__)
static const char *avx2_missing(void)
{
    unsigned a, b, c = 0, d;
    if (!__builtin_cpu_supports("avx2"))
        return "avx2";
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_F16C) == 0)
        return "f16c";
    return __builtin_cpu_supports("bmi2") ? NULL : "bmi2";
}

static const char *avx512_missing(void)
{
    if (!__builtin_cpu_supports("avx512f"))
        return "avx512f";
    if (!__builtin_cpu_supports("avx512bw"))
        return "avx512bw";
    if (!__builtin_cpu_supports("avx512dq"))
        return "avx512dq";
    if (!__builtin_cpu_supports("avx512vl"))
        return "avx512vl";
    return avx2_missing();
}
#endif

/* From slowest to fastest. */
static const struct tsk_kernel_set sets[] = {
    {"ref", "", &tsk_ref, nothing_missing},
#if defined(__x86_64__)
    {"avx2", "avx2 f16c bmi2", &tsk_avx2, avx2_missing},
    {"avx512", "avx512f avx512bw avx512dq avx512vl", &tsk_avx512, avx512_missing},
#elif defined(__aarch64__)
    {"neon", "neon", &tsk_neon, nothing_missing}, /* part of every arm64 CPU */
#endif
};

#define SET_COUNT (sizeof sets / sizeof sets[0])

/* Every set there is, so that one from elsewhere is told from a typing error. */
static const char *const all_names[] = {"ref", "avx2", "avx512", "neon"};

/* ---- tables ---- */

static void slots_of(const struct tsk_table *table, kernel_address slots[SLOT_COUNT])
{
    memcpy(slots, table, sizeof *table);
}

static void lay_over_ref(const struct tsk_table *table, struct tsk_table *complete)
{
    kernel_address own[SLOT_COUNT];
    kernel_address all[SLOT_COUNT];
    slots_of(table, own);
    slots_of(&tsk_ref, all);
    for (size_t i = 0; i < SLOT_COUNT; i++)
        if (own[i])
            all[i] = own[i];
    memcpy(complete, all, sizeof *complete);
}

/* ---- choosing ---- */

static struct {
    pthread_once_t once;
    struct tsk_table complete[SET_COUNT];
    atomic_size_t set; /* in use; SET_COUNT while TERSE_KERNELS is bad */
    char asked[64];    /* TERSE_KERNELS, as long as it is bad */
} binding = {.once = PTHREAD_ONCE_INIT};

static size_t best_set(void)
{
    size_t best = SET_COUNT - 1;
    while (sets[best].missing())
        best--;
    return best;
}

static void list_names(char *out, size_t cap)
{
    size_t len = 0;
    for (size_t i = 0; i < SET_COUNT; i++) {
        const char *comma = i == 0 ? "" : ", ";
        const size_t need = strlen(comma) + strlen(sets[i].name);
        if (len + need >= cap)
            break;
        memcpy(out + len, comma, strlen(comma));
        memcpy(out + len + strlen(comma), sets[i].name, strlen(sets[i].name));
        len += need;
    }
    out[len] = '\0';
}

/* The number of the set `name`, if it can be used here. */
static terse_status find_set(const char *name, size_t *out, terse_fault *fault)
{
    char names[64];
    list_names(names, sizeof names);
    for (size_t i = 0; i < SET_COUNT; i++) {
        if (strcmp(name, sets[i].name) != 0)
            continue;
        if (sets[i].missing())
            return tsi_fail(fault, TERSE_UNSUPPORTED, 0,
                            "kernel set '%s' needs %s, and this CPU has no %s", name, sets[i].needs,
                            sets[i].missing());
        *out = i;
        return TERSE_OK;
    }
    for (size_t i = 0; i < sizeof all_names / sizeof all_names[0]; i++)
        if (strcmp(name, all_names[i]) == 0)
            return tsi_fail(fault, TERSE_UNSUPPORTED, 0,
                            "kernel set '%s' is for another kind of CPU; this build has %s", name,
                            names);
    return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "no kernel set '%.40s'; this build has %s", name,
                    names);
}

static void bind_once(void)
{
    const char *asked = getenv("TERSE_KERNELS");
    size_t set = best_set();
    for (size_t i = 0; i < SET_COUNT; i++)
        if (!sets[i].missing())
            lay_over_ref(sets[i].table, &binding.complete[i]);
    if (asked && *asked && find_set(asked, &set, NULL) != TERSE_OK) {
        strncpy(binding.asked, asked, sizeof binding.asked - 1);
        set = SET_COUNT;
    }
    atomic_store(&binding.set, set);
}

static terse_status set_in_use(size_t *out, terse_fault *fault)
{
    pthread_once(&binding.once, bind_once);
    const size_t set = atomic_load_explicit(&binding.set, memory_order_acquire);
    if (set == SET_COUNT)
        return find_set(binding.asked, out, fault);
    *out = set;
    return TERSE_OK;
}

terse_status tsk_bound(const struct tsk_table **out, terse_fault *fault)
{
    size_t set = 0;
    const terse_status status = set_in_use(&set, fault);
    if (status == TERSE_OK)
        *out = &binding.complete[set];
    return status;
}

/* ---- public ---- */

terse_status terse_kernel_set_name(const char **name, terse_fault *fault)
{
    size_t set = 0;
    if (!name)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "name is NULL");
    const terse_status status = set_in_use(&set, fault);
    if (status == TERSE_OK)
        *name = sets[set].name;
    return status;
}

terse_status terse_kernel_set_select(const char *name, terse_fault *fault)
{
    pthread_once(&binding.once, bind_once);
    size_t set = best_set();
    if (name) {
        const terse_status status = find_set(name, &set, fault);
        if (status != TERSE_OK)
            return status;
    }
    atomic_store(&binding.set, set);
    return TERSE_OK;
}

terse_status terse_kernel_set_list(uint32_t index, terse_kernel_set_about *out)
{
    if (index >= SET_COUNT || !out)
        return TERSE_BAD_ARGUMENT;
    kernel_address slots[SLOT_COUNT];
    uint32_t kernels = 0;
    slots_of(sets[index].table, slots);
    for (size_t i = 0; i < SLOT_COUNT; i++)
        kernels += slots[i] != NULL;
    *out = (terse_kernel_set_about){
        .name = sets[index].name,
        .needs = sets[index].needs,
        .supported = sets[index].missing() == NULL,
        .kernels = kernels,
    };
    return TERSE_OK;
}

terse_status terse_kernel_list(uint32_t index, const char **kernel, const char **set)
{
    size_t used = 0;
    if (index >= tsk_slot_count || !kernel || !set)
        return TERSE_BAD_ARGUMENT;
    const terse_status status = set_in_use(&used, NULL);
    if (status != TERSE_OK)
        return status;
    kernel_address slots[SLOT_COUNT];
    slots_of(sets[used].table, slots);
    *kernel = tsk_slot_names[index];
    *set = slots[index] ? sets[used].name : "ref";
    return TERSE_OK;
}
