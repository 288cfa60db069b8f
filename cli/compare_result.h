/* What a comparison prints and writes. The seeds of a method are side by side in `members`. */
#ifndef CLI_COMPARE_RESULT_H
#define CLI_COMPARE_RESULT_H

#include "common/json.h"
#include "compare_member.h"

/* The table, and with several seeds a sentence for every method on how it differs from the first.
 * Returns an exit code. */
int compare_print(const struct train_request *request, const struct member *members,
                  size_t methods);

/* The same as one JSON object; `tuned` (NULL: none) becomes a part of it. Returns an exit code. */
int compare_print_json(const struct train_request *request, const struct member *members,
                       size_t methods, com_json *tuned);

/* Accuracy over bytes, in the terminal. */
void compare_draw(const struct train_request *request, const struct member *members,
                  size_t methods);

/* OUT/report.html with `count` members. Returns an exit code. */
int compare_write_page(const struct train_request *request, const struct member *members,
                       size_t count);

#endif
