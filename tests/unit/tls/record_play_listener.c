/* SPDX-License-Identifier: BSD-2-Clause */
/* The listener's role: two listeners, of which one has the session, over sockets and a clock that
 * are functions here. */
#include "record_play_end.h"

#include "net/credentials.h"
#include "net/dtls_internal.h"
#include "net/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_MS UINT64_C(1000000)

/* ---- the network and the clock ---- */

struct udp_socket {
    const struct udp_handler *handler;
    void *context;
    struct address local;
};

static uint64_t clock_ms = FIRST_MS;

uint64_t loop_now_ms(const struct loop *loop)
{
    (void)loop;
    return clock_ms;
}

uint64_t loop_wall_s(const struct loop *loop)
{
    (void)loop;
    return clock_ms / 1000;
}

int udp_open(struct loop *loop, const struct udp_options *options,
             const struct udp_handler *handler, void *context, struct udp_socket **ret_socket)
{
    struct udp_socket *socket = calloc(1, sizeof *socket);
    (void)loop;

    PLAY_MUST(socket != NULL);
    *socket = (struct udp_socket){handler, context, options->bind};
    *ret_socket = socket;
    return 0;
}

void udp_close(struct udp_socket *socket)
{
    free(socket);
}

const struct address *udp_local(const struct udp_socket *socket)
{
    return &socket->local;
}

void udp_send(struct udp_socket *socket, const struct udp_path *path, const uint8_t *data,
              size_t len)
{
    (void)socket, (void)path;
    play_left(data, len);
}

void udp_steer(struct udp_socket *socket, uint8_t type, uint32_t at)
{
    (void)socket, (void)type, (void)at;
}

void udp_hold(struct udp_socket *socket, bool is_held)
{
    (void)socket, (void)is_held;
}

void udp_flush(struct udp_socket *socket)
{
    (void)socket;
}

/* ---- listeners ---- */

static struct dtls_listener *listeners[2]; /* the first has the session */
static struct credentials *credentials;
static unsigned strangers; /* datagrams from elsewhere */

static struct address play_address(uint8_t last, uint16_t port)
{
    struct address address = {.family = ADDRESS_IPV4, .port = port, .ip = {127, 0, 0, last}};

    return address;
}

static void on_datagram_played(void *context, struct dtls_session *session,
                               const struct datagram *datagram)
{
    (void)context;
    play_delivered(datagram->data, datagram->len);
    if (datagram->len % 2 == 0) { /* an answer from inside the call, to where it came from */
        dtls_send_to(session, &datagram->path, (const uint8_t *)"o answer", 8);
    }
}

static void on_close_played(void *context, struct dtls_session *session, const char *why)
{
    (void)context, (void)session, (void)why;
}

static bool is_believed_played(void *context, const struct address *remote)
{
    (void)context;
    return remote->port % 2 == 0;
}

static struct dtls_listener *open_listener(void)
{
    static const struct dtls_handler handler = {.on_datagram = on_datagram_played,
                                                .on_close = on_close_played,
                                                .is_believed = is_believed_played};
    struct dtls_options options = {.udp = {.bind = play_address(1, 5684), .fd = -1},
                                   .credentials = credentials,
                                   .sessions_max = 4,
                                   .handshakes_max = 4,
                                   .handshake_ms = 30000,
                                   .cid_bytes = PLAY_CID_BYTES};
    struct dtls_listener *listener = NULL;

    PLAY_MUST(dtls_listen(NULL, &options, &handler, NULL, &listener) == 0);
    return listener;
}

void play_listener_init(void)
{
    char path[] = "/tmp/criproxy-play-XXXXXX", error[256] = "";
    static const char key[] = "alice:000102030405060708090a0b0c0d0e0f\n";
    int fd = mkstemp(path);

    PLAY_MUST(fd >= 0 && write(fd, key, sizeof key - 1) == (ssize_t)sizeof key - 1);
    const struct credentials_options options = {.psk_file = path};
    credentials = credentials_load(&options, error, sizeof error);
    (void)close(fd);
    (void)unlink(path);
    PLAY_MUST(credentials != NULL);
    listeners[0] = open_listener();
    listeners[1] = open_listener();
}

void play_listener_clear(void)
{
    dtls_close_listener(listeners[0]);
    dtls_close_listener(listeners[1]);
    credentials_release(credentials);
}

/* ---- the session ---- */

static struct dtls_session *current(void)
{
    return listeners[0]->established.first;
}

/* ChangeCipherSpec in the clear, Finished protected: types, epochs, lengths, contents. */
static void give_flight(struct dtls_session *session)
{
    static const uint8_t entries[4 + 1 + 4 + 24] = {CONTENT_CHANGE_CIPHER_SPEC, 0, 0, 1,  1,
                                                    CONTENT_HANDSHAKE,          1, 0, 24, 20};
    struct pack pack = {0};

    pack_uint(&pack, 1, 1);
    pack_uint(&pack, clock_ms, 8); /* sent for the first time, and for the last */
    pack_uint(&pack, clock_ms, 8);
    pack_uint(&pack, 4, 8);
    pack_bytes(&pack, entries, sizeof entries);
    struct unpack in = {.at = pack.data, .left = pack.len};
    PLAY_MUST(own_unpack_flight(session, &in, 0) && session->flight != NULL);
    pack_clear(&pack);
}

static void listener_open(const struct records *records, uint32_t cid, bool has_flight)
{
    const struct udp_path path = {.remote = play_address(2, 40000), .local = play_address(1, 5684)};

    strangers = 0;
    (void)dtls_turn(listeners[0], clock_ms);
    struct dtls_session *session = session_adopt(listeners[0], &path, records, cid);
    PLAY_MUST(session != NULL);
    session->identity = identity_new(IDENTITY_NONE, 0, NULL);
    PLAY_MUST(session->identity != NULL);
    session->started_ms = session->used_ms = clock_ms;
    if (has_flight) {
        give_flight(session);
    }
}

static struct records *listener_records(void)
{
    return current() == NULL ? NULL : &current()->records;
}

static void listener_feed(const uint8_t *datagram, size_t len, bool is_elsewhere)
{
    struct udp_socket *socket = listeners[0]->socket;
    struct datagram came = {.data = datagram, .len = len};

    came.path.remote = is_elsewhere ? play_address(3, (uint16_t)(50000 + strangers++ % 4))
                                    : play_address(2, 40000);
    came.path.local = play_address(1, 5684);
    socket->handler->on_datagram(socket->context, socket, &came);
    (void)dtls_turn(listeners[0], clock_ms);
}

static void listener_tell(const uint8_t *data, size_t len)
{
    if (current() != NULL) {
        dtls_send(current(), data, len);
        (void)dtls_turn(listeners[0], clock_ms);
    }
}

static void listener_wait(uint64_t ms)
{
    clock_ms += ms;
    (void)dtls_turn(listeners[0], clock_ms);
}

/* As the end of a process: nothing is said. */
static void end_process(struct dtls_listener *listener)
{
    while (listener->established.first != NULL) {
        session_doom(listener->established.first, "the process has ended");
    }
    session_free_doomed(listener);
    dtls_thaw(listener);
}

static void listener_hand_over(enum play_handover how, const uint8_t *datagram, size_t len)
{
    struct dtls_listener *before = listeners[0];
    struct pack pack = {0};

    bool was_there = current() != NULL;
    dtls_hand_over(before, NULL, &pack);
    PLAY_MUST(!pack.has_failed);
    play_freeze(true);
    listener_feed(datagram, len, false);
    listener_tell((const uint8_t *)"o frozen", 8);
    if (how == PLAY_FAILED) {
        dtls_thaw(before);
    } else if (how == PLAY_LOST) {
        end_process(before);
    } else {
        struct unpack in = {.at = pack.data, .left = pack.len};
        (void)dtls_turn(listeners[1], clock_ms);
        PLAY_MUST(dtls_take_over(listeners[1], &in, &(struct dtls_taking){.shift_ms = 0}) &&
                  in.left == 0);
        end_process(before);
        listeners[0] = listeners[1];
        listeners[1] = before;
    }
    pack_clear(&pack);
    play_freeze(false);
    PLAY_MUST((current() != NULL) == (was_there && how != PLAY_LOST));
    listener_feed(datagram, len, false);
}

static void listener_close(void)
{
    if (current() != NULL) {
        session_shut(current(), "asked to");
        (void)dtls_turn(listeners[0], clock_ms);
    }
}

/* Whatever comes: one slot while the session is there, and none in the other listener. */
static void listener_check(void)
{
    PLAY_MUST(listeners[0]->slab.taken == (current() != NULL ? 1 : 0));
    PLAY_MUST(listeners[1]->slab.taken == 0);
    PLAY_MUST(listeners[0]->handshaking_count == 0);
}

const struct play_end play_listener = {
    .open = listener_open,
    .records = listener_records,
    .feed = listener_feed,
    .tell = listener_tell,
    .wait = listener_wait,
    .hand_over = listener_hand_over,
    .close = listener_close,
    .check = listener_check,
};
