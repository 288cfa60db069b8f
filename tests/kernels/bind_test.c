/* Which set is bound: by the CPU, by TERSE_KERNELS, by terse_kernel_set_select. It is decided once
 * per process, so the tests of TERSE_KERNELS ask in children, before this process has asked itself.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <terse/info.h>

#include "kernels/bind.h"

#define THREADS 8

/* ---- the child: says "STATUS SET" or "STATUS fault text" ---- */

static int child(int out)
{
    const char *name = "";
    const struct tsk_table *table;
    const char *kernel;
    terse_fault fault = {0};
    const terse_status status = terse_kernel_set_name(&name, &fault);
    if (tsk_bound(&table, NULL) != status || terse_kernel_list(0, &kernel, &kernel) != status)
        return 1;
    if (dprintf(out, "%d %s\n", (int)status, status == TERSE_OK ? name : fault.text) < 0)
        return 2;
    if (terse_kernel_set_select("ref", NULL) != TERSE_OK ||
        terse_kernel_set_name(&name, NULL) != TERSE_OK)
        return 3;
    return strcmp(name, "ref") != 0;
}

static void ask_child(const char *kernels, char *said, size_t cap)
{
    int ends[2];
    int status;
    size_t len = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if ((kernels ? setenv("TERSE_KERNELS", kernels, 1) : unsetenv("TERSE_KERNELS")) != 0)
            _exit(4);
        _exit(child(ends[1]));
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && len + 1 < cap; len += got > 0 ? (size_t)got : 0)
        got = read(ends[0], said + len, cap - 1 - len);
    said[len] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static const char *best_name(void)
{
    terse_kernel_set_about about;
    const char *best = "";
    for (uint32_t i = 0; terse_kernel_set_list(i, &about) == TERSE_OK; i++)
        if (about.supported)
            best = about.name;
    return best;
}

/* ---- tests ---- */

static void *ask(void *out)
{
    const struct tsk_table **table = out;
    return tsk_bound(table, NULL) == TERSE_OK ? out : NULL;
}

/* The first use in this process: all threads at once. */
static void threads_agree(void **state)
{
    pthread_t thread[THREADS];
    const struct tsk_table *table[THREADS] = {NULL};
    void *ok;
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask, &table[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], &ok), 0);
        assert_non_null(ok);
        assert_ptr_equal(table[i], table[0]);
    }
}

static void best_without_environment(void **state)
{
    char said[300], expected[300];
    (void)state;
    ask_child(NULL, said, sizeof said);
    (void)snprintf(expected, sizeof expected, "0 %s\n", best_name());
    assert_string_equal(said, expected);
    ask_child("", said, sizeof said);
    assert_string_equal(said, expected);
}

static void environment_forces_a_set(void **state)
{
    terse_kernel_set_about about;
    char said[300], expected[300];
    (void)state;
    for (uint32_t i = 0; terse_kernel_set_list(i, &about) == TERSE_OK; i++) {
        ask_child(about.name, said, sizeof said);
        (void)snprintf(expected, sizeof expected, "0 %s\n", about.name);
        if (about.supported)
            assert_string_equal(said, expected);
        else
            assert_memory_equal(said, "-60 ", 4);
    }
}

static void bad_environment_is_an_error(void **state)
{
    char said[300], expected[300];
    const char *foreign = strcmp(best_name(), "neon") == 0 ? "avx2" : "neon";
    (void)state;
    ask_child("foo", said, sizeof said);
    (void)snprintf(expected, sizeof expected, "%d no kernel set 'foo'; this build has ref, ",
                   TERSE_BAD_ARGUMENT);
    assert_memory_equal(said, expected, strlen(expected));
    ask_child("AVX2", said, sizeof said); /* names are written in one way */
    assert_memory_equal(said, "-1 no kernel set 'AVX2'", 23);
    ask_child(foreign, said, sizeof said);
    (void)snprintf(expected, sizeof expected,
                   "%d kernel set '%s' is for another kind of CPU; this build has ref, ",
                   TERSE_UNSUPPORTED, foreign);
    assert_memory_equal(said, expected, strlen(expected));
}

static void select_changes_the_set(void **state)
{
    terse_kernel_set_about about;
    const char *name;
    terse_fault fault = {0};
    (void)state;
    for (uint32_t i = 0; terse_kernel_set_list(i, &about) == TERSE_OK; i++) {
        if (!about.supported) {
            assert_int_equal(terse_kernel_set_select(about.name, &fault), TERSE_UNSUPPORTED);
            assert_non_null(strstr(fault.text, "this CPU has no "));
            continue;
        }
        assert_int_equal(terse_kernel_set_select(about.name, NULL), TERSE_OK);
        assert_int_equal(terse_kernel_set_name(&name, NULL), TERSE_OK);
        assert_string_equal(name, about.name);
    }
    assert_int_equal(terse_kernel_set_select("ref", NULL), TERSE_OK);
    assert_int_equal(terse_kernel_set_select("foo", &fault), TERSE_BAD_ARGUMENT);
    assert_non_null(strstr(fault.text, "no kernel set 'foo'; this build has ref"));
    assert_int_equal(terse_kernel_set_name(&name, NULL), TERSE_OK);
    assert_string_equal(name, "ref"); /* a refused set changes nothing */
    assert_int_equal(terse_kernel_set_select(NULL, NULL), TERSE_OK);
    assert_int_equal(terse_kernel_set_name(&name, NULL), TERSE_OK);
    assert_string_equal(name, best_name());
}

static void lists_are_complete(void **state)
{
    terse_kernel_set_about about;
    const char *kernel, *set;
    uint32_t slots = 0;
    (void)state;
    assert_int_equal(terse_kernel_set_list(0, &about), TERSE_OK);
    assert_string_equal(about.name, "ref");
    assert_int_equal(about.supported, 1);
    assert_int_equal(about.kernels, tsk_slot_count);
    assert_int_equal(terse_kernel_set_list(99, &about), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_kernel_set_list(0, NULL), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_kernel_set_select(NULL, NULL), TERSE_OK);
    for (; terse_kernel_list(slots, &kernel, &set) == TERSE_OK; slots++) {
        assert_string_equal(kernel, tsk_slot_names[slots]);
        assert_true(strcmp(set, best_name()) == 0 || strcmp(set, "ref") == 0);
    }
    assert_int_equal(slots, tsk_slot_count);
    assert_int_equal(terse_kernel_list(slots, &kernel, &set), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_kernel_list(0, NULL, &set), TERSE_BAD_ARGUMENT);
    assert_int_equal(terse_kernel_set_name(NULL, NULL), TERSE_BAD_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_without_environment), /* those with children come first */
        cmocka_unit_test(environment_forces_a_set),
        cmocka_unit_test(bad_environment_is_an_error),
        cmocka_unit_test(threads_agree), /* this one binds */
        cmocka_unit_test(select_changes_the_set),
        cmocka_unit_test(lists_are_complete),
    };
    (void)unsetenv("TERSE_KERNELS"); /* the tests set it where they mean it */
    return cmocka_run_group_tests_name("kernels/bind", tests, NULL, NULL);
}
