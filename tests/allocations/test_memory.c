/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for clients: 100,000 of them, each with one CON request
 * within a minute, in virtual time; with the limits as they are by default. Counted
 * is what becomes resident, from before the engine exists, the fake network's own
 * needs included.
 */
#include "replay/replay.h"

#include "support/fake_net_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS 100000u
#define MUST_KIB (64u * 1024u)

static uint64_t resident_kib(void)
{
    char text[128];
    unsigned long total, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    assert_int_equal(sscanf(text, "%lu %lu", &total, &resident), 2);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* 2.05 with 64 bytes. */
static void on_request(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    (void)context;
    uint8_t answer[4 + 8 + 1 + 64] = {0x68, 0x45};
    assert_true(datagram->len > 12);
    memcpy(answer + 2, datagram->data + 2, 2 + 8);
    answer[12] = 0xff;
    fake_peer_send_bytes(peer, &datagram->from, answer, sizeof(answer));
}

/* Client @p n asks; its socket is closed, so the answer is lost after it was sent. */
static void ask(uint32_t n, const struct address *proxy)
{
    uint8_t request[64];
    struct address from;
    const uint8_t ip[4] = {10, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    size_t len = test_hex("44010001 00000000 d8de8320816168816178", request, sizeof(request));
    address_set_ip(&from, ip, sizeof(ip), 0);
    from.port = (uint16_t)(1024 + n % 60000);
    memcpy(request + 4, &n, sizeof(n));
    fake_wire_send(NULL, &from, proxy, request, len);
}

static void test_100000_clients_in_a_minute(void **state)
{
    (void)state;
    struct replay replay;
    struct address proxy;
    uint64_t before_kib = resident_kib();
    replay_start(&replay, (const char *[]){"proxy.size=medium", NULL});
    fake_peer_on_datagram(replay.origin, on_request, NULL);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &proxy));
    uint64_t idle_kib = resident_kib();
    for (uint32_t n = 0; n < CLIENTS; n++) {
        ask(n, &proxy);
        fake_net_run(n % 5 < 3); /* 60 s in all */
    }
    fake_net_run(1);
    uint64_t after_kib = resident_kib();
    print_message("resident: idle %" PRIu64 " KiB, after %u clients %" PRIu64 " KiB, %" PRIu64
                  " bytes a client\n",
                  idle_kib - before_kib, CLIENTS, after_kib - before_kib,
                  (after_kib - idle_kib) * 1024 / CLIENTS);
    assert_int_equal(replay_ended(&replay, REASON_answered), CLIENTS);
    assert_int_equal(replay_metric(&replay, clients), CLIENTS);
    assert_int_equal(replay_metric(&replay, clients_evicted), 0);
    assert_int_equal(replay_metric(&replay, dedup_evicted), 0);
    assert_true(after_kib - before_kib <= MUST_KIB);
    replay_stop(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_100000_clients_in_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
