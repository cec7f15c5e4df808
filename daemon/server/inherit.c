/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that the service manager has bound (sd_listen_fds(3)): $LISTEN_FDS of them
 * from descriptor 3 on, meant for process $LISTEN_PID, with names between colons in
 * $LISTEN_FDNAMES. The name is what is spoken there: coap, coaps, coap+tcp, ...
 */
#include "server/handover_store.h"
#include "server/internal.h"

#include "base/escape.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        return refuse(fd, name, len, "needs tls.certificate and tls.key, or tls.psk-file");
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

int server_inherit(struct server *server, struct listen_change *ret_change)
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
        if (handover_store_is_named(name, len)) {
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
