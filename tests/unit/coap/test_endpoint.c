/* SPDX-License-Identifier: BSD-2-Clause */
/* One end of a connection: RFC 8323 sections 3.3 to 5.6, RFC 8974 section 2.2.1 (TCP-2 to TCP-16).
 */
#include "support/test.h"

#include "coap/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_MAX 1152u
#define TOKEN_LONGEST 65804u

/* The owner of an endpoint: what it was told, as words, and what was written. */
struct owner {
    struct endpoint endpoint;
    char told[4096];
    uint8_t written[70000];
    size_t written_len;
    unsigned requests_max; /* it reads no more after so many; 0: any number */
    unsigned requests;
    bool is_closed;
};

static void tell(struct owner *owner, const char *what, const char *detail)
{
    size_t len = strlen(owner->told);
    snprintf(owner->told + len, sizeof(owner->told) - len, "%s%s%s", len > 0 ? ", " : "", what,
             detail);
}

static void tell_message(struct owner *owner, const char *what, const struct message *message)
{
    char detail[64];
    snprintf(detail, sizeof(detail), " %02x token %zu payload %zu", message->code,
             message->token.len, message->payload.len);
    tell(owner, what, detail);
}

static void on_write(void *context, struct bytes frame)
{
    struct owner *owner = context;
    assert_true(frame.len >= 2 && frame.len <= sizeof(owner->written) - owner->written_len);
    memcpy(owner->written + owner->written_len, frame.data, frame.len);
    owner->written_len += frame.len;
}

static bool on_may_read(void *context)
{
    const struct owner *owner = context;
    bool is_busy = owner->requests_max > 0 && owner->requests == owner->requests_max;
    return !owner->is_closed && !is_busy;
}

static void on_request(void *context, const struct message *request)
{
    struct owner *owner = context;
    owner->requests++;
    tell_message(owner, "request", request);
}

static void on_response(void *context, const struct message *response)
{
    tell_message(context, "response", response);
}

static void on_signal(void *context, uint8_t code)
{
    struct owner *owner = context;
    tell(owner,
         code == CODE_CSM       ? "CSM"
         : code == CODE_PONG    ? "Pong"
         : code == CODE_RELEASE ? "Release"
                                : "Abort",
         "");
    owner->is_closed = owner->is_closed || code == CODE_ABORT;
}

static void on_fault(void *context, const char *why)
{
    struct owner *owner = context;
    tell(owner, "fault: ", why);
    owner->is_closed = true;
}

static const struct endpoint_handler handler = {on_write,    on_may_read, on_request,
                                                on_response, on_signal,   on_fault};

/* An endpoint whose CSM has gone and is not looked at. */
static struct owner *start(bool is_ws, uint32_t token_max)
{
    struct owner *owner = calloc(1, sizeof(*owner));
    assert_non_null(owner);
    owner->endpoint = (struct endpoint){.handler = &handler,
                                        .context = owner,
                                        .message_max = MESSAGE_MAX,
                                        .token_max = token_max,
                                        .is_ws = is_ws};
    endpoint_start(&owner->endpoint);
    owner->written_len = 0;
    return owner;
}

/* In memory of its own size, so that the sanitizer sees a read past its end. */
static size_t feed(struct owner *owner, const uint8_t *data, size_t len)
{
    uint8_t *exact = malloc(len > 0 ? len : 1);
    assert_non_null(exact);
    memcpy(exact, data, len);
    size_t used = endpoint_input(&owner->endpoint, exact, len);
    assert_true(used <= len);
    free(exact);
    return used;
}

/* As a connection does: what was not used comes again, with @p piece bytes more. */
static void feed_pieces(struct owner *owner, const uint8_t *data, size_t len, size_t piece)
{
    for (size_t from = 0, to = 0; to < len && !owner->is_closed;) {
        to = len - to < piece ? len : to + piece;
        from += feed(owner, data + from, to - from);
    }
}

static void feed_hex(struct owner *owner, const char *hex)
{
    uint8_t data[256];
    (void)feed(owner, data, test_hex(hex, data, sizeof(data)));
}

static void expect_written(const struct owner *owner, const char *name, const char *hex)
{
    uint8_t bytes[256];
    size_t len = test_hex(hex, bytes, sizeof(bytes));
    if (owner->written_len != len || memcmp(owner->written, bytes, len) != 0) {
        for (size_t i = 0; i < owner->written_len && i < 64; i++) {
            print_message("%02x ", owner->written[i]);
        }
        fail_msg("%s: written in place of %s", name, hex);
    }
}

/* --- rows --------------------------------------------------------------- */

#define WORDS_NO_CSM "43534d206578706563746564206669727374"
#define WORDS_MALFORMED "6d616c666f726d6564206d657373616765"
#define WORDS_TOO_LARGE "6d657373616765206c6172676572207468616e204d61782d4d6573736167652d53697a65"
#define WORDS_CSM_OPTION "756e6b6e6f776e20637269746963616c206f7074696f6e20696e2043534d"
#define WORDS_OPTION "756e6b6e6f776e20637269746963616c206f7074696f6e20696e2061207369676e616c"
#define ABORT_NO_CSM "d006 e5 ff" WORDS_NO_CSM
#define ABORT_MALFORMED "d005 e5 ff" WORDS_MALFORMED
#define ABORT_TOO_LARGE "d018 e5 ff" WORDS_TOO_LARGE
#define ABORT_OPTION "d017 e5 ff" WORDS_OPTION

#define NO_CSM "fault: CSM expected first"
#define MALFORMED "CSM, fault: malformed message"
#define TOO_LARGE "CSM, fault: message larger than Max-Message-Size"
#define OPTION "CSM, fault: unknown critical option in a signal"
#define CSM_OPTION "fault: unknown critical option in CSM"

struct row {
    const char *name, *hex, *told, *written;
};

static const struct row rows[] = {
    {"nothing", "", "", ""},
    {"CSM", "00e1", "CSM", ""},
    {"CSM with values, and again", "30e1 21c8 20 20e1 2120", "CSM, CSM", ""},
    {"an unknown elective option of a CSM", "10e1 80", "CSM", ""},
    {"request", "00e1 0101aa", "CSM, request 01 token 1 payload 0", ""},
    {"two, with a response between", "00e1 0001 2145aaff31 2102bbff32",
     "CSM, request 01 token 0 payload 0, response 45 token 1 payload 1, "
     "request 02 token 1 payload 1",
     ""},
    {"Empty after the CSM", "00e1 0000", "CSM, response 00 token 0 payload 0", ""},
    {"Empty before the CSM", "0000 00e1", "response 00 token 0 payload 0, CSM", ""},
    {"reserved classes", "00e1 0020 00c0",
     "CSM, response 20 token 0 payload 0, response c0 token 0 payload 0", ""},
    {"Ping", "00e1 01e242", "CSM", "01e342"},
    {"Ping with Custody", "00e1 11e24320", "CSM", "11e34320"},
    {"Ping with an elective option", "00e1 11e24480", "CSM", "01e344"},
    {"Ping with words, which have no meaning", "00e1 21e245ff61", "CSM", "01e345"},
    {"Pong", "00e1 01e342", "CSM, Pong", ""},
    {"Pong with Custody", "00e1 11e34220", "CSM, Pong", ""},
    {"Release, and a request after it", "00e1 00e4 0001",
     "CSM, Release, request 01 token 0 payload 0", ""},
    {"Release with an address and a time", "00e1 40e4 2161 2105", "CSM, Release", ""},
    {"Abort, and nothing after it", "00e1 00e5 0001 00e2", "CSM, Abort", ""},
    {"Abort before the CSM", "00e5", "Abort", ""},
    {"Abort with a critical option: not answered", "00e1 10e510", "CSM, Abort", ""},
    {"signals to come", "00e1 00e0 00e6 00ff", "CSM", ""},

    {"no CSM: request", "0101aa", NO_CSM, ABORT_NO_CSM},
    {"no CSM: response", "0045", NO_CSM, ABORT_NO_CSM},
    {"no CSM: Ping", "00e2", NO_CSM, ABORT_NO_CSM},
    {"no CSM: Pong", "00e3", NO_CSM, ABORT_NO_CSM},
    {"no CSM: Release", "00e4", NO_CSM, ABORT_NO_CSM},
    {"no CSM: a signal to come", "00e6", NO_CSM, ABORT_NO_CSM},
    {"no CSM: a Ping with a critical option", "10e210", NO_CSM, ABORT_NO_CSM},
    {"no CSM: an invalid one", "10e1ff", "fault: malformed message", ABORT_MALFORMED},

    {"critical option 1 in a CSM", "10e110", CSM_OPTION, "d014 e5 2101 ff" WORDS_CSM_OPTION},
    {"critical option 257 in a CSM", "20e1d0f4", CSM_OPTION, "d015 e5 220101 ff" WORDS_CSM_OPTION},
    {"critical option 65535 in a CSM", "30e1e0fef2", CSM_OPTION,
     "d015 e5 22ffff ff" WORDS_CSM_OPTION},
    {"critical option behind good ones in a CSM", "30e1 21c8 30", CSM_OPTION,
     "d014 e5 2105 ff" WORDS_CSM_OPTION},
    {"critical option in a later CSM", "00e1 10e110", "CSM, " CSM_OPTION,
     "d014 e5 2101 ff" WORDS_CSM_OPTION},
    {"critical option in a Ping", "00e1 10e210", OPTION, ABORT_OPTION},
    {"critical option behind Custody", "00e1 20e22010", OPTION, ABORT_OPTION},
    {"critical option in a Pong", "00e1 10e310", OPTION, ABORT_OPTION},
    {"critical option in a Release", "00e1 10e430", OPTION, ABORT_OPTION},
    {"critical option in a signal to come", "00e1 10ff10", OPTION, ABORT_OPTION},

    {"token length 15", "00e1 0f01", MALFORMED, ABORT_MALFORMED},
    {"a token over the limit", "00e1 0901 001122334455667788", MALFORMED, ABORT_MALFORMED},
    {"an extended token over the limit", "00e1 0d0100", MALFORMED, ABORT_MALFORMED},
    {"an extended token of 65,804", "00e1 0e01ffff", MALFORMED, ABORT_MALFORMED},
    {"marker without payload", "00e1 1001ff", MALFORMED, ABORT_MALFORMED},
    {"an option with length 15", "00e1 10011f", MALFORMED, ABORT_MALFORMED},
    {"an option that ends in the next message", "00e1 10011161", MALFORMED, ABORT_MALFORMED},
    {"a malformed signal", "00e1 10e2ff", MALFORMED, ABORT_MALFORMED},
    {"nothing after a fault", "00e1 0f01 00e2 0001", MALFORMED, ABORT_MALFORMED},
    {"a length of 4 GiB", "00e1 f0ffffffff01", TOO_LARGE, ABORT_TOO_LARGE},
    {"one byte too long", "00e1 e0 0370 01", TOO_LARGE, ABORT_TOO_LARGE},
};

/* TCP-29: the same, whatever the pieces in which it comes. */
static void test_rows_in_pieces_of_every_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t data[64];
        size_t len = test_hex(rows[i].hex, data, sizeof(data));
        for (size_t piece = 1; piece <= len + 1; piece++) {
            struct owner *owner = start(false, ENDPOINT_BASE_TOKEN);
            feed_pieces(owner, data, len, piece);
            if (strcmp(owner->told, rows[i].told) != 0) {
                fail_msg("%s, in pieces of %zu: %s", rows[i].name, piece, owner->told);
            }
            expect_written(owner, rows[i].name, rows[i].written);
            free(owner);
        }
    }
}

/* TCP-23: each in a WebSocket message of its own, with Len 0. */
static void test_messages_of_websockets(void **state)
{
    (void)state;
    static const struct row one_message[] = {
        {"request", "0101aa b161 ff3132", "CSM, request 01 token 1 payload 2", ""},
        {"Ping", "01e24220", "CSM", "01e34220"},
        {"Release", "00e4", "CSM, Release", ""},
        {"Abort", "00e5ff6f68", "CSM, Abort", ""},
        {"Empty", "0000", "CSM, response 00 token 0 payload 0", ""},
        {"critical option", "00e310", OPTION, "00e5ff" WORDS_OPTION},
        {"critical option in a CSM", "00e130", "CSM, " CSM_OPTION, "00e52103ff" WORDS_CSM_OPTION},
        {"nothing", "", MALFORMED, "00e5ff" WORDS_MALFORMED},
        {"one byte", "00", MALFORMED, "00e5ff" WORDS_MALFORMED},
        {"Len is not 0", "10e110", MALFORMED, "00e5ff" WORDS_MALFORMED},
        {"half a token", "020100", MALFORMED, "00e5ff" WORDS_MALFORMED},
        {"a token over the limit", "0901001122334455667788", MALFORMED, "00e5ff" WORDS_MALFORMED},
        {"marker without payload", "0001ff", MALFORMED, "00e5ff" WORDS_MALFORMED},
    };
    for (size_t i = 0; i < sizeof(one_message) / sizeof(one_message[0]); i++) {
        struct owner *owner = start(true, ENDPOINT_BASE_TOKEN);
        feed_hex(owner, "00e1");
        feed_hex(owner, one_message[i].hex);
        if (strcmp(owner->told, one_message[i].told) != 0) {
            fail_msg("%s: %s", one_message[i].name, owner->told);
        }
        expect_written(owner, one_message[i].name, one_message[i].written);
        free(owner);
    }
    struct owner *owner = start(true, ENDPOINT_BASE_TOKEN);
    feed_hex(owner, "0001");
    assert_string_equal(owner->told, NO_CSM);
    expect_written(owner, "no CSM", "00e5ff" WORDS_NO_CSM);
    free(owner);
}

/* --- what is announced, and by the peer --------------------------------- */

/* TCP-5, TCP-8: Extended-Token-Length only where it says more than the base value. */
static void test_csm_says_what_is_taken(void **state)
{
    (void)state;
    static const struct {
        uint32_t message_max, token_max;
        bool is_ws;
        const char *csm;
    } announced[] = {
        {1152, 8, false, "40e1 220480 20"},
        {65536, 9, false, "70e1 23010000 20 2109"},
        {1048576, 65804, false, "90e1 23100000 20 2301010c"},
        {65536, 8, true, "00e1 23010000 20"},
    };
    for (size_t i = 0; i < sizeof(announced) / sizeof(announced[0]); i++) {
        struct owner *owner = start(announced[i].is_ws, announced[i].token_max);
        owner->endpoint.message_max = announced[i].message_max;
        endpoint_start(&owner->endpoint);
        expect_written(owner, "CSM", announced[i].csm);
        free(owner);
    }
}

/* TCP-4, TCP-7: the base value before a CSM; later values replace earlier ones, and stay. */
static void test_values_of_the_peers_csm(void **state)
{
    (void)state;
    struct owner *owner = start(false, ENDPOINT_BASE_TOKEN);
    assert_int_equal(owner->endpoint.peer_max, 1152);
    assert_false(owner->endpoint.is_open);
    feed_hex(owner, "00e1");
    assert_true(owner->endpoint.is_open);
    assert_int_equal(owner->endpoint.peer_max, 1152);
    assert_false(owner->endpoint.takes_blocks);
    feed_hex(owner, "50e1 24ffffffff");
    assert_int_equal(owner->endpoint.peer_max, UINT32_MAX);
    feed_hex(owner, "10e1 40");
    assert_true(owner->endpoint.takes_blocks);
    assert_int_equal(owner->endpoint.peer_max, UINT32_MAX);
    feed_hex(owner, "30e1 2207d0");
    assert_int_equal(owner->endpoint.peer_max, 2000);
    feed_hex(owner, "60e1 250000000001"); /* too long: as good as unknown */
    assert_int_equal(owner->endpoint.peer_max, 2000);
    assert_true(owner->endpoint.takes_blocks);
    feed_hex(owner, "10e1 20");
    assert_int_equal(owner->endpoint.peer_max, 0);
    assert_false(owner->is_closed);
    free(owner);
}

/* The base of what is taken is ours: a message of exactly message_max bytes is. */
static void test_longest_message_that_is_taken(void **state)
{
    (void)state;
    uint8_t data[2 + MESSAGE_MAX] = {0x00, 0xe1, 0xe0, 0x03, 0x6f, 0x02, 0xff};
    for (size_t piece = 1; piece <= sizeof(data); piece += piece < 12 ? 1 : 97) {
        struct owner *owner = start(false, ENDPOINT_BASE_TOKEN);
        feed_pieces(owner, data, sizeof(data), piece);
        assert_string_equal(owner->told, "CSM, request 02 token 0 payload 1147");
        free(owner);
    }
}

/* --- out ---------------------------------------------------------------- */

static void test_what_is_sent(void **state)
{
    (void)state;
    static const uint8_t token[] = {0xaa, 0xbb};
    const struct bytes none = {0};
    for (unsigned is_ws = 0; is_ws < 2; is_ws++) {
        struct owner *owner = start(is_ws, ENDPOINT_BASE_TOKEN);
        endpoint_send(&owner->endpoint, CODE_PING, none, "");
        endpoint_send(&owner->endpoint, CODE_RELEASE, none, "bye");
        endpoint_send(&owner->endpoint, CODE(5, 1), (struct bytes){token, 2}, "");
        expect_written(owner, "sent",
                       is_ws ? "00e2 00e4ff627965 02a1aabb" : "00e2 40e4ff627965 02a1aabb");
        free(owner);
    }
}

/* TCP-4: words that the peer might not take are left out; the signal is not. */
static void test_words_longer_than_the_peer_takes(void **state)
{
    (void)state;
    static const uint8_t token[300];
    unsigned shortest = 0;
    for (unsigned peer_max = 0; peer_max < 64; peer_max++) {
        struct owner *owner = start(false, ENDPOINT_BASE_TOKEN);
        owner->endpoint.peer_max = peer_max;
        endpoint_send(&owner->endpoint, CODE_RELEASE, (struct bytes){0}, "bye");
        bool has_words = owner->written_len > 2;
        expect_written(owner, "Release", has_words ? "40e4ff627965" : "00e4");
        assert_true(!has_words || peer_max >= 6);
        shortest = shortest == 0 && has_words ? peer_max : shortest;
        assert_int_equal(has_words, shortest != 0);
        free(owner);
    }
    assert_in_range(shortest, 6, 32);
    struct owner *owner = start(false, ENDPOINT_BASE_TOKEN);
    endpoint_send(&owner->endpoint, CODE_PONG, (struct bytes){token, sizeof(token)}, "bye");
    assert_int_equal(owner->written_len, 2 + 2 + sizeof(token) + 4);
    free(owner);
    owner = start(false, ENDPOINT_BASE_TOKEN);
    feed_hex(owner, "20e1 2120 10e110");
    expect_written(owner, "the option that was bad is not left out", "20e5 2101");
    free(owner);
}

/* TCP-9 with RFC 8974: a Pong has the token of its Ping, however long that may be. */
static void test_pong_repeats_tokens_of_any_length(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 8, 9, 12, 13, 200, 239, 240, 268, 269, 1000, TOKEN_LONGEST};
    static uint8_t token[TOKEN_LONGEST], ping[FRAME_HEAD_MAX + TOKEN_LONGEST + 8];
    for (size_t i = 0; i < sizeof(token); i++) {
        token[i] = (uint8_t)(i * 7);
    }
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const struct bytes sent = {token, lengths[i]};
        struct owner *owner = start(false, TOKEN_LONGEST);
        struct message_writer writer;
        struct message pong;
        size_t len;
        owner->endpoint.message_max = sizeof(ping);
        feed_hex(owner, "40e1 23020000"); /* which it takes */
        frame_writer_init(&writer, ping, sizeof(ping), sent);
        message_writer_option(&writer, PING_CUSTODY, (struct bytes){0});
        struct bytes frame = frame_finish(&writer, CODE_PING, sent, false);
        assert_int_equal(feed(owner, frame.data, frame.len), frame.len);
        assert_int_equal(frame_decode(owner->written, owner->written_len, sizeof(ping),
                                      TOKEN_LONGEST, &len, &pong),
                         FRAME_OK);
        assert_int_equal(len, owner->written_len);
        assert_int_equal(pong.code, CODE_PONG);
        assert_true(options_have(pong.options, PING_CUSTODY));
        assert_true(bytes_equal(pong.token, sent));
        free(owner);
    }
}

/* --- the owner ---------------------------------------------------------- */

/* What a busy owner does not take stays, and is taken later, once. */
static void test_owner_that_reads_no_more(void **state)
{
    (void)state;
    uint8_t data[64];
    struct owner *owner = start(false, ENDPOINT_BASE_TOKEN);
    size_t len = test_hex("00e1 0101aa 0102bb 00e2", data, sizeof(data));
    owner->requests_max = 1;
    assert_int_equal(feed(owner, data, len), 5);
    assert_int_equal(feed(owner, data + 5, len - 5), 0);
    assert_string_equal(owner->told, "CSM, request 01 token 1 payload 0");
    assert_int_equal(owner->written_len, 0);
    owner->requests_max = 0;
    assert_int_equal(feed(owner, data + 5, len - 5), 5);
    assert_string_equal(owner->told, "CSM, request 01 token 1 payload 0, "
                                     "request 02 token 1 payload 0");
    expect_written(owner, "Pong", "00e3");
    free(owner);
}

static void carry(struct owner *from, struct owner *to)
{
    size_t len = from->written_len;
    from->written_len = 0;
    assert_int_equal(feed(to, from->written, len), len);
}

/* It is the same for both ends: each understands the other. */
static void test_two_ends(void **state)
{
    (void)state;
    struct owner *one = start(false, 64), *other = start(false, ENDPOINT_BASE_TOKEN);
    endpoint_start(&one->endpoint);
    endpoint_start(&other->endpoint);
    carry(one, other);
    carry(other, one);
    assert_true(one->endpoint.is_open && other->endpoint.is_open);
    assert_true(one->endpoint.takes_blocks && other->endpoint.takes_blocks);
    endpoint_send(&one->endpoint, CODE_PING, (struct bytes){0}, "");
    carry(one, other);
    carry(other, one);
    endpoint_send(&other->endpoint, CODE_RELEASE, (struct bytes){0}, "later");
    carry(other, one);
    assert_string_equal(one->told, "CSM, Pong, Release");
    feed_hex(one, "0f01");
    carry(one, other);
    assert_string_equal(other->told, "CSM, Abort");
    assert_int_equal(other->written_len, 0);
    free(one);
    free(other);
}

/* Any bytes: no fault of ours, and the same in one piece as in many. */
static void test_random_bytes_in_random_pieces(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    for (unsigned i = 0; i < 20000; i++) {
        uint8_t data[48] = {0x00, 0xe1};
        size_t len = 2 + (size_t)test_random_below(&random, sizeof(data) - 1);
        for (size_t k = 2; k < len; k++) {
            static const uint8_t masks[] = {0x13, 0xe7, 0xff, 0x31};
            data[k] = (uint8_t)test_random(&random) & masks[test_random_below(&random, 4)];
        }
        struct owner *whole = start(false, 300), *parts = start(false, 300);
        feed_pieces(whole, data, len, len);
        feed_pieces(parts, data, len, 1 + (size_t)test_random_below(&random, 5));
        assert_string_equal(whole->told, parts->told);
        assert_int_equal(whole->written_len, parts->written_len);
        assert_memory_equal(whole->written, parts->written, whole->written_len);
        free(whole);
        free(parts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_in_pieces_of_every_size),
        cmocka_unit_test(test_messages_of_websockets),
        cmocka_unit_test(test_csm_says_what_is_taken),
        cmocka_unit_test(test_values_of_the_peers_csm),
        cmocka_unit_test(test_longest_message_that_is_taken),
        cmocka_unit_test(test_what_is_sent),
        cmocka_unit_test(test_words_longer_than_the_peer_takes),
        cmocka_unit_test(test_pong_repeats_tokens_of_any_length),
        cmocka_unit_test(test_owner_that_reads_no_more),
        cmocka_unit_test(test_two_ends),
        cmocka_unit_test(test_random_bytes_in_random_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
