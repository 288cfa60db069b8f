/* What does it cost that a codec is a user's? Registers a codec that hands every call to a built-in
 * one, and times both in turns on the same buffers: CPU time, the median of the ratios of turns
 * that follow each other.
 *
 *   user_codec [COUNT] [TURNS]
 *
 * Exits with 1 if encoding and decoding together take more than 2 % longer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <terse/terse.h>

enum { USUAL_COUNT = 25000000, USUAL_TURNS = 15, SPECS = 4, MOST_TURNS = 1000 };

static const char *const specs[SPECS] = {"f32", "topk:keep=0.01", "scaled-sign", "uniform:bits=4"};

/* The built-in codecs behind the user's, made once: there is one tensor and one thread. */
static terse_codec *inner[SPECS];

static terse_codec *inner_of(const terse_user_call *call)
{
    return *(terse_codec *const *)call->context;
}

static size_t bound(const terse_user_call *call)
{
    return terse_codec_payload_bound(inner_of(call), 0);
}

static terse_status encode(const terse_user_call *call, const float *in, uint8_t *section,
                           size_t *len)
{
    return terse_codec_encode(inner_of(call), 0, call->key, in, section, bound(call), len);
}

static terse_status decode_add(const terse_user_call *call, const uint8_t *section, size_t len,
                               size_t *used, float *out)
{
    *used = len;
    return terse_codec_decode_add(inner_of(call), 0, call->key, section, len, out, NULL);
}

static terse_status register_one(int i, char name[16])
{
    terse_codec_about about;
    terse_codec_describe(inner[i], &about);
    (void)snprintf(name, 16, "again-%d", i);
    const terse_user_codec codec = {.size = sizeof codec,
                                    .name = name,
                                    .summary = "a built-in codec once more",
                                    .wire_id = (uint8_t)(TERSE_USER_WIRE_ID + (unsigned)i),
                                    .traits = about.traits & ~(uint32_t)TERSE_CODEC_ADDITIVE,
                                    .context = &inner[i],
                                    .bound = bound,
                                    .encode = encode,
                                    .decode_add = decode_add};
    return terse_codec_register(&codec, NULL);
}

/* ---- timing ---- */

static double cpu_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct buffers {
    float *in;
    float *out;
    uint8_t *payload;
    size_t cap;
};

/* Seconds of encoding and of decoding. */
static terse_status time_one(terse_codec *codec, const struct buffers *buffers, double seconds[2])
{
    const terse_rng_key key = {.seed = 1, .step = 2};
    size_t len;
    const double start = cpu_seconds();
    terse_status status =
        terse_codec_encode(codec, 0, &key, buffers->in, buffers->payload, buffers->cap, &len);
    const double middle = cpu_seconds();
    if (status == TERSE_OK)
        status = terse_codec_decode_add(codec, 0, &key, buffers->payload, len, buffers->out, NULL);
    seconds[0] = middle - start;
    seconds[1] = cpu_seconds() - middle;
    return status;
}

static int ascending(const void *one, const void *other)
{
    const double a = *(const double *)one;
    const double b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Prints a row; writes the ratio of encoding and decoding together. */
static terse_status compare(int i, terse_codec *user, const struct buffers *buffers, int turns,
                            double *both)
{
    double ratio[3][MOST_TURNS];
    double of[2][2];
    for (int turn = -1; turn < turns; turn++) { /* the first one pages in */
        for (int k = 0; k < 2; k++) {           /* who begins alternates */
            const int who = (turn & 1) ^ k;
            const terse_status status = time_one(who ? user : inner[i], buffers, of[who]);
            if (status != TERSE_OK)
                return status;
        }
        for (int what = 0; what < 2 && turn >= 0; what++)
            ratio[what][turn] = of[1][what] / of[0][what];
        if (turn >= 0)
            ratio[2][turn] = (of[1][0] + of[1][1]) / (of[0][0] + of[0][1]);
    }
    for (int what = 0; what < 3; what++)
        qsort(ratio[what], (size_t)turns, sizeof ratio[what][0], ascending);
    printf("%-16s %8.3f %8.3f %8.3f\n", specs[i], ratio[0][turns / 2], ratio[1][turns / 2],
           ratio[2][turns / 2]);
    *both = ratio[2][turns / 2];
    return TERSE_OK;
}

static terse_status measure(const terse_layout *layout, const struct buffers *buffers, int turns,
                            int *slow)
{
    terse_status status = TERSE_OK;
    printf("%-16s %8s %8s %8s   user's over built-in\n", "codec", "encode", "decode", "both");
    for (int i = 0; i < SPECS && status == TERSE_OK; i++) {
        static char name[SPECS][16];
        terse_codec *user = NULL;
        double both = 0;
        status = terse_codec_create(specs[i], layout, NULL, &inner[i], NULL);
        if (status == TERSE_OK)
            status = register_one(i, name[i]);
        if (status == TERSE_OK)
            status = terse_codec_create(name[i], layout, NULL, &user, NULL);
        if (status == TERSE_OK)
            status = compare(i, user, buffers, turns, &both);
        *slow |= both > 1.02;
        terse_codec_destroy(user);
        terse_codec_destroy(inner[i]);
    }
    return status;
}

int main(int argc, char **argv)
{
    const size_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : USUAL_COUNT;
    const int turns = argc > 2 ? (int)strtol(argv[2], NULL, 10) : USUAL_TURNS;
    struct buffers buffers = {.cap = 4 * count + 64};
    terse_layout *layout = NULL;
    int slow = 0;
    if (count == 0 || turns < 1 || turns > MOST_TURNS) {
        (void)fprintf(stderr, "user_codec [COUNT] [TURNS], 1 to %d turns\n", MOST_TURNS);
        return 2;
    }
    buffers.in = malloc(count * sizeof(float));
    buffers.out = calloc(count, sizeof(float));
    buffers.payload = malloc(buffers.cap);
    terse_status status = buffers.in && buffers.out && buffers.payload
                              ? terse_layout_vector(count, &layout)
                              : TERSE_NO_MEMORY;
    for (size_t i = 0; i < count && status == TERSE_OK; i++) /* Weyl's sequence: no two alike */
        buffers.in[i] = (float)((uint32_t)i * 2654435761u) * 0x1p-31f - 1;
    if (status == TERSE_OK)
        status = measure(layout, &buffers, turns, &slow);
    if (status != TERSE_OK)
        (void)fprintf(stderr, "user_codec: %s\n", terse_status_text(status));
    terse_layout_destroy(layout);
    free(buffers.in);
    free(buffers.out);
    free(buffers.payload);
    return status != TERSE_OK ? 2 : slow;
}
