#include "common/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

enum { FIRST_CAP = 4096 };

static int make_room(struct com_text *text, size_t more)
{
    if (text->failed || more >= SIZE_MAX / 2 - text->len) {
        text->failed = 1;
        return 0;
    }
    const size_t need = text->len + more + 1;
    if (need <= text->cap)
        return 1;
    size_t cap = text->cap < FIRST_CAP ? FIRST_CAP : text->cap * 2;
    cap = cap < need ? need : cap;
    char *const larger = realloc(text->bytes, cap);
    if (!larger) {
        text->failed = 1;
        return 0;
    }
    text->bytes = larger;
    text->cap = cap;
    return 1;
}

void com_text_add(struct com_text *text, const void *bytes, size_t len)
{
    if (!make_room(text, len))
        return;
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
    text->bytes[text->len] = '\0';
}

void com_text_put(struct com_text *text, const char *words)
{
    com_text_add(text, words, strlen(words));
}

void com_text_format(struct com_text *text, const char *format, ...)
{
    va_list values;
    va_list again;
    va_start(values, format);
    va_copy(again, values);
    const int len = vsnprintf(NULL, 0, format, values);
    if (len < 0)
        text->failed = 1;
    else if (make_room(text, (size_t)len)) {
        (void)vsnprintf(text->bytes + text->len, (size_t)len + 1, format, again);
        text->len += (size_t)len;
    }
    va_end(again);
    va_end(values);
}

void com_text_free(struct com_text *text)
{
    free(text->bytes);
    *text = (struct com_text){0};
}

void com_text_html(struct com_text *text, const char *words)
{
    for (; *words != '\0'; words++) {
        switch (*words) {
        case '<': com_text_put(text, "&lt;"); break;
        case '>': com_text_put(text, "&gt;"); break;
        case '&': com_text_put(text, "&amp;"); break;
        case '"': com_text_put(text, "&quot;"); break;
        default: com_text_add(text, words, 1);
        }
    }
}

void com_text_json_number(struct com_text *text, double value)
{
    if (!isfinite(value)) {
        com_text_put(text, "null");
        return;
    }
    if (fabs(value) < 1e15 && floor(value) == value)
        com_text_format(text, "%.0f", value);
    else
        com_text_format(text, "%.7g", value);
}

/* The line separators U+2028 and U+2029 end a line in old scripts. */
static int needs_escape(unsigned char first, size_t len, const char *at)
{
    return first < 0x20 || first == 0x7F || strchr("\"\\<>&", first) ||
           (len == 3 && strncmp(at, "\xE2\x80", 2) == 0 && ((unsigned char)at[2] & 0xFE) == 0xA8);
}

void com_text_json_string(struct com_text *text, const char *words)
{
    if (!words) {
        com_text_put(text, "null");
        return;
    }
    com_text_put(text, "\"");
    for (const char *at = words; *at != '\0';) {
        size_t len = com_utf8_len(at);
        if (len == 0) {
            com_text_put(text, "\xEF\xBF\xBD");
            len = 1;
        } else if (needs_escape((unsigned char)*at, len, at)) {
            com_text_format(text, "\\u%04x", (unsigned)com_utf8_code(at, len) & 0xFFFF);
        } else {
            com_text_add(text, at, len);
        }
        at += len;
    }
    com_text_put(text, "\"");
}
