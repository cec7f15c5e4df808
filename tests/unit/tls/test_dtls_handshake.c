/* SPDX-License-Identifier: BSD-2-Clause */
/* Who gets in, with which suite and as whom, and what the others are told. */
#include "tls_fixture.h"

#include <string.h>

static int set_up(void **state)
{
    (void)state;
    files_init();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    files_clear();
    return 0;
}

static void test_psk_client_talks(void **state)
{
    struct client client;
    (void)state;

    server_start(credentials_psk());
    client_open(&client, &(struct client_wish){.address = "127.0.0.1:40001"});
    client_must_talk(&client, "hello");
    assert_string_equal(SSL_get_cipher_name(client.ssl), "PSK-AES128-CCM8");
    assert_int_equal(server.identity.kind, IDENTITY_PSK);
    assert_string_equal(server.identity.name, "alice");
    assert_int_equal(dtls_counters(server.listener)->handshakes, 1);
    assert_int_equal(dtls_counters(server.listener)->hellos_without_cookie, 1);
    client_close(&client);
    server_stop();
    assert_int_equal(server.closes, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_psk_client_talks),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
