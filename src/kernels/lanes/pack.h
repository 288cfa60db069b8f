/* Codes to a bit string and back.
 *
 * Packing joins neighbours: two codes in 32 bits, four in 64, eight in 128, of which the first
 * `bits` bytes are used. Each store writes sixteen bytes, and the next one overwrites the excess.
 * Unpacking loads into every lane the four bytes that contain its code. Both use a copy where
 * sixteen bytes would pass the end. */
#ifndef TSK_LANES_PACK_H
#define TSK_LANES_PACK_H

#define PACK_STEP 32u    /* codes at a time: 4 * bits bytes */
#define UNPACK_STEP 16u  /* codes at a time: 2 * bits bytes */
#define QUARTER 16u      /* bytes of a 128-bit lane */
#define PACK_REACH 64u   /* >= 3 * bits + QUARTER, the bytes of one step */
#define UNPACK_REACH 40u /* >= 3 * bits / 2 + QUARTER */

LANE size_t packed_len(size_t count, unsigned bits)
{
    return (count * bits + 7) / 8;
}

LANE void pack_step(const uint16_t *codes, unsigned bits, uint8_t *out)
{
    const vi pairs = vi_join32(vi_load(codes), bits);
    vi_store_quarters(out, vi_join128(vi_join64(pairs, bits), bits), bits);
}

/* Packs at most PACK_STEP codes; writes only their bytes. */
static void pack_few(const uint16_t *codes, size_t count, unsigned bits, uint8_t *out)
{
    uint16_t padded[PACK_STEP] = {0};
    uint8_t packed[PACK_REACH];
    memcpy(padded, codes, count * sizeof *codes);
    pack_step(padded, bits, packed);
    memcpy(out, packed, packed_len(count, bits));
}

static void pack_codes(const uint16_t *codes, size_t count, unsigned bits, uint8_t *out)
{
    const uint8_t *end = out + packed_len(count, bits);
    size_t i = 0;
    for (; i + PACK_STEP <= count && (size_t)(end - out) >= 3 * bits + QUARTER; i += PACK_STEP) {
        pack_step(codes + i, bits, out);
        out += 4 * bits;
    }
    for (; i < count; i += PACK_STEP) {
        pack_few(codes + i, count - i < PACK_STEP ? count - i : PACK_STEP, bits, out);
        out += 4 * bits;
    }
}

struct unpack_plan {
    vi which; /* bytes of a quarter that a lane loads */
    vi shift; /* first bit of its code in them */
    vi mask;
};

/* Quarter q holds codes 4q .. 4q + 3 and starts at byte q * bits / 2. */
LANE struct unpack_plan unpack_plan_of(unsigned bits)
{
    uint32_t which[TSK_LANES];
    uint32_t shift[TSK_LANES];
    for (unsigned lane = 0; lane < TSK_LANES; lane++) {
        const unsigned at = lane % 4 * bits + (lane / 4 * bits & 1) * 4;
        which[lane] = at / 8 * 0x01010101u + 0x03020100u;
        shift[lane] = at % 8;
    }
    return (struct unpack_plan){vi_load(which), vi_load(shift), vi_of((1u << bits) - 1)};
}

LANE vs unpack_step(const uint8_t *in, unsigned bits, struct unpack_plan plan)
{
    const vi bytes = vi_shuffle_bytes(vi_load_quarters(in, bits), plan.which);
    return vs_narrow(vi_and(vi_shr_each(bytes, plan.shift), plan.mask));
}

static void unpack_codes(const uint8_t *in, size_t count, unsigned bits, uint16_t *codes)
{
    const struct unpack_plan plan = unpack_plan_of(bits);
    size_t left = packed_len(count, bits);
    size_t i = 0;
    for (; i + UNPACK_STEP <= count && left >= 3 * bits / 2 + QUARTER; i += UNPACK_STEP) {
        vs_store(codes + i, unpack_step(in, bits, plan));
        in += 2 * bits;
        left -= 2 * bits;
    }
    if (i == count)
        return;
    uint8_t padded[2 * UNPACK_REACH] = {0};
    memcpy(padded, in, left);
    for (const uint8_t *at = padded; i < count; i += UNPACK_STEP, at += 2 * bits)
        vs_store_first(codes + i, unpack_step(at, bits, plan), lanes_of(count - i));
}

#endif
