/* An option of a command line as a row of a table. Parsing, help, JSON output, JSON input and
 * comparison all use the row. */
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

#define COM_OPTION_ALSO UINT32_MAX /* the number that `also` stands for; JSON has the word */

/* The last row of a table has no name. */
struct com_option {
    const char *name; /* without "--" */
    char letter;      /* "-q", or 0 */
    enum com_option_kind kind;
    const char *word; /* name of its argument in the help; NULL: it takes none */
    double low;       /* the range of a number */
    double high;
    const char *also;      /* a word that is typed instead of a number; NULL: none */
    const char *usual;     /* the default as it would be typed; NULL: none */
    com_names *choices;    /* for {choices}; NULL: none are listed */
    const char *help;      /* {default} and {choices} are replaced */
    const char *elsewhere; /* error text of a command that lacks the option */
    const char *key;       /* key in JSON; NULL: it is not written */
    /* 1: two texts are the same value; NULL: if they are the same bytes. */
    int (*same)(const char *a, const char *b);
    unsigned flags; /* meaning defined by the table */
    size_t offset;  /* offset of the value in the struct of values */
};

/* Sets the value from the text typed. TERSE_BAD_SPEC: it is not such a number; the fault has
 * option, text and range. `text` must stay valid. */
TERSE_CHECK terse_status com_option_set(const struct com_option *option, const char *text,
                                        void *values, terse_fault *fault);

/* Sets the default, if there is one. */
void com_option_set_usual(const struct com_option *option, void *values);

/* "  --batch B   examples per worker ..." and a line end, wrapped. */
void com_option_help(const struct com_option *option, struct com_text *out);

/* Appends the option as it would be typed, " --batch 64", quoted for a shell; nothing if the value
 * is 0, NULL or the default. */
void com_option_type(const struct com_option *option, const void *values, struct com_text *out);

/* Writes the value under its key, if the row has one. */
void com_option_write(const struct com_option *option, const void *values, com_json *json);

/* Sets the value from its key. 0: the key is absent, of another kind or out of the row's range. A
 * text belongs to the JSON. */
int com_option_read(const struct com_option *option, const com_json *json, void *values);

/* 0: the JSON has the same value, or lacks the key of an option without a default that was not
 * given: a file of before there was such an option. Else 1, and `text` is the difference, to follow
 * the name of the file: "has batch 8, not 4". */
int com_option_differs(const struct com_option *option, const void *values, const com_json *json,
                       char *text, size_t cap);

/* Is the value 0 (or NULL)? */
int com_option_is_zero(const struct com_option *option, const void *values);

#endif
