#include "history.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WAITING = 256 };

struct entry {
    uint64_t number; /* from 1 */
    size_t len;
    int thin;
    char text[];
};

struct rep_history {
    pthread_mutex_t lock; /* for what follows, up to `waiting` */
    struct entry **entries;
    size_t count;
    size_t bytes;
    size_t most_lines;
    size_t most_bytes;

    /* The pusher's own: lines that came while a reader held the lock. */
    struct entry *waiting[MOST_WAITING];
    size_t waiting_count;
    uint64_t last_number;
};

struct rep_history *rep_history_create(size_t most_lines, size_t most_bytes)
{
    struct rep_history *history = calloc(1, sizeof *history);
    struct entry **entries = calloc(most_lines, sizeof *entries);
    if (history == NULL || entries == NULL || pthread_mutex_init(&history->lock, NULL) != 0) {
        free(history);
        free(entries);
        return NULL;
    }
    history->entries = entries;
    history->most_lines = most_lines;
    history->most_bytes = most_bytes;
    return history;
}

void rep_history_destroy(struct rep_history *history)
{
    if (history == NULL) {
        return;
    }
    for (size_t i = 0; i < history->count; i++) {
        free(history->entries[i]);
    }
    for (size_t i = 0; i < history->waiting_count; i++) {
        free(history->waiting[i]);
    }
    pthread_mutex_destroy(&history->lock);
    free(history->entries);
    free(history);
}

/* Keeps every other thin line, or, where none is thin, the newer half. */
static void thin_out(struct rep_history *history)
{
    size_t kept = 0;
    size_t seen = 0;
    size_t thin = 0;
    for (size_t i = 0; i < history->count; i++) {
        thin += history->entries[i]->thin != 0;
    }
    for (size_t i = 0; i < history->count; i++) {
        struct entry *entry = history->entries[i];
        int drop = thin > 1 ? entry->thin && seen++ % 2 == 0 : i < (history->count + 1) / 2;
        if (drop) {
            history->bytes -= entry->len;
            free(entry);
        } else {
            history->entries[kept++] = entry;
        }
    }
    history->count = kept;
}

static void take_in(struct rep_history *history)
{
    for (size_t i = 0; i < history->waiting_count; i++) {
        struct entry *entry = history->waiting[i];
        while (history->count > 0 && (history->count == history->most_lines ||
                                      history->bytes + entry->len > history->most_bytes)) {
            thin_out(history);
        }
        history->entries[history->count++] = entry;
        history->bytes += entry->len;
    }
    history->waiting_count = 0;
}

/* The oldest line that may go; the oldest of all where none may. */
static void drop_waiting(struct rep_history *history)
{
    size_t victim = 0;
    for (size_t i = history->waiting_count; i-- > 0;) {
        victim = history->waiting[i]->thin ? i : victim;
    }
    free(history->waiting[victim]);
    history->waiting_count--;
    memmove(&history->waiting[victim], &history->waiting[victim + 1],
            (history->waiting_count - victim) * sizeof history->waiting[0]);
}

int rep_history_push(struct rep_history *history, const char *line, size_t len, int thin)
{
    struct entry *entry = len > REP_MOST_LINE ? NULL : malloc(sizeof *entry + len);
    if (entry == NULL) {
        return 0;
    }
    entry->number = ++history->last_number;
    entry->len = len;
    entry->thin = thin;
    memcpy(entry->text, line, len);
    if (history->waiting_count == MOST_WAITING) {
        drop_waiting(history);
    }
    history->waiting[history->waiting_count++] = entry;
    if (pthread_mutex_trylock(&history->lock) == 0) {
        take_in(history);
        pthread_mutex_unlock(&history->lock);
    }
    return 1;
}

void rep_history_flush(struct rep_history *history)
{
    pthread_mutex_lock(&history->lock);
    take_in(history);
    pthread_mutex_unlock(&history->lock);
}

/* The first entry whose number is greater: numbers ascend. */
static size_t first_after(const struct rep_history *history, uint64_t number)
{
    size_t low = 0;
    size_t high = history->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (history->entries[middle]->number > number) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

size_t rep_history_next(struct rep_history *history, uint64_t *cursor, char *line)
{
    size_t len = 0;
    pthread_mutex_lock(&history->lock);
    size_t at = first_after(history, *cursor);
    if (at < history->count) {
        const struct entry *entry = history->entries[at];
        len = entry->len;
        memcpy(line, entry->text, len);
        *cursor = entry->number;
    }
    pthread_mutex_unlock(&history->lock);
    return len;
}
