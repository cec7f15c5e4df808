/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/peers.h"

#include "base/rate.h"
#include "net/loop.h"

#include <errno.h>
#include <openssl/rand.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAGS 65536u
#define CID_LEN 8u /* worker, tag, five random bytes */

/* A hello is sent so often: as long may a replica that has just begun ask the wrong one. */
#define HELLO_MS 1000u

#define HELLO_TAGS_MAX 512u

/* New ids have one of so many tags in turn, which differ in the lowest bits: so their sessions can
 * be given to as many replicas. The bits above tell runs apart. */
#define RUN_TAGS 8u

/* Clients' datagrams that a worker passes on in a second: any host may send such. */
#define PASSED_PER_S 20000u

/* A client's datagram and what is around it. */
#define PEER_DATAGRAM_MAX UDP_DATAGRAM_MAX

struct peer_book {
    uint8_t own;
    size_t count;
    struct cluster_peer peers[PEERS_MAX];
    uint64_t run; /* when it began, ns of the time of day */
    _Atomic uint64_t sent;
    _Atomic uint16_t run_tag;             /* the first of its run */
    _Atomic uint16_t turn;                /* which of them is next */
    _Atomic uint64_t heard_ms[PEERS_MAX]; /* the time of the newest hello, by its sender's clock */
    _Atomic uint8_t holders[TAGS];        /* 0: the replica with the number in the tag */
};

struct peer_link {
    struct loop *loop;
    struct udp_socket *socket;
    struct peer_book *book;
    uint8_t worker;
    struct evp_mac_ctx_st *key; /* NULL: no memory */
    const struct peer_handler *handler;
    void *context;
    struct rate passed;
    uint64_t hello_ms;
    struct peer_counters counters;
    struct peer_window windows[PEERS_MAX]; /* by the book's peers */
    uint8_t out[PEER_DATAGRAM_MAX];
};

static void count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static uint64_t wall_ms(const struct peer_link *link)
{
    return loop_wall_s(link->loop) * 1000;
}

/* ---- the book ---- */

/* Its index, or count. */
static size_t find_peer(const struct peer_book *book, uint8_t number)
{
    size_t i = 0;

    while (i < book->count && book->peers[i].number != number) {
        i++;
    }
    return i;
}

static uint8_t holder_of(const struct peer_book *book, uint16_t tag)
{
    uint8_t holder = atomic_load_explicit(&book->holders[tag], memory_order_relaxed);

    return holder != 0 ? holder : (uint8_t)(tag >> 8);
}

uint8_t peer_book_own(const struct peer_book *book)
{
    return book->own;
}

bool peer_book_has(const struct peer_book *book, uint8_t number)
{
    return find_peer(book, number) < book->count;
}

static uint16_t run_tag_of(const struct peer_book *book)
{
    return atomic_load_explicit(&book->run_tag, memory_order_relaxed);
}

uint16_t peer_book_tag(struct peer_book *book)
{
    unsigned turn = atomic_fetch_add_explicit(&book->turn, 1, memory_order_relaxed);

    return (uint16_t)(run_tag_of(book) + turn % RUN_TAGS);
}

static bool is_free_run(const struct peer_book *book, uint16_t run_tag)
{
    unsigned i = 0;

    while (i < RUN_TAGS &&
           atomic_load_explicit(&book->holders[run_tag + i], memory_order_relaxed) == 0) {
        i++;
    }
    return i == RUN_TAGS;
}

/* From now on new ids have other tags, which no replica has sessions of; the same ones where there
 * are none left, until the next start: datagrams with these that are led astray find no session. */
static void renew_tags(struct peer_book *book)
{
    uint16_t first = (uint16_t)(book->own << 8);
    uint8_t start = 0;

    (void)RAND_bytes(&start, 1); /* or it begins at 0 */
    for (unsigned i = 0; i < 256; i += RUN_TAGS) {
        uint16_t run_tag = (uint16_t)(first | ((start + i) % 256 / RUN_TAGS * RUN_TAGS));
        if (is_free_run(book, run_tag) && run_tag != run_tag_of(book)) {
            atomic_store_explicit(&book->run_tag, run_tag, memory_order_relaxed);
            return;
        }
    }
}

int peer_book_new(uint8_t own, const struct cluster_peer *peers, size_t peer_count,
                  struct peer_book **ret_book)
{
    struct peer_book *book = calloc(1, sizeof *book);

    if (book == NULL) {
        return -ENOMEM;
    }
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    book->run = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    book->own = own;
    book->count = peer_count < PEERS_MAX ? peer_count : PEERS_MAX;
    memcpy(book->peers, peers, book->count * sizeof *peers);
    renew_tags(book);
    *ret_book = book;
    return 0;
}

void peer_book_hold(struct peer_book *book, uint16_t tag)
{
    atomic_store_explicit(&book->holders[tag], book->own, memory_order_relaxed);
}

void peer_book_give(struct peer_book *book, const uint8_t *takers, uint8_t number)
{
    for (uint32_t tag = 256; tag < TAGS; tag++) {
        if (takers[tag] == number) {
            atomic_store_explicit(&book->holders[tag], number, memory_order_relaxed);
        }
    }
    if (!is_free_run(book, run_tag_of(book))) {
        renew_tags(book);
    }
}

/* ---- out ---- */

static void send_to_peer(struct peer_link *link, const struct cluster_peer *peer,
                         struct peer_message *message)
{
    const struct udp_path path = {.remote = peer->address};

    if (link->key == NULL || message->body.len > sizeof link->out - PEER_OVERHEAD) {
        return;
    }
    message->from = link->book->own;
    message->from_worker = link->worker;
    message->to = peer->number;
    message->run = link->book->run;
    message->number = atomic_fetch_add_explicit(&link->book->sent, 1, memory_order_relaxed);
    message->sent_ms = wall_ms(link);
    size_t len = peer_seal(link->key, message, link->out);
    if (len > 0) {
        udp_send(link->socket, &path, link->out, len);
    }
}

bool peer_link_pass(struct peer_link *link, uint16_t listener, const uint8_t *cid,
                    const struct datagram *datagram)
{
    uint64_t now_ms = loop_now_ms(link->loop);
    size_t at = find_peer(link->book, holder_of(link->book, (uint16_t)(cid[1] << 8 | cid[2])));

    if (at == link->book->count) {
        return false;
    }
    if (!rate_has(&link->passed, PASSED_PER_S, now_ms)) {
        count(&link->counters.not_passed);
        return true;
    }
    rate_take(&link->passed);
    struct peer_message message = {.kind = PEER_DATAGRAM,
                                   .worker = cid[0],
                                   .listener = listener,
                                   .path = datagram->path,
                                   .body = {datagram->data, datagram->len}};
    send_to_peer(link, &link->book->peers[at], &message);
    count(&link->counters.passed);
    return true;
}

/* path.via: the replica, its worker, its listener. */
static uint32_t via_of(const struct peer_message *message)
{
    return (uint32_t)message->from << 24 | (uint32_t)message->from_worker << 16 | message->listener;
}

void peer_link_answer(struct peer_link *link, const struct udp_path *path, const uint8_t *data,
                      size_t len)
{
    size_t at = find_peer(link->book, (uint8_t)(path->via >> 24));
    struct peer_message message = {.kind = PEER_ANSWER,
                                   .worker = (uint8_t)(path->via >> 16),
                                   .listener = (uint16_t)path->via,
                                   .path = *path,
                                   .body = {data, len}};

    if (at < link->book->count) {
        send_to_peer(link, &link->book->peers[at], &message);
    }
}

static void send_hello(struct peer_link *link)
{
    struct peer_book *book = link->book;
    uint8_t tags[2 * HELLO_TAGS_MAX];
    size_t len = 0;

    for (uint32_t tag = 0; tag < TAGS && len < sizeof tags; tag++) {
        if (atomic_load_explicit(&book->holders[tag], memory_order_relaxed) == book->own) {
            tags[len++] = (uint8_t)(tag >> 8);
            tags[len++] = (uint8_t)tag;
        }
    }
    for (size_t i = 0; len > 0 && i < book->count; i++) {
        struct peer_message message = {.kind = PEER_HELLO, .body = {tags, len}};
        send_to_peer(link, &book->peers[i], &message);
    }
}

uint64_t peer_link_turn(struct peer_link *link, uint64_t now_ms)
{
    if (link->worker != 0) {
        return UINT64_MAX;
    }
    if (now_ms >= link->hello_ms) {
        link->hello_ms = now_ms + HELLO_MS;
        send_hello(link);
    }
    return link->hello_ms;
}

void peer_link_hurry(struct peer_link *link)
{
    link->hello_ms = 0;
}

void peer_link_flush(struct peer_link *link)
{
    udp_flush(link->socket);
}

/* ---- in ---- */

/* An older hello than one that has come says nothing: the sender may have given sessions away. */
static bool is_latest_hello(struct peer_book *book, size_t peer, uint64_t sent_ms)
{
    uint64_t before = atomic_load_explicit(&book->heard_ms[peer], memory_order_relaxed);

    if (sent_ms < before) {
        return false;
    }
    atomic_store_explicit(&book->heard_ms[peer], sent_ms, memory_order_relaxed);
    return true;
}

static void take_hello(struct peer_link *link, size_t peer, const struct peer_message *message)
{
    struct peer_book *book = link->book;

    if (!is_latest_hello(book, peer, message->sent_ms)) {
        return;
    }
    for (size_t i = 0; i + 1 < message->body.len; i += 2) {
        uint16_t tag = (uint16_t)(message->body.data[i] << 8 | message->body.data[i + 1]);
        if (atomic_load_explicit(&book->holders[tag], memory_order_relaxed) != book->own) {
            atomic_store_explicit(&book->holders[tag], message->from, memory_order_relaxed);
        }
        if (tag / RUN_TAGS == run_tag_of(book) / RUN_TAGS) {
            renew_tags(book); /* sessions of a run before this one had it */
        }
    }
}

static bool is_near(uint64_t a_ms, uint64_t b_ms)
{
    return (a_ms > b_ms ? a_ms - b_ms : b_ms - a_ms) <= PEER_CLOCK_MS;
}

/* PEER_REFUSAL_COUNT, or why not. */
static enum peer_refusal check_peer(struct peer_link *link, const uint8_t *data, size_t len,
                                    struct peer_message *ret, size_t *ret_peer)
{
    enum peer_refusal why =
        link->key == NULL ? PEER_REFUSAL_forged : peer_open(link->key, data, len, ret);

    if (why != PEER_REFUSAL_COUNT) {
        return why;
    }
    *ret_peer = find_peer(link->book, ret->from);
    if (ret->to != link->book->own || *ret_peer == link->book->count) {
        return PEER_REFUSAL_misdirected;
    }
    if (!is_near(ret->sent_ms, wall_ms(link))) {
        return PEER_REFUSAL_old;
    }
    return peer_window_take(&link->windows[*ret_peer], ret) ? PEER_REFUSAL_COUNT
                                                            : PEER_REFUSAL_replayed;
}

static enum peer_refusal take_peer_message(struct peer_link *link, size_t peer,
                                           const struct peer_message *message)
{
    struct datagram datagram = {
        .data = message->body.data, .len = message->body.len, .path = message->path};

    switch (message->kind) {
    case PEER_DATAGRAM:
        datagram.path.via = via_of(message);
        if (!link->handler->on_passed(link->context, &datagram)) {
            return PEER_REFUSAL_no_session;
        }
        count(&link->counters.taken);
        break;
    case PEER_ANSWER:
        if (!link->handler->on_answer(link->context, message->listener, &message->path,
                                      message->body)) {
            return PEER_REFUSAL_no_listener;
        }
        count(&link->counters.answers);
        break;
    case PEER_HELLO:
        take_hello(link, peer, message);
        break;
    }
    return PEER_REFUSAL_COUNT;
}

static void peer_on_datagram(void *context, struct udp_socket *socket,
                             const struct datagram *datagram)
{
    struct peer_link *link = context;
    struct peer_message message;
    size_t peer = 0;
    (void)socket;
    enum peer_refusal why = datagram->truncated
                                ? PEER_REFUSAL_malformed
                                : check_peer(link, datagram->data, datagram->len, &message, &peer);

    if (why == PEER_REFUSAL_COUNT) {
        why = take_peer_message(link, peer, &message);
    }
    if (why != PEER_REFUSAL_COUNT) {
        count(&link->counters.refused[why]);
    }
}

/* ---- the link ---- */

int peer_link_open(struct loop *loop, const struct peer_link_options *options,
                   const struct peer_handler *handler, void *context, struct peer_link **ret_link)
{
    /* A peer that is not there now will be, or says what it has taken over from another address. */
    static const struct udp_handler udp_handler = {.on_datagram = peer_on_datagram,
                                                   .on_error = NULL};
    const struct udp_options udp = {
        .bind = options->listen, .reuse_port = options->worker_count > 1, .fd = -1};
    struct peer_link *link = calloc(1, sizeof *link);

    if (link == NULL) {
        return -ENOMEM;
    }
    link->loop = loop;
    link->book = options->book;
    link->worker = (uint8_t)options->worker;
    link->handler = handler;
    link->context = context;
    peer_link_set_secret(link, options->secret);
    int error =
        link->key == NULL ? -ENOMEM : udp_open(loop, &udp, &udp_handler, link, &link->socket);
    if (error != 0) {
        peer_link_close(link);
        return error;
    }
    if (options->worker_count > 1) {
        udp_steer(link->socket, PEER_MAGIC, PEER_WORKER_AT);
    }
    *ret_link = link;
    return 0;
}

void peer_link_close(struct peer_link *link)
{
    if (link != NULL) {
        udp_close(link->socket);
        peer_key_free(link->key);
        free(link);
    }
}

void peer_link_set_secret(struct peer_link *link, struct bytes secret)
{
    peer_key_free(link->key);
    link->key = peer_key_new(secret);
}

const struct peer_counters *peer_link_counters(const struct peer_link *link)
{
    return &link->counters;
}
