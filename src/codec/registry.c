/* The list of codecs. A new codec is one file, one line here and one section of
 * docs/wire-format.md. */
#include "codec/codec.h"

const struct terse_codec_ops *const tsi_codecs[] = {
    &tsi_codec_f32,         /* f32.c */
    &tsi_codec_f16,         /* half.c */
    &tsi_codec_bf16,        /* half.c */
    &tsi_codec_sign,        /* sign.c */
    &tsi_codec_scaled_sign, /* sign.c */
    &tsi_codec_topk,        /* topk.c */
    &tsi_codec_block,       /* block.c */
    &tsi_codec_log,         /* log.c */
    &tsi_codec_uniform,     /* uniform.c */
    &tsi_codec_nearest,     /* nearest.c */
    &tsi_codec_natural,     /* natural.c */
    &tsi_codec_low_rank,    /* low_rank.c */
};

const size_t tsi_codec_count = sizeof tsi_codecs / sizeof tsi_codecs[0];
