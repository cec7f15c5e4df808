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
 */
#include "net/mmsg.h"
#include "net/udp_internal.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

/* ICMP errors that may come in between before we believe an error is the datagram's own. */
#define ATTEMPTS_MAX 3u

struct udp_out *udp_out_new(void)
{
    /* The arena is past the allocator's threshold for fresh pages: untouched, not resident. */
    struct udp_out *out = malloc(sizeof *out);

    if (out == NULL) {
        return NULL;
    }
    out->count = 0;
    out->used = 0;
    memset(out->controls, 0, sizeof out->controls);
    for (unsigned i = 0; i < UDP_SEND_BATCH; i++) {
        out->headers[i] = (struct mmsghdr){
            .msg_hdr = {.msg_name = &out->names[i], .msg_iov = &out->parts[i], .msg_iovlen = 1}};
    }
    return out;
}

void udp_out_free(struct udp_out *out)
{
    free(out);
}

/* ---- failures ---- */

/* udp_on_readable() reports it in the next turn. */
static void note_failure(struct udp_socket *socket, const struct address *remote, int error,
                         const uint8_t *data, size_t len)
{
    udp_count(&socket->counters.send_failures, 1);
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

static void note_failure_at(struct udp_socket *socket, unsigned i, int error)
{
    const struct udp_out *out = socket->out;
    struct address remote;

    sockaddr_to_address(&out->names[i], out->headers[i].msg_hdr.msg_namelen, &remote);
    note_failure(socket, &remote, error, out->parts[i].iov_base, out->parts[i].iov_len);
}

/* ---- flush ---- */

void udp_flush(struct udp_socket *socket)
{
    struct udp_out *out = socket->out;
    unsigned done = 0, attempts = 0;

    while (done < out->count) {
        int sent = mmsg_send(socket->fd, out->headers + done, out->count - done);
        if (sent > 0) {
            udp_count(&socket->counters.datagrams_out, (unsigned)sent);
            done += (unsigned)sent;
            attempts = 0;
        } else if (errno == EAGAIN) {
            /* The socket's buffer is full: the device is slower than we are. */
            udp_count(&socket->counters.send_failures, out->count - done);
            break;
        } else if (errno == ENOBUFS) {
            udp_count(&socket->counters.send_failures, 1); /* the device's queue dropped it */
            done++;
        } else if (errno != EINTR) {
            socket->has_errors = true;
            if (++attempts == ATTEMPTS_MAX) {
                note_failure_at(socket, done, errno);
                done++;
                attempts = 0;
            }
        }
    }
    out->count = 0;
    out->used = 0;
}

/* ---- queue ---- */

/* Name the address to send from (RFC 3542 section 6.2 and its IPv4 likeness, ip(7)). */
/* How many bytes it takes; libraries disagree about the type of msg_controllen. */
static uint32_t set_source(struct udp_send_control *control, const struct address *local)
{
    struct cmsghdr *cmsg = (struct cmsghdr *)(void *)control->bytes;

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

/* A socket bound to one address uses that; nothing can be sent from a multicast address. */
static bool names_source(const struct udp_socket *socket, const struct address *local)
{
    return socket->is_wildcard && local->family == socket->local.family &&
           (local->family == ADDRESS_IPV6 || !address_is_multicast(local));
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
    unsigned i = out->count;
    struct msghdr *header = &out->headers[i].msg_hdr;
    header->msg_namelen = sockaddr_from_address(&path->remote, &out->names[i]);
    header->msg_control = NULL;
    header->msg_controllen = 0;
    if (names_source(socket, &path->local)) {
        header->msg_controllen = set_source(&out->controls[i], &path->local);
        header->msg_control = &out->controls[i];
    }
    out->parts[i].iov_base = out->arena + out->used;
    out->parts[i].iov_len = len;
    memcpy(out->arena + out->used, data, len);
    out->used += len;
    out->count++;
}
