/* live_server [HOST PORT]: a live page for the tests. Prints its address, then pushes every line of
 * standard input; "!N LINE" pushes LINE N times and prints the seconds that took, "!sleep MS"
 * waits. Ends with standard input. Exit 1 and the fault on standard error if it cannot start. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report/live.h"

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void wait_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

/* Prints the total and the longest single push: the second shows whether one waited. */
static void push_often(struct rep_live *live, const char *command)
{
    char *line;
    long times = strtol(command, &line, 10);
    double longest = 0;
    double begin = now();
    for (long i = 0; i < times; i++) {
        double before = now();
        rep_live_push(live, line + 1);
        double took = now() - before;
        longest = took > longest ? took : longest;
    }
    printf("%.6f %.6f\n", now() - begin, longest);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    struct rep_live *live;
    terse_fault fault;
    const char *host = argc > 1 ? argv[1] : NULL;
    unsigned long port = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (rep_live_start(host, (uint16_t)port, &live, &fault) != TERSE_OK) {
        (void)fprintf(stderr, "%s\n", fault.text);
        return 1;
    }
    printf("%s\n", rep_live_address(live));
    (void)fflush(stdout);
    static char line[1 << 18];
    while (fgets(line, sizeof line, stdin))
        if (strncmp(line, "!sleep ", 7) == 0)
            wait_ms(strtol(line + 7, NULL, 10));
        else if (line[0] == '!')
            push_often(live, line + 1);
        else
            rep_live_push(live, line);
    rep_live_stop(live);
    return 0;
}
