/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What comes to cluster.listen. Input: chunks of a length in one byte and as many bytes. Each comes
 * as it is, and once more as the head and body of what a peer that has the secret would send: with
 * a good MAC, number and time. Whatever comes, nothing is passed on again, and no number is taken
 * twice.
 */
#include "net/loop.h"
#include "net/peers.h"
#include "support/fake_net.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
    struct peer_link *link;
    unsigned taken;
} fuzz_peers;

static const struct bytes secret = {(const uint8_t *)"0123456789abcdef0123456789abcdef", 32};
static const struct address own = {.family = ADDRESS_IPV4, .port = 7001, .ip = {127, 0, 0, 1}};
static const struct cluster_peer peers[] = {
    {.number = 2, .address = {.family = ADDRESS_IPV4, .port = 7002, .ip = {127, 0, 0, 2}}}};

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    (void)context;
    (void)now_ms;
    peer_link_flush(fuzz_peers.link);
    return UINT64_MAX;
}

static bool on_passed(void *context, const struct datagram *datagram)
{
    (void)context;
    assert(datagram->path.via >> 24 == 2);
    assert(datagram->path.remote.port != 0 && datagram->len <= 255);
    fuzz_peers.taken++;
    return datagram->len % 2 == 0;
}

static bool on_answer(void *context, uint16_t listener, const struct udp_path *path,
                      struct bytes records)
{
    (void)context;
    (void)listener;
    assert(path->via == 0 && path->remote.port != 0 && records.len <= 255);
    fuzz_peers.taken++;
    return records.len % 2 == 0;
}

/* As if replica 2 had made it. */
static void send_sealed(struct fake_peer *peer, struct evp_mac_ctx_st *key, const struct loop *loop,
                        const uint8_t *data, size_t len)
{
    static uint64_t number;
    uint8_t sealed[256 + PEER_OVERHEAD];
    struct peer_message message = {.kind = (enum peer_kind)(len > 0 ? data[0] % 5 : 0),
                                   .from = len > 1 && data[1] % 8 == 0 ? data[1] : 2,
                                   .to = 1,
                                   .listener = (uint16_t)len,
                                   .run = 1,
                                   .number = ++number,
                                   .sent_ms = loop_wall_s(loop) * 1000,
                                   .body = {data, len}};

    if (len >= sizeof message.path.remote.ip + 4) {
        message.path.remote.family = data[2] % 8;
        message.path.remote.port = (uint16_t)(data[3] << 8 | data[3]);
        memcpy(message.path.remote.ip, data + 4, sizeof message.path.remote.ip);
    }
    size_t sealed_len = peer_seal(key, &message, sealed);
    unsigned before = fuzz_peers.taken;
    for (unsigned i = 0; i < 2; i++) {
        fake_peer_send_bytes(peer, &own, sealed, sealed_len);
        fake_net_run(0);
    }
    assert(fuzz_peers.taken - before <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct peer_handler handler = {.on_passed = on_passed, .on_answer = on_answer};
    struct loop *loop = NULL;
    struct peer_book *book = NULL;
    struct fake_datagram out;

    fake_net_start(1);
    assert(loop_new(on_turn, NULL, &loop) == 0 && peer_book_new(1, peers, 1, &book) == 0);
    const struct peer_link_options options = {
        .book = book, .listen = own, .worker_count = 1, .secret = secret};
    assert(peer_link_open(loop, &options, &handler, NULL, &fuzz_peers.link) == 0);
    struct evp_mac_ctx_st *key = peer_key_new(secret);
    struct fake_peer *peer = fake_peer_new("127.0.0.2:7002");
    while (size > 0) {
        size_t len = data[0] < size - 1 ? data[0] : size - 1;
        unsigned before = fuzz_peers.taken;
        fake_peer_send_bytes(peer, &own, data + 1, len);
        fake_net_run(0);
        assert(fuzz_peers.taken == before); /* without a MAC */
        send_sealed(peer, key, loop, data + 1, len);
        data += 1 + len;
        size -= 1 + len;
    }
    assert(!fake_peer_take(peer, &out) && !fake_net_take(&out));
    assert(peer_book_tag(book) >> 8 == 1);
    peer_key_free(key);
    peer_link_close(fuzz_peers.link);
    fuzz_peers.link = NULL;
    free(book);
    loop_free(loop);
    fake_net_stop();
    return 0;
}
