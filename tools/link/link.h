/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client's way to the proxy: UDP, DTLS with a key, TCP, WebSockets. Blocking, with a time for
 * each call; one link belongs to one thread.
 */
#ifndef TOOLS_LINK_H
#define TOOLS_LINK_H

#include "play.h"

#include <sys/socket.h>

struct link;

/* Where the proxy is and how it is spoken to; the texts are borrowed. */
struct proxy {
    enum actor_way way; /* WAY_UDP, WAY_DTLS, WAY_TCP or WAY_WS */
    struct sockaddr_storage address;
    socklen_t address_len;
    const char *host;           /* as in the URI, for the Host field */
    const char *identity, *key; /* WAY_DTLS; the key as bytes of the text */
};

/**
 * Read @p uri, look its host up and fill in @a way, @a address and @a host, which borrows from
 * @p uri. For coaps, @a identity and @a key have to be set before.
 *
 * @return NULL, or static text on what is wrong.
 */
const char *proxy_find(const char *uri, struct proxy *proxy);

/** Monotonic time in ms. */
unsigned long long link_now_ms(void);

/** The same clock in microseconds. */
unsigned long long link_now_us(void);

/**
 * Connect, with the handshake where there is one.
 *
 * @return NULL, or static text on what failed; @p ret_link is then NULL.
 */
const char *link_open(const struct proxy *proxy, unsigned long long deadline_ms,
                      struct link **ret_link);

/** Takes NULL. */
void link_close(struct link *link);

/** One message, or bytes of a stream. @return NULL or static text. */
const char *link_send(struct link *link, const uint8_t *bytes, size_t len);

/** The next message, or what has come of a stream, until @p deadline_ms. */
enum arrival link_receive(struct link *link, unsigned long long deadline_ms, uint8_t *buffer,
                          size_t capacity, size_t *ret_len);

#endif
