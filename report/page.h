/* The page, made at build from page/ by embed.cmake: the data of the runs go between the halves. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <stddef.h>

extern const unsigned char rep_page_head[];
extern const size_t rep_page_head_len;
extern const unsigned char rep_page_tail[];
extern const size_t rep_page_tail_len;

#endif
