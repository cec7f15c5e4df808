/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/passers.h"

#include "coap/message.h"
#include "coap/option.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 32u

static struct {
    struct replay *replay;
    struct fake_peer *client;
    uint32_t number; /* of the request that was sent last */
} passers;

static struct bytes bytes_of(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strlen(text)};
}

/* What belongs to one request and to no other: @p words and its number. */
static struct bytes label(const char *words, uint32_t number, char text[TEXT_MAX])
{
    (void)snprintf(text, TEXT_MAX, "%s%08u", words, (unsigned)number);
    return bytes_of(text);
}

static void assert_label(struct bytes got, const char *words, uint32_t number)
{
    char text[TEXT_MAX];
    struct bytes expected = label(words, number, text);
    assert_int_equal(got.len, expected.len);
    assert_memory_equal(got.data, expected.data, expected.len);
}

static void send_label(struct fake_peer *peer, const struct address *to, struct bytes token,
                       const char *uri, const char *words)
{
    char text[TEXT_MAX];
    uint8_t buffer[256];
    struct message_writer writer;
    message_writer_init(&writer, buffer, sizeof(buffer), MESSAGE_NON,
                        uri != NULL ? CODE_POST : CODE(2, 4), (uint16_t)passers.number, token);
    if (uri != NULL) {
        message_writer_option(&writer, OPTION_proxy_uri, bytes_of(uri));
    }
    message_writer_payload(&writer, label(words, passers.number, text));
    assert_false(writer.overflow);
    fake_peer_send_bytes(peer, to, buffer, writer.len);
}

static void on_request(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    struct message message;
    struct bytes path, query;
    (void)context;
    assert_int_equal(message_decode(datagram->data, datagram->len, &message), MESSAGE_OK);
    if (!message_is_request(&message)) {
        return; /* an acknowledgement */
    }
    assert_int_equal(message.code, CODE_POST);
    assert_true(option_find(message.options, OPTION_uri_path, &path));
    assert_true(option_find(message.options, OPTION_uri_query, &query));
    assert_label(path, "passer-", passers.number);
    assert_label(query, "request=", passers.number);
    assert_label(message.payload, "body of ", passers.number);
    send_label(peer, &datagram->from, message.token, NULL, "answer to ");
}

static void on_answer(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    struct message message;
    (void)context;
    (void)peer;
    assert_int_equal(message_decode(datagram->data, datagram->len, &message), MESSAGE_OK);
    assert_int_equal(message.token.len, 1);
    assert_int_equal(message.token.data[0], (uint8_t)passers.number);
    if (message.code == CODE(2, 4)) {
        assert_label(message.payload, "answer to ", passers.number);
        passers.replay->passed++;
    }
}

/* POST, as the cache and equal requests have nothing to do with it. */
void passers_pass(void)
{
    struct address proxy;
    char uri[2 * TEXT_MAX];
    uint8_t token = (uint8_t)++passers.number;
    (void)snprintf(uri, sizeof(uri), "coap://198.51.100.98/passer-%08u?request=%08u",
                   (unsigned)passers.number, (unsigned)passers.number);
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &proxy));
    send_label(passers.client, &proxy, (struct bytes){&token, 1}, uri, "body of ");
    fake_net_run(0);
}

static void on_expected(void *context)
{
    (void)context;
    if (passers.replay->engine != NULL) {
        passers_pass();
    }
}

void passers_start(struct replay *replay)
{
    passers.replay = replay;
    passers.client = fake_peer_new("198.51.100.99:40001");
    fake_peer_on_datagram(passers.client, on_answer, NULL);
    fake_peer_on_datagram(fake_peer_new("198.51.100.98:5683"), on_request, NULL);
    fake_peer_on_expected(replay->origin, on_expected, NULL);
}
