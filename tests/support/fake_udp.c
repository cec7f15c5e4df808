/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp.h on the fake network. The host under test has the addresses below besides
 * loopback; closed sockets stay known until the end, so that using one is noticed.
 */
#include "support/fake_net_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HOST_IPV4 "198.51.100.1"
#define HOST_IPV6 "[2001:db8:ffff::1]"
#define HOST_LINK_LOCAL "[fe80::ffff]"

#define EPHEMERAL_FIRST 49152u

/* A router quotes this much of a datagram's payload (RFC 4443: up to the minimum MTU). */
#define QUOTED_MAX 1232u

struct output {
    struct output *next;
    struct udp_path path;
    size_t len;
    uint8_t data[];
};

struct udp_socket {
    struct udp_socket *next;
    struct loop *loop;
    struct udp_options options;
    struct address local;
    const struct udp_handler *handler;
    void *context;
    bool is_open;
    uint32_t steer_at;
    struct output *outputs, **outputs_end;
    struct udp_counters *counters, own_counters;
};

static struct udp_socket *sockets;
static uint16_t next_port = EPHEMERAL_FIRST;
static uint16_t refused_family;
static int refused_error;
static unsigned refused_count;

static struct address host_address(const struct address *remote)
{
    const char *text = remote->family == ADDRESS_IPV4 ? HOST_IPV4 : HOST_IPV6;
    struct address address;

    if (address_is_loopback(remote)) {
        text = remote->family == ADDRESS_IPV4 ? "127.0.0.1" : "[::1]";
    } else if (remote->family == ADDRESS_IPV6 && remote->ip[0] == 0xfe &&
               (remote->ip[1] & 0xc0) == 0x80) {
        text = HOST_LINK_LOCAL;
    }
    assert_true(address_parse(text, strlen(text), 0, &address));
    address.scope = remote->scope;
    return address;
}

static bool accepts(const struct udp_socket *socket, const struct address *to)
{
    return socket->is_open && socket->local.family == to->family &&
           socket->local.port == to->port &&
           (address_is_unspecified(&socket->local) || address_same_host(&socket->local, to));
}

/* Of several sockets on one port (SO_REUSEPORT) the same one for each remote. */
struct udp_socket *fake_udp_find(const struct address *to, const struct address *from)
{
    size_t count = 0;

    for (struct udp_socket *socket = sockets; socket != NULL; socket = socket->next) {
        count += accepts(socket, to);
    }
    if (count == 0) {
        return NULL;
    }
    uint64_t chosen = address_hash(from, 0) % count;
    for (struct udp_socket *socket = sockets; socket != NULL; socket = socket->next) {
        if (accepts(socket, to) && chosen-- == 0) {
            return socket;
        }
    }
    return NULL;
}

enum fake_fate fake_udp_deliver(const struct address *from, const struct address *to,
                                const uint8_t *data, size_t len)
{
    struct udp_socket *socket = fake_udp_find(to, from);
    size_t max = UDP_DATAGRAM_MAX;

    if (socket == NULL) {
        return FAKE_NOT_MINE;
    }
    if (socket->options.datagram_max != 0) {
        max = socket->options.datagram_max;
    }
    struct datagram datagram = {
        .data = data, .len = len < max ? len : max, .truncated = len > max, .path.remote = *from};
    if (socket->options.want_local) {
        datagram.path.local = *to;
    }
    socket->counters->datagrams_in++;
    fake_loop_wake(socket->loop);
    socket->handler->on_datagram(socket->context, socket, &datagram);
    return FAKE_DELIVERED;
}

void fake_udp_deliver_error(struct udp_socket *socket, const struct address *remote, int error,
                            const uint8_t *quoted, size_t quoted_len)
{
    if (!socket->is_open) {
        return;
    }
    fake_loop_wake(socket->loop);
    socket->handler->on_error(socket->context, socket, remote, error, quoted,
                              quoted_len < QUOTED_MAX ? quoted_len : QUOTED_MAX);
}

bool fake_udp_has_output(const struct loop *loop)
{
    for (struct udp_socket *socket = sockets; socket != NULL; socket = socket->next) {
        if (socket->loop == loop && socket->outputs != NULL) {
            return true;
        }
    }
    return false;
}

bool fake_udp_is_open_on(const struct loop *loop)
{
    for (struct udp_socket *socket = sockets; socket != NULL; socket = socket->next) {
        if (socket->loop == loop && socket->is_open) {
            return true;
        }
    }
    return false;
}

size_t fake_udp_open_count(void)
{
    size_t count = 0;

    for (struct udp_socket *socket = sockets; socket != NULL; socket = socket->next) {
        count += socket->is_open;
    }
    return count;
}

static void outputs_free(struct udp_socket *socket)
{
    while (socket->outputs != NULL) {
        struct output *output = socket->outputs;
        socket->outputs = output->next;
        free(output);
    }
    socket->outputs_end = &socket->outputs;
}

void fake_udp_stop(void)
{
    while (sockets != NULL) {
        struct udp_socket *socket = sockets;
        sockets = socket->next;
        outputs_free(socket);
        free(socket);
    }
    next_port = EPHEMERAL_FIRST;
    refused_family = ADDRESS_NONE;
    refused_count = 0;
}

void fake_net_refuse_sockets(uint16_t family, int error)
{
    refused_family = family;
    refused_error = error;
}

unsigned fake_net_sockets_refused(void)
{
    return refused_count;
}

/* ---- udp.h ---- */

static bool is_taken(const struct address *address, bool reuse_port)
{
    for (struct udp_socket *socket = sockets; socket != NULL; socket = socket->next) {
        if (socket->is_open && socket->local.port == address->port &&
            socket->local.family == address->family &&
            (address_same_host(&socket->local, address) || address_is_unspecified(&socket->local) ||
             address_is_unspecified(address)) &&
            !(reuse_port && socket->options.reuse_port)) {
            return true;
        }
    }
    return false;
}

int udp_open(struct loop *loop, const struct udp_options *options,
             const struct udp_handler *handler, void *context, struct udp_socket **ret_socket)
{
    struct address local = options->bind;

    if (local.family != ADDRESS_IPV4 && local.family != ADDRESS_IPV6) {
        return -EAFNOSUPPORT;
    }
    if (local.family == refused_family) {
        refused_count++;
        return -refused_error;
    }
    if (local.port == 0) {
        do {
            local.port = next_port++;
        } while (is_taken(&local, false));
    } else if (is_taken(&local, options->reuse_port)) {
        return -EADDRINUSE;
    }
    struct udp_socket *socket = fake_alloc(sizeof *socket);
    *socket = (struct udp_socket){.next = sockets,
                                  .loop = loop,
                                  .options = *options,
                                  .local = local,
                                  .handler = handler,
                                  .context = context,
                                  .is_open = true};
    socket->outputs_end = &socket->outputs;
    socket->counters = options->counters != NULL ? options->counters : &socket->own_counters;
    sockets = socket;
    *ret_socket = socket;
    return 0;
}

static void must_be_open(const struct udp_socket *socket, const char *what)
{
    for (struct udp_socket *known = sockets; known != NULL; known = known->next) {
        if (known == socket && known->is_open) {
            return;
        }
    }
    fail_msg("%s of a socket that is not open", what);
}

void udp_close(struct udp_socket *socket)
{
    if (socket == NULL) {
        return;
    }
    must_be_open(socket, "udp_close()");
    udp_flush(socket);
    socket->is_open = false;
}

const struct address *udp_local(const struct udp_socket *socket)
{
    must_be_open(socket, "udp_local()");
    return &socket->local;
}

void udp_send(struct udp_socket *socket, const struct udp_path *path, const uint8_t *data,
              size_t len)
{
    must_be_open(socket, "udp_send()");
    if (path->remote.family != socket->local.family) {
        fail_msg("udp_send() to an address of another family");
    }
    if (path->local.family != ADDRESS_NONE && path->local.family != socket->local.family) {
        fail_msg("udp_send() from an address of another family");
    }
    struct output *output = fake_alloc(sizeof *output + len);
    output->path = *path;
    output->len = len;
    if (len != 0) {
        memcpy(output->data, data, len);
    }
    *socket->outputs_end = output;
    socket->outputs_end = &output->next;
    fake_loop_wake(socket->loop);
}

static void output_send(struct udp_socket *socket, const struct output *output)
{
    struct address from = socket->local;

    if (output->len > UDP_DATAGRAM_MAX || output->path.remote.port == 0) {
        socket->counters->send_failures++;
        fake_wire_error(socket, &output->path.remote,
                        output->path.remote.port == 0 ? EINVAL : EMSGSIZE, output->data,
                        output->len);
        return;
    }
    if (output->path.local.family != ADDRESS_NONE) {
        from = output->path.local;
    } else if (address_is_unspecified(&from)) {
        from = host_address(&output->path.remote);
    }
    from.port = socket->local.port;
    socket->counters->datagrams_out++;
    fake_wire_send(socket, &from, &output->path.remote, output->data, output->len);
}

void udp_steer(struct udp_socket *socket, uint8_t type, uint32_t at)
{
    (void)type;
    must_be_open(socket, "udp_steer()");
    socket->steer_at = at;
}

void udp_hold(struct udp_socket *socket, bool is_held)
{
    must_be_open(socket, "udp_hold()");
    (void)is_held;
}

uint32_t fake_udp_steer_at(const struct udp_socket *socket)
{
    return socket->steer_at;
}

void udp_flush(struct udp_socket *socket)
{
    must_be_open(socket, "udp_flush()");
    for (const struct output *output = socket->outputs; output != NULL; output = output->next) {
        output_send(socket, output);
    }
    outputs_free(socket);
}

const struct udp_counters *udp_counters(const struct udp_socket *socket)
{
    must_be_open(socket, "udp_counters()");
    return socket->counters;
}
