#include "common/utf8.h"

uint32_t com_utf8_code(const char *bytes, size_t len)
{
    static const unsigned char first_mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code = (unsigned char)bytes[0] & first_mask[len];
    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)bytes[i] & 0x3F);
    return code;
}

size_t com_utf8_len(const char *bytes)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = (unsigned char)bytes[0];
    const size_t len = first < 0x80   ? 1
                       : first < 0xC2 ? 0
                       : first < 0xE0 ? 2
                       : first < 0xF0 ? 3
                                      : 4;
    if (first > 0xF4)
        return 0;
    for (size_t i = 1; i < len; i++)
        if (((unsigned char)bytes[i] & 0xC0) != 0x80)
            return 0;
    if (len < 2)
        return len;
    const uint32_t code = com_utf8_code(bytes, len);
    const int is_surrogate = code >= 0xD800 && code <= 0xDFFF;
    return code < least[len] || code > 0x10FFFF || is_surrogate ? 0 : len;
}

size_t com_utf8_write(uint32_t code, char bytes[4])
{
    static const unsigned char lead[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    const size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len; i-- > 1;) {
        bytes[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    bytes[0] = (char)(lead[len] | code);
    return len;
}
