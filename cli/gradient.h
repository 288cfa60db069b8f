/* A synthetic gradient with the properties of a real one that matter to codecs: layers of very
 * different scale, rows that differ, heavy tails, and a low-rank part that stays from step to step.
 */
#ifndef CLI_GRADIENT_H
#define CLI_GRADIENT_H

#include <terse/layout.h>

/* Ten tensors of a small convolutional network, about 6.5 million elements. */
terse_status gradient_layout(terse_layout **out);

/* The gradient of a step; `out` holds terse_layout_count floats. */
void gradient_fill(const terse_layout *layout, unsigned step, float *out);

#endif
