/* Parts of data. Holding out puts a part of the training examples in place of the test set, so that
 * a learning rate can be chosen without looking at the test set; and some classes can be kept
 * alone.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "data/draw.h"
#include "data/object.h"
#include "data/read.h"

/* Copies the picked rows of `width` bytes each; NULL: `from` has no such rows. *missing becomes 1
 * where there is no memory. */
static void *pick_rows(const void *from, size_t width, const uint32_t *picks, uint32_t count,
                       int *missing)
{
    if (!from)
        return NULL;
    uint8_t *const rows = malloc(count * width + 1);
    *missing |= !rows;
    for (uint32_t i = 0; rows && i < count; i++)
        memcpy(rows + i * width, (const uint8_t *)from + picks[i] * width, width);
    return rows;
}

/* Where the picked rows of varying length begin, one behind the other; NULL: there are none. */
static size_t *pick_starts(const size_t *starts, const uint32_t *picks, uint32_t count,
                           int *missing)
{
    if (!starts)
        return NULL;
    size_t *const out = malloc((count + (size_t)1) * sizeof *out);
    *missing |= !out;
    if (out)
        out[0] = 0;
    for (uint32_t i = 0; out && i < count; i++)
        out[i + 1] = out[i] + starts[picks[i] + 1] - starts[picks[i]];
    return out;
}

/* The elements of `width` bytes of those rows. */
static void *pick_elements(const void *from, size_t width, const size_t *starts,
                           const uint32_t *picks, uint32_t count, const size_t *out_starts,
                           int *missing)
{
    if (!from || !out_starts)
        return NULL;
    uint8_t *const out = malloc(out_starts[count] * width + 1);
    *missing |= !out;
    for (uint32_t i = 0; out && i < count; i++)
        memcpy(out + out_starts[i] * width, (const uint8_t *)from + starts[picks[i]] * width,
               (out_starts[i + 1] - out_starts[i]) * width);
    return out;
}

/* Returns 0 where there is no memory. */
static int pick(const struct trn_examples *from, size_t features, const uint32_t *picks,
                uint32_t count, struct trn_examples *out)
{
    int missing = 0;
    *out = (struct trn_examples){.count = count};
    out->labels = pick_rows(from->labels, sizeof *from->labels, picks, count, &missing);
    out->targets = pick_rows(from->targets, sizeof *from->targets, picks, count, &missing);
    out->image_block = pick_rows(from->pixels, features, picks, count, &missing);
    out->pixels = out->image_block;
    out->dense = pick_rows(from->dense, features * sizeof(float), picks, count, &missing);
    out->row_at = pick_starts(from->row_at, picks, count, &missing);
    out->columns = pick_elements(from->columns, sizeof *from->columns, from->row_at, picks, count,
                                 out->row_at, &missing);
    out->values = pick_elements(from->values, sizeof *from->values, from->row_at, picks, count,
                                out->row_at, &missing);
    out->text_at = pick_starts(from->text_at, picks, count, &missing);
    out->text = pick_elements(from->text, 1, from->text_at, picks, count, out->text_at, &missing);
    return !missing;
}

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

terse_status trn_data_hold_out(struct trn_data *data, double share, terse_fault *fault)
{
    struct trn_examples parts[TRN_SPLITS] = {{.count = 0}};
    const uint32_t count = data->split[TRN_TRAIN].count;
    const uint32_t held = (uint32_t)floor(share * count);
    struct trn_stream stream;
    if (held == 0 || held >= count)
        return com_fail(fault, TERSE_BAD_ARGUMENT,
                        "holding out %g of %u training examples leaves %u for training and %u for "
                        "evaluation; both need at least one",
                        share, count, count - held, held);
    uint32_t *const dealt = malloc(count * sizeof *dealt);
    int is_whole = dealt != NULL;
    if (dealt) {
        for (uint32_t i = 0; i < count; i++)
            dealt[i] = i;
        trn_stream_start(&stream, 0, TRN_DRAW_HELD_OUT, 0, 0);
        trn_draw_shuffle(&stream, dealt, count);
        qsort(dealt, count - held, sizeof *dealt, ascending);
        is_whole = pick(&data->split[TRN_TRAIN], data->about.features, dealt, count - held,
                        &parts[TRN_TRAIN]) &&
                   pick(&data->split[TRN_TRAIN], data->about.features, dealt + count - held, held,
                        &parts[TRN_TEST]);
    }
    free(dealt);
    for (int i = 0; i < TRN_SPLITS; i++) {
        trn_examples_free(is_whole ? &data->split[i] : &parts[i]);
        if (is_whole)
            data->split[i] = parts[i];
        data->about.count[i] = data->split[i].count;
    }
    return is_whole ? TERSE_OK : com_fail(fault, TERSE_NO_MEMORY, "no memory to hold out examples");
}

/* ---- classes ---- */

/* "3" or "0-4" at the head of a list: marks them in `new_label`. Returns where the next begins,
 * NULL if the text is none of the classes, or one was marked before. */
static const char *mark_range(const char *list, uint32_t classes, uint32_t *new_label)
{
    char word[24] = "";
    const size_t len = strcspn(list, ",");
    if (len == 0 || len >= sizeof word)
        return NULL;
    memcpy(word, list, len);
    char *const dash = strchr(word, '-');
    uint64_t first = 0;
    uint64_t last = 0;
    if (dash)
        *dash = '\0';
    if (!com_parse_count(word, 0, classes - 1, &first) ||
        !com_parse_count(dash ? dash + 1 : word, first, classes - 1, &last))
        return NULL;
    for (uint64_t c = first; c <= last; c++) {
        if (new_label[c] != UINT32_MAX)
            return NULL;
        new_label[c] = 0;
    }
    return list + len + (list[len] == ',' && list[len + 1] != '\0');
}

/* The new label of every old one, ascending; UINT32_MAX: it is not kept. Returns how many are kept,
 * 0 if the list is wrong. */
static uint32_t number_classes(const char *list, uint32_t classes, uint32_t *new_label)
{
    uint32_t kept = 0;
    for (uint32_t c = 0; c < classes; c++)
        new_label[c] = UINT32_MAX;
    do {
        list = mark_range(list, classes, new_label);
    } while (list && *list);
    for (uint32_t c = 0; list && c < classes; c++)
        if (new_label[c] != UINT32_MAX)
            new_label[c] = kept++;
    return kept;
}

/* Those examples of a split. *failed: no memory, or none is left. */
static void keep(const struct trn_examples *from, size_t features, const uint32_t *new_label,
                 struct trn_examples *out, int *failed)
{
    uint32_t *const picks = malloc((from->count + (size_t)1) * sizeof *picks);
    uint32_t count = 0;
    for (uint32_t i = 0; picks && i < from->count; i++)
        if (new_label[from->labels[i]] != UINT32_MAX)
            picks[count++] = i;
    *failed |= !picks || count == 0 || !pick(from, features, picks, count, out);
    for (uint32_t i = 0; !*failed && i < count; i++)
        out->labels[i] = new_label[out->labels[i]];
    free(picks);
}

terse_status trn_data_keep_classes(struct trn_data *data, const char *classes, terse_fault *fault)
{
    struct trn_examples parts[TRN_SPLITS] = {{.count = 0}};
    struct trn_about *const about = &data->about;
    int failed = 0;
    if (about->classes == 0)
        return com_fail(fault, TERSE_BAD_SPEC,
                        "--classes: the targets of %.80s are numbers, there "
                        "are no classes",
                        about->name);
    uint32_t *const new_label = malloc(about->classes * sizeof *new_label);
    if (!new_label)
        return com_fail(fault, TERSE_NO_MEMORY, "no memory for %u classes", about->classes);
    const uint32_t kept = number_classes(classes, about->classes, new_label);
    if (kept == 0) {
        free(new_label);
        return com_fail(fault, TERSE_BAD_SPEC,
                        "--classes: '%.60s' is not a list of different classes from 0 to %u, such "
                        "as 0-4,7",
                        classes, about->classes - 1);
    }
    for (int i = 0; i < TRN_SPLITS; i++)
        keep(&data->split[i], about->features, new_label, &parts[i], &failed);
    free(new_label);
    for (int i = 0; i < TRN_SPLITS; i++) {
        trn_examples_free(failed ? &parts[i] : &data->split[i]);
        if (!failed)
            data->split[i] = parts[i];
        about->count[i] = data->split[i].count;
    }
    about->classes = failed ? about->classes : kept;
    return failed ? com_fail(fault, TERSE_BAD_ARGUMENT,
                             "--classes %.60s leaves no example for training or test, or there is "
                             "no memory for them",
                             classes)
                  : TERSE_OK;
}
