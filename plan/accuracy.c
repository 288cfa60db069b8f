/* What docs/results.md has measured, in points of accuracy against dense at the best learning rate
 * tried. The test cli/plan compares these numbers with the tables there. */
#include <math.h>
#include <string.h>

#include "plan.h"

static const struct pln_accuracy measured[] = {
    {"dense", "dense", 0, 0, "the reference"},
    {"adam", "adam", 0.14, NAN, "as dense on Fashion-MNIST"},
    {"signum", "signum", 0.74, -2.51,
     "as dense on Fashion-MNIST, 2.5 points behind after 6 epochs of CIFAR-10"},
    {"ef", "ef:ratio=16", -4.97, NAN, "5 points behind dense on Fashion-MNIST"},
    {"def", "def:ratio=16", -0.61, -3.87,
     "0.6 points behind dense on Fashion-MNIST, 3.9 after 6 epochs of CIFAR-10"},
    {"qadam", "qadam", -1.35, -7.51,
     "as Adam on Fashion-MNIST with ramp=300, 1.4 points behind dense without it"},
    {"topk", "topk:keep=0.01", 0.13, NAN, "as dense on Fashion-MNIST"},
    {"regtopk", "regtopk:keep=0.01", -0.10, -4.56,
     "as dense on Fashion-MNIST, 4.6 points behind after 6 epochs of CIFAR-10"},
    {"qsgd", "qsgd:bits=4", -0.09, NAN, "as dense on Fashion-MNIST and AG-News"},
    {"dqsgd", "dqsgd:target=4", -0.16, -1.79,
     "as dense on Fashion-MNIST and AG-News, 1.8 points behind after 6 epochs of CIFAR-10"},
    {"fp16", "fp16", -0.10, NAN, "as dense on Fashion-MNIST"},
    {"bf16", "bf16", 0.05, NAN, "as dense on Fashion-MNIST"},
    {"powersgd", "powersgd:rank=4", 0.02, NAN, "as dense on Fashion-MNIST"},
};

const struct pln_accuracy *pln_accuracy_of(const char *method)
{
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++)
        if (strcmp(measured[i].method, method) == 0)
            return &measured[i];
    return NULL;
}
