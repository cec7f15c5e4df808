/* SPDX-License-Identifier: BSD-2-Clause */
/* Names that do not resolve, and addresses that lead nowhere. */
#include "replay/errors.h"

#include <errno.h>
#include <stdio.h>

/* ERR-4, ERR-5 */
static void test_names_that_do_not_resolve(void **state)
{
    static const struct {
        const char *id, *addresses;
        enum resolve_status status;
        uint64_t delay_ms;
        unsigned detail;
        enum reason reason;
    } rows[] = {
        {"no such name", "", RESOLVE_NOT_FOUND, 5, 2, REASON_name_unresolvable},
        {"no address", "", RESOLVE_OK, 5, 2, REASON_name_unresolvable},
        {"DNS servers refuse", "", RESOLVE_FAILED, 5, 2, REASON_name_failed},
        {"no descriptors", "", RESOLVE_SHORTAGE, 5, 3, REASON_proxy_busy},
        {"the resolver timed out", "", RESOLVE_NO_ANSWER, 10000, 4, REASON_name_timeout},
        {"the resolver is silent", "", RESOLVE_OK, FOREVER_MS, 4, REASON_name_timeout},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct replay replay;
        print_message("    %s\n", rows[i].id);
        errors_start(&replay, NULL);
        fake_net_name("nx", rows[i].delay_ms, rows[i].status, rows[i].addresses);
        replay_ask(&replay, words("51 01 0001 aa", "35=coap://nx/x"));
        errors_expect(replay.client, 5, rows[i].detail, 95000);
        assert_int_equal(replay_ended(&replay, rows[i].reason), 1);
        errors_stop(&replay);
    }
}

/* ERR-15: the process has no descriptor for one more question. */
static void test_no_descriptor_for_a_question(void **state)
{
    struct replay replay;
    (void)state;
    errors_start(&replay, NULL);
    fake_net_resolver_fails(EMFILE);
    replay_ask(&replay, words("51 01 0001 aa", "35=coap://some/x"));
    errors_expect(replay.client, 5, 3, 0);
    assert_int_equal(replay_ended(&replay, REASON_proxy_busy), 1);
    fake_net_resolver_fails(0); /* it is asked for as soon as there is one */
    replay_ask(&replay, words("51 01 0002 ab", "35=coap://some/x"));
    errors_expect(replay.client, 5, 2, 0);
    assert_int_equal(replay_ended(&replay, REASON_name_unresolvable), 1);
    errors_stop(&replay);
}

/* TGT-16, ERR-7: every address is tried, in order; the last failure is told. */
static void test_all_addresses_refuse(void **state)
{
    struct replay replay;
    struct fake_datagram request;
    (void)state;
    errors_start(&replay, NULL);
    fake_net_name("n", 0, RESOLVE_OK, "192.0.2.61 224.0.1.187 192.0.2.62 192.0.2.63");
    fake_net_refuse("192.0.2.61:5683", ECONNREFUSED);
    fake_net_refuse("192.0.2.62:5683", EHOSTUNREACH);
    struct fake_peer *third = fake_peer_new("192.0.2.63:5683");
    replay_ask(&replay, words("41 01 0001 aa", "35=coap://n/x"));
    fake_peer_expect(third, words("48 01 MID TOKEN", "3=n 11=x"), &request);
    fake_peer_reject(third, &request, ECONNREFUSED);
    errors_expect(replay.client, 5, 2, 0);
    assert_int_equal(replay_ended(&replay, REASON_origin_refused), 1);
    /* The origin server may have acted on it once it said so: no other address then. */
    replay_ask(&replay, words("41 02 0002 aa", "35=coap://n/x"));
    fake_peer_expect(third, words("48 02 MID TOKEN", "3=n 11=x"), &request);
    fake_peer_reply(third, &request, "60 00 MID");
    fake_peer_reject(third, &request, ECONNREFUSED);
    errors_expect(replay.client, 5, 2, 0);
    errors_stop(&replay);
}

int errors_names(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_that_do_not_resolve),
        cmocka_unit_test(test_no_descriptor_for_a_question),
        cmocka_unit_test(test_all_addresses_refuse),
    };
    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
