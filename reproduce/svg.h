/* A chart as SVG with its legend, as part of a page. */
#ifndef RPR_SVG_H
#define RPR_SVG_H

#include "text.h"

/* Text in which <, >, & and " stand for themselves. */
void rpr_say_html(struct rpr_text *out, const char *text);

void rpr_svg(struct rpr_text *out, const struct rpr_chart *chart);

#endif
