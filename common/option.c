#include "common/option.h"

#include <stdio.h>
#include <string.h>

#include "common/number.h"

/* The columns at which the help text begins and must end. */
enum { HELP_LEFT = 23, HELP_RIGHT = 94 };

/* A value of any kind, taken out of a struct. */
struct value {
    const char *text;
    uint64_t whole;
    double real;
};

static struct value get(const struct com_option *option, const void *values)
{
    const char *const at = (const char *)values + option->offset;
    struct value value = {.text = NULL};
    uint32_t small = 0;
    int flag = 0;
    switch (option->kind) {
    case COM_OPTION_TEXT: memcpy(&value.text, at, sizeof value.text); break;
    case COM_OPTION_FLAG:
        memcpy(&flag, at, sizeof flag);
        value.whole = flag != 0;
        break;
    case COM_OPTION_U32:
        memcpy(&small, at, sizeof small);
        value.whole = small;
        break;
    case COM_OPTION_U64: memcpy(&value.whole, at, sizeof value.whole); break;
    case COM_OPTION_REAL: memcpy(&value.real, at, sizeof value.real); break;
    }
    return value;
}

static void put(const struct com_option *option, const struct value *value, void *values)
{
    char *const at = (char *)values + option->offset;
    const uint32_t small = (uint32_t)value->whole;
    const int flag = value->whole != 0;
    switch (option->kind) {
    case COM_OPTION_TEXT: memcpy(at, &value->text, sizeof value->text); break;
    case COM_OPTION_FLAG: memcpy(at, &flag, sizeof flag); break;
    case COM_OPTION_U32: memcpy(at, &small, sizeof small); break;
    case COM_OPTION_U64: memcpy(at, &value->whole, sizeof value->whole); break;
    case COM_OPTION_REAL: memcpy(at, &value->real, sizeof value->real); break;
    }
}

int com_option_is_zero(const struct com_option *option, const void *values)
{
    const struct value value = get(option, values);
    return !value.text && value.whole == 0 && value.real == 0;
}

static int is_also(const struct com_option *option, const struct value *value)
{
    return option->also && value->whole == COM_OPTION_ALSO;
}

/* A whole number as it would be typed. */
static void write_whole(const struct com_option *option, const struct value *value, char *out,
                        size_t cap)
{
    if (is_also(option, value))
        (void)snprintf(out, cap, "%s", option->also);
    else
        (void)snprintf(out, cap, "%llu", (unsigned long long)value->whole);
}

/* ---- the command line ---- */

terse_status com_option_set(const struct com_option *option, const char *text, void *values,
                            terse_fault *fault)
{
    struct value value = {.text = text, .whole = 1};
    const uint64_t low = (uint64_t)option->low;
    const uint64_t high = (uint64_t)option->high;
    const int is_whole = option->kind == COM_OPTION_U32 || option->kind == COM_OPTION_U64;
    if (option->also && strcmp(text, option->also) == 0)
        value.whole = COM_OPTION_ALSO;
    else if (is_whole && !com_parse_count(text, low, high, &value.whole))
        return com_fail(fault, TERSE_BAD_SPEC,
                        "--%s: '%.80s' is not %s%sa whole number from %llu to %llu", option->name,
                        text, option->also ? option->also : "", option->also ? " or " : "",
                        (unsigned long long)low, (unsigned long long)high);
    if (option->kind == COM_OPTION_REAL &&
        !com_parse_real(text, option->low, option->high, &value.real))
        return com_fail(fault, TERSE_BAD_SPEC, "--%s: '%.80s' is not a number from %g to %g",
                        option->name, text, option->low, option->high);
    put(option, &value, values);
    return TERSE_OK;
}

void com_option_set_usual(const struct com_option *option, void *values)
{
    if (option->usual)
        (void)!com_option_set(option, option->usual, values, NULL);
}

/* In single quotes where a shell would see more than a word. */
static void put_quoted(struct com_text *out, const char *words)
{
    if (words[0] != '\0' && !strpbrk(words, " \t\n;*?$&|<>()[]{}'\"\\`!#~")) {
        com_text_put(out, words);
        return;
    }
    com_text_put(out, "'");
    for (; *words; words++)
        if (*words == '\'')
            com_text_put(out, "'\\''");
        else
            com_text_add(out, words, 1);
    com_text_put(out, "'");
}

void com_option_type(const struct com_option *option, const void *values, struct com_text *out)
{
    const struct value value = get(option, values);
    char words[32];
    const char *typed = option->kind == COM_OPTION_TEXT ? value.text : words;
    if (option->kind == COM_OPTION_REAL)
        (void)snprintf(words, sizeof words, "%.12g", value.real);
    else
        write_whole(option, &value, words, sizeof words);
    if (com_option_is_zero(option, values) || (option->usual && strcmp(typed, option->usual) == 0))
        return;
    com_text_format(out, " --%s", option->name);
    if (option->kind != COM_OPTION_FLAG) {
        com_text_put(out, " ");
        put_quoted(out, typed);
    }
}

/* ---- help ---- */

/* The help of a row with {default} and {choices} filled in. */
static void fill_in(const struct com_option *option, char *out, size_t cap)
{
    static const char usual[] = "{default}";
    static const char choices[] = "{choices}";
    size_t used = 0;
    for (const char *at = option->help; *at && used + 1 < cap;) {
        if (strncmp(at, usual, sizeof usual - 1) == 0) {
            used += (size_t)snprintf(out + used, cap - used, "%s", option->usual);
            at += sizeof usual - 1;
        } else if (strncmp(at, choices, sizeof choices - 1) == 0) {
            used += strlen(com_names_join(option->choices, ", ", out + used, cap - used));
            at += sizeof choices - 1;
        } else {
            out[used++] = *at++;
        }
    }
    out[used < cap ? used : cap - 1] = '\0';
}

void com_option_help(const struct com_option *option, struct com_text *out)
{
    char left[64];
    char words[1024];
    int used = snprintf(left, sizeof left, "  ");
    if (option->letter)
        used += snprintf(left + used, sizeof left - (size_t)used, "-%c, ", option->letter);
    (void)snprintf(left + used, sizeof left - (size_t)used, "--%s%s%s", option->name,
                   option->word ? " " : "", option->word ? option->word : "");
    com_text_format(out, "%-*s", HELP_LEFT - 1, left);
    fill_in(option, words, sizeof words);
    size_t column = HELP_LEFT - 1;
    for (const char *at = words; *at;) {
        const size_t len = strcspn(at, " ");
        if (column + 1 + len > HELP_RIGHT) {
            com_text_format(out, "\n%*s", HELP_LEFT - 1, "");
            column = HELP_LEFT - 1;
        }
        com_text_format(out, " %.*s", (int)len, at);
        column += 1 + len;
        at += len + (at[len] == ' ');
    }
    com_text_put(out, "\n");
}

/* ---- JSON ---- */

void com_option_write(const struct com_option *option, const void *values, com_json *json)
{
    const struct value value = get(option, values);
    if (!option->key)
        return;
    if (is_also(option, &value)) {
        com_json_put_text(json, option->key, option->also);
        return;
    }
    switch (option->kind) {
    case COM_OPTION_TEXT: com_json_put_text(json, option->key, value.text ? value.text : ""); break;
    case COM_OPTION_FLAG: com_json_put_flag(json, option->key, value.whole != 0); break;
    case COM_OPTION_U32:
    case COM_OPTION_U64: com_json_put_u64(json, option->key, value.whole); break;
    case COM_OPTION_REAL: com_json_put_real(json, option->key, value.real); break;
    }
}

static int read_value(const struct com_option *option, const com_json *json, struct value *out)
{
    int flag = 0;
    const char *word = NULL;
    *out = (struct value){.whole = COM_OPTION_ALSO};
    if (option->also && com_json_get_text(json, option->key, &word))
        return strcmp(word, option->also) == 0;
    *out = (struct value){.text = NULL};
    switch (option->kind) {
    case COM_OPTION_TEXT: return com_json_get_text(json, option->key, &out->text);
    case COM_OPTION_FLAG:
        if (!com_json_get_flag(json, option->key, &flag))
            return 0;
        out->whole = flag != 0;
        return 1;
    case COM_OPTION_U32:
        return com_json_get_u64(json, option->key, &out->whole) && out->whole <= UINT32_MAX;
    case COM_OPTION_U64: return com_json_get_u64(json, option->key, &out->whole);
    case COM_OPTION_REAL: return com_json_get_real(json, option->key, &out->real);
    }
    return 0;
}

/* Could the value have been typed? A number that was not given is 0, if it has no default. */
static int in_range(const struct com_option *option, const struct value *value)
{
    const double number = option->kind == COM_OPTION_REAL ? value->real : (double)value->whole;
    if (option->kind == COM_OPTION_TEXT || option->kind == COM_OPTION_FLAG)
        return 1;
    if (is_also(option, value))
        return 1;
    return (number >= option->low && number <= option->high) || (number == 0 && !option->usual);
}

int com_option_read(const struct com_option *option, const com_json *json, void *values)
{
    struct value value;
    if (!option->key || !read_value(option, json, &value) || !in_range(option, &value))
        return 0;
    put(option, &value, values);
    return 1;
}

int com_option_differs(const struct com_option *option, const void *values, const com_json *json,
                       char *text, size_t cap)
{
    const struct value now = get(option, values);
    struct value kept;
    char old_words[32];
    char new_words[32];
    const int is_there = read_value(option, json, &kept);
    const char *const old_text = is_there && kept.text ? kept.text : "";
    const char *const new_text = now.text ? now.text : "";
    const int same =
        strcmp(old_text, new_text) == 0 || (option->same && option->same(old_text, new_text));
    if (is_there && same && kept.whole == now.whole && kept.real == now.real)
        return 0;
    if (!com_json_get(json, option->key) && !option->usual && com_option_is_zero(option, values))
        return 0;
    switch (option->kind) {
    case COM_OPTION_TEXT:
        (void)snprintf(text, cap, "has %s '%.80s', not '%.80s'", option->key, old_text, new_text);
        break;
    case COM_OPTION_FLAG:
        (void)snprintf(text, cap, "is %s %s", kept.whole ? "with" : "without", option->key);
        break;
    case COM_OPTION_U32:
    case COM_OPTION_U64:
        write_whole(option, &kept, old_words, sizeof old_words);
        write_whole(option, &now, new_words, sizeof new_words);
        (void)snprintf(text, cap, "has %s %s, not %s", option->key, old_words, new_words);
        break;
    case COM_OPTION_REAL:
        (void)snprintf(text, cap, "has %s %g, not %g", option->key, kept.real, now.real);
        break;
    }
    return 1;
}
