/* Nodes: two of several ranks each, in threads, train as two workers with the mean gradients of the
 * nodes do, bit for bit, with every method; a rank or a node that is lost is missed by all. */
#include <pthread.h>
#include <stdio.h>

#include "method/subjects.h"
#include "support/allocations.h"

#define NODES 2u
#define MOST 3u /* ranks of a node */
#define STEPS 5u
#define LATE 7u /* steps: what warms up has sent whatever it sends */

struct rank {
    const char *spec;
    uint32_t node;
    uint32_t number;             /* within it */
    uint32_t size;               /* of the node whose mean is taken */
    int posts;                   /* buckets, with calls of progress */
    uint64_t leaves;             /* before this step */
    uint64_t parts;              /* before this step, by its learning rate; 0: never */
    pthread_barrier_t *together; /* of all ranks, when settled and after all; or NULL */
    uint64_t settled;            /* steps */
    long allocations;            /* of the process at these two, the difference */
    terse_group *inner;
    terse_group *outer;
    terse_group *group;
    terse_method *method;
    terse_status status;
    terse_fault fault;
    uint64_t sent;
    float *weights;
    float *gradient;
    float *scratch;
    uint64_t hash;
    pthread_t thread;
};

static void gradient_of(uint32_t node, uint32_t number, uint64_t step, float *out, size_t count)
{
    struct test_random random = {1000003 + node * 100019 + number * 7919 + step * 7 + 1};
    test_fill(&random, TEST_NORMAL, out, count);
}

/* The mean over the ranks of a node, in rank order. */
static void mean_of_node(uint32_t node, uint32_t size, uint64_t step, float *out, size_t count)
{
    float *const one = test_floats(count);
    gradient_of(node, 0, step, out, count);
    for (uint32_t r = 1; r < size; r++) {
        gradient_of(node, r, step, one, count);
        for (size_t i = 0; i < count; i++)
            out[i] += one[i];
    }
    for (size_t i = 0; i < count; i++)
        out[i] /= (float)size;
    free(one);
}

static terse_status take_gradient(struct rank *rank, uint64_t step, size_t count)
{
    if (!rank->inner) {
        mean_of_node(rank->node, rank->size, step, rank->gradient, count);
        return TERSE_OK;
    }
    gradient_of(rank->node, rank->number, step, rank->gradient, count);
    const terse_status status =
        terse_group_allreduce(rank->inner, rank->gradient, count, rank->scratch, &rank->fault);
    for (size_t i = 0; i < count; i++)
        rank->gradient[i] /= (float)rank->size;
    return status;
}

static terse_status take_step(struct rank *rank, uint32_t tensors)
{
    terse_status status = TERSE_OK;
    terse_method_report report;
    if (!rank->posts)
        return terse_method_step(rank->method, rank->gradient, &report, &rank->fault);
    for (uint32_t t = tensors; t-- > 0 && status == TERSE_OK;) {
        status = terse_method_post(rank->method, rank->gradient, t, 1, &rank->fault);
        for (uint32_t i = 0; i < rank->number && status == TERSE_OK; i++)
            status = terse_method_progress(rank->method, &rank->fault);
    }
    return status == TERSE_OK
               ? terse_method_finish(rank->method, rank->gradient, &report, &rank->fault)
               : status;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}

/* Leaves its groups, so that nobody waits for this rank. */
static void leave(struct rank *rank)
{
    terse_group_destroy(rank->group ? rank->group : rank->outer);
    rank->group = rank->outer = NULL;
}

/* Everybody is between two steps while one rank counts. */
static void count_allocations(struct rank *rank)
{
    if (!rank->together)
        return;
    (void)pthread_barrier_wait(rank->together);
    rank->allocations = test_allocations() - rank->allocations;
    (void)pthread_barrier_wait(rank->together);
}

static void *train(void *opaque)
{
    struct rank *const rank = opaque;
    const terse_method_options options = {
        .size = sizeof options, .seed = 9, .steps = 60, .compare_every = 1};
    terse_layout *const layout = subject_layout();
    const size_t count = (size_t)terse_layout_count(layout);
    terse_state state;
    terse_status status = TERSE_OK;
    if (rank->inner)
        status = terse_group_nodes(rank->inner, rank->outer, &rank->group, &rank->fault);
    rank->scratch =
        test_floats(rank->inner ? terse_group_allreduce_scratch(rank->inner, count) + 1 : 1);
    if (status == TERSE_OK)
        status = terse_method_create(rank->spec, rank->group ? rank->group : rank->outer, layout,
                                     rank->weights, &options, &rank->method, &rank->fault);
    const uint64_t steps = rank->together ? 2 * LATE : STEPS;
    for (uint64_t s = 0; s < steps && s != rank->leaves && status == TERSE_OK; s++) {
        status = take_gradient(rank, s, count);
        if (status == TERSE_OK && rank->parts > 0 && s == rank->parts)
            status = terse_method_set_lr(rank->method, 0.25);
        if (status == TERSE_OK)
            status = take_step(rank, terse_layout_tensors(layout));
        if (s + 1 == rank->settled)
            count_allocations(rank);
    }
    count_allocations(rank);
    rank->status = status;
    rank->hash = mix(1, rank->weights, count * sizeof(float));
    for (uint32_t i = 0; status == TERSE_OK && terse_method_state(rank->method, i, &state) == 0;
         i++)
        rank->hash = mix(rank->hash, state.bytes, state.len);
    if (status == TERSE_OK)
        terse_group_traffic(rank->group ? rank->group : rank->outer, &rank->sent, NULL);
    if (status != TERSE_OK || rank->leaves < STEPS)
        leave(rank);
    terse_layout_destroy(layout);
    return NULL;
}

/* Nodes of `size` ranks each; 0: plain workers. */
static void run(struct rank ranks[NODES][MOST], uint32_t size)
{
    terse_group *outer[NODES];
    assert_int_equal(terse_group_local(NODES, outer), TERSE_OK);
    for (uint32_t n = 0; n < NODES; n++) {
        terse_group *inner[MOST] = {0};
        if (size > 0)
            assert_int_equal(terse_group_local(size, inner), TERSE_OK);
        for (uint32_t r = 0; r < (size > 0 ? size : 1); r++) {
            ranks[n][r].inner = inner[r];
            ranks[n][r].outer = r == 0 ? outer[n] : NULL;
            ranks[n][r].weights = test_floats(4000);
            ranks[n][r].gradient = test_floats(4000);
            if (inner[r])
                assert_int_equal(terse_group_set_timeout(inner[r], 20), TERSE_OK);
        }
    }
    for (uint32_t i = 0; i < NODES * (size > 0 ? size : 1); i++) {
        struct rank *const rank = &ranks[i % NODES][i / NODES];
        assert_int_equal(pthread_create(&rank->thread, NULL, train, rank), 0);
    }
    for (uint32_t i = 0; i < NODES * (size > 0 ? size : 1); i++)
        assert_int_equal(pthread_join(ranks[i % NODES][i / NODES].thread, NULL), 0);
    for (uint32_t i = 0; i < NODES * (size > 0 ? size : 1); i++) {
        struct rank *const rank = &ranks[i % NODES][i / NODES];
        leave(rank);
        terse_method_destroy(rank->method);
        free(rank->weights);
        free(rank->gradient);
        free(rank->scratch);
    }
}

static void cast(struct rank ranks[NODES][MOST], const char *spec, uint32_t size, int posts)
{
    memset(ranks, 0, NODES * sizeof *ranks);
    for (uint32_t n = 0; n < NODES; n++)
        for (uint32_t r = 0; r < MOST; r++)
            ranks[n][r] = (struct rank){.spec = spec,
                                        .node = n,
                                        .number = r,
                                        .size = size,
                                        .posts = posts,
                                        .leaves = STEPS};
}

static void nodes_are_workers_with_mean_gradients(void **unused)
{
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++)
        for (uint32_t size = 2; size <= MOST; size++) {
            terse_method_description about = {.size = sizeof about};
            struct rank plain[NODES][MOST];
            struct rank nodes[NODES][MOST];
            assert_int_equal(terse_method_describe(spec, &about, NULL), TERSE_OK);
            const int posts = size == 3 && about.has_buckets;
            cast(plain, spec, size, posts);
            run(plain, 0);
            cast(nodes, spec, size, posts);
            run(nodes, size);
            for (uint32_t n = 0; n < NODES; n++) {
                assert_int_equal(plain[n][0].status, TERSE_OK);
                for (uint32_t r = 0; r < size; r++) {
                    if (nodes[n][r].status != TERSE_OK || nodes[n][r].hash != plain[n][0].hash ||
                        nodes[n][r].sent != plain[n][0].sent)
                        fail_msg("%s: node %u rank %u of %u: %s, %s; or other bits or bytes", spec,
                                 n, r, size, terse_status_text(nodes[n][r].status),
                                 nodes[n][r].fault.text);
                }
            }
        }
}

/* What travels in a node is as long as messages may be, and so is reserved when they are known. */
static void later_steps_allocate_nothing(void **unused)
{
    const char *spec;
    (void)unused;
    for (uint32_t s = 0; (spec = subject(s)) != NULL; s++)
        for (int posts = 0; posts < 2; posts++) {
            terse_method_description about = {.size = sizeof about};
            struct rank nodes[NODES][MOST];
            pthread_barrier_t together;
            assert_int_equal(terse_method_describe(spec, &about, NULL), TERSE_OK);
            if (posts && !about.has_buckets)
                continue;
            const int late = strstr(spec, "warmup=") || strstr(spec, "every=");
            assert_int_equal(pthread_barrier_init(&together, NULL, NODES * 2), 0);
            cast(nodes, spec, 2, posts);
            for (uint32_t n = 0; n < NODES; n++)
                for (uint32_t r = 0; r < 2; r++) {
                    nodes[n][r].together = &together;
                    nodes[n][r].settled = late ? LATE : 2;
                    nodes[n][r].leaves = UINT64_MAX;
                }
            run(nodes, 2);
            if (nodes[0][0].allocations != 0)
                fail_msg("%s, posts %d: %ld allocations in later steps", spec, posts,
                         nodes[0][0].allocations);
            (void)pthread_barrier_destroy(&together);
        }
}

/* A leader, or another rank, leaves before step 2: no rank commits it, and all of them end. */
static void who_leaves_is_missed(void **unused)
{
    (void)unused;
    for (uint32_t who = 0; who < 2; who++) {
        struct rank ranks[NODES][MOST];
        cast(ranks, "signum", 2, 0);
        ranks[1][who].leaves = 2;
        run(ranks, 2);
        for (uint32_t n = 0; n < NODES; n++)
            for (uint32_t r = 0; r < 2; r++) {
                if (n == 1 && r == who)
                    continue;
                if (ranks[n][r].status != TERSE_PEER_LOST && ranks[n][r].status != TERSE_TIMEOUT)
                    fail_msg("node %u rank %u: %s", n, r, terse_status_text(ranks[n][r].status));
                if (n == 0) /* the others name the node */
                    assert_int_equal(ranks[n][r].fault.rank, 1);
            }
        assert_true(ranks[0][0].hash == ranks[0][1].hash);
    }
}

/* Records travel between leaders. A rank of a node that has come apart from its leader finds that
 * out by itself, and leaves; then it is missed. */
static void who_comes_apart_in_a_node_is_missed(void **unused)
{
    struct rank ranks[NODES][MOST];
    (void)unused;
    cast(ranks, "signum", 2, 0);
    ranks[1][1].parts = 2;
    run(ranks, 2);
    assert_int_equal(ranks[1][1].status, TERSE_MISMATCH);
    assert_non_null(strstr(ranks[1][1].fault.text, "has another learning rate"));
    for (uint32_t n = 0; n < NODES; n++)
        for (uint32_t r = 0; r < 2; r++)
            assert_int_not_equal(ranks[n][r].status, TERSE_OK);
    assert_true(ranks[0][0].hash == ranks[0][1].hash);
}

static void bad_arguments(void **unused)
{
    terse_group *inner[2];
    terse_group *out = NULL;
    terse_fault fault = {0};
    (void)unused;
    assert_int_equal(terse_group_local(2, inner), TERSE_OK);
    assert_int_equal(terse_group_nodes(NULL, NULL, &out, &fault), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_group_nodes(inner[0], NULL, &out, &fault), TERSE_BAD_ARGUMENT);
    assert_non_null(strstr(fault.text, "the leader, rank 0, gives the outer group"));
    assert_int_equal(terse_group_nodes(inner[1], inner[0], &out, &fault), TERSE_BAD_ARGUMENT);
    assert_null(out);
    terse_group_destroy(inner[0]);
    terse_group_destroy(inner[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_counter_counts),
        cmocka_unit_test(nodes_are_workers_with_mean_gradients),
        cmocka_unit_test(later_steps_allocate_nothing),
        cmocka_unit_test(who_leaves_is_missed),
        cmocka_unit_test(who_comes_apart_in_a_node_is_missed),
        cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
