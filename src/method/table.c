/* All methods: the five papers first, then what they are judged against. */
#include "method/table.h"

const struct tsi_method_row *const tsi_methods[] = {
    &tsi_method_signsgd,  &tsi_method_signum,  &tsi_method_def,      &tsi_method_def_a,
    &tsi_method_qadam,    &tsi_method_regtopk, &tsi_method_dqsgd,    &tsi_method_ef,
    &tsi_method_saef,     &tsi_method_ef_sign, &tsi_method_topk,     &tsi_method_qsgd,
    &tsi_method_terngrad, &tsi_method_natural, &tsi_method_powersgd, &tsi_method_adam,
    &tsi_method_dense,    &tsi_method_fp16,    &tsi_method_bf16,
};
const size_t tsi_method_count = sizeof tsi_methods / sizeof tsi_methods[0];

terse_status terse_method_list(uint32_t index, terse_method_about *out)
{
    if (index >= tsi_method_count || !out)
        return TERSE_BAD_ARGUMENT;
    *out = tsi_methods[index]->about;
    out->name = tsi_methods[index]->name;
    out->option_count = (uint32_t)tsi_methods[index]->option_count;
    return TERSE_OK;
}

terse_status terse_method_option(uint32_t index, uint32_t option, terse_option *out)
{
    if (index >= tsi_method_count || !out || option >= tsi_methods[index]->option_count)
        return TERSE_BAD_ARGUMENT;
    *out = tsi_setting_option(&tsi_methods[index]->options[option]);
    return TERSE_OK;
}
