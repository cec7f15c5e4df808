/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables that are full all the while, as six hosts ask thirty origin servers for more than there is
 * room for: whatever is displaced, passed on, answered late or asked again, nothing is left over.
 */
#include "replay/replay.h"
#include "replay/words.h"

#include <stdio.h>

enum { HOSTS = 6, PORTS = 8, ORIGINS = 30, STEPS = 6000 };

static struct {
    struct replay replay;
    struct fake_peer *clients[HOSTS * PORTS];
    struct fake_peer *origins[ORIGINS];
    uint64_t random;
    uint16_t mid;
    unsigned told;
} room;

static unsigned below(unsigned count)
{
    room.random = hash_mix(room.random, 1);
    return (unsigned)(room.random % count);
}

static void on_told(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    uint8_t type = datagram->data[0] >> 4 & 3u;
    (void)context;
    room.told += datagram->data[1] != 0;
    if (type == 0 && below(4) > 0) { /* CON */
        fake_peer_reply(peer, datagram, "60 00 MID");
    }
}

/* A third is answered at once, a third is acknowledged, or reset, and the rest stays silent. */
static void on_asked(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    unsigned chosen = below(12);
    (void)context;
    if (datagram->data[1] == 0) {
        return;
    }
    switch (chosen) {
    case 0:
    case 1:
        fake_peer_reply(peer, datagram, words("6T 45 MID TOKEN", "/61"));
        break;
    case 2:
        fake_peer_reply(peer, datagram, words("6T 45 MID TOKEN", "6:05 /62"));
        break;
    case 3:
        fake_peer_reply(peer, datagram, "60 00 MID");
        break;
    case 4:
        fake_peer_reply(peer, datagram, "70 00 MID");
        break;
    default:
        break;
    }
}

static void ask_any(void)
{
    static const char *const paths[] = {"x", "y"};
    struct fake_peer *client = room.clients[below(below(2) == 0 ? PORTS : HOSTS * PORTS)];
    char head[64], target[64];
    bool observes = below(6) == 0;
    snprintf(head, sizeof(head), "%s %02x %04x %02x", below(2) == 0 ? "41" : "51",
             observes || below(3) > 0 ? 1u : 3u, ++room.mid & 0xffffu, below(256));
    snprintf(target, sizeof(target), "%s35=coap://203.0.113.%u/%s", observes ? "6: " : "",
             below(ORIGINS) + 1, paths[below(2)]);
    fake_peer_send(client, PROXY, words(head, target));
}

static void make_room_parties(void)
{
    char address[64];
    for (unsigned i = 0; i < HOSTS * PORTS; i++) {
        snprintf(address, sizeof(address), "198.51.100.%u:%u", i / PORTS + 1, 40000 + i);
        room.clients[i] = fake_peer_new(address);
        fake_peer_on_datagram(room.clients[i], on_told, NULL);
    }
    for (unsigned i = 0; i < ORIGINS; i++) {
        snprintf(address, sizeof(address), "203.0.113.%u:5683", i + 1);
        room.origins[i] = fake_peer_new(address);
        fake_peer_on_datagram(room.origins[i], on_asked, NULL);
    }
}

static void test_full_tables(void **state)
{
    static const char *const settings[] = {"limits.origins=16",
                                           "limits.clients=16",
                                           "limits.exchanges=60",
                                           "limits.origin-queue=3",
                                           "observe.max=12",
                                           "observe.targets=12",
                                           "cache.max-bytes=1MiB",
                                           "cache.coalesce=yes",
                                           "scheme coap.nstart=1",
                                           "scheme coap.nstart-max=2",
                                           NULL};
    (void)state;
    room.random = test_seed();
    replay_start(&room.replay, settings);
    make_room_parties();
    for (unsigned i = 0; i < STEPS; i++) {
        ask_any();
        fake_net_run(below(8) == 0 ? below(3000) : below(20));
    }
    fake_net_run(1000000);
    engine_drain(room.replay.engine);
    fake_net_run(1000000);
    print_message("  told %u; observed %llu; displaced: queued=%llu origins=%llu clients=%llu\n",
                  room.told,
                  (unsigned long long)replay_ended(&room.replay, REASON_observed) +
                      replay_metric(&room.replay, notifications_sent),
                  (unsigned long long)replay_metric(&room.replay, queued_displaced),
                  (unsigned long long)replay_metric(&room.replay, origins_displaced),
                  (unsigned long long)replay_metric(&room.replay, clients_displaced));
    assert_true(replay_metric(&room.replay, queued_displaced) > 0);
    assert_true(replay_metric(&room.replay, origins_displaced) > 0);
    assert_true(replay_metric(&room.replay, clients_displaced) > 0);
    assert_true(room.told > STEPS / 4);
    replay_stop(&room.replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
