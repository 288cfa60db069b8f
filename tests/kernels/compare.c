#include "kernels/compare.h"

#include <stdio.h>

#include "kernels/trials.h"

#define TOLD_AT_MOST 5u /* failing trials that are described */

static const struct {
    const char *name;
    trial_run run;
} slots[] = {
    {"magnitude_max_f32", trial_magnitude_max},
    {"magnitude_sum_f32", trial_magnitude_sum},
    {"square_sum_f32", trial_square_sum},
    {"random_u32", trial_random},
    {"snapshot_add_f32", trial_snapshot_add},
    {"add_f32", trial_add},
    {"sub_scaled_f32", trial_sub_scaled},
    {"f16_from_f32", trial_f16_from},
    {"bf16_from_f32", trial_bf16_from},
    {"f16_add_f32", trial_f16_add},
    {"bf16_add_f32", trial_bf16_add},
    {"sign_f32", trial_sign},
    {"sign_add_f32", trial_sign_add},
    {"collect_f32", trial_collect},
    {"log_codes_f32", trial_log_codes},
    {"log_add_f32", trial_log_add},
    {"log_take_f32", trial_log_take},
    {"random_codes_f32", trial_random_codes},
    {"nearest_codes_f32", trial_nearest_codes},
    {"level_add_f32", trial_level_add},
    {"natural_codes_f32", trial_natural_codes},
    {"natural_add_f32", trial_natural_add},
    {"pack_codes", trial_pack},
    {"unpack_codes", trial_unpack},
    {"thin_dot_f32", trial_thin_dot},
    {"thin_sum_f32", trial_thin_sum},
    {"thin_add_f32", trial_thin_add},
};

#define SLOTS (sizeof slots / sizeof slots[0])

_Static_assert(sizeof(struct tsk_table) == SLOTS * sizeof(void (*)(void)), "one trial per slot");

const char *compare_name(size_t slot)
{
    return slot < SLOTS ? slots[slot].name : "";
}

static size_t compare_one(struct lab *lab, const struct trial *trial, const char *set_name,
                          size_t slot, size_t failed)
{
    const size_t different = slots[slot].run(lab, trial);
    lab->trials++;
    if (different > 0 && failed < TOLD_AT_MOST)
        printf("%s of %s differs from ref in %zu values: count %zu, place %u, fill %d, seed %llu\n",
               slots[slot].name, set_name, different, trial->count, trial->place, (int)trial->fill,
               (unsigned long long)lab->seed);
    return different > 0;
}

/* Short ones at every place; long ones at every third, another third for the next length. */
static unsigned first_place(const struct lab *lab, size_t count)
{
    return lab->quick || count <= 66 ? 0 : (unsigned)(count % 3);
}

static unsigned next_place(const struct lab *lab, size_t count, unsigned place)
{
    if (place == PLACE_END)
        return PLACE_END + 1;
    const unsigned next = place + (lab->quick ? 9 : count <= 66 ? 1 : 3);
    return next < PLACE_END ? next : PLACE_END;
}

static size_t next_count(const struct lab *lab, size_t count)
{
    if (lab->quick && count >= 36)
        return count + 11;
    return count + 1;
}

size_t compare_slot(struct lab *lab, const struct tsk_table *set, const char *set_name, size_t slot)
{
    static const size_t large[] = {1031, 65537, LAB_LARGE};
    static const unsigned large_places[] = {0, 5, PLACE_END};
    size_t failed = 0;
    /* The same numbers for every slot and set, in whatever order they are run. */
    lab->state = lab->seed + slot;
    for (size_t count = 0; count <= 200; count = next_count(lab, count)) {
        for (unsigned place = first_place(lab, count); place <= PLACE_END;
             place = next_place(lab, count, place)) {
            const enum fill fill = (enum fill)((count + place) % FILL_COUNT);
            const struct trial trial = {set, count, place, fill};
            failed += compare_one(lab, &trial, set_name, slot, failed);
        }
    }
    for (unsigned i = 0; i < (lab->quick ? 2u : 3u); i++) {
        for (unsigned j = 0; j < 3; j++) {
            const enum fill fill = j == 0 ? FILL_NORMAL : j == 1 ? FILL_FINITE : FILL_TIES;
            const struct trial trial = {set, large[i], large_places[j], fill};
            failed += compare_one(lab, &trial, set_name, slot, failed);
        }
    }
    return failed;
}
