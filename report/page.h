/* The page, made at build from page/ by embed.cmake: the data of the runs go between the halves. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <stddef.h>

extern const unsigned char rep_page_head[];
extern const size_t rep_page_head_len;
extern const unsigned char rep_page_tail[];
extern const size_t rep_page_tail_len;

/* Keys of run.json that do not say what was trained: the page's own list; NULL ends it. */
extern const char *const rep_no_settings[];

#endif
