#include "train_request.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "message.h"
#include "plugin.h"
#include "train/loop/options.h"

#define BOTH (TRN_OF_TRAIN | TRN_OF_COMPARE)
#define AT(member) .offset = offsetof(struct train_request, member)

/* Options of the commands beside the settings of a training: before them in the help, ... */
static const struct com_option first_options[] = {
    {.name = "methods",
     .kind = COM_OPTION_TEXT,
     .word = "LIST",
     .help = "specs, separated by ';'; lr={0.01,0.02} is a grid",
     .elsewhere = "--methods and --seeds are for terse compare",
     .flags = TRN_OF_COMPARE,
     AT(methods)},
    {.name = "seeds",
     .kind = COM_OPTION_U64,
     .word = "N",
     .low = 1,
     .high = 1000,
     .help = "N runs of each, seeds Z, Z+1, ...; the table shows the spread",
     .elsewhere = "--methods and --seeds are for terse compare",
     .flags = TRN_OF_COMPARE,
     AT(seeds)},
    {.name = "tune-epochs",
     .kind = COM_OPTION_U64,
     .word = "E",
     .low = 1,
     .high = 1000000,
     .help = "epochs of a training that is for choosing a learning rate; default as many as of the "
             "others",
     .elsewhere = "--tune-epochs is for terse compare",
     .flags = TRN_OF_COMPARE,
     AT(tune_epochs)},
    {.name = NULL},
};

/* ... and after them. */
static const struct com_option last_options[] = {
    {.name = "live",
     .kind = COM_OPTION_U32,
     .word = "PORT",
     .high = 65535,
     .help = "watch it at http://127.0.0.1:PORT/; 0 takes a free port",
     .flags = BOTH,
     AT(live_port)},
    {.name = "live-host",
     .kind = COM_OPTION_TEXT,
     .word = "HOST",
     .help = "listen there instead of 127.0.0.1",
     .flags = BOTH,
     AT(live_host)},
    {.name = "json",
     .kind = COM_OPTION_FLAG,
     .help = "print the result as one JSON object",
     .flags = BOTH,
     AT(json)},
    {.name = "ascii",
     .kind = COM_OPTION_FLAG,
     .help = "draw without Unicode",
     .flags = BOTH,
     AT(ascii)},
    {.name = "quiet",
     .letter = 'q',
     .kind = COM_OPTION_FLAG,
     .help = "no progress",
     .flags = BOTH,
     AT(quiet)},
    {.name = "verbose",
     .letter = 'v',
     .kind = COM_OPTION_FLAG,
     .help = "also print the codec, combine and feedback chosen",
     .elsewhere = "--verbose is for terse train",
     .flags = TRN_OF_TRAIN,
     AT(verbose)},
    {.name = NULL},
};

/* ---- all rows, one after the other ---- */

enum { MOST_ROWS = 64, FIRST_VALUE = 256 /* of getopt: beyond every letter */ };

struct rows {
    const struct com_option *row[MOST_ROWS];
    size_t count;
};

static void add_rows(struct rows *rows, const struct com_option *option)
{
    for (; option->name && rows->count < MOST_ROWS; option++)
        rows->row[rows->count++] = option;
}

static struct rows all_rows(void)
{
    struct rows rows = {.count = 0};
    add_rows(&rows, first_options);
    add_rows(&rows, trn_options);
    add_rows(&rows, last_options);
    return rows;
}

static void help(unsigned command, struct com_text *out)
{
    const struct rows rows = all_rows();
    for (size_t i = 0; i < rows.count; i++)
        if (rows.row[i]->flags & command)
            com_option_help(rows.row[i], out);
}

void train_request_help(struct com_text *out)
{
    help(TRN_OF_TRAIN, out);
}

void compare_request_help(struct com_text *out)
{
    help(TRN_OF_COMPARE, out);
}

/* ---- the command line ---- */

/* The row of this name that the command has; else one that it does not have. */
static const struct com_option *find(const struct rows *rows, const char *name, unsigned command)
{
    const struct com_option *found = NULL;
    for (size_t i = 0; i < rows->count; i++)
        if (strcmp(rows->row[i]->name, name) == 0 && (!found || rows->row[i]->flags & command))
            found = rows->row[i];
    return found;
}

/* Is the row one of the settings? Then its number there, else -1. */
static int setting_of(const struct com_option *option)
{
    for (int i = 0; trn_options[i].name; i++)
        if (&trn_options[i] == option)
            return i;
    return -1;
}

static int take(const struct com_option *option, unsigned command, struct train_request *out)
{
    const char *const name = command == TRN_OF_COMPARE ? "compare" : "train";
    const int setting = setting_of(option);
    terse_fault fault = {0};
    if (!(option->flags & command) && option->elsewhere)
        return msg_usage(name, "%s", option->elsewhere);
    if (!(option->flags & command))
        return msg_usage(name, "no option --%s", option->name);
    void *const values = setting >= 0 ? (void *)&out->settings : (void *)out;
    if (com_option_set(option, optarg, values, &fault) != TERSE_OK)
        return msg_usage(name, "%s", fault.text);
    if (setting >= 0)
        out->given |= (uint64_t)1 << setting;
    return CLI_OK;
}

static int read_options(int argc, char **argv, unsigned command, struct train_request *out)
{
    const struct rows rows = all_rows();
    struct option options[MOST_ROWS + 1] = {{NULL, 0, NULL, 0}};
    char letters[MOST_ROWS + 1] = "";
    for (size_t i = 0, used = 0; i < rows.count; i++) {
        const struct com_option *const row = rows.row[i];
        if (find(&rows, row->name, command) != row) /* the other command's row of the name */
            continue;
        options[used++] = (struct option){row->name, row->word ? required_argument : no_argument,
                                          NULL, FIRST_VALUE + (int)i};
        if (row->letter) /* only flags have one */
            letters[strlen(letters)] = row->letter;
    }
    for (int value; (value = getopt_long(argc, argv, letters, options, NULL)) != -1;) {
        const struct com_option *row = NULL;
        for (size_t i = 0; i < rows.count; i++)
            if (value == FIRST_VALUE + (int)i ||
                (rows.row[i]->letter && value == rows.row[i]->letter))
                row = rows.row[i];
        if (!row) {
            msg_note("Try 'terse %s --help'.", command == TRN_OF_COMPARE ? "compare" : "train");
            return CLI_USAGE;
        }
        const int code = take(row, command, out);
        if (code != CLI_OK)
            return code;
    }
    return CLI_OK;
}

static void join_command(int argc, char **argv, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < argc && used < cap; i++) {
        const int quote = strpbrk(argv[i], " ;*?$&|<>()'\"") != NULL && i > 0;
        used += (size_t)snprintf(out + used, cap - used, "%s%s%s%s", i == 0 ? "" : " ",
                                 quote ? "'" : "", argv[i], quote ? "'" : "");
    }
}

int train_request_read(int argc, char **argv, int compare, struct train_request *out)
{
    const char *const command = compare ? "compare" : "train";
    struct trn_settings *const settings = &out->settings;
    *out = (struct train_request){.settings = {.lr = -1}, .live_port = TRAIN_NOT_LIVE, .seeds = 1};
    join_command(argc, argv, out->command, sizeof out->command);
    const int code = read_options(argc, argv, compare ? TRN_OF_COMPARE : TRN_OF_TRAIN, out);
    if (code != CLI_OK)
        return code;
    if (optind < argc)
        return msg_usage(command, "unexpected '%s'", argv[optind]);
    if (settings->epochs && settings->steps)
        return msg_usage(command, "--epochs or --steps, not both");
    if (settings->plugin &&
        plugin_resolve(settings->plugin, out->plugins, sizeof out->plugins) != CLI_OK)
        return CLI_USAGE;
    if (settings->plugin)
        settings->plugin = out->plugins;
    if (compare && !out->methods)
        return msg_usage(command, "--methods \"dense;signum;...\" is missing");
    if (!compare && settings->checkpoint_every && !settings->out && !settings->resume)
        return msg_usage(
            command, "--checkpoint-every %llu: no folder for checkpoints is given; add --out DIR",
            (unsigned long long)settings->checkpoint_every);
    settings->command = out->command;
    return CLI_OK;
}
