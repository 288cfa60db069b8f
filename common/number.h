/* Numbers as users type and read them. */
#ifndef COM_NUMBER_H
#define COM_NUMBER_H

#include <stdint.h>

/* Each returns 1 and writes *out if the whole text is a number in low..high, else 0. */
int com_parse_u64(const char *text, uint64_t low, uint64_t high, uint64_t *out);
int com_parse_count(const char *text, uint64_t low, uint64_t high,
                    uint64_t *out); /* 25M, 64k, 1G */
int com_parse_real(const char *text, double low, double high, double *out);

/* A formatted number: com_show_bytes(1.2e6).text is "1.2 MB". */
struct com_shown {
    char text[32];
};
struct com_shown com_show_count(uint64_t count); /* 1,234,567 */
struct com_shown com_show_bytes(double bytes);   /* 999 B, 1.2 MB, 120 MB */
struct com_shown
com_show_number(double value); /* three digits, or all before the point: 0.72, 1234 */

#endif
