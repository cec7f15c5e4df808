/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ICMP errors for a session's packets. libcoap opens the socket and does not give it away; its
 * versions report a refusal (ICMP port unreachable) differently: 4.3.1 with an event, 4.3.4 not at
 * all, so that a closed port would look like a silent host. So this file finds the socket, and
 * reads its error before libcoap does.
 */
#include "net/client_coap_internal.h"

#include "net/sockaddr.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Descriptors looked at behind the one expected: other threads open some at the same time. */
#define WINDOW 64

static bool is_connected_to(int fd, const struct address *remote)
{
    union sockaddr_any name;
    socklen_t len = sizeof name, type_len = sizeof(int);
    struct address peer;
    int type = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) != 0 || type != SOCK_DGRAM ||
        getpeername(fd, &name.any, &len) != 0) {
        return false;
    }
    sockaddr_to_address(&name.any, len, &peer);
    return address_equal(&peer, remote);
}

/* Whether @p fd is one of those that @p epoll_fd waits for: then it cannot be added. */
static bool is_waited_for(int epoll_fd, int fd)
{
    struct epoll_event none = {.events = 0};

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &none) == 0) {
        (void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* another session's */
        return false;
    }
    return errno == EEXIST;
}

static bool is_session_s(const struct session *session, int fd)
{
    return is_connected_to(fd, &session->place->target.address) &&
           is_waited_for(coap_context_get_coap_fd(session->coap->context), fd);
}

int client_coap_next_socket(const struct session *session)
{
    int fd = fcntl(coap_context_get_coap_fd(session->coap->context), F_DUPFD_CLOEXEC, 0);

    if (fd >= 0) {
        (void)close(fd);
    }
    return fd;
}

int client_coap_find_socket(const struct session *session, int expected)
{
    for (int fd = expected; fd >= 0 && fd < expected + WINDOW; fd++) {
        if (is_session_s(session, fd)) {
            return fd;
        }
    }
    return -1;
}

bool client_coap_is_refused(const struct session *session)
{
    int fd = session->coap->fd, error = 0;
    socklen_t len = sizeof error;

    return fd >= 0 && is_session_s(session, fd) &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 &&
           (error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH);
}
