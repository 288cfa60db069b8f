/* A command of `terse`: one row of the table in main.c, one cmd_*.c each. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stddef.h>

#include "common/text.h"

struct command {
    const char *name;
    const char *summary; /* its line in `terse help` */
    const char *usage;   /* lines "terse NAME ...", the first without indent */
    const char *help;    /* what it does, options, examples */

    /* If the options are rows of a table: appends their lines to `help`; `notes` follows them. */
    void (*options)(struct com_text *out);
    const char *notes;

    /* argv[0] is "terse NAME", for the messages of getopt_long. Returns an exit code (message.h).
     */
    int (*run)(int argc, char **argv);
};

extern const struct command cmd_help;
extern const struct command cmd_demo;
extern const struct command cmd_reproduce;
extern const struct command cmd_codecs;
extern const struct command cmd_methods;
extern const struct command cmd_encode;
extern const struct command cmd_decode;
extern const struct command cmd_inspect;
extern const struct command cmd_report;
extern const struct command cmd_check;
extern const struct command cmd_bench;
extern const struct command cmd_info;
extern const struct command cmd_compare; /* these four where the networks are */
extern const struct command cmd_launch;
extern const struct command cmd_plan;
extern const struct command cmd_train;

/* Every command, in the order of `terse help`; NULL ends it. */
extern const struct command *const command_table[];

/* NULL if there is none of that name. */
const struct command *command_find(const char *name);

/* Prints that there is no command `name`, and the nearest; returns an exit code. */
int command_unknown(const char *name);

void command_print_help(const struct command *command);

#endif
