/* Workers started by mpirun agree on the mean of their gradients, said by the codec in the first
 * argument: mpirun -n 4 mean log */
#include <stdio.h>
#include <stdlib.h>

#include <terse/mpi.h>
#include <terse/terse.h>

#define COUNT 1000000u

int main(int argc, char **argv)
{
    terse_exchange_options options = {.size = sizeof options,
                                      .codec = argc > 1 ? argv[1] : "scaled-sign"};
    terse_group *group = NULL;
    terse_layout *layout = NULL;
    terse_exchange *exchange = NULL;
    terse_exchange_report report = {0};
    terse_fault fault = {0};
    float *gradient = calloc(COUNT, sizeof *gradient);

    terse_status status = gradient ? terse_mpi_start(&fault) : TERSE_NO_MEMORY;
    if (!status)
        status = terse_group_mpi(MPI_COMM_WORLD, &group, &fault);
    if (!status)
        status = terse_layout_vector(COUNT, &layout);
    if (!status)
        status = terse_exchange_create(group, layout, &options, &exchange, &fault);
    for (unsigned step = 0; step < 10 && !status; step++) {
        for (unsigned i = 0; i < COUNT; i++) /* a gradient of one's own */
            gradient[i] = (float)((i + step) % 7) - 3 + (float)terse_group_rank(group);
        status = terse_exchange_run(exchange, gradient, &report, &fault); /* the same on all now */
    }
    if (status)
        fprintf(stderr, "mean: %s: %s\n", terse_status_text(status), fault.text);
    else if (terse_group_rank(group) == 0)
        printf("%s: %llu bytes a step and worker, %llu dense\n", terse_exchange_settings(exchange),
               (unsigned long long)report.bytes_sent, (unsigned long long)report.dense_bytes);
    terse_exchange_destroy(exchange);
    terse_layout_destroy(layout);
    terse_group_destroy(group);
    free(gradient);
    terse_mpi_stop(status ? 1 : 0);
    return status ? 1 : 0;
}
