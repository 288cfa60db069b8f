/* One trial per slot of the kernel table: how to call it, and what must be equal. */
#ifndef TEST_KERNELS_TRIALS_H
#define TEST_KERNELS_TRIALS_H

#include "kernels/lab.h"

/* Returns how many things differ between trial->set and ref. */
typedef size_t (*trial_run)(struct lab *lab, const struct trial *trial);

size_t trial_magnitude_max(struct lab *lab, const struct trial *trial);
size_t trial_magnitude_sum(struct lab *lab, const struct trial *trial);
size_t trial_square_sum(struct lab *lab, const struct trial *trial);
size_t trial_random(struct lab *lab, const struct trial *trial);
size_t trial_snapshot_add(struct lab *lab, const struct trial *trial);
size_t trial_add(struct lab *lab, const struct trial *trial);
size_t trial_sub_scaled(struct lab *lab, const struct trial *trial);
size_t trial_f16_from(struct lab *lab, const struct trial *trial);
size_t trial_bf16_from(struct lab *lab, const struct trial *trial);
size_t trial_f16_add(struct lab *lab, const struct trial *trial);
size_t trial_bf16_add(struct lab *lab, const struct trial *trial);
size_t trial_sign(struct lab *lab, const struct trial *trial);
size_t trial_sign_add(struct lab *lab, const struct trial *trial);
size_t trial_collect(struct lab *lab, const struct trial *trial);
size_t trial_log_codes(struct lab *lab, const struct trial *trial);
size_t trial_log_add(struct lab *lab, const struct trial *trial);
size_t trial_log_take(struct lab *lab, const struct trial *trial);
size_t trial_random_codes(struct lab *lab, const struct trial *trial);
size_t trial_nearest_codes(struct lab *lab, const struct trial *trial);
size_t trial_level_add(struct lab *lab, const struct trial *trial);
size_t trial_natural_codes(struct lab *lab, const struct trial *trial);
size_t trial_natural_add(struct lab *lab, const struct trial *trial);
size_t trial_pack(struct lab *lab, const struct trial *trial);
size_t trial_unpack(struct lab *lab, const struct trial *trial);
/* trial->count is made into a shape. */
size_t trial_thin_dot(struct lab *lab, const struct trial *trial);
size_t trial_thin_sum(struct lab *lab, const struct trial *trial);
size_t trial_thin_add(struct lab *lab, const struct trial *trial);

#endif
