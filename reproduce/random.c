#include "random.h"

#include <math.h>
#include <pthread.h>

/* SplitMix64: a counter times an odd number, mixed. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t rpr_bits(struct rpr_random *random)
{
    random->state += UINT64_C(0x9E3779B97F4A7C15);
    return mix(random->state);
}

struct rpr_random rpr_random(uint64_t seed, const char *experiment, uint64_t repeat)
{
    uint64_t state = mix(seed + UINT64_C(0x9E3779B97F4A7C15));
    for (const char *at = experiment; *at != '\0'; at++)
        state = mix(state ^ (uint64_t)(unsigned char)*at) + UINT64_C(0x9E3779B97F4A7C15);
    return (struct rpr_random){mix(state ^ mix(repeat + UINT64_C(0x632BE59BD9B4E019)))};
}

double rpr_uniform(struct rpr_random *random)
{
    return (double)(rpr_bits(random) >> 11) * 0x1p-53;
}

/* ---- the normal density as LAYERS stacked strips of equal area (ziggurat) ---- */

enum { LAYERS = 128 };

#define EDGE 3.442619855899      /* where the tail begins */
#define AREA 9.91256303526217e-3 /* area of each strip, the lowest with the tail */

static double strip_x[LAYERS + 1]; /* right ends, from the lowest up; the last is 0 */
static double strip_y[LAYERS + 1]; /* density there */

static double density(double x)
{
    return exp(-x * x / 2);
}

static void make_strips(void)
{
    strip_x[0] = AREA / density(EDGE); /* as wide as if the tail were a rectangle too */
    strip_y[0] = 0;
    strip_x[1] = EDGE;
    strip_y[1] = density(EDGE);
    for (int i = 2; i < LAYERS; i++) {
        strip_y[i] = strip_y[i - 1] + AREA / strip_x[i - 1];
        strip_x[i] = sqrt(-2 * log(strip_y[i]));
    }
    strip_x[LAYERS] = 0;
    strip_y[LAYERS] = 1;
}

static double tail(struct rpr_random *random)
{
    double x;
    double y;
    do {
        x = -log(1 - rpr_uniform(random)) / EDGE;
        y = -log(1 - rpr_uniform(random));
    } while (2 * y < x * x);
    return EDGE + x;
}

static double draw(struct rpr_random *random)
{
    for (;;) {
        const uint64_t bits = rpr_bits(random);
        const unsigned strip = (unsigned)(bits & (LAYERS - 1));
        const double sign = bits & LAYERS ? -1 : 1;
        const double x = (double)(bits >> 11) * 0x1p-53 * strip_x[strip];
        if (x < strip_x[strip + 1])
            return sign * x;
        if (strip == 0)
            return sign * tail(random);
        const double height = strip_y[strip + 1] - strip_y[strip];
        if (strip_y[strip] + height * rpr_uniform(random) < density(x))
            return sign * x;
    }
}

static pthread_once_t made = PTHREAD_ONCE_INIT;

double rpr_normal(struct rpr_random *random)
{
    pthread_once(&made, make_strips);
    return draw(random);
}

void rpr_normals(struct rpr_random *random, size_t count, float *out)
{
    pthread_once(&made, make_strips);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)draw(random);
}
