/* A chart as SVG with its legend, as part of a page. */
#ifndef RPR_SVG_H
#define RPR_SVG_H

#include "common/text.h"
#include "reproduce.h"

void rpr_svg(struct com_text *out, const struct rpr_chart *chart);

#endif
