#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include <terse/terse.h>

#include "command.h"
#include "common/json.h"
#include "common/number.h"
#include "machine.h"
#include "message.h"
#include "table.h"

static int run(int argc, char **argv);

const struct command cmd_info = {
    .name = "info",
    .summary = "what this build and this CPU can do",
    .usage = "terse info [--json]",
    .help = "Shows version, build options, the kernel set in use, where each kernel comes from,\n"
            "caches, and the environment variables that change anything.\n\n"
            "Options\n"
            "  --json   print JSON\n\n"
            "Environment\n"
            "  TERSE_KERNELS     the kernel set to use: ref, avx2, avx512 or neon\n"
            "  OMP_NUM_THREADS   as for every OpenMP program; --threads is stronger\n"
            "  NO_COLOR          no bold headings, even on a terminal\n",
    .run = run,
};

static const char *const variables[] = {"TERSE_KERNELS", "OMP_NUM_THREADS", "NO_COLOR"};

enum { VARIABLE_COUNT = sizeof variables / sizeof variables[0], CACHE_LEVELS = 3 };

static com_json *kernel_sets_json(void)
{
    com_json *list = com_json_array();
    terse_kernel_set_about about;
    for (uint32_t i = 0; terse_kernel_set_list(i, &about) == TERSE_OK; i++) {
        com_json *set = com_json_object();
        com_json_put_text(set, "name", about.name);
        com_json_put_text(set, "needs", about.needs);
        com_json_put_flag(set, "supported", about.supported != 0);
        com_json_put_u64(set, "kernels", about.kernels);
        com_json_append(list, set);
    }
    return list;
}

static int print_json(const char *set_in_use)
{
    com_json *top = com_json_object();
    com_json_put_text(top, "version", terse_version());
    com_json_put_text(top, "build", terse_build_options());
    com_json_put_text(top, "kernels", set_in_use);
    com_json_put(top, "kernel_sets", kernel_sets_json());
    com_json *origins = com_json_object();
    const char *kernel;
    const char *set;
    for (uint32_t i = 0; terse_kernel_list(i, &kernel, &set) == TERSE_OK; i++)
        com_json_put_text(origins, kernel, set);
    com_json_put(top, "kernel_origins", origins);
    char cpu[128];
    machine_cpu_name(cpu, sizeof cpu);
    com_json_put_text(top, "cpu", cpu);
    com_json_put_u64(top, "cpus", machine_cpus());
    com_json_put_u64(top, "memory_bytes", machine_memory());
    com_json *caches = com_json_array();
    for (unsigned i = 1; i <= CACHE_LEVELS; i++)
        com_json_append_u64(caches, machine_cache(i));
    com_json_put(top, "cache_bytes", caches);
    com_json *environment = com_json_object();
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        const char *value = getenv(variables[i]);
        if (value)
            com_json_put_text(environment, variables[i], value);
    }
    com_json_put(top, "environment", environment);
    return msg_json(top);
}

static int print_kernel_sets(const char *set_in_use)
{
    struct table *table = table_create("lllrl");
    static const char *const headings[] = {"kernel set", "", "this CPU", "kernels", "needs"};
    for (size_t i = 0; i < 5; i++)
        table_cell(table, "%s", headings[i]);
    terse_kernel_set_about about;
    for (uint32_t i = 0; terse_kernel_set_list(i, &about) == TERSE_OK; i++) {
        table_cell(table, "%s", about.name);
        table_cell(table, "%s", about.name == set_in_use ? "in use" : "");
        table_cell(table, "%s", about.supported ? "yes" : "no");
        table_cell(table, "%u", about.kernels);
        table_cell(table, "%s", about.needs[0] == '\0' ? "-" : about.needs);
    }
    return table_print(table, 0);
}

static int print_kernels(void)
{
    struct table *table = table_create("ll");
    table_cell(table, "kernel");
    table_cell(table, "from set");
    const char *kernel;
    const char *set;
    for (uint32_t i = 0; terse_kernel_list(i, &kernel, &set) == TERSE_OK; i++) {
        table_cell(table, "%s", kernel);
        table_cell(table, "%s", set);
    }
    return table_print(table, 0);
}

static void print_machine(void)
{
    char cpu[128];
    machine_cpu_name(cpu, sizeof cpu);
    printf("terse    %s\nbuild    %s\ncpu      %s, %u online\nmemory   %s\ncaches  ",
           terse_version(), terse_build_options(), cpu, machine_cpus(),
           com_show_bytes((double)machine_memory()).text);
    for (unsigned i = 1; i <= CACHE_LEVELS; i++) {
        uint64_t size = machine_cache(i);
        if (size > 0) {
            printf(" L%u %llu KiB%s", i, (unsigned long long)(size >> 10),
                   i < CACHE_LEVELS ? "," : "");
        } else {
            printf(" L%u unknown%s", i, i < CACHE_LEVELS ? "," : "");
        }
    }
    printf("\n");
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        const char *value = getenv(variables[i]);
        printf("%s%s=%s", i == 0 ? "set      " : ", ", variables[i], !value ? "-" : value);
    }
    printf("\n\n");
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
    int as_json = 0;
    for (int letter; (letter = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (letter != 'j') {
            msg_note("Try 'terse info --help'.");
            return CLI_USAGE;
        }
        as_json = 1;
    }
    if (optind < argc)
        return msg_usage("info", "'%s' is one argument too many", argv[optind]);
    const char *set;
    terse_status status = terse_kernel_set_name(&set, NULL);
    if (status != TERSE_OK)
        return msg_status("kernels", status, NULL);
    if (as_json)
        return print_json(set);
    print_machine();
    int code = print_kernel_sets(set);
    putchar('\n');
    return code != CLI_OK ? code : print_kernels();
}
