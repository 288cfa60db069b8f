/* Reading, writing and filling in the settings of a method. */
#include "method/settings.h"

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/spec.h"

/* One option: its name, its range (a number, a whole number, or a choice of words), its help. */
#define REAL(text, least, most, about)                                                   \
    .name = text, .range = #least ".." #most, .help = about, .low = least, .high = most, \
    .kind = TERSE_OPTION_REAL
#define WHOLE(text, least, most, about)                                                  \
    .name = text, .range = #least ".." #most, .help = about, .low = least, .high = most, \
    .kind = TERSE_OPTION_INTEGER
#define CHOICE(text, words, last, about) \
    .name = text, .range = words, .help = about, .high = last, .kind = TERSE_OPTION_CHOICE

static const terse_option options[TSI_SETTINGS] = {
    [TSI_LR] = {REAL("lr", 0, 1000, "learning rate")},
    [TSI_WD] = {REAL("wd", 0, 1, "weight decay")},
    [TSI_DECAY] = {CHOICE(
        "decay", "decoupled|momentum", 1,
        "where wd * x is added: to the vote, or to the gradient in the momentum")},
    [TSI_MOMENTUM] = {REAL("momentum", 0, 0.9999, "momentum coefficient")},
    [TSI_BETA] = {REAL("beta", 0, 0.9999, "momentum; 0 is signsgd")},
    [TSI_BETA1] = {REAL("beta1", 0, 0.9999, "decay of the first moment")},
    [TSI_BETA2] = {REAL("beta2", 0, 0.999999, "decay of the second moment")},
    [TSI_EPS] = {REAL("eps", 1e-30, 1, "added to the root of the second moment")},
    [TSI_V0] = {REAL("v0", 1e-30, 1, "initial second moment")},
    [TSI_BIAS] = {CHOICE("bias", "no|yes", 1, "Adam's bias correction of both moments")},
    [TSI_AMSGRAD] = {CHOICE("amsgrad", "no|yes", 1,
                            "divide by the root of the largest second moment so far")},
    [TSI_RATES] = {CHOICE("rates", "constant|theory", 1,
                          "theory: beta2 of step t is 1 - theta / (t + shift)")},
    [TSI_THETA] = {REAL("theta", 0, 1, "theta of rates=theory")},
    [TSI_SHIFT] = {REAL("shift", 0, 1e6, "shift of rates=theory")},
    [TSI_LAMBDA] = {REAL("lambda", 0, 1,
                         "gradients are taken at x - lambda * e; 0 is error feedback")},
    [TSI_RATIO] = {REAL("ratio", 1, 1e9, "compression ratio: one block of n / ratio")},
    [TSI_KEEP] = {REAL("keep", 0.000001, 1, "fraction of elements sent")},
    [TSI_SCOPE] = {CHOICE("scope", "tensor|model", 1,
                          "what keep is a fraction of: each tensor, or all parameters together")},
    [TSI_VALUES] = {CHOICE("values", "f32|f16", 1, "format of the values sent")},
    [TSI_MU] = {REAL("mu", 1e-6, 1e6, "temperature: small is Top-k, large regularises more")},
    [TSI_FORM] = {CHOICE("form", "prev|cur", 1,
                         "what the last aggregate is compared with: a_prev, or a")},
    [TSI_REJECT] = {CHOICE("reject", "no|yes", 1,
                           "yes: weights do not take a step of 100 times the last one's square")},
    [TSI_KG] = {CHOICE("kg", "0|1|2|3|4|5|6|7|8|9|10|11|12|13|14|off", TSI_KG_OFF,
                       "grid of the Adam steps: 2 kg + 3 levels; off: not quantized")},
    [TSI_KX] = {WHOLE("kx", 0, 14, "grid of the weights: 2^(kx+1) + 1 levels; 0: not quantized")},
    [TSI_RANGE] = {REAL("range", 0, 1e30,
                        "range of the weights' grid; 0: the tensor's largest magnitude")},
    [TSI_LEVEL_BITS] = {WHOLE("bits", 2, 16, "bits per element")},
    [TSI_NORM] = {CHOICE("norm", "inf|2", 1, "norm that the largest level represents")},
    [TSI_BITS] = {CHOICE("bits", "average|kappa|error|rms|meanstd", 4,
                         "how the bits of a step are chosen")},
    [TSI_TARGET] = {REAL("target", 2, 16, "mean bits per element (average, rms, meanstd)")},
    [TSI_KAPPA] = {REAL("kappa", 1e-12, 1e12, "levels per unit of norm in the last step (kappa)")},
    [TSI_ALPHA] = {REAL("alpha", 0.01, 1,
                        "contraction of a step; 1 where the problem is not convex")},
    [TSI_EPSILON] = {REAL("epsilon", 1e-12, 1e12, "error allowed (error)")},
    [TSI_SMOOTHNESS] = {REAL("smoothness", 1e-12, 1e12, "L (error)")},
    [TSI_NOISE] = {REAL("noise", 0, 1e12, "sigma: the gradient's standard deviation (error)")},
    [TSI_GAP] = {REAL("gap", 0, 1e12, "F at the start minus its minimum (error)")},
    [TSI_RANK] = {WHOLE("rank", 1, 32, "rank of the factors")},
    [TSI_TIE] = {CHOICE("tie", "coin|plus", 1, "the sign of a tied vote")},
    [TSI_ZERO] = {CHOICE("zero", "plus|coin", 1, "the sign of an exact zero")},
    [TSI_SIGN_ZERO] = {CHOICE("zero", "plus|coin|keep", 2,
                              "the sign of an exact zero; keep: 0, and 0 for a tied vote")},
    [TSI_SCHEDULE] = {CHOICE("schedule", "constant|step|cosine|sqrt", 3,
                             "lr over time; step: a tenth after 1/2 and again after 3/4; "
                             "cosine: half a cosine; sqrt: 1/sqrt t")},
    [TSI_RAMP] = {WHOLE("ramp", 0, 1e9, "steps of linear warm-up of lr")},
    [TSI_CLIP] = {REAL("clip", 0, 1e30, "largest norm of a worker's gradient; 0: no clipping")},
    [TSI_SIGMA] = {REAL(
        "sigma", 0, 1000,
        "elements are clipped at so many standard deviations of their tensor; 0: not")},
    [TSI_WARMUP] = {WHOLE("warmup", 0, 1e9, "first steps, which send everything as f32")},
    [TSI_SIGN_WARMUP] = {WHOLE("sign_warmup", 0, 1e9,
                               "first steps, which vote with gradients while momenta grow")},
    [TSI_EVERY] = {WHOLE("every", 1, 1e6, "steps between exchanges")},
    [TSI_OUTER_LR] = {REAL("outer_lr", 0, 100, "factor of the exchanged change")},
    [TSI_OUTER_MOMENTUM] = {REAL("outer_momentum", 0, 0.9999, "momentum of the exchanged changes")},
    [TSI_NESTEROV] = {CHOICE("nesterov", "no|yes", 1, "outer momentum in Nesterov's form")},
    [TSI_EITHER_NESTEROV] = {CHOICE("nesterov", "no|yes", 1,
                                    "momentum in Nesterov's form; with every > 1 the outer one")},
    [TSI_MIN] = {WHOLE("min", 0, 1e12, "tensors with fewer elements are sent as f32")},
};

const char *const tsi_word_names[TSI_WORDS] = {
    [TSI_WORD_COMBINE] = "combine", [TSI_WORD_FEEDBACK] = "feedback",
    [TSI_WORD_PLAIN] = "plain",     [TSI_WORD_DIRECTION] = "direction",
    [TSI_WORD_CODEC] = "codec",     [TSI_WORD_UPDATE] = "update",
};

terse_option tsi_setting_option(const struct tsi_default *entry)
{
    terse_option option = options[entry->which];
    option.initial = entry->initial;
    return option;
}

/* ---- reading ---- */

/* "name:..." names a method; "key=..." composes one. */
static terse_status find_row(const char *spec, size_t *len, const struct tsi_method_row **out,
                             terse_fault *fault)
{
    const char *names[64];
    *len = strcspn(spec, ":=,");
    *out = &tsi_method_composed;
    if (spec[*len] == '=') {
        *len = 0;
        return TERSE_OK;
    }
    for (size_t i = 0; i < tsi_method_count; i++) {
        names[i] = tsi_methods[i].name;
        *out = &tsi_methods[i];
        if (strlen(names[i]) == *len && strncmp(names[i], spec, *len) == 0)
            return TERSE_OK;
    }
    const char *const nearest = tsi_spec_nearest(spec, *len, names, tsi_method_count);
    return tsi_fail(fault, TERSE_BAD_SPEC, 0, "no method '%.*s'%s%s%s", *len < 64 ? (int)*len : 64,
                    spec, nearest ? "; did you mean '" : "", nearest ? nearest : "",
                    nearest ? "'?" : "");
}

/* Is the entry "name=..."? */
static int is_named(const char *name, const char *text, size_t len)
{
    const size_t name_len = strlen(name);
    return len > name_len && text[name_len] == '=' && strncmp(text, name, name_len) == 0;
}

/* A spec that is being read, entry by entry. After codec=, entries that no other option claims
 * belong to the codec. */
struct reading {
    struct tsi_settings *settings;
    terse_option list[TSI_MAX_ENTRIES];
    double value[TSI_MAX_ENTRIES];
    size_t count;
    uint64_t seen;
    unsigned words;
    int in_codec;
};

static terse_status read_word(struct reading *reading, int word, const char *text, size_t len,
                              size_t offset, terse_fault *fault)
{
    const size_t name_len = strlen(tsi_word_names[word]) + 1;
    char *const out = reading->settings->word[word];
    if (reading->words >> word & 1u)
        return tsi_fail(fault, TERSE_BAD_SPEC, offset, "%s is given twice", tsi_word_names[word]);
    if (len == name_len || len - name_len >= TSI_MAX_WORD)
        return tsi_fail(fault, TERSE_BAD_SPEC, offset, "%s needs a value of 1 to %u bytes",
                        tsi_word_names[word], TSI_MAX_WORD - 1u);
    memcpy(out, text + name_len, len - name_len);
    out[len - name_len] = '\0';
    reading->settings->at[word] = offset + name_len;
    reading->words |= 1u << word;
    reading->in_codec = word == TSI_WORD_CODEC;
    return TERSE_OK;
}

/* The first three words may be given for any method, the others compose one. */
static terse_status read_entry(struct reading *reading, const char *text, size_t len, size_t offset,
                               terse_fault *fault)
{
    const int composes = reading->settings->row == &tsi_method_composed;
    char *const codec = reading->settings->word[TSI_WORD_CODEC];
    for (int word = 0; word < (composes ? TSI_WORDS : TSI_WORD_DIRECTION); word++)
        if (is_named(tsi_word_names[word], text, len))
            return read_word(reading, word, text, len, offset, fault);
    int open = reading->in_codec && strchr(codec, ':');
    for (size_t i = 0; i < reading->count && open; i++)
        open = !is_named(reading->list[i].name, text, len);
    if (open) {
        const size_t used = strlen(codec);
        if (used + len + 2 > TSI_MAX_WORD)
            return tsi_fail(fault, TERSE_BAD_SPEC, offset,
                            "the codec's spec has more than %u bytes", TSI_MAX_WORD - 1u);
        codec[used] = ',';
        memcpy(codec + used + 1, text, len);
        codec[used + 1 + len] = '\0';
        return TERSE_OK;
    }
    return tsi_spec_entry(reading->list, reading->count, text, len, offset, &reading->seen,
                          reading->value, fault);
}

static terse_status read_list(struct reading *reading, const char *text, size_t offset,
                              terse_fault *fault)
{
    while (*text != '\0') {
        const size_t len = strcspn(text, ",");
        const terse_status status = read_entry(reading, text, len, offset, fault);
        if (status != TERSE_OK)
            return status;
        if (text[len] == '\0')
            return TERSE_OK;
        text += len + 1;
        offset += len + 1;
        if (*text == '\0')
            return tsi_fail(fault, TERSE_BAD_SPEC, offset, "expected key=value after the comma");
    }
    return TERSE_OK;
}

terse_status tsi_settings_read(const char *spec, struct tsi_settings *out, terse_fault *fault)
{
    size_t len;
    const struct tsi_method_row *row;
    struct reading reading = {.settings = out};
    terse_status status = find_row(spec, &len, &row, fault);
    if (status != TERSE_OK)
        return status;
    *out = (struct tsi_settings){.row = row};
    reading.count = row->option_count;
    for (size_t i = 0; i < row->option_count; i++)
        reading.list[i] = tsi_setting_option(&row->options[i]);
    status = tsi_spec_defaults(reading.list, reading.count, reading.value, fault);
    if (status == TERSE_OK && spec[len] == ',')
        status = tsi_fail(fault, TERSE_BAD_SPEC, len,
                          "expected ':' before the options of %s, not ','", row->name);
    if (status == TERSE_OK && spec[len] != '\0')
        status = read_list(&reading, spec + len + (len > 0), len + (len > 0), fault);
    for (size_t i = 0; i < row->option_count; i++)
        out->value[row->options[i].which] = reading.value[i];
    out->given = reading.seen;
    return status;
}

/* Sets one option, or one of the words that any method may have, or leaves it. */
static terse_status set_entry(struct tsi_settings *settings, const char *text, size_t len,
                              size_t offset, int replace, terse_fault *fault)
{
    const struct tsi_method_row *const row = settings->row;
    struct reading reading = {.settings = settings};
    for (int word = 0; word < TSI_WORD_DIRECTION; word++)
        if (is_named(tsi_word_names[word], text, len))
            return settings->word[word][0] != '\0' && !replace
                       ? TERSE_OK
                       : read_word(&reading, word, text, len, offset, fault);
    for (size_t i = 0; i < row->option_count; i++) {
        const terse_option option = tsi_setting_option(&row->options[i]);
        const uint64_t bit = UINT64_C(1) << i;
        uint64_t seen = 0;
        if (!is_named(option.name, text, len))
            continue;
        if (settings->given & bit && !replace)
            return TERSE_OK;
        settings->given |= bit;
        return tsi_spec_entry(&option, 1, text, len, offset, &seen,
                              &settings->value[row->options[i].which], fault);
    }
    return TERSE_OK;
}

terse_status tsi_settings_set(struct tsi_settings *settings, const char *entries, int replace,
                              terse_fault *fault)
{
    terse_status status = TERSE_OK;
    size_t at = 0;
    while (entries[at] != '\0' && status == TERSE_OK) {
        const size_t len = strcspn(entries + at, ",");
        if (!memchr(entries + at, '=', len))
            return tsi_fail(fault, TERSE_BAD_SPEC, at, "expected key=value, not '%.*s'",
                            len < 64 ? (int)len : 64, entries + at);
        status = set_entry(settings, entries + at, len, at, replace, fault);
        at += len + (entries[at + len] == ',');
    }
    return status;
}

/* ---- writing ---- */

size_t tsi_settings_write(const struct tsi_settings *settings, uint64_t which, char *out,
                          size_t cap)
{
    const struct tsi_method_row *const row = settings->row;
    const int composed = row == &tsi_method_composed;
    size_t used = (size_t)snprintf(out, cap, "%s", composed ? "" : row->name);
    const char *mark = composed ? "" : ":"; /* what separates the next entry from what is written */
    for (size_t i = 0; i < TSI_WORDS + row->option_count && used < cap; i++) {
        char value[64];
        const char *name = NULL;
        const char *text = value;
        if (i < TSI_WORDS) {
            text = settings->word[TSI_WORDS - 1 - i];
            name = text[0] != '\0' ? tsi_word_names[TSI_WORDS - 1 - i] : NULL;
        } else if (which >> (i - TSI_WORDS) & 1u) {
            const terse_option option = tsi_setting_option(&row->options[i - TSI_WORDS]);
            tsi_spec_value(&option, settings->value[row->options[i - TSI_WORDS].which], value,
                           sizeof value);
            name = option.name;
        }
        if (!name)
            continue;
        used += (size_t)snprintf(out + used, cap - used, "%s%s=%s", mark, name, text);
        mark = ",";
    }
    return used;
}

void tsi_settings_fill(const struct tsi_settings *settings, const char *template, char *out,
                       size_t cap)
{
    size_t used = 0;
    while (*template != '\0' && used + 64 < cap) {
        if (*template != '{') {
            out[used++] = *template ++;
            continue;
        }
        const size_t len = strcspn(template + 1, "}");
        const struct tsi_method_row *const row = settings->row;
        for (size_t i = 0; i < row->option_count; i++) {
            const terse_option option = tsi_setting_option(&row->options[i]);
            if (strlen(option.name) != len || strncmp(option.name, template + 1, len) != 0)
                continue;
            tsi_spec_value(&option, settings->value[row->options[i].which], out + used, cap - used);
            used += strlen(out + used);
        }
        template += len + 2;
    }
    out[used] = '\0';
}
