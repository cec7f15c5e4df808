/* SPDX-License-Identifier: BSD-2-Clause */
/* The far ends of the fake network, and the little language for their messages. */
#include "support/fake_net_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024
#define STRAY_MAX 4096

struct arrived {
    struct arrived *next;
    struct address from, to;
    uint64_t at_ms;
    size_t len;
    uint8_t data[];
};

struct arrived_queue {
    struct arrived *first, **end;
    size_t count;
};

struct fake_peer {
    struct fake_peer *next; /* in its bucket */
    struct address address;
    bool is_open;
    unsigned lose;
    fake_peer_fn on_datagram;
    void *context;
    void (*on_expected)(void *context);
    void *expected_context;
    struct arrived_queue queue;
};

static struct fake_peer *buckets[BUCKETS];
static struct arrived_queue stray;

/* ---- queues ---- */

static void queue_push(struct arrived_queue *queue, const struct address *from,
                       const struct address *to, const uint8_t *data, size_t len)
{
    struct arrived *arrived = fake_alloc(sizeof *arrived + len);

    *arrived = (struct arrived){.from = *from, .to = *to, .at_ms = fake_net_now_ms(), .len = len};
    if (len != 0) {
        memcpy(arrived->data, data, len);
    }
    if (queue->first == NULL) {
        queue->end = &queue->first;
    }
    *queue->end = arrived;
    queue->end = &arrived->next;
    queue->count++;
}

static bool queue_pop(struct arrived_queue *queue, struct fake_datagram *ret_datagram)
{
    struct arrived *arrived = queue->first;

    if (arrived == NULL) {
        return false;
    }
    if (ret_datagram != NULL) {
        ret_datagram->from = arrived->from;
        ret_datagram->to = arrived->to;
        ret_datagram->at_ms = arrived->at_ms;
        ret_datagram->len = arrived->len;
        memcpy(ret_datagram->data, arrived->data,
               arrived->len < FAKE_DATAGRAM_MAX ? arrived->len : FAKE_DATAGRAM_MAX);
    }
    queue->first = arrived->next;
    queue->count--;
    free(arrived);
    return true;
}

static void queue_clear(struct arrived_queue *queue)
{
    while (queue_pop(queue, NULL)) {
    }
}

/* ---- life ---- */

static struct fake_peer *peer_find(const struct address *address)
{
    struct fake_peer *peer = buckets[address_hash(address, 0) % BUCKETS];

    while (peer != NULL && !(peer->is_open && address_equal(&peer->address, address))) {
        peer = peer->next;
    }
    return peer;
}

struct fake_peer *fake_peer_new(const char *text)
{
    struct address address;

    if (!address_parse(text, strlen(text), 0, &address) || address.port == 0) {
        fail_msg("not an address with a port: \"%s\"", text);
    }
    if (peer_find(&address) != NULL) {
        fail_msg("there is a peer at %s already", text);
    }
    struct fake_peer **bucket = &buckets[address_hash(&address, 0) % BUCKETS];
    struct fake_peer *peer = fake_alloc(sizeof *peer);
    peer->address = address;
    peer->is_open = true;
    peer->next = *bucket;
    *bucket = peer;
    return peer;
}

void fake_peer_close(struct fake_peer *peer)
{
    peer->is_open = false;
    queue_clear(&peer->queue);
}

void fake_peers_free(void)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        while (buckets[i] != NULL) {
            struct fake_peer *peer = buckets[i];
            buckets[i] = peer->next;
            queue_clear(&peer->queue);
            free(peer);
        }
    }
    queue_clear(&stray);
}

const struct address *fake_peer_address(const struct fake_peer *peer)
{
    return &peer->address;
}

void fake_peer_on_datagram(struct fake_peer *peer, fake_peer_fn on_datagram, void *context)
{
    peer->on_datagram = on_datagram;
    peer->context = context;
}

void fake_peer_lose(struct fake_peer *peer, unsigned count)
{
    peer->lose = count;
}

/* ---- in ---- */

enum fake_fate fake_peer_deliver(const struct address *from, const struct address *to,
                                 const uint8_t *data, size_t len)
{
    struct fake_peer *peer = peer_find(to);

    if (peer == NULL) {
        return FAKE_NOT_MINE;
    }
    if (peer->lose > 0) {
        peer->lose--;
        return FAKE_LOST;
    }
    queue_push(&peer->queue, from, to, data, len);
    if (peer->on_datagram != NULL) {
        struct fake_datagram datagram;
        queue_pop(&peer->queue, &datagram);
        peer->on_datagram(peer->context, peer, &datagram);
    }
    return FAKE_DELIVERED;
}

void fake_peer_stray(const struct address *from, const struct address *to, const uint8_t *data,
                     size_t len)
{
    queue_push(&stray, from, to, data, len);
    if (stray.count > STRAY_MAX) {
        queue_pop(&stray, NULL);
    }
}

bool fake_net_take(struct fake_datagram *ret_datagram)
{
    return queue_pop(&stray, ret_datagram);
}

bool fake_peer_take(struct fake_peer *peer, struct fake_datagram *ret_datagram)
{
    return queue_pop(&peer->queue, ret_datagram);
}

/* ---- the language of patterns and templates ---- */

enum word {
    WORD_END,
    WORD_DIGIT, /* one nibble */
    WORD_ANY,   /* ? */
    WORD_TKL,   /* T */
    WORD_MID,
    WORD_TOKEN,
    WORD_REST, /* ... */
};

static enum word word_next(const char **at, uint8_t *ret_digit)
{
    static const struct {
        const char *text;
        enum word word;
    } words[] = {{"...", WORD_REST},
                 {"TOKEN", WORD_TOKEN},
                 {"MID", WORD_MID},
                 {"T", WORD_TKL},
                 {"?", WORD_ANY}};
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";

    while (**at == ' ' || **at == '\n') {
        (*at)++;
    }
    if (**at == '\0') {
        return WORD_END;
    }
    const char *digit = strchr(digits, **at); /* mostly it is one */
    if (digit != NULL) {
        *ret_digit = (uint8_t)((digit - digits) % 16);
        (*at)++;
        return WORD_DIGIT;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t len = strlen(words[i].text);
        if (strncmp(*at, words[i].text, len) == 0) {
            *at += len;
            return words[i].word;
        }
    }
    fail_msg("neither hex nor a word of patterns: \"%s\"", *at);
    return WORD_END;
}

/* Bytes between message id and options: the token, and before it what RFC 8974 adds. */
static size_t token_span(const uint8_t *data, size_t len)
{
    size_t tkl = len > 0 ? data[0] & 0xfu : 0;

    if (tkl == 13 && len > 4) {
        return 1 + 13 + (size_t)data[4];
    }
    if (tkl == 14 && len > 5) {
        return 2 + 269 + ((size_t)data[4] << 8 | data[5]);
    }
    return tkl;
}

static uint8_t nibble_at(const uint8_t *data, size_t at)
{
    return at % 2 == 0 ? data[at / 2] >> 4 : data[at / 2] & 0xf;
}

static bool pattern_matches(const char *pattern, const uint8_t *data, size_t len)
{
    size_t at = 0; /* in nibbles */
    uint8_t digit = 0;

    for (;;) {
        switch (word_next(&pattern, &digit)) {
        case WORD_END:
            return at == 2 * len;
        case WORD_REST:
            return at <= 2 * len;
        case WORD_DIGIT:
            if (at >= 2 * len || nibble_at(data, at) != digit) {
                return false;
            }
            at++;
            break;
        case WORD_ANY:
        case WORD_TKL:
            at++;
            break;
        case WORD_MID:
            at += 4;
            break;
        case WORD_TOKEN:
            at += 2 * token_span(data, len);
            break;
        }
        if (at > 2 * len) {
            return false;
        }
    }
}

struct nibbles {
    uint8_t data[UINT16_MAX];
    size_t count;
};

static void nibbles_add(struct nibbles *nibbles, uint8_t nibble)
{
    if (nibbles->count >= 2 * sizeof nibbles->data) {
        fail_msg("message too long");
    }
    uint8_t *byte = &nibbles->data[nibbles->count / 2];
    *byte = (uint8_t)(nibbles->count % 2 == 0 ? nibble << 4 : *byte | nibble);
    nibbles->count++;
}

static void nibbles_add_bytes(struct nibbles *nibbles, const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < 2 * len; i++) {
        nibbles_add(nibbles, nibble_at(data, i));
    }
}

/* @p request may be NULL where the text has hex only. */
static void template_fill(const char *text, const struct fake_datagram *request,
                          struct nibbles *nibbles)
{
    const char *at = text;
    uint8_t digit = 0;
    enum word word;

    nibbles->count = 0;
    while ((word = word_next(&at, &digit)) != WORD_END) {
        if (word == WORD_DIGIT) {
            nibbles_add(nibbles, digit);
        } else if (request == NULL || request->len < 4 || word == WORD_ANY || word == WORD_REST) {
            fail_msg("a word that says nothing here, in \"%s\"", text);
        } else if (word == WORD_TKL) {
            nibbles_add(nibbles, request->data[0] & 0xf);
        } else if (word == WORD_MID) {
            nibbles_add_bytes(nibbles, request->data + 2, 2);
        } else {
            size_t span = token_span(request->data, request->len);
            assert_true(4 + span <= request->len && request->len <= FAKE_DATAGRAM_MAX);
            nibbles_add_bytes(nibbles, request->data + 4, span);
        }
    }
    if (nibbles->count % 2 != 0) {
        fail_msg("odd number of hex digits in \"%s\"", text);
    }
}

/* ---- out ---- */

void fake_peer_send_bytes(struct fake_peer *peer, const struct address *to, const uint8_t *data,
                          size_t len)
{
    if (!peer->is_open) {
        fail_msg("a peer that was closed sends");
    }
    fake_wire_send(NULL, &peer->address, to, data, len);
}

void fake_peer_send(struct fake_peer *peer, const char *to, const char *hex)
{
    struct nibbles nibbles;
    struct address address;

    if (!address_parse(to, strlen(to), 0, &address) || address.port == 0) {
        fail_msg("not an address with a port: \"%s\"", to);
    }
    template_fill(hex, NULL, &nibbles);
    fake_peer_send_bytes(peer, &address, nibbles.data, nibbles.count / 2);
}

void fake_peer_reply(struct fake_peer *peer, const struct fake_datagram *request, const char *text)
{
    struct nibbles nibbles;

    template_fill(text, request, &nibbles);
    fake_peer_send_bytes(peer, &request->from, nibbles.data, nibbles.count / 2);
}

void fake_peer_reject(struct fake_peer *peer, const struct fake_datagram *datagram, int error)
{
    struct udp_socket *socket = fake_udp_find(&datagram->from, &datagram->to);

    assert_true(address_equal(&peer->address, &datagram->to));
    if (socket == NULL) {
        fail_msg("fake_peer_reject(): no socket is where the datagram came from");
        return;
    }
    fake_wire_error(socket, &datagram->to, error, datagram->data,
                    datagram->len < FAKE_DATAGRAM_MAX ? datagram->len : FAKE_DATAGRAM_MAX);
}

/* ---- expectations ---- */

static bool peer_has_datagram(void *context)
{
    const struct fake_peer *peer = context;
    return peer->queue.first != NULL;
}

bool fake_peer_wait(struct fake_peer *peer, uint64_t ms)
{
    return peer_has_datagram(peer) || fake_net_run_until(ms, peer_has_datagram, peer);
}

static void print_hex(const char *label, const uint8_t *data, size_t len)
{
    print_error("%s", label);
    for (size_t i = 0; i < len; i++) {
        print_error("%s%02x", i == 0 ? "" : " ", data[i]);
    }
    print_error("\n");
}

void fake_peer_expect_at(struct fake_peer *peer, uint64_t ms, const char *pattern,
                         struct fake_datagram *ret_datagram, const char *file, int line)
{
    char text[ADDRESS_TEXT_MAX];

    if (!peer_has_datagram(peer) && !fake_net_run_until(ms, peer_has_datagram, peer)) {
        print_error("at %" PRIu64 " ms nothing has come to %s; expected: %s\n", fake_net_now_ms(),
                    address_format(&peer->address, text), pattern);
        _fail(file, line);
    }
    const struct arrived *arrived = peer->queue.first;
    if (!pattern_matches(pattern, arrived->data, arrived->len)) {
        print_error("to %s at %" PRIu64 " ms\nexpected: %s\n", address_format(&peer->address, text),
                    arrived->at_ms, pattern);
        print_hex("came:     ", arrived->data, arrived->len);
        _fail(file, line);
    }
    queue_pop(&peer->queue, ret_datagram);
    if (peer->on_expected != NULL) {
        peer->on_expected(peer->expected_context);
    }
}

void fake_peer_on_expected(struct fake_peer *peer, void (*on_expected)(void *context),
                           void *context)
{
    peer->on_expected = on_expected;
    peer->expected_context = context;
}

void fake_peer_serve_at(struct fake_peer *peer, const char *request, const char *answer,
                        const char *file, int line)
{
    struct fake_datagram datagram;

    fake_peer_expect_at(peer, 0, request, &datagram, file, line);
    fake_peer_reply(peer, &datagram, answer);
}

void fake_peer_expect_nothing_at(struct fake_peer *peer, uint64_t ms, const char *file, int line)
{
    char text[ADDRESS_TEXT_MAX];

    if (!peer_has_datagram(peer) && !fake_net_run_until(ms, peer_has_datagram, peer)) {
        return;
    }
    const struct arrived *arrived = peer->queue.first;
    print_error("to %s at %" PRIu64 " ms, where nothing was expected,\n",
                address_format(&peer->address, text), arrived->at_ms);
    print_hex("came: ", arrived->data, arrived->len);
    _fail(file, line);
}
