/* The learning rate over time. */
#include <math.h>

#include "method/settings.h"

static double shape(int schedule, double t, double steps)
{
    const double done = steps > 0 ? t / steps : 0;
    switch (schedule) {
    case TSI_SCHEDULE_STEP: return done < 0.5 ? 1 : done < 0.75 ? 0.1 : 0.01;
    case TSI_SCHEDULE_COSINE:
        return 0.5 * (1 + cos(3.14159265358979323846 * (done < 1 ? done : 1)));
    case TSI_SCHEDULE_SQRT: return 1 / sqrt(t + 1);
    default: return 1;
    }
}

double tsi_settings_lr(const struct tsi_settings *settings, uint64_t t, uint64_t steps)
{
    const double ramp = settings->value[TSI_RAMP];
    const double rise = (double)t < ramp ? ((double)t + 1) / ramp : 1;
    return settings->value[TSI_LR] * rise *
           shape((int)settings->value[TSI_SCHEDULE], (double)t, (double)steps);
}
