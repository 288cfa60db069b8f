/* All bodies, in the order in which they use each other, and the table of them. A kernel set file
 * includes its vocabulary first. */
#ifndef TSK_LANES_TABLE_H
#define TSK_LANES_TABLE_H

/* clang-format off */
#include "kernels/lanes/stream.h"
#include "kernels/lanes/statistics.h"
#include "kernels/lanes/random.h"
#include "kernels/lanes/plain.h"
#include "kernels/lanes/sign.h"
#include "kernels/lanes/grids.h"
#include "kernels/lanes/grids_add.h"
#include "kernels/lanes/pack.h"
#include "kernels/lanes/thin.h"
/* clang-format on */

#define LANES_TABLE                                                                               \
    {                                                                                             \
        .magnitude_max_f32 = magnitude_max_f32, .magnitude_sum_f32 = magnitude_sum_f32,           \
        .square_sum_f32 = square_sum_f32, .random_u32 = random_u32,                               \
        .snapshot_add_f32 = snapshot_add_f32, .add_f32 = add_f32,                                 \
        .sub_scaled_f32 = sub_scaled_f32, .f16_from_f32 = f16_from_f32,                           \
        .bf16_from_f32 = bf16_from_f32, .f16_add_f32 = f16_add_f32, .bf16_add_f32 = bf16_add_f32, \
        .sign_f32 = sign_f32, .sign_add_f32 = sign_add_f32, .collect_f32 = collect_f32,           \
        .log_codes_f32 = log_codes_f32, .log_add_f32 = log_add_f32, .log_take_f32 = log_take_f32, \
        .random_codes_f32 = random_codes_f32, .nearest_codes_f32 = nearest_codes_f32,             \
        .level_add_f32 = level_add_f32, .natural_codes_f32 = natural_codes_f32,                   \
        .natural_add_f32 = natural_add_f32, .pack_codes = pack_codes,                             \
        .unpack_codes = unpack_codes, .thin_dot_f32 = thin_dot_f32, .thin_sum_f32 = thin_sum_f32, \
        .thin_add_f32 = thin_add_f32,                                                             \
    }

#endif
