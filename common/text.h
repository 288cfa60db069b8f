/* A text that grows. A lack of memory is remembered and checked once, at the end. */
#ifndef COM_TEXT_H
#define COM_TEXT_H

#include <stddef.h>

struct com_text {
    char *bytes; /* with a closing zero once anything was added, unless failed */
    size_t len;
    size_t cap;
    int failed;
};

void com_text_add(struct com_text *text, const void *bytes, size_t len);
void com_text_put(struct com_text *text, const char *words);
__attribute__((format(printf, 2, 3))) void com_text_format(struct com_text *text,
                                                           const char *format, ...);
void com_text_free(struct com_text *text);

/* Appends words to HTML with <, >, & and " escaped. */
void com_text_html(struct com_text *text, const char *words);

/* A JSON number; null if it is not finite. */
void com_text_json_number(struct com_text *text, double value);

/* A JSON string that is safe inside a script element: markup is escaped, bytes that are not UTF-8
 * become U+FFFD. NULL is null. */
void com_text_json_string(struct com_text *text, const char *words);

#endif
