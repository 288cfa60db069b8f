#include "codec/choose.h"

#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "codec/rank.h"

#define MAX_LISTS 64u        /* one list per thread */
#define TILE ((size_t)4096)  /* elements read between two checks of a list's free capacity */
#define SMALL ((size_t)8192) /* up to so many elements a guess or a prescan does not pay */
#define RUN ((size_t)16)     /* neighbours sampled together: a cache line */
#define MIN_SAMPLE ((size_t)4096)
#define MAX_SAMPLE ((size_t)32768)
#define GUESS_SWEEPS 2 /* two sweeps leave 2^7 of 2^31 values; the guess is never too high */
#define MIN_CAPACITY ((size_t)4096)

/* The candidates of one thread's share of the piece, ascending. */
struct list {
    uint32_t *index;
    float *value;
    uint32_t *score;
    size_t count;
    uint32_t threshold; /* elements are listed from this score on */
    uint32_t most;      /* the largest score so far */
    int not_finite;
    size_t patched; /* patches that the walk has passed */
    struct tsi_rank rank;
};

struct choice {
    const struct tsi_call *call;
    const float *in;
    uint32_t least; /* the initial threshold of all lists */
    size_t k;
    size_t share; /* elements per list; the last list may have fewer */
    size_t lists;
    size_t capacity; /* entries per list */
    struct tsi_rank rank;
    struct list list[];
};

/* ---- sizes ---- */

static size_t lists_of(size_t count, unsigned threads)
{
    const size_t tiles = (count + TILE - 1) / TILE;
    const size_t most = threads < MAX_LISTS ? threads : MAX_LISTS;
    const size_t lists = tiles < most ? tiles : most;
    return lists > 0 ? lists : 1;
}

static size_t share_of(size_t count, size_t lists)
{
    const size_t tiles = (count + TILE - 1) / TILE;
    return (tiles + lists - 1) / lists * TILE;
}

/* Four times k, so that dropping entries pays, but at most the share; and one tile more. */
static size_t capacity_of(size_t share, size_t k)
{
    const size_t wanted = 4 * k > MIN_CAPACITY ? 4 * k : MIN_CAPACITY;
    return (wanted < share ? wanted : share) + TILE + TSK_COLLECT_ROOM;
}

static size_t sample_of(size_t count)
{
    const size_t sample = count / 64;
    if (sample > MAX_SAMPLE)
        return MAX_SAMPLE;
    return sample < MIN_SAMPLE ? MIN_SAMPLE : sample / RUN * RUN;
}

size_t tsi_choose_scratch(size_t count, size_t k, unsigned threads)
{
    const size_t lists = lists_of(count, threads);
    const size_t entries = lists * capacity_of(share_of(count, lists), k);
    const size_t entry_len = sizeof(uint32_t) + sizeof(float) + sizeof(uint32_t);
    const size_t sample_len = MAX_SAMPLE * sizeof(uint32_t);
    const size_t len = entries * entry_len;
    return sizeof(struct choice) + lists * sizeof(struct list) +
           (len > sample_len ? len : sample_len);
}

static void lay_out(struct choice *choice, const struct tsi_call *call, const float *in, size_t k)
{
    const size_t count = call->piece->count;
    choice->call = call;
    choice->in = in;
    choice->k = k;
    choice->lists = lists_of(count, call->threads);
    choice->share = share_of(count, choice->lists);
    choice->capacity = capacity_of(choice->share, k);
    const size_t entries = choice->lists * choice->capacity;
    uint32_t *const index = (uint32_t *)&choice->list[choice->lists];
    float *const value = (float *)(index + entries);
    uint32_t *const score = (uint32_t *)(value + entries);
    for (size_t i = 0; i < choice->lists; i++) {
        choice->list[i].index = index + i * choice->capacity;
        choice->list[i].value = value + i * choice->capacity;
        choice->list[i].score = score + i * choice->capacity;
    }
}

/* ---- scores ---- */

static uint32_t magnitude_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* Patches in ascending order, next to a walk over ascending elements of the piece. */
struct patches {
    struct tsi_scores patch;
    uint64_t offset; /* of the piece */
    size_t at;
};

static struct patches patches_from(const struct tsi_call *call, uint64_t element)
{
    struct patches patches = {call->scores, call->piece->offset, 0};
    size_t high = patches.patch.count;
    while (patches.at < high) {
        const size_t middle = patches.at + (high - patches.at) / 2;
        if (patches.patch.index[middle] < patches.offset + element)
            patches.at = middle + 1;
        else
            high = middle;
    }
    return patches;
}

static uint32_t score_of(struct patches *patches, uint64_t element, float x)
{
    const uint32_t magnitude = magnitude_bits(x);
    const struct tsi_scores *const patch = &patches->patch;
    while (patches->at < patch->count && patch->index[patches->at] - patches->offset < element)
        patches->at++;
    if (patches->at == patch->count || patch->index[patches->at] - patches->offset != element)
        return magnitude;
    const uint32_t score = magnitude_bits(patch->score[patches->at]);
    return score < magnitude ? score : magnitude;
}

/* ---- the guess ---- */

/* The start of the i-th of `runs` sampled runs. There is one run per stride, at a position inside
 * it that does not repeat with the rows of a matrix. */
static size_t run_start(size_t i, size_t runs, size_t count)
{
    const size_t stride = count / runs;
    const uint32_t position = (uint32_t)i * 2654435761u >> 8;
    return i * stride + (stride > RUN ? position % (stride - RUN + 1) : 0);
}

/* A threshold that more than k elements reach, by about six standard deviations of the sample's
 * count (neighbours in real gradients are correlated, so the true deviation is larger). */
static uint32_t guess(struct choice *choice)
{
    const size_t count = choice->call->piece->count;
    const size_t sample = sample_of(count);
    uint32_t *const score =
        choice->list[0].index; /* the lists are not in use yet: all of their bytes are free */
    size_t taken = 0;
    if (count <= SMALL)
        return 0;
    for (size_t i = 0; i < sample / RUN; i++) {
        const size_t start = run_start(i, sample / RUN, count);
        struct patches patches = patches_from(choice->call, start);
        for (size_t j = start; j < start + RUN; j++)
            score[taken++] = score_of(&patches, j, choice->in[j]);
    }
    const double expected = (double)choice->k / (double)count * (double)sample;
    const double rank = expected + 6 * sqrt(expected) + 8;
    if (rank >= (double)sample)
        return 0;
    tsi_rank_begin(&choice->rank, 0, 0x7fffffffu, (size_t)rank);
    for (int sweep = 0; sweep < GUESS_SWEEPS; sweep++) {
        for (size_t i = 0; i < sample; i++)
            tsi_rank_count(&choice->rank, score[i]);
        (void)tsi_rank_narrow(&choice->rank);
    }
    return choice->rank.low;
}

/* ---- one list ---- */

/* Finds the k-th largest score of some lists, and how many of the scores equal to it are among the
 * k largest. No score is below `least`. */
static void rank_lists(struct tsi_rank *rank, const struct list *list, size_t lists, uint32_t least,
                       size_t k)
{
    uint32_t most = least;
    for (size_t s = 0; s < lists; s++)
        most = list[s].most > most ? list[s].most : most;
    tsi_rank_begin(rank, least, most, k);
    do
        for (size_t s = 0; s < lists; s++)
            for (size_t i = 0; i < list[s].count; i++)
                tsi_rank_count(rank, list[s].score[i]);
    while (!tsi_rank_narrow(rank));
}

/* Drops all but the k largest. Later elements have a higher index and lose ties, so the new
 * threshold is above the k-th score. */
static void drop_smaller(struct list *list, uint32_t least, size_t k)
{
    size_t kept = 0;
    rank_lists(&list->rank, list, 1, least, k);
    const uint32_t last = list->rank.low;
    size_t ties = list->rank.rank;
    for (size_t i = 0; i < list->count; i++) {
        const uint32_t score = list->score[i];
        const size_t tied = score == last && ties > 0;
        ties -= tied;
        list->index[kept] = list->index[i];
        list->value[kept] = list->value[i];
        list->score[kept] = score;
        kept += score > last || tied;
    }
    list->count = kept;
    list->threshold = last + 1;
}

/* Fills in the scores of entries from .. count-1 and drops those that a patch puts below. */
static void settle_scores(const struct tsi_call *call, struct list *list, size_t from)
{
    size_t kept = from;
    uint32_t most = list->most;
    if (from == list->count)
        return;
    struct patches patches = {call->scores, call->piece->offset, list->patched};
    for (size_t i = from; i < list->count; i++) {
        const float value = list->value[i];
        const uint32_t score = score_of(&patches, list->index[i], value);
        list->not_finite |= magnitude_bits(value) >= TSK_INFINITY_BITS;
        most = score > most ? score : most;
        list->index[kept] = list->index[i];
        list->value[kept] = value;
        list->score[kept] = score;
        kept += score >= list->threshold;
    }
    list->patched = patches.at;
    list->most = most;
    list->count = kept;
}

static void fill_from(struct choice *choice, struct list *list, size_t first, size_t end)
{
    for (size_t at = first; at < end; at += TILE) {
        const size_t tile = end - at < TILE ? end - at : TILE;
        if (choice->capacity - list->count < tile + TSK_COLLECT_ROOM)
            drop_smaller(list, choice->least, choice->k);
        const size_t from = list->count;
        list->count +=
            choice->call->kernel->collect_f32(choice->in + at, tile, list->threshold, (uint32_t)at,
                                              list->index + from, list->value + from);
        settle_scores(choice->call, list, from);
    }
}

/* One read pass over a list's share. */
static void fill_list(void *context, size_t part)
{
    struct choice *const choice = context;
    const size_t count = choice->call->piece->count;
    const size_t first = part * choice->share;
    const size_t end = first + choice->share < count ? first + choice->share : count;
    choice->list[part].patched = patches_from(choice->call, first).at;
    fill_from(choice, &choice->list[part], first, end);
}

/* ---- all lists ---- */

static void empty_lists(struct choice *choice, uint32_t threshold)
{
    choice->least = threshold;
    for (size_t s = 0; s < choice->lists; s++) {
        choice->list[s].count = 0;
        choice->list[s].most = 0;
        choice->list[s].threshold = threshold;
        choice->list[s].not_finite = 0;
        choice->list[s].patched = 0;
    }
}

/* Lists candidates from a threshold on, and returns how many. */
static size_t fill_lists(struct choice *choice, uint32_t threshold)
{
    size_t listed = 0;
    empty_lists(choice, threshold);
    tsi_each_part(choice->call->threads, choice->lists, fill_list, choice);
    for (size_t s = 0; s < choice->lists; s++)
        listed += choice->list[s].count;
    return listed;
}

/* Moves the k chosen entries to the front of the first list. Writing never passes reading. */
static void compact_chosen(struct choice *choice, struct tsi_chosen *chosen)
{
    const uint32_t last = choice->rank.low;
    size_t ties = choice->rank.rank;
    size_t kept = 0;
    for (size_t s = 0; s < choice->lists; s++) {
        const struct list *const list = &choice->list[s];
        for (size_t i = 0; i < list->count; i++) {
            const uint32_t score = list->score[i];
            const size_t tied = score == last && ties > 0;
            ties -= tied;
            chosen->index[kept] = list->index[i];
            chosen->value[kept] = list->value[i];
            kept += score > last || tied;
        }
    }
}

/* Lists all candidates in one read pass. */
static struct choice *list_candidates(const struct tsi_call *call, const float *in, size_t k)
{
    struct choice *const choice = call->scratch;
    lay_out(choice, call, in, k);
    const uint32_t threshold = guess(choice);
    if (fill_lists(choice, threshold) < k && threshold > 0)
        (void)fill_lists(choice, 0);
    return choice;
}

/* ---- prescan ---- */

/* The initial threshold of the next prescan. A choice with one list follows it, aligned like
 * scratch. */
struct prescan_state {
    _Alignas(64) uint32_t start; /* 0: not known yet */
    float margin;                /* start = (1 - margin) * the last k-th magnitude */
};

/* A start that is too high costs another read pass; one that is too low makes the list longer. So
 * the margin shrinks slowly while the list is long enough and grows at once when it is not. */
#define FIRST_MARGIN 0.1f
#define LEAST_MARGIN 0.02f
#define MOST_MARGIN 0.25f
#define SHRINK 0.98f
#define GROW 1.5f

static struct choice *prescan_choice(const struct tsi_call *call)
{
    return (struct choice *)((struct prescan_state *)call->prescan_state + 1);
}

size_t tsi_choose_prescan_len(size_t count, size_t k)
{
    return sizeof(struct prescan_state) + (count > SMALL ? tsi_choose_scratch(count, k, 1) : 0);
}

int tsi_choose_prescan(const struct tsi_call *call, const float *in, size_t k, size_t first,
                       size_t count)
{
    const struct prescan_state *const prescan_state = call->prescan_state;
    struct choice *const choice = prescan_choice(call);
    if (prescan_state->start == 0 || call->threads > 1 || call->piece->count <= SMALL)
        return 0;
    if (first == 0) {
        lay_out(choice, call, in, k);
        empty_lists(choice, prescan_state->start);
        choice->list[0].patched = patches_from(call, 0).at;
    }
    choice->call = call;
    fill_from(choice, &choice->list[0], first, first + count);
    return 1;
}

/* The list that the prescan made; NULL if it has fewer than k entries. */
static struct choice *prescanned_list(const struct tsi_call *call, size_t k)
{
    struct choice *const choice = call->prescanned ? prescan_choice(call) : NULL;
    if (!choice || choice->list[0].count < k)
        return NULL;
    choice->call = call;
    return choice;
}

static void update_start(const struct tsi_call *call, uint32_t last, int enough)
{
    struct prescan_state *const prescan_state = call->prescan_state;
    float magnitude;
    memcpy(&magnitude, &last, sizeof magnitude);
    if (!prescan_state)
        return;
    if (prescan_state->start == 0)
        prescan_state->margin = FIRST_MARGIN;
    else if (call->prescanned)
        prescan_state->margin *= enough ? SHRINK : GROW;
    prescan_state->margin = fminf(fmaxf(prescan_state->margin, LEAST_MARGIN), MOST_MARGIN);
    prescan_state->start = magnitude_bits((1 - prescan_state->margin) * magnitude);
}

terse_status tsi_choose(const struct tsi_call *call, const float *in, size_t k,
                        struct tsi_chosen *chosen)
{
    struct choice *const prescanned = prescanned_list(call, k);
    struct choice *const choice = prescanned ? prescanned : list_candidates(call, in, k);
    for (size_t s = 0; s < choice->lists; s++)
        if (choice->list[s].not_finite)
            return TERSE_NOT_FINITE;
    rank_lists(&choice->rank, choice->list, choice->lists, choice->least, k);
    update_start(call, choice->rank.low, prescanned != NULL);
    chosen->index = choice->list[0].index;
    chosen->value = choice->list[0].value;
    compact_chosen(choice, chosen);
    return TERSE_OK;
}
