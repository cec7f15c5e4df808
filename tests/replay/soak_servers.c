/* SPDX-License-Identifier: BSD-2-Clause */
/* Origin servers of a soak: what they were asked, and how they answer. */
#include "replay/soak.h"

#include "coap/option.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct deed *deed_find(struct server *server, const struct address *from, uint16_t mid)
{
    uint64_t now_ms = fake_net_now_ms();
    uint32_t first = server->deed_count > DEEDS_MAX ? server->deed_count - DEEDS_MAX : 0;
    for (uint32_t i = server->deed_count; i > first; i--) {
        struct deed *deed = &server->deeds[(i - 1) % DEEDS_MAX];
        if (deed->mid == mid && address_equal(&deed->from, from) &&
            now_ms - deed->at_ms < EXCHANGE_LIFETIME_MS) {
            return deed;
        }
    }
    return NULL;
}

static void send_answer(struct server *server, struct deed *deed)
{
    deed->transmissions++;
    if (deed->len > 0) {
        fake_peer_send_bytes(server->peer, &deed->from, deed->answer, deed->len);
    }
}

static void send_empty(const struct server *server, const struct address *to,
                       enum message_type type, uint16_t mid)
{
    uint8_t empty[4];
    struct message_writer writer;
    message_writer_init(&writer, empty, sizeof(empty), type, CODE_EMPTY, mid, (struct bytes){0});
    fake_peer_send_bytes(server->peer, to, empty, sizeof(empty));
}

static bool has_query(struct bytes options, uint32_t number)
{
    char query[SOAK_QUERY_LEN + 1];
    struct bytes value;
    soak_query(number, query);
    return option_find(options, OPTION_uri_query, &value) && value.len == SOAK_QUERY_LEN &&
           memcmp(value.data, query, SOAK_QUERY_LEN) == 0;
}

/* The number in the request's path, ASKS_MAX where it, or the query, is damaged. */
static uint32_t read_ask(const struct message *message)
{
    struct option_iter iter;
    struct option option;
    char text[2][12] = {"", ""};
    unsigned segments = 0, number = ASKS_MAX, check = 0;
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        if (option.number == OPTION_uri_path && segments < 2 && option.value.len < 12) {
            memcpy(text[segments++], option.value.data, option.value.len);
        }
    }
    bool is_good = segments == 2 && sscanf(text[0], "%6u", &number) == 1 &&
                   sscanf(text[1], "%8x", &check) == 1 && number < soak.ask_count &&
                   check == soak_check_of(number) && has_query(message->options, number);
    return is_good ? number : ASKS_MAX;
}

static void make_answer(const struct server *server, struct deed *deed,
                        const struct message *message)
{
    static const enum message_type types[MANNERS] = {[PIGGYBACKED] = MESSAGE_ACK,
                                                     [LATE] = MESSAGE_ACK,
                                                     [SEPARATE] = MESSAGE_CON,
                                                     [AS_NON] = MESSAGE_NON};
    char payload[32];
    struct message_writer writer;
    bool is_ack = types[deed->manner] == MESSAGE_ACK;
    snprintf(payload, sizeof(payload), "%06" PRIu32 "/%u/%08" PRIx32, deed->ask, server->index,
             soak_check_of(deed->ask));
    message_writer_init(&writer, deed->answer, sizeof(deed->answer), types[deed->manner],
                        message->code == CODE_GET ? CODE(2, 5) : CODE(2, 4),
                        is_ack ? deed->mid : deed->own_mid, message->token);
    message_writer_payload(&writer, soak_text_bytes(payload));
    assert_false(writer.overflow);
    deed->len = (uint32_t)writer.len;
}

static void begin_deed(struct server *server, const struct fake_datagram *datagram,
                       const struct message *message, uint32_t number)
{
    struct deed *deed = &server->deeds[server->deed_count++ % DEEDS_MAX];
    *deed = (struct deed){
        .from = datagram->from,
        .at_ms = fake_net_now_ms(),
        .ask = number,
        .mid = message->mid,
        .manner = server->manner == MIXED ? (enum manner)soak_below(LATE + 1) : server->manner,
        .own_mid = server->next_mid++,
        .timeout_ms = ACK_TIMEOUT_MS + soak_below(1001),
    };
    if (deed->manner == RESET) {
        send_empty(server, &deed->from, MESSAGE_RST, deed->mid);
        return;
    }
    make_answer(server, deed, message);
    if (deed->manner == PIGGYBACKED || deed->manner == AS_NON) {
        send_answer(server, deed);
        return;
    }
    if (deed->manner == SEPARATE) {
        send_empty(server, &deed->from, MESSAGE_ACK, deed->mid);
    }
    deed->is_con = deed->manner == SEPARATE;
    deed->is_due = true;
    deed->next_ms = deed->at_ms + soak_below(6000);
}

static void on_request(struct server *server, const struct fake_datagram *datagram,
                       const struct message *message)
{
    uint32_t number = read_ask(message);
    struct deed *deed = deed_find(server, &datagram->from, message->mid);
    if (server->manner == SILENT || soak_is_excused(number < ASKS_MAX)) {
        return;
    }
    if (deed == NULL) {
        struct ask *ask = &soak.asks[number];
        ask->served++;
        soak.done_again += !ask->is_safe && ask->served > 1;
        assert_true(ask->origin == server->index || soak.is_corrupting);
        begin_deed(server, datagram, message, number);
        return;
    }
    /* MSG-14: no message id for two requests within its lifetime. */
    if (!soak_is_excused(deed->ask == number) && deed->transmissions > 0 && !deed->is_con) {
        send_answer(server, deed);
    } else if (deed->is_con) {
        send_empty(server, &deed->from, MESSAGE_ACK, deed->mid);
    }
}

static void on_server_datagram(void *context, struct fake_peer *peer,
                               const struct fake_datagram *datagram)
{
    struct server *server = context;
    struct message message;
    (void)peer;
    if (soak_is_excused(message_decode(datagram->data, datagram->len, &message) == MESSAGE_OK)) {
        return;
    }
    if (message_is_request(&message)) {
        on_request(server, datagram, &message);
        return;
    }
    for (uint32_t i = 0; i < server->deed_count && i < DEEDS_MAX; i++) {
        struct deed *deed = &server->deeds[i];
        if (deed->is_con && deed->own_mid == message.mid) {
            deed->is_due = false; /* acknowledged, or rejected because it came too late */
        }
    }
}

void soak_work(struct server *server, uint64_t now_ms)
{
    uint32_t first = server->deed_count > 2000 ? server->deed_count - 2000 : 0;
    for (uint32_t i = first; i < server->deed_count; i++) {
        struct deed *deed = &server->deeds[i % DEEDS_MAX];
        if (!deed->is_due || now_ms < deed->next_ms) {
            continue;
        }
        send_answer(server, deed);
        deed->is_due = deed->is_con && deed->transmissions <= MAX_RETRANSMIT;
        deed->next_ms = now_ms + deed->timeout_ms;
        deed->timeout_ms *= 2;
    }
}

void soak_make_servers(void)
{
    char text[64], name[8];
    for (unsigned i = 0; i < ORIGINS; i++) {
        struct server *server = &soak.servers[i];
        bool is_ipv6 = i % 2 == 1;
        server->index = i;
        server->manner = (enum manner)i;
        server->next_mid = (uint16_t)soak_below(65536);
        server->deed_count = 0;
        snprintf(text, sizeof(text), is_ipv6 ? "2001:db8::%u" : "203.0.113.%u", 10 + i);
        snprintf(name, sizeof(name), "o%u", i);
        fake_net_name(name, soak_below(300), RESOLVE_OK, text);
        snprintf(text, sizeof(text), is_ipv6 ? "[2001:db8::%u]:5683" : "203.0.113.%u:5683", 10 + i);
        server->peer = fake_peer_new(text);
        fake_peer_on_datagram(server->peer, on_server_datagram, server);
        if (server->manner == REFUSED) {
            fake_net_refuse(text, ECONNREFUSED);
        }
    }
}
