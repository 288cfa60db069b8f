/* A text that grows. Running out of memory is remembered and asked once, at the end. */
#ifndef REPORT_TEXT_H
#define REPORT_TEXT_H

#include <stddef.h>

struct rep_text {
    char *bytes; /* with a closing zero, unless failed; the owner frees it */
    size_t len;
    size_t cap;
    int failed;
};

void rep_text_add(struct rep_text *text, const void *bytes, size_t len);
void rep_text_put(struct rep_text *text, const char *words);

/* A JSON number; null if it is not finite. */
void rep_text_number(struct rep_text *text, double value);

/* A JSON string that is safe inside a script element: markup is escaped, what is not UTF-8 becomes
 * U+FFFD. NULL is null. */
void rep_text_string(struct rep_text *text, const char *words);

/* The bytes of the UTF-8 character at `bytes` (with a closing zero), 0 if it is none. */
size_t rep_utf8_len(const char *bytes);

#endif
