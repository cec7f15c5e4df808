/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many observers of one resource, on good and bad networks: all see the last state,
 * no client sees the states go back, and nothing grows (issue 6; OBS-5, OBS-11, OBS-22).
 */
#include "replay/observers.h"

#include "coap/option.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CLIENTS_MAX 1000u
#define TICK_MS 100u /* ten changes a second */
#define RETRY_MS 3000u

struct visitor {
    struct fake_peer *peer;
    struct observe_mark mark;
    uint64_t next_try_ms; /* of the registration; 0: it is answered */
    uint32_t state, seen; /* the last state, and how many */
    uint16_t mid;         /* of its registration */
    bool is_answered, is_killed;
    uint32_t errors;
};

struct origin_server {
    struct fake_peer *peer;
    struct address proxy;
    uint8_t token[8];
    bool is_registered;
    uint32_t state, number;
    uint16_t mid;    /* of the last notification */
    bool is_unheard; /* it has not been acknowledged */
    uint64_t sent_ms;
    uint32_t registrations, deregistrations, most; /* as they came, repetitions left out */
    uint16_t last_request;
    uint32_t max_age_s;
};

static struct visitor clients[CLIENTS_MAX];
static unsigned client_count;
static struct origin_server origin;

/* --- the origin server -------------------------------------------------- */

static void send_state(enum message_type type, uint16_t mid, struct bytes token, bool has_observe)
{
    uint8_t buffer[64], payload[4] = {(uint8_t)(origin.state >> 24), (uint8_t)(origin.state >> 16),
                                      (uint8_t)(origin.state >> 8), (uint8_t)origin.state};
    struct message_writer writer;
    message_writer_init(&writer, buffer, sizeof(buffer), type, CODE(2, 5), mid, token);
    if (has_observe) {
        message_writer_option_uint(&writer, OPTION_observe, origin.number++ & OBSERVE_NUMBER_MAX);
    }
    message_writer_option_uint(&writer, OPTION_max_age, origin.max_age_s);
    message_writer_payload(&writer, (struct bytes){payload, sizeof(payload)});
    assert_false(writer.overflow);
    fake_peer_send_bytes(origin.peer, &origin.proxy, buffer, writer.len);
}

static void tell_state(void)
{
    origin.is_unheard = true;
    origin.sent_ms = fake_net_now_ms();
    send_state(MESSAGE_CON, ++origin.mid, (struct bytes){origin.token, sizeof(origin.token)}, true);
}

static void on_request(const struct message *message, const struct fake_datagram *datagram)
{
    struct option_iter iter;
    struct option option;
    uint32_t observe = UINT32_MAX;
    struct bytes path, query;
    assert_true(option_find(message->options, OPTION_uri_path, &path));
    assert_true(option_find(message->options, OPTION_uri_query, &query));
    assert_true(path.len == 1 && path.data[0] == 'x' && query.len == 1 && query.data[0] == 'k');
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        observe = option.number == OPTION_observe ? option_uint(option.value) : observe;
    }
    bool is_new = message->mid != origin.last_request;
    origin.last_request = message->mid;
    origin.proxy = datagram->from;
    assert_int_equal(message->token.len, sizeof(origin.token));
    if (observe == OBSERVE_REGISTER) {
        origin.registrations += is_new;
        memcpy(origin.token, message->token.data, sizeof(origin.token));
        origin.is_registered = true;
    } else if (observe == OBSERVE_DEREGISTER) {
        origin.deregistrations += is_new;
        assert_true(!is_new || memcmp(origin.token, message->token.data, 8) == 0);
        origin.is_registered = false;
    }
    send_state(MESSAGE_ACK, message->mid, message->token, observe == OBSERVE_REGISTER);
}

static void on_origin_datagram(void *context, struct fake_peer *peer,
                               const struct fake_datagram *datagram)
{
    struct message message;
    (void)context;
    (void)peer;
    if (message_decode(datagram->data, datagram->len, &message) != MESSAGE_OK) {
        fail();
    }
    if (message_is_request(&message)) {
        on_request(&message, datagram);
    } else if (message.type == MESSAGE_RST) {
        origin.is_registered = false;
    } else if (message.mid == origin.mid) {
        origin.is_unheard = false;
    }
}

/* --- the clients -------------------------------------------------------- */

static void ask(struct visitor *client)
{
    char mid[5];
    snprintf(mid, sizeof(mid), "%04x", client->mid);
    client->next_try_ms = fake_net_now_ms() + RETRY_MS;
    fake_peer_send(client->peer, PROXY, REGISTER(mid, "aa"));
}

static void see(struct visitor *client, const struct message *message)
{
    struct option_iter iter;
    struct option option;
    bool has_observe = false;
    uint32_t number = 0;
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        if (option.number == OPTION_observe) {
            has_observe = true;
            number = option_uint(option.value);
        }
    }
    if (CODE_CLASS(message->code) != 2 || !has_observe) {
        client->errors++;
        return;
    }
    assert_int_equal(message->payload.len, 4);
    uint32_t state = (uint32_t)message->payload.data[0] << 24 |
                     (uint32_t)message->payload.data[1] << 16 |
                     (uint32_t)message->payload.data[2] << 8 | message->payload.data[3];
    uint64_t now_ms = fake_net_now_ms();
    if (client->seen > 0 && !observe_is_newer(&client->mark, number, now_ms)) {
        return; /* reordered or repeated: the client's own rule */
    }
    if (state < client->state) {
        fail_msg("state %u after %u, numbers %u and %u", state, client->state, number,
                 client->mark.number);
    }
    client->mark = (struct observe_mark){number, now_ms};
    client->state = state;
    client->seen++;
}

static void on_client_datagram(void *context, struct fake_peer *peer,
                               const struct fake_datagram *datagram)
{
    struct visitor *client = context;
    struct message message;
    if (client->is_killed) {
        return;
    }
    if (message_decode(datagram->data, datagram->len, &message) != MESSAGE_OK) {
        fail();
    }
    client->next_try_ms = 0; /* acknowledged at least */
    if (message.type == MESSAGE_CON) {
        uint8_t ack[4] = {0x60, 0, (uint8_t)(message.mid >> 8), (uint8_t)message.mid};
        fake_peer_send_bytes(peer, &datagram->from, ack, sizeof(ack));
    }
    if (message.code != CODE_EMPTY) {
        client->is_answered = true;
        see(client, &message);
    }
}

/* --- both --------------------------------------------------------------- */

static void start(unsigned count, uint32_t max_age_s, const char *const *settings)
{
    replay_start(&replay, settings);
    origin =
        (struct origin_server){.peer = replay.origin, .max_age_s = max_age_s, .state = 1, .mid = 7};
    fake_peer_on_datagram(replay.origin, on_origin_datagram, NULL);
    memset(clients, 0, sizeof(clients));
    client_count = count;
    for (unsigned i = 0; i < count; i++) {
        char address[32];
        snprintf(address, sizeof(address), "10.1.%u.%u:40000", i / 250, i % 250 + 1);
        clients[i].peer = fake_peer_new(address);
        clients[i].mid = (uint16_t)i;
        fake_peer_on_datagram(clients[i].peer, on_client_datagram, &clients[i]);
        ask(&clients[i]);
    }
    fake_net_run(0);
}

/* Let @p ms pass, in ticks. */
static void run(uint64_t ms, bool changes)
{
    for (uint64_t left = ms / TICK_MS; left > 0; left--) {
        uint64_t now_ms = fake_net_now_ms();
        origin.state += changes;
        if (origin.is_registered &&
            (changes || (origin.is_unheard && now_ms - origin.sent_ms >= RETRY_MS))) {
            tell_state();
        }
        for (unsigned i = 0; i < client_count; i++) {
            struct visitor *client = &clients[i];
            if (client->next_try_ms != 0 && now_ms >= client->next_try_ms && !client->is_killed) {
                ask(client);
            }
        }
        fake_net_run(TICK_MS);
        uint32_t in_use = (uint32_t)engine_in_flight(replay.engine);
        origin.most = in_use > origin.most ? in_use : origin.most;
    }
}

static void expect_all_see_the_last_state(void)
{
    for (unsigned i = 0; i < client_count; i++) {
        if (!clients[i].is_killed && clients[i].state != origin.state) {
            fail_msg("client %u: state %u of %u, %u seen", i, clients[i].state, origin.state,
                     clients[i].seen);
        }
    }
}

static void stop(void)
{
    struct fake_link good = {0};
    fake_net_set_link(&good);
    engine_drain(replay.engine);
    run(120000, false);
    replay_stop(&replay);
}

static uint64_t total_seen(void)
{
    uint64_t seen = 0;
    for (unsigned i = 0; i < client_count; i++) {
        seen += clients[i].seen;
    }
    return seen;
}

static void test_1000_observers_of_one_resource_that_changes_ten_times_a_second(void **state)
{
    (void)state;
    static const struct fake_link link = {.delay_min_ms = 1, .delay_max_ms = 30};
    start(1000, 60, NULL);
    fake_net_set_link(&link);
    run(2000, true);
    uint64_t bytes = replay.engine->client.observations.bytes;
    assert_int_equal(replay_metric(&replay, observers), 1000);
    assert_int_equal(origin.registrations, 1);
    run(60000, true);
    assert_int_equal(replay.engine->client.observations.bytes, bytes);
    assert_int_equal(engine_in_flight(replay.engine), 1);
    assert_int_equal(replay_metric(&replay, observations), 1);
    run(1000, false);
    expect_all_see_the_last_state();
    assert_int_equal(origin.registrations, 1);
    /* 620 states, each of which reaches nearly all: a round trip is shorter than a tick. */
    assert_true(total_seen() > 1000u * 600u);
    print_message("%" PRIu64 " notifications, %" PRIu64 " states superseded\n",
                  replay_metric(&replay, notifications_sent),
                  replay_metric(&replay, notifications_superseded));
    stop();
}

/* A path of two seconds: a state every two seconds reaches each of them, and it is the newest. */
static void test_slow_clients_get_the_newest_state(void **state)
{
    (void)state;
    static const struct fake_link link = {.delay_min_ms = 900, .delay_max_ms = 1100};
    start(100, 60, NULL);
    run(1000, false);
    fake_net_set_link(&link);
    run(60000, true);
    for (unsigned i = 0; i < client_count; i++) {
        assert_in_range(clients[i].seen, 15, 60);
        /* What was sent when the last round trip began, 1.1 s before, through one as long. */
        assert_in_range(clients[i].state, origin.state - 60, origin.state);
    }
    run(20000, false);
    expect_all_see_the_last_state();
    stop();
}

/* Loss of 20 % each way, reordering, repetition; and the same with NON notifications. */
static void lossy(const char *const *settings, bool must_converge)
{
    const struct fake_link link = {.delay_min_ms = 5,
                                   .delay_max_ms = 80,
                                   .loss_percent = 20,
                                   .duplicate_percent = 5,
                                   .reorder_percent = 10};
    start(100, 60, settings);
    fake_net_set_link(&link);
    run(20000, false);
    unsigned killed = 0, lost = 0;
    for (unsigned i = 0; i < client_count; i++) {
        clients[i].is_killed = i % 10 == 3;
        killed += clients[i].is_killed;
    }
    run(120000, true);
    run(100000, false);
    for (unsigned i = 0; i < client_count; i++) {
        /* All five transmissions or their acknowledgements were lost: given up, as RFC 7641
         * section 4.5 says, with 0.36^5 = 0.6 % each time. Such a client asks again when its
         * Max-Age has passed. */
        lost += !clients[i].is_killed && clients[i].state != origin.state;
    }
    print_message("of %u: %u killed, %u behind, %" PRIu64 " removed, %" PRIu64
                  " late notifications upstream\n",
                  client_count, killed, lost, replay_metric(&replay, observers_lost),
                  replay_metric(&replay, notifications_late));
    /* A killed client is found out; no observer is behind unless it was given up. */
    assert_true(replay_metric(&replay, observers_lost) >= killed);
    assert_true(!must_converge || lost <= replay_metric(&replay, observers_lost) - killed);
    /* The client's side: after Max-Age it registers again, and all is well. */
    for (unsigned i = 0; i < client_count; i++) {
        if (!clients[i].is_killed && clients[i].state != origin.state) {
            clients[i].mid = (uint16_t)(clients[i].mid + 1000);
            ask(&clients[i]);
        }
    }
    run(100000, false);
    if (must_converge) {
        expect_all_see_the_last_state();
    }
    stop();
}

static void test_loss_of_20_percent_loses_no_last_state(void **state)
{
    (void)state;
    lossy(NULL, true);
}

static void test_loss_of_20_percent_with_non_keeps_the_order(void **state)
{
    (void)state;
    static const char *const settings[] = {"observe.notifications=non", NULL};
    lossy(settings, false);
}

/* It forgets everything and begins its numbers anew; clients hear of it after Max-Age. */
static void test_origin_server_is_restarted(void **state)
{
    (void)state;
    start(50, 20, NULL);
    run(10000, true);
    uint32_t before = origin.registrations;
    origin.is_registered = false;
    origin.number = 0;
    run(20000, false);
    origin.state += 100; /* a change without a notification */
    run(15100 + TICK_MS, false);
    assert_int_equal(origin.registrations, before + 1);
    expect_all_see_the_last_state();
    run(10000, true);
    run(1000, false);
    expect_all_see_the_last_state();
    for (unsigned i = 0; i < client_count; i++) {
        assert_int_equal(clients[i].errors, 0);
    }
    stop();
}

/* It is dead for good: all observers are told. */
static void test_origin_server_dies(void **state)
{
    (void)state;
    start(50, 20, NULL);
    run(10000, true);
    fake_peer_close(replay.origin);
    run(35000 + 100000, false);
    for (unsigned i = 0; i < client_count; i++) {
        assert_int_equal(clients[i].errors, 1);
    }
    assert_int_equal(replay_metric(&replay, observers), 0);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_1000_observers_of_one_resource_that_changes_ten_times_a_second),
        cmocka_unit_test(test_slow_clients_get_the_newest_state),
        cmocka_unit_test(test_loss_of_20_percent_loses_no_last_state),
        cmocka_unit_test(test_loss_of_20_percent_with_non_keeps_the_order),
        cmocka_unit_test(test_origin_server_is_restarted),
        cmocka_unit_test(test_origin_server_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
