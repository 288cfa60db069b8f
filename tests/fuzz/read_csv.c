/* Fuzzes CSV text. Accepted text can be tokenised, and ids stay in their buckets. */
#include <stdlib.h>

#include "data/read.h"
#include "fuzz/subject.h"

enum { MOST = 9 };

static void check_tokens(const struct trn_examples *examples, uint32_t example)
{
    for (int form = TRN_WORDS; form <= TRN_NGRAMS; form++) {
        const struct trn_text text = {
            .tokens = (enum trn_tokens)form, .buckets = 7, .max_len = MOST};
        int32_t tokens[MOST];
        uint32_t len;
        trn_text_batch(examples, &example, 1, &text, tokens, &len);
        FUZZ_CHECK(len >= 1 && len <= MOST);
        for (uint32_t i = 0; i < MOST; i++)
            FUZZ_CHECK(tokens[i] >= 0 && tokens[i] < 7);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const struct trn_bytes in = {.name = "f", .at = bytes, .len = len};
    struct trn_examples examples;
    terse_fault fault = {0};
    const terse_status status = trn_csv_read(&in, &examples, &fault);
    if (status == TERSE_OK) {
        FUZZ_CHECK(examples.count > 0 && examples.text_at[examples.count] <= len);
        for (uint32_t i = 0; i < examples.count; i++) {
            FUZZ_CHECK(examples.text_at[i] <= examples.text_at[i + 1]);
            FUZZ_CHECK(examples.labels[i] < 1000);
            check_tokens(&examples, i);
        }
    } else {
        FUZZ_CHECK(status == COM_BAD_FILE && fault.text[0] && fault.offset <= len);
    }
    trn_examples_free(&examples);
    return 0;
}
