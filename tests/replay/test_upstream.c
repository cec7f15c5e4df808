/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Targets that are not reached over plain UDP: what the engine sends on sessions, and what
 * becomes of everything that can happen to them. The sessions themselves are tested in
 * tests/unit/upstream.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include "support/fake_client.h"

#include <stdio.h>
#include <string.h>

static struct replay replay;

static void start(const char *const *settings)
{
    replay_start(&replay, settings);
}

static void stop(void)
{
    assert_int_equal(fake_client_count(), 0);
    replay_stop(&replay);
}

/* GET, CON, token aa; the next message id each time. */
static void ask(const char *options)
{
    static unsigned mid;
    char head[32];
    mid++;
    snprintf(head, sizeof(head), "4101%04xaa", mid);
    replay_ask(&replay, words(head, options));
    fake_net_run(0);
}

/* The origin server's answer, without options; the client has it. */
static void answer(const char *code)
{
    char pattern[32];
    fake_client_answer(code);
    fake_net_run(0);
    snprintf(pattern, sizeof(pattern), "61 %s ???? aa", code);
    fake_peer_expect(replay.client, pattern, NULL);
}

/* --- what is sent ------------------------------------------------------- */

/* Each scheme, in each form (PXO-23, TGT-13): Uri-Host and no Uri-Port, as over UDP. */
static void test_each_transport_in_each_form(void **state)
{
    static const struct {
        const char *options, *target;
    } rows[] = {
        {"35=coaps://h/x", "dtls 192.0.2.5:5684 h"},
        {"235:8321816168816178", "dtls 192.0.2.5:5684 h"},
        {"3=h 11=x 39=coaps", "dtls 192.0.2.5:5684 h"},
        {"3=h 11=x 239:01", "dtls 192.0.2.5:5684 h"},
        {"3=h 11=x 239:0001", "dtls 192.0.2.5:5684 h"},
        {"35=coap+tcp://h/x", "tcp 192.0.2.5:5683 h"},
        {"3=h 11=x 39=coap+tcp", "tcp 192.0.2.5:5683 h"},
        {"235:8327816168816178", "tls 192.0.2.5:5684 h"},
        {"35=coaps+tcp://h:61616/x", "tls 192.0.2.5:61616 h"},
        {"35=coap+ws://h/x", "ws 192.0.2.5:80 h"},
        {"3=h 11=x 39=coap+ws", "ws 192.0.2.5:80 h"},
        {"235:833818816168816178", "ws 192.0.2.5:80 h"},
        {"235:833819816168816178", "wss 192.0.2.5:443 h"},
        {"35=coaps+ws://h:8443/x", "wss 192.0.2.5:8443 h"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("    %s\n", rows[i].options);
        start(NULL);
        ask(rows[i].options);
        fake_client_expect(rows[i].target, "01 31 68 81 78");
        fake_client_answer("45 c1 00 21 05 ff 68 69");
        fake_net_run(0);
        fake_peer_expect(replay.client, "61 45 ???? aa c1 00 21 05 ff 68 69", NULL);
        assert_int_equal(replay_ended(&replay, REASON_answered), 1);
        stop();
    }
}

/* OPT-8, ERR-11: what UDP's answers are checked for, these are. */
static void test_an_answer_that_cannot_be_forwarded(void **state)
{
    (void)state;
    start(NULL);
    ask("35=coap+tcp://h/x");
    fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 78");
    fake_client_answer("45 d1 36 00"); /* option 67 is unsafe */
    fake_net_run(0);
    replay_expect_words(&replay, "61 a2 ???? aa", "cannot be forwarded");
    ask("35=coap+tcp://h/x");
    fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 78");
    fake_client_answer("45 d1 34 01"); /* option 65 is safe (OPT-7) */
    fake_net_run(0);
    fake_peer_expect(replay.client, "61 45 ???? aa d1 34 01", NULL);
    stop();
}

/* --- what can go wrong -------------------------------------------------- */

/* ERR-7, ERR-8, ERR-9, ERR-10, ERR-11: each its reason and its code. */
static void test_failures(void **state)
{
    static const struct {
        enum upstream_status status;
        bool was_sent;
        const char *why, *code, *words;
        enum reason reason;
    } rows[] = {
        {UPSTREAM_REFUSED, false, NULL, "a2", "refused", REASON_origin_refused},
        {UPSTREAM_CONNECT_TIMEOUT, false, NULL, "a4", "in time", REASON_connect_timeout},
        {UPSTREAM_HANDSHAKE_FAILED, false, "tlsv1 alert unknown ca", "a2",
         "failed: tlsv1 alert unknown ca", REASON_handshake_failed},
        {UPSTREAM_BAD_CERTIFICATE, false, "certificate has expired", "a2",
         "accepted: certificate has expired", REASON_certificate_refused},
        {UPSTREAM_NAME_MISMATCH, false, NULL, "a2", "another host", REASON_certificate_name},
        {UPSTREAM_CLOSED, true, NULL, "a2", "ended before", REASON_origin_closed},
        {UPSTREAM_TIMEOUT, true, NULL, "a4", "did not answer", REASON_origin_timeout},
        {UPSTREAM_RESET, true, NULL, "a2", "reset", REASON_origin_reset},
        {UPSTREAM_FULL, false, NULL, "a3", "no room", REASON_sessions_full},
        {UPSTREAM_BACKING_OFF, false, NULL, "a3", "left alone", REASON_origin_backing_off},
        {UPSTREAM_MESSAGE_TOO_LARGE, false, NULL, "8d", "too large", REASON_request_too_large},
        {UPSTREAM_UNSUPPORTED, false, NULL, "a5", "no coaps: libcoap 0.0.0 has no OpenSSL",
         REASON_transport_missing},
        {UPSTREAM_NO_MEMORY, false, NULL, "a3", "busy", REASON_proxy_busy},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char head[32];
        print_message("    %s\n", rows[i].words);
        start(NULL);
        ask("35=coaps://h/x");
        fake_client_expect("dtls 192.0.2.5:5684 h", "01 31 68 81 78");
        fake_client_fail(rows[i].status, rows[i].was_sent, rows[i].why);
        fake_net_run(0);
        snprintf(head, sizeof(head), "61 %s ???? aa", rows[i].code);
        replay_expect_words(&replay, head, rows[i].words);
        assert_int_equal(replay_ended(&replay, rows[i].reason), 1);
        stop();
    }
}

/* ERR-18: a fault of the proxy itself, here its memory: 5.00 at once, and the next one is served.
 */
static void test_a_fault_of_our_own(void **state)
{
    (void)state;
    start(NULL);
    fake_net_name("slow", 100, RESOLVE_OK, "192.0.2.5");
    ask("35=coaps://slow/x");
    struct fetch *fetch = &replay.engine->fetch.fetches.slots[0];
    assert_int_equal(fetch->state, FETCH_resolving);
    assert_true(fetch->sending.datagram_len > 0);
    fetch->sending.datagram[0] = 0; /* another version: what we have made cannot be read any more */
    fake_net_run(200);
    replay_expect_words(&replay, "61 a0 ???? aa", "internal error");
    assert_int_equal(replay_ended(&replay, REASON_internal), 1);
    ask("35=coaps://h/x");
    fake_client_expect("dtls 192.0.2.5:5684 h", "01 31 68 81 78");
    answer("45");
    stop();
}

/* Nothing comes at all: the request's own time ends it, and takes it back. */
static void test_silence(void **state)
{
    static const char *const settings[] = {"proxy.request-timeout=3s", NULL};
    (void)state;
    start(settings);
    ask("35=coap+tcp://h/x");
    fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 78");
    fake_peer_expect_within(replay.client, 300, "60 00 ????", NULL);
    struct fake_datagram answer;
    fake_peer_expect_within(replay.client, 3000, "41 a4 MID aa ...", &answer);
    assert_true(fake_client_is_cancelled());
    fake_peer_reply(replay.client, &answer, "60 00 MID");
    fake_net_run(0);
    stop();
}

/* The next address of a name, as long as nothing was sent to the one before. */
static void test_the_next_address(void **state)
{
    (void)state;
    start(NULL);
    fake_net_name("two", 0, RESOLVE_OK, "192.0.2.21 192.0.2.22");
    ask("35=coaps+tcp://two/x");
    fake_client_expect("tls 192.0.2.21:5684 two", "01 33 74 77 6f 81 78");
    fake_client_fail(UPSTREAM_REFUSED, false, NULL);
    fake_net_run(0);
    fake_client_expect("tls 192.0.2.22:5684 two", "01 33 74 77 6f 81 78");
    fake_client_answer("45");
    fake_net_run(0);
    fake_peer_expect(replay.client, "61 45 ???? aa", NULL);

    ask("35=coaps+tcp://two/x");
    fake_client_expect("tls 192.0.2.21:5684 two", "01 33 74 77 6f 81 78");
    fake_client_fail(UPSTREAM_CLOSED, true, NULL);
    fake_net_run(0);
    fake_client_expect_nothing();
    replay_expect_words(&replay, "61 a2 ???? aa", "ended before");
    stop();
}

/* Nor does it matter how far the first address let us come: nothing was sent to it. */
static void test_the_next_address_after_a_handshake(void **state)
{
    static const enum upstream_status rows[] = {
        UPSTREAM_REFUSED,         UPSTREAM_CONNECT_TIMEOUT, UPSTREAM_HANDSHAKE_FAILED,
        UPSTREAM_BAD_CERTIFICATE, UPSTREAM_NAME_MISMATCH,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("    %zu\n", i);
        start(NULL);
        fake_net_name("two", 0, RESOLVE_OK, "192.0.2.21 192.0.2.22");
        ask("35=coaps://two/x");
        fake_client_expect("dtls 192.0.2.21:5684 two", "01 33 74 77 6f 81 78");
        fake_client_fail(rows[i], false, NULL);
        fake_net_run(0);
        fake_client_expect("dtls 192.0.2.22:5684 two", "01 33 74 77 6f 81 78");
        answer("45");
        /* The last address: its failure is the request's. */
        ask("35=coaps://two/x");
        fake_client_expect("dtls 192.0.2.21:5684 two", "01 33 74 77 6f 81 78");
        fake_client_fail(rows[i], false, NULL);
        fake_net_run(0);
        fake_client_expect("dtls 192.0.2.22:5684 two", "01 33 74 77 6f 81 78");
        fake_client_fail(UPSTREAM_HANDSHAKE_FAILED, false, NULL);
        fake_net_run(0);
        assert_int_equal(replay_ended(&replay, REASON_handshake_failed), 1);
        fake_peer_expect(replay.client, "61 a2 ???? aa ...", NULL);
        stop();
    }
}

/* --- queue and window --------------------------------------------------- */

static void ask_many(unsigned count, const char *scheme, unsigned first_mid)
{
    for (unsigned i = 0; i < count; i++) {
        char options[64], head[32];
        snprintf(options, sizeof(options), "35=%s://h/%u", scheme, i);
        snprintf(head, sizeof(head), "4201%04x%04x", first_mid + i, first_mid + i);
        replay_ask(&replay, words(head, options));
    }
    fake_net_run(0);
}

/* MSG-31: on DTLS as on UDP, nstart requests are out at first, and the rest waits. */
static void test_the_window_of_dtls(void **state)
{
    static const char *const settings[] = {"scheme coaps.nstart=2", "proxy.request-timeout=2s",
                                           NULL};
    (void)state;
    start(settings);
    ask_many(3, "coaps", 0x100);
    fake_client_expect("dtls 192.0.2.5:5684 h", "01 31 68 81 30");
    fake_client_expect("dtls 192.0.2.5:5684 h", "01 31 68 81 31");
    fake_client_expect_nothing();
    fake_client_answer("45");
    fake_net_run(0);
    fake_peer_expect(replay.client, "62 45 ???? ????", NULL);
    fake_client_expect("dtls 192.0.2.5:5684 h", "01 31 68 81 32");
    fake_client_answer("45");
    fake_net_run(0);
    fake_peer_expect(replay.client, "62 45 ???? ????", NULL);
    fake_net_run(100000);
    stop();
}

/* RFC 8323 section 3.3: a connection has its own congestion control. */
static void test_no_window_on_connections(void **state)
{
    static const char *const settings[] = {"scheme coap+tcp.nstart=1", "proxy.request-timeout=2s",
                                           NULL};
    (void)state;
    start(settings);
    ask_many(3, "coap+tcp", 0x100);
    fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 30");
    fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 31");
    fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 32");
    fake_net_run(100000);
    stop();
}

/* The same address and port over UDP is another origin server to us. */
static void test_transports_do_not_share_a_window(void **state)
{
    static const char *const settings[] = {"scheme coap.nstart=1", "proxy.request-timeout=2s",
                                           NULL};
    (void)state;
    start(settings);
    ask("35=coap://h/x");
    fake_peer_expect(replay.origin, "48 01 MID TOKEN 31 68 81 78", NULL);
    ask("3=h 11=y 39=coap+tcp");
    fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 79");
    fake_net_run(100000);
    stop();
}

/* --- policy and credentials --------------------------------------------- */

/* SEC-18: a request for a secret has to be one itself; on this host it is. */
static void test_secure_targets_need_a_secure_request(void **state)
{
    static const char *const settings[] = {"policy.require-secure-leg=yes", "policy.clients=any",
                                           "policy.ports=any", NULL};
    (void)state;
    start(settings);
    ask("35=coaps://h/x");
    replay_expect_words(&replay, "61 a5 ???? aa", "in the clear");
    fake_client_expect_nothing();
    ask("35=coap+tcp://h/x"); /* it is not secure itself */
    fake_client_expect("tcp 192.0.2.5:5683 h", "01 31 68 81 78");
    fake_client_answer("45");
    fake_net_run(0);
    fake_peer_expect(replay.client, "61 45 ???? aa", NULL);
    stop();
}

static void test_credentials_of_the_target(void **state)
{
    static const char *const settings[] = {"upstream.psk-identity=us",
                                           "upstream.psk-key=00",
                                           "upstream lab.target=coaps://*.lab.example",
                                           "upstream lab.psk-identity=lab",
                                           "upstream lab.psk-key=01",
                                           "upstream net.target=*://192.0.2.0/24",
                                           "upstream net.psk-identity=",
                                           "upstream net.psk-key=",
                                           "upstream net.ca=/net.pem",
                                           NULL};
    (void)state;
    start(settings);
    fake_net_name("a.lab.example", 0, RESOLVE_OK, "192.0.2.30");
    fake_net_name("far.example", 0, RESOLVE_OK, "198.51.100.1");
    ask("35=coaps://a.lab.example/");
    fake_client_expect("dtls 192.0.2.30:5684 a.lab.example lab",
                       "01 3d00 61 2e 6c 61 62 2e 65 78 61 6d 70 6c 65");
    answer("45");
    ask("35=coaps://far.example/");
    fake_client_expect("dtls 198.51.100.1:5684 far.example us",
                       "01 3b 66 61 72 2e 65 78 61 6d 70 6c 65");
    answer("45");
    ask("35=coaps+tcp://h/");
    fake_client_expect("tls 192.0.2.5:5684 h /net.pem", "01 31 68");
    answer("45");
    stop();
}

/* A parent proxy is shown what is for itself, not what is for the target. */
static void test_credentials_of_a_parent(void **state)
{
    static const char *const settings[] = {"route up.target=*://*",
                                           "route up.via=coaps+tcp://parent.example",
                                           "upstream a.target=coap://h",
                                           "upstream a.psk-identity=for-h",
                                           "upstream a.psk-key=00",
                                           "upstream b.target=coaps+tcp://parent.example",
                                           "upstream b.psk-identity=for-parent",
                                           "upstream b.psk-key=00",
                                           NULL};
    (void)state;
    start(settings);
    fake_net_name("parent.example", 0, RESOLVE_OK, "192.0.2.77");
    ask("35=coap://h/x");
    fake_client_expect("tls 192.0.2.77:5684 parent.example for-parent",
                       "01 d8de 83 20 81 61 68 81 61 78");
    answer("45");
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_transport_in_each_form),
        cmocka_unit_test(test_an_answer_that_cannot_be_forwarded),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_a_fault_of_our_own),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_the_next_address),
        cmocka_unit_test(test_the_next_address_after_a_handshake),
        cmocka_unit_test(test_the_window_of_dtls),
        cmocka_unit_test(test_no_window_on_connections),
        cmocka_unit_test(test_transports_do_not_share_a_window),
        cmocka_unit_test(test_secure_targets_need_a_secure_request),
        cmocka_unit_test(test_credentials_of_the_target),
        cmocka_unit_test(test_credentials_of_a_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
