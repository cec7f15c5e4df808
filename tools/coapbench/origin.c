/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A CoAP origin server: answers every request with its echo line (echo.h).
 *
 * Without a delay an answer leaves in the batch after the one that brought the
 * request. With a delay, or with --separate, it waits encoded in a slot; a separate
 * answer stays there until it is acknowledged or has been sent five times (RFC 7252
 * section 4.2). The memory of message ids is a plain array that newer ones overwrite:
 * enough to count repeats and not to answer one twice while it waits.
 */
#include "origin.h"

#include "batch.h"
#include "clock.h"
#include "commands.h"
#include "echo.h"
#include "random.h"
#include "wheel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    SLOTS = 32768, /* answers that wait; a request beyond is dropped */
    SEEN = 1 << 18,
    BUFFER_BYTES = 4 << 20,
    POLL_MS = 200,
    ACK_TIMEOUT_MS = 2000,
    MAX_RETRANSMIT = 4,
    MIDS = 1 << 16,
};

#define NO_SLOT UINT32_MAX
#define EXCHANGE_LIFETIME_MS UINT64_C(247000)

struct slot {
    union address peer;
    uint32_t local; /* where it was asked */
    uint64_t key;   /* of the request, in seen[] */
    uint32_t next_free;
    uint16_t mid;
    bool confirmable;
    unsigned sent; /* transmissions so far */
    size_t len;
    uint8_t bytes[WIRE_DATAGRAM_MAX];
};

struct seen {
    uint64_t key, at_ms; /* at_ms 0: free */
    uint32_t slot;       /* the answer that waits, or NO_SLOT */
};

struct origin {
    struct origin_options options;
    int fd, epoll_fd;
    struct batch *in, *out;
    uint32_t local; /* where the message came to that is answered; 0: at the socket's address */
    struct random random;
    struct wheel wheel;
    uint64_t now_ms;
    uint16_t next_mid;
    struct slot *slots;
    uint32_t free_slot, slots_used; /* slots beyond slots_used have never been touched */
    struct seen *seen;
    uint32_t *slot_of_mid; /* [MIDS], confirmable answers under way */
    uint64_t received, lost, malformed, requests, repeated, answered, overflow, unacked, refused;
};

/* Of a message from @p peer to our address @p local: each of those is an endpoint. */
static uint64_t key_of(const union address *peer, uint32_t local, uint16_t mid)
{
    uint64_t hash = mid ^ (local != 0 ? random_mix(local) : 0);

    if (peer->any.sa_family == AF_INET) {
        hash ^= (uint64_t)peer->v4.sin_addr.s_addr << 32 | (uint64_t)peer->v4.sin_port << 16;
    } else {
        uint64_t parts[2];
        memcpy(parts, &peer->v6.sin6_addr, sizeof(parts));
        hash ^= (uint64_t)peer->v6.sin6_port << 16;
        hash ^= random_mix(parts[0]) ^ random_mix(parts[1] + 1);
    }
    return random_mix(hash + 1);
}

static bool is_lost(struct origin *origin)
{
    if (origin->options.loss > 0.0 && random_unit(&origin->random) < origin->options.loss) {
        origin->lost++;
        return true;
    }
    return false;
}

static void emit(struct origin *origin, const union address *peer, const uint8_t *bytes, size_t len)
{
    struct datagram *datagram;

    if (is_lost(origin)) {
        return;
    }
    datagram = batch_reserve(origin->out);
    if (datagram == NULL) {
        origin->refused += batch_flush(origin->out, origin->fd);
        datagram = batch_reserve(origin->out);
    }
    datagram->peer = *peer;
    datagram->local = origin->local;
    datagram->len = len;
    memcpy(datagram->data, bytes, len);
    batch_commit(origin->out);
}

static void emit_empty(struct origin *origin, const union address *peer, enum wire_type type,
                       uint16_t mid)
{
    uint8_t bytes[WIRE_HEADER_LEN];
    struct wire_writer writer;

    wire_begin(&writer, bytes, sizeof(bytes),
               &(struct wire_header){.type = type, .code = WIRE_EMPTY, .mid = mid});
    emit(origin, peer, bytes, writer.len);
}

static uint8_t answer_code(uint8_t method)
{
    switch (method) {
    case WIRE_GET:
    case WIRE_FETCH:
        return WIRE_CODE(2, 5);
    case WIRE_DELETE:
        return WIRE_CODE(2, 2);
    case WIRE_POST:
    case WIRE_PUT:
    case WIRE_PATCH:
    case WIRE_IPATCH:
        return WIRE_CODE(2, 4);
    default:
        return WIRE_CODE(4, 5);
    }
}

/* An entity tag of the line, which stands for the representation. */
static struct view make_etag(const struct echo_line *line, uint64_t *storage)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < line->len; i++) {
        hash = random_mix(hash + (uint8_t)line->text[i]);
    }
    *storage = hash;
    return (struct view){(const uint8_t *)storage, sizeof(*storage)};
}

static bool has_etag(const struct wire_message *request, struct view etag)
{
    struct wire_option_iter iter;
    struct view value;
    uint32_t number;

    wire_option_iter_init(&iter, request->options);
    while (wire_option_iter_next(&iter, &number, &value)) {
        if (number == WIRE_ETAG && value.len == etag.len &&
            memcmp(value.data, etag.data, etag.len) == 0) {
            return true;
        }
    }
    return false;
}

/* The payload: the echo line and filler up to the size asked for. */
static struct view fill_payload(const struct origin *origin, const struct echo_line *line,
                                uint8_t payload[static WIRE_DATAGRAM_MAX])
{
    size_t len = line->len > origin->options.size ? line->len : origin->options.size;

    memset(payload, '.', len);
    memcpy(payload, line->text, line->len);
    return (struct view){payload, len};
}

/* Encode the answer; 0 when it does not fit a datagram (a token that no client should send). */
static size_t make_answer(const struct origin *origin, const struct wire_message *request,
                          enum wire_type type, uint16_t mid, uint8_t *bytes)
{
    uint8_t payload[WIRE_DATAGRAM_MAX];
    struct wire_writer writer;
    struct echo_line line;
    uint64_t storage;
    uint8_t code = answer_code(request->code);
    bool valid;
    struct view etag;

    echo_of_request(&line, request);
    etag = make_etag(&line, &storage);
    valid = origin->options.etag && has_etag(request, etag);
    wire_begin(&writer, bytes, WIRE_DATAGRAM_MAX,
               &(struct wire_header){.type = type,
                                     .code = valid ? WIRE_CODE(2, 3) : code,
                                     .mid = mid,
                                     .token = request->token});
    if (origin->options.etag) {
        wire_add_option(&writer, WIRE_ETAG, etag);
    }
    if (origin->options.has_max_age) {
        wire_add_uint(&writer, WIRE_MAX_AGE, origin->options.max_age);
    }
    if (!valid) {
        wire_add_payload(&writer, fill_payload(origin, &line, payload));
    }
    return writer.overflow ? 0 : writer.len;
}

static void release_slot(struct origin *origin, uint32_t number)
{
    struct slot *slot = &origin->slots[number];
    struct seen *seen = &origin->seen[slot->key % SEEN];

    wheel_cancel(&origin->wheel, number);
    if (seen->key == slot->key && seen->slot == number) {
        seen->slot = NO_SLOT;
    }
    if (slot->confirmable) {
        origin->slot_of_mid[slot->mid] = NO_SLOT;
    }
    slot->next_free = origin->free_slot;
    origin->free_slot = number;
}

/* The answer's time has come, for the first time or again. */
static void on_due(void *context, uint32_t number)
{
    struct origin *origin = context;
    struct slot *slot = &origin->slots[number];

    if (slot->sent > MAX_RETRANSMIT) {
        origin->unacked++;
        release_slot(origin, number);
        return;
    }
    origin->local = slot->local;
    emit(origin, &slot->peer, slot->bytes, slot->len);
    origin->answered += slot->sent == 0;
    slot->sent++;
    if (!slot->confirmable) {
        release_slot(origin, number);
        return;
    }
    wheel_set(&origin->wheel, number,
              origin->now_ms + ((uint64_t)ACK_TIMEOUT_MS << (slot->sent - 1)));
}

/* A slot that is free, which it stays until claim_slot(); NO_SLOT when all are taken. */
static uint32_t find_slot(const struct origin *origin)
{
    if (origin->free_slot != NO_SLOT) {
        return origin->free_slot;
    }
    return origin->slots_used < SLOTS ? origin->slots_used : NO_SLOT;
}

static void claim_slot(struct origin *origin, uint32_t number)
{
    if (number == origin->free_slot) {
        origin->free_slot = origin->slots[number].next_free;
    } else {
        origin->slots_used++;
    }
}

static uint64_t delay_ms(struct origin *origin)
{
    uint64_t delay = origin->options.delay_ns;

    if (origin->options.jitter_ns > 0) {
        delay += (uint64_t)(random_unit(&origin->random) * (double)origin->options.jitter_ns);
    }
    return delay / NS_PER_MS;
}

static void answer_later(struct origin *origin, const union address *peer,
                         const struct wire_message *request, struct seen *seen)
{
    uint32_t number = find_slot(origin);
    bool separate = origin->options.separate && request->type == WIRE_CON;
    enum wire_type type = request->type == WIRE_CON ? WIRE_ACK : WIRE_NON;
    uint16_t mid = request->type == WIRE_CON && !separate ? request->mid : origin->next_mid++;
    struct slot *slot;

    if (number == NO_SLOT || (separate && origin->slot_of_mid[mid] != NO_SLOT)) {
        origin->overflow++;
        return;
    }
    slot = &origin->slots[number];
    slot->len = make_answer(origin, request, separate ? WIRE_CON : type, mid, slot->bytes);
    if (slot->len == 0) {
        return;
    }
    claim_slot(origin, number);
    slot->peer = *peer;
    slot->local = origin->local;
    slot->key = seen->key;
    slot->mid = mid;
    slot->confirmable = separate;
    slot->sent = 0;
    seen->slot = number;
    if (separate) {
        origin->slot_of_mid[mid] = number;
        emit_empty(origin, peer, WIRE_ACK, request->mid);
    }
    wheel_set(&origin->wheel, number, origin->now_ms + delay_ms(origin));
}

static void answer_now(struct origin *origin, const union address *peer,
                       const struct wire_message *request)
{
    uint8_t bytes[WIRE_DATAGRAM_MAX];
    bool con = request->type == WIRE_CON;
    uint16_t mid = con ? request->mid : origin->next_mid++;
    size_t len = make_answer(origin, request, con ? WIRE_ACK : WIRE_NON, mid, bytes);

    if (len > 0) {
        emit(origin, peer, bytes, len);
        origin->answered++;
    }
}

static void on_request(struct origin *origin, const union address *peer,
                       const struct wire_message *request)
{
    uint64_t key = key_of(peer, origin->local, request->mid);
    struct seen *seen = &origin->seen[key % SEEN];
    bool later = origin->options.delay_ns + origin->options.jitter_ns > 0;

    if (seen->key == key && seen->at_ms > 0 &&
        origin->now_ms - seen->at_ms < EXCHANGE_LIFETIME_MS) {
        origin->repeated++;
        if (origin->options.separate && request->type == WIRE_CON) {
            emit_empty(origin, peer, WIRE_ACK, request->mid);
        } else if (request->type == WIRE_CON && seen->slot == NO_SLOT) {
            answer_now(origin, peer, request); /* the same bytes: they depend on nothing else */
        }
        return;
    }
    origin->requests++;
    *seen = (struct seen){.key = key, .at_ms = origin->now_ms, .slot = NO_SLOT};
    if (later || (origin->options.separate && request->type == WIRE_CON)) {
        answer_later(origin, peer, request, seen);
    } else {
        answer_now(origin, peer, request);
    }
}

static void on_datagram(struct origin *origin, const struct datagram *datagram)
{
    struct wire_message message;

    origin->received++;
    origin->local = datagram->local;
    if (is_lost(origin)) {
        return;
    }
    if (!wire_decode(datagram->data, datagram->len, &message)) {
        origin->malformed++;
        return;
    }
    if (message.type == WIRE_ACK || message.type == WIRE_RST) {
        uint32_t number = origin->slot_of_mid[message.mid];
        if (number != NO_SLOT && address_equal(&origin->slots[number].peer, &datagram->peer)) {
            release_slot(origin, number);
        }
    } else if (message.code != WIRE_EMPTY && WIRE_CODE_CLASS(message.code) == 0) {
        on_request(origin, &datagram->peer, &message);
    } else if (message.type == WIRE_CON) {
        emit_empty(origin, &datagram->peer, WIRE_RST, message.mid); /* RFC 7252 section 4.2 */
    }
}

static int receive_all(struct origin *origin)
{
    for (unsigned i = 0; i < BATCH_MAX; i++) {
        int count = batch_receive(origin->in, origin->fd);
        if (count < 0) {
            return count;
        }
        for (int j = 0; j < count; j++) {
            on_datagram(origin, batch_at(origin->in, (unsigned)j));
        }
        origin->refused += batch_flush(origin->out, origin->fd);
        if (count < BATCH_MAX) {
            return 0;
        }
    }
    return 0;
}

static int run_loop(struct origin *origin)
{
    uint64_t end_ns = clock_now_ns() + origin->options.time_ns;
    uint64_t now_ns = clock_now_ns();
    struct epoll_event event;

    while (clock_stop == 0 && now_ns < end_ns) {
        uint64_t wait_ms = wheel_next_ms(&origin->wheel, POLL_MS);
        int count = clock_wait(origin->epoll_fd, &event, 1, wait_ms * NS_PER_MS);
        int err = 0;
        now_ns = clock_now_ns();
        origin->now_ms = now_ns / NS_PER_MS;
        if (count > 0) {
            err = receive_all(origin);
        }
        if (count < 0 || err < 0) {
            return count < 0 ? count : err;
        }
        wheel_advance(&origin->wheel, origin->now_ms, on_due, origin);
        origin->refused += batch_flush(origin->out, origin->fd);
    }
    return receive_all(origin); /* datagrams before the signal count */
}

static int open_tables(struct origin *origin)
{
    origin->slots = calloc(SLOTS, sizeof(*origin->slots));
    origin->seen = calloc(SEEN, sizeof(*origin->seen));
    origin->slot_of_mid = calloc(MIDS, sizeof(*origin->slot_of_mid));
    if (origin->slots == NULL || origin->seen == NULL || origin->slot_of_mid == NULL ||
        batch_new(BATCH_MAX, WIRE_DATAGRAM_MAX, &origin->in) != 0 ||
        batch_new(BATCH_MAX, WIRE_DATAGRAM_MAX, &origin->out) != 0) {
        return -ENOMEM;
    }
    origin->free_slot = NO_SLOT;
    memset(origin->slot_of_mid, 0xff, MIDS * sizeof(*origin->slot_of_mid)); /* NO_SLOT each */
    origin->now_ms = clock_now_ns() / NS_PER_MS;
    return wheel_init(&origin->wheel, SLOTS, origin->now_ms);
}

static int open_origin(struct origin *origin)
{
    const union address any = address_v4(INADDR_ANY, origin->options.listen.v4.sin_port);
    bool everywhere = origin->options.everywhere;
    struct udp_open udp = {.bind = everywhere ? &any : &origin->options.listen,
                           .pktinfo = everywhere,
                           .loopback_only = everywhere,
                           .buffer_bytes = BUFFER_BYTES};
    struct epoll_event event = {.events = EPOLLIN};
    int err = open_tables(origin);

    if (err == 0) {
        err = udp_open(&udp, &origin->fd);
    }
    if (err != 0) {
        return err;
    }
    origin->random = (struct random){origin->options.seed};
    origin->next_mid = (uint16_t)random_next(&origin->random);
    origin->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (origin->epoll_fd < 0 ||
        epoll_ctl(origin->epoll_fd, EPOLL_CTL_ADD, origin->fd, &event) != 0) {
        return -errno;
    }
    return 0;
}

static void close_origin(struct origin *origin)
{
    if (origin->fd >= 0) {
        close(origin->fd);
    }
    if (origin->epoll_fd >= 0) {
        close(origin->epoll_fd);
    }
    wheel_clear(&origin->wheel);
    batch_free(origin->in);
    batch_free(origin->out);
    free(origin->slot_of_mid);
    free(origin->seen);
    free(origin->slots);
}

static void print_listening(const struct origin *origin)
{
    union address local;
    char text[ADDRESS_TEXT_MAX];

    if (udp_local(origin->fd, &local) == 0) {
        if (origin->options.everywhere) {
            local = address_v4(INADDR_LOOPBACK, local.v4.sin_port);
        }
        address_format(&local, text);
        printf("listening %s\n", text);
        fflush(stdout);
    }
}

static void print_counters(const struct origin *origin)
{
    printf("received=%" PRIu64 " requests=%" PRIu64 " repeated=%" PRIu64 " answered=%" PRIu64
           " unacked=%" PRIu64 " malformed=%" PRIu64 " lost=%" PRIu64 " overflow=%" PRIu64
           " refused=%" PRIu64 "\n",
           origin->received, origin->requests, origin->repeated, origin->answered, origin->unacked,
           origin->malformed, origin->lost, origin->overflow, origin->refused);
}

int origin_main(int argc, char **argv)
{
    struct origin origin = {.fd = -1, .epoll_fd = -1};
    int status = origin_options_parse(argc, argv, &origin.options);
    int err;

    if (status != STATUS_OK) {
        return status < 0 ? STATUS_OK : status;
    }
    clock_catch_signals();
    clock_precise_sleep();
    err = open_origin(&origin);
    if (err == 0) {
        print_listening(&origin);
        err = run_loop(&origin);
        print_counters(&origin);
    }
    close_origin(&origin);
    return err == 0 ? STATUS_OK : args_failed("origin", err);
}
