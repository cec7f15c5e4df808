/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/load.h"

#include "coap/message.h"
#include "coap/option.h"

#include <stdio.h>
#include <string.h>

/* RFC 7252 section 4.8. */
#define ACK_TIMEOUT_MS 2000u
#define MAX_RETRANSMIT 4u

/* How long a client waits for the answer that it was promised. */
#define PATIENCE_MS 400000u

#define PATH_LEN 6u
#define TOKEN_LEN 4u

static struct address proxy;

static bool is_lost(struct load *load, struct load_count *count)
{
    bool lost = test_random_below(&load->random, 100) < load->options.loss_percent;
    count->sent++;
    count->heard = (uint8_t)(count->heard + !lost);
    return lost;
}

static void write_path(char text[PATH_LEN + 1], uint32_t request)
{
    snprintf(text, PATH_LEN + 1, "%06u", request);
}

static uint32_t read_number(struct bytes text)
{
    uint32_t number = 0;
    assert_int_equal(text.len, PATH_LEN);
    for (size_t i = 0; i < text.len; i++) {
        assert_in_range(text.data[i], '0', '9');
        number = number * 10 + (text.data[i] - (uint32_t)'0');
    }
    return number;
}

static bool find_option(const struct message *message, uint16_t number, struct bytes *ret_value)
{
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        if (option.number == number) {
            *ret_value = option.value;
            return true;
        }
    }
    return false;
}

/* --- clients ------------------------------------------------------------ */

static void client_transmit(struct load_client *client)
{
    struct load *load = client->load;
    client->transmissions++;
    if (!is_lost(load, &load->requests[client->request].asks)) {
        fake_peer_send_bytes(client->peer, &proxy, client->datagram, client->datagram_len);
    }
}

/* GET coap://h/NNNNNN?NNNNNN as Proxy-Cri: [-1, ["h"], ["NNNNNN"], ["NNNNNN"]]. */
static void client_encode(struct load_client *client)
{
    uint8_t cri[] = {0x84, 0x20, 0x81, 0x61, 'h', 0x81, 0x66, 0, 0, 0, 0,
                     0,    0,    0x81, 0x66, 0,   0,    0,    0, 0, 0};
    uint32_t n = client->request;
    const uint8_t token[TOKEN_LEN] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                                      (uint8_t)n};
    char path[PATH_LEN + 1];
    struct message_writer writer;
    enum message_type type = client->load->options.non_confirmable ? MESSAGE_NON : MESSAGE_CON;
    write_path(path, n);
    memcpy(cri + sizeof(cri) - 2 * PATH_LEN - 2, path, PATH_LEN);
    memcpy(cri + sizeof(cri) - PATH_LEN, path, PATH_LEN);
    message_writer_init(&writer, client->datagram, sizeof(client->datagram), type, CODE_GET,
                        ++client->mid, (struct bytes){token, TOKEN_LEN});
    message_writer_option(&writer, OPTION_proxy_cri, (struct bytes){cri, sizeof(cri)});
    assert_false(writer.overflow);
    client->datagram_len = writer.len;
}

static void client_ask(struct load_client *client)
{
    struct load *load = client->load;
    unsigned limit = load->options.requests > 0 ? load->options.requests : LOAD_REQUESTS_MAX;
    if (load->request_count >= limit) {
        assert_true(load->options.requests > 0); /* else the test needs a larger table */
        return;
    }
    client->request = load->request_count++;
    load->requests[client->request] =
        (struct load_request){.asked_ms = fake_net_now_ms(), .max_age_s = UINT32_MAX};
    client->is_waiting = true;
    client->is_acknowledged = false;
    client->transmissions = 0;
    client->timeout_ms =
        ACK_TIMEOUT_MS + (uint32_t)test_random_below(&load->random, ACK_TIMEOUT_MS / 2 + 1);
    client->due_ms =
        fake_net_now_ms() + (load->options.non_confirmable ? PATIENCE_MS : client->timeout_ms);
    client_encode(client);
    client_transmit(client);
}

static void client_end(struct load_client *client, uint8_t code)
{
    struct load *load = client->load;
    struct load_request *request = &load->requests[client->request];
    request->ended_ms = fake_net_now_ms();
    request->code = code;
    load->answered += code == CODE(2, 5);
    load->refused += code != CODE(2, 5) && code != 0;
    load->abandoned += code == 0;
    client->is_waiting = false;
    client_ask(client);
}

static void client_on_due(struct load_client *client)
{
    if (client->is_acknowledged || client->load->options.non_confirmable ||
        client->transmissions > MAX_RETRANSMIT) {
        client_end(client, 0);
        return;
    }
    client->timeout_ms *= 2;
    client->due_ms += client->timeout_ms;
    client_transmit(client);
}

static void client_acknowledge(struct load_client *client, uint16_t mid)
{
    const uint8_t ack[] = {0x60, 0, (uint8_t)(mid >> 8), (uint8_t)mid};
    struct load_count uncounted = {0};
    if (!is_lost(client->load, &uncounted)) {
        fake_peer_send_bytes(client->peer, &proxy, ack, sizeof(ack));
    }
}

/* The answer to one of its requests, perhaps not for the first time. */
static void client_on_answer(struct load_client *client, const struct message *message)
{
    struct load *load = client->load;
    assert_int_equal(message->token.len, TOKEN_LEN);
    uint32_t n = option_uint(message->token);
    assert_true(n < load->request_count);
    struct load_request *request = &load->requests[n];
    if (is_lost(load, &request->answers)) {
        return;
    }
    if (message->type == MESSAGE_CON) {
        client_acknowledge(client, message->mid);
    }
    if (message->type == MESSAGE_ACK && n == client->request) {
        assert_int_equal(message->mid, client->mid);
    }
    if (message->code == CODE(2, 5)) {
        assert_int_equal(read_number(message->payload), n);
    }
    if (!client->is_waiting || n != client->request) {
        assert_true(request->ended_ms != 0);
        return;
    }
    struct bytes max_age;
    if (find_option(message, OPTION_max_age, &max_age)) {
        request->max_age_s = option_uint(max_age);
    }
    client_end(client, message->code);
}

static void client_on_datagram(void *context, struct fake_peer *peer,
                               const struct fake_datagram *datagram)
{
    (void)peer;
    struct load_client *client = context;
    struct message message;
    assert_int_equal(message_decode(datagram->data, datagram->len, &message), MESSAGE_OK);
    if (message_is_response(&message)) {
        client_on_answer(client, &message);
        return;
    }
    assert_int_equal(message.code, CODE_EMPTY);
    assert_true(message.type == MESSAGE_ACK || message.type == MESSAGE_RST);
    struct load_count uncounted = {0};
    bool is_current = message.mid == client->mid;
    if (is_lost(client->load,
                is_current ? &client->load->requests[client->request].acks : &uncounted)) {
        return;
    }
    client->load->resets += message.type == MESSAGE_RST;
    if (message.type == MESSAGE_ACK && client->is_waiting && is_current) {
        client->is_acknowledged = true;
        client->due_ms = fake_net_now_ms() + PATIENCE_MS;
    }
}

/* --- the origin server -------------------------------------------------- */

static void origin_encode(const struct message *request, uint32_t n, struct load_reply *reply)
{
    char path[PATH_LEN + 1];
    struct message_writer writer;
    write_path(path, n);
    message_writer_init(&writer, reply->datagram, sizeof(reply->datagram), MESSAGE_ACK, CODE(2, 5),
                        request->mid, request->token);
    message_writer_payload(&writer, (struct bytes){(const uint8_t *)path, PATH_LEN});
    assert_false(writer.overflow);
    reply->len = writer.len;
}

/* A Ping (RFC 7252 section 4.3): a peer that is there says so. */
static void origin_on_ping(struct load *load, const struct fake_datagram *datagram)
{
    struct load_count uncounted = {0};
    load->origin_pings++;
    if (!is_lost(load, &uncounted) && !load->origin_is_silent && !is_lost(load, &uncounted)) {
        fake_peer_reply(load->replay->origin, datagram, "70 00 MID");
    }
}

/* A GET is safe: each copy of a request is answered anew, with the same answer. */
static void origin_on_datagram(void *context, struct fake_peer *peer,
                               const struct fake_datagram *datagram)
{
    (void)peer;
    struct load *load = context;
    struct message message;
    struct bytes path, query;
    assert_int_equal(message_decode(datagram->data, datagram->len, &message), MESSAGE_OK);
    load->origin_bytes += datagram->len;
    assert_int_equal(message.type, MESSAGE_CON);
    if (message.code == CODE_EMPTY) {
        origin_on_ping(load, datagram);
        return;
    }
    assert_int_equal(message.code, CODE_GET);
    assert_true(find_option(&message, OPTION_uri_path, &path));
    assert_true(find_option(&message, OPTION_uri_query, &query));
    uint32_t n = read_number(path);
    assert_true(n < load->request_count);
    assert_int_equal(read_number(query), n);
    load->origin_heard++;
    if (load->on_upstream != NULL) {
        load->on_upstream(datagram);
    }
    if (is_lost(load, &load->requests[n].upstream)) {
        return;
    }
    if (load->origin_is_silent) {
        load->requests[n].upstream.heard--;
        return;
    }
    assert_true(load->pending_count < LOAD_PENDING_MAX);
    struct load_reply *reply =
        &load->pending[(load->pending_first + load->pending_count++) % LOAD_PENDING_MAX];
    reply->due_ms = fake_net_now_ms() + load->options.origin_delay_ms;
    reply->to = datagram->from;
    reply->request = n;
    origin_encode(&message, n, reply);
}

static void origin_answer_due(struct load *load)
{
    while (load->pending_count > 0 &&
           load->pending[load->pending_first].due_ms <= fake_net_now_ms()) {
        struct load_reply *reply = &load->pending[load->pending_first];
        load->pending_first = (load->pending_first + 1) % LOAD_PENDING_MAX;
        load->pending_count--;
        if (!is_lost(load, &load->requests[reply->request].replies)) {
            fake_peer_send_bytes(load->replay->origin, &reply->to, reply->datagram, reply->len);
        }
    }
}

/* --- all together ------------------------------------------------------- */

void load_start(struct load *load, struct replay *replay, const struct load_options *options)
{
    assert_true(options->clients <= LOAD_CLIENTS_MAX);
    assert_true(options->requests <= LOAD_REQUESTS_MAX);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &proxy));
    memset(load, 0, sizeof(*load));
    load->replay = replay;
    load->options = *options;
    load->random = options->seed;
    fake_peer_on_datagram(replay->origin, origin_on_datagram, load);
    for (unsigned i = 0; i < options->clients; i++) {
        struct load_client *client = &load->clients[i];
        char address[32];
        snprintf(address, sizeof(address), "192.0.2.%u:%u", 10 + i % 200, 50000 + i);
        client->load = load;
        client->peer = fake_peer_new(address);
        client->mid = (uint16_t)test_random(&load->random);
        fake_peer_on_datagram(client->peer, client_on_datagram, client);
    }
    for (unsigned i = 0; i < options->clients; i++) {
        client_ask(&load->clients[i]);
    }
}

void load_run(struct load *load, uint64_t ms)
{
    for (; ms > 0; ms--) {
        fake_net_run(1);
        origin_answer_due(load);
        for (unsigned i = 0; i < load->options.clients; i++) {
            struct load_client *client = &load->clients[i];
            if (client->is_waiting && client->due_ms <= fake_net_now_ms()) {
                client_on_due(client);
            }
        }
    }
}

static uint32_t ended(const struct load *load)
{
    return load->answered + load->refused + load->abandoned;
}

void load_finish(struct load *load, uint64_t ms)
{
    for (; ms > 0 && ended(load) < load->request_count; ms--) {
        load_run(load, 1);
    }
    assert_int_equal(ended(load), load->request_count);
}

void load_stop_asking(struct load *load)
{
    load->options.requests = load->request_count;
}
