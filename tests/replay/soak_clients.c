/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients of a soak: what they have asked, were promised and were told. */
#include "replay/soak.h"

#include "coap/option.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum form {
    FORM_CRI,
    FORM_URI,
    FORM_SCHEME,
    FORM_NUMBER,
    FORMS,
};

static void add_cri(struct message_writer *writer, unsigned origin, bool by_name,
                    const char *number, const char *check, const char *query)
{
    uint8_t cri[80] = {0x84, 0x20, 0x81};
    size_t len = 3, ip_len = 0;
    const struct address *address = fake_peer_address(soak.servers[origin].peer);
    if (by_name) {
        cri[len++] = 0x62;
        cri[len++] = 'o';
        cri[len++] = (uint8_t)('0' + origin);
    } else {
        ip_len = address_ip_len(address);
        cri[len++] = (uint8_t)(0x40 + ip_len);
        memcpy(cri + len, address->ip, ip_len);
        len += ip_len;
    }
    cri[len++] = 0x82;
    cri[len++] = 0x66;
    memcpy(cri + len, number, 6);
    len += 6;
    cri[len++] = 0x68;
    memcpy(cri + len, check, 8);
    len += 8;
    cri[len++] = 0x81;
    cri[len++] = 0x60 + SOAK_QUERY_LEN;
    memcpy(cri + len, query, SOAK_QUERY_LEN);
    message_writer_option(writer, OPTION_proxy_cri, (struct bytes){cri, len + SOAK_QUERY_LEN});
}

static void add_target(struct message_writer *writer, enum form form, unsigned origin, uint32_t ask)
{
    char host[ADDRESS_TEXT_MAX], number[8], check[12], query[SOAK_QUERY_LEN + 1], uri[128];
    bool by_name = soak_below(2) == 0;
    snprintf(number, sizeof(number), "%06" PRIu32, ask);
    snprintf(check, sizeof(check), "%08" PRIx32, soak_check_of(ask));
    soak_query(ask, query);
    if (by_name) {
        snprintf(host, sizeof(host), "o%u", origin);
    } else {
        address_format(fake_peer_address(soak.servers[origin].peer), host);
        *strrchr(host, ':') = '\0'; /* the port is the default one */
    }
    if (form == FORM_CRI) {
        add_cri(writer, origin, by_name, number, check, query);
        return;
    }
    if (form == FORM_URI) {
        snprintf(uri, sizeof(uri), "coap://%s/%s/%s?%s", host, number, check, query);
        message_writer_option(writer, OPTION_proxy_uri, soak_text_bytes(uri));
        return;
    }
    message_writer_option(writer, OPTION_uri_host, soak_text_bytes(host));
    message_writer_option(writer, OPTION_uri_path, soak_text_bytes(number));
    message_writer_option(writer, OPTION_uri_path, soak_text_bytes(check));
    message_writer_option(writer, OPTION_uri_query, soak_text_bytes(query));
    if (form == FORM_SCHEME) {
        message_writer_option(writer, OPTION_proxy_scheme, soak_text_bytes("coap"));
    } else {
        message_writer_option_uint(writer, OPTION_proxy_scheme_number, 0);
    }
}

/* The token leads back to the request: three bytes of number, up to five of noise. */
static void transmit(struct ask *ask)
{
    ask->transmissions++;
    fake_peer_send_bytes(soak.clients[ask->client].peer, &soak.proxy, ask->datagram, ask->len);
}

void soak_begin(struct soak_client *client)
{
    uint32_t number = soak.ask_count++;
    struct ask *ask = &soak.asks[number];
    uint64_t noise = test_random(&soak.random);
    uint8_t token[8] = {(uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number};
    struct message_writer writer;
    memcpy(token + 3, &noise, 5);
    *ask = (struct ask){
        .client = client->index,
        .origin = soak_below(ORIGINS),
        .is_con = soak_below(4) != 0,
        .is_safe = soak_below(3) != 0,
        .mid = client->next_mid++,
    };
    message_writer_init(
        &writer, ask->datagram, sizeof(ask->datagram), ask->is_con ? MESSAGE_CON : MESSAGE_NON,
        ask->is_safe ? CODE_GET : CODE_POST, ask->mid, (struct bytes){token, 3 + soak_below(6)});
    add_target(&writer, (enum form)soak_below(FORMS), ask->origin, number);
    assert_false(writer.overflow);
    ask->len = (uint32_t)writer.len;
    ask->timeout_ms = ACK_TIMEOUT_MS + soak_below(1001);
    ask->next_ms = fake_net_now_ms() + (ask->is_con ? ask->timeout_ms : PATIENCE_MS);
    client->outstanding[client->count++] = number;
    transmit(ask);
}

static void end(struct soak_client *client, unsigned place)
{
    soak.asks[client->outstanding[place]].is_over = true;
    client->outstanding[place] = client->outstanding[--client->count];
}

void soak_go_on(struct soak_client *client, uint64_t now_ms)
{
    for (unsigned i = 0; i < client->count; i++) {
        struct ask *ask = &soak.asks[client->outstanding[i]];
        if (now_ms < ask->next_ms) {
            continue;
        }
        if (!ask->is_con || ask->was_promised || ask->transmissions > MAX_RETRANSMIT) {
            end(client, i--);
            continue;
        }
        ask->timeout_ms *= 2;
        ask->next_ms = now_ms + ask->timeout_ms;
        transmit(ask);
    }
}

/* Whose token it is; ASKS_MAX: no client's, which only damage explains. */
static uint32_t ask_of(const struct message *message)
{
    if (message->token.len < 3) {
        return ASKS_MAX;
    }
    uint32_t number = (uint32_t)message->token.data[0] << 16 |
                      (uint32_t)message->token.data[1] << 8 | message->token.data[2];
    struct message asked;
    if (number >= soak.ask_count ||
        message_decode(soak.asks[number].datagram, soak.asks[number].len, &asked) != MESSAGE_OK ||
        asked.token.len != message->token.len ||
        memcmp(asked.token.data, message->token.data, asked.token.len) != 0) {
        return ASKS_MAX;
    }
    return number;
}

/* The answer's payload proves whose it is: "NNNNNN/O/CCCCCCCC" of the origin server. */
static void prove(const struct message *message, uint32_t number, const struct ask *ask)
{
    char expected[32], text[32] = {0};
    unsigned class = CODE_CLASS(message->code);
    if (class != 2) {
        assert_true(class == 5 || (class == 4 && CODE_DETAIL(message->code) == 29));
        return;
    }
    snprintf(expected, sizeof(expected), "%06" PRIu32 "/%u/%08" PRIx32, number, ask->origin,
             soak_check_of(number));
    assert_true(message->payload.len < sizeof(text));
    memcpy(text, message->payload.data, message->payload.len);
    assert_string_equal(text, expected);
    assert_int_equal(message->code, ask->is_safe ? CODE(2, 5) : CODE(2, 4));
}

/* One that made room for others was told so, once; what it repeats is new to the proxy. */
static bool may_be_forgotten(void)
{
    return replay_metric(soak.replay, clients_displaced) > 0;
}

static bool is_same_or_displaced(const struct ask *ask, uint8_t code)
{
    return ask->code == code ||
           (may_be_forgotten() && (ask->code == CODE(5, 3) || code == CODE(5, 3)));
}

static void on_answer(struct soak_client *client, const struct message *message)
{
    uint32_t number = ask_of(message);
    if (soak_is_excused(number < ASKS_MAX && soak.asks[number].client == client->index)) {
        return;
    }
    struct ask *ask = &soak.asks[number];
    if (soak_is_excused(message->type != MESSAGE_ACK || message->mid == ask->mid)) {
        return;
    }
    /* Without (D)TLS a bit turned over in a payload is not noticed; UDP's checksum would. */
    if (!soak.is_corrupting) {
        prove(message, number, ask);
        /* Never piggybacked after a promise, and never two different answers. */
        assert_false(message->type == MESSAGE_ACK && ask->was_promised && !ask->has_answer &&
                     !may_be_forgotten());
        assert_true(!ask->has_answer || is_same_or_displaced(ask, message->code));
    }
    ask->has_answer = true;
    ask->code = message->code;
    for (unsigned i = 0; i < client->count; i++) {
        if (client->outstanding[i] == number) {
            end(client, i);
            break;
        }
    }
}

static void on_promise(const struct soak_client *client, const struct message *message)
{
    for (unsigned i = 0; i < client->count; i++) {
        struct ask *ask = &soak.asks[client->outstanding[i]];
        if (ask->mid == message->mid && ask->is_con) {
            assert_true(message->type == MESSAGE_ACK || soak.is_corrupting);
            ask->was_promised = true;
            ask->next_ms = fake_net_now_ms() + PATIENCE_MS;
        }
    }
}

static void on_client_datagram(void *context, struct fake_peer *peer,
                               const struct fake_datagram *datagram)
{
    struct soak_client *client = context;
    struct message message;
    if (soak_is_excused(message_decode(datagram->data, datagram->len, &message) == MESSAGE_OK)) {
        return;
    }
    if (message.code == CODE_EMPTY) {
        on_promise(client, &message);
    } else if (!soak_is_excused(message_is_response(&message))) {
        if (message.type == MESSAGE_CON && !client->is_rude) {
            fake_peer_reply(peer, datagram, "60 00 MID");
        }
        on_answer(client, &message);
    }
}

void soak_make_clients(void)
{
    char address[64];
    for (unsigned i = 0; i < CLIENTS; i++) {
        snprintf(address, sizeof(address), "198.51.100.%u:%u", 1 + i / 3, 40001 + i);
        soak.clients[i] = (struct soak_client){
            .index = i,
            .peer = fake_peer_new(address),
            .next_mid = (uint16_t)soak_below(65536),
        };
        fake_peer_on_datagram(soak.clients[i].peer, on_client_datagram, &soak.clients[i]);
    }
}
