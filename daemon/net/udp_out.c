/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams out: copied into one arena as they are queued, sent with one
 * sendmmsg(). Not sent is as good as lost on the way, so nothing waits here for
 * the socket to become writable.
 *
 * sendmmsg() stops at a datagram it cannot send. Two things look alike then: an
 * error of this datagram (no route, too long), and an ICMP error about an earlier
 * one, which the kernel hands to whichever call comes next. The second is gone
 * when asked again, so a datagram is given up only when it fails repeatedly.
 *
 * Groups. Datagrams of one size to one peer are one message with UDP_SEGMENT. A datagram joins the
 * latest group of its peer or begins one behind it, so the order towards a peer stays. Only sizes
 * that fit an MTU of 1,280 are grouped, which any path of IPv6 has and RFC 7252 section 4.6 assumes
 * for IPv4, as the kernel fragments none of them; on a link with a smaller MTU it refuses the group
 * (EINVAL), and without a checksum in the device or with IPsec it says EIO. Then the datagrams
 * leave one by one, and the socket remembers it. A smaller MTU behind a router of IPv4 is not known
 * here: the router fragments them. Linux reserves one identification for each group, so those of
 * the next group repeat the last one's.
 */
#include "net/udp_internal.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a datagram that any link of IPv4 takes whole: 576 less the longest headers. */
#define ANY_MTU_MAX 508u

/* ICMP errors that may come in between before we believe an error is the datagram's own. */
#define ATTEMPTS_MAX 3u

_Static_assert(sizeof(struct udp_out) + sizeof(struct udp_socket) <= 200 * 1024,
               "engine/budget.c has as much for a socket");

struct udp_out *udp_out_new(void)
{
    /* The arena is past the allocator's threshold for fresh pages: untouched, not resident. */
    struct udp_out *out = malloc(sizeof *out);

    if (out == NULL) {
        return NULL;
    }
    out->count = out->group_count = 0;
    out->used = 0;
    memset(out->latest, 0, sizeof out->latest);
    return out;
}

/* ---- failures ---- */

/* udp_on_readable() reports it in the next turn. */
static void note_failure(struct udp_socket *socket, const struct address *remote, int error,
                         const uint8_t *data, size_t len)
{
    udp_count(&socket->counters->send_failures, 1);
    if (socket->failure_count == UDP_FAILURES_MAX) {
        return;
    }
    struct udp_failure *failure = &socket->failures[socket->failure_count++];
    failure->remote = *remote;
    failure->error = error;
    failure->quoted_len = len < sizeof failure->quoted ? len : sizeof failure->quoted;
    memcpy(failure->quoted, data, failure->quoted_len);
    event_active(socket->event, EV_READ, 0);
}

/* ---- messages ---- */

/*
 * Name the address to send from (RFC 3542 section 6.2 and its IPv4 likeness, ip(7)).
 * @return how many bytes it takes; libraries disagree about the type of msg_controllen.
 */
static uint32_t set_source(uint8_t *control, const struct address *local)
{
    struct cmsghdr *cmsg = (struct cmsghdr *)(void *)control;

    if (local->family == ADDRESS_IPV4) {
        struct in_pktinfo info = {.ipi_ifindex = 0};
        memcpy(&info.ipi_spec_dst, local->ip, 4);
        cmsg->cmsg_level = IPPROTO_IP;
        cmsg->cmsg_type = IP_PKTINFO;
        cmsg->cmsg_len = CMSG_LEN(sizeof info);
        memcpy(CMSG_DATA(cmsg), &info, sizeof info);
        return (uint32_t)CMSG_SPACE(sizeof info);
    }
    struct in6_pktinfo info = {.ipi6_ifindex = local->scope};
    if (!address_is_multicast(local)) {
        memcpy(&info.ipi6_addr, local->ip, 16);
    }
    cmsg->cmsg_level = IPPROTO_IPV6;
    cmsg->cmsg_type = IPV6_PKTINFO;
    cmsg->cmsg_len = CMSG_LEN(sizeof info);
    memcpy(CMSG_DATA(cmsg), &info, sizeof info);
    return (uint32_t)CMSG_SPACE(sizeof info);
}

static uint32_t set_segment(uint8_t *control, uint32_t size)
{
    struct cmsghdr *cmsg = (struct cmsghdr *)(void *)control;
    uint16_t value = (uint16_t)size; /* at most UDP_GSO_MAX */

    cmsg->cmsg_level = SOL_UDP;
    cmsg->cmsg_type = UDP_SEGMENT;
    cmsg->cmsg_len = CMSG_LEN(sizeof value);
    memcpy(CMSG_DATA(cmsg), &value, sizeof value);
    return (uint32_t)CMSG_SPACE(sizeof value);
}

/* The message of group @p i, with its datagrams in @p parts. */
static void lay_out_group(struct udp_socket *socket, unsigned i, struct iovec *parts)
{
    struct udp_out *out = socket->out;
    const struct udp_group *group = &out->groups[i];
    struct msghdr *header = &out->headers[i].msg_hdr;
    uint8_t *control = out->controls[i].bytes;
    const struct address *local = &group->path.local;
    /* A socket bound to one address uses that; nothing can be sent from a multicast address. */
    bool names_source = socket->is_wildcard && local->family == socket->local.family &&
                        (local->family == ADDRESS_IPV6 || !address_is_multicast(local));
    uint32_t len = 0;

    header->msg_name = &out->names[i];
    header->msg_flags = 0;
    header->msg_namelen = sockaddr_from_address(&group->path.remote, &out->names[i]);
    header->msg_iov = parts;
    header->msg_iovlen = (uint16_t)group->count; /* a size_t, or an int */
    for (uint32_t at = group->first; at != UDP_SEND_BATCH; at = out->queue[at].next) {
        *parts++ = (struct iovec){.iov_base = out->queue[at].data, .iov_len = out->queue[at].len};
    }
    if (names_source) {
        len = set_source(control, local);
    }
    if (group->count > 1) {
        len += set_segment(control + len, group->size);
    }
    header->msg_control = len > 0 ? control : NULL;
    header->msg_controllen = len;
}

/* ---- flush ---- */

/* The kernel's answer for the next message: whether to try it again. */
enum send_result {
    SEND_AGAIN,  /* it may have been one about an earlier datagram */
    SEND_FULL,   /* the socket's buffer: nothing else leaves either */
    SEND_LOST,   /* by the device's queue */
    SEND_FAILED, /* for an error of its own */
};

static enum send_result judge_send(struct udp_socket *socket, int error, unsigned *attempts)
{
    if (error == EAGAIN) {
        return SEND_FULL; /* the device is slower than we are */
    }
    if (error == ENOBUFS) {
        return SEND_LOST;
    }
    if (error == EINTR) {
        return SEND_AGAIN;
    }
    socket->has_errors = true;
    if (++*attempts < ATTEMPTS_MAX) {
        return SEND_AGAIN;
    }
    *attempts = 0;
    return SEND_FAILED;
}

/* A group cannot be sent, but its datagrams can: groups of its kind are not made any more. */
static void note_ungroupable(struct udp_socket *socket, const struct udp_group *group, int error)
{
    uint32_t longest = 0;

    switch (error) {
    case EINVAL:
    case EMSGSIZE: /* longer than the MTU of this link, unless any MTU has room for it */
        longest = group->size > ANY_MTU_MAX ? group->size - 1 : 0;
        break;
    case EIO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
        break;
    default:
        return;
    }
    socket->gso_max = longest < socket->gso_max ? longest : socket->gso_max;
    udp_count(&socket->counters->gso_refusals, 1);
}

/* One datagram of group @p i alone. @return what came of it; SEND_AGAIN: it was sent */
static enum send_result send_single(struct udp_socket *socket, unsigned i,
                                    const struct udp_queued *queued)
{
    struct udp_out *out = socket->out;
    struct msghdr header = out->headers[i].msg_hdr;
    struct iovec part = {.iov_base = queued->data, .iov_len = queued->len};
    unsigned attempts = 0;

    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (out->groups[i].count > 1) { /* set_segment() was the last */
        header.msg_controllen = (uint32_t)(header.msg_controllen - CMSG_SPACE(sizeof(uint16_t)));
    }
    while (sendmsg(socket->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        int error = errno;
        enum send_result result = judge_send(socket, error, &attempts);
        if (result == SEND_FAILED) {
            note_failure(socket, &out->groups[i].path.remote, error, queued->data, queued->len);
        } else if (result != SEND_AGAIN) {
            udp_count(&socket->counters->send_failures, 1);
        }
        if (result != SEND_AGAIN) {
            return result;
        }
    }
    udp_count(&socket->counters->datagrams_out, 1);
    return SEND_AGAIN;
}

/* The datagrams of a group that failed, each with an error of its own if it has one. */
static void send_one_by_one(struct udp_socket *socket, unsigned i, int error)
{
    const struct udp_out *out = socket->out;
    bool is_sent = false;

    for (uint32_t at = out->groups[i].first; at != UDP_SEND_BATCH; at = out->queue[at].next) {
        is_sent = send_single(socket, i, &out->queue[at]) == SEND_AGAIN || is_sent;
    }
    if (is_sent) {
        note_ungroupable(socket, &out->groups[i], error);
    }
}

static void give_up_group(struct udp_socket *socket, unsigned i, int error)
{
    const struct udp_group *group = &socket->out->groups[i];
    const struct udp_queued *first = &socket->out->queue[group->first];

    if (group->count > 1) {
        send_one_by_one(socket, i, error);
    } else {
        note_failure(socket, &group->path.remote, error, first->data, first->len);
    }
}

static void count_sent(struct udp_socket *socket, unsigned from, unsigned count)
{
    const struct udp_group *groups = socket->out->groups + from;
    uint64_t datagrams = 0, messages = 0, grouped = 0;

    for (unsigned i = 0; i < count; i++) {
        datagrams += groups[i].count;
        messages += groups[i].count > 1;
        grouped += groups[i].count > 1 ? groups[i].count : 0;
    }
    udp_count(&socket->counters->datagrams_out, datagrams);
    if (messages > 0) {
        udp_count(&socket->counters->gso_messages, messages);
        udp_count(&socket->counters->gso_datagrams, grouped);
    }
}

static void count_unsent(struct udp_socket *socket, unsigned from, unsigned end)
{
    for (unsigned i = from; i < end; i++) {
        udp_count(&socket->counters->send_failures, socket->out->groups[i].count);
    }
}

/* Sends groups from @p done on. @return how many are done with */
static unsigned send_messages(struct udp_socket *socket, unsigned done, unsigned *attempts)
{
    struct udp_out *out = socket->out;
    int sent = mmsg_send(socket->fd, out->headers + done, out->group_count - done);
    int error = errno;

    if (sent > 0) {
        count_sent(socket, done, (unsigned)sent);
        *attempts = 0;
        return (unsigned)sent;
    }
    switch (judge_send(socket, error, attempts)) {
    case SEND_AGAIN:
        return 0;
    case SEND_FULL:
        count_unsent(socket, done, out->group_count);
        return out->group_count - done;
    case SEND_LOST:
        count_unsent(socket, done, done + 1);
        break;
    case SEND_FAILED:
        give_up_group(socket, done, error);
        break;
    }
    return 1;
}

void udp_flush(struct udp_socket *socket)
{
    struct udp_out *out = socket->out;
    struct iovec *parts = out->parts;
    unsigned attempts = 0;

    if (out->count == 0) {
        return;
    }
    for (unsigned i = 0; i < out->group_count; i++) {
        lay_out_group(socket, i, parts);
        parts += out->groups[i].count;
    }
    for (unsigned done = 0; done < out->group_count;) {
        done += send_messages(socket, done, &attempts);
    }
    out->count = out->group_count = 0;
    out->used = 0;
    memset(out->latest, 0, sizeof out->latest);
}

/* ---- queue ---- */

static uint16_t *latest_of(struct udp_out *out, const struct address *remote)
{
    uint32_t first, last;

    memcpy(&first, remote->ip, sizeof first);
    memcpy(&last, remote->ip + 12, sizeof last);
    uint32_t hash = (first ^ last ^ (uint32_t)remote->port << 16) * UINT32_C(2654435769);
    return &out->latest[hash >> 23 & (UDP_LATEST - 1)];
}

static bool is_same_path(const struct udp_path *a, const struct udp_path *b)
{
    return address_equal(&a->remote, &b->remote) && address_equal(&a->local, &b->local);
}

/* Whether a datagram of @p len bytes can be the next of the group. */
static bool may_join(const struct udp_group *group, const struct udp_path *path, size_t len)
{
    return !group->is_complete && group->count < UDP_GROUP_MAX && len > 0 && len <= group->size &&
           group->bytes + len <= UDP_GROUP_BYTES_MAX && is_same_path(&group->path, path);
}

/* The datagram @p i, which has been queued, is put into a group. */
static void group_add(struct udp_socket *socket, const struct udp_path *path, uint32_t i,
                      uint32_t len)
{
    struct udp_out *out = socket->out;
    bool is_groupable = len > 0 && len <= socket->gso_max;
    uint16_t *latest = is_groupable ? latest_of(out, &path->remote) : NULL;

    if (is_groupable && *latest != 0 && may_join(&out->groups[*latest - 1], path, len)) {
        struct udp_group *group = &out->groups[*latest - 1];
        out->queue[group->last].next = i;
        group->last = i;
        group->count++;
        group->bytes += len;
        group->is_complete = len < group->size;
        return;
    }
    out->groups[out->group_count++] = (struct udp_group){
        .path = *path,
        .first = i,
        .last = i,
        .count = 1,
        .bytes = len,
        .size = len,
        .is_complete = !is_groupable,
    };
    if (socket->gso_max > 0) {
        *latest_of(out, &path->remote) = (uint16_t)out->group_count;
    }
}

void udp_send(struct udp_socket *socket, const struct udp_path *path, const uint8_t *data,
              size_t len)
{
    struct udp_out *out = socket->out;

    if (len > UDP_DATAGRAM_MAX || path->remote.family != socket->local.family) {
        int error = len > UDP_DATAGRAM_MAX ? EMSGSIZE : EAFNOSUPPORT;
        note_failure(socket, &path->remote, error, data, len);
        return;
    }
    if (out->count == UDP_SEND_BATCH || len > sizeof out->arena - out->used) {
        udp_flush(socket);
    }
    uint32_t i = out->count++;
    uint8_t *copy = out->arena + out->used;
    out->queue[i] = (struct udp_queued){copy, (uint32_t)len, UDP_SEND_BATCH};
    memcpy(copy, data, len);
    out->used += len;
    group_add(socket, path, i, (uint32_t)len);
}
