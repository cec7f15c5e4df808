/* SPDX-License-Identifier: BSD-2-Clause */
/* Origin servers on datagrams and sessions: mostly good ones. */
#include "replay/chaos.h"

#include "coap/block.h"
#include "coap/option.h"

#include <errno.h>
#include <stdio.h>

static struct bytes last_of(struct bytes options, uint16_t number)
{
    struct option_iter iter;
    struct option option;
    struct bytes last = {0};
    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option)) {
        if (option.number == number) {
            last = option.value;
        }
    }
    return last;
}

/*
 * What path and query both have, of a request at an origin server or, in the CRI that a parent
 * proxy is asked with, at that.
 */
static struct bytes label_of(struct bytes options)
{
    struct bytes cri, path = last_of(options, OPTION_uri_path);
    struct bytes query = last_of(options, OPTION_uri_query);
    if (path.data == NULL && option_find(options, OPTION_proxy_cri, &cri)) {
        const uint8_t *of = memmem(cri.data, cri.len, "of=", 3);
        assert_non_null(of);
        query = (struct bytes){of, (size_t)(cri.data + cri.len - of)};
        path.len = query.len - 3;
        path.data = memmem(cri.data, (size_t)(of - cri.data), query.data + 3, path.len);
        assert_non_null(path.data);
    }
    assert_true(path.len > 0 && path.len < LABEL_MAX && query.len == path.len + 3);
    assert_memory_equal(query.data, "of=", 3);
    assert_memory_equal(query.data + 3, path.data, path.len);
    return path;
}

/* What an answer is of: of what one client alone asks for, its capital letter. */
static uint8_t letter_of(struct bytes label)
{
    return label.len == 1 ? label.data[0] : (uint8_t)('A' + label.data[0] - '0');
}

/* A good answer to a request for, or with, a block; otherwise any. */
static uint8_t add_answer(struct message_writer *writer, struct bytes options, uint8_t asked)
{
    static const uint8_t codes[] = {CODE(2, 5),  CODE(2, 5), CODE(2, 5), CODE(2, 5),  CODE(2, 4),
                                    CODE(2, 3),  CODE(2, 1), CODE(2, 2), CODE(4, 4),  CODE(4, 8),
                                    CODE(4, 13), CODE(5, 3), CODE(5, 8), CODE(2, 31), CODE(4, 29)};
    static const uint32_t ages[] = {0, 1, 5, 60, 100000, UINT32_MAX};
    static const uint8_t tag[2] = {7, 7};
    struct bytes block1 = {0}, block2 = {0}, observe = {0};
    bool is_good = !one_in(3), is_piece = false;
    uint8_t code = is_good ? (asked == CODE_GET || asked == CODE_FETCH ? CODE(2, 5) : CODE(2, 4))
                           : codes[below(sizeof(codes))];
    bool has_block1 = option_find(options, OPTION_block1, &block1);
    bool has_block2 = option_find(options, OPTION_block2, &block2);
    bool has_observe = option_find(options, OPTION_observe, &observe);
    struct block block = has_block2 ? block_of(block2) : (struct block){.szx = (uint8_t)below(5)};
    size_t len = below(120);
    if (has_block1 && is_good && block_of(block1).more) {
        code = CODE(2, 31);
    } else if (has_block2 || one_in(6)) {
        is_piece = block.szx < 6 && block.num < 16;
        block.more = block.num < 3 + below(2);
    }
    if (code == CODE(2, 3) || one_in(2)) {
        message_writer_option(writer, OPTION_etag, (struct bytes){tag, one_in(12) ? 2 : 1});
    }
    if (has_observe && observe.len == 0 && !one_in(6)) {
        chaos.observe += one_in(20) ? 0x7ffff0 : below(3);
        message_writer_option_uint(writer, OPTION_observe, chaos.observe & 0xffffff);
    }
    if (code == CODE(2, 1)) {
        message_writer_option(writer, OPTION_location_path, text_bytes("y"));
    }
    if (one_in(20)) {
        message_writer_option_uint(writer, OPTION_content_format, 40);
    }
    if (one_in(2)) {
        message_writer_option_uint(writer, OPTION_max_age, ages[below(6)]);
    }
    if (is_piece) {
        message_writer_option_uint(writer, OPTION_block2, block_value(&block));
    }
    if (has_block1) {
        message_writer_option(writer, OPTION_block1, block1);
    }
    if (one_in(30)) {
        message_writer_option(writer, OPTION_echo, (struct bytes){tag, 2});
    }
    if (is_piece) {
        len = block.more ? (size_t)16 << block.szx : below(16u << block.szx);
    } else if (one_in(8)) {
        len = 200 + below(900);
    }
    uint8_t body[2048];
    memset(body, letter_of(label_of(options)), sizeof(body));
    message_writer_payload(writer, (struct bytes){body, code == CODE(2, 3) ? 0 : len});
    return code;
}

static void answer(struct origin_server *origin, const struct fake_datagram *request)
{
    static const enum message_type types[] = {MESSAGE_ACK, MESSAGE_ACK, MESSAGE_CON, MESSAGE_NON};
    uint8_t buffer[MESSAGE_MAX];
    struct message message;
    struct message_writer writer;
    enum message_type type = types[below(4)];
    bool is_old = fake_net_now_ms() > request->at_ms + 3000;
    type = is_old && type == MESSAGE_ACK ? MESSAGE_CON : type;
    assert_true(chaos_decode(request, &message));
    uint16_t mid = type == MESSAGE_ACK || one_in(20) ? message.mid : ++chaos.mid;
    message_writer_init(&writer, buffer, sizeof(buffer), type, 0, mid, message.token);
    buffer[1] = add_answer(&writer, message.options, message.code);
    assert_false(writer.overflow);
    fake_peer_send_bytes(origin->peer, &request->from, buffer, writer.len);
}

void chaos_origin_acts(void)
{
    struct origin_server *origin = &chaos.origins[one_in(4) ? below(ORIGINS) : 0];
    unsigned kept = origin->count < KEPT ? origin->count : KEPT;
    if (kept == 0) {
        return;
    }
    /* Mostly the newest. */
    unsigned back = one_in(3) ? 0 : below(kept);
    const struct fake_datagram *request = &origin->kept[(origin->count - 1 - back) % KEPT];
    switch (below(16)) {
    case 0:
        fake_peer_reply(origin->peer, request, "60 00 MID");
        break;
    case 1:
        fake_peer_reply(origin->peer, request, "70 00 MID");
        break;
    case 2:
        if (!address_is_multicast(&request->to)) {
            fake_peer_reject(origin->peer, request, one_in(2) ? ECONNREFUSED : EHOSTUNREACH);
        }
        break;
    case 3:
        fake_peer_reply(origin->peer, request, "4T 01 MID TOKEN b1 61"); /* a request */
        break;
    default:
        answer(origin, request);
        break;
    }
}

bool chaos_decode(const struct fake_datagram *datagram, struct message *ret_message)
{
    size_t len = datagram->len < FAKE_DATAGRAM_MAX ? datagram->len : FAKE_DATAGRAM_MAX;
    return message_decode(datagram->data, len, ret_message) == MESSAGE_OK;
}

/* What only one request has: method and letters are that one's, at every step. */
static void check_asked(uint8_t code, const struct message *message, struct bytes label)
{
    char text[LABEL_MAX] = "";
    unsigned client, number;
    uint8_t letter = label.data[0];
    memcpy(text, label.data, label.len);
    chaos.seen++;
    if (sscanf(text, "%1u-%7u", &client, &number) == 2) {
        const struct asked *asked = &chaos.asked[number % ASKED];
        assert_int_equal(asked->number, number);
        assert_int_equal(asked->code, code);
        letter = asked->letter;
        chaos.checked++;
    }
    for (size_t i = 0; i < message->payload.len; i++) {
        assert_int_equal(message->payload.data[i], letter);
    }
}

void chaos_check_request(uint8_t code, const struct message *message)
{
    check_asked(code, message, label_of(message->options));
}

void chaos_check_answer(unsigned client, const struct message *message)
{
    const uint8_t *data = message->payload.data;
    uint8_t own = (uint8_t)('A' + client);
    if (CODE_CLASS(message->code) != 2 || message->payload.len == 0 || data[0] == '<') {
        return; /* words of the proxy, or its link list */
    }
    assert_true(data[0] == own || (data[0] >= 'w' && data[0] <= 'z'));
    for (size_t i = 1; i < message->payload.len; i++) {
        assert_int_equal(data[i], data[0]);
    }
    chaos.answered_own += data[0] == own;
    chaos.answered++;
}

void chaos_to_origin(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    struct origin_server *origin = context;
    struct message message;
    (void)peer;
    assert_true(chaos_decode(datagram, &message));
    if (message_is_request(&message)) {
        assert_int_equal(message.token.len, FETCH_TOKEN_LEN);
        chaos_check_request(message.code, &message);
        origin->kept[origin->count++ % KEPT] = *datagram;
    }
}

/* On a session: one of the requests that are out is answered, or fails. */
void chaos_session_origin_acts(void)
{
    static const enum upstream_status failures[] = {
        UPSTREAM_REFUSED, UPSTREAM_CLOSED,      UPSTREAM_TIMEOUT,         UPSTREAM_RESET,
        UPSTREAM_FULL,    UPSTREAM_BACKING_OFF, UPSTREAM_CONNECT_TIMEOUT, UPSTREAM_NO_MEMORY};
    const uint8_t *bytes;
    size_t len;
    uint8_t buffer[MESSAGE_MAX];
    struct message message = {0};
    struct message_writer writer = {.buffer = buffer, .capacity = sizeof(buffer), .len = 1};
    if (!fake_client_pick(below(1000), &bytes, &len)) {
        return;
    }
    assert_true(message_decode_content(bytes + 1, len - 1, &message));
    chaos_check_request(bytes[0], &message);
    if (one_in(8)) {
        fake_client_fail(failures[below(8)], one_in(2), one_in(2) ? "why" : NULL);
        return;
    }
    buffer[0] = add_answer(&writer, message.options, bytes[0]);
    if (writer.len < 2000) {
        fake_client_answer_bytes(buffer, writer.len);
    }
}
