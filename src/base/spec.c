#include "base/spec.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

#define MAX_WORD 64u /* the largest length of a name, key or value */

/* A part of the spec: `len` bytes at `text`, at byte `offset` of the spec. */
struct span {
    const char *text;
    size_t len;
    size_t offset;
};

/* ---- nearest word ---- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein distance; words longer than MAX_WORD are far from everything. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t row[MAX_WORD + 1];
    if (a_len > MAX_WORD || b_len > MAX_WORD)
        return MAX_WORD;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_len];
}

const char *tsi_spec_nearest(const char *word, size_t len, const char *const *words, size_t count)
{
    const char *nearest = NULL;
    size_t shortest =
        len / 3 + 1 + (len > 3); /* a third of the characters may differ, at least one */
    for (size_t i = 0; i < count; i++) {
        const size_t apart = distance(word, len, words[i], strlen(words[i]));
        if (apart < shortest) {
            shortest = apart;
            nearest = words[i];
        }
    }
    return nearest;
}

/* ---- numbers, independent of the program's locale ---- */

/* Reads all of `text` as a finite number. Returns 0 if it is not one. */
static int read_number(const char *text, double *value)
{
    const locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0)
        return 0;
    const locale_t before = uselocale(plain);
    char *end;
    *value = strtod(text, &end);
    (void)uselocale(before);
    freelocale(plain);
    return end != text && *end == '\0' && isfinite(*value);
}

static void write_number(double value, char *out, size_t cap)
{
    const locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    const locale_t before = plain == (locale_t)0 ? (locale_t)0 : uselocale(plain);
    for (int digits = 6; digits <= 17; digits++) { /* with fewer, 300 would be 3e+02 */
        (void)snprintf(out, cap, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    if (plain != (locale_t)0) {
        (void)uselocale(before);
        freelocale(plain);
    }
}

/* ---- one value ---- */

int tsi_spec_in_range(const terse_option *option, double value)
{
    /* -0 is refused, so that equal codecs have equal bytes. */
    if (!(value >= option->low && value <= option->high) || signbit(value))
        return 0;
    return option->kind == TERSE_OPTION_REAL || value == floor(value);
}

/* The index of the word in "a|b|c", or -1. */
static int choice_of(const char *choices, const char *word)
{
    const size_t len = strlen(word);
    for (int number = 0;; number++) {
        const size_t here = strcspn(choices, "|");
        if (here == len && strncmp(choices, word, len) == 0)
            return number;
        if (choices[here] == '\0')
            return -1;
        choices += here + 1;
    }
}

static terse_status read_value(const terse_option *option, struct span given, double *value,
                               terse_fault *fault)
{
    static const char *const kinds[] = {[TERSE_OPTION_INTEGER] = "a whole number in ",
                                        [TERSE_OPTION_REAL] = "a number in ",
                                        [TERSE_OPTION_CHOICE] = ""};
    char word[MAX_WORD + 1];
    double number = -1;
    int good = 0;
    if (given.len == 0 || given.len > MAX_WORD)
        return tsi_fail(fault, TERSE_BAD_SPEC, given.offset, "%s needs a value (%s), as in %s=%s",
                        option->name, option->range, option->name, option->initial);
    memcpy(word, given.text, given.len);
    word[given.len] = '\0';
    if (option->kind == TERSE_OPTION_CHOICE) {
        number = choice_of(option->range, word);
        good = number >= 0;
    } else {
        good = read_number(word, &number) && tsi_spec_in_range(option, number);
    }
    if (!good) /* the default is the example: it is in the range, and it works */
        return tsi_fail(fault, TERSE_BAD_SPEC, given.offset,
                        "%s is %s%s, not '%s'; for example %s=%s", option->name,
                        kinds[option->kind], option->range, word, option->name, option->initial);
    *value = number;
    return TERSE_OK;
}

/* ---- the list ---- */

static terse_status no_such_key(const terse_option *options, size_t option_count, struct span key,
                                terse_fault *fault)
{
    const char *names[TSI_MAX_ENTRIES];
    char all[TSI_MAX_ENTRIES * (MAX_WORD + 2)] = "";
    size_t used = 0;
    for (size_t i = 0; i < option_count && i < TSI_MAX_ENTRIES; i++) {
        names[i] = options[i].name;
        used +=
            (size_t)snprintf(all + used, sizeof all - used, "%s%s", i == 0 ? "" : ", ", names[i]);
    }
    const int shown = (int)least(key.len, MAX_WORD);
    if (option_count == 0)
        return tsi_fail(fault, TERSE_BAD_SPEC, key.offset, "no option '%.*s'; there are none",
                        shown, key.text);
    const char *const nearest = tsi_spec_nearest(key.text, key.len, names, option_count);
    if (nearest)
        return tsi_fail(fault, TERSE_BAD_SPEC, key.offset, "no option '%.*s'; did you mean '%s'?",
                        shown, key.text, nearest);
    return tsi_fail(fault, TERSE_BAD_SPEC, key.offset, "no option '%.*s'; the options are %s",
                    shown, key.text, all);
}

static terse_status read_entry(const terse_option *options, size_t option_count, struct span entry,
                               uint64_t *seen, double *values, terse_fault *fault)
{
    const char *const equals = memchr(entry.text, '=', entry.len);
    if (!equals)
        return tsi_fail(fault, TERSE_BAD_SPEC, entry.offset, "expected key=value, not '%.*s'",
                        (int)least(entry.len, MAX_WORD), entry.text);
    const size_t key_len = (size_t)(equals - entry.text);
    const struct span key = {entry.text, key_len, entry.offset};
    const struct span value = {equals + 1, entry.len - key_len - 1, entry.offset + key_len + 1};
    for (size_t i = 0; i < option_count; i++) {
        const char *const name = options[i].name;
        if (strlen(name) != key.len || strncmp(name, key.text, key.len) != 0)
            continue;
        if (*seen >> i & 1u)
            return tsi_fail(fault, TERSE_BAD_SPEC, key.offset, "%s is given twice", name);
        *seen |= UINT64_C(1) << i;
        return read_value(&options[i], value, &values[i], fault);
    }
    return no_such_key(options, option_count, key, fault);
}

terse_status tsi_spec_defaults(const terse_option *options, size_t option_count, double *values,
                               terse_fault *fault)
{
    for (size_t i = 0; i < option_count; i++) {
        const char *const initial = options[i].initial;
        const struct span given = {initial, strlen(initial), 0};
        const terse_status status = read_value(&options[i], given, &values[i], fault);
        if (status != TERSE_OK)
            return status;
    }
    return TERSE_OK;
}

terse_status tsi_spec_entry(const terse_option *options, size_t option_count, const char *text,
                            size_t len, size_t offset, uint64_t *seen, double *values,
                            terse_fault *fault)
{
    const struct span entry = {text, len, offset};
    return read_entry(options, option_count, entry, seen, values, fault);
}

terse_status tsi_spec_values(const terse_option *options, size_t option_count, const char *text,
                             size_t offset, double values[TSI_MAX_OPTIONS], terse_fault *fault)
{
    uint64_t seen = 0;
    const terse_status ready = tsi_spec_defaults(options, option_count, values, fault);
    if (ready != TERSE_OK)
        return ready;
    while (text && *text != '\0') {
        const struct span entry = {text, strcspn(text, ","), offset};
        const terse_status status = read_entry(options, option_count, entry, &seen, values, fault);
        if (status != TERSE_OK)
            return status;
        if (text[entry.len] == '\0')
            break;
        text += entry.len + 1;
        offset += entry.len + 1;
        if (*text == '\0')
            return tsi_fail(fault, TERSE_BAD_SPEC, offset, "expected key=value after the comma");
    }
    return TERSE_OK;
}

/* ---- writing ---- */

static void write_choice(const char *choices, unsigned number, char *out, size_t cap)
{
    for (unsigned i = 0; i < number; i++)
        choices += strcspn(choices, "|") + 1;
    (void)snprintf(out, cap, "%.*s", (int)strcspn(choices, "|"), choices);
}

void tsi_spec_value(const terse_option *option, double value, char *out, size_t cap)
{
    if (option->kind == TERSE_OPTION_CHOICE)
        write_choice(option->range, (unsigned)value, out, cap);
    else
        write_number(value, out, cap);
}

void tsi_spec_write(const char *name, const terse_option *options, size_t option_count,
                    const double *values, char *out, size_t cap)
{
    size_t used = (size_t)snprintf(out, cap, "%s", name);
    for (size_t i = 0; i < option_count && used < cap; i++) {
        char value[MAX_WORD + 1];
        tsi_spec_value(&options[i], values[i], value, sizeof value);
        used += (size_t)snprintf(out + used, cap - used, "%c%s=%s", i == 0 ? ':' : ',',
                                 options[i].name, value);
    }
}
