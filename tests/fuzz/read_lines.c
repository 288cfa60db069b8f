/* Fuzzes JSON lines. The accepted part is a prefix of whole lines, and parses the same again. */
#include "files/lines.h"
#include "fuzz/subject.h"

static int count_line(void *context, const com_json *line)
{
    uint64_t step;
    (void)com_json_get_u64(line, "step", &step);
    (*(size_t *)context)++;
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    size_t count = 0;
    size_t again = 0;
    size_t good_len;
    size_t good_again;
    FUZZ_CHECK(trn_lines_parse("f", bytes, len, count_line, &count, &good_len, NULL) == TERSE_OK);
    FUZZ_CHECK(good_len <= len && (good_len == 0 || bytes[good_len - 1] == '\n'));
    FUZZ_CHECK(trn_lines_parse("f", bytes, good_len, count_line, &again, &good_again, NULL) ==
               TERSE_OK);
    FUZZ_CHECK(again == count && good_again == good_len);
    return 0;
}
