/* Learning rates by a grid: every rate of "lr={0.01,0.02,0.04}" is trained with the first seed and
 * judged on training examples that were held out; the best one is the method's. */
#ifndef CLI_COMPARE_TUNE_H
#define CLI_COMPARE_TUNE_H

#include "common/json.h"
#include "compare_member.h"

struct tuning;

/* NULL where no method has a grid: then every spec stands for itself. Returns an exit code. Trains
 * in the folder OUT/tune. Collective under mpirun. */
int tuning_run(const struct train_request *request, const struct sweep *sweep,
               struct comparison *comparison, struct tuning **out);

/* The number of trainings that the grids need. */
size_t tuning_size(const struct sweep *sweep);

/* The spec of every method, in `methods` elements: that of the best rate. */
void tuning_choose(const struct tuning *tuning, const struct sweep *sweep,
                   struct sweep_spec *specs);

/* The rates, the accuracies and the choice, as a table on standard output; a note for every method
 * whose best rate is at an end of its grid. Returns an exit code. */
int tuning_print(const struct tuning *tuning, const struct sweep *sweep);
com_json *tuning_json(const struct tuning *tuning, const struct sweep *sweep);

void tuning_free(struct tuning *tuning); /* NULL is fine */

#endif
