#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/number.h"
#include "message.h"

enum { CACHE_LINE = 64, CACHE_INDEXES = 8 };

uint64_t machine_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

unsigned machine_cpus(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (unsigned)count : 1;
}

/* First line of a small file of the kernel; 0 if there is none. */
static int read_line(const char *path, char *out, int cap)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    int found = fgets(out, cap, file) != NULL;
    fclose(file);
    if (found)
        out[strcspn(out, "\n")] = '\0';
    return found;
}

static int cache_line(unsigned index, const char *what, char *out, int cap)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/%s", index, what);
    return read_line(path, out, cap);
}

uint64_t machine_cache(unsigned level)
{
    for (unsigned index = 0; index < CACHE_INDEXES; index++) {
        char text[32];
        if (!cache_line(index, "level", text, sizeof text) || strtoul(text, NULL, 10) != level ||
            !cache_line(index, "type", text, sizeof text) || strcmp(text, "Instruction") == 0 ||
            !cache_line(index, "size", text, sizeof text))
            continue;
        char *unit;
        uint64_t size = strtoull(text, &unit, 10);
        return *unit == 'K' ? size << 10 : *unit == 'M' ? size << 20 : size;
    }
    return 0;
}

void machine_cpu_name(char *out, unsigned cap)
{
    snprintf(out, cap, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out, cap, "%s", colon + 1 + strspn(colon + 1, " "));
            break;
        }
    }
    fclose(file);
}

static double seconds_on(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double machine_seconds(void)
{
    return seconds_on(CLOCK_MONOTONIC);
}

double machine_cpu_seconds(void)
{
    return seconds_on(CLOCK_PROCESS_CPUTIME_ID);
}

float *machine_floats(uint64_t count)
{
    void *floats;
    size_t len = count == 0 ? CACHE_LINE : (size_t)count * sizeof(float);
    if (count > SIZE_MAX / sizeof(float) || posix_memalign(&floats, CACHE_LINE, len) != 0)
        return NULL;
    memset(floats, 0, len);
    return floats;
}

int machine_has_room(const char *purpose, double bytes)
{
    uint64_t memory = machine_memory();
    if (memory == 0 || bytes <= 0.9 * (double)memory)
        return CLI_OK;
    return msg_error(CLI_MACHINE, "%s needs %s of memory; this machine has %s", purpose,
                     com_show_bytes(bytes).text, com_show_bytes((double)memory).text);
}
