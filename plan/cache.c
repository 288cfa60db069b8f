/* Traces in the user's cache folder, a JSON file for each: recording takes seconds, and depends on
 * the CPU, the version, the method, the layout and the number of workers alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/json.h"
#include "record.h"

enum { FORMAT = 7, KEY_CAP = TERSE_MAX_METHOD_SPEC + 512, NUMBERS = 5 };

static void cpu_name(char *out, size_t cap)
{
    FILE *const file = fopen("/proc/cpuinfo", "r");
    char line[256];
    (void)snprintf(out, cap, "unknown");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0) {
            line[strcspn(line, "\n")] = '\0';
            (void)snprintf(out, cap, "%s", line);
            break;
        }
    if (file)
        (void)fclose(file);
}

/* All that a trace depends on, as a line. */
static void key_of(const struct pln_job *job, char *out, size_t cap)
{
    terse_method_description chosen = {.size = sizeof chosen};
    const char *kernels = "";
    char cpu[256];
    cpu_name(cpu, sizeof cpu);
    if (terse_kernel_set_name(&kernels, NULL) != TERSE_OK)
        kernels = "";
    if (terse_method_describe(job->spec, &chosen, NULL) != TERSE_OK)
        chosen.spec[0] = '\0';
    (void)snprintf(out, cap, "%d %s %s %s; %u %u %u %u %llx %llu %llu; %s", FORMAT, terse_version(),
                   cpu, kernels, job->workers, job->even, job->threads, job->at_once,
                   (unsigned long long)terse_layout_hash(job->layout),
                   (unsigned long long)job->most, (unsigned long long)job->bucket, chosen.spec);
}

/* FNV-1a: a name for the file; the key itself is compared. */
static uint64_t hash(const char *text)
{
    uint64_t value = UINT64_C(14695981039346656037);
    for (; *text != '\0'; text++)
        value = (value ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return value;
}

/* The file of a key; NULL: there is no home, or no memory. The caller frees it. */
static char *path_of(const char *key, int make)
{
    const char *const cache = getenv("XDG_CACHE_HOME");
    const char *const home = getenv("HOME");
    char folder[4096];
    char name[32];
    terse_fault fault;
    const int given = cache && cache[0] == '/';
    if (!given && (!home || home[0] != '/'))
        return NULL;
    (void)snprintf(folder, sizeof folder, "%s%s/terse/plan", given ? cache : home,
                   given ? "" : "/.cache");
    if (make && com_folder_make(folder, &fault) != TERSE_OK)
        return NULL;
    (void)snprintf(name, sizeof name, "%016llx.json", (unsigned long long)hash(key));
    return com_path_join(folder, name);
}

/* ---- writing ---- */

static com_json *rank_json(const struct pln_rank *rank)
{
    com_json *const numbers = com_json_array();
    for (size_t e = 0; e < rank->count; e++) {
        const struct pln_event *const event = &rank->event[e];
        com_json_append_u64(numbers, (uint64_t)event->kind);
        com_json_append_u64(numbers, event->operation);
        com_json_append_real(numbers, event->amount);
        com_json_append_real(numbers, event->sent);
        com_json_append_real(numbers, event->received);
    }
    return numbers;
}

static void store(const char *key, const struct pln_trace *trace)
{
    char *const path = path_of(key, 1);
    com_json *const json = com_json_object();
    com_json *const ranks = com_json_array();
    terse_fault fault;
    com_json_put_text(json, "key", key);
    com_json_put_u64(json, "workers", trace->workers);
    com_json_put_u64(json, "operations", trace->operations);
    com_json_put_u64(json, "every", trace->every);
    com_json_put_real(json, "scale", trace->scale);
    for (uint32_t i = 0; i < trace->ranks; i++)
        com_json_append(ranks, rank_json(&trace->rank[i]));
    com_json_put(json, "ranks", ranks);
    if (path)
        (void)!com_json_write(path, json, &fault);
    com_json_free(json);
    free(path);
}

/* ---- reading ---- */

/* One rank's events, with nothing in them that a simulation could not bear: operations in order,
 * each posted once, and none awaited that is not posted. */
static int read_rank(const com_json *numbers, uint32_t operations, struct pln_rank *out)
{
    const size_t count = com_json_count(numbers) / NUMBERS;
    const com_json *item = com_json_first(numbers);
    uint32_t posted = 0;
    out->event = calloc(count + 1, sizeof *out->event);
    if (!com_json_is_array(numbers) || com_json_count(numbers) % NUMBERS != 0 || !out->event)
        return 0;
    for (size_t e = 0; e < count; e++) {
        double value[NUMBERS];
        for (int i = 0; i < NUMBERS; i++, item = com_json_next(item))
            if (!com_json_real(item, &value[i]) || !(value[i] >= 0 && value[i] < 1e18))
                return 0;
        if (value[0] > PLN_WAIT || value[1] > UINT32_MAX)
            return 0;
        struct pln_event *const event = &out->event[out->count++];
        *event = (struct pln_event){(enum pln_kind)value[0], (uint32_t)value[1], value[2], value[3],
                                    value[4]};
        if (event->kind == PLN_POST && event->operation != posted++)
            return 0;
        if (event->kind == PLN_WAIT && event->operation >= posted)
            return 0;
    }
    return posted == operations;
}

static struct pln_trace *load(const char *key)
{
    char *const path = path_of(key, 0);
    com_json *json = NULL;
    terse_fault fault;
    const char *stored = NULL;
    uint64_t workers = 0;
    uint64_t operations = 0;
    uint64_t every = 0;
    struct pln_trace *trace = NULL;
    int whole = path && com_file_exists(path) && com_json_read(path, &json, &fault) == TERSE_OK &&
                com_json_get_text(json, "key", &stored) && strcmp(stored, key) == 0 &&
                com_json_get_u64(json, "workers", &workers) && workers <= PLN_MOST_WORKERS &&
                com_json_get_u64(json, "operations", &operations) && operations < UINT32_MAX &&
                com_json_get_u64(json, "every", &every) && every > 0 && every <= UINT32_MAX;
    const com_json *const ranks = whole ? com_json_get(json, "ranks") : NULL;
    const size_t count = com_json_is_array(ranks) ? com_json_count(ranks) : 0;
    whole = whole && workers > 0 && (count == workers || count == 2);
    if (whole)
        trace = calloc(1, sizeof *trace);
    if (trace) {
        *trace = (struct pln_trace){.workers = (uint32_t)workers,
                                    .operations = (uint32_t)operations,
                                    .every = (uint32_t)every,
                                    .rank = calloc(count, sizeof *trace->rank)};
        whole = trace->rank && com_json_get_real(json, "scale", &trace->scale);
        trace->ranks = trace->rank ? (uint32_t)count : 0;
        const com_json *item = com_json_first(ranks);
        for (uint32_t i = 0; i < trace->ranks && whole; i++, item = com_json_next(item))
            whole = read_rank(item, trace->operations, &trace->rank[i]);
    }
    com_json_free(json);
    free(path);
    if (whole)
        return trace;
    pln_trace_free(trace);
    return NULL;
}

terse_status pln_record_cached(const struct pln_job *job, struct pln_trace **out,
                               terse_fault *fault)
{
    char key[KEY_CAP];
    key_of(job, key, sizeof key);
    *out = load(key);
    if (*out)
        return TERSE_OK;
    struct pln_job recorded = *job;
    recorded.cached = 1;
    const terse_status status = pln_record(&recorded, out, fault);
    if (status == TERSE_OK)
        store(key, *out);
    return status;
}
