/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One security context: which request is out, which observations there are, and what passes between
 * libcoap and the origin server.
 *
 *     waiting --> current --> answered, or kept for notifications
 *
 * libcoap's client takes one request after another (4.3.4 waits inside coap_send() until the one
 * before is answered), as RFC 7252 section 4.7 has it by default (NSTART). What is given up is
 * ended in libcoap by a response of our own, which it is given as if it came from the origin
 * server.
 *
 * libcoap's socket leads to the relay, a socket of ours on the loopback interface, and from there
 * to the wire. For libcoap hands up responses without saying whether they were protected: only the
 * datagram tells. So what crosses is looked at, and these hold whatever libcoap does:
 *
 *  - no request leaves without OSCORE, and none with a Partial IV that is not reserved on disk, or
 *    that is of an earlier session (a retransmission repeats one of its own session);
 *  - libcoap sees no response without OSCORE: one in the clear is an error, whatever it says
 *    (RFC 8613 section 8.4), and none to a token that has no waiter;
 *  - a notification whose Partial IV is not above the last verified one's is dropped
 * (section 7.4.1, 8.4.1).
 *
 * The header of a datagram that is refused proves nothing; but nothing more than dropping it, or
 * ending the request that it claims to answer, follows from it.
 */
#include "net/oscore_internal.h"

#include "base/escape.h"
#include "base/log.h"
#include "coap/option.h"
#include "net/sockaddr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Requests that wait for one context; the engine's window has fewer out towards one server. */
#define WAITING_MAX 4096u

/* Sequence numbers are reserved that many at a time, and before less than the margin is left. */
#define RESERVE_STEP 256u
#define RESERVE_MARGIN 16u

/* Exchanges without a waiter stay in libcoap's list, which it walks, until it is made anew. */
#define LEFT_MAX 64u

#define DATAGRAM_MAX 65536u
#define DATAGRAMS_A_TURN 32u

/* The longest OSCORE option: flags, Partial IV, kid context with its length, kid. */
#define PARTIAL_IV_MAX 5u

/* ---- exchanges ---- */

static bool has_token(const struct oscore_call *call, struct bytes token)
{
    return call->token_len == token.len &&
           (token.len == 0 || memcmp(call->token, token.data, token.len) == 0);
}

static struct oscore_call *find_exchange(const struct upstream_oscore *oscore, struct bytes token)
{
    struct oscore_call *call = oscore->kept;

    if (oscore->current != NULL && has_token(oscore->current, token)) {
        return oscore->current;
    }
    while (call != NULL && !has_token(call, token)) {
        call = call->next;
    }
    return call;
}

static void free_call(struct oscore_call *call)
{
    oscore_link_release(call->link);
    free(call);
}

static void fail_call(struct oscore_call *call, enum upstream_status status, bool was_sent,
                      const char *why)
{
    const struct upstream_failure failure = {status, was_sent, why};

    oscore_answer_failure(call, &failure);
    free_call(call);
}

/* libcoap is told in oscore_work(). */
static void fail_current(struct upstream_oscore *oscore, enum upstream_status status,
                         const char *why)
{
    struct oscore_call *call = oscore->current;

    oscore->current = NULL;
    oscore->echo_len = 0;
    oscore->left_count++;
    fail_call(call, status, true, why);
}

/* ---- datagrams ---- */

static bool is_response(const struct message *message)
{
    return CODE_CLASS(message->code) >= 2 && CODE_CLASS(message->code) <= 5;
}

static bool is_request(const struct message *message)
{
    return CODE_CLASS(message->code) == 0 && message->code != CODE_EMPTY;
}

/*
 * Whether there is a Partial IV in the value of an OSCORE option (RFC 8613 section 6.1). False as
 * well where the value is malformed: libcoap will say so.
 */
static bool read_number(struct bytes value, uint64_t *ret_number)
{
    unsigned len = value.len > 0 ? value.data[0] & 7u : 0;
    uint64_t number = 0;

    if (len == 0 || len > PARTIAL_IV_MAX || value.len < 1 + len) {
        return false;
    }
    for (unsigned i = 0; i < len; i++) {
        number = number << 8 | value.data[1 + i];
    }
    *ret_number = number;
    return true;
}

/* As far as the network takes it: it is retransmitted. */
static void send_to(int fd, const uint8_t *data, size_t len)
{
    ssize_t sent = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    (void)sent;
}

static void send_empty_to_wire(const struct upstream_oscore *oscore, enum message_type type,
                               uint16_t mid)
{
    uint8_t datagram[MESSAGE_HEADER_LEN];

    message_write_empty(datagram, type, mid);
    send_to(oscore->wire_fd, datagram, sizeof datagram);
}

/* ---- from libcoap to the origin server ---- */

static void on_relay(struct upstream_oscore *oscore, const uint8_t *data, size_t len)
{
    struct message message;
    struct bytes value;
    uint64_t number;

    if (message_decode(data, len, &message) != MESSAGE_OK) {
        return;
    }
    if (message.code != CODE_EMPTY) {
        if (!is_request(&message) || !option_find(message.options, OPTION_oscore, &value) ||
            !read_number(value, &number) || number < oscore->first_number ||
            number >= oscore_state_reserved(oscore->state)) {
            return; /* a fault of libcoap's or ours: better no request than this one */
        }
        if (message.token.len == oscore->busy_token_len &&
            bytes_equal(message.token, (struct bytes){oscore->busy_token, message.token.len})) {
            oscore->busy_mid = message.mid;
        }
    }
    send_to(oscore->wire_fd, data, len);
}

/* ---- from the origin server to libcoap ---- */

static bool is_replay_notice(const struct message *message)
{
    static const char text[] = "Replay detected"; /* RFC 8613 section 8.2 */

    return bytes_equal(message->payload, (struct bytes){(const uint8_t *)text, sizeof text - 1});
}

static enum upstream_status status_in_the_clear(const struct message *message)
{
    switch (message->code) {
    case CODE(4, 0):
        return UPSTREAM_OSCORE_UNDECRYPTED;
    case CODE(4, 1):
        return is_replay_notice(message) ? UPSTREAM_OSCORE_REPLAYED : UPSTREAM_OSCORE_UNKNOWN;
    case CODE(4, 2):
        return UPSTREAM_OSCORE_REFUSED;
    default:
        return UPSTREAM_OSCORE_UNPROTECTED;
    }
}

/* Whether libcoap may have a response; acknowledges it where not. */
static bool admit_response(struct upstream_oscore *oscore, const struct message *message)
{
    struct oscore_call *call = find_exchange(oscore, message->token);
    bool is_confirmable = message->type == MESSAGE_CON;
    struct bytes value;

    if (call == NULL) {
        if (is_confirmable) {
            send_empty_to_wire(oscore, MESSAGE_RST, message->mid); /* RFC 7641 section 3.6 */
        }
        return false;
    }
    oscore->has_inbound_number = false;
    if (!option_find(message->options, OPTION_oscore, &value)) {
        if (is_confirmable) {
            send_empty_to_wire(oscore, MESSAGE_ACK, message->mid);
        }
        if (call == oscore->current) {
            fail_current(oscore, status_in_the_clear(message), NULL);
        }
        return false;
    }
    oscore->has_inbound_number = read_number(value, &oscore->inbound_number);
    bool is_old =
        call->was_answered && (!oscore->has_inbound_number ||
                               (call->has_number && oscore->inbound_number <= call->number));
    if (is_old && is_confirmable) {
        send_empty_to_wire(oscore, MESSAGE_ACK, message->mid); /* the first may have been lost */
    }
    oscore->inbound_token_len = call->token_len;
    memcpy(oscore->inbound_token, call->token, call->token_len);
    return !is_old;
}

static void on_wire(struct upstream_oscore *oscore, const uint8_t *data, size_t len)
{
    struct message message;

    if (message_decode(data, len, &message) != MESSAGE_OK) {
        return;
    }
    if (is_response(&message)) {
        if (!admit_response(oscore, &message)) {
            return;
        }
    } else if (message.code != CODE_EMPTY || message.type == MESSAGE_CON) {
        if (message.type == MESSAGE_CON) {
            send_empty_to_wire(oscore, MESSAGE_RST, message.mid); /* a request, or a Ping */
        }
        return;
    } else if (message.type == MESSAGE_ACK && oscore->is_busy && message.mid == oscore->busy_mid) {
        oscore->is_acknowledged = true;
    }
    send_to(oscore->relay_fd, data, len);
    oscore_coap_process(oscore->coap);
}

static void on_wire_error(struct upstream_oscore *oscore, int error)
{
    bool is_unreachable = error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH;

    if (is_unreachable && oscore->current != NULL) {
        fail_current(oscore, UPSTREAM_REFUSED, NULL);
    }
}

void oscore_context_on_readable(struct upstream_oscore *oscore, enum oscore_source source)
{
    static uint8_t datagram[DATAGRAM_MAX]; /* there is one thread */
    int fd = source == OSCORE_WIRE ? oscore->wire_fd : oscore->relay_fd;

    if (source == OSCORE_LIBCOAP) {
        oscore_coap_process(oscore->coap);
        return;
    }
    for (unsigned i = 0; i < DATAGRAMS_A_TURN; i++) {
        ssize_t len = recv(fd, datagram, sizeof datagram, MSG_DONTWAIT);
        if (len < 0) {
            if (source == OSCORE_WIRE && errno != EAGAIN) {
                on_wire_error(oscore, errno);
            }
            return;
        }
        (source == OSCORE_WIRE ? on_wire : on_relay)(oscore, datagram, (size_t)len);
    }
}

/* ---- libcoap's callbacks ---- */

/* The value of Echo of a challenge, which is answered once (RFC 9175 section 2.3). */
static bool take_challenge(struct upstream_oscore *oscore, struct oscore_call *call,
                           const struct message *message)
{
    struct bytes value;

    if (call != oscore->current || call->has_echoed || message->code != CODE(4, 1) ||
        !option_find(message->options, OPTION_echo, &value) || value.len == 0 ||
        value.len > OSCORE_ECHO_MAX || options_have(call->options, OPTION_echo)) {
        return false;
    }
    call->has_echoed = true;
    oscore->echo_len = (uint8_t)value.len;
    memcpy(oscore->echo, value.data, value.len);
    return true;
}

void oscore_on_response(struct upstream_oscore *oscore, const struct message *response)
{
    struct oscore_call *call = find_exchange(oscore, response->token);

    if (bytes_equal(response->token, (struct bytes){oscore->busy_token, oscore->busy_token_len})) {
        oscore->is_busy = false;
    }
    if (call == NULL || take_challenge(oscore, call, response)) {
        return;
    }
    if (oscore->has_inbound_number &&
        has_token(call, (struct bytes){oscore->inbound_token, oscore->inbound_token_len})) {
        call->has_number = true;
        call->number = oscore->inbound_number;
    }
    call->was_answered = true;
    oscore_answer(call, response);
    if (call != oscore->current) {
        return; /* a notification */
    }
    oscore->current = NULL;
    if (call->is_kept) {
        call->next = oscore->kept;
        oscore->kept = call;
    } else {
        free_call(call);
    }
}

void oscore_on_unverified(struct upstream_oscore *oscore, const char *why)
{
    const struct bytes token = {oscore->inbound_token, oscore->inbound_token_len};

    if (oscore->current != NULL && has_token(oscore->current, token)) {
        fail_current(oscore, UPSTREAM_OSCORE_UNVERIFIED, why);
    }
}

void oscore_on_lost(struct upstream_oscore *oscore, struct bytes token, enum upstream_status status)
{
    if (oscore->current != NULL && has_token(oscore->current, token)) {
        fail_current(oscore, status, NULL);
    }
}

/* ---- opening and closing ---- */

static void close_session(struct upstream_oscore *oscore)
{
    oscore_coap_free(oscore->coap);
    oscore->coap = NULL;
    if (oscore->relay_fd >= 0) {
        (void)close(oscore->relay_fd);
    }
    if (oscore->wire_fd >= 0) {
        (void)close(oscore->wire_fd);
    }
    oscore->relay_fd = oscore->wire_fd = -1;
    oscore->is_busy = false;
    oscore->left_count = 0;
}

static int open_oscore_socket(const struct address *address, bool is_bound)
{
    union sockaddr_any name;
    socklen_t len = sockaddr_from_address(address, &name);
    int fd = socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0 && (is_bound ? bind(fd, &name.any, len) : connect(fd, &name.any, len)) != 0) {
        int err = errno;
        (void)close(fd);
        errno = err;
        return -1;
    }
    return fd;
}

static bool watch_session(struct upstream_oscore *oscore)
{
    const int fds[OSCORE_SOURCES] = {
        [OSCORE_WIRE] = oscore->wire_fd,
        [OSCORE_RELAY] = oscore->relay_fd,
        [OSCORE_LIBCOAP] = oscore_coap_fd(oscore->coap),
    };

    for (int i = 0; i < OSCORE_SOURCES; i++) {
        oscore->watches[i] = (struct oscore_watch){oscore, (enum oscore_source)i};
        if (!oscore_thread_watch(fds[i], &oscore->watches[i])) {
            return false;
        }
    }
    return true;
}

static bool open_session(struct upstream_oscore *oscore, const struct oscore_call *call,
                         enum upstream_status *ret_status)
{
    static const char loopback[] = "127.0.0.1:0";
    struct address local;

    if (!address_parse(loopback, sizeof loopback - 1, 0, &local)) {
        return false;
    }
    oscore->address = call->address;
    oscore->first_number = oscore->number;
    oscore->wire_fd = open_oscore_socket(&call->address, false);
    if (oscore->wire_fd < 0) {
        *ret_status = errno == ENETUNREACH || errno == EHOSTUNREACH || errno == EADDRNOTAVAIL
                          ? UPSTREAM_REFUSED
                          : UPSTREAM_NO_MEMORY;
        return false;
    }
    oscore->relay_fd = open_oscore_socket(&local, true);
    if (oscore->relay_fd >= 0) {
        oscore->coap = oscore_coap_new(oscore, oscore->relay_fd, call);
    }
    *ret_status = UPSTREAM_NO_MEMORY;
    return oscore->coap != NULL && watch_session(oscore);
}

/* Where the context was used before, with its files elsewhere, its nonces come again. */
static void warn_of_first_use(const struct upstream_oscore *oscore)
{
    char shown[512];

    escape_value(shown, sizeof shown, oscore->directory, strlen(oscore->directory));
    log_event(LOG_WARNING, "oscore_first_use",
              "directory=%s file=%s first=0 note=\"sequence numbers begin at 0: if this security "
              "context was ever used before, stop, and give it a new master secret or ID context\"",
              shown, oscore->name);
}

/* Before anything is sent: the numbers that it will take are on disk. */
static bool reserve_numbers(struct upstream_oscore *oscore, const char **ret_why)
{
    if (oscore->state == NULL) {
        oscore->state = oscore_state_open(oscore->directory, oscore->name, ret_why);
        if (oscore->state == NULL) {
            return false;
        }
        oscore->number = oscore_state_reserved(oscore->state);
        if (oscore_state_is_new(oscore->state)) {
            warn_of_first_use(oscore);
        }
    }
    return oscore->number + RESERVE_MARGIN <= oscore_state_reserved(oscore->state) ||
           oscore_state_reserve(oscore->state, oscore->number + RESERVE_STEP, ret_why);
}

/* ---- work ---- */

/* libcoap forgets a request without a waiter, and takes the next one. */
static void release_libcoap(struct upstream_oscore *oscore)
{
    uint8_t datagram[MESSAGE_HEADER_LEN + OSCORE_TOKEN_MAX];
    struct message_writer writer;

    message_writer_init(&writer, datagram, sizeof datagram, MESSAGE_ACK, CODE(5, 3),
                        oscore->busy_mid,
                        (struct bytes){oscore->busy_token, oscore->busy_token_len});
    send_to(oscore->relay_fd, datagram, writer.len);
    oscore_coap_process(oscore->coap);
}

static void note_busy(struct upstream_oscore *oscore, const struct oscore_call *call)
{
    oscore->is_busy = true;
    oscore->is_acknowledged = false;
    oscore->busy_token_len = call->token_len;
    memcpy(oscore->busy_token, call->token, call->token_len);
}

/* What libcoap sends before this returns is read from the relay later. */
static void send_current(struct upstream_oscore *oscore, struct bytes echo)
{
    const char *why = NULL;

    note_busy(oscore, oscore->current);
    if (!reserve_numbers(oscore, &why)) {
        fail_current(oscore, UPSTREAM_OSCORE_STATE, why);
    } else if (!oscore_coap_send(oscore->coap, oscore->current, echo)) {
        fail_current(oscore, UPSTREAM_NO_MEMORY, NULL);
    }
}

static void start_next(struct upstream_oscore *oscore)
{
    struct oscore_call *call = oscore->waiting;
    enum upstream_status status = UPSTREAM_OSCORE_STATE;
    const char *why = NULL;

    oscore->waiting = call->next;
    oscore->waiting_count--;
    if (oscore->waiting == NULL) {
        oscore->waiting_end = &oscore->waiting;
    }
    if (oscore->coap != NULL && !address_equal(&oscore->address, &call->address)) {
        if (oscore->kept != NULL) {
            fail_call(call, UPSTREAM_OSCORE_IN_USE, false, NULL);
            return;
        }
        close_session(oscore);
    }
    if (!reserve_numbers(oscore, &why) ||
        (oscore->coap == NULL && !open_session(oscore, call, &status))) {
        if (oscore->coap == NULL) {
            close_session(oscore);
        }
        fail_call(call, status, false, why);
        return;
    }
    oscore->current = call;
    send_current(oscore, (struct bytes){0});
}

void oscore_work(struct upstream_oscore *oscore)
{
    if (oscore->current != NULL && oscore->echo_len > 0) {
        const struct bytes echo = {oscore->echo, oscore->echo_len};
        oscore->echo_len = 0;
        send_current(oscore, echo);
    }
    /* The proxy's own good-byes have no deadline: a promise to answer is enough. */
    if (oscore->current != NULL && oscore->current->link == NULL && oscore->is_acknowledged) {
        fail_current(oscore, UPSTREAM_TIMEOUT, NULL);
    }
    if (oscore->is_busy && oscore->current == NULL) {
        release_libcoap(oscore);
    }
    while (!oscore->is_busy && oscore->current == NULL && oscore->waiting != NULL) {
        start_next(oscore);
    }
    if (oscore->left_count > LEFT_MAX && !oscore->is_busy && oscore->kept == NULL) {
        close_session(oscore);
    }
}

/* ---- calls ---- */

static bool is_meant(const struct oscore_call *call, const struct oscore_call *by)
{
    return call->link == by->link &&
           (by->kind == OSCORE_DETACH || has_token(call, (struct bytes){by->token, by->token_len}));
}

static uint32_t drop_from(struct oscore_call **list, const struct oscore_call *by)
{
    uint32_t dropped = 0;

    while (*list != NULL) {
        struct oscore_call *call = *list;
        if (is_meant(call, by)) {
            *list = call->next;
            free_call(call);
            dropped++;
        } else {
            list = &call->next;
        }
    }
    return dropped;
}

/* They have no waiter any more. */
static void drop_calls(struct upstream_oscore *oscore, const struct oscore_call *by)
{
    oscore->waiting_count -= drop_from(&oscore->waiting, by);
    oscore->waiting_end = &oscore->waiting;
    while (*oscore->waiting_end != NULL) {
        oscore->waiting_end = &(*oscore->waiting_end)->next;
    }
    oscore->left_count += drop_from(&oscore->kept, by);
    if (oscore->current != NULL && is_meant(oscore->current, by)) {
        free_call(oscore->current);
        oscore->current = NULL;
        oscore->echo_len = 0;
        oscore->left_count++;
    }
}

static void free_calls(struct oscore_call *call)
{
    while (call != NULL) {
        struct oscore_call *next = call->next;
        free_call(call);
        call = next;
    }
}

void oscore_context_free(struct upstream_oscore *oscore)
{
    close_session(oscore);
    free_calls(oscore->waiting);
    free_calls(oscore->kept);
    if (oscore->current != NULL) {
        free_call(oscore->current);
    }
    oscore_state_close(oscore->state);
    explicit_bzero(&oscore->keys, sizeof oscore->keys);
    free(oscore->directory);
    free(oscore);
}

void oscore_take(struct upstream_oscore *oscore, struct oscore_call *call)
{
    switch (call->kind) {
    case OSCORE_REQUEST:
        if (oscore->waiting_count == WAITING_MAX) {
            fail_call(call, UPSTREAM_FULL, false, NULL);
            return;
        }
        call->next = NULL;
        *oscore->waiting_end = call;
        oscore->waiting_end = &call->next;
        oscore->waiting_count++;
        return;
    case OSCORE_CANCEL:
    case OSCORE_DETACH:
        drop_calls(oscore, call);
        free_call(call);
        return;
    case OSCORE_END:
        oscore_context_free(oscore);
        return;
    case OSCORE_STOP:
        return;
    }
}
