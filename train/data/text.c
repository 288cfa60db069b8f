/* Words and pairs of words as hashed ids. */
#include "data/object.h"
#include "files/hash.h"

enum { MOST_WORD = 64 }; /* bytes of a word that count */

/* What is left of a text. */
struct words {
    const unsigned char *at;
    const unsigned char *end;
};

/* ASCII only: the C library's functions depend on the locale. */
static int lower(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 'a';
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c > 127 ? c : 0;
}

/* The next word in lower case, 1; or 0 at the end. */
static int next_word(struct words *words, unsigned char word[MOST_WORD], size_t *len)
{
    *len = 0;
    while (words->at < words->end && !lower(*words->at))
        words->at++;
    for (; words->at < words->end && lower(*words->at); words->at++)
        if (*len < MOST_WORD)
            word[(*len)++] = (unsigned char)lower(*words->at);
    return *len > 0;
}

static int32_t bucket(uint64_t hash, uint32_t buckets)
{
    return (int32_t)(1 + (uint32_t)(hash % (buckets - 1)));
}

static uint32_t write_words(struct words words, const struct trn_text *form, int32_t *tokens)
{
    unsigned char word[MOST_WORD];
    size_t len;
    uint32_t count = 0;
    while (count < form->max_len && next_word(&words, word, &len))
        tokens[count++] = bucket(trn_hash64(word, len, 0), form->buckets);
    return count;
}

/* A pair's hash is the second word's, seeded with the first's. */
static uint32_t write_pairs(struct words words, const struct trn_text *form, int32_t *tokens,
                            uint32_t count)
{
    unsigned char word[MOST_WORD];
    size_t len;
    uint64_t before;
    if (!next_word(&words, word, &len))
        return count;
    before = trn_hash64(word, len, 0);
    while (count < form->max_len && next_word(&words, word, &len)) {
        tokens[count++] = bucket(trn_hash64(word, len, before), form->buckets);
        before = trn_hash64(word, len, 0);
    }
    return count;
}

void trn_text_batch(const struct trn_examples *split, const uint32_t *examples, uint32_t count,
                    const struct trn_text *form, int32_t *tokens, uint32_t *lengths)
{
    const unsigned char *text = (const unsigned char *)split->text;
    for (uint32_t i = 0; i < count; i++, tokens += form->max_len) {
        const size_t example = examples[i];
        const struct words words = {.at = text + split->text_at[example],
                                    .end = text + split->text_at[example + 1]};
        uint32_t written = write_words(words, form, tokens);
        if (form->tokens == TRN_NGRAMS)
            written = write_pairs(words, form, tokens, written);
        lengths[i] = written > 0 ? written : 1;
        for (; written < form->max_len; written++)
            tokens[written] = 0;
    }
}
