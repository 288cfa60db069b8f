#include "text.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make_room(struct rep_text *text, size_t more)
{
    if (text->failed || more >= SIZE_MAX / 2 - text->len) {
        text->failed = 1;
        return 0;
    }
    size_t need = text->len + more + 1;
    if (need <= text->cap)
        return 1;
    size_t cap = text->cap < 4096 ? 4096 : text->cap * 2;
    if (cap < need)
        cap = need;
    char *larger = realloc(text->bytes, cap);
    if (!larger) {
        text->failed = 1;
        return 0;
    }
    text->bytes = larger;
    text->cap = cap;
    return 1;
}

void rep_text_add(struct rep_text *text, const void *bytes, size_t len)
{
    if (make_room(text, len)) {
        memcpy(text->bytes + text->len, bytes, len);
        text->len += len;
        text->bytes[text->len] = '\0';
    }
}

void rep_text_put(struct rep_text *text, const char *words)
{
    rep_text_add(text, words, strlen(words));
}

void rep_text_number(struct rep_text *text, double value)
{
    char digits[40];
    if (!isfinite(value)) {
        rep_text_put(text, "null");
        return;
    }
    int whole = fabs(value) < 1e15 && floor(value) == value;
    snprintf(digits, sizeof digits, whole ? "%.0f" : "%.7g", value);
    rep_text_put(text, digits);
}

static uint32_t code_point(const char *bytes, size_t len)
{
    static const unsigned char first_mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code = (unsigned char)bytes[0] & first_mask[len];
    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)bytes[i] & 0x3F);
    return code;
}

size_t rep_utf8_len(const char *bytes)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)bytes[0];
    size_t len = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (first > 0xF4)
        return 0;
    for (size_t i = 1; i < len; i++)
        if (((unsigned char)bytes[i] & 0xC0) != 0x80)
            return 0;
    if (len < 2)
        return len;
    uint32_t code = code_point(bytes, len);
    int is_surrogate = code >= 0xD800 && code <= 0xDFFF;
    return code < least[len] || code > 0x10FFFF || is_surrogate ? 0 : len;
}

/* The line separators U+2028 and U+2029 end a line in old scripts. */
static int needs_escape(unsigned char first, size_t len, const char *at)
{
    return first < 0x20 || first == 0x7F || strchr("\"\\<>&", first) ||
           (len == 3 && strncmp(at, "\xE2\x80", 2) == 0 && ((unsigned char)at[2] & 0xFE) == 0xA8);
}

void rep_text_string(struct rep_text *text, const char *words)
{
    if (!words) {
        rep_text_put(text, "null");
        return;
    }
    rep_text_put(text, "\"");
    for (const char *at = words; *at != '\0';) {
        size_t len = rep_utf8_len(at);
        char escaped[8];
        if (len == 0) {
            rep_text_put(text, "\xEF\xBF\xBD");
            len = 1;
        } else if (needs_escape((unsigned char)*at, len, at)) {
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)code_point(at, len) & 0xFFFF);
            rep_text_put(text, escaped);
        } else {
            rep_text_add(text, at, len);
        }
        at += len;
    }
    rep_text_put(text, "\"");
}
