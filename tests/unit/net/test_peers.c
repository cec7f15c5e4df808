/* SPDX-License-Identifier: BSD-2-Clause */
/* What replicas send each other: to which one a datagram goes, and what of theirs is taken. */
#include "net/loop.h"
#include "net/peers.h"
#include "support/fake_net.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#define OWN "127.0.0.1:7001"
#define CLIENT "192.0.2.7:4000"

/* This replica is 1; 2 and 3 are peers. */
static struct {
    struct loop *loop;
    struct peer_book *book;
    struct peer_link *link;
    struct fake_peer *peers[4];
    struct evp_mac_ctx_st *key;
    struct udp_path last;
    uint8_t body[256];
    size_t body_len;
    unsigned passed, answers;
    uint16_t listener;
    bool has_none;
    uint64_t run, number;
} world;

static const struct bytes secret = {(const uint8_t *)"0123456789abcdef0123456789abcdef", 32};

static struct address at(const char *text)
{
    struct address address;

    assert_true(address_parse(text, strlen(text), 0, &address));
    return address;
}

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    (void)context;
    uint64_t next_ms = world.link == NULL ? UINT64_MAX : peer_link_turn(world.link, now_ms);

    if (world.link != NULL) {
        peer_link_flush(world.link);
    }
    return next_ms;
}

static bool on_passed(void *context, const struct datagram *datagram)
{
    (void)context;
    assert_true(datagram->len <= sizeof world.body);
    memcpy(world.body, datagram->data, datagram->len);
    world.body_len = datagram->len;
    world.last = datagram->path;
    world.passed += !world.has_none;
    return !world.has_none;
}

static bool on_answer(void *context, uint16_t listener, const struct udp_path *path,
                      struct bytes records)
{
    (void)context;
    (void)records;
    world.last = *path;
    world.listener = listener;
    world.answers += !world.has_none;
    return !world.has_none;
}

static int start(void **state)
{
    static const struct peer_handler handler = {.on_passed = on_passed, .on_answer = on_answer};
    const struct cluster_peer peers[] = {{.number = 2, .address = at("127.0.0.2:7002")},
                                         {.number = 3, .address = at("127.0.0.3:7003")}};
    (void)state;

    memset(&world, 0, sizeof world);
    fake_net_start(1);
    assert_int_equal(loop_new(on_turn, NULL, &world.loop), 0);
    assert_int_equal(peer_book_new(1, peers, 2, &world.book), 0);
    const struct peer_link_options options = {
        .book = world.book, .listen = at(OWN), .worker_count = 1, .secret = secret};
    assert_int_equal(peer_link_open(world.loop, &options, &handler, NULL, &world.link), 0);
    world.peers[2] = fake_peer_new("127.0.0.2:7002");
    world.peers[3] = fake_peer_new("127.0.0.3:7003");
    world.key = peer_key_new(secret);
    world.run = 7;
    fake_net_run(0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    peer_link_close(world.link);
    world.link = NULL;
    peer_key_free(world.key);
    free(world.book);
    loop_free(world.loop);
    fake_net_stop();
    return 0;
}

static struct peer_message message_of(enum peer_kind kind, uint8_t from, const char *body)
{
    return (struct peer_message){.kind = kind,
                                 .from = from,
                                 .to = 1,
                                 .from_worker = 5,
                                 .listener = 9,
                                 .run = world.run,
                                 .number = world.number++,
                                 .sent_ms = loop_wall_s(world.loop) * 1000,
                                 .path = {.remote = at(CLIENT), .local = at("198.51.100.1:5684")},
                                 .body = {(const uint8_t *)body, strlen(body)}};
}

/* From replica @p message->from, whatever its number says. */
static void give_message(const struct peer_message *message)
{
    uint8_t data[1024];
    struct address to = at(OWN);
    size_t len = peer_seal(world.key, message, data);

    assert_int_equal(len, message->body.len + PEER_OVERHEAD);
    fake_peer_send_bytes(world.peers[message->from == 3 ? 3 : 2], &to, data, len);
    fake_net_run(0);
}

static void give_tag(uint8_t from, uint16_t tag)
{
    const uint8_t bytes[] = {(uint8_t)(tag >> 8), (uint8_t)tag};
    struct peer_message message = message_of(PEER_HELLO, from, "");

    message.body = (struct bytes){bytes, sizeof bytes};
    give_message(&message);
}

static uint64_t refused(enum peer_refusal why)
{
    return peer_link_counters(world.link)->refused[why];
}

/* The replica that a datagram with an id of @p tag goes to; 0: none. What it gets is the same. */
static unsigned goes_to(uint16_t tag)
{
    const uint8_t cid[8] = {4, (uint8_t)(tag >> 8), (uint8_t)tag};
    const struct datagram datagram = {
        .data = (const uint8_t *)"record",
        .len = 6,
        .path = {.remote = at(CLIENT), .local = at("198.51.100.1:5684")}};
    struct fake_datagram got;
    struct peer_message message;
    bool is_passed = peer_link_pass(world.link, 9, cid, &datagram);

    fake_net_run(0);
    for (uint8_t n = 2; n <= 3; n++) {
        while (fake_peer_take(world.peers[n], &got)) {
            assert_int_equal(peer_open(world.key, got.data, got.len, &message), PEER_REFUSAL_COUNT);
            if (message.kind == PEER_HELLO) {
                continue;
            }
            assert_true(is_passed && message.kind == PEER_DATAGRAM);
            assert_true(message.worker == 4 && message.from == 1 && message.to == n);
            assert_int_equal(message.listener, 9);
            assert_memory_equal(message.body.data, "record", message.body.len);
            assert_true(address_equal(&message.path.remote, &datagram.path.remote));
            assert_true(address_equal(&message.path.local, &datagram.path.local));
            return n;
        }
    }
    assert_false(is_passed);
    return 0;
}

static void test_a_datagram_goes_where_its_tag_says(void **state)
{
    (void)state;
    assert_int_equal(goes_to(0x0211), 2);
    assert_int_equal(goes_to(0x0311), 3);
    assert_int_equal(goes_to(0x0411), 0);
    assert_int_equal(goes_to(0x0011), 0);
    assert_int_equal(goes_to(peer_book_tag(world.book)), 0);
}

static void test_a_tag_goes_to_who_has_taken_it_over(void **state)
{
    (void)state;
    give_tag(2, 0x0344);
    assert_int_equal(goes_to(0x0344), 2);
    assert_int_equal(goes_to(0x0345), 3);
    give_tag(3, 0x0344); /* given on */
    assert_int_equal(goes_to(0x0344), 3);
    peer_book_hold(world.book, 0x0344); /* and to this one */
    assert_int_equal(goes_to(0x0344), 0);
    give_tag(2, 0x0344); /* a hello that was late */
    assert_int_equal(goes_to(0x0344), 0);
}

static void test_what_is_given_away_goes_to_the_taker(void **state)
{
    uint16_t tag = peer_book_tag(world.book), next = peer_book_tag(world.book);
    static uint8_t takers[65536];
    (void)state;

    assert_true(tag != next && tag / 8 == next / 8);
    memset(takers, 0, sizeof takers);
    peer_book_hold(world.book, 0x0322);
    takers[tag] = takers[0x0322] = takers[0x0011] = 2;
    takers[next] = 3;
    peer_book_give(world.book, takers, 2);
    assert_int_equal(goes_to(next), 0); /* is here still */
    peer_book_give(world.book, takers, 3);
    assert_int_equal(goes_to(tag), 2);
    assert_int_equal(goes_to(next), 3);
    assert_int_equal(goes_to(0x0322), 2);
    assert_int_equal(goes_to(0x0011), 0);                         /* no tag */
    assert_int_not_equal(peer_book_tag(world.book) / 8, tag / 8); /* new sessions stay here */
    assert_int_equal(peer_book_tag(world.book) >> 8, 1);
    assert_int_equal(goes_to(peer_book_tag(world.book)), 0);
}

static void test_a_tag_that_another_one_has_is_left(void **state)
{
    uint16_t tag = peer_book_tag(world.book);
    (void)state;

    give_tag(2, tag); /* of a run before this one */
    assert_int_not_equal(peer_book_tag(world.book) / 8, tag / 8);
    assert_int_equal(goes_to(tag), 2);
}

static void test_others_are_told_what_was_taken_over(void **state)
{
    struct fake_datagram got;
    struct peer_message message;
    (void)state;

    fake_net_run(5000);
    fake_peer_expect_nothing(world.peers[2]); /* there is nothing to tell */
    peer_book_hold(world.book, 0x0322);
    for (uint8_t n = 2; n <= 3; n++) {
        assert_true(fake_peer_wait(world.peers[n], 1000));
        assert_true(fake_peer_take(world.peers[n], &got));
        assert_int_equal(peer_open(world.key, got.data, got.len, &message), PEER_REFUSAL_COUNT);
        assert_true(message.kind == PEER_HELLO && message.to == n && message.body.len == 2);
        assert_memory_equal(message.body.data, "\x03\x22", 2);
    }
}

static void test_a_datagram_of_a_peer_and_its_answer(void **state)
{
    struct fake_datagram got;
    struct peer_message message = message_of(PEER_DATAGRAM, 2, "record");
    (void)state;

    give_message(&message);
    assert_int_equal(world.passed, 1);
    assert_memory_equal(world.body, "record", 6);
    assert_true(world.last.via != 0 && address_equal(&world.last.remote, &message.path.remote));
    peer_link_answer(world.link, &world.last, (const uint8_t *)"answer", 6);
    fake_net_run(0);
    assert_true(fake_peer_take(world.peers[2], &got));
    assert_int_equal(peer_open(world.key, got.data, got.len, &message), PEER_REFUSAL_COUNT);
    assert_true(message.kind == PEER_ANSWER && message.worker == 5 && message.listener == 9);
    assert_true(address_equal(&message.path.remote, &world.last.remote));
    assert_memory_equal(message.body.data, "answer", 6);
    message = message_of(PEER_ANSWER, 3, "answer");
    give_message(&message);
    assert_true(world.answers == 1 && world.listener == 9);
}

static void test_what_is_refused(void **state)
{
    struct peer_message message = message_of(PEER_DATAGRAM, 2, "record");
    (void)state;

    give_message(&message);
    give_message(&message);
    assert_int_equal(refused(PEER_REFUSAL_replayed), 1);
    message = message_of(PEER_DATAGRAM, 2, "record");
    message.to = 3;
    give_message(&message);
    message = message_of(PEER_DATAGRAM, 4, "record");
    give_message(&message);
    message = message_of(PEER_DATAGRAM, 1, "record");
    give_message(&message);
    assert_int_equal(refused(PEER_REFUSAL_misdirected), 3);
    for (int sign = -1; sign <= 1; sign += 2) {
        message = message_of(PEER_DATAGRAM, 2, "record");
        message.sent_ms += (uint64_t)(sign * 62000);
        give_message(&message);
    }
    assert_int_equal(refused(PEER_REFUSAL_old), 2);
    message = message_of(PEER_DATAGRAM, 2, "record");
    message.path.remote.port = 0;
    give_message(&message);
    message = message_of(PEER_DATAGRAM, 2, "record");
    message.path.local.family = ADDRESS_DEVICE;
    give_message(&message);
    message = message_of((enum peer_kind)4, 2, "record");
    give_message(&message);
    assert_int_equal(refused(PEER_REFUSAL_malformed), 3);
    world.has_none = true;
    message = message_of(PEER_DATAGRAM, 2, "record");
    give_message(&message);
    message = message_of(PEER_ANSWER, 2, "record");
    give_message(&message);
    assert_int_equal(refused(PEER_REFUSAL_no_session), 1);
    assert_int_equal(refused(PEER_REFUSAL_no_listener), 1);
    fake_peer_expect_nothing(world.peers[2]); /* nothing is passed on again, or answered */
    fake_peer_expect_nothing(world.peers[3]);
    assert_int_equal(world.passed, 1);
}

static void test_every_bit_and_every_end_is_under_the_mac(void **state)
{
    struct peer_message message = message_of(PEER_DATAGRAM, 2, "record"), read;
    uint8_t data[256];
    size_t len = peer_seal(world.key, &message, data);
    (void)state;

    for (size_t bit = 0; bit < 8 * len; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(peer_open(world.key, data, len, &read), PEER_REFUSAL_COUNT);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < len; cut++) {
        assert_int_not_equal(peer_open(world.key, data, cut, &read), PEER_REFUSAL_COUNT);
    }
    assert_int_equal(peer_open(world.key, data, len, &read), PEER_REFUSAL_COUNT);
}

/* Against a list of all numbers that were taken. */
static void test_each_number_is_taken_once(void **state)
{
    enum { NUMBERS = 6000 };
    static bool is_taken[NUMBERS];
    static struct peer_window window;
    struct peer_message message = {.run = 5};
    uint64_t seed = test_seed(), newest = 0;
    (void)state;

    memset(is_taken, 0, sizeof is_taken);
    memset(&window, 0, sizeof window);
    for (unsigned i = 0; i < 20000; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint64_t middle = (uint64_t)i * NUMBERS / 20000;
        message.number = (middle + (seed >> 33) % 2400) % NUMBERS;
        bool was_taken = is_taken[message.number];
        bool takes = peer_window_take(&window, &message);
        bool is_old = newest >= PEER_WINDOW && message.number <= newest - PEER_WINDOW;
        assert_true(takes == (!was_taken && !is_old));
        is_taken[message.number] |= takes;
        newest = takes && message.number > newest ? message.number : newest;
    }
    message.run = 4; /* of before its sender was started again */
    assert_false(peer_window_take(&window, &message));
    message.run = 6;
    message.number = 0;
    assert_true(peer_window_take(&window, &message));
    assert_false(peer_window_take(&window, &message));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_datagram_goes_where_its_tag_says, start, stop),
        cmocka_unit_test_setup_teardown(test_a_tag_goes_to_who_has_taken_it_over, start, stop),
        cmocka_unit_test_setup_teardown(test_what_is_given_away_goes_to_the_taker, start, stop),
        cmocka_unit_test_setup_teardown(test_a_tag_that_another_one_has_is_left, start, stop),
        cmocka_unit_test_setup_teardown(test_others_are_told_what_was_taken_over, start, stop),
        cmocka_unit_test_setup_teardown(test_a_datagram_of_a_peer_and_its_answer, start, stop),
        cmocka_unit_test_setup_teardown(test_what_is_refused, start, stop),
        cmocka_unit_test_setup_teardown(test_every_bit_and_every_end_is_under_the_mac, start, stop),
        cmocka_unit_test(test_each_number_is_taken_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
