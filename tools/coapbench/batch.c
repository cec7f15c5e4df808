/* SPDX-License-Identifier: BSD-2-Clause */
#include "batch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* The control messages that we send or take: an address, and the size of grouped datagrams. */
struct control {
    _Alignas(struct cmsghdr)
        uint8_t bytes[CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(int))];
};

struct batch {
    unsigned capacity, count;
    unsigned dirty; /* headers that the last call changed */
    size_t room;    /* of each datagram, bytes */
    struct datagram datagrams[BATCH_MAX];
    struct mmsghdr headers[BATCH_MAX];
    struct iovec slices[BATCH_MAX];
    struct control controls[BATCH_MAX];
    uint8_t data[]; /* capacity times room */
};

int batch_new(unsigned capacity, size_t room, struct batch **ret_batch)
{
    unsigned count = capacity < BATCH_MAX ? capacity : BATCH_MAX;
    struct batch *batch = calloc(1, sizeof(*batch) + count * room);

    if (batch == NULL) {
        return -ENOMEM;
    }
    batch->capacity = count;
    batch->dirty = count;
    batch->room = room;
    for (unsigned i = 0; i < count; i++) {
        struct msghdr *header = &batch->headers[i].msg_hdr;
        batch->datagrams[i].data = batch->data + i * room;
        batch->slices[i].iov_base = batch->data + i * room;
        header->msg_iov = &batch->slices[i];
        header->msg_iovlen = 1;
        header->msg_name = &batch->datagrams[i].peer;
    }
    *ret_batch = batch;
    return 0;
}

void batch_free(struct batch *batch)
{
    free(batch);
}

static void read_control(struct msghdr *header, struct datagram *datagram)
{
    datagram->local = 0;
    datagram->segment = 0;
    for (struct cmsghdr *item = CMSG_FIRSTHDR(header); item != NULL;
         item = CMSG_NXTHDR(header, item)) {
        if (item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo info;
            memcpy(&info, CMSG_DATA(item), sizeof(info));
            datagram->local = ntohl(info.ipi_addr.s_addr);
        } else if (item->cmsg_level == SOL_UDP && item->cmsg_type == UDP_GRO) {
            int size;
            memcpy(&size, CMSG_DATA(item), sizeof(size));
            datagram->segment = size > 0 && (size_t)size < datagram->len ? (size_t)size : 0;
        }
    }
}

static void prepare_receive(struct batch *batch)
{
    for (unsigned i = 0; i < batch->dirty; i++) {
        struct msghdr *header = &batch->headers[i].msg_hdr;
        batch->slices[i].iov_len = batch->room;
        header->msg_namelen = sizeof(union address);
        header->msg_control = &batch->controls[i];
        header->msg_controllen = sizeof(batch->controls[i]);
    }
}

/* With a batch of one, one datagram through recvmsg(), because that call is to be measured. */
static int receive_headers(struct batch *batch, int fd)
{
    ssize_t len;

    if (batch->capacity > 1) {
        return recvmmsg(fd, batch->headers, batch->capacity, MSG_DONTWAIT, NULL);
    }
    len = recvmsg(fd, &batch->headers[0].msg_hdr, MSG_DONTWAIT);
    if (len < 0) {
        return -1;
    }
    batch->headers[0].msg_len = (unsigned)len;
    return 1;
}

int batch_receive(struct batch *batch, int fd)
{
    int count;

    prepare_receive(batch);
    batch->count = 0;
    batch->dirty = 0;
    count = receive_headers(batch, fd);
    if (count < 0) {
        batch->dirty = 1;
        return errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED ? 0 : -errno;
    }
    for (int i = 0; i < count; i++) {
        batch->datagrams[i].len = batch->headers[i].msg_len;
        read_control(&batch->headers[i].msg_hdr, &batch->datagrams[i]);
    }
    batch->count = (unsigned)count;
    batch->dirty = batch->count;
    return count;
}

struct datagram *batch_at(struct batch *batch, unsigned index)
{
    return &batch->datagrams[index];
}

struct datagram *batch_reserve(struct batch *batch)
{
    if (batch->count == batch->capacity) {
        return NULL;
    }
    batch->datagrams[batch->count].local = 0;
    batch->datagrams[batch->count].segment = 0;
    return &batch->datagrams[batch->count];
}

void batch_commit(struct batch *batch)
{
    batch->count++;
}

unsigned batch_count(const struct batch *batch)
{
    return batch->count;
}

void batch_set_count(struct batch *batch, unsigned count)
{
    batch->count = count < batch->capacity ? count : batch->capacity;
}

/* Appends a control message behind the @p used bytes. @return the bytes used then */
static uint32_t put_control(struct control *control, uint32_t used, int level, int type,
                            const void *value, uint32_t len)
{
    struct cmsghdr *item = (struct cmsghdr *)(void *)(control->bytes + used);

    item->cmsg_level = level;
    item->cmsg_type = type;
    item->cmsg_len = (uint32_t)CMSG_LEN(len); /* musl's field is narrower than a size_t */
    memcpy(CMSG_DATA(item), value, len);
    return (uint32_t)(used + CMSG_SPACE(len));
}

/* Where it is sent from, and that it is several. @return the bytes of control messages */
static uint32_t write_control(const struct datagram *datagram, struct control *control)
{
    struct in_pktinfo info = {.ipi_spec_dst.s_addr = htonl(datagram->local)};
    uint16_t segment = (uint16_t)datagram->segment; /* of a datagram: less than 65,536 */
    uint32_t used = 0;

    if (datagram->local != 0) {
        used = put_control(control, used, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
    }
    if (segment != 0) {
        used = put_control(control, used, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
    }
    return used;
}

static void prepare_send(struct batch *batch)
{
    for (unsigned i = 0; i < batch->count; i++) {
        const struct datagram *datagram = &batch->datagrams[i];
        struct msghdr *header = &batch->headers[i].msg_hdr;
        batch->slices[i].iov_len = datagram->len;
        header->msg_namelen = address_len(&datagram->peer);
        header->msg_controllen = write_control(datagram, &batch->controls[i]);
        header->msg_control = header->msg_controllen > 0 ? &batch->controls[i] : NULL;
    }
}

static int send_headers(struct batch *batch, int fd, unsigned first)
{
    if (batch->capacity > 1) {
        return sendmmsg(fd, &batch->headers[first], batch->count - first, MSG_DONTWAIT);
    }
    return sendmsg(fd, &batch->headers[0].msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
}

unsigned batch_flush(struct batch *batch, int fd)
{
    unsigned sent = 0;
    unsigned refused = 0;

    prepare_send(batch);
    batch->dirty = batch->dirty > batch->count ? batch->dirty : batch->count;
    while (sent < batch->count) {
        int count = send_headers(batch, fd, sent);
        if (count > 0) {
            sent += (unsigned)count;
        } else if (errno != EINTR) {
            /* A full queue or an ICMP error of an earlier one: this datagram is lost. */
            sent++;
            refused++;
        }
    }
    batch->count = 0;
    return refused;
}

static int set_options(int fd, const struct udp_open *options)
{
    const int on = 1;
    const int bytes = options->buffer_bytes;

    if (options->pktinfo && setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) != 0) {
        return -errno;
    }
    if (options->loopback_only && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) != 0) {
        return -errno;
    }
    if (options->grouped && setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on)) != 0) {
        return -errno;
    }
    if (bytes > 0 && setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) != 0) {
        return -errno;
    }
    if (bytes > 0 && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) != 0) {
        return -errno;
    }
    return 0;
}

int udp_open(const struct udp_open *options, int *ret_fd)
{
    sa_family_t family = options->bind != NULL ? options->bind->any.sa_family : options->family;
    int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    union address any;
    const union address *local = options->bind;
    int err;

    if (fd < 0) {
        return -errno;
    }
    if (local == NULL) {
        memset(&any, 0, sizeof(any));
        any.any.sa_family = family;
        local = &any;
    }
    err = set_options(fd, options);
    if (err == 0 && bind(fd, &local->any, address_len(local)) != 0) {
        err = -errno;
    }
    if (err != 0) {
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return 0;
}

int udp_local(int fd, union address *ret_address)
{
    union address address;
    socklen_t len = sizeof(address);

    memset(&address, 0, sizeof(address));
    if (getsockname(fd, &address.any, &len) != 0) {
        return -errno;
    }
    *ret_address = address;
    return 0;
}
