/* terse: a table of commands. A new one is a cmd_*.c, a line in command.h and a line here. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <terse/info.h>

#include "command.h"
#include "message.h"

const struct command *const command_table[] = {
    &cmd_demo,
#ifdef TERSE_TRAIN
    &cmd_plan,    &cmd_train,     &cmd_launch,  &cmd_compare,
#endif
    &cmd_report,  &cmd_reproduce, &cmd_methods, &cmd_codecs,  &cmd_encode, &cmd_decode,
    &cmd_inspect, &cmd_check,     &cmd_bench,   &cmd_info,    &cmd_help,   NULL,
};

static int is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Every command accepts --help at any position before "--". */
static int asks_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_help(argv[i]))
            return 1;
    return 0;
}

/* A kernel set that cannot be used is an error for every command, before it begins. */
static int check_kernels(void)
{
    const char *kernels;
    terse_fault fault = {0};
    terse_status status = terse_kernel_set_name(&kernels, &fault);
    if (status == TERSE_OK)
        return CLI_OK;
    return msg_error(CLI_REFUSED, "TERSE_KERNELS: %s",
                     fault.text[0] != '\0' ? fault.text : terse_status_text(status));
}

static int run(const struct command *command, int argc, char **argv)
{
    if (asks_help(argc, argv)) {
        command_print_help(command);
        return CLI_OK;
    }
    int code = command == &cmd_help ? CLI_OK : check_kernels();
    if (code != CLI_OK)
        return code;
    char name[64];
    snprintf(name, sizeof name, "terse %s", command->name);
    argv[0] = name;
    return command->run(argc, argv);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        cmd_help.run(1, argv);
        return CLI_USAGE;
    }
    const char *word = argv[1];
    if (is_help(word))
        return cmd_help.run(1, argv);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("terse %s\n", terse_version());
        return CLI_OK;
    }
    if (word[0] == '-') {
        msg_error(CLI_USAGE, "unknown option '%s' before the command", word);
        msg_note("Try 'terse help'.");
        return CLI_USAGE;
    }
    const struct command *command = command_find(word);
    if (!command)
        return command_unknown(word);
    return run(command, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error text, not a death */
    int code = dispatch(argc, argv);
    /* Output that could not be written is a failure. */
    if (fflush(stdout) != 0 || ferror(stdout))
        return msg_error(CLI_MACHINE, "cannot write standard output: %s", strerror(errno));
    return code;
}
