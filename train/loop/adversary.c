#include "loop/adversary.h"

#include <math.h>
#include <string.h>

#include <terse/terse.h>

#include "common/names.h"
#include "common/number.h"
#include "data/draw.h"

#define LEAST_FACTOR 1e-6
#define MOST_FACTOR 1e6
#define MOST_SHOWN 40 /* characters of a text in a message */

enum { ATTACKS = 4 };
static const char *const names[ATTACKS] = {"invert", "random", "zero", "blind"};

const char *trn_attack_name(uint32_t index)
{
    return index < ATTACKS ? names[index] : NULL;
}

/* ---- the option ---- */

static terse_status unknown(const char *name, size_t len, terse_fault *fault)
{
    char there[80];
    const int shown = (int)(len < MOST_SHOWN ? len : MOST_SHOWN);
    const int nearest = com_names_nearest(trn_attack_name, name, len);
    if (nearest != COM_NO_NAME)
        return com_fail(fault, TERSE_BAD_SPEC,
                        "--adversaries: no attack named '%.*s'; did you mean '%s'?", shown, name,
                        names[nearest]);
    return com_fail(fault, TERSE_BAD_SPEC,
                    "--adversaries: no attack named '%.*s'; there are %s, as in 3:invert", shown,
                    name, com_names_join(trn_attack_name, ", ", there, sizeof there));
}

static terse_status parse_attack(const char *text, struct trn_adversaries *out, terse_fault *fault)
{
    const size_t len = strcspn(text, "*");
    uint32_t index = 0;
    double factor = 1;
    while (index < ATTACKS &&
           (strlen(names[index]) != len || strncmp(names[index], text, len) != 0))
        index++;
    if (index == ATTACKS)
        return unknown(text, len, fault);
    out->attack = (enum trn_attack)index;
    if (text[len] == '*' && out->attack == TRN_ATTACK_ZERO)
        return com_fail(fault, TERSE_BAD_SPEC, "--adversaries: zero takes no factor");
    if (text[len] == '*' && !com_parse_real(text + len + 1, LEAST_FACTOR, MOST_FACTOR, &factor))
        return com_fail(fault, TERSE_BAD_SPEC,
                        "--adversaries: the factor '%.*s' is not a number from %g to %g; write "
                        "3:%s*10",
                        MOST_SHOWN, text + len + 1, LEAST_FACTOR, MOST_FACTOR, names[index]);
    out->factor = (float)factor;
    return TERSE_OK;
}

terse_status trn_adversaries_parse(const char *text, struct trn_adversaries *out,
                                   terse_fault *fault)
{
    const char *const colon = strchr(text, ':');
    char digits[16] = "";
    uint64_t count = 0;
    *out = (struct trn_adversaries){.count = 0};
    if (strcmp(text, "none") == 0)
        return TERSE_OK;
    if (!colon)
        return com_fail(fault, TERSE_BAD_SPEC,
                        "--adversaries: '%.*s' is not their number and what they do; write "
                        "3:invert, or none",
                        MOST_SHOWN, text);
    if (colon > text && (size_t)(colon - text) < sizeof digits)
        memcpy(digits, text, (size_t)(colon - text));
    if (!com_parse_u64(digits, 1, TERSE_MAX_WORKERS, &count))
        return com_fail(fault, TERSE_BAD_SPEC,
                        "--adversaries: '%.*s' is not a whole number from 1 to %u; write 3:invert",
                        (int)(colon - text < MOST_SHOWN ? colon - text : MOST_SHOWN), text,
                        TERSE_MAX_WORKERS);
    out->count = (uint32_t)count;
    return parse_attack(colon + 1, out, fault);
}

int trn_is_adversary(const struct trn_adversaries *adversaries, uint32_t rank, uint32_t workers)
{
    return rank + adversaries->count >= workers && adversaries->count > 0;
}

/* ---- attacks ---- */

static float root_mean_square(const float *v, size_t count)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)v[i] * (double)v[i];
    return count > 0 ? (float)sqrt(squares / (double)count) : 0;
}

void trn_attack(const struct trn_adversaries *adversaries, const struct trn_attacker *attacker,
                const float *gradient, float *out, size_t count)
{
    const float factor = adversaries->factor;
    struct trn_stream stream;
    const int is_blind = adversaries->attack == TRN_ATTACK_BLIND;
    const float size =
        adversaries->attack == TRN_ATTACK_RANDOM ? factor * root_mean_square(gradient, count) : 0;
    trn_stream_start(&stream, attacker->seed, TRN_DRAW_ATTACK, is_blind ? 0 : 1 + attacker->step,
                     attacker->rank);
    for (size_t i = 0; i < count; i++)
        switch (adversaries->attack) {
        case TRN_ATTACK_INVERT: out[i] = -factor * gradient[i]; break;
        case TRN_ATTACK_RANDOM: out[i] = size * trn_draw_bell(&stream); break;
        case TRN_ATTACK_ZERO: out[i] = 0; break;
        case TRN_ATTACK_BLIND: out[i] = factor * trn_draw_bell(&stream) * gradient[i]; break;
        }
}
