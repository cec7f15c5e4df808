/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/peer_wire.h"

#include "net/derive.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <string.h>

#define KEY_LABEL "peer datagrams"
#define DIGEST_BYTES 32u
#define IP_BYTES 16u

EVP_MAC_CTX *peer_key_new(struct bytes secret)
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", digest, 0),
                                 OSSL_PARAM_construct_end()};
    uint8_t key[DERIVED_KEY_LEN];
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = hmac == NULL ? NULL : EVP_MAC_CTX_new(hmac);

    EVP_MAC_free(hmac);
    if (context != NULL && (!derive_key(secret, KEY_LABEL, (struct bytes){0}, key, sizeof key) ||
                            EVP_MAC_init(context, key, sizeof key, params) != 1)) {
        EVP_MAC_CTX_free(context);
        context = NULL;
    }
    OPENSSL_cleanse(key, sizeof key);
    ERR_clear_error();
    return context;
}

void peer_key_free(EVP_MAC_CTX *key)
{
    EVP_MAC_CTX_free(key);
}

static bool make_peer_mac(EVP_MAC_CTX *key, const uint8_t *data, size_t len,
                          uint8_t ret_mac[DIGEST_BYTES])
{
    size_t made = 0;
    bool is_good = EVP_MAC_init(key, NULL, 0, NULL) == 1 && EVP_MAC_update(key, data, len) == 1 &&
                   EVP_MAC_final(key, ret_mac, &made, DIGEST_BYTES) == 1 && made == DIGEST_BYTES;

    if (!is_good) {
        ERR_clear_error();
    }
    return is_good;
}

/* ---- out ---- */

static uint8_t *put_wire(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    }
    return at + bytes;
}

static uint8_t *put_address(uint8_t *at, const struct address *address)
{
    at = put_wire(at, address->family, 1);
    at = put_wire(at, address->port, 2);
    at = put_wire(at, address->scope, 4);
    memcpy(at, address->ip, IP_BYTES);
    return at + IP_BYTES;
}

size_t peer_seal(EVP_MAC_CTX *key, const struct peer_message *message, uint8_t *ret)
{
    uint8_t mac[DIGEST_BYTES];
    uint8_t *at = put_wire(ret, PEER_MAGIC, 1);

    at = put_wire(at, message->worker, 1);
    at = put_wire(at, (uint64_t)message->kind, 1);
    at = put_wire(at, message->from, 1);
    at = put_wire(at, message->to, 1);
    at = put_wire(at, message->from_worker, 1);
    at = put_wire(at, message->listener, 2);
    at = put_wire(at, message->run, 8);
    at = put_wire(at, message->number, 8);
    at = put_wire(at, message->sent_ms, 8);
    at = put_address(at, &message->path.remote);
    at = put_address(at, &message->path.local);
    memcpy(at, message->body.data, message->body.len);
    at += message->body.len;
    if (!make_peer_mac(key, ret, (size_t)(at - ret), mac)) {
        return 0;
    }
    memcpy(at, mac, PEER_MAC_LEN);
    return (size_t)(at - ret) + PEER_MAC_LEN;
}

/* ---- in ---- */

static uint64_t get_wire(const uint8_t **at, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++) {
        value = value << 8 | *(*at)++;
    }
    return value;
}

static struct address get_address(const uint8_t **at)
{
    struct address address = {.family = (uint16_t)get_wire(at, 1)};

    address.port = (uint16_t)get_wire(at, 2);
    address.scope = (uint32_t)get_wire(at, 4);
    memcpy(address.ip, *at, IP_BYTES);
    *at += IP_BYTES;
    /* Addresses are compared and hashed whole. */
    memset(address.ip + address_ip_len(&address), 0, IP_BYTES - address_ip_len(&address));
    return address;
}

static bool is_ip(const struct address *address)
{
    return address->family == ADDRESS_IPV4 || address->family == ADDRESS_IPV6;
}

/* A client has an address and a port; where it sent to may not be known; a hello has neither. */
static bool has_sound_path(const struct peer_message *message)
{
    const struct udp_path *path = &message->path;

    return message->kind == PEER_HELLO ||
           (is_ip(&path->remote) && path->remote.port != 0 &&
            (path->local.family == ADDRESS_NONE || is_ip(&path->local)));
}

enum peer_refusal peer_open(EVP_MAC_CTX *key, const uint8_t *data, size_t len,
                            struct peer_message *ret_message)
{
    uint8_t mac[DIGEST_BYTES];
    struct peer_message message = {.from = 0};

    if (len < PEER_OVERHEAD || data[0] != PEER_MAGIC) {
        return PEER_REFUSAL_malformed;
    }
    if (!make_peer_mac(key, data, len - PEER_MAC_LEN, mac) ||
        CRYPTO_memcmp(mac, data + len - PEER_MAC_LEN, PEER_MAC_LEN) != 0) {
        return PEER_REFUSAL_forged;
    }
    const uint8_t *at = data + 1;
    message.worker = (uint8_t)get_wire(&at, 1);
    uint8_t kind = (uint8_t)get_wire(&at, 1);
    message.from = (uint8_t)get_wire(&at, 1);
    message.to = (uint8_t)get_wire(&at, 1);
    message.from_worker = (uint8_t)get_wire(&at, 1);
    message.listener = (uint16_t)get_wire(&at, 2);
    message.run = get_wire(&at, 8);
    message.number = get_wire(&at, 8);
    message.sent_ms = get_wire(&at, 8);
    message.path.remote = get_address(&at);
    message.path.local = get_address(&at);
    message.body = (struct bytes){at, len - PEER_OVERHEAD};
    message.kind = (enum peer_kind)kind;
    if (kind < PEER_DATAGRAM || kind > PEER_HELLO || !has_sound_path(&message)) {
        return PEER_REFUSAL_malformed;
    }
    *ret_message = message;
    return PEER_REFUSAL_COUNT;
}

/* ---- replays ---- */

static uint64_t *window_word(struct peer_window *window, uint64_t number)
{
    return &window->seen[number % PEER_WINDOW / 64];
}

/* Numbers up to @p number are in the ring from now on, none of the new ones seen. */
static void move_on(struct peer_window *window, uint64_t number)
{
    uint64_t steps = number - window->newest;

    if (steps >= PEER_WINDOW) {
        memset(window->seen, 0, sizeof window->seen);
    } else {
        for (uint64_t i = window->newest + 1; i <= number; i++) {
            *window_word(window, i) &= ~(UINT64_C(1) << i % 64);
        }
    }
    window->newest = number;
}

bool peer_window_take(struct peer_window *window, const struct peer_message *message)
{
    uint64_t number = message->number, bit = UINT64_C(1) << number % 64;

    if (message->run < window->run) {
        return false;
    }
    if (message->run > window->run) {
        *window = (struct peer_window){.run = message->run, .newest = number};
    } else if (number > window->newest) {
        move_on(window, number);
    } else if (window->newest - number >= PEER_WINDOW ||
               (*window_word(window, number) & bit) != 0) {
        return false;
    }
    *window_word(window, number) |= bit;
    return true;
}
