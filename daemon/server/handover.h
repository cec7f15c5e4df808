/* SPDX-License-Identifier: BSD-2-Clause */
/* From one process to the next, which may be the same one with another program. */
#ifndef CRIPROXY_HANDOVER_H
#define CRIPROXY_HANDOVER_H

#include "base/pack.h"
#include "net/handover_file.h"
#include "server/internal.h"

struct dtls_gift;

/* What the process before has left; zeroed but for reply_fd: nothing. */
struct handover {
    struct pack whole;     /* the file */
    struct unpack rest;    /* of its body: sessions, worker by worker */
    unsigned worker_count; /* there; each listener has as many descriptors */
    struct opened_listener *opened;
    size_t opened_count;
    int reply_fd;           /* to criproxyctl, which waits; -1: it does not */
    char admin_listen[512]; /* of the configuration there */
    char admin_socket[512];
    uint64_t refused[HANDOVER_REFUSAL_COUNT]; /* which stays when it is cleared */
};

/**
 * Appends everything but sessions.
 *
 * @param reply_fd to criproxyctl, which waits, or -1
 * @param has_sockets the next program is this process, and has its descriptors
 */
void handover_pack_places(const struct server *server, int reply_fd, bool has_sockets,
                          struct pack *out);

/** Appends the sessions of all workers, which are parked or were joined: they are frozen.
 * @param gift which; NULL: all
 * @param out has_failed without memory */
void handover_pack_sessions(struct server *server, const struct dtls_gift *gift, struct pack *out);

/**
 * What the environment leads to, once: it is destroyed where it was. What is refused is logged
 * and counted in @p ret_handover.
 *
 * @return whether there is anything; free it with handover_clear()
 */
bool handover_take(struct handover *ret_handover);

/** Wipes and closes what was not taken out; the counts stay. */
void handover_clear(struct handover *handover);

/**
 * The listeners that this process has, too: inherited ones, and those of its configuration that
 * have a socket for each worker. Their descriptors are taken out of @p handover.
 *
 * @return 0 or -ENOMEM; give to server_listen_commit() or server_listen_cancel()
 */
int handover_listeners(struct server *server, struct handover *handover,
                       struct listen_change *ret_change);

/** DTLS sessions to the workers that had them, before they start. What cannot be read is logged. */
void handover_sessions(struct server *server, struct handover *handover);

/**
 * The process ends, and its workers have been joined: their sessions are left for the process that
 * is started next where there is a place for them (the store in handover.c). Else, or where that
 * fails, they are closed as ever. Failures are logged.
 */
void handover_leave(struct server *server);

/** Tells criproxyctl, if it waits, that this process serves. Failures are ignored. */
void handover_reply(struct handover *handover);

/* Of the store: the name of the descriptor with the service manager, and of the file. */
#define HANDOVER_STORE_NAME "criproxyd-sessions"

#endif
