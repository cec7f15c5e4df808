/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/leg.h"

#include "client/faulty.h"
#include "client/side.h"
#include "client/stream.h"
#include "context/capture.h"
#include "net/dtls.h"

#include <string.h>

struct bytes leg_default_host(const struct leg *leg)
{
    const char *host = leg->kind == LEG_STREAM ? stream_host(leg->stream) : "";
    if (host[0] == '\0' && leg->asker.identity != NULL) {
        host = identity_server_name(leg->asker.identity);
    }
    return (struct bytes){(const uint8_t *)host, strlen(host)};
}

uint64_t leg_token_key(const struct leg *leg, uint64_t seed)
{
    return hash_bytes(leg->token.data, leg->token.len, (uint64_t)(uintptr_t)leg->peer ^ seed);
}

uint64_t leg_serial(const struct client_side *side, const struct leg *leg)
{
    switch (leg->kind) {
    case LEG_DATAGRAM:
        return (uint64_t)(leg->client - side->clients.slots) << 32 | leg->client->generation;
    case LEG_STREAM:
        return UINT64_C(1) << 63 | stream_serial(leg);
    case LEG_GONE:
        break;
    }
    return UINT64_C(3) << 62;
}

size_t leg_message_max(const struct client_side *side, const struct leg *leg)
{
    size_t most = (size_t)side->context.config->limits_datagram_bytes;
    if (leg->session == NULL) {
        return most;
    }
    size_t room = dtls_session_room(leg->session);
    most -= dtls_session_overhead(leg->session);
    return most < room ? most : room;
}

bool leg_takes_blocks(const struct leg *leg)
{
    return leg->kind != LEG_STREAM || stream_takes_blocks(leg->stream);
}

bool leg_take_mid(struct client_side *side, const struct leg *leg, uint16_t *ret_mid)
{
    if (mid_space_take(&leg->client->mids, context_now_ms(&side->context),
                       side->context.coap->exchange_lifetime, ret_mid)) {
        return true;
    }
    metric_add(&side->context.metrics.message_ids_exhausted, 1);
    return false;
}

/* To the session's own address; dropped where the session has ended. */
static void deliver_sealed(void *owner, void *other, const struct udp_path *path,
                           const uint8_t *data, size_t len)
{
    (void)other;
    (void)path;
    dtls_send(owner, data, len);
}

/* The same to another address of it. */
static void deliver_sealed_to(void *owner, void *other, const struct udp_path *path,
                              const uint8_t *data, size_t len)
{
    (void)other;
    dtls_send_to(owner, path, data, len);
}

static void deliver_plain(void *owner, void *other, const struct udp_path *path,
                          const uint8_t *data, size_t len)
{
    const struct listener *listener = owner;
    (void)other;
    udp_send(listener->socket, path, data, len);
}

static bool leg_send_faulty(const struct leg *leg, const uint8_t *data, size_t len)
{
    struct fault_parcel parcel = {.owner = leg->listener,
                                  .deliver = deliver_plain,
                                  .path = leg->asker.path,
                                  .data = data,
                                  .len = len};
    if (leg->session != NULL) {
        parcel.owner = leg->session;
        parcel.deliver = leg->is_unverified ? deliver_sealed_to : deliver_sealed;
    }
    return faulty_message(leg->listener->side, &leg->asker.path.remote, FAULT_TO_CLIENT, &parcel);
}

static void leg_capture(const struct leg *leg, const uint8_t *data, size_t len)
{
    const struct capture_view view = {.is_client = true,
                                      .is_out = true,
                                      .transport =
                                          leg->session != NULL ? TRANSPORT_DTLS : TRANSPORT_UDP,
                                      .local = &leg->listener->bound,
                                      .remote = &leg->asker.path.remote,
                                      .data = {data, len}};
    capture_add(&leg->listener->side->context, &view);
}

/* Whether a fault of a lab has taken it. */
__attribute__((cold, noinline)) static bool leg_send_lab(const struct leg *leg, const uint8_t *data,
                                                         size_t len)
{
    const struct context *context = &leg->listener->side->context;
    if (context->capture != NULL) {
        leg_capture(leg, data, len);
    }
    return context->faults != NULL && leg_send_faulty(leg, data, len);
}

void leg_send(const struct leg *leg, const uint8_t *data, size_t len)
{
    if (leg->listener->side->context.lab != 0 && leg_send_lab(leg, data, len)) {
        return;
    }
    if (leg->session != NULL && leg->is_unverified) {
        dtls_send_to(leg->session, &leg->asker.path, data, len);
    } else if (leg->session != NULL) {
        dtls_send(leg->session, data, len);
    } else {
        udp_send(leg->listener->socket, &leg->asker.path, data, len);
    }
}

void leg_send_empty(const struct leg *leg, enum message_type type, uint16_t mid)
{
    uint8_t empty[MESSAGE_HEADER_LEN];
    message_write_empty(empty, type, mid);
    leg_send(leg, empty, sizeof(empty));
}
