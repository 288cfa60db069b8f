/* From JSON to the structs of run.h. */
#ifndef REPORT_PARSE_H
#define REPORT_PARSE_H

#include "run.h"

enum rep_kind { REP_LINE_STEP, REP_LINE_EVALUATION, REP_LINE_END };

struct rep_line {
    enum rep_kind kind;
    struct rep_step step;
    struct rep_evaluation evaluation;
    struct rep_end end;
};

/* NULL if the line is valid, else what is wrong with it. The caller frees end.tensor_bytes of one
 * that is valid. */
const char *rep_parse_line(const char *text, size_t len, struct rep_line *line);

/* Fills `run` from run.json; NULL if it is valid, else what is wrong with it. */
const char *rep_parse_about(const char *text, size_t len, struct rep_run *run);

#endif
