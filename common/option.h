/* An option of a command line as a row of a table. Reading it, its line of help, what is written
 * down of it in JSON, reading that again and comparing it: all of it comes from the row. */
#ifndef COM_OPTION_H
#define COM_OPTION_H

#include <stddef.h>

#include "common/json.h"
#include "common/names.h"
#include "common/text.h"

enum com_option_kind {
    COM_OPTION_TEXT, /* const char *: the argument itself */
    COM_OPTION_FLAG, /* int: 1 */
    COM_OPTION_U32,  /* uint32_t: a whole number, 25k is 25000 */
    COM_OPTION_U64,
    COM_OPTION_REAL, /* double */
};

/* The last row of a table has no name. */
struct com_option {
    const char *name; /* without "--" */
    char letter;      /* "-q", or 0 */
    enum com_option_kind kind;
    const char *word; /* what help calls its argument; NULL: it takes none */
    double low;       /* the range of a number */
    double high;
    const char *usual;     /* the default as it would be typed; NULL: nothing is set */
    com_names *choices;    /* for {choices}; NULL: none are listed */
    const char *help;      /* {default} and {choices} stand for these */
    const char *elsewhere; /* what is said where a command does not have the option */
    const char *key;       /* in JSON; NULL: it is not written down */
    unsigned flags;        /* the table's own */
    size_t offset;         /* where the value goes in the struct of values */
};

/* Sets the value from what was typed. TERSE_BAD_SPEC: it is no such number, and the fault tells the
 * option, the text and the range. `text` must stay. */
TERSE_CHECK terse_status com_option_set(const struct com_option *option, const char *text,
                                        void *values, terse_fault *fault);

/* Sets the default; nothing where there is none. */
void com_option_set_usual(const struct com_option *option, void *values);

/* "  --batch B   examples per worker ..." and a line end, wrapped. */
void com_option_help(const struct com_option *option, struct com_text *out);

/* The value under its key; nothing where the row has no key. */
void com_option_write(const struct com_option *option, const void *values, com_json *json);

/* Sets the value that stands under the key. 0: there is none of this kind. A text belongs to the
 * JSON. */
int com_option_read(const struct com_option *option, const com_json *json, void *values);

/* 0: the JSON has the same value. Else 1, and `text` tells how they differ, to follow the name of
 * what was written: "has batch 8, not 4". */
int com_option_differs(const struct com_option *option, const void *values, const com_json *json,
                       char *text, size_t cap);

/* Is the value 0 (or NULL)? */
int com_option_is_zero(const struct com_option *option, const void *values);

#endif
