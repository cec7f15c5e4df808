/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/conn_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_MS 2000u
#define DISCARD_BYTES 16384u

/* Reads in one turn: a peer that sends fast must not keep the others waiting. */
#define DISCARD_READS 16u

struct conn_linger {
    struct conn_listener *listener;
    struct conn_linger *next, **link;
    struct event *event;
    uint64_t end_ms;
    evutil_socket_t fd;
};

static void linger_end(struct conn_linger *linger)
{
    *linger->link = linger->next;
    if (linger->next != NULL) {
        linger->next->link = linger->link;
    }
    linger->listener->linger_count--;
    event_free(linger->event);
    close(linger->fd);
    free(linger);
}

static bool linger_has_ended(evutil_socket_t fd)
{
    uint8_t discarded[DISCARD_BYTES];

    for (unsigned i = 0; i < DISCARD_READS; i++) {
        ssize_t got = recv(fd, discarded, sizeof discarded, MSG_DONTWAIT);
        if (got <= 0) {
            return got == 0 || (errno != EAGAIN && errno != EINTR);
        }
    }
    return false;
}

static void linger_on_event(evutil_socket_t fd, short what, void *context)
{
    struct conn_linger *linger = context;
    struct loop *loop = linger->listener->loop;

    loop_turn_begin(loop);
    /* libevent's time-out restarts with each byte; this one does not. */
    if ((what & EV_TIMEOUT) != 0 || loop_now_ms(loop) >= linger->end_ms || linger_has_ended(fd)) {
        linger_end(linger);
    }
}

void conn_linger(struct conn_listener *listener, evutil_socket_t fd)
{
    const struct timeval time = conn_timeval(LINGER_MS);

    (void)shutdown(fd, SHUT_WR);
    if (listener->linger_count >= LINGER_COUNT_MAX) {
        return;
    }
    struct conn_linger *linger = calloc(1, sizeof *linger);
    if (linger == NULL) {
        return;
    }
    /* The bufferevent closes its own descriptor, at a time of its choosing. */
    linger->fd = dup(fd);
    linger->event = linger->fd < 0 ? NULL
                                   : event_new(loop_event_base(listener->loop), linger->fd,
                                               EV_READ | EV_PERSIST, linger_on_event, linger);
    if (linger->event == NULL || event_add(linger->event, &time) != 0) {
        if (linger->event != NULL) {
            event_free(linger->event);
        }
        if (linger->fd >= 0) {
            close(linger->fd);
        }
        free(linger);
        return;
    }
    linger->listener = listener;
    linger->end_ms = loop_now_ms(listener->loop) + LINGER_MS;
    linger->next = listener->lingering;
    linger->link = &listener->lingering;
    if (linger->next != NULL) {
        linger->next->link = &linger->next;
    }
    listener->lingering = linger;
    listener->linger_count++;
}

void conn_linger_end_all(struct conn_listener *listener)
{
    while (listener->lingering != NULL) {
        linger_end(listener->lingering);
    }
}
