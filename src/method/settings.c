/* Reading, writing and filling in the settings of a method. */
#include "method/settings.h"

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/spec.h"

#define REAL(text, least, most) .range = text, .kind = TERSE_OPTION_REAL, .low = least, .high = most
#define WHOLE(text, least, most) \
    .range = text, .kind = TERSE_OPTION_INTEGER, .low = least, .high = most
#define CHOICE(text, last) .range = text, .kind = TERSE_OPTION_CHOICE, .low = 0, .high = last

static const terse_option options[TSI_SETTINGS] = {
    [TSI_LR] = {"lr", REAL("0..1000", 0, 1000), .help = "learning rate"},
    [TSI_WD] = {"wd", REAL("0..1", 0, 1), .help = "weight decay"},
    [TSI_MOMENTUM] = {"momentum", REAL("0..0.9999", 0, 0.9999), .help = "momentum coefficient"},
    [TSI_BETA] = {"beta", REAL("0..0.9999", 0, 0.9999), .help = "momentum; 0 is signsgd"},
    [TSI_BETA1] = {"beta1", REAL("0..0.9999", 0, 0.9999), .help = "decay of the first moment"},
    [TSI_BETA2] = {"beta2", REAL("0..0.999999", 0, 0.999999), .help = "decay of the second moment"},
    [TSI_EPS] = {"eps", REAL("1e-30..1", 1e-30, 1),
                 .help = "added to the root of the second moment"},
    [TSI_V0] = {"v0", REAL("1e-30..1", 1e-30, 1), .help = "initial second moment"},
    [TSI_RATES] = {"rates", CHOICE("constant|theory", 1),
                   .help = "theory: beta2 of step t is 1 - theta / (t + shift)"},
    [TSI_THETA] = {"theta", REAL("0..1", 0, 1), .help = "theta of rates=theory"},
    [TSI_SHIFT] = {"shift", REAL("0..1e6", 0, 1e6), .help = "shift of rates=theory"},
    [TSI_LAMBDA] = {"lambda", REAL("0..1", 0, 1),
                    .help = "gradients are taken at x - lambda * e; 0 is error feedback"},
    [TSI_RATIO] = {"ratio", REAL("1..1e9", 1, 1e9),
                   .help = "compression ratio: one block of n / ratio"},
    [TSI_KEEP] = {"keep", REAL("0.000001..1", 0.000001, 1), .help = "fraction of elements sent"},
    [TSI_VALUES] = {"values", CHOICE("f32|f16", 1), .help = "format of the values sent"},
    [TSI_MU] = {"mu", REAL("1e-6..1e6", 1e-6, 1e6),
                .help = "temperature: small is Top-k, large regularises more"},
    [TSI_FORM] = {"form", CHOICE("prev|cur", 1),
                  .help = "what the last aggregate is compared with: a_prev, or a"},
    [TSI_KG] = {"kg", WHOLE("0..14", 0, 14), .help = "grid of the Adam steps: 2 kg + 3 levels"},
    [TSI_KX] = {"kx", WHOLE("0..14", 0, 14),
                .help = "grid of the weights: 2^(kx+1) + 1 levels; 0: not quantized"},
    [TSI_RANGE] = {"range", REAL("0..1e30", 0, 1e30),
                   .help = "range of the weights' grid; 0: the tensor's largest magnitude"},
    [TSI_LEVEL_BITS] = {"bits", WHOLE("2..16", 2, 16), .help = "bits per element"},
    [TSI_NORM] = {"norm", CHOICE("inf|2", 1), .help = "norm that the largest level represents"},
    [TSI_BITS] = {"bits", CHOICE("average|kappa|error|rms|meanstd", 4),
                  .help = "how the bits of a step are chosen"},
    [TSI_TARGET] = {"target", REAL("2..16", 2, 16),
                    .help = "mean bits per element (average, rms, meanstd)"},
    [TSI_KAPPA] = {"kappa", REAL("1e-12..1e12", 1e-12, 1e12),
                   .help = "levels per unit of norm in the last step (kappa)"},
    [TSI_ALPHA] = {"alpha", REAL("0.01..1", 0.01, 1),
                   .help = "contraction of a step; 1 where the problem is not convex"},
    [TSI_EPSILON] = {"epsilon", REAL("1e-12..1e12", 1e-12, 1e12), .help = "error allowed (error)"},
    [TSI_SMOOTHNESS] = {"smoothness", REAL("1e-12..1e12", 1e-12, 1e12), .help = "L (error)"},
    [TSI_NOISE] = {"noise", REAL("0..1e12", 0, 1e12),
                   .help = "sigma: the gradient's standard deviation (error)"},
    [TSI_GAP] = {"gap", REAL("0..1e12", 0, 1e12),
                 .help = "F at the start minus its minimum (error)"},
    [TSI_RANK] = {"rank", WHOLE("1..32", 1, 32), .help = "rank of the factors"},
    [TSI_TIE] = {"tie", CHOICE("coin|plus", 1), .help = "the sign of a tied vote"},
    [TSI_ZERO] = {"zero", CHOICE("plus|coin", 1), .help = "the sign of an exact zero"},
    [TSI_SCHEDULE] = {"schedule", CHOICE("constant|step|cosine|sqrt", 3),
                      .help = "lr over time; step: a tenth after 1/2 and again after 3/4; "
                              "cosine: half a cosine; sqrt: 1/sqrt t"},
    [TSI_RAMP] = {"ramp", WHOLE("0..1e9", 0, 1e9), .help = "steps of linear warm-up of lr"},
    [TSI_CLIP] = {"clip", REAL("0..1e30", 0, 1e30),
                  .help = "largest norm of a worker's gradient; 0: no clipping"},
    [TSI_WARMUP] = {"warmup", WHOLE("0..1e9", 0, 1e9),
                    .help = "first steps, which send everything as f32"},
    [TSI_EVERY] = {"every", WHOLE("1..1e6", 1, 1e6), .help = "steps between exchanges"},
    [TSI_OUTER_LR] = {"outer_lr", REAL("0..100", 0, 100), .help = "factor of the exchanged change"},
    [TSI_OUTER_MOMENTUM] = {"outer_momentum", REAL("0..0.9999", 0, 0.9999),
                            .help = "momentum of the exchanged changes"},
    [TSI_NESTEROV] = {"nesterov", CHOICE("no|yes", 1), .help = "outer momentum in Nesterov's form"},
    [TSI_MIN] = {"min", WHOLE("0..1e12", 0, 1e12),
                 .help = "tensors with fewer elements are sent as f32"},
};

static const char *const word_names[TSI_WORDS] = {
    [TSI_WORD_COMBINE] = "combine", [TSI_WORD_FEEDBACK] = "feedback",
    [TSI_WORD_PLAIN] = "plain",     [TSI_WORD_DIRECTION] = "direction",
    [TSI_WORD_CODEC] = "codec",     [TSI_WORD_UPDATE] = "update",
};

const char *tsi_word_name(enum tsi_word word)
{
    return word_names[word];
}

terse_option tsi_setting_option(const struct tsi_default *entry)
{
    terse_option option = options[entry->which];
    option.initial = entry->initial;
    return option;
}

/* ---- reading ---- */

static terse_status no_such_method(const char *name, size_t len, terse_fault *fault)
{
    const char *names[64];
    for (size_t i = 0; i < tsi_method_count; i++)
        names[i] = tsi_methods[i].name;
    const char *const nearest = tsi_spec_nearest(name, len, names, tsi_method_count);
    const int shown = len < 64 ? (int)len : 64;
    return tsi_fail(fault, TERSE_BAD_SPEC, 0, "no method '%.*s'%s%s%s", shown, name,
                    nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

/* "name:..." names a method; "key=..." composes one. */
static const struct tsi_method_row *row_of(const char *spec, size_t *len)
{
    *len = strcspn(spec, ":=,");
    if (spec[*len] == '=') {
        *len = 0;
        return &tsi_method_composed;
    }
    for (size_t i = 0; i < tsi_method_count; i++)
        if (strlen(tsi_methods[i].name) == *len && strncmp(tsi_methods[i].name, spec, *len) == 0)
            return &tsi_methods[i];
    return NULL;
}

/* The first three may be given for any method, the others compose one. */
static int word_of(const struct tsi_method_row *row, const char *text, size_t len)
{
    const int count = row == &tsi_method_composed ? TSI_WORDS : TSI_WORD_DIRECTION;
    for (int i = 0; i < count; i++) {
        const size_t name_len = strlen(word_names[i]);
        if (len > name_len && text[name_len] == '=' && strncmp(text, word_names[i], name_len) == 0)
            return i;
    }
    return -1;
}

static int is_option(const terse_option *list, size_t count, const char *text, size_t len)
{
    for (size_t i = 0; i < count; i++) {
        const size_t name_len = strlen(list[i].name);
        if (len > name_len && text[name_len] == '=' && strncmp(text, list[i].name, name_len) == 0)
            return 1;
    }
    return 0;
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
    const size_t name_len = strlen(word_names[word]) + 1;
    char *const out = reading->settings->word[word];
    if (reading->words >> word & 1u)
        return tsi_fail(fault, TERSE_BAD_SPEC, offset, "%s is given twice", word_names[word]);
    if (len == name_len || len - name_len >= TSI_MAX_WORD)
        return tsi_fail(fault, TERSE_BAD_SPEC, offset, "%s needs a value of 1 to %u bytes",
                        word_names[word], TSI_MAX_WORD - 1u);
    memcpy(out, text + name_len, len - name_len);
    out[len - name_len] = '\0';
    reading->settings->at[word] = offset + name_len;
    reading->words |= 1u << word;
    reading->in_codec = word == TSI_WORD_CODEC;
    return TERSE_OK;
}

static terse_status read_entry(struct reading *reading, const char *text, size_t len, size_t offset,
                               terse_fault *fault)
{
    const int word = word_of(reading->settings->row, text, len);
    if (word >= 0)
        return read_word(reading, word, text, len, offset, fault);
    const int open = reading->in_codec && strchr(reading->settings->word[TSI_WORD_CODEC], ':');
    if (open && !is_option(reading->list, reading->count, text, len)) {
        char *const codec = reading->settings->word[TSI_WORD_CODEC];
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
    const struct tsi_method_row *const row = row_of(spec, &len);
    struct reading reading = {.settings = out};
    if (!row)
        return no_such_method(spec, len, fault);
    *out = (struct tsi_settings){.row = row};
    reading.count = row->option_count;
    for (size_t i = 0; i < row->option_count; i++)
        reading.list[i] = tsi_setting_option(&row->options[i]);
    terse_status status = tsi_spec_defaults(reading.list, reading.count, reading.value, fault);
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

/* Sets one option, or leaves it. */
static terse_status set_entry(struct tsi_settings *settings, const char *text, size_t len,
                              size_t offset, int replace, terse_fault *fault)
{
    const struct tsi_method_row *const row = settings->row;
    for (size_t i = 0; i < row->option_count; i++) {
        const terse_option option = tsi_setting_option(&row->options[i]);
        const uint64_t bit = UINT64_C(1) << i;
        uint64_t seen = 0;
        if (!is_option(&option, 1, text, len))
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

struct writing {
    char *out;
    size_t cap;
    size_t used;
    const char *mark; /* what separates the next entry from what is written */
};

static void write_entry(struct writing *writing, const char *name, const char *value)
{
    if (writing->used < writing->cap)
        writing->used +=
            (size_t)snprintf(writing->out + writing->used, writing->cap - writing->used, "%s%s=%s",
                             writing->mark, name, value);
    writing->mark = ",";
}

static size_t write_options(const struct tsi_settings *settings, uint64_t which, char *out,
                            size_t cap)
{
    const struct tsi_method_row *const row = settings->row;
    const int composed = row == &tsi_method_composed;
    struct writing writing = {.out = out, .cap = cap, .mark = composed ? "" : ":"};
    writing.used = (size_t)snprintf(out, cap, "%s", composed ? "" : row->name);
    for (int w = TSI_WORDS; w-- > 0;)
        if (settings->word[w][0] != '\0')
            write_entry(&writing, word_names[w], settings->word[w]);
    for (size_t i = 0; i < row->option_count; i++) {
        char value[64];
        if (!(which >> i & 1u))
            continue;
        const terse_option option = tsi_setting_option(&row->options[i]);
        tsi_spec_value(&option, settings->value[row->options[i].which], value, sizeof value);
        write_entry(&writing, option.name, value);
    }
    return writing.used;
}

void tsi_settings_write(const struct tsi_settings *settings, char *out, size_t cap)
{
    (void)write_options(settings, UINT64_MAX, out, cap);
}

size_t tsi_settings_write_given(const struct tsi_settings *settings, char *out, size_t cap)
{
    return write_options(settings, settings->given, out, cap);
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
