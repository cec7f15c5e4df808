/* SPDX-License-Identifier: BSD-2-Clause */
#include "socket_stage.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/rand.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What stands behind an actor. */
struct socket_end {
    struct socket_end *next;
    bool is_server;
    int fd;            /* of a server */
    struct link *link; /* of a client */
    char host[64];     /* of a server, as in a URI */
    unsigned port;
};

static unsigned port_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)address)->sin6_port)
                                          : ntohs(((const struct sockaddr_in *)address)->sin_port);
}

static socklen_t len_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

int socket_stage_find_local(const struct proxy *proxy, struct sockaddr_storage *ret_local)
{
    socklen_t len = sizeof(*ret_local);
    int status = 0;
    int fd = socket(proxy->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    memset(ret_local, 0, sizeof(*ret_local));
    if (connect(fd, (const struct sockaddr *)&proxy->address, proxy->address_len) != 0 ||
        getsockname(fd, (struct sockaddr *)ret_local, &len) != 0) {
        status = -errno;
    }
    (void)close(fd);
    return status;
}

static const char *stage_start(void *context, char *const *settings, size_t count, size_t *ret_at)
{
    (void)context;
    (void)settings;
    *ret_at = 0;
    return count == 0 ? NULL : "a proxy of others has no such settings";
}

static const char *stage_reload(void *context, char *const *settings, size_t count)
{
    (void)context;
    (void)settings;
    (void)count;
    return "a proxy of others is not reloaded";
}

/*
 * On 127.0.0.0/8 every origin server has an address of its own: what the proxy remembers of a
 * port that was another check's, or another run's, says nothing about it then.
 */
static void choose_address(struct sockaddr_storage *address)
{
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)(void *)address;
    unsigned char bytes[3];
    if (address->ss_family == AF_INET && ntohl(ipv4->sin_addr.s_addr) >> 24 == 127 &&
        RAND_bytes(bytes, sizeof(bytes)) == 1) {
        ipv4->sin_addr.s_addr = htonl(127u << 24 | (uint32_t)bytes[0] << 16 |
                                      (uint32_t)bytes[1] << 8 | (bytes[2] % 250u + 1));
    }
}

static const char *open_server(struct socket_stage *sockets, struct socket_end *end)
{
    struct sockaddr_storage address = sockets->local;
    socklen_t len = len_of(&address);
    char text[INET6_ADDRSTRLEN];
    choose_address(&address);
    if (address.ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)&address)->sin6_port = 0;
    } else {
        ((struct sockaddr_in *)&address)->sin_port = 0;
    }
    end->fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (end->fd < 0 || bind(end->fd, (const struct sockaddr *)&address, len) != 0 ||
        getsockname(end->fd, (struct sockaddr *)&address, &len) != 0) {
        return "no socket for an origin server";
    }
    const void *ip = address.ss_family == AF_INET6
                         ? (const void *)&((const struct sockaddr_in6 *)&address)->sin6_addr
                         : (const void *)&((const struct sockaddr_in *)&address)->sin_addr;
    if (inet_ntop(address.ss_family, ip, text, sizeof(text)) == NULL) {
        return "no address for an origin server";
    }
    (void)snprintf(end->host, sizeof(end->host), address.ss_family == AF_INET6 ? "[%s]" : "%s",
                   text);
    end->port = port_of(&address);
    return NULL;
}

static const char *stage_open(void *context, struct actor *actor)
{
    struct socket_stage *sockets = context;
    struct socket_end *end = pool_alloc(&sockets->pool, sizeof(*end));
    *end = (struct socket_end){
        .next = sockets->ends, .is_server = actor->role != ACTOR_CLIENT, .fd = -1};
    sockets->ends = end;
    actor->end = end;
    uint16_t numbers[2];
    if (RAND_bytes((unsigned char *)numbers, sizeof(numbers)) == 1) {
        actor->next_mid = numbers[0]; /* the last run may have had the same port */
        actor->next_token = numbers[1];
    }
    if (actor->role == ACTOR_GROUP || actor->way == WAY_SESSION) {
        return "groups and sessions upstream are not played over sockets";
    }
    if (actor->role == ACTOR_SERVER) {
        return open_server(sockets, end);
    }
    actor->way = sockets->proxy->way;
    return actor->way == WAY_UDP ? link_open(sockets->proxy, sockets->end_ms, &end->link) : NULL;
}

static const char *stage_connect(void *context, struct actor *actor)
{
    struct socket_stage *sockets = context;
    struct socket_end *end = actor->end;
    unsigned long long deadline_ms = link_now_ms() + 2 * sockets->patience_ms;
    link_close(end->link);
    return link_open(sockets->proxy, deadline_ms < sockets->end_ms ? deadline_ms : sockets->end_ms,
                     &end->link);
}

static const char *stage_send(void *context, struct actor *actor, const struct play_peer *to,
                              struct wire_bytes bytes, bool is_slow)
{
    struct socket_end *end = actor->end;
    struct sockaddr_storage address;
    const char *fault = NULL;
    (void)context;
    if (!end->is_server) {
        size_t step = is_slow ? 1 : bytes.len;
        for (size_t i = 0; i < bytes.len && fault == NULL; i += step) {
            fault = link_send(end->link, bytes.data + i, step);
        }
        return bytes.len == 0 ? link_send(end->link, bytes.data, 0) : fault;
    }
    _Static_assert(sizeof(address) <= sizeof(to->raw), "an address fits");
    memcpy(&address, to->raw, sizeof(address));
    if (address.ss_family == AF_UNSPEC) {
        return "an origin server only answers";
    }
    return sendto(end->fd, bytes.data, bytes.len, 0, (const struct sockaddr *)&address,
                  len_of(&address)) >= 0
               ? NULL
               : "the proxy cannot be reached from the origin server";
}

static enum arrival receive_at_server(int fd, unsigned long long deadline_ms, uint8_t *buffer,
                                      size_t capacity, size_t *ret_len, struct play_peer *ret_from)
{
    for (;;) {
        struct sockaddr_storage from = {0};
        socklen_t from_len = sizeof(from);
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        unsigned long long now_ms = link_now_ms();
        if (poll(&wanted, 1, deadline_ms > now_ms ? (int)(deadline_ms - now_ms) : 0) <= 0) {
            return ARRIVAL_NOTHING;
        }
        ssize_t len = recvfrom(fd, buffer, capacity, 0, (struct sockaddr *)&from, &from_len);
        if (len >= 0) {
            *ret_len = (size_t)len;
            memcpy(ret_from->raw, &from, sizeof(from));
            return ARRIVAL_MESSAGE;
        }
    }
}

/* A stage's seven parameters. NOLINTNEXTLINE(readability-function-size) */
static enum arrival stage_receive(void *context, struct actor *actor, unsigned long long wait_ms,
                                  uint8_t *buffer, size_t capacity, size_t *ret_len,
                                  struct play_peer *ret_from)
{
    struct socket_stage *sockets = context;
    struct socket_end *end = actor->end;
    unsigned long long deadline_ms = link_now_ms() + wait_ms;
    deadline_ms = deadline_ms < sockets->end_ms ? deadline_ms : sockets->end_ms;
    return end->is_server
               ? receive_at_server(end->fd, deadline_ms, buffer, capacity, ret_len, ret_from)
               : link_receive(end->link, deadline_ms, buffer, capacity, ret_len);
}

static void stage_wait(void *context, unsigned long long ms)
{
    struct socket_stage *sockets = context;
    unsigned long long until_ms = link_now_ms() + ms, now_ms;
    until_ms = until_ms < sockets->end_ms ? until_ms : sockets->end_ms;
    while ((now_ms = link_now_ms()) < until_ms) {
        (void)poll(NULL, 0, (int)(until_ms - now_ms));
    }
}

static unsigned long long stage_now_ms(void *context)
{
    (void)context;
    return link_now_ms();
}

static const char *stage_act(void *context, struct actor *actor, char **words, size_t count)
{
    struct socket_end *end = actor != NULL ? actor->end : NULL;
    (void)context;
    if (strcmp(words[0], "needs") == 0 && actor == NULL) { /* looked at before */
        return NULL;
    }
    if (end != NULL && count == 1 && strcmp(words[0], "leaves") == 0 && end->is_server) {
        (void)close(end->fd);
        end->fd = -1;
        actor->ignores_rest = true;
        return NULL;
    }
    if (end != NULL && count == 1 && strcmp(words[0], "closes") == 0 && !end->is_server) {
        link_close(end->link);
        end->link = NULL;
        return NULL;
    }
    return "not for a proxy of others";
}

static bool stage_authority(void *context, struct actor *actor, char host[static 64],
                            unsigned *ret_port)
{
    const struct socket_end *end = actor->end;
    (void)context;
    if (end == NULL || !end->is_server) {
        return false;
    }
    memcpy(host, end->host, sizeof(end->host));
    *ret_port = end->port;
    return true;
}

void socket_stage_init(struct socket_stage *sockets, enum spec_form form, struct stage *ret_stage)
{
    *ret_stage = (struct stage){
        .context = sockets,
        .is_loose = true,
        .form = form,
        .patience_ms = sockets->patience_ms,
        .start = stage_start,
        .reload = stage_reload,
        .open = stage_open,
        .connect = stage_connect,
        .send = stage_send,
        .receive = stage_receive,
        .wait = stage_wait,
        .now_ms = stage_now_ms,
        .act = stage_act,
        .authority = stage_authority,
    };
}

void socket_stage_stop(struct socket_stage *sockets)
{
    for (struct socket_end *end = sockets->ends; end != NULL; end = end->next) {
        link_close(end->link);
        if (end->fd >= 0) {
            (void)close(end->fd);
        }
    }
    sockets->ends = NULL;
    pool_clear(&sockets->pool);
}
