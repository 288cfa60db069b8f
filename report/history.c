#include "history.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Lines that may wait while a reader that holds the lock is not running; sixteen times as many for
 * lines that may not be dropped. */
enum { MOST_INCOMING = 256, MOST_INCOMING_KEPT = 16 * MOST_INCOMING };

struct entry {
    struct entry *older; /* used while the entry is incoming */
    uint64_t number;     /* from 1 */
    size_t len;
    int thin;
    char text[];
};

struct rep_history {
    pthread_mutex_t lock; /* protects the members up to `incoming` */
    struct entry **entries;
    size_t count;
    size_t bytes;
    size_t most_lines;
    size_t most_bytes;

    /* The pusher adds the newest in front; whoever has the lock moves all of them to the list. */
    struct entry *_Atomic incoming;
    atomic_size_t incoming_count;
    uint64_t last_number; /* used by the pusher only */
};

struct rep_history *rep_history_create(size_t most_lines, size_t most_bytes)
{
    struct rep_history *history = calloc(1, sizeof *history);
    struct entry **entries = calloc(most_lines, sizeof *entries);
    if (!history || !entries || pthread_mutex_init(&history->lock, NULL) != 0) {
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
    if (!history)
        return;
    for (size_t i = 0; i < history->count; i++)
        free(history->entries[i]);
    for (struct entry *entry = history->incoming; entry;) {
        struct entry *older = entry->older;
        free(entry);
        entry = older;
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
    for (size_t i = 0; i < history->count; i++)
        thin += history->entries[i]->thin != 0;
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

/* Call it with the lock held. */
static void take_in(struct rep_history *history)
{
    struct entry *newest = atomic_exchange(&history->incoming, NULL);
    struct entry *oldest = NULL;
    while (newest) {
        struct entry *older = newest->older;
        newest->older = oldest;
        oldest = newest;
        newest = older;
    }
    while (oldest) {
        struct entry *entry = oldest;
        oldest = entry->older;
        while (history->count > 0 && (history->count == history->most_lines ||
                                      history->bytes + entry->len > history->most_bytes))
            thin_out(history);
        history->entries[history->count++] = entry;
        history->bytes += entry->len;
        atomic_fetch_sub(&history->incoming_count, 1);
    }
}

int rep_history_push(struct rep_history *history, const char *line, size_t len, int thin)
{
    size_t most = thin ? MOST_INCOMING : MOST_INCOMING_KEPT;
    if (len > REP_MOST_LINE || atomic_load(&history->incoming_count) >= most)
        return 0;
    struct entry *entry = malloc(sizeof *entry + len);
    if (!entry)
        return 0;
    entry->number = ++history->last_number;
    entry->len = len;
    entry->thin = thin;
    memcpy(entry->text, line, len);
    atomic_fetch_add(&history->incoming_count, 1);
    entry->older = atomic_load(&history->incoming);
    while (!atomic_compare_exchange_weak(&history->incoming, &entry->older, entry)) {
    }
    /* A reader that holds the lock moves the line to the list when it looks for the next one. */
    if (pthread_mutex_trylock(&history->lock) == 0) {
        take_in(history);
        pthread_mutex_unlock(&history->lock);
    }
    return 1;
}

/* The first entry whose number is greater: numbers ascend. */
static size_t first_after(const struct rep_history *history, uint64_t number)
{
    size_t low = 0;
    size_t high = history->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (history->entries[middle]->number > number)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

size_t rep_history_next(struct rep_history *history, uint64_t *cursor, char *line)
{
    size_t len = 0;
    pthread_mutex_lock(&history->lock);
    take_in(history);
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
