/* Promises about one payload: its length, what it decodes to, and what stays behind. */
#include "check/promises.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int chk_broken(const struct chk_subject *s, struct chk_finding *finding, const char *format, ...)
{
    va_list values;
    const int used = snprintf(finding->text, sizeof finding->text,
                              "seed %llu, %s input: ", (unsigned long long)s->settings->seed,
                              chk_kind_names[s->kind]);
    va_start(values, format);
    (void)vsnprintf(finding->text + used, sizeof finding->text - (size_t)used, format, values);
    va_end(values);
    return 0;
}

int chk_length(struct chk_subject *s, struct chk_finding *finding)
{
    for (enum chk_kind kind = 0; kind < CHK_KINDS; kind++) {
        chk_fill(s, kind, 0);
        for (s->key.step = 0; s->key.step < 4; s->key.step++)
            if (!chk_round_trip(s))
                return chk_broken(s, finding, "step %llu: %s", (unsigned long long)s->key.step,
                                  s->why);
    }
    return 1;
}

/* decoded + residual = input: bit for bit where the codec selects (up to the sign of zero), to one
 * rounding of the larger of the two where it quantizes. A ternary codec decodes signs. */
int chk_conservation(struct chk_subject *s, struct chk_finding *finding)
{
    for (enum chk_kind kind = 0; kind < CHK_KINDS; kind++) {
        chk_fill(s, kind, 1);
        if (!chk_round_trip(s))
            return chk_broken(s, finding, "%s", s->why);
        for (size_t i = 0; i < s->count; i++) {
            const double decoded = (double)s->decoded[i];
            const double residual = (double)s->residual[i];
            const double larger = fmax(fabs(decoded), fabs(residual));
            const double slack =
                s->about.traits & TERSE_CODEC_SELECTING ? 0 : larger * 0x1p-23 + 0x1p-149;
            if (!(fabs(decoded + residual - (double)s->in[i]) <= slack))
                return chk_broken(s, finding,
                                  "element %zu: decoded %.9g and residual %.9g are not the input "
                                  "%.9g",
                                  i, decoded, residual, (double)s->in[i]);
            if (s->about.traits & TERSE_CODEC_TERNARY &&
                s->decoded[i] != (float)((s->in[i] > 0) - (s->in[i] < 0)))
                return chk_broken(s, finding, "element %zu: %.9g is decoded to %.9g, not its sign",
                                  i, (double)s->in[i], decoded);
        }
    }
    return 1;
}

/* An element is whole or nothing; values as f16 may leave their rounding error. */
int chk_selection(struct chk_subject *s, struct chk_finding *finding)
{
    chk_fill(s, CHK_NORMAL, 2);
    if (!chk_round_trip(s))
        return chk_broken(s, finding, "%s", s->why);
    for (size_t i = 0; i < s->count; i++)
        if (s->decoded[i] != 0 && fabsf(s->residual[i]) > fabsf(s->decoded[i]) * 0x1p-10f)
            return chk_broken(s, finding, "element %zu: of %.9g only %.9g was encoded", i,
                              (double)s->in[i], (double)s->decoded[i]);
    return 1;
}

/* encode gives the bytes of encode_take, and leaves the input as it is. */
int chk_one_payload(struct chk_subject *s, struct chk_finding *finding)
{
    struct chk_subject other;
    int holds = 1;
    if (chk_subject_create(s->settings, 1, &other, NULL) != TERSE_OK)
        return chk_broken(s, finding, "a second codec cannot be made");
    chk_fill(s, CHK_HEAVY, 3);
    chk_fill(&other, CHK_HEAVY, 3);
    if (!chk_round_trip(s))
        holds = chk_broken(s, finding, "%s", s->why);
    memset(other.decoded, 0, other.count * sizeof *other.decoded);
    for (uint32_t pass = 0; pass < s->about.passes && holds; pass++)
        if (!chk_encode(&other, pass, other.in, 0) || !chk_decode(&other, pass))
            holds = chk_broken(s, finding, "%s", other.why);
        else if (other.len[pass] != s->len[pass] ||
                 memcmp(other.payload[pass].at, s->payload[pass].at, s->len[pass]) != 0)
            holds = chk_broken(s, finding, "encode gives other bytes than encode_take");
    if (holds && memcmp(other.in, other.residual, other.count * sizeof *other.in) != 0)
        holds = chk_broken(s, finding, "encode changes its input");
    chk_subject_destroy(&other);
    return holds;
}

/* |x - C(x)| <= |x| for every input. */
int chk_contraction(struct chk_subject *s, struct chk_finding *finding)
{
    for (enum chk_kind kind = 0; kind < CHK_KINDS; kind++) {
        double given = 0;
        double kept = 0;
        chk_fill(s, kind, 4);
        if (!chk_round_trip(s))
            return chk_broken(s, finding, "%s", s->why);
        for (size_t i = 0; i < s->count; i++) {
            given += (double)s->in[i] * (double)s->in[i];
            kept += (double)s->residual[i] * (double)s->residual[i];
        }
        if (!(kept <= given * (1 + 1e-6)))
            return chk_broken(s, finding, "the residual has norm %.6g, the input %.6g", sqrt(kept),
                              sqrt(given));
    }
    return 1;
}

/* A vector of zeros stays zeros, also in later steps. */
int chk_zeros(struct chk_subject *s, struct chk_finding *finding)
{
    chk_fill(s, CHK_ZERO, 0);
    for (s->key.step = 0; s->key.step < 3; s->key.step++) {
        if (!chk_round_trip(s))
            return chk_broken(s, finding, "%s", s->why);
        for (size_t i = 0; i < s->count; i++)
            if (s->decoded[i] != 0 || s->residual[i] != 0)
                return chk_broken(s, finding, "element %zu: decoded %.9g, residual %.9g", i,
                                  (double)s->decoded[i], (double)s->residual[i]);
    }
    return 1;
}

/* NaN or infinity is TERSE_NOT_FINITE, and the residual is as before: bit for bit where the codec
 * selects, else to one rounding. A codec that does not read an element decodes to numbers. */
int chk_finiteness(struct chk_subject *s, struct chk_finding *finding)
{
    static const float poison[] = {NAN, INFINITY, -INFINITY};
    struct chk_random random = {s->settings->seed};
    const int exact = (s->about.traits & TERSE_CODEC_SELECTING) != 0;
    for (size_t round = 0; round < 18; round++) {
        chk_fill(s, CHK_TIES, round);
        const size_t spots[] = {
            0, 539, 618, s->count / 2, s->count - 1, chk_next(&random) % s->count};
        const size_t spot = spots[round / 3];
        terse_status status = TERSE_OK;
        s->in[spot] = s->residual[spot] = poison[round % 3];
        memset(s->decoded, 0, s->count * sizeof *s->decoded);
        for (uint32_t pass = 0; pass < s->about.passes && status == TERSE_OK; pass++) {
            status =
                terse_codec_encode_take(s->codec, pass, &s->key, s->residual, s->payload[pass].at,
                                        s->payload[pass].len, &s->len[pass]);
            if (status == TERSE_OK && !chk_decode(s, pass))
                return chk_broken(s, finding, "%g at element %zu: %s", (double)poison[round % 3],
                                  spot, s->why);
        }
        if (status != TERSE_OK && status != TERSE_NOT_FINITE)
            return chk_broken(s, finding, "%g at element %zu: encode is '%s', not 'not finite'",
                              (double)poison[round % 3], spot, terse_status_text(status));
        for (size_t i = 0; i < s->count; i++) {
            const float off = fabsf(s->residual[i] - s->in[i]);
            if (status == TERSE_OK
                    ? !isfinite(s->decoded[i])
                    : i != spot && !(off <= (exact ? 0 : fabsf(s->in[i]) * 1e-5f + 1e-4f)))
                return chk_broken(s, finding,
                                  "%g at element %zu: element %zu was %g; decoded %g, residual %g",
                                  (double)poison[round % 3], spot, i, (double)s->in[i],
                                  (double)s->decoded[i], (double)s->residual[i]);
        }
    }
    return chk_guards_hold(s) ? 1 : chk_broken(s, finding, "%s", s->why);
}

/* Complete text and option bytes name the same codec. */
int chk_spec(struct chk_subject *s, struct chk_finding *finding)
{
    const char *const spec = terse_codec_spec(s->codec);
    uint8_t bytes[TERSE_OPTION_BYTES];
    terse_codec *opened = NULL;
    terse_codec *named = NULL;
    terse_fault fault = {.text = ""};
    terse_codec_option_bytes(s->codec, bytes);
    const int made =
        terse_codec_create(spec, s->layout, NULL, &named, &fault) == TERSE_OK &&
        terse_codec_open(s->about.wire_id, bytes, s->layout, NULL, &opened, &fault) == TERSE_OK;
    const int holds = made && strcmp(terse_codec_spec(named), spec) == 0 &&
                      strcmp(terse_codec_spec(opened), spec) == 0;
    if (!holds)
        (void)chk_broken(s, finding, "'%s' is read back as another codec %s", spec, fault.text);
    terse_codec_destroy(named);
    terse_codec_destroy(opened);
    return holds;
}
