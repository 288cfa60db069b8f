/* The reference kernel set: every slot, in plain C. */
#include "kernels/ref/ref.h"

const struct tsk_table tsk_ref = {
    .magnitude_max_f32 = tsk_ref_magnitude_max_f32,
    .magnitude_sum_f32 = tsk_ref_magnitude_sum_f32,
    .square_sum_f32 = tsk_ref_square_sum_f32,
    .random_u32 = tsk_ref_random_u32,
    .snapshot_add_f32 = tsk_ref_snapshot_add_f32,
    .add_f32 = tsk_ref_add_f32,
    .sub_scaled_f32 = tsk_ref_sub_scaled_f32,
    .f16_from_f32 = tsk_ref_f16_from_f32,
    .bf16_from_f32 = tsk_ref_bf16_from_f32,
    .f16_add_f32 = tsk_ref_f16_add_f32,
    .bf16_add_f32 = tsk_ref_bf16_add_f32,
    .sign_f32 = tsk_ref_sign_f32,
    .sign_add_f32 = tsk_ref_sign_add_f32,
    .collect_f32 = tsk_ref_collect_f32,
    .log_codes_f32 = tsk_ref_log_codes_f32,
    .log_add_f32 = tsk_ref_log_add_f32,
    .log_take_f32 = tsk_ref_log_take_f32,
    .random_codes_f32 = tsk_ref_random_codes_f32,
    .nearest_codes_f32 = tsk_ref_nearest_codes_f32,
    .level_add_f32 = tsk_ref_level_add_f32,
    .natural_codes_f32 = tsk_ref_natural_codes_f32,
    .natural_add_f32 = tsk_ref_natural_add_f32,
    .pack_codes = tsk_ref_pack_codes,
    .unpack_codes = tsk_ref_unpack_codes,
    .thin_dot_f32 = tsk_ref_thin_dot_f32,
    .thin_sum_f32 = tsk_ref_thin_sum_f32,
    .thin_add_f32 = tsk_ref_thin_add_f32,
};

const char *const tsk_slot_names[] = {
    "magnitude_max_f32", "magnitude_sum_f32", "square_sum_f32",    "random_u32",
    "snapshot_add_f32",  "add_f32",           "sub_scaled_f32",    "f16_from_f32",
    "bf16_from_f32",     "f16_add_f32",       "bf16_add_f32",      "sign_f32",
    "sign_add_f32",      "collect_f32",       "log_codes_f32",     "log_add_f32",
    "log_take_f32",      "random_codes_f32",  "nearest_codes_f32", "level_add_f32",
    "natural_codes_f32", "natural_add_f32",   "pack_codes",        "unpack_codes",
    "thin_dot_f32",      "thin_sum_f32",      "thin_add_f32",
};

const size_t tsk_slot_count = sizeof tsk_slot_names / sizeof tsk_slot_names[0];

_Static_assert(sizeof(struct tsk_table) ==
                   sizeof tsk_slot_names / sizeof tsk_slot_names[0] * sizeof(void (*)(void)),
               "one name per slot");
