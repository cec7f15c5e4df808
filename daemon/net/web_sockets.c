/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libcurl's sockets on the loop. Between two requests on a kept connection libcurl gives its socket
 * up and takes it again. The event stays as it is meanwhile: two epoll_ctl() for each request would
 * cost an eighth of its CPU time. Nothing may come meanwhile: an answer that was not asked for
 * would be taken for that to the next request, by libcurl 7.88 at least (RFC 9112 section 6.3). So
 * the connection is shut down, which libcurl sees before it would use it again. Over TLS, too,
 * though it may be a session ticket that comes late: a handshake more is all that it costs, and
 * servers send those before their first answer. On HTTP/2 a server may send at any time: there the
 * event is put away, once. A socket is forgotten before it is closed, so its number may be
 * another's afterwards.
 */
#include "net/web_internal.h"

#include "net/loop_internal.h"
#include "net/sockaddr.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct web_socket {
    struct hash_node node; /* by fd */
    struct web_pool *pool;
    struct event *event; /* once libcurl has wanted it */
    int fd;
    int wanted;   /* by libcurl: CURL_POLL_..., 0 while it does not */
    int waits;    /* for what the event waits, likewise */
    bool is_ours; /* from web_sockets_open(): until web_sockets_close() */
    bool is_kept; /* not wanted as its request is over, which was never paused: HTTP/1 */
};

static struct web_socket *find_web_socket(struct web *web, curl_socket_t fd)
{
    struct hash_node *node = hash_map_find(&web->sockets, (uint64_t)fd);
    return node != NULL ? HASH_ENTRY(node, struct web_socket, node) : NULL;
}

static struct web_socket *add_web_socket(struct web_pool *pool, curl_socket_t fd)
{
    struct web_socket *at = calloc(1, sizeof(*at));
    if (at != NULL) {
        at->pool = pool;
        at->fd = fd;
        hash_map_add(&pool->web->sockets, &at->node, (uint64_t)fd);
    }
    return at;
}

static void free_web_socket(struct web_socket *at)
{
    if (at->event != NULL) {
        event_free(at->event);
    }
    hash_map_remove(&at->node);
    free(at);
}

static void web_on_event(evutil_socket_t fd, short kind, void *context)
{
    struct web_socket *at = context;
    struct web_pool *pool = at->pool;
    int running = 0;
    int what = ((kind & EV_READ) != 0 ? CURL_CSELECT_IN : 0) |
               ((kind & EV_WRITE) != 0 ? CURL_CSELECT_OUT : 0);
    loop_turn_begin(pool->web->loop);
    if (at->wanted == 0) {
        (void)event_del(at->event);
        at->waits = 0;
        if (at->is_kept) {
            (void)shutdown(fd, SHUT_RDWR);
        }
        return;
    }
    (void)web_curl.multi_socket_action(pool->multi, fd, what, &running); /* may free it */
}

static int await_socket(struct web_socket *at)
{
    struct event_base *base = at->pool->web->loop->base;
    short kind = (short)(EV_PERSIST | ((at->wanted & CURL_POLL_IN) != 0 ? EV_READ : 0) |
                         ((at->wanted & CURL_POLL_OUT) != 0 ? EV_WRITE : 0));
    at->waits = 0;
    if (at->event == NULL) {
        at->event = event_new(base, at->fd, kind, web_on_event, at);
    } else {
        (void)event_del(at->event);
        (void)event_assign(at->event, base, at->fd, kind, web_on_event, at);
    }
    if (at->event == NULL || event_add(at->event, NULL) != 0) {
        return -1;
    }
    at->waits = at->wanted;
    return 0;
}

static void give_up_socket(struct web_socket *at)
{
    if (!at->is_ours) {
        free_web_socket(at);
        return;
    }
    if ((at->waits & CURL_POLL_OUT) != 0) { /* which there would be at once */
        at->wanted = CURL_POLL_IN;
        (void)await_socket(at);
    }
    at->wanted = 0;
}

/* libcurl gives the socket of a request up that is paused, too. */
static bool was_never_paused(CURL *easy)
{
    const struct web_request *request = NULL;
    (void)web_curl.easy_getinfo(easy, CURLINFO_PRIVATE, &request);
    return request != NULL && request->is_clean;
}

/*
 * Over TLS libcurl reads one record after the other, so a second answer may be there already, and
 * the next request goes out before the event says so. In the clear it has read both.
 */
static bool has_more_come(const struct web_socket *at)
{
    char byte;
    return at->pool->credentials != NULL && recv(at->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static bool is_over_http_2(CURL *easy)
{
    long version = CURL_HTTP_VERSION_NONE;
    (void)web_curl.easy_getinfo(easy, CURLINFO_HTTP_VERSION, &version);
    return version > CURL_HTTP_VERSION_1_1;
}

/* libcurl's own five parameters. NOLINTNEXTLINE(readability-function-size) */
int web_sockets_on_want(CURL *easy, curl_socket_t fd, int what, void *context, void *assigned)
{
    struct web_pool *pool = context;
    struct web_socket *at = find_web_socket(pool->web, fd);
    (void)assigned;
    if (what == CURL_POLL_REMOVE) {
        if (at != NULL) {
            at->is_kept = was_never_paused(easy) && !is_over_http_2(easy);
            if (at->is_kept && has_more_come(at)) {
                (void)shutdown(fd, SHUT_RDWR);
            }
            give_up_socket(at);
        }
        return 0;
    }
    at = at != NULL ? at : add_web_socket(pool, fd);
    if (at == NULL) {
        return -1;
    }
    at->wanted = what;
    return at->waits == what ? 0 : await_socket(at);
}

int web_sockets_open(struct web_pool *pool, int family, int type, int protocol)
{
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);
    struct web_socket *at = fd >= 0 ? add_web_socket(pool, fd) : NULL;
    if (at == NULL && fd >= 0) {
        (void)close(fd);
        return -ENOMEM;
    }
    if (at == NULL) {
        return -errno;
    }
    at->is_ours = true;
    return fd;
}

/* 0 where it has none. */
static uint16_t local_port_of(int fd)
{
    union sockaddr_any own;
    struct address address = {0};
    socklen_t len = sizeof(own);
    if (getsockname(fd, &own.any, &len) == 0) {
        sockaddr_to_address(&own, len, &address);
    }
    return address.port;
}

void web_sockets_on_pause(struct web_pool *pool, CURL *easy)
{
    long port = 0; /* CURLINFO_ACTIVESOCKET is of no use before the end */
    uint64_t cursor = 0;
    struct hash_node *node;
    (void)web_curl.easy_getinfo(easy, CURLINFO_LOCAL_PORT, &port);
    while ((node = hash_map_walk(&pool->web->sockets, &cursor)) != NULL) {
        struct web_socket *at = HASH_ENTRY(node, struct web_socket, node);
        if (at->pool == pool && at->is_kept && local_port_of(at->fd) == port) {
            at->is_kept = false;
        }
    }
}

int web_sockets_close(struct web *web, int fd)
{
    struct web_socket *at = find_web_socket(web, fd);
    if (at != NULL) {
        free_web_socket(at);
    }
    return close(fd);
}
