/* UTF-8, one character at a time. Bytes from files may not be UTF-8. */
#ifndef COM_UTF8_H
#define COM_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The length of the character at `bytes` (which end with a zero); 0 if it is not UTF-8. */
size_t com_utf8_len(const char *bytes);

/* The code point of the character of `len` bytes that com_utf8_len found there. */
uint32_t com_utf8_code(const char *bytes, size_t len);

/* Writes a code point; returns its bytes, 1 to 4. */
size_t com_utf8_write(uint32_t code, char bytes[4]);

#endif
