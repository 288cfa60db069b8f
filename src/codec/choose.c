/* How the k largest are found:
 * Each thread reads its share of the piece once and lists the elements whose score reaches a
 * threshold (collect). When a list is full, its k largest are kept and the k-th score raises the
 * threshold (keep_largest). The k-th score is found by counting: each sweep over the scores narrows
 * the range to one bin of the sweep before (find_last). The first threshold is guessed from a
 * sample, so that lists rarely fill up (guess); where it was too high, all is read again from 0. A
 * prescan makes one list while the elements are in the cache, from a threshold a little below the
 * last step's k-th score (tsi_choose_prescan). At the end the k largest of all lists are kept
 * (tsi_choose). An element's score is its magnitude, or less where call->scores says so (score_of).
 * Guesses, threads and kernels do not change the result. */
#include "codec/choose.h"

#include <math.h>
#include <string.h>

#include "base/parallel.h"

#define MAX_LISTS 64u        /* one list per thread */
#define TILE ((size_t)4096)  /* elements read between two checks of a list's free capacity */
#define SMALL ((size_t)8192) /* up to so many elements a guess or a prescan does not pay */
#define RUN ((size_t)16)     /* neighbours sampled together: a cache line */
#define MIN_SAMPLE ((size_t)4096)
#define MAX_SAMPLE ((size_t)32768)
#define MIN_CAPACITY ((size_t)4096)
#define BINS 4096u
#define EXACT 3        /* sweeps of 12 bits narrow 31 bits down to one score */
#define GUESS_SWEEPS 2 /* two sweeps leave 2^7 of 2^31 values; the guess is never too high */
#define MAX_SCORE 0x7fffffffu

/* A prescan's threshold that is too high costs another read pass; one that is too low makes the
 * list longer. So its margin shrinks slowly while the list is long enough and grows at once when it
 * is not. */
#define FIRST_MARGIN 0.1f
#define LEAST_MARGIN 0.02f
#define MOST_MARGIN 0.25f
#define SHRINK 0.98f
#define GROW 1.5f

/* The candidates of one thread's share of the piece, ascending. */
struct list {
    uint32_t *index;
    float *value;
    uint32_t *score;
    size_t count;
    size_t at; /* elements at .. end-1 of the piece are still to be read */
    size_t end;
    size_t passed;      /* entries of call->scores that the reading has passed */
    uint32_t threshold; /* elements are listed from this score on */
    uint32_t most;      /* the largest score so far */
    int not_finite;
    uint32_t last; /* find_last: the k-th largest score, */
    size_t ties;   /* and how many of those equal to it are among the k largest */
    uint32_t bins[BINS];
};

struct sizes {
    size_t lists;
    size_t share;    /* elements per list; the last list may have fewer */
    size_t capacity; /* entries per list */
};

struct choice {
    const struct tsi_call *call;
    const float *in;
    size_t k;
    uint32_t least; /* the initial threshold of all lists */
    struct sizes sizes;
    uint32_t prescan_from; /* the initial threshold of the next prescan; 0: not known yet */
    float margin;          /* prescan_from = (1 - margin) * the last k-th magnitude */
    struct list list[];
};

/* A list has room for four times k, so that dropping entries pays, but at most for its share; and
 * for one tile more. */
static struct sizes sizes_of(size_t count, size_t k, unsigned threads)
{
    const size_t tiles = (count + TILE - 1) / TILE;
    const size_t most = threads < MAX_LISTS ? threads : MAX_LISTS;
    const size_t useful = tiles < most ? tiles : most;
    const size_t lists = useful > 0 ? useful : 1;
    const size_t share = (tiles + lists - 1) / lists * TILE;
    const size_t wanted = 4 * k > MIN_CAPACITY ? 4 * k : MIN_CAPACITY;
    return (struct sizes){lists, share,
                          (wanted < share ? wanted : share) + TILE + TSK_COLLECT_ROOM};
}

size_t tsi_choose_scratch(size_t count, size_t k, unsigned threads)
{
    const struct sizes sizes = sizes_of(count, k, threads);
    const size_t entry_len = sizeof(uint32_t) + sizeof(float) + sizeof(uint32_t);
    const size_t sample_len = MAX_SAMPLE * sizeof(uint32_t);
    const size_t len = sizes.lists * sizes.capacity * entry_len;
    return sizeof(struct choice) + sizes.lists * sizeof(struct list) +
           (len > sample_len ? len : sample_len);
}

size_t tsi_choose_prescan_len(size_t count, size_t k)
{
    return count > SMALL ? tsi_choose_scratch(count, k, 1) : sizeof(struct choice);
}

/* How many of call->scores are of elements before this one of the piece. */
static size_t scores_before(const struct tsi_call *call, size_t element)
{
    size_t low = 0;
    size_t high = call->scores.count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (call->scores.index[middle] < call->piece->offset + element)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Lays out empty lists behind `choice`. */
static void begin(struct choice *choice, const struct tsi_call *call, const float *in, size_t k,
                  uint32_t threshold)
{
    const size_t count = call->piece->count;
    const struct sizes sizes = sizes_of(count, k, call->threads);
    const size_t entries = sizes.lists * sizes.capacity;
    uint32_t *const index = (uint32_t *)&choice->list[sizes.lists];
    float *const value = (float *)(index + entries);
    uint32_t *const score = (uint32_t *)(value + entries);
    choice->call = call;
    choice->in = in;
    choice->k = k;
    choice->least = threshold;
    choice->sizes = sizes;
    for (size_t i = 0; i < sizes.lists; i++) {
        struct list *const list = &choice->list[i];
        list->index = index + i * sizes.capacity;
        list->value = value + i * sizes.capacity;
        list->score = score + i * sizes.capacity;
        list->count = 0;
        list->at = i * sizes.share;
        list->end = list->at + sizes.share < count ? list->at + sizes.share : count;
        list->passed = scores_before(call, list->at);
        list->threshold = threshold;
        list->most = 0;
        list->not_finite = 0;
    }
}

/* The bits of a magnitude; they are in the order of the magnitudes. */
static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & MAX_SCORE;
}

/* The score of an element of the piece. *passed goes along with ascending elements. */
static uint32_t score_of(const struct tsi_call *call, size_t *passed, uint32_t element, float x)
{
    const struct tsi_scores *const scores = &call->scores;
    const uint64_t offset = call->piece->offset;
    const uint32_t magnitude = bits_of(x);
    while (*passed < scores->count && scores->index[*passed] - offset < element)
        ++*passed;
    if (*passed == scores->count || scores->index[*passed] - offset != element)
        return magnitude;
    const uint32_t score = bits_of(scores->score[*passed]);
    return score < magnitude ? score : magnitude;
}

/* Finds the k-th largest score of some lists, in at most `sweeps` sweeps; it is exact after EXACT
 * ones, else at most too low. No score is below `least`. The first list holds bins and result. */
static void find_last(struct list *list, size_t lists, uint32_t least, size_t k, int sweeps)
{
    uint32_t low = least;
    uint32_t high = least;
    unsigned shift;
    for (size_t s = 0; s < lists; s++)
        high = list[s].most > high ? list[s].most : high;
    do {
        shift = 0;
        while ((high - low) >> shift >= BINS)
            shift++;
        const uint32_t top = (high - low) >> shift;
        uint32_t *const bins = list->bins;
        memset(bins, 0, sizeof list->bins);
        for (size_t s = 0; s < lists; s++) {
            for (size_t i = 0; i < list[s].count; i++) {
                const uint32_t bin = (list[s].score[i] - low) >> shift; /* wraps below low */
                if (bin <= top)
                    bins[bin]++;
            }
        }
        uint32_t bin = top;
        while (bin > 0 && bins[bin] < k)
            k -= bins[bin--];
        low += bin << shift;
        high = low + ((1u << shift) - 1);
    } while (shift > 0 && --sweeps > 0);
    list->last = low;
    list->ties = k;
}

/* Moves the k largest of some lists to the front of the first; ties go to the lowest index. Writing
 * never passes reading, for the entries of all lists are in one array. */
static void keep_largest(struct list *list, size_t lists, uint32_t least, size_t k)
{
    find_last(list, lists, least, k, EXACT);
    const uint32_t last = list->last;
    size_t ties = list->ties;
    size_t kept = 0;
    for (size_t s = 0; s < lists; s++) {
        const struct list *const from = &list[s];
        for (size_t i = 0; i < from->count; i++) {
            const uint32_t score = from->score[i];
            const size_t tied = score == last && ties > 0;
            ties -= tied;
            list->index[kept] = from->index[i];
            list->value[kept] = from->value[i];
            list->score[kept] = score;
            kept += score > last || tied;
        }
    }
    list->count = kept;
}

/* Reads what is still to be read of a list's share. The kernel lists by magnitude; the scores are
 * filled in here, and entries whose score is below the threshold are dropped. */
static void collect(void *context, size_t part)
{
    struct choice *const choice = context;
    const struct tsi_call *const call = choice->call;
    struct list *const list = &choice->list[part];
    for (; list->at < list->end; list->at += TILE) {
        const size_t tile = list->end - list->at < TILE ? list->end - list->at : TILE;
        if (choice->sizes.capacity - list->count < tile + TSK_COLLECT_ROOM) {
            keep_largest(list, 1, choice->least, choice->k);
            list->threshold = list->last + 1; /* later elements lose ties */
        }
        const uint32_t threshold = list->threshold;
        size_t kept = list->count;
        size_t passed = list->passed;
        uint32_t most = list->most;
        int not_finite = 0;
        const size_t listed = kept + call->kernel->collect_f32(
                                         choice->in + list->at, tile, threshold, (uint32_t)list->at,
                                         list->index + kept, list->value + kept);
        for (size_t i = kept; i < listed; i++) {
            const float value = list->value[i];
            const uint32_t score = score_of(call, &passed, list->index[i], value);
            not_finite |= bits_of(value) >= TSK_INFINITY_BITS;
            most = score > most ? score : most;
            list->index[kept] = list->index[i];
            list->value[kept] = value;
            list->score[kept] = score;
            kept += score >= threshold;
        }
        list->count = kept;
        list->passed = passed;
        list->most = most;
        list->not_finite |= not_finite;
    }
}

/* A threshold that more than k elements reach, by about six standard deviations of the sample's
 * count (neighbours in real gradients are correlated, so the true deviation is larger). The first
 * list and the bytes behind it are free for the sample. */
static uint32_t guess(struct choice *choice, const struct tsi_call *call, const float *in, size_t k)
{
    const size_t count = call->piece->count;
    const size_t wanted = count / 64 / RUN * RUN;
    const size_t sample = wanted < MIN_SAMPLE   ? MIN_SAMPLE
                          : wanted > MAX_SAMPLE ? MAX_SAMPLE
                                                : wanted;
    const double expected = (double)k / (double)count * (double)sample;
    const double rank = expected + 6 * sqrt(expected) + 8;
    struct list *const list = choice->list;
    if (count <= SMALL || rank >= (double)sample)
        return 0;
    list->score = (uint32_t *)&choice->list[1];
    list->count = 0;
    list->most = MAX_SCORE;
    /* There is one run per stride, at a position that does not repeat with the rows of a matrix. */
    const size_t stride = count / (sample / RUN);
    for (size_t i = 0; i < sample / RUN; i++) {
        const uint32_t position = (uint32_t)i * 2654435761u >> 8;
        const size_t start = i * stride + position % (stride - RUN + 1);
        size_t passed = scores_before(call, start);
        for (size_t j = start; j < start + RUN; j++)
            list->score[list->count++] = score_of(call, &passed, (uint32_t)j, in[j]);
    }
    find_last(list, 1, 0, (size_t)rank, GUESS_SWEEPS);
    return list->last;
}

int tsi_choose_prescan(const struct tsi_call *call, const float *in, size_t k, size_t first,
                       size_t count)
{
    struct choice *const choice = call->prescan_state;
    if (choice->prescan_from == 0 || call->threads > 1 || call->piece->count <= SMALL)
        return 0;
    if (first == 0)
        begin(choice, call, in, k, choice->prescan_from);
    choice->call = call;
    choice->list[0].at = first;
    choice->list[0].end = first + count;
    collect(choice, 0);
    return 1;
}

terse_status tsi_choose(const struct tsi_call *call, const float *in, size_t k,
                        struct tsi_chosen *chosen)
{
    struct choice *const prescan = call->prescan_state;
    const int enough = call->prescanned && prescan->list[0].count >= k;
    struct choice *const choice = enough ? prescan : call->scratch;
    uint32_t threshold = enough ? 0 : guess(choice, call, in, k);
    size_t listed = enough ? k : 0;
    while (listed < k) {
        begin(choice, call, in, k, threshold);
        tsi_each_part(call->threads, choice->sizes.lists, collect, choice);
        listed = 0;
        for (size_t s = 0; s < choice->sizes.lists; s++)
            listed += choice->list[s].count;
        threshold = 0; /* if the guess was too high: from 0 on there are enough */
    }
    for (size_t s = 0; s < choice->sizes.lists; s++)
        if (choice->list[s].not_finite)
            return TERSE_NOT_FINITE;
    struct list *const list = choice->list;
    keep_largest(list, choice->sizes.lists, choice->least, k);
    if (prescan) {
        float last;
        memcpy(&last, &list->last, sizeof last);
        if (prescan->prescan_from == 0)
            prescan->margin = FIRST_MARGIN;
        else if (call->prescanned)
            prescan->margin *= enough ? SHRINK : GROW;
        prescan->margin = fminf(fmaxf(prescan->margin, LEAST_MARGIN), MOST_MARGIN);
        prescan->prescan_from = bits_of((1 - prescan->margin) * last);
    }
    *chosen = (struct tsi_chosen){list->index, list->value};
    return TERSE_OK;
}
