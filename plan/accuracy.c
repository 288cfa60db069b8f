/* What docs/results.md has measured, in points of accuracy against dense: on Fashion-MNIST the
 * means of three seeds at the best learning rate, on CIFAR-10 one seed at one rate. The test
 * cli/plan compares these numbers with the tables there. */
#include <math.h>
#include <string.h>

#include "plan.h"

static const struct pln_accuracy measured[] = {
    {"dense", "dense", 0, 0, "the reference"},
    {"adam", "adam:ramp=300", 1.46, NAN, "1.5 points ahead of dense on Fashion-MNIST"},
    {"signum", "signum", 0.61, -2.51,
     "0.6 points ahead of dense on Fashion-MNIST, 2.5 behind after 6 epochs of CIFAR-10"},
    {"ef", "ef:ratio=16", -4.47, NAN, "4.5 points behind dense on Fashion-MNIST"},
    {"def", "def:ratio=16", -0.21, -3.87,
     "as dense on Fashion-MNIST, 3.9 points behind after 6 epochs of CIFAR-10"},
    {"qadam", "qadam:ramp=300", 1.42, -7.51,
     "as Adam on Fashion-MNIST, 7.5 points behind dense after 6 epochs of CIFAR-10 without ramp"},
    {"topk", "topk:keep=0.01", 0.15, NAN, "as dense on Fashion-MNIST"},
    {"regtopk", "regtopk:keep=0.01", -0.04, -4.56,
     "as dense on Fashion-MNIST, 4.6 points behind after 6 epochs of CIFAR-10"},
    {"qsgd", "qsgd:bits=4", -0.29, NAN, "0.3 points behind dense on Fashion-MNIST"},
    {"dqsgd", "dqsgd:target=4", -0.20, -1.79,
     "as dense on Fashion-MNIST, 1.8 points behind after 6 epochs of CIFAR-10"},
    {"fp16", "fp16", -0.03, NAN, "as dense on Fashion-MNIST"},
    {"bf16", "bf16", -0.18, NAN, "as dense on Fashion-MNIST"},
    {"powersgd", "powersgd:rank=4", -0.10, NAN, "as dense on Fashion-MNIST"},
};

const struct pln_accuracy *pln_accuracy_of(const char *method)
{
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++)
        if (strcmp(measured[i].method, method) == 0)
            return &measured[i];
    return NULL;
}
