#include <stdio.h>
#include <string.h>

#include "command.h"
#include "common/names.h"
#include "message.h"

static int run(int argc, char **argv);

const struct command cmd_help = {
    .name = "help",
    .summary = "explain a command",
    .usage = "terse help [COMMAND]",
    .help = "Without COMMAND lists all commands. `terse COMMAND --help` does the same as\n"
            "`terse help COMMAND`.\n",
    .run = run,
};

const struct command *command_find(const char *name)
{
    for (size_t i = 0; command_table[i]; i++)
        if (strcmp(command_table[i]->name, name) == 0)
            return command_table[i];
    return NULL;
}

static const char *command_name(uint32_t index)
{
    return command_table[index] ? command_table[index]->name : NULL;
}

int command_unknown(const char *name)
{
    const int nearest = com_names_nearest(command_name, name, strlen(name));
    msg_error(CLI_USAGE, "no command '%s'", name);
    if (nearest != COM_NO_NAME)
        msg_note("Did you mean 'terse %s'?", command_name((uint32_t)nearest));
    else
        msg_note("Try 'terse help'.");
    return CLI_USAGE;
}

void command_print_help(const struct command *command)
{
    const char *bold = msg_bold(stdout);
    const char *plain = msg_plain(stdout);
    printf("%sterse %s%s: %s\n\n", bold, command->name, plain, command->summary);
    printf("%sUsage%s\n  %s\n\n%s", bold, plain, command->usage, command->help);
    if (!command->options)
        return;
    struct com_text options = {0};
    command->options(&options);
    printf("%s%s", options.failed ? "" : options.bytes, command->notes);
    com_text_free(&options);
}

static void print_overview(void)
{
    const char *bold = msg_bold(stdout);
    const char *plain = msg_plain(stdout);
    printf("terse compresses gradients for data-parallel training.\n\n%sUsage%s\n  terse COMMAND "
           "[options]\n"
           "  terse COMMAND --help\n  terse --version\n\n%sCommands%s\n",
           bold, plain, bold, plain);
    for (size_t i = 0; command_table[i]; i++)
        printf("  %-10s %s\n", command_table[i]->name, command_table[i]->summary);
    printf("\n%sExit codes%s\n"
           "  0  done\n"
           "  1  the input was refused, or the operation failed on it\n"
           "  2  wrong usage\n"
           "  3  the machine failed: memory, input/output, a lost worker, a damaged message\n"
           "  4  a claim (terse reproduce) or a promise (terse check) does not hold\n"
           "  75  terse train, terse compare: SIGTERM, SIGUSR1 or SIGHUP ended it after a "
           "checkpoint;\n"
           "      start it again\n"
           "  130  the same for SIGINT\n"
           "  128+n  terse train, terse compare: a second signal n ended it at once\n"
           "\nStart with `terse demo`.\n",
           bold, plain);
}

static int run(int argc, char **argv)
{
    if (argc > 2)
        return msg_usage("help", "one command at a time");
    if (argc < 2) {
        print_overview();
        return CLI_OK;
    }
    const struct command *command = command_find(argv[1]);
    if (!command)
        return command_unknown(argv[1]);
    command_print_help(command);
    return CLI_OK;
}
