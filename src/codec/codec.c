/* The codec object: it reads a spec, owns scratch and state, and converts options to bytes. */
#include "codec/object.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "kernels/bind.h"

#define ALIGNMENT ((size_t)64)
#define MAX_THREADS 1024u

/* ---- creation ---- */

static size_t aligned(size_t len)
{
    return (len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Lays out scratch, states and a copy of these in one allocation; states are zero at first. */
static terse_status allocate(terse_codec *codec)
{
    size_t scratch = 0;
    size_t states = 0;
    codec->state_at = calloc((size_t)codec->piece_count + 1, sizeof *codec->state_at);
    codec->prescanned = calloc((size_t)codec->piece_count + 1, sizeof *codec->prescanned);
    codec->section_len = calloc((size_t)codec->piece_count + 1, sizeof *codec->section_len);
    if (!codec->state_at || !codec->prescanned || !codec->section_len)
        return TERSE_NO_MEMORY;
    for (uint32_t i = 0; i < codec->piece_count; i++) {
        const struct tsi_piece *const piece = &codec->piece[i];
        const struct terse_codec_ops *const ops = tsi_codec_ops(codec, codec->passes - 1, i);
        if (!ops)
            continue;
        const size_t needed =
            ops->scratch_len ? ops->scratch_len(ops, codec->option, piece, codec->threads) : 0;
        scratch = needed > scratch ? needed : scratch;
        codec->state_at[i] = states;
        if (ops->state_len)
            states += aligned(ops->state_len(codec->option, piece));
    }
    scratch = aligned(scratch);
    for (uint32_t i = 0; i < codec->piece_count; i++)
        codec->state_at[i] += scratch;
    codec->memory = aligned_alloc(ALIGNMENT, scratch + 2 * states + ALIGNMENT);
    if (!codec->memory)
        return TERSE_NO_MEMORY;
    codec->states = codec->memory + scratch;
    codec->states_len = states;
    memset(codec->states, 0, 2 * states);
    return TERSE_OK;
}

terse_status tsi_codec_enable_prescan(terse_codec *codec)
{
    size_t len = 0;
    if (!codec->ops->prescan)
        return TERSE_OK;
    codec->prescan_at = calloc((size_t)codec->piece_count + 1, sizeof *codec->prescan_at);
    if (!codec->prescan_at)
        return TERSE_NO_MEMORY;
    for (uint32_t i = 0; i < codec->piece_count; i++) {
        codec->prescan_at[i] = len;
        if (codec->piece[i].count > 0 && !codec->piece[i].plain)
            len += aligned(codec->ops->prescan_len(codec->option, &codec->piece[i]));
    }
    codec->prescan_state = aligned_alloc(ALIGNMENT, len + ALIGNMENT);
    if (!codec->prescan_state)
        return TERSE_NO_MEMORY;
    memset(codec->prescan_state, 0, len);
    return TERSE_OK;
}

void tsi_codec_save(terse_codec *codec)
{
    memcpy(codec->states + codec->states_len, codec->states, codec->states_len);
}

void tsi_codec_roll_back(terse_codec *codec)
{
    memcpy(codec->states, codec->states + codec->states_len, codec->states_len);
}

/* The pieces given, or every tensor of the layout. */
static terse_status copy_pieces(terse_codec *codec, const struct tsi_piece *piece,
                                uint32_t piece_count)
{
    codec->piece_count = piece ? piece_count : terse_layout_tensors(codec->layout);
    codec->piece = calloc((size_t)codec->piece_count + 1, sizeof *codec->piece);
    if (!codec->piece)
        return TERSE_NO_MEMORY;
    for (uint32_t i = 0; i < codec->piece_count; i++)
        codec->piece[i] = piece ? piece[i] : tsi_layout_piece(codec->layout, i);
    return TERSE_OK;
}

/* The subject of a codec: a layout, and the pieces of it; piece NULL means all tensors. */
struct site {
    const terse_layout *layout;
    const struct tsi_piece *piece;
    uint32_t piece_count;
    const terse_codec_options *options;
};

static terse_status create(const struct terse_codec_ops *ops, const double *option,
                           const struct site *site, terse_codec **out, terse_fault *fault)
{
    const unsigned threads = site->options && site->options->threads ? site->options->threads : 1;
    const struct tsk_table *kernel;
    terse_status status = tsk_bound(&kernel, fault);
    if (status != TERSE_OK)
        return status;
    if (threads > MAX_THREADS)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "%u threads, at most %u", threads,
                        MAX_THREADS);
    terse_codec *const codec = calloc(1, sizeof *codec);
    if (!codec)
        return tsi_fail(fault, TERSE_NO_MEMORY, 0, "out of memory");
    codec->ops = ops;
    codec->passes = ops->passes;
    codec->threads = threads;
    memcpy(codec->option, option, ops->option_count * sizeof *option);
    tsi_spec_write(ops->name, ops->options, ops->option_count, option, codec->spec,
                   sizeof codec->spec);
    status = tsi_layout_copy(site->layout, &codec->layout);
    if (status == TERSE_OK)
        status = copy_pieces(codec, site->piece, site->piece_count);
    if (status == TERSE_OK)
        status = allocate(codec);
    if (status != TERSE_OK) {
        terse_codec_destroy(codec);
        return tsi_fail(fault, status, 0, "out of memory");
    }
    *out = codec;
    return TERSE_OK;
}

static void tell_no_such_codec(const char *name, size_t len, terse_fault *fault)
{
    const char *names[256];
    size_t count = 0;
    for (; count < 256 && tsi_codec_at(count); count++)
        names[count] = tsi_codec_at(count)->name;
    const char *const nearest = tsi_spec_nearest(name, len, names, count);
    const int shown = len < 64 ? (int)len : 64;
    if (nearest)
        (void)tsi_fail(fault, TERSE_BAD_SPEC, 0, "no codec '%.*s'; did you mean '%s'?", shown, name,
                       nearest);
    else
        (void)tsi_fail(fault, TERSE_BAD_SPEC, 0, "no codec '%.*s'", shown, name);
}

static terse_status read_spec(const char *spec, const struct terse_codec_ops **out,
                              double option[TSI_MAX_OPTIONS], terse_fault *fault)
{
    const size_t len = strcspn(spec, ":");
    const struct terse_codec_ops *ops;
    for (size_t i = 0; (ops = tsi_codec_at(i)) != NULL; i++) {
        if (strlen(ops->name) != len || strncmp(ops->name, spec, len) != 0)
            continue;
        const char *const list = spec[len] == ':' ? spec + len + 1 : NULL;
        *out = ops;
        return tsi_spec_values(ops->options, ops->option_count, list, len + 1, option, fault);
    }
    tell_no_such_codec(spec, len, fault);
    return TERSE_BAD_SPEC;
}

terse_status tsi_codec_create(const char *spec, const terse_layout *layout,
                              const struct tsi_piece *piece, uint32_t piece_count,
                              const terse_codec_options *options, terse_codec **out,
                              terse_fault *fault)
{
    const struct site site = {layout, piece, piece_count, options};
    const struct terse_codec_ops *ops = NULL;
    double option[TSI_MAX_OPTIONS];
    const terse_status status = read_spec(spec, &ops, option, fault);
    return status == TERSE_OK ? create(ops, option, &site, out, fault) : status;
}

terse_status terse_codec_create(const char *spec, const terse_layout *layout,
                                const terse_codec_options *options, terse_codec **out,
                                terse_fault *fault)
{
    if (!spec || !layout || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "spec, layout or out is NULL");
    return tsi_codec_create(spec, layout, NULL, 0, options, out, fault);
}

void terse_codec_destroy(terse_codec *codec)
{
    if (!codec)
        return;
    terse_layout_destroy(codec->layout);
    free(codec->piece);
    free(codec->state_at);
    free(codec->memory);
    free(codec->prescan_state);
    free(codec->prescan_at);
    free(codec->prescanned);
    free(codec->section_len);
    free(codec);
}

/* ---- options as bytes ---- */

void terse_codec_option_bytes(const terse_codec *codec, uint8_t out[TERSE_OPTION_BYTES])
{
    size_t at = 0;
    memset(out, 0, TERSE_OPTION_BYTES);
    for (size_t i = 0; i < codec->ops->option_count; i++) {
        if (codec->ops->options[i].kind == TERSE_OPTION_REAL) {
            tsi_store_f64(out + at, codec->option[i]);
            at += sizeof(double);
        } else {
            out[at++] = (uint8_t)codec->option[i];
        }
    }
}

/* Fault offsets count from the first of the sixteen bytes. */
static terse_status read_options(const struct terse_codec_ops *ops, const uint8_t *bytes,
                                 double *option, terse_fault *fault)
{
    size_t at = 0;
    for (size_t i = 0; i < ops->option_count; i++) {
        const int real = ops->options[i].kind == TERSE_OPTION_REAL;
        option[i] = real ? tsi_load_f64(bytes + at) : bytes[at];
        if (!tsi_spec_in_range(&ops->options[i], option[i]))
            return tsi_fail(fault, TERSE_BAD_FRAME, at, "option %s is not in %s",
                            ops->options[i].name, ops->options[i].range);
        at += real ? sizeof(double) : 1;
    }
    for (; at < TERSE_OPTION_BYTES; at++)
        if (bytes[at] != 0)
            return tsi_fail(fault, TERSE_BAD_FRAME, at, "option padding is not zero");
    return TERSE_OK;
}

terse_status terse_codec_open(uint8_t wire_id, const uint8_t bytes[TERSE_OPTION_BYTES],
                              const terse_layout *layout, const terse_codec_options *options,
                              terse_codec **out, terse_fault *fault)
{
    if (!bytes || !layout || !out)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "option bytes, layout or out is NULL");
    const struct terse_codec_ops *ops;
    for (size_t i = 0; (ops = tsi_codec_at(i)) != NULL; i++) {
        double option[TSI_MAX_OPTIONS];
        if (ops->wire_id != wire_id)
            continue;
        const terse_status status = read_options(ops, bytes, option, fault);
        const struct site site = {layout, NULL, 0, options};
        return status == TERSE_OK ? create(ops, option, &site, out, fault) : status;
    }
    return tsi_fail(fault, TERSE_BAD_VERSION, 0, "codec %u is not known here", wire_id);
}

/* ---- description ---- */

/* `option` NULL: the default ones. */
static terse_codec_about about_of(const struct terse_codec_ops *ops, const double *option)
{
    return (terse_codec_about){
        .name = ops->name,
        .summary = ops->summary,
        .options = ops->options,
        .option_count = (uint32_t)ops->option_count,
        .traits = option && ops->traits_of ? ops->traits_of(option) : ops->traits,
        .passes = ops->passes,
        .wire_id = ops->wire_id,
    };
}

terse_status terse_codec_list(uint32_t index, terse_codec_about *out)
{
    const struct terse_codec_ops *const ops = tsi_codec_at(index);
    if (!ops || !out)
        return TERSE_BAD_ARGUMENT;
    *out = about_of(ops, NULL);
    return TERSE_OK;
}

void terse_codec_describe(const terse_codec *codec, terse_codec_about *out)
{
    *out = about_of(codec->ops, codec->option);
}

terse_status tsi_codec_read(const char *spec, terse_codec_about *out,
                            char complete[TERSE_MAX_CODEC_SPEC], terse_fault *fault)
{
    const struct terse_codec_ops *ops = NULL;
    double option[TSI_MAX_OPTIONS];
    const terse_status status = read_spec(spec, &ops, option, fault);
    if (status != TERSE_OK)
        return status;
    *out = about_of(ops, option);
    tsi_spec_write(ops->name, ops->options, ops->option_count, option, complete,
                   TERSE_MAX_CODEC_SPEC);
    return TERSE_OK;
}

terse_status terse_codec_check(const char *spec, terse_codec_about *out, terse_fault *fault)
{
    char complete[TERSE_MAX_CODEC_SPEC];
    terse_codec_about about;
    if (!spec)
        return tsi_fail(fault, TERSE_BAD_ARGUMENT, 0, "spec is NULL");
    const terse_status status = tsi_codec_read(spec, &about, complete, fault);
    if (status == TERSE_OK && out)
        *out = about;
    return status;
}

const char *terse_codec_spec(const terse_codec *codec)
{
    return codec->spec;
}

const terse_layout *terse_codec_layout(const terse_codec *codec)
{
    return codec->layout;
}
