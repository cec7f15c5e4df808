/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's own malloc() and realloc() fail here when told to; the libraries' do not. */
#include "net/reserve.h"
#include "support/test.h"

#include <event2/buffer.h>
#include <openssl/crypto.h>
#include <string.h>

#define MANY 400u

static bool is_short;

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
    void *large = OPENSSL_malloc(2000);
    is_short = false;
    assert_non_null(buffer);
    assert_non_null(memory);
    assert_null(large); /* which both of them check */
    assert_false(reserve_is_low());
    memset(memory, 'x', 1000);
    memory = OPENSSL_realloc(memory, 1020);
    assert_int_equal(memory[999], 'x');
    memory = OPENSSL_realloc(memory, 5000);
    assert_non_null(memory);
    assert_int_equal(memory[999], 'x');
    OPENSSL_free(memory);
    evbuffer_free(buffer);
}

static void test_what_cannot_be_moved_stays(void **state)
{
    char *memory = OPENSSL_malloc(10);
    (void)state;
    memcpy(memory, "123456789", 10);
    is_short = true;
    assert_null(OPENSSL_realloc(memory, 20));
    is_short = false;
    assert_string_equal(memory, "123456789");
    OPENSSL_free(memory);
}

static void test_it_tells_when_it_is_low_and_ends(void **state)
{
    static void *all[MANY];
    size_t count = 0, low_at = 0;
    (void)state;
    is_short = true;
    for (; count < MANY && (all[count] = OPENSSL_malloc(1)) != NULL; count++) {
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
    void *again = OPENSSL_malloc(1024);
    is_short = false;
    assert_non_null(again);
    OPENSSL_free(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_libraries_have_memory_where_the_system_has_none),
        cmocka_unit_test(test_what_cannot_be_moved_stays),
        cmocka_unit_test(test_it_tells_when_it_is_low_and_ends),
    };

    reserve_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
