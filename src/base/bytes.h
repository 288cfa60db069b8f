/* Little-endian numbers at any address. */
#ifndef TSI_BYTES_H
#define TSI_BYTES_H

#include <stdint.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "terse needs a little-endian machine: payloads are copied, not converted"
#endif

#define TSI_BYTES_OF(suffix, type)                                 \
    static inline type tsi_load_##suffix(const uint8_t *at)        \
    {                                                              \
        type value;                                                \
        memcpy(&value, at, sizeof value);                          \
        return value;                                              \
    }                                                              \
    static inline void tsi_store_##suffix(uint8_t *at, type value) \
    {                                                              \
        memcpy(at, &value, sizeof value);                          \
    }

TSI_BYTES_OF(u16, uint16_t)
TSI_BYTES_OF(u32, uint32_t)
TSI_BYTES_OF(u64, uint64_t)
TSI_BYTES_OF(f32, float)
TSI_BYTES_OF(f64, double)

#undef TSI_BYTES_OF

#endif
