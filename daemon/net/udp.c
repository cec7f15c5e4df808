/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing UDP sockets, and their socket options. */
#include "net/udp.h"

#include "base/log.h"
#include "net/bind.h"
#include "net/loop_internal.h"
#include "net/udp_internal.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- mmsg --------------------------------------------------------------- */

static pthread_once_t probed = PTHREAD_ONCE_INIT;
static bool receives_slowly, sends_slowly; /* set once, before there is a socket */

/* The kernel knows no descriptor -1; a sandbox does not let the call come that far. */
static bool is_refused(int result)
{
    return result < 0 && errno != EBADF;
}

static void probe_once(void)
{
    struct mmsghdr header = {.msg_len = 0};

    receives_slowly = is_refused(recvmmsg(-1, &header, 1, MSG_DONTWAIT, NULL));
    sends_slowly = is_refused(sendmmsg(-1, &header, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (receives_slowly || sends_slowly) {
        log_event(LOG_WARNING, "slow_calls", "refused=%s%s%s why=\"a call for each datagram\"",
                  receives_slowly ? "recvmmsg" : "", receives_slowly && sends_slowly ? "," : "",
                  sends_slowly ? "sendmmsg" : "");
    }
}

void mmsg_probe(void)
{
    (void)pthread_once(&probed, probe_once);
}

int mmsg_receive(int fd, struct mmsghdr *headers, unsigned count)
{
    if (!receives_slowly) {
        return recvmmsg(fd, headers, count, MSG_DONTWAIT, NULL);
    }
    unsigned done = 0;
    while (done < count) {
        ssize_t len = recvmsg(fd, &headers[done].msg_hdr, MSG_DONTWAIT);
        if (len < 0) {
            break;
        }
        headers[done++].msg_len = (unsigned)len;
    }
    return done > 0 ? (int)done : -1;
}

int mmsg_send(int fd, struct mmsghdr *headers, unsigned count)
{
    if (!sends_slowly) {
        return sendmmsg(fd, headers, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    unsigned done = 0;
    while (done < count) {
        ssize_t len = sendmsg(fd, &headers[done].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (len < 0) {
            break;
        }
        headers[done++].msg_len = (unsigned)len;
    }
    return done > 0 ? (int)done : -1;
}

/* --- udp ---------------------------------------------------------------- */

/* ---- datagrams and errors in ---- */

/*
 * A readable socket gives some batches a turn, as long as they are full and it has not taken long
 * over them: when there is more, the next turn has it, and no socket keeps the others waiting.
 *
 * ICMP errors. The kernel queues them per socket (IP_RECVERR), shows EPOLLERR,
 * and has the next system call on the socket fail once. So the error queue is
 * read when a call failed, or when the socket was readable without a datagram;
 * as long as neither happens it costs no system call.
 */

/* Its buffers among those of all sockets: @p sign is 1 when they are new, -1 when they go. */
static void count_buffers(const struct udp_socket *socket, int64_t sign)
{
    struct udp_counters *counters = socket->counters;
    uint64_t factor = (uint64_t)sign;

    udp_count(&counters->receive_asked_bytes, factor * socket->receive.asked_bytes);
    udp_count(&counters->receive_bytes, factor * socket->receive.got_bytes);
    udp_count(&counters->send_asked_bytes, factor * socket->send.asked_bytes);
    udp_count(&counters->send_bytes, factor * socket->send.got_bytes);
}

/* Closes the socket and frees everything it owns. */
static void udp_socket_release(struct udp_socket *socket)
{
    if (socket->event != NULL) {
        event_free(socket->event);
    }
    if (socket->fd >= 0) {
        close(socket->fd);
    }
    count_buffers(socket, -1);
    free(socket->out);
    free(socket);
}

#define RECEIVE_BATCH 64u

/* ICMP errors read in one turn, so that a flood of them stays a part of it. */
#define ERRORS_PER_TURN 64u

/*
 * Bytes between the buffers of a batch: the longest datagram, and then a step so
 * that their first lines do not all fall into the same set of the CPU's cache.
 */
#define BUFFER_STRIDE (64u * 1024u + 320u)

_Static_assert(BUFFER_STRIDE >= UDP_DATAGRAM_MAX, "a buffer takes any datagram");

/*
 * Datagrams of one turn, in full batches or in messages of several, and for how long more batches
 * are read after the first: a socket must not keep others waiting. What goes out for them leaves
 * together, so that more of it is for one peer.
 */
#define RECEIVE_DATAGRAMS 256u
#define RECEIVE_US 1000u

/* IP_PKTINFO or IPV6_PKTINFO, SO_RXQ_OVFL, and UDP_GRO. */
#define RECEIVE_CONTROL_LEN                                                                        \
    (CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(uint32_t)) +                       \
     CMSG_SPACE(sizeof(int)))

struct receive_control {
    _Alignas(struct cmsghdr) uint8_t bytes[RECEIVE_CONTROL_LEN];
};

/* Set up once; after each call only the fields that the kernel has changed are restored. */
struct udp_batch {
    struct mmsghdr headers[RECEIVE_BATCH];
    struct iovec parts[RECEIVE_BATCH];
    union sockaddr_any names[RECEIVE_BATCH];
    struct receive_control controls[RECEIVE_BATCH];
    size_t part_len; /* of each of parts */
    uint8_t *buffers;
};

#define BUFFERS_LEN ((size_t)RECEIVE_BATCH * BUFFER_STRIDE)

static void batch_header_reset(struct udp_batch *batch, unsigned i)
{
    batch->headers[i].msg_hdr.msg_namelen = sizeof batch->names[i];
    batch->headers[i].msg_hdr.msg_controllen = sizeof batch->controls[i];
}

/* Allocate the loop's batch if it has none. @return 0 or -ENOMEM. */
static int udp_batch_need(struct loop *loop)
{
    struct udp_batch **slot = &loop->udp_batch;

    if (*slot != NULL) {
        return 0;
    }
    mmsg_probe();
    struct udp_batch *batch = calloc(1, sizeof *batch);
    if (batch == NULL) {
        return -ENOMEM;
    }
    /* Pages become resident as datagrams touch them: usually one a buffer, not all 4 MiB. */
    void *buffers =
        mmap(NULL, BUFFERS_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffers == MAP_FAILED) {
        free(batch);
        return -ENOMEM;
    }
    madvise(buffers, BUFFERS_LEN, MADV_NOHUGEPAGE);
    batch->buffers = buffers;
    for (unsigned i = 0; i < RECEIVE_BATCH; i++) {
        batch->parts[i].iov_base = batch->buffers + (size_t)i * BUFFER_STRIDE;
        batch->headers[i].msg_hdr = (struct msghdr){.msg_name = &batch->names[i],
                                                    .msg_iov = &batch->parts[i],
                                                    .msg_iovlen = 1,
                                                    .msg_control = &batch->controls[i]};
        batch_header_reset(batch, i);
    }
    *slot = batch;
    return 0;
}

void udp_batch_free(struct udp_batch *batch)
{
    if (batch != NULL) {
        munmap(batch->buffers, BUFFERS_LEN);
        free(batch);
    }
}

/* Sockets with limits of their own share the batch. */
static void batch_set_part_len(struct udp_batch *batch, size_t len)
{
    if (batch->part_len != len) {
        batch->part_len = len;
        for (unsigned i = 0; i < RECEIVE_BATCH; i++) {
            batch->parts[i].iov_len = len;
        }
    }
}

/* ---- control messages ---- */

static void local_from_ipv4(const struct cmsghdr *cmsg, uint16_t port, struct address *ret_local)
{
    struct in_pktinfo info;
    uint8_t ip[4];

    memcpy(&info, CMSG_DATA(cmsg), sizeof info);
    /* For a broadcast, spec_dst is the address of ours that was meant. */
    bool is_multicast = IN_MULTICAST(ntohl(info.ipi_addr.s_addr));
    memcpy(ip, is_multicast ? &info.ipi_addr : &info.ipi_spec_dst, sizeof ip);
    address_set_ip(ret_local, ip, sizeof ip, port);
}

static void local_from_ipv6(const struct cmsghdr *cmsg, uint16_t port, struct address *ret_local)
{
    struct in6_pktinfo info;

    memcpy(&info, CMSG_DATA(cmsg), sizeof info);
    address_set_ip(ret_local, info.ipi6_addr.s6_addr, 16, port);
    if (address_is_ipv6_link_local(ret_local) || address_is_multicast(ret_local)) {
        ret_local->scope = info.ipi6_ifindex;
    }
}

static void count_kernel_drops(struct udp_socket *socket, const struct cmsghdr *cmsg)
{
    uint32_t drops;

    memcpy(&drops, CMSG_DATA(cmsg), sizeof drops);
    udp_count(&socket->counters->receive_overflows, (uint32_t)(drops - socket->kernel_drops));
    socket->kernel_drops = drops;
}

/* @param ret_size of each datagram but the last, where the message is a group of them */
static void read_control(struct udp_socket *socket, struct msghdr *header,
                         struct address *ret_local, size_t *ret_size)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg != NULL;
         cmsg = CMSG_NXTHDR(header, cmsg)) {
        if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_PKTINFO) {
            local_from_ipv4(cmsg, socket->local.port, ret_local);
        } else if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_PKTINFO) {
            local_from_ipv6(cmsg, socket->local.port, ret_local);
        } else if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SO_RXQ_OVFL) {
            count_kernel_drops(socket, cmsg);
        } else if (cmsg->cmsg_level == SOL_UDP && cmsg->cmsg_type == UDP_GRO) {
            int size = 0;
            memcpy(&size, CMSG_DATA(cmsg), sizeof size);
            *ret_size = size > 0 ? (size_t)size : 0;
        }
    }
}

/* ---- datagrams ---- */

/*
 * Fill in the rest of @p datagram, whose path is set, and hand it on. It is not copied about: a
 * path that has just been written field by field is read as whole words only after a pause.
 * @p is_cut: the kernel had more of it than fitted.
 */
static void deliver_one(struct udp_socket *socket, struct datagram *datagram, const uint8_t *data,
                        size_t len, bool is_cut)
{
    size_t most = socket->datagram_max;

    datagram->data = data;
    datagram->len = len < most ? len : most;
    datagram->truncated = is_cut || len > most;
    udp_count(&socket->counters->datagrams_in, 1);
    socket->handler->on_datagram(socket->context, socket, datagram);
}

/* A message of datagrams of @p size bytes; the last may be shorter. */
static void deliver_group(struct udp_socket *socket, struct datagram *datagram, const uint8_t *data,
                          size_t len, size_t size)
{
    uint32_t count = (uint32_t)((len + size - 1) / size);

    udp_count(&socket->counters->gro_messages, 1);
    udp_count(&socket->counters->gro_datagrams, count);
    socket->gro_most = count > socket->gro_most ? count : socket->gro_most;
    for (size_t at = 0; at < len && !socket->is_closed; at += size) {
        deliver_one(socket, datagram, data + at, len - at < size ? len - at : size, false);
    }
}

static void deliver(struct udp_socket *socket, struct udp_batch *batch, unsigned i)
{
    struct mmsghdr *header = &batch->headers[i];
    const uint8_t *data = batch->parts[i].iov_base;
    struct datagram datagram = {0};
    size_t size = 0;

    sockaddr_to_address(&batch->names[i], header->msg_hdr.msg_namelen, &datagram.path.remote);
    if (header->msg_hdr.msg_controllen != 0) {
        read_control(socket, &header->msg_hdr, &datagram.path.local, &size);
    }
    if (size > 0 && size < header->msg_len) {
        deliver_group(socket, &datagram, data, header->msg_len, size);
    } else {
        deliver_one(socket, &datagram, data, header->msg_len,
                    (header->msg_hdr.msg_flags & MSG_TRUNC) != 0);
    }
}

/*
 * @param until_us of the loop's clock, until when batches are read; 0: this is the first, so there
 *                 is something to read, a datagram or an error, and it is set.
 * @return whether the turn goes on: the batch was full of single datagrams, so there may be more
 */
static bool receive_batch(struct udp_socket *socket, struct udp_batch *batch, uint64_t *until_us)
{
    /* Fewer messages where those of the last batch were of many datagrams. */
    unsigned messages = RECEIVE_DATAGRAMS / socket->gro_most;
    unsigned most = messages < 1 ? 1 : messages > RECEIVE_BATCH ? RECEIVE_BATCH : messages;
    int count;

    socket->gro_most = 1;

    batch_set_part_len(batch, socket->has_gro ? UDP_DATAGRAM_MAX : socket->datagram_max);
    do {
        count = mmsg_receive(socket->fd, batch->headers, most);
    } while (count < 0 && errno == EINTR);
    if (count <= 0) {
        /* Why else was it readable? And a call that fails has taken the word of an error. */
        socket->has_errors = socket->has_errors || *until_us == 0 || errno != EAGAIN;
        return false;
    }
    for (unsigned i = 0; i < (unsigned)count && !socket->is_closed; i++) {
        deliver(socket, batch, i);
    }
    for (unsigned i = 0; i < (unsigned)count; i++) {
        batch_header_reset(batch, i);
    }
    if ((unsigned)count < RECEIVE_BATCH || socket->gro_most > 1 || socket->is_closed ||
        socket->is_held) {
        return false;
    }
    uint64_t now_us = loop_clock_us(socket->loop);
    *until_us = *until_us == 0 ? now_us + RECEIVE_US : *until_us;
    return now_us < *until_us;
}

/* ---- errors ---- */

/* Control message of an error: room for struct sock_extended_err and the router's address. */
struct error_control {
    _Alignas(struct cmsghdr)
        uint8_t bytes[CMSG_SPACE(sizeof(struct sock_extended_err) + sizeof(struct sockaddr_in6)) +
                      RECEIVE_CONTROL_LEN];
};

/* The errno of an ICMP error that ends something; 0 for everything else in the queue. */
static int error_of(struct msghdr *header)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg != NULL;
         cmsg = CMSG_NXTHDR(header, cmsg)) {
        bool is_error = (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_RECVERR) ||
                        (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_RECVERR);
        if (!is_error || cmsg->cmsg_len < CMSG_LEN(sizeof(struct sock_extended_err))) {
            continue;
        }
        struct sock_extended_err error;
        memcpy(&error, CMSG_DATA(cmsg), sizeof error);
        if (error.ee_origin != SO_EE_ORIGIN_ICMP && error.ee_origin != SO_EE_ORIGIN_ICMP6) {
            return 0; /* of this host: udp_out.c has got it from sendmmsg() */
        }
        /* The kernel has learned the path's MTU and will fragment the next one; a packet
         * that was too long on its way may find a better one (RFC 7252 section 4.2). */
        bool is_time_exceeded =
            error.ee_type ==
            (error.ee_origin == SO_EE_ORIGIN_ICMP ? ICMP_TIME_EXCEEDED : ICMP6_TIME_EXCEEDED);
        return error.ee_errno == EMSGSIZE || is_time_exceeded ? 0 : (int)error.ee_errno;
    }
    return 0;
}

/* One entry of the error queue. @return false when it is empty. */
static bool read_error(struct udp_socket *socket, struct udp_batch *batch)
{
    union sockaddr_any name;
    struct error_control control;
    struct iovec part = batch->parts[0];
    struct msghdr header = {.msg_name = &name,
                            .msg_namelen = sizeof name,
                            .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control};
    struct address remote;

    ssize_t len = recvmsg(socket->fd, &header, MSG_ERRQUEUE | MSG_DONTWAIT);
    if (len < 0) {
        return errno == EINTR;
    }
    sockaddr_to_address(&name, header.msg_namelen, &remote);
    int error = error_of(&header);
    if (error != 0 && remote.family != ADDRESS_NONE && socket->handler->on_error != NULL) {
        socket->handler->on_error(socket->context, socket, &remote, error, part.iov_base,
                                  (size_t)len);
    }
    return true;
}

static void read_errors(struct udp_socket *socket, struct udp_batch *batch)
{
    unsigned count = 0;

    while (count < ERRORS_PER_TURN && !socket->is_closed && read_error(socket, batch)) {
        count++;
    }
    if (count < ERRORS_PER_TURN) {
        socket->has_errors = false;
    }
}

/* Reports the datagrams that udp_out.c could not send, now that no caller is inside udp_send(). */
static void report_failures(struct udp_socket *socket)
{
    unsigned count = socket->failure_count;

    socket->failure_count = 0;
    for (unsigned i = 0; i < count && !socket->is_closed; i++) {
        struct udp_failure failure = socket->failures[i]; /* a callback may send, and fail */
        if (socket->handler->on_error != NULL) {
            socket->handler->on_error(socket->context, socket, &failure.remote, failure.error,
                                      failure.quoted, failure.quoted_len);
        }
    }
}

/* libevent's callback for a readable socket: receives the datagrams of one turn, and errors. */
static void udp_on_readable(int fd, short what, void *context)
{
    struct udp_socket *socket = context;
    struct udp_batch *batch = socket->loop->udp_batch;
    (void)fd;
    (void)what;

    loop_turn_begin(socket->loop);
    socket->is_calling = true;
    if (socket->failure_count > 0) {
        report_failures(socket);
    }
    uint64_t until_us = 0;
    bool goes_on = !socket->is_closed && !socket->is_held; /* it may be here for a failure alone */
    for (unsigned i = 0; goes_on && i < RECEIVE_DATAGRAMS / RECEIVE_BATCH; i++) {
        goes_on = receive_batch(socket, batch, &until_us);
    }
    if (socket->has_errors && !socket->is_closed) {
        read_errors(socket, batch);
    }
    socket->is_calling = false;
    if (socket->is_closed) {
        udp_socket_release(socket);
    }
}

/* ---- sockets ---- */

static int set_int(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : -errno;
}

/* As it was asked for: the kernel tells twice of that (socket(7)). */
static int buffer_of(int fd, int name)
{
    int value = 0;
    socklen_t len = sizeof value;

    return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value / 2 : 0;
}

/* The buffer size that a process without privileges gets for @p value. */
static int grantable(int name, int value)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int granted = 0;

    if (fd >= 0 && set_int(fd, SOL_SOCKET, name, value) == 0) {
        granted = buffer_of(fd, name);
    }
    if (fd >= 0) {
        close(fd);
    }
    return granted;
}

/*
 * Beyond the system's limit if the process may, otherwise up to the limit, but never down: an
 * inherited socket may have a larger buffer than this process may set, and could not get it back.
 */
static void raise_buffer(int fd, int name, int force_name, int value)
{
    int had = buffer_of(fd, name);

    if (had < value && set_int(fd, SOL_SOCKET, force_name, value) != 0 &&
        grantable(name, value) > had) {
        set_int(fd, SOL_SOCKET, name, value);
    }
}

static void set_buffers(int fd, const struct address *local, const struct udp_options *options)
{
    int value = options->buffer_bytes <= INT32_MAX ? (int)options->buffer_bytes : INT32_MAX;
    char text[ADDRESS_TEXT_MAX];

    if (value == 0) {
        return;
    }
    raise_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, value);
    raise_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, value);
    int receive = buffer_of(fd, SO_RCVBUF), send = buffer_of(fd, SO_SNDBUF);
    if (!options->tells_buffers) {
        return;
    }
    if (receive >= value && send >= value) {
        log_event(LOG_INFO, "buffers", "address=%s asked=%d receive=%d send=%d",
                  address_format(local, text), value, receive, send);
        return;
    }
    log_event(LOG_WARNING, "buffers_small",
              "address=%s asked=%d receive=%d send=%d help=\"raise net.core.rmem_max and "
              "net.core.wmem_max, or lower listen.buffer-bytes\"",
              address_format(local, text), value, receive, send);
}

/*
 * IPv4 goes out without "don't fragment" and does not believe ICMP about the path's MTU
 * (IP_PMTUDISC_OMIT): routers fragment datagrams that are too large, and a forged ICMP error cannot
 * lower the size. IPv6 keeps the kernel's default, because only the sender may fragment there:
 * after a "packet too big" the retransmission is.
 */
static int set_ipv4(int fd, bool want_local)
{
    int err = set_int(fd, IPPROTO_IP, IP_RECVERR, 1);

    if (err == 0) {
        err = set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_OMIT);
    }
    if (err == 0 && want_local) {
        err = set_int(fd, IPPROTO_IP, IP_PKTINFO, 1);
    }
    return err;
}

static int set_ipv6(int fd, bool want_local)
{
    int err = set_int(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);

    if (err == 0 && want_local) {
        err = set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    }
    return err;
}

static int set_options(int fd, const struct address *local, const struct udp_options *options)
{
    set_buffers(fd, local, options);
    /* Drops are counted where the kernel can tell them; not worth failing for. */
    set_int(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    return local->family == ADDRESS_IPV4 ? set_ipv4(fd, options->want_local)
                                         : set_ipv6(fd, options->want_local);
}

/* What was asked for, and what there is; 0 is the system's default, whatever that is. */
static struct udp_buffer udp_buffer_of(int fd, int name, uint32_t asked)
{
    int had = buffer_of(fd, name);
    uint64_t got = had > 0 ? (uint64_t)had : 0;

    return (struct udp_buffer){.asked_bytes = asked > 0 ? asked : got, .got_bytes = got};
}

static void note_buffers(struct udp_socket *socket, uint32_t asked)
{
    socket->receive = udp_buffer_of(socket->fd, SO_RCVBUF, asked);
    socket->send = udp_buffer_of(socket->fd, SO_SNDBUF, asked);
    count_buffers(socket, 1);
}

/* An old kernel has neither: then each datagram is a message of its own. */
static void set_grouping(struct udp_socket *socket, const struct udp_options *options)
{
    bool has_gso = options->gso && set_int(socket->fd, SOL_UDP, UDP_SEGMENT, 0) == 0;

    socket->gso_max = has_gso ? UDP_GSO_MAX : 0;
    socket->has_gro = options->gro && set_int(socket->fd, SOL_UDP, UDP_GRO, 1) == 0;
    socket->gro_most = 1;
}

/* @return @p fd or -errno (it stays open). */
static int take_inherited(int fd)
{
    int type = 0;
    socklen_t type_len = sizeof type;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) != 0) {
        return -errno;
    }
    if (type != SOCK_DGRAM) {
        return -EPROTOTYPE;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        return -errno;
    }
    return fd;
}

int udp_open(struct loop *loop, const struct udp_options *options,
             const struct udp_handler *handler, void *context, struct udp_socket **ret_socket)
{
    bool is_inherited = options->fd >= 0;
    struct udp_socket *socket = calloc(1, sizeof *socket);
    int err = -ENOMEM;

    if (socket == NULL) {
        return -ENOMEM;
    }
    socket->loop = loop;
    socket->handler = handler;
    socket->context = context;
    socket->counters = options->counters != NULL ? options->counters : &socket->own_counters;
    socket->datagram_max = options->datagram_max != 0 && options->datagram_max < UDP_DATAGRAM_MAX
                               ? options->datagram_max
                               : UDP_DATAGRAM_MAX;
    socket->fd = is_inherited ? take_inherited(options->fd)
                              : bind_socket(BIND_DATAGRAM, &options->bind, options->reuse_port);
    if (socket->fd < 0) {
        err = socket->fd;
        goto fail;
    }
    err = bind_address_of(socket->fd, &socket->local);
    if (err == 0) {
        err = set_options(socket->fd, &socket->local, options);
    }
    if (err == 0) {
        err = udp_batch_need(loop);
    }
    if (err != 0) {
        goto fail;
    }
    set_grouping(socket, options);
    note_buffers(socket, options->buffer_bytes);
    socket->is_wildcard = address_is_unspecified(&socket->local);
    err = -ENOMEM;
    socket->out = udp_out_new();
    socket->event =
        event_new(loop->base, socket->fd, EV_READ | EV_PERSIST, udp_on_readable, socket);
    if (socket->out == NULL || socket->event == NULL || event_add(socket->event, NULL) != 0) {
        goto fail;
    }
    *ret_socket = socket;
    return 0;

fail:
    if (is_inherited) {
        socket->fd = -1; /* still the caller's */
    }
    udp_socket_release(socket);
    return err;
}

void udp_close(struct udp_socket *socket)
{
    if (socket == NULL) {
        return;
    }
    udp_flush(socket);
    if (socket->is_calling) {
        event_del(socket->event);
        socket->is_closed = true; /* the rest when its callback has returned */
        return;
    }
    udp_socket_release(socket);
}

const struct address *udp_local(const struct udp_socket *socket)
{
    return &socket->local;
}

const struct udp_counters *udp_counters(const struct udp_socket *socket)
{
    return socket->counters;
}

void udp_hold(struct udp_socket *socket, bool is_held)
{
    socket->is_held = is_held;
    if (is_held) {
        (void)event_del(socket->event);
    } else {
        (void)event_add(socket->event, NULL); /* it was there before: its memory is */
    }
}

void udp_steer(struct udp_socket *socket, uint8_t type, uint32_t at)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, type, 0, 2),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, at), BPF_STMT(BPF_RET | BPF_A, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX), /* no socket: the system's own choice */
    };
    const struct sock_fprog program = {.len = sizeof steps / sizeof steps[0], .filter = steps};

    (void)setsockopt(socket->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
}
