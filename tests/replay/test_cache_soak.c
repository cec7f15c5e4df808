/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clients that read and write a few resources over a bad network, through a cache that is too
 * small, with requests that follow each other. Each state has a number, which is its ETag too.
 * A reader has to be given a state
 *
 *   - of the resource that it asked for,
 *   - no older than any write that had been confirmed to any client when it asked (CACHE-17),
 *   - that was the state no longer ago than Max-Age and the network's delay (CACHE-7),
 *
 * and 2.03 only for an ETag that it named. At the end nothing is left.
 *
 * TEST_SEED repeats a run.
 */
#include "replay/replay.h"

#include "coap/message.h"
#include "coap/option.h"

#include <stdio.h>
#include <string.h>

#define CLIENTS 12u
#define RESOURCES 5u
#define VERSIONS_MAX 4096u
#define MAX_AGE_S 3u
#define DELAY_MS 60u
#define PATIENCE_MS 120000u
#define STEP_MS 20u
#define STEPS 30000u

struct resource {
    uint32_t version;                   /* the state now */
    uint32_t confirmed;                 /* the last write that was confirmed to a client */
    uint64_t replaced_ms[VERSIONS_MAX]; /* when a state was no longer the one; 0: still is */
};

struct reader {
    struct fake_peer *peer;
    bool is_asking, is_write;
    unsigned resource;
    uint32_t named, least; /* the ETag it has named, or 0; the oldest state it may be given */
    uint64_t asked_ms, again_ms, timeout_ms;
    uint16_t mid;
    size_t len;
    uint8_t datagram[128];
};

static struct {
    struct replay replay;
    struct address proxy;
    uint64_t random;
    struct resource resources[RESOURCES];
    struct reader readers[CLIENTS];
    uint64_t answered, valid, given_up;
} soak;

static uint32_t below(uint32_t limit)
{
    return (uint32_t)test_random_below(&soak.random, limit);
}

static void put_u32(uint8_t bytes[4], uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(value >> (24 - 8 * i));
    }
}

static bool find(struct bytes options, uint16_t number, uint32_t *ret_value)
{
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option)) {
        if (option.number == number) {
            *ret_value = option_uint(option.value);
            return true;
        }
    }
    return false;
}

/* --- the origin server ---------------------------------------------------- */

static void answer(struct fake_peer *peer, const struct fake_datagram *datagram,
                   const struct message *request, unsigned index)
{
    uint8_t data[64], payload[5] = {(uint8_t)index}, etag[4];
    struct resource *resource = &soak.resources[index];
    struct message_writer writer;
    uint32_t named = 0;
    if (request->code == CODE_PUT && resource->version + 1 < VERSIONS_MAX) {
        resource->replaced_ms[resource->version++] = fake_net_now_ms();
    }
    put_u32(payload + 1, resource->version);
    put_u32(etag, resource->version);
    bool is_write = request->code == CODE_PUT;
    bool is_valid =
        !is_write && find(request->options, OPTION_etag, &named) && named == resource->version;
    message_writer_init(&writer, data, sizeof(data), MESSAGE_ACK,
                        is_write   ? CODE(2, 4)
                        : is_valid ? CODE(2, 3)
                                   : CODE(2, 5),
                        request->mid, request->token);
    if (!is_write) {
        message_writer_option(&writer, OPTION_etag, (struct bytes){etag, 4});
        message_writer_option_uint(&writer, OPTION_max_age, below(MAX_AGE_S + 1));
    }
    message_writer_payload(&writer, (struct bytes){payload, is_valid ? 0 : sizeof(payload)});
    fake_peer_send_bytes(peer, &datagram->from, data, writer.len);
}

static void on_origin(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    struct message request;
    struct option_iter iter;
    struct option option;
    unsigned index = RESOURCES;
    (void)context;
    if (message_decode(datagram->data, datagram->len, &request) != MESSAGE_OK ||
        !message_is_request(&request) || below(20) == 0) {
        return; /* an acknowledgement, or asleep */
    }
    option_iter_init(&iter, request.options);
    while (option_iter_next(&iter, &option)) {
        index = option.number == OPTION_uri_path ? (unsigned)(option.value.data[0] - 'a') : index;
    }
    assert_true(index < RESOURCES);
    if (below(30) == 0) {
        fake_peer_reply(peer, datagram, below(2) == 0 ? "70 00 MID" : "6T 81 MID TOKEN");
        return;
    }
    answer(peer, datagram, &request, index);
}

/* --- the clients ----------------------------------------------------------- */

static void transmit(struct reader *reader)
{
    fake_peer_send_bytes(reader->peer, &soak.proxy, reader->datagram, reader->len);
    reader->again_ms = fake_net_now_ms() + reader->timeout_ms;
    reader->timeout_ms *= 2;
}

static void ask(struct reader *reader)
{
    uint8_t uri[] = "coap://h/a", etag[4], token[2];
    struct message_writer writer;
    reader->mid++;
    reader->is_asking = true;
    reader->is_write = below(12) == 0;
    reader->resource = below(RESOURCES);
    const struct resource *resource = &soak.resources[reader->resource];
    reader->named = below(3) == 0 ? resource->version - below(2) : 0;
    reader->least = resource->confirmed;
    reader->asked_ms = fake_net_now_ms();
    reader->timeout_ms = 2000;
    uri[9] = (uint8_t)('a' + reader->resource);
    token[0] = (uint8_t)(reader->mid >> 8);
    token[1] = (uint8_t)reader->mid;
    put_u32(etag, reader->named);
    message_writer_init(&writer, reader->datagram, sizeof(reader->datagram), MESSAGE_CON,
                        reader->is_write ? CODE_PUT : CODE_GET, reader->mid,
                        (struct bytes){token, 2});
    if (!reader->is_write && reader->named > 0) {
        message_writer_option(&writer, OPTION_etag, (struct bytes){etag, 4});
    }
    message_writer_option(&writer, OPTION_proxy_uri, (struct bytes){uri, sizeof(uri) - 1});
    reader->len = writer.len;
    transmit(reader);
}

/* A state that is given out: see the top. */
static void check_state(const struct reader *reader, uint32_t version)
{
    const struct resource *resource = &soak.resources[reader->resource];
    assert_true(version >= reader->least && version <= resource->version);
    uint64_t replaced_ms = resource->replaced_ms[version];
    assert_true(replaced_ms == 0 ||
                replaced_ms + MAX_AGE_S * 1000 + 2 * DELAY_MS >= reader->asked_ms);
}

static void take_answer(struct reader *reader, const struct message *message)
{
    struct resource *resource = &soak.resources[reader->resource];
    uint32_t version = 0;
    reader->is_asking = false;
    if (message->code == CODE(2, 3)) {
        assert_true(find(message->options, OPTION_etag, &version));
        assert_int_equal(version, reader->named);
        check_state(reader, version);
        soak.valid++;
    } else if (CODE_CLASS(message->code) == 2) {
        assert_int_equal(message->payload.len, 5);
        assert_int_equal(message->payload.data[0], reader->resource);
        version = option_uint((struct bytes){message->payload.data + 1, 4});
        assert_int_equal(message->code, reader->is_write ? CODE(2, 4) : CODE(2, 5));
        check_state(reader, version);
        soak.answered++;
    }
    if (message->code == CODE(2, 4) && version > resource->confirmed) {
        resource->confirmed = version;
    }
}

static void receive(struct reader *reader)
{
    struct fake_datagram datagram;
    struct message message;
    while (fake_peer_take(reader->peer, &datagram)) {
        assert_int_equal(message_decode(datagram.data, datagram.len, &message), MESSAGE_OK);
        if (message.type == MESSAGE_CON) {
            fake_peer_reply(reader->peer, &datagram, "60 00 MID");
        }
        uint32_t token = option_uint(message.token); /* two bytes, as the message id is */
        if (message.code == CODE_EMPTY && message.mid == reader->mid) {
            reader->again_ms = UINT64_MAX; /* promised */
        } else if (reader->is_asking && token == reader->mid) {
            take_answer(reader, &message);
        }
    }
}

static void run_reader(struct reader *reader, bool may_ask)
{
    uint64_t now_ms = fake_net_now_ms();
    receive(reader);
    if (reader->is_asking && now_ms - reader->asked_ms > PATIENCE_MS) {
        reader->is_asking = false;
        soak.given_up++;
    } else if (reader->is_asking && now_ms >= reader->again_ms) {
        transmit(reader);
    } else if (!reader->is_asking && may_ask && below(25) == 0) {
        ask(reader);
    }
}

static void start(void)
{
    char text[32];
    memset(&soak, 0, sizeof(soak));
    soak.random = test_seed();
    replay_start(&soak.replay,
                 (const char *[]){"cache.max-bytes=64KiB", "cache.coalesce=yes",
                                  "cache.followers=4", "proxy.request-timeout=20s", NULL});
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &soak.proxy));
    fake_peer_on_datagram(soak.replay.origin, on_origin, NULL);
    for (unsigned i = 0; i < CLIENTS; i++) {
        (void)snprintf(text, sizeof(text), "192.0.2.%u:40001", 100 + i);
        soak.readers[i].peer = fake_peer_new(text);
    }
    for (unsigned i = 0; i < RESOURCES; i++) {
        soak.resources[i].version = 1;
    }
}

static void test_nothing_old_over_a_bad_network(void **state)
{
    const struct fake_link bad = {.delay_min_ms = 1,
                                  .delay_max_ms = DELAY_MS / 2,
                                  .loss_percent = 10,
                                  .duplicate_percent = 5};
    (void)state;
    start();
    fake_net_set_link(&bad);
    for (unsigned step = 0; step < STEPS; step++) {
        for (unsigned i = 0; i < CLIENTS; i++) {
            run_reader(&soak.readers[i], true);
        }
        fake_net_run(STEP_MS);
    }
    for (unsigned step = 0; step < 2 * PATIENCE_MS / STEP_MS; step++) {
        for (unsigned i = 0; i < CLIENTS; i++) {
            run_reader(&soak.readers[i], false);
        }
        fake_net_run(STEP_MS);
    }
    print_message("    %u answered, %u valid, %u hits, %u followed, %u validated, %u invalidated\n",
                  (unsigned)soak.answered, (unsigned)soak.valid,
                  (unsigned)replay_metric(&soak.replay, cache_hits),
                  (unsigned)replay_metric(&soak.replay, requests_coalesced),
                  (unsigned)replay_metric(&soak.replay, cache_validated),
                  (unsigned)replay_metric(&soak.replay, cache_invalidated));
    assert_true(soak.answered > 1000 && soak.valid > 10);
    assert_true(replay_metric(&soak.replay, requests_coalesced) > 10);
    assert_true(replay_metric(&soak.replay, cache_validated) > 10);
    assert_true(replay_metric(&soak.replay, cache_invalidated) > 10);
    fake_net_run(300000);
    replay_stop(&soak.replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_old_over_a_bad_network)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
