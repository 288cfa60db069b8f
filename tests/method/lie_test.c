/* Every damaged message is detected: every method, with default options, over an engine that
 * changes one message.
 *
 *     test-method-lie [--runs N] [--from N] [--verbose]
 *
 * The promises, for any message and any change:
 *   - nobody hangs; every status is a public one, and a fault names a rank of the group or none;
 *   - a lie before the closing records fails the step on every rank: each names the true sender and
 *     has the weights of before the step; or all ranks skip it;
 *   - a lie in a closing record fails the step on its receiver, which names the sender and has the
 *     weights of before the step. The others may have committed; they fail in the next step;
 *   - so does a rank whose group tells it that the sender is lost; the others fail by the next
 * step;
 *   - a rank that failed or skipped has the residual, the moments and all other state of before the
 *     step, bit for bit. Only a method that keeps both a residual and moments may refuse to show
 *     its state instead, and only after a failure;
 *   - a lie while the method is created: its receiver fails and names the sender, the others fail
 * then or in their first step;
 *   - never do all ranks succeed with weights that differ, from each other or from honest ones.
 *
 * A run is drawn from TERSE_TEST_SEED and its number: --from 17 --runs 1 repeats run 17. --verbose
 * prints every breach, not only the first ones. The closing records are the last messages of a
 * step, the opening ones the first. */
#include "method/lie_run.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { SHOWN = 30 };          /* breaches printed in full without --verbose */
static const double slow = 5; /* seconds; the engine's timeout is 2 */

static const char *const compositions[] = {
    "def:ratio=8,every=2",
    "topk:keep=0.05,combine=shard",
    "topk:keep=0.02,min=100",
    "regtopk:keep=0.05,combine=sparse-allreduce,momentum=0.9",
    "qadam:combine=parameter-server",
    "dqsgd:bits=meanstd,combine=allgather",
    "powersgd:rank=2,warmup=2",
    "direction=adam,codec=f32,combine=allreduce,wd=0.01",
    "codec=f16,feedback=residual,combine=shard",
    "median:every=2",
    "signum:zero=keep",
};

enum { MAX_SPECS = 64, SIZES = 3 };
static const uint32_t sizes[SIZES] = {3, 2, 5};

static const char *spec_of(uint32_t index)
{
    terse_method_about about;
    uint32_t methods = 0;
    if (terse_method_list(index, &about) == TERSE_OK)
        return about.name;
    while (terse_method_list(methods, &about) == TERSE_OK)
        methods++;
    return index - methods < sizeof compositions / sizeof compositions[0]
               ? compositions[index - methods]
               : NULL;
}

/* ---- verdicts ---- */

enum breach {
    UNNOTICED, /* all succeed, with honest weights: the lie did not matter this time */
    DIVERGED,  /* all succeed, and weights differ */
    SPLIT,     /* some fail or skip in that step and others do not */
    STATUS,    /* not a public status, or not a rank of the group */
    MISNAMED,  /* a status that blames a message, and not its sender */
    UNTOLD,    /* another status that does not name the sender: this rank cannot know it */
    TEXT,      /* a fault's text lacks the rank that it names */
    WEIGHTS,   /* a rank that failed or skipped has other weights than before the step */
    STATE,     /* or another state, which it does not refuse to show */
    SLOW,
    BREACHES
};
static const char *const breach_names[BREACHES] = {"unnoticed", "diverged", "split", "status",
                                                   "misnamed",  "untold",   "text",  "weights",
                                                   "state",     "slow"};

/* Where the message was. */
enum place { MAKING, OPENING, DATA, CLOSING, PLACES };
static const char *const place_names[PLACES] = {"making", "opening", "data", "closing"};

struct tally {
    uint32_t lies;
    uint32_t noticed; /* a rank failed or skipped */
    uint32_t sound;   /* and every promise was kept */
    uint32_t breach[BREACHES];
};

static struct tally by_spec[MAX_SPECS];
static struct tally by_place[PLACES];
static struct tally by_lie[LIES];
static uint32_t refusals; /* of a state that belongs to no step */
static int verbose;
static uint32_t reported;

static int is_public(terse_status status)
{
    switch (status) {
    case TERSE_OK:
    case TERSE_BAD_ARGUMENT:
    case TERSE_BAD_SPEC:
    case TERSE_TOO_SMALL:
    case TERSE_NOT_FINITE:
    case TERSE_OUT_OF_RANGE:
    case TERSE_BAD_FRAME:
    case TERSE_BAD_VERSION:
    case TERSE_BAD_CHECKSUM:
    case TERSE_MISMATCH:
    case TERSE_NO_MEMORY:
    case TERSE_TIMEOUT:
    case TERSE_PEER_LOST:
    case TERSE_UNSUPPORTED: return 1;
    }
    return 0;
}

static int has_failed(const struct worker *worker)
{
    return worker->status != TERSE_OK;
}

/* "rank 3: ..." in the text of a fault that names rank 3. */
static int text_tells_rank(const terse_fault *fault)
{
    char text[24];
    (void)snprintf(text, sizeof text, "rank %d", fault->rank);
    return fault->rank < 0 || strstr(fault->text, text);
}

/* The breaches of a rank that must name the sender. */
static unsigned judge_name(const struct worker *worker, uint32_t sender)
{
    if (!has_failed(worker) || worker->fault.rank == (int32_t)sender)
        return 0;
    return worker->status == TERSE_BAD_FRAME || worker->status == TERSE_BAD_VERSION ||
                   worker->status == TERSE_BAD_CHECKSUM || worker->status == TERSE_MISMATCH
               ? 1u << MISNAMED
               : 1u << UNTOLD;
}

static int weights_are(const struct worker *worker, const struct scene *scene, int32_t step)
{
    return worker->weights_hash == scene->before[step < 0 ? 0 : step];
}

/* State as before the step, or an error in its place. */
static int state_is_sound(const struct worker *worker)
{
    const struct state *const before = &worker->state[0];
    const struct state *const after = &worker->state[1];
    if (worker->step < 0) /* there is no method */
        return 1;
    if (after->status == TERSE_BAD_ARGUMENT)
        return after->hash == before->hash;
    refusals++;
    return has_failed(worker) && before->both && after->status == TERSE_PEER_LOST;
}

/* Promises of every failure, and of all ranks together. */
static unsigned judge_all(const struct scene *scene, const struct worker *workers)
{
    unsigned breaches = 0;
    uint32_t fine = 0;
    uint32_t honest = 0;
    for (uint32_t r = 0; r < scene->ranks; r++) {
        const struct worker *const worker = &workers[r];
        fine += !has_failed(worker) && !worker->skipped;
        honest += worker->weights_hash == scene->before[LIE_STEPS];
        if (!is_public(worker->status) ||
            (has_failed(worker) &&
             (worker->fault.rank < -1 || worker->fault.rank >= (int32_t)scene->ranks)))
            breaches |= 1u << STATUS;
        if (has_failed(worker) && !text_tells_rank(&worker->fault))
            breaches |= 1u << TEXT;
        if ((has_failed(worker) || worker->skipped) && !weights_are(worker, scene, worker->step))
            breaches |= 1u << WEIGHTS;
        if ((has_failed(worker) || worker->skipped) && !state_is_sound(worker))
            breaches |= 1u << STATE;
    }
    if (fine == scene->ranks)
        breaches |= honest == scene->ranks ? 1u << UNNOTICED : 1u << DIVERGED;
    return breaches;
}

/* Before the closing records: all alike, all name the sender. */
static unsigned judge_early(const struct scene *scene, const struct worker *workers,
                            const struct message *target)
{
    unsigned breaches = 0;
    for (uint32_t r = 0; r < scene->ranks; r++) {
        const struct worker *const worker = &workers[r];
        if (worker->step != target->step || worker->skipped != workers[0].skipped ||
            has_failed(worker) != has_failed(&workers[0]))
            breaches |= 1u << SPLIT;
        breaches |= judge_name(worker, target->sender);
    }
    return breaches;
}

/* In a closing record, while the method is created, and where the sender is lost: its receiver
 * fails there, the others no later than in the next step that exchanges anything. */
static unsigned judge_late(const struct scene *scene, const struct worker *workers,
                           const struct message *target)
{
    const struct worker *const receiver = &workers[target->receiver];
    unsigned breaches = 0;
    if (!has_failed(receiver) || receiver->step != target->step)
        breaches |= 1u << SPLIT;
    else
        breaches |= judge_name(receiver, target->sender);
    for (uint32_t r = 0; r < scene->ranks; r++)
        if (!has_failed(&workers[r]) || workers[r].step > scene_next(scene, target->step))
            breaches |= 1u << SPLIT;
    return breaches;
}

static enum place place_of(const struct scene *scene, const struct message *target)
{
    if (target->step < 0)
        return MAKING;
    if (target->position == 0)
        return OPENING;
    return scene_closes(scene, target) ? CLOSING : DATA;
}

static unsigned judge(const struct scene *scene, const struct worker *workers,
                      const struct message *target, enum lie lie, double seconds)
{
    const enum place place = place_of(scene, target);
    unsigned breaches = judge_all(scene, workers);
    if (!(breaches & (1u << UNNOTICED | 1u << DIVERGED)))
        breaches |= place == MAKING || place == CLOSING || lie == LOST
                        ? judge_late(scene, workers, target)
                        : judge_early(scene, workers, target);
    return seconds > slow ? breaches | 1u << SLOW : breaches;
}

static void count(struct tally *tally, unsigned breaches)
{
    tally->lies++;
    tally->noticed += !(breaches & (1u << UNNOTICED | 1u << DIVERGED));
    tally->sound += breaches == 0;
    for (int b = 0; b < BREACHES; b++)
        tally->breach[b] += breaches >> b & 1;
}

/* ---- output ---- */

static void report(uint64_t number, const struct scene *scene, const struct worker *workers,
                   const struct message *target, enum lie lie, unsigned breaches)
{
    if (reported++ >= SHOWN && !verbose)
        return;
    printf("run %llu: %s, %u ranks%s, %s %s message of %zu bytes from %u to %u in step %d:",
           (unsigned long long)number, scene->spec, scene->ranks, scene->posted ? ", posted" : "",
           lie_names[lie], place_names[place_of(scene, target)], target->len, target->sender,
           target->receiver, target->step);
    for (int b = 0; b < BREACHES; b++)
        if (breaches >> b & 1)
            printf(" %s", breach_names[b]);
    printf("\n");
    for (uint32_t r = 0; r < scene->ranks; r++)
        printf("    rank %u, step %d: %d, rank %d \"%s\"%s\n", r, workers[r].step,
               (int)workers[r].status, has_failed(&workers[r]) ? workers[r].fault.rank : -1,
               has_failed(&workers[r]) ? workers[r].fault.text : "",
               workers[r].skipped ? ", skipped" : "");
}

static void print_row(const char *name, const struct tally *tally)
{
    printf("%-48s%8u%8u%8u", name, tally->lies, tally->noticed, tally->sound);
    for (int b = 0; b < BREACHES; b++)
        printf("%10u", tally->breach[b]);
    printf("\n");
}

static void print_head(const char *what)
{
    printf("%-48s%8s%8s%8s", what, "lies", "noticed", "sound");
    for (int b = 0; b < BREACHES; b++)
        printf("%10s", breach_names[b]);
    printf("\n");
}

static uint32_t print_tallies(void)
{
    uint32_t sound = 0;
    uint32_t lies = 0;
    print_head("method");
    for (uint32_t s = 0; spec_of(s); s++) {
        print_row(spec_of(s), &by_spec[s]);
        sound += by_spec[s].sound;
        lies += by_spec[s].lies;
    }
    print_head("place");
    for (int p = 0; p < PLACES; p++)
        print_row(place_names[p], &by_place[p]);
    print_head("lie");
    for (int l = 0; l < LIES; l++)
        print_row(lie_names[l], &by_lie[l]);
    printf("%u lies, %u of them broke a promise; %u ranks refused to show a state of no step\n",
           lies, lies - sound, refusals);
    (void)fflush(stdout);
    return lies - sound;
}

/* ---- runs ---- */

static struct scene scenes[MAX_SPECS][SIZES][2];

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Threads that hang cannot be ended, so the program is. The text is prepared, since a signal
 * handler must not format it. */
static char hang_text[200];

static void hangs(int unused)
{
    (void)unused;
    (void)!write(STDOUT_FILENO, hang_text, strlen(hang_text));
    _exit(1);
}

static struct scene *scene_of(uint32_t spec, uint32_t size, int posted)
{
    struct scene *const scene = &scenes[spec][size][posted];
    if (!scene->spec) {
        *scene = (struct scene){.spec = spec_of(spec), .ranks = sizes[size], .posted = posted};
        scene_learn(scene);
    }
    return scene->refused ? scene_of(spec, size, 0) : scene;
}

/* Three ranks, but two or five in one run of five each; buckets in one of four. */
static struct scene *draw_scene(struct test_random *random, uint32_t spec)
{
    const uint64_t size = test_next(random) % 5;
    const int posted = test_next(random) % 4 == 0;
    return scene_of(spec, size < SIZES ? (uint32_t)size : 0, posted);
}

/* Any message that is followed by another step, and any lie that applies to it. */
static const struct message *draw_lie(struct test_random *random, const struct scene *scene,
                                      enum lie *lie)
{
    for (;;) {
        const struct message *const target = &scene->message[test_next(random) % scene->count];
        *lie = (enum lie)(test_next(random) % LIES);
        if (!scene_is_target(scene, target) || (*lie == EXTREME && target->len > 256) ||
            (*lie == REPLAYED && !scene_replay(scene, target)))
            continue;
        return target;
    }
}

/* 1: the message was changed, and the run counts. */
static int run_once(uint64_t number, uint64_t attempt, uint32_t spec)
{
    struct test_random random = {(test_seed() * 1000003 + number) * 4096 + attempt};
    static struct worker workers[LIE_MAX_RANKS];
    enum lie lie = FLIPPED;
    const struct scene *const scene = draw_scene(&random, spec);
    const struct message *const target = draw_lie(&random, scene, &lie);
    const double start = now();
    (void)snprintf(hang_text, sizeof hang_text,
                   "run %llu HANGS: %s, %u ranks, %s message from %u to %u in step %d\n",
                   (unsigned long long)number, scene->spec, scene->ranks, lie_names[lie],
                   target->sender, target->receiver, target->step);
    (void)alarm((unsigned)(4 * slow));
    lie_train(scene, target, lie, test_next(&random), workers);
    (void)alarm(0);
    if (!workers[target->receiver].engine.changed) {
        for (uint32_t r = 0; r < scene->ranks; r++)
            if (has_failed(&workers[r]))
                fail_msg("%s: an honest training failed: %s", scene->spec, workers[r].fault.text);
        return 0;
    }
    const unsigned breaches = judge(scene, workers, target, lie, now() - start);
    count(&by_spec[spec], breaches);
    count(&by_place[place_of(scene, target)], breaches);
    count(&by_lie[lie], breaches);
    if (breaches)
        report(number, scene, workers, target, lie, breaches);
    return 1;
}

static uint64_t runs = 200;
static uint64_t from;

static void every_lie_is_detected(void **unused)
{
    uint32_t specs = 0;
    (void)unused;
    while (spec_of(specs))
        specs++;
    assert_true(specs <= MAX_SPECS);
    (void)signal(SIGALRM, hangs);
    for (uint64_t number = from; number < from + runs; number++) {
        uint64_t attempt = 0;
        while (!run_once(number, attempt, (uint32_t)(number % specs)))
            assert_true(++attempt < 4096);
    }
    const uint32_t broken = print_tallies();
    for (uint32_t s = 0; s < specs; s++)
        for (uint32_t k = 0; k < SIZES; k++)
            for (int posted = 0; posted < 2; posted++)
                scene_forget(&scenes[s][k][posted]);
    assert_int_equal(broken, 0);
    assert_true(refusals > 0 || runs < 200);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_lie_is_detected)};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--verbose") == 0) {
            verbose = 1;
        } else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
            runs = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--from") == 0 && i + 1 < argc) {
            from = strtoull(argv[++i], NULL, 10);
        } else {
            (void)fprintf(stderr, "usage: test-method-lie [--runs N] [--from N] [--verbose]\n");
            return 2;
        }
    return cmocka_run_group_tests_name("lie", tests, NULL, NULL);
}
