/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses that are listened on. The main thread binds a socket for each worker and
 * hands the descriptors over: directly before the workers start, through their loops
 * later. So a reload knows before it changes anything whether every address can be had.
 *
 * Sockets that the service manager has bound come by name (sd_listen_fds(3)). The
 * kernel spreads datagrams over the sockets of one address, so a client stays with a
 * worker only where each worker has a socket of its own: datagram sockets of one
 * address are dealt to the workers in turn, and a worker that gets none serves none
 * there. Listening streams can be shared: each worker accepts from the same one.
 */
#include "server/handover.h"

#include "base/escape.h"
#include "base/log.h"
#include "server/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void log_listener(const char *event, const struct server_listener *listener)
{
    char text[ADDRESS_TEXT_MAX];

    log_event(LOG_INFO, event, "uri=%s://%s%s", transport_row(listener->transport)->scheme,
              address_format(&listener->bound, text), listener->is_inherited ? " inherited=1" : "");
}

static void close_fds(struct opened_listener *opened)
{
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        if (opened->fds[i] >= 0) {
            (void)close(opened->fds[i]);
            opened->fds[i] = -1;
        }
    }
}

/* ---- binding ---- */

static int bind_one(enum transport transport, const struct address *address, bool shared)
{
    return bind_socket(transport_is_stream(transport) ? BIND_STREAM : BIND_DATAGRAM, address,
                       shared);
}

/*
 * Whether the address is free: with shared sockets two processes of one user could
 * bind it without an error, and each get some of the clients.
 */
static int probe(const struct server_listener *listener)
{
    int fd = bind_one(listener->transport, &listener->wanted, false);

    if (fd < 0) {
        return fd;
    }
    (void)close(fd);
    return 0;
}

/* A socket for each worker; the first one decides on the port where the kernel chooses. */
static int open_all(const struct server *server, struct opened_listener *opened)
{
    struct server_listener *listener = &opened->listener;
    const bool shared = server->worker_count > 1;
    int error = shared && listener->wanted.port != 0 ? probe(listener) : 0;

    listener->bound = listener->wanted;
    for (unsigned i = 0; error == 0 && i < server->worker_count; i++) {
        int fd = bind_one(listener->transport, &listener->bound, shared);
        error = fd < 0 ? fd : 0;
        if (error == 0) {
            opened->fds[i] = fd;
            error = bind_address_of(fd, &listener->bound);
        }
    }
    if (error != 0) {
        close_fds(opened);
    }
    return error;
}

void server_opened_init(struct opened_listener *opened, const struct server_listener *listener)
{
    opened->listener = *listener;
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        opened->fds[i] = opened->listener.fds[i] = -1;
    }
}

/* Where it is part of a reload, the user is told of it, too. */
static void log_failure(struct server *server, const struct config_listener *listener, int error,
                        bool is_tolerable)
{
    char uri[160];

    escape_value(uri, sizeof(uri), listener->uri, strlen(listener->uri));
    if (!is_tolerable) {
        (void)snprintf(server->reload_error, sizeof(server->reload_error), "listen.uri %s: %s", uri,
                       strerror(-error));
    }
    log_event(is_tolerable ? LOG_WARNING : LOG_ERROR,
              is_tolerable ? "listener_skipped" : "listen_failed", "uri=%s error=\"%s\"", uri,
              strerror(-error));
}

/* [::1] on a host where IPv6 is off: an error only where the configuration asks for it. */
static bool is_missing_address(int error)
{
    return error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT;
}

/* ---- what changes ---- */

/* The server's listener for that place which is not spoken for yet, or -1. */
static int find_listener(const struct server *server, const struct config_listener *wanted,
                         const bool *is_kept)
{
    for (size_t i = 0; i < server->listener_count; i++) {
        const struct server_listener *listener = &server->listeners[i];
        const struct address *address =
            listener->is_inherited ? &listener->bound : &listener->wanted;
        if (!is_kept[i] && listener->transport == wanted->transport &&
            address_equal(address, &wanted->bind)) {
            return (int)i;
        }
    }
    return -1;
}

/* The default listeners were not asked for where the service manager gives others. */
static bool is_unasked(const struct server *server, const struct config_listener *listener)
{
    return listener->is_default && server->listener_count > 0 && server->listeners[0].is_inherited;
}

static int open_new(struct server *server, const struct config_listener *wanted,
                    struct listen_change *change)
{
    const struct server_listener listener = {.transport = wanted->transport,
                                             .wanted = wanted->bind};
    struct opened_listener *opened = &change->opened[change->opened_count];

    server_opened_init(opened, &listener);
    int error = server->listener_count + change->opened_count == SERVER_LISTENERS_MAX
                    ? -ENOSPC
                    : open_all(server, opened);
    if (error == 0) {
        change->opened_count++;
        return 0;
    }
    bool is_tolerable = wanted->may_lack && is_missing_address(error);
    log_failure(server, wanted, error, is_tolerable);
    return is_tolerable ? 0 : error;
}

int server_listen_prepare(struct server *server, const struct config *config,
                          struct listen_change *ret_change)
{
    struct listen_change change = {0};
    int error = 0;

    change.opened = calloc(config->listener_count + 1, sizeof(struct opened_listener));
    if (change.opened == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < server->listener_count; i++) {
        change.is_kept[i] = server->listeners[i].is_inherited;
    }
    for (size_t i = 0; error == 0 && i < config->listener_count; i++) {
        const bool none_kept[SERVER_LISTENERS_MAX] = {false};
        const struct config_listener *wanted = &config->listeners[i];
        int inherited = find_listener(server, wanted, none_kept);
        int found = find_listener(server, wanted, change.is_kept);
        if (found >= 0) {
            change.is_kept[found] = true;
        } else if (!is_unasked(server, wanted) &&
                   (inherited < 0 || !server->listeners[inherited].is_inherited)) {
            error = open_new(server, wanted, &change);
        }
    }
    if (error != 0) {
        server_listen_cancel(&change);
        return error;
    }
    *ret_change = change;
    return 0;
}

void server_listen_cancel(struct listen_change *change)
{
    for (size_t i = 0; i < change->opened_count; i++) {
        close_fds(&change->opened[i]);
    }
    free(change->opened);
    *change = (struct listen_change){0};
}

/* ---- handing over ---- */

/* To every worker that has a descriptor; they are not ours any more. */
static int hand_over(struct server *server, struct opened_listener *opened)
{
    int error = 0;

    for (unsigned i = 0; i < server->worker_count; i++) {
        int fd = opened->fds[i];
        if (fd < 0) {
            continue;
        }
        opened->fds[i] = -1;
        opened->listener.fds[i] = fd;
        int failed = worker_listen(server->workers[i], opened->listener.transport,
                                   &opened->listener.bound, fd);
        error = error != 0 ? error : failed;
    }
    return error;
}

static int add_listener(struct server *server, struct opened_listener *opened)
{
    int error = hand_over(server, opened);

    if (error == 0) {
        server->listeners[server->listener_count++] = opened->listener;
        log_listener("listening", &opened->listener);
    }
    return error;
}

static void take_out(struct server *server, const struct listen_change *change)
{
    size_t left = 0;

    for (size_t i = 0; i < server->listener_count; i++) {
        const struct server_listener listener = server->listeners[i];
        if (change->is_kept[i]) {
            server->listeners[left++] = listener;
            continue;
        }
        for (unsigned k = 0; k < server->worker_count; k++) {
            (void)worker_unlisten(server->workers[k], listener.transport, &listener.bound);
        }
        log_listener("listener_removed", &listener);
    }
    server->listener_count = left;
}

void server_listen_commit(struct server *server, struct listen_change *change)
{
    take_out(server, change);
    for (size_t i = 0; i < change->opened_count; i++) {
        int error = add_listener(server, &change->opened[i]);
        if (error != 0) {
            server_log_failure("listen_failed", error);
        }
    }
    server_listen_cancel(change);
}

/* ---- the start ---- */

/* ---- sockets that the service manager has bound ---- */

/*
 * $LISTEN_FDS of them from descriptor 3 on, meant for process $LISTEN_PID, with names between
 * colons in $LISTEN_FDNAMES. The name is what is spoken there: coap, coaps, coap+tcp, ...
 */

#define FIRST_FD 3

/* A small number in the environment, or -1. */
static long number_from(const char *variable)
{
    const char *text = getenv(variable);
    char *end = NULL;

    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return -1;
    }
    errno = 0;
    long value = strtol(text, &end, 10);
    return errno == 0 && *end == '\0' ? value : -1;
}

static int refuse(int fd, const char *name, size_t len, const char *why)
{
    char shown[160];

    escape_value(shown, sizeof(shown), name, len);
    log_event(LOG_ERROR, "socket_refused", "fd=%d name=%s why=\"%s\"", fd, shown, why);
    return -EINVAL;
}

/* The transport of @p fd, by its name, and the address that it is bound to. */
static int examine(const struct server *server, int fd, const char *name, size_t len,
                   struct server_listener *ret_listener)
{
    struct server_listener listener = {.is_inherited = true};

    listener.transport = transport_by_scheme(name, len);
    if (listener.transport == TRANSPORT_NONE) {
        return refuse(fd, name, len,
                      "expected FileDescriptorName= coap, coaps, coap+tcp, coaps+tcp, coap+ws, "
                      "coaps+ws, http or https");
    }
    const char *lacks = transport_left_out(listener.transport);
    if (lacks != NULL) {
        char why[80];
        (void)snprintf(why, sizeof(why), "built without %s", lacks);
        return refuse(fd, name, len, why);
    }
    enum bind_type wanted = transport_is_stream(listener.transport) ? BIND_STREAM : BIND_DATAGRAM;
    if (bind_type_of(fd) != wanted || bind_address_of(fd, &listener.bound) != 0) {
        return refuse(fd, name, len,
                      wanted == BIND_STREAM ? "not a TCP socket that listens" : "not a UDP socket");
    }
    if (transport_is_secure(listener.transport) && server->newest->credentials == NULL) {
        return refuse(fd, name, len,
                      "needs tls.certificate and tls.key, tls.raw-key or tls.psk-file");
    }
    listener.wanted = listener.bound;
    *ret_listener = listener;
    return 0;
}

/* Every worker accepts from the same socket. */
static int share(const struct server *server, struct opened_listener *opened, int fd)
{
    opened->fds[0] = fd;
    for (unsigned i = 1; i < server->worker_count; i++) {
        opened->fds[i] = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
        if (opened->fds[i] < 0) {
            return -errno;
        }
    }
    return 0;
}

/* To the first worker without a socket there; the first one of each address to another. */
static int deal(const struct server *server, struct opened_listener *opened, size_t index, int fd)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        unsigned worker = (unsigned)(index + i) % server->worker_count;
        if (opened->fds[worker] < 0) {
            opened->fds[worker] = fd;
            return 0;
        }
    }
    log_event(LOG_ERROR, "socket_refused", "fd=%d why=\"more sockets than workers\"", fd);
    return -EINVAL;
}

static int take(const struct server *server, int fd, const struct server_listener *listener,
                struct listen_change *change)
{
    size_t at = 0;

    while (at < change->opened_count &&
           (transport_is_stream(listener->transport) ||
            change->opened[at].listener.transport != listener->transport ||
            !address_equal(&change->opened[at].listener.bound, &listener->bound))) {
        at++;
    }
    struct opened_listener *opened = &change->opened[at];
    if (at == change->opened_count) {
        server_opened_init(opened, listener);
        change->opened_count++;
    }
    return transport_is_stream(listener->transport) ? share(server, opened, fd)
                                                    : deal(server, opened, at, fd);
}

/* Datagrams of one address that not all workers share: it works, but not at full speed. */
static void warn_of_unshared(const struct server *server, const struct listen_change *change)
{
    for (size_t i = 0; i < change->opened_count; i++) {
        const struct opened_listener *opened = &change->opened[i];
        char text[ADDRESS_TEXT_MAX];
        unsigned count = 0;
        for (unsigned k = 0; k < server->worker_count; k++) {
            count += opened->fds[k] >= 0;
        }
        if (count < server->worker_count) {
            log_event(LOG_WARNING, "listener_unshared", "uri=%s://%s sockets=%u workers=%u",
                      transport_row(opened->listener.transport)->scheme,
                      address_format(&opened->listener.bound, text), count, server->worker_count);
        }
    }
}

/* The name of the next socket; the last one where there are fewer names. */
static const char *next_name(const char **names, size_t *ret_len)
{
    const char *name = *names;
    size_t len = strcspn(name, ":");

    *names += len + (name[len] == ':');
    *ret_len = len;
    return name;
}

/*
 * The sockets that the service manager has bound for us. What is wrong is logged.
 *
 * @return 0, also where there are none, or -errno
 */
static int server_inherit(struct server *server, struct listen_change *ret_change)
{
    long count = number_from("LISTEN_FDS");
    const char *names = getenv("LISTEN_FDNAMES");
    struct listen_change change = {0};
    int error = 0;

    if (number_from("LISTEN_PID") != (long)getpid() || count <= 0) {
        count = 0;
    }
    if (count > SERVER_LISTENERS_MAX) {
        log_event(LOG_ERROR, "socket_refused", "sockets=%ld most=%d", count, SERVER_LISTENERS_MAX);
        return -EINVAL;
    }
    change.opened = calloc((size_t)count + 1, sizeof(struct opened_listener));
    if (change.opened == NULL) {
        return -ENOMEM;
    }
    names = names == NULL ? "" : names;
    for (int fd = FIRST_FD; error == 0 && fd < FIRST_FD + (int)count; fd++) {
        struct server_listener listener;
        size_t len;
        const char *name = next_name(&names, &len);
        if (len == strlen(HANDOVER_STORE_NAME) && memcmp(name, HANDOVER_STORE_NAME, len) == 0) {
            continue; /* handover_store_find() has taken it */
        }
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        error = examine(server, fd, name, len, &listener);
        if (error == 0) {
            error = take(server, fd, &listener, &change);
        }
    }
    if (error != 0) {
        server_listen_cancel(&change);
        return error;
    }
    warn_of_unshared(server, &change);
    *ret_change = change;
    return 0;
}

/* ---- the first listeners ---- */

static int add_all(struct server *server, struct listen_change *change)
{
    int error = 0;

    for (size_t i = 0; error == 0 && i < change->opened_count; i++) {
        error = add_listener(server, &change->opened[i]);
    }
    server_listen_cancel(change);
    return error;
}

int server_listen(struct server *server)
{
    struct listen_change change = {0};
    bool has_sockets = server->handover != NULL && server->handover->opened_count > 0;
    int error = has_sockets ? handover_listeners(server, server->handover, &change)
                            : server_inherit(server, &change);

    if (error == 0) {
        error = add_all(server, &change);
    }
    if (error == 0) {
        error = server_listen_prepare(server, server_config(server), &change);
    }
    if (error == 0) {
        error = add_all(server, &change);
    }
    if (error != 0) {
        return error;
    }
    return server->listener_count > 0 ? 0 : -EADDRNOTAVAIL;
}
