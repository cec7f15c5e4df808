/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/observers.h"

#include "coap/option.h"
#include "replay/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *observe_request(const char *mid, const char *token, unsigned observe)
{
    char head[64];
    snprintf(head, sizeof(head), "41 01 %s %s", mid, token);
    return words(head, observe == 0 ? "6: " TARGET_X : "6:01 " TARGET_X);
}

uint8_t expect_state(struct fake_peer *peer, enum message_type type, unsigned token,
                     const char *hex, struct fake_datagram *ret_datagram)
{
    struct fake_datagram datagram;
    struct message message;
    struct bytes observe;
    uint8_t payload[256];
    size_t len = test_hex(hex, payload, sizeof(payload));
    fake_peer_expect(peer, "?? 45 MID ...", &datagram);
    assert_int_equal(message_decode(datagram.data, datagram.len, &message), MESSAGE_OK);
    assert_int_equal(message.type, type);
    assert_int_equal(message.token.len, 1);
    assert_true(token == ANY_TOKEN || message.token.data[0] == token);
    assert_true(option_find(message.options, OPTION_observe, &observe));
    assert_int_equal(message.payload.len, len);
    assert_memory_equal(message.payload.data, payload, len);
    if (ret_datagram != NULL) {
        *ret_datagram = datagram;
    }
    return message.token.data[0];
}

/* --- the scripts' surroundings ------------------------------------------- */

struct replay replay;
struct fake_peer *other; /* a second client, 192.0.2.8:40002 */

void observe_start(const char *const *settings)
{
    struct conn_options options = {.transport = TRANSPORT_TCP, .fd = -1, .connections_max = 100};
    replay_start(&replay, settings);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &options.bind));
    assert_int_equal(listen_stream(&replay.engine->client, &options, NULL), 0);
    other = fake_peer_new("192.0.2.8:40002");
    passers_start(&replay);
}

int observe_setup(void **state)
{
    (void)state;
    observe_start(NULL);
    return 0;
}

static void acknowledge_all(struct fake_peer *peer)
{
    struct fake_datagram datagram;
    while (fake_peer_take(peer, &datagram)) {
        if ((datagram.data[0] & 0x30) == 0) {
            fake_peer_reply(peer, &datagram, "60 00 MID");
        }
    }
}

static void end_all(void)
{
    struct fake_datagram datagram;
    engine_drain(replay.engine);
    for (unsigned i = 0; i < 200; i++) {
        while (fake_peer_take(replay.origin, &datagram)) {
            if (datagram.data[0] == 0x48) {
                fake_peer_reply(replay.origin, &datagram, "6T 45 MID TOKEN");
            }
        }
        acknowledge_all(replay.client);
        acknowledge_all(other);
        fake_net_run(1000);
    }
}

/* Clients that are left are gone now: what has to follow from that is shown by its own tests. */
int observe_teardown(void **state)
{
    (void)state;
    end_all();
    replay_stop(&replay);
    fake_streams_free();
    return 0;
}

void observe_x(struct fake_datagram *ret_registration)
{
    fake_peer_send(replay.client, PROXY, REGISTER("0001", "aa"));
    fake_peer_expect(replay.origin, UPSTREAM_REGISTER, ret_registration);
    fake_peer_reply(replay.origin, ret_registration, "6T 45 MID TOKEN 61 05 ff 30");
    (void)expect_state(replay.client, MESSAGE_ACK, 0xaa, "30", NULL);
}

void notify(const struct fake_datagram *registration, const char *text)
{
    fake_peer_reply(replay.origin, registration, text);
}

void acknowledge(struct fake_peer *peer, const struct fake_datagram *notification)
{
    fake_peer_reply(peer, notification, "60 00 MID");
}

void leave_x(void)
{
    fake_peer_send(replay.client, PROXY, DEREGISTER("7001", "aa"));
}
