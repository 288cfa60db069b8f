/* The settings of a training as options: one row each. `terse train` and `terse compare` read them
 * and print their help, run.json and checkpoints hold them, --resume takes them from there and
 * refuses one that differs: all of it from the rows. To add an option: a member of trn_settings, a
 * row, and its use. */
#ifndef TRN_OPTIONS_H
#define TRN_OPTIONS_H

#include "common/option.h"
#include "loop/train.h"

/* Flags of a row. */
enum {
    TRN_OF_TRAIN = 1, /* an option of terse train */
    TRN_OF_COMPARE = 2,
    TRN_RESUMED = 4,   /* a resumed run must have the same */
    TRN_SHARED = 8,    /* a member of a comparison must have the same */
    TRN_DERIVED = 16,  /* 0: it follows from other settings, and is not compared */
    TRN_OF_RANKS = 32, /* every process of a group must have the same */
    TRN_TYPED = 64,    /* it names code: a resumed run does not take it from a file */
};

extern const struct com_option trn_options[];

/* Every setting that has a key. */
void trn_options_write(const struct trn_settings *settings, com_json *json);

/* The `terse train` command that repeats the run. */
void trn_options_command(const struct trn_settings *settings, struct com_text *out);

/* The first option with one of the `flags` whose value differs in the JSON; NULL: none. `text` is
 * the difference: "has batch 8, not 4". */
const struct com_option *trn_options_differ(const struct trn_settings *settings,
                                            const com_json *json, unsigned flags, char *text,
                                            size_t cap);

#endif
