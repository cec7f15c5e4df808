/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's own malloc() and realloc() fail here when told to; the libraries' do not. */
#include "net/reserve.h"
#include "support/test.h"

#include <event2/buffer.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define MANY 400u
#define THREADS 24u

static _Atomic bool is_short;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return is_short ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return is_short ? NULL : __real_realloc(old, size);
}

static void test_both_libraries_have_memory_where_the_system_has_none(void **state)
{
    (void)state;
    is_short = true;
    struct evbuffer *buffer = evbuffer_new();
    char *memory = OPENSSL_malloc(1000);
    char *record_layer = OPENSSL_malloc(4424);
    void *large = OPENSSL_malloc(10000);
    is_short = false;
    assert_non_null(buffer);
    assert_non_null(memory);
    assert_non_null(record_layer);
    assert_null(large); /* which both of them check */
    assert_false(reserve_is_low());
    memset(record_layer, 'y', 4424);
    memset(memory, 'x', 1000);
    memory = OPENSSL_realloc(memory, 1020);
    assert_int_equal(memory[999], 'x');
    is_short = true;
    memory = OPENSSL_realloc(memory, 3000);
    is_short = false;
    assert_non_null(memory);
    assert_int_equal(memory[999], 'x');
    memory[2999] = 'z';
    assert_int_equal(record_layer[0] + record_layer[4423], 2 * 'y');
    OPENSSL_free(record_layer);
    memory = OPENSSL_realloc(memory, 50000);
    assert_non_null(memory);
    assert_int_equal(memory[999], 'x');
    assert_int_equal(memory[2999], 'z');
    OPENSSL_free(memory);
    evbuffer_free(buffer);
}

static void test_errors_without_memory_do_not_use_it_up(void **state)
{
    (void)state;
    is_short = true;
    ERR_raise(ERR_LIB_USER, ERR_R_MALLOC_FAILURE);
    is_short = false;
    assert_int_not_equal(ERR_peek_error(), 0);
    assert_false(reserve_is_low());
    ERR_clear_error();
}

static void *fail_once(void *context)
{
    pthread_barrier_t *step = context;

    reserve_begin_thread();
    (void)pthread_barrier_wait(step); /* all have begun */
    (void)pthread_barrier_wait(step); /* memory is short */
    ERR_raise(ERR_LIB_USER, ERR_R_MALLOC_FAILURE);
    (void)pthread_barrier_wait(step);
    (void)pthread_barrier_wait(step); /* the test has looked */
    return NULL;
}

static void test_many_threads_with_an_error_each_do_not_use_it_up(void **state)
{
    pthread_barrier_t step;
    pthread_t threads[THREADS];

    (void)state;
    assert_int_equal(pthread_barrier_init(&step, NULL, THREADS + 1), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, fail_once, &step), 0);
    }
    (void)pthread_barrier_wait(&step);
    is_short = true;
    (void)pthread_barrier_wait(&step);
    (void)pthread_barrier_wait(&step);
    bool was_low = reserve_is_low();
    is_short = false;
    (void)pthread_barrier_wait(&step);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(pthread_barrier_destroy(&step), 0);
    assert_false(was_low);
}

static void test_what_cannot_be_moved_stays(void **state)
{
    char *memory = OPENSSL_malloc(10);
    (void)state;
    assert_non_null(memory);
    memcpy(memory, "123456789", 10);
    is_short = true;
    assert_null(OPENSSL_realloc(memory, 20));
    is_short = false;
    assert_string_equal(memory, "123456789");
    OPENSSL_free(memory);
}

static void check_that_it_ends(size_t size)
{
    static void *all[MANY];
    size_t count = 0, low_at = 0;
    is_short = true;
    for (; count < MANY && (all[count] = OPENSSL_malloc(size)) != NULL; count++) {
        low_at = low_at == 0 && reserve_is_low() ? count : low_at;
    }
    is_short = false;
    assert_true(low_at > 0 && low_at < count);
    assert_true(count < MANY);
    for (size_t i = 0; i < count; i++) {
        OPENSSL_free(all[i]);
    }
    assert_false(reserve_is_low());
    is_short = true;
    void *again = OPENSSL_malloc(size);
    is_short = false;
    assert_non_null(again);
    OPENSSL_free(again);
}

static void test_it_tells_when_it_is_low_and_ends(void **state)
{
    (void)state;
    check_that_it_ends(1);
    check_that_it_ends(1024);
    check_that_it_ends(8192);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_without_memory_do_not_use_it_up),
        cmocka_unit_test(test_many_threads_with_an_error_each_do_not_use_it_up),
        cmocka_unit_test(test_both_libraries_have_memory_where_the_system_has_none),
        cmocka_unit_test(test_what_cannot_be_moved_stays),
        cmocka_unit_test(test_it_tells_when_it_is_low_and_ends),
    };

    reserve_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
