/* SPDX-License-Identifier: BSD-2-Clause */
/* Security contexts of one process: no sender's keys are in two of them at a time. */
#include "net/oscore_internal.h"

#include "net/reserve.h"

#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#define ERROR_MAX 160

/* ---- in place of what the thread calls ---- */

void oscore_take(struct upstream_oscore *oscore, struct oscore_call *call)
{
    (void)oscore;
    (void)call;
}

void oscore_context_on_readable(struct upstream_oscore *oscore, enum oscore_source source)
{
    (void)oscore;
    (void)source;
}

void oscore_work(struct upstream_oscore *oscore)
{
    (void)oscore;
}

void reserve_begin_thread(void)
{
}

void oscore_context_free(struct upstream_oscore *oscore)
{
    free(oscore->directory);
    free(oscore);
}

/* ---- the tests ---- */

static struct oscore_keys make_keys(void)
{
    struct oscore_keys keys = {
        .sender_id = {.bytes = {1}, .len = 1},
        .recipient_id = {.bytes = {2}, .len = 1},
        .master_secret = {.len = OSCORE_SECRET_MIN},
        .aead_algorithm = "AES-CCM-16-64-128",
        .hkdf_algorithm = "HKDF-SHA-256",
    };

    memset(keys.master_secret.bytes, 7, OSCORE_SECRET_MIN);
    return keys;
}

static void assert_refused(const struct oscore_keys *keys, const char *directory)
{
    char error[ERROR_MAX] = "";

    assert_null(upstream_oscore_load(keys, directory, error, sizeof error));
    assert_string_equal(error, "its sender-id, id-context and master-secret are in use with "
                               "another recipient-id or directory; a restart ends that use");
}

static void test_the_same_context_is_one(void **unused)
{
    const struct oscore_keys keys = make_keys();
    char error[ERROR_MAX];

    (void)unused;
    struct upstream_oscore *first = upstream_oscore_load(&keys, "/a", error, sizeof error);
    assert_non_null(first);
    struct upstream_oscore *second = upstream_oscore_load(&keys, "/a", error, sizeof error);
    assert_ptr_equal(first, second);
    upstream_oscore_release(first);
    upstream_oscore_release(second);
}

/* It would begin at 0, while the first one goes on with the same keys. */
static void test_a_sender_is_not_in_two_directories(void **unused)
{
    const struct oscore_keys keys = make_keys();
    char error[ERROR_MAX];

    (void)unused;
    struct upstream_oscore *first = upstream_oscore_load(&keys, "/a", error, sizeof error);
    assert_non_null(first);
    assert_refused(&keys, "/b");
    upstream_oscore_release(first);
    struct upstream_oscore *second = upstream_oscore_load(&keys, "/b", error, sizeof error);
    assert_non_null(second);
    upstream_oscore_release(second);
}

static void test_a_sender_does_not_have_two_recipients(void **unused)
{
    struct oscore_keys keys = make_keys();
    char error[ERROR_MAX];

    (void)unused;
    struct upstream_oscore *first = upstream_oscore_load(&keys, "/a", error, sizeof error);
    assert_non_null(first);
    keys.recipient_id.bytes[0] = 3;
    assert_refused(&keys, "/a");
    keys.recipient_id.len = 0;
    assert_refused(&keys, "/a");
    keys = make_keys();
    keys.recipient_id.len = 2;
    assert_refused(&keys, "/a");
    upstream_oscore_release(first);
}

/* Each of them alone makes other keys or nonces. */
static void test_another_sender_is_another_context(void **unused)
{
    const struct oscore_keys plain = make_keys();
    struct oscore_keys others[] = {make_keys(), make_keys(), make_keys(), make_keys()};
    enum { COUNT = sizeof others / sizeof others[0] };
    struct upstream_oscore *contexts[COUNT];
    char error[ERROR_MAX];

    (void)unused;
    others[0].sender_id.bytes[0] = 9;
    others[1].id_context = (struct oscore_value){.bytes = {9}, .len = 1};
    others[2].master_secret.bytes[0] = 9;
    others[3].master_salt = (struct oscore_value){.bytes = {9}, .len = 1};
    struct upstream_oscore *first = upstream_oscore_load(&plain, "/a", error, sizeof error);
    assert_non_null(first);
    for (unsigned i = 0; i < COUNT; i++) {
        contexts[i] = upstream_oscore_load(&others[i], "/a", error, sizeof error);
        assert_non_null(contexts[i]);
        assert_ptr_not_equal(contexts[i], first);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        upstream_oscore_release(contexts[i]);
    }
    upstream_oscore_release(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_context_is_one),
        cmocka_unit_test(test_a_sender_is_not_in_two_directories),
        cmocka_unit_test(test_a_sender_does_not_have_two_recipients),
        cmocka_unit_test(test_another_sender_is_another_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
