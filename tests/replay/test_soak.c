/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thousands of requests of all kinds over a bad network. Clients and origin servers
 * keep books; what is asked and what is answered carries the request's number and a
 * check value, so an answer that reaches the wrong client, or belongs to another
 * request, shows. At the end nothing may be left of any of it.
 *
 * TEST_SEED repeats a run.
 */
#include "replay/replay.h"

#include "coap/message.h"
#include "coap/option.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CLIENTS 24u
#define ORIGINS 8u
#define ASKS_MAX 16000u
#define OUTSTANDING_MAX 6u /* of one client */
#define DATAGRAM_MAX 160u
#define STEP_MS 50u

/* RFC 7252 section 4.8. */
#define ACK_TIMEOUT_MS 2000u
#define MAX_RETRANSMIT 4u
#define EXCHANGE_LIFETIME_MS 247000u

/* How long a client waits for an answer that it was promised. */
#define PATIENCE_MS 200000u

/* What becomes of a request at its origin server. */
enum manner {
    PIGGYBACKED,
    SEPARATE,
    AS_NON,
    LATE,
    SILENT,
    REFUSED,
    RESET,
    MIXED, /* any of the first four */
    MANNERS,
};

enum form {
    FORM_CRI,
    FORM_URI,
    FORM_SCHEME,
    FORM_NUMBER,
    FORMS,
};

struct ask {
    unsigned client, origin;
    bool is_con, is_safe;
    bool is_over, has_answer, was_promised;
    unsigned transmissions, served;
    uint64_t next_ms, timeout_ms;
    uint16_t mid;
    uint8_t code; /* of the answer */
    uint32_t len;
    uint8_t datagram[DATAGRAM_MAX];
};

struct asker {
    unsigned index;
    struct fake_peer *peer;
    bool is_rude; /* never acknowledges */
    uint16_t next_mid;
    uint32_t outstanding[OUTSTANDING_MAX];
    unsigned count;
};

/* What an origin server has done, or still has to do. */
struct deed {
    struct address from;
    uint64_t at_ms;
    uint32_t ask;
    uint16_t mid; /* of the request */
    enum manner manner;
    bool is_due, is_con;
    unsigned transmissions;
    uint64_t next_ms, timeout_ms;
    uint16_t own_mid;
    uint32_t len;
    uint8_t answer[64];
};

#define DEEDS_MAX 16384u /* by origin server, a ring */

struct server {
    unsigned index;
    struct fake_peer *peer;
    enum manner manner;
    uint16_t next_mid;
    uint32_t deed_count;
    struct deed deeds[DEEDS_MAX];
};

static struct {
    uint64_t random;
    bool is_corrupting;
    struct address proxy;
    struct asker clients[CLIENTS];
    struct server servers[ORIGINS];
    struct ask asks[ASKS_MAX];
    uint32_t ask_count;
    uint64_t done_again; /* requests that are not safe */
} soak;

static uint32_t below(uint32_t limit)
{
    return (uint32_t)test_random_below(&soak.random, limit);
}

/* One bit changed gives another value, so a damaged number is no other number. */
static uint32_t check_of(uint32_t ask)
{
    uint64_t state = ask;
    return (uint32_t)test_random(&state);
}

/* --- clients ------------------------------------------------------------ */

static void add_cri(struct message_writer *writer, unsigned origin, bool by_name,
                    const char *number, const char *check)
{
    uint8_t cri[64] = {0x83, 0x20, 0x81};
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
    message_writer_option(writer, OPTION_proxy_cri, (struct bytes){cri, len + 8});
}

static struct bytes text_bytes(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

static void add_target(struct message_writer *writer, enum form form, unsigned origin, uint32_t ask)
{
    char host[ADDRESS_TEXT_MAX], number[8], check[12], uri[128];
    bool by_name = below(2) == 0;
    snprintf(number, sizeof(number), "%06" PRIu32, ask);
    snprintf(check, sizeof(check), "%08" PRIx32, check_of(ask));
    if (by_name) {
        snprintf(host, sizeof(host), "o%u", origin);
    } else {
        address_format(fake_peer_address(soak.servers[origin].peer), host);
        *strrchr(host, ':') = '\0'; /* the port is the default one */
    }
    if (form == FORM_CRI) {
        add_cri(writer, origin, by_name, number, check);
        return;
    }
    if (form == FORM_URI) {
        snprintf(uri, sizeof(uri), "coap://%s/%s/%s", host, number, check);
        message_writer_option(writer, OPTION_proxy_uri, text_bytes(uri));
        return;
    }
    message_writer_option(writer, OPTION_uri_host, text_bytes(host));
    message_writer_option(writer, OPTION_uri_path, text_bytes(number));
    message_writer_option(writer, OPTION_uri_path, text_bytes(check));
    if (form == FORM_SCHEME) {
        message_writer_option(writer, OPTION_proxy_scheme, text_bytes("coap"));
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

static void begin(struct asker *client)
{
    uint32_t number = soak.ask_count++;
    struct ask *ask = &soak.asks[number];
    uint64_t noise = test_random(&soak.random);
    uint8_t token[8] = {(uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number};
    struct message_writer writer;
    memcpy(token + 3, &noise, 5);
    *ask = (struct ask){
        .client = client->index,
        .origin = below(ORIGINS),
        .is_con = below(4) != 0,
        .is_safe = below(3) != 0,
        .mid = client->next_mid++,
    };
    message_writer_init(
        &writer, ask->datagram, sizeof(ask->datagram), ask->is_con ? MESSAGE_CON : MESSAGE_NON,
        ask->is_safe ? CODE_GET : CODE_POST, ask->mid, (struct bytes){token, 3 + below(6)});
    add_target(&writer, (enum form)below(FORMS), ask->origin, number);
    assert_false(writer.overflow);
    ask->len = (uint32_t)writer.len;
    ask->timeout_ms = ACK_TIMEOUT_MS + below(1001);
    ask->next_ms = fake_net_now_ms() + (ask->is_con ? ask->timeout_ms : PATIENCE_MS);
    client->outstanding[client->count++] = number;
    transmit(ask);
}

static void end(struct asker *client, unsigned place)
{
    soak.asks[client->outstanding[place]].is_over = true;
    client->outstanding[place] = client->outstanding[--client->count];
}

static void go_on(struct asker *client, uint64_t now_ms)
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

/* Whose token it is; ASKS_MAX: nobody's, which only damage explains. */
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
             check_of(number));
    assert_true(message->payload.len < sizeof(text));
    memcpy(text, message->payload.data, message->payload.len);
    assert_string_equal(text, expected);
    assert_int_equal(message->code, ask->is_safe ? CODE(2, 5) : CODE(2, 4));
}

/* Whether damage on the way explains an answer that makes no sense. */
static bool is_excused(bool is_good)
{
    assert_true(is_good || soak.is_corrupting);
    return !is_good;
}

static void on_answer(struct asker *client, const struct message *message)
{
    uint32_t number = ask_of(message);
    if (is_excused(number < ASKS_MAX && soak.asks[number].client == client->index)) {
        return;
    }
    struct ask *ask = &soak.asks[number];
    if (is_excused(message->type != MESSAGE_ACK || message->mid == ask->mid)) {
        return;
    }
    /* Without (D)TLS a bit turned over in a payload is not noticed; UDP's checksum would. */
    if (!soak.is_corrupting) {
        prove(message, number, ask);
        /* Never piggybacked after a promise, and never two different answers. */
        assert_false(message->type == MESSAGE_ACK && ask->was_promised && !ask->has_answer);
        assert_true(!ask->has_answer || ask->code == message->code);
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

static void on_promise(const struct asker *client, const struct message *message)
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
    struct asker *client = context;
    struct message message;
    if (is_excused(message_decode(datagram->data, datagram->len, &message) == MESSAGE_OK)) {
        return;
    }
    if (message.code == CODE_EMPTY) {
        on_promise(client, &message);
    } else if (!is_excused(message_is_response(&message))) {
        if (message.type == MESSAGE_CON && !client->is_rude) {
            fake_peer_reply(peer, datagram, "60 00 MID");
        }
        on_answer(client, &message);
    }
}

/* --- origin servers ----------------------------------------------------- */

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

/* The number in the request's path, ASKS_MAX where it is damaged. */
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
                   check == check_of(number);
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
             check_of(deed->ask));
    message_writer_init(&writer, deed->answer, sizeof(deed->answer), types[deed->manner],
                        message->code == CODE_GET ? CODE(2, 5) : CODE(2, 4),
                        is_ack ? deed->mid : deed->own_mid, message->token);
    message_writer_payload(&writer, text_bytes(payload));
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
        .manner = server->manner == MIXED ? (enum manner)below(LATE + 1) : server->manner,
        .own_mid = server->next_mid++,
        .timeout_ms = ACK_TIMEOUT_MS + below(1001),
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
    deed->next_ms = deed->at_ms + below(6000);
}

static void on_request(struct server *server, const struct fake_datagram *datagram,
                       const struct message *message)
{
    uint32_t number = read_ask(message);
    struct deed *deed = deed_find(server, &datagram->from, message->mid);
    if (server->manner == SILENT || is_excused(number < ASKS_MAX)) {
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
    if (!is_excused(deed->ask == number) && deed->transmissions > 0 && !deed->is_con) {
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
    if (is_excused(message_decode(datagram->data, datagram->len, &message) == MESSAGE_OK)) {
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

static void work(struct server *server, uint64_t now_ms)
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

/* --- the whole ---------------------------------------------------------- */

static void make_clients(void)
{
    char address[64];
    for (unsigned i = 0; i < CLIENTS; i++) {
        snprintf(address, sizeof(address), "198.51.100.%u:%u", 1 + i / 3, 40001 + i);
        soak.clients[i] = (struct asker){
            .index = i,
            .peer = fake_peer_new(address),
            .next_mid = (uint16_t)below(65536),
        };
        fake_peer_on_datagram(soak.clients[i].peer, on_client_datagram, &soak.clients[i]);
    }
}

static void make_servers(void)
{
    char text[64], name[8];
    for (unsigned i = 0; i < ORIGINS; i++) {
        struct server *server = &soak.servers[i];
        bool is_ipv6 = i % 2 == 1;
        server->index = i;
        server->manner = (enum manner)i;
        server->next_mid = (uint16_t)below(65536);
        server->deed_count = 0;
        snprintf(text, sizeof(text), is_ipv6 ? "2001:db8::%u" : "203.0.113.%u", 10 + i);
        snprintf(name, sizeof(name), "o%u", i);
        fake_net_name(name, below(300), RESOLVE_OK, text);
        snprintf(text, sizeof(text), is_ipv6 ? "[2001:db8::%u]:5683" : "203.0.113.%u:5683", 10 + i);
        server->peer = fake_peer_new(text);
        fake_peer_on_datagram(server->peer, on_server_datagram, server);
        if (server->manner == REFUSED) {
            fake_net_refuse(text, ECONNREFUSED);
        }
    }
}

static void step(bool is_asking)
{
    uint64_t now_ms = fake_net_now_ms();
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct asker *client = &soak.clients[i];
        go_on(client, now_ms);
        if (is_asking && client->count < OUTSTANDING_MAX && below(4) == 0) {
            begin(client);
        }
    }
    for (unsigned i = 0; i < ORIGINS; i++) {
        work(&soak.servers[i], now_ms);
    }
    fake_net_run(STEP_MS);
}

static void run(uint32_t count)
{
    while (soak.ask_count < count) {
        step(soak.ask_count + CLIENTS <= count || below(8) == 0);
        if (soak.ask_count + CLIENTS > ASKS_MAX) {
            break;
        }
    }
    for (unsigned i = 0; i < 400000 / STEP_MS; i++) {
        step(false);
    }
}

static uint64_t print_reasons(const struct replay *replay)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < REASON_COUNT; i++) {
        uint64_t count = replay_ended(replay, (enum reason)i);
        if (count > 0) {
            print_message("    %6" PRIu64 " %s\n", count, reason_row((enum reason)i)->name);
        }
        sum += count;
    }
    return sum;
}

struct plan {
    const char *name;
    struct fake_link link;
    uint32_t asks;
    unsigned rude_percent;
    const char *settings[8];
};

/* Every CON of a polite client ends in an answer, or its silence is explained. */
static void expect_answers(const struct replay *replay, const struct plan *plan)
{
    uint64_t unanswered = 0, unheard = 0, broken_promises = 0;
    for (uint32_t i = 0; i < soak.ask_count; i++) {
        const struct ask *ask = &soak.asks[i];
        assert_true(ask->is_over);
        if (!ask->is_con || ask->has_answer) {
            continue;
        }
        unanswered++;
        broken_promises += ask->was_promised;
        unheard += !ask->was_promised;
    }
    print_message("    unanswered CON: %" PRIu64 ", of them promised %" PRIu64 "\n", unanswered,
                  broken_promises);
    if (plan->rude_percent > 0 || soak.is_corrupting) {
        return;
    }
    /* The answer got lost five times over, or so did the request. */
    assert_true(broken_promises <= replay_ended(replay, REASON_client_unreachable));
    assert_true(unheard <= 10 + soak.ask_count / 500);
    if (plan->link.loss_percent == 0) {
        assert_int_equal(unanswered, 0);
    }
}

static void soak_with(const struct plan *plan)
{
    static struct replay replay;
    print_message("  %s\n", plan->name);
    replay_start(&replay, plan->settings);
    memset(soak.asks, 0, sizeof(soak.asks));
    soak.ask_count = 0;
    soak.done_again = 0;
    soak.is_corrupting = plan->link.corrupt_percent > 0;
    soak.proxy = *udp_local(replay.engine->listeners[0].socket);
    make_clients();
    make_servers();
    for (unsigned i = 0; i < CLIENTS; i++) {
        soak.clients[i].is_rude = below(100) < plan->rude_percent;
    }
    fake_net_set_link(&plan->link);
    run(plan->asks);
    const struct fake_net_stats *stats = fake_net_stats();
    print_message("    %" PRIu32 " requests, %" PRIu64 " datagrams, %" PRIu64 " lost, %" PRIu64
                  " doubled, %" PRIu64 " damaged\n",
                  soak.ask_count, stats->sent, stats->lost, stats->duplicated, stats->corrupted);
    assert_int_equal(print_reasons(&replay), replay_metric(&replay, requests));
    expect_answers(&replay, plan);
    /* MSG-15, MSG-17: what is not safe is done once, as far as the tables reach. */
    uint64_t evicted =
        replay_metric(&replay, clients_evicted) + replay_metric(&replay, dedup_evicted);
    print_message("    done again: %" PRIu64 ", evicted: %" PRIu64 "\n", soak.done_again, evicted);
    assert_true(soak.done_again <= evicted || soak.is_corrupting);
    fake_net_set_link(&(struct fake_link){0});
    replay_stop(&replay);
}

/* MSG-15, MSG-17, MSG-25, MSG-31, ERR-15 and whatever else can go wrong together. */
static void test_soak(void **state)
{
    static const struct plan plans[] = {
        {"a good network", {.delay_min_ms = 1, .delay_max_ms = 40}, 8000, 0, {NULL}},
        {"loss, duplicates, reordering",
         {.delay_min_ms = 5,
          .delay_max_ms = 120,
          .loss_percent = 10,
          .duplicate_percent = 10,
          .reorder_percent = 20},
         12000,
         0,
         {NULL}},
        {"clients that do not acknowledge",
         {.delay_min_ms = 1, .delay_max_ms = 400, .loss_percent = 5, .duplicate_percent = 5},
         6000,
         50,
         {NULL}},
        {"damage as well",
         {.delay_min_ms = 1,
          .delay_max_ms = 100,
          .loss_percent = 10,
          .duplicate_percent = 10,
          .reorder_percent = 10,
          .corrupt_percent = 20},
         12000,
         20,
         {NULL}},
        {"small tables",
         {.delay_min_ms = 1, .delay_max_ms = 60, .loss_percent = 5, .duplicate_percent = 5},
         12000,
         30,
         {"limits.exchanges=60", "limits.exchanges-per-client=4", "limits.clients=16",
          "limits.origin-queue=3", "limits.origins=16", "limits.dedup-bytes=64KiB", NULL}},
    };
    (void)state;
    soak.random = test_seed();
    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        soak_with(&plans[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_soak)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
