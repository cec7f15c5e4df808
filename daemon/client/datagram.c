/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The message layer towards clients: RFC 7252 sections 4.2 to 4.5 say what is
 * rejected and what is ignored. A message that is no request never gets an answer
 * that an attacker could use.
 */
#include "client/datagram.h"

#include "base/log.h"
#include "client/admission.h"
#include "client/echo.h"
#include "client/faulty.h"
#include "client/handle.h"
#include "client/reply.h"
#include "client/side.h"
#include "conf/device.h"
#include "context/capture.h"
#include "context/faults.h"
#include "policy/access.h"

#include <errno.h>
#include <string.h>

/* A repeated request: the same answer again, or word that it is being worked on. */
static bool is_duplicate(struct client_side *side, const struct leg *leg)
{
    uint64_t key = key_of_client(side, KEY_CLIENT_REQUEST, leg->client, leg->mid);
    /* Skip the lookup when the client is idle: the map exceeds the processor's cache. */
    struct hash_node *node =
        leg->peer->in_flight > 0 ? hash_map_find(&side->requests.map, key) : NULL;
    struct bytes answer;
    if (node != NULL) {
        struct request *request = HASH_ENTRY(node, struct request, by_request);
        trail_event(&side->context, &request->trail, EVENT_repeated, 0);
        if (leg->confirmable) {
            reply_acknowledge(side, request);
        }
    } else if (dedup_find(&side->origin.dedup, key, context_now_ms(&side->context), &answer)) {
        if (leg->confirmable && answer.len > 0) {
            leg_send(leg, answer.data, answer.len);
        }
    } else {
        return false;
    }
    metric_add(&side->context.metrics.requests_duplicate, 1);
    return true;
}

/* A datagram, and what it came over: a listener's socket, or a session on it. */
struct arrival {
    struct listener *listener;
    struct dtls_session *session; /* NULL: in the clear */
    const struct datagram *datagram;
};

/*
 * Message ids and tokens end with the session they were used in (RFC 7252 section
 * 9.1.1): what is in flight is let go, and what is remembered matches no client.
 */
static void change_session(struct client_side *side, struct client *client,
                           struct dtls_session *session)
{
    struct device *device = client->device;
    client->device = NULL;
    request_leave_all(side, &client->peer);
    client->generation++;
    client->session = session;
    client->is_secure = client->is_secure || session != NULL;
    client->peer.standing_epoch = 0; /* another peer, perhaps */
    if (device != NULL) {
        device_close(&side->origin, device);
    }
}

void datagram_client_gone(struct client_side *side, struct client *client)
{
    change_session(side, client, NULL);
}

/* A session's is at the session's address, wherever the datagram has come from. */
static struct client *find_or_make(struct client_side *side, const struct arrival *arrival)
{
    uint16_t start = (uint16_t)entropy_u64(&side->context.entropy);
    uint64_t now_ms = context_now_ms(&side->context);
    uint32_t listener = arrival->listener->index;
    return arrival->session != NULL
               ? client_table_get_secure(&side->clients,
                                         &dtls_session_path(arrival->session)->remote, listener,
                                         arrival->session, start, now_ms)
               : client_table_get(&side->clients, &arrival->datagram->path.remote, listener, start,
                                  now_ms);
}

/*
 * Where all clients have requests in flight or observe, the source with the most of them loses its
 * oldest to a newcomer of another one. Nothing may be half made: that ends any request.
 */
static struct client *client_of_arrival(struct client_side *side, const struct arrival *arrival)
{
    struct client *client = find_or_make(side, arrival);
    if (client != NULL) {
        return client;
    }
    const struct address *remote = arrival->session != NULL
                                       ? &dtls_session_path(arrival->session)->remote
                                       : &arrival->datagram->path.remote;
    struct client *oldest =
        client_table_yield(&side->clients, remote, side->context.config->limits_ipv6_prefix);
    if (oldest == NULL) {
        return NULL;
    }
    metric_add(&side->context.metrics.clients_displaced, 1);
    request_displace_all(side, &oldest->peer);
    client_table_vacate(&side->clients, oldest);
    return find_or_make(side, arrival);
}

static struct client *known_client(const struct arrival *arrival)
{
    const struct client_table *table = &arrival->listener->side->clients;
    uint32_t listener = arrival->listener->index;
    return arrival->session != NULL
               ? client_table_find_secure(table, &dtls_session_path(arrival->session)->remote,
                                          listener, arrival->session)
               : client_table_find(table, &arrival->datagram->path.remote, listener);
}

static void datagram_on_request(struct client_side *side, const struct arrival *arrival,
                                const struct message *message)
{
    const struct datagram *datagram = arrival->datagram;
    struct listener *listener = arrival->listener;
    struct client *client = client_of_arrival(side, arrival);
    if (client == NULL) {
        metric_add(&side->context.metrics.messages_ignored, 1);
        return;
    }
    if (client->session != arrival->session) {
        change_session(side, client, arrival->session);
    }
    struct leg leg = {
        .kind = LEG_DATAGRAM,
        .peer = &client->peer,
        .listener = listener,
        .client = client,
        .session = arrival->session,
        .asker = {.path = datagram->path,
                  .identity =
                      arrival->session != NULL ? dtls_session_identity(arrival->session) : NULL,
                  .scheme = arrival->session != NULL ? CRI_SCHEME_COAPS : CRI_SCHEME_COAP},
        .mid = message->mid,
        .received_ms = context_now_ms(&side->context),
        .confirmable = message->type == MESSAGE_CON,
    };
    leg.asker.serial = leg_serial(side, &leg);
    echo_note(side, &leg, datagram);
    if (leg.session != NULL && leg.is_unverified) {
        client->peer.standing_epoch = 0; /* what holds for its address holds not for this one */
    }
    /* Before repetitions are answered: those can be made up, too. */
    if ((leg.is_unverified && !limit_may_answer(side, &leg, message)) || is_duplicate(side, &leg)) {
        return;
    }
    if (datagram->truncated) {
        request_refuse(side, &leg, message, REASON_request_too_large); /* MSG-36 */
        return;
    }
    struct address local = datagram->path.local;
    if (local.family == ADDRESS_NONE) {
        local = listener->bound;
    }
    local.port = listener->bound.port;
    request_handle(side, &leg, message, &local);
    if (leg.session != NULL && leg.is_unverified) {
        client->peer.standing_epoch = 0;
    }
}

/* --- devices: the proxy is the client, too ------------------------------- */

static bool datagram_take_mid(void *owner, uint16_t *ret_mid)
{
    struct client *client = owner;
    const struct client_side *side = client->listening->side;
    return mid_space_take(&client->mids, context_now_ms(&side->context),
                          side->context.coap->exchange_lifetime, ret_mid);
}

static enum reason datagram_send_to_device(void *owner, const uint8_t *datagram, size_t len)
{
    const struct client *client = owner;
    const struct leg leg = {.kind = LEG_DATAGRAM, .session = client->session};
    if (len > leg_message_max(client->listening->side, &leg)) {
        return REASON_request_too_large;
    }
    if (client->session != NULL) {
        dtls_send(client->session, datagram, len);
    } else {
        const struct device_line *line = &client->device->line;
        const struct udp_path path = {.remote = line->remote, .local = line->local};
        udp_send(client->listening->socket, &path, datagram, len);
    }
    return REASON_none;
}

static void datagram_end_device(void *owner, const char *why)
{
    struct client *client = owner;
    client->device = NULL;
    if (client->session != NULL) { /* else it is a client as others, from now on */
        dtls_close(client->session, why);
    }
}

static const struct device_calls datagram_device_calls = {
    .take_mid = datagram_take_mid,
    .send = datagram_send_to_device,
    .end = datagram_end_device,
};

bool datagram_register(struct client_side *side, const struct leg *leg,
                       const struct config_device *row, uint32_t lifetime_ms, bool *ret_is_new)
{
    struct client *client = leg->client;
    const struct device_line line = {.calls = &datagram_device_calls,
                                     .owner = client,
                                     .transport = TRANSPORT_UDP,
                                     .remote = leg->asker.path.remote,
                                     .local = leg->asker.path.local};
    const struct bytes name = {(const uint8_t *)row->name, strlen(row->name)};
    struct device *before = client->device;
    struct address address;
    *ret_is_new = before == NULL || strcmp(before->name, row->name) != 0;
    if (!device_address(&side->origin, name, &address)) {
        return false;
    }
    if (*ret_is_new) {
        client->device = NULL;
        if (before != NULL) {
            device_close(&side->origin, before); /* one address has one name */
        }
        client->listening = leg->listener;
        client->device = device_at(&side->origin, &address); /* what waits is sent at once */
        (void)device_open(&side->origin, row, &line);
        observations_renew(side, client->device);
    } else {
        before->line.local = line.local;
        device_hear(&side->origin, before);
    }
    device_hold(&side->origin, client->device, lifetime_ms);
    return true;
}

/*
 * A session of a client that may be a device, which need not send anything to be asked. The older
 * session may be one from the same address, of which the client is told to be another now.
 */
static void on_session_open(void *context, struct dtls_session *session)
{
    struct listener *listener = context;
    struct client_side *side = listener->side;
    const struct config_device *row =
        config_device_of(side->context.config, dtls_session_identity(session));
    if (row == NULL) {
        return;
    }
    const struct datagram none = {.path = *dtls_session_path(session)};
    const struct arrival arrival = {.listener = listener, .session = session, .datagram = &none};
    struct client *client = client_of_arrival(side, &arrival);
    if (client == NULL) {
        metric_add(&side->context.metrics.messages_ignored, 1);
        return;
    }
    const struct device_line line = {.calls = &datagram_device_calls,
                                     .owner = client,
                                     .transport = TRANSPORT_DTLS,
                                     .remote = none.path.remote,
                                     .identity = dtls_session_identity(session)};
    struct device *before = client->device;
    client->device = NULL;
    if (client->session != session) {
        change_session(side, client, session);
    }
    client->listening = listener;
    if (before != NULL && strcmp(before->name, row->name) != 0) {
        device_close(&side->origin, before);
    }
    client->device = device_open(&side->origin, row, &line);
    observations_renew(side, client->device);
}

static void find_devices_at(struct listener *listener)
{
    struct client_side *side = listener->side;
    struct dtls_session *session;
    uint64_t cursor = 0;
    while ((session = dtls_next(listener->dtls, &cursor)) != NULL) {
        const struct config_device *row =
            config_device_of(side->context.config, dtls_session_identity(session));
        if (row != NULL && dtls_session_is_open(session) && !device_is_open(&side->origin, row)) {
            on_session_open(listener, session);
        }
    }
}

void datagram_find_devices(struct client_side *side)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        if (side->listeners[i].dtls != NULL && !side->listeners[i].is_retiring) {
            find_devices_at(&side->listeners[i]);
        }
    }
}

/* A device that only answers shows no address by Echo. */
#define PROBE_AGAIN_MS 2000u

/*
 * A record of the device has come from an address where it is not believed to be, as behind a NAT
 * that was restarted. A Ping goes there, whose Reset comes back under a message id that only the
 * device can read: then it is there (RFC 9146 section 6).
 *
 * @return whether the message was that Reset
 */
static bool probe_path(const struct arrival *arrival, struct client *client,
                       const struct message *message)
{
    struct device *device = client->device;
    const struct udp_path *path = &arrival->datagram->path;
    uint64_t now_ms = context_now_ms(&client->listening->side->context);
    uint8_t empty[MESSAGE_HEADER_LEN];
    if (address_equal(&path->remote, &dtls_session_path(arrival->session)->remote)) {
        return false;
    }
    bool is_there = address_equal(&path->remote, &device->probed.remote);
    if (is_there && message->type == MESSAGE_RST && message->mid == device->probe_mid) {
        device->probed.remote.family = ADDRESS_NONE;
        dtls_believe(arrival->session, path);
        return true;
    }
    if ((device->probed.remote.family == ADDRESS_NONE ||
         now_ms - device->probe_ms >= PROBE_AGAIN_MS) &&
        datagram_take_mid(client, &device->probe_mid)) {
        device->probed = *path;
        device->probe_ms = now_ms;
        message_write_empty(empty, MESSAGE_CON, device->probe_mid);
        dtls_send_to(arrival->session, path, empty, sizeof(empty));
    }
    return false;
}

/*
 * The rest of a message that is no request: it may belong to one of ours. In the clear only what
 * does is a sign of life, because anything else may be forged.
 */
static bool is_from_device(const struct arrival *arrival, const struct message *message)
{
    struct client_side *side = arrival->listener->side;
    struct client *client = known_client(arrival);
    if (client == NULL || client->session != arrival->session || client->device == NULL) {
        return false;
    }
    struct device *device = client->device;
    if (arrival->session == NULL) {
        bool is_taken = device_take(&side->origin, device, message, arrival->datagram->truncated);
        if (is_taken && client->device == device) {
            device_hear(&side->origin, device);
        }
        return is_taken;
    }
    device_hear(&side->origin, device);
    if (message_is_request(message) || client->device != device) {
        return false;
    }
    return probe_path(arrival, client, message) ||
           device_take(&side->origin, device, message, arrival->datagram->truncated);
}

/* An ACK or RST for a message of ours: a separate answer. */
static void datagram_on_verdict(struct client_side *side, const struct arrival *arrival,
                                const struct message *message)
{
    const struct client *client = known_client(arrival);
    if (client == NULL || message->code != CODE_EMPTY || client->session != arrival->session) {
        metric_add(&side->context.metrics.messages_ignored, 1);
        return; /* MSG-11 */
    }
    uint64_t key = key_of_client(side, KEY_CLIENT_RESPONSE, client, message->mid);
    struct hash_node *node = hash_map_find(&side->requests.map, key);
    bool is_reset = message->type == MESSAGE_RST;
    if (node == NULL) {
        bool is_known = observer_on_verdict(side, key, is_reset);
        metric_add(&side->context.metrics.messages_ignored, is_known ? 0 : 1);
        return;
    }
    reply_on_acknowledged(side, HASH_ENTRY(node, struct request, by_message), is_reset);
}

/* Resets to an address that may be forged are limited (AMP-13). */
static bool may_reject(const struct arrival *arrival)
{
    struct client_side *side = arrival->listener->side;
    return arrival->session != NULL ||
           access_is_echo_exempt(side->context.config->access, &arrival->datagram->path.remote) ||
           limit_may_reject(side, LIMIT_RESETS);
}

static void send_reset(const struct arrival *arrival, const struct message *message)
{
    const struct leg leg = {
        .kind = LEG_DATAGRAM,
        .listener = arrival->listener,
        .session = arrival->session,
        .asker = {.path = arrival->datagram->path},
        .is_unverified = arrival->session != NULL &&
                         !address_equal(&arrival->datagram->path.remote,
                                        &dtls_session_path(arrival->session)->remote),
    };
    leg_send_empty(&leg, MESSAGE_RST, message->mid);
}

/* The message cannot be processed: a CON is rejected, any other ignored (MSG-8, MSG-9). */
static void reject(const struct arrival *arrival, const struct message *message)
{
    if (message->type == MESSAGE_CON && may_reject(arrival)) {
        send_reset(arrival, message);
    }
}

static void datagram_on_message(struct client_side *side, const struct arrival *arrival,
                                const struct message *message)
{
    bool is_request = message_is_request(message);
    bool may_be_device =
        arrival->session != NULL || (side->origin.devices.open_count > 0 && !is_request);
    if (may_be_device && is_from_device(arrival, message)) {
        return;
    }
    if (message->type == MESSAGE_ACK || message->type == MESSAGE_RST) {
        datagram_on_verdict(side, arrival, message);
    } else if (is_request) {
        datagram_on_request(side, arrival, message);
    } else {
        /* A ping, a response without a request, or a reserved class. */
        if (message->code == CODE_EMPTY && message->type == MESSAGE_CON) {
            metric_add(&side->context.metrics.pings, 1);
            reject(arrival, message); /* a ping is answered */
        } else {
            metric_add(&side->context.metrics.messages_ignored, 1);
            reject(arrival, message);
        }
    }
}

static void note_malformed(const struct arrival *arrival, const char *what)
{
    const struct identity *identity =
        arrival->session != NULL ? dtls_session_identity(arrival->session) : NULL;
    const struct refusal_note note = {.client = &arrival->datagram->path.remote,
                                      .kind = REFUSAL_MESSAGE,
                                      .word = what,
                                      .identity = identity};
    refusals_log(&arrival->listener->side->refusals, &note, "message_malformed");
}

static void capture_arrival(const struct arrival *arrival)
{
    const struct datagram *datagram = arrival->datagram;
    const struct capture_view view = {.is_client = true,
                                      .transport =
                                          arrival->session != NULL ? TRANSPORT_DTLS : TRANSPORT_UDP,
                                      .local = &arrival->listener->bound,
                                      .remote = &datagram->path.remote,
                                      .data = {datagram->data, datagram->len}};
    capture_add(&arrival->listener->side->context, &view);
}

static void receive(const struct arrival *arrival)
{
    const struct datagram *datagram = arrival->datagram;
    struct client_side *side = arrival->listener->side;
    struct message message;
    if (address_is_multicast(&datagram->path.local)) {
        metric_add(&side->context.metrics.messages_ignored,
                   1); /* not even a RST (MCAST-17, ERR-22) */
        return;
    }
    switch (message_decode(datagram->data, datagram->len, &message)) {
    case MESSAGE_OK:
        datagram_on_message(side, arrival, &message);
        break;
    case MESSAGE_FORMAT_ERROR:
        metric_add(&side->context.metrics.messages_malformed, 1);
        note_malformed(arrival, "malformed");
        reject(arrival, &message);
        break;
    case MESSAGE_TOO_SHORT:
        metric_add(&side->context.metrics.messages_ignored, 1);
        note_malformed(arrival, "too_short");
        break;
    case MESSAGE_VERSION:
        metric_add(&side->context.metrics.messages_ignored, 1);
        note_malformed(arrival, "not_version_1");
        break;
    }
}

/* Past the faults of a lab: a reader of messages sees it. */
static void receive_seen(const struct arrival *arrival)
{
    if (arrival->listener->side->context.capture != NULL) {
        capture_arrival(arrival);
    }
    receive(arrival);
}

static void deliver_clear(void *owner, void *other, const struct udp_path *path,
                          const uint8_t *data, size_t len)
{
    const struct datagram datagram = {.data = data, .len = len, .path = *path};
    const struct arrival arrival = {.listener = other, .datagram = &datagram};
    (void)owner;
    receive_seen(&arrival);
}

static void deliver_opened(void *owner, void *other, const struct udp_path *path,
                           const uint8_t *data, size_t len)
{
    const struct datagram datagram = {.data = data, .len = len, .path = *path};
    const struct arrival arrival = {.listener = other, .session = owner, .datagram = &datagram};
    if (dtls_session_is_open(arrival.session)) {
        receive_seen(&arrival);
    }
}

/* Whether a fault of a lab has taken it. */
static bool arrive_faulty(const struct arrival *arrival)
{
    const struct datagram *datagram = arrival->datagram;
    bool is_clear = arrival->session == NULL;
    const struct fault_parcel parcel = {.owner = is_clear ? (void *)arrival->listener
                                                          : (void *)arrival->session,
                                        .other = arrival->listener,
                                        .deliver = is_clear ? deliver_clear : deliver_opened,
                                        .path = datagram->path,
                                        .data = datagram->data,
                                        .len = datagram->len};
    return !datagram->truncated && faulty_message(arrival->listener->side, &datagram->path.remote,
                                                  FAULT_FROM_CLIENT, &parcel);
}

__attribute__((cold, noinline)) static void arrive_lab(const struct arrival *arrival)
{
    if (arrival->listener->side->context.faults == NULL || !arrive_faulty(arrival)) {
        receive_seen(arrival);
    }
}

static void arrive(const struct arrival *arrival)
{
    if (arrival->listener->side->context.lab != 0) {
        arrive_lab(arrival);
    } else {
        receive(arrival);
    }
}

/*
 * Whether a datagram in the clear from @p remote is looked at; one that is not has been
 * counted, and nothing is sent: its source address may be forged.
 */
static bool admit_datagram(struct client_side *side, const struct address *remote)
{
    /* A flood comes from few addresses, or from none twice: those of late are worth a look. */
    struct admitted *latest = &side->admitted[(remote->ip[3] ^ remote->ip[15]) % ADMITTED_MAX];
    if (latest->epoch == side->context.policy_epoch && address_same_host(&latest->host, remote)) {
        return true;
    }
    const struct access_client client = access_client_of(remote, CRI_SCHEME_COAP, NULL);
    if (access_standing(side->context.config->access, &client) == STANDING_NONE) {
        const struct refusal_note note = {
            .client = remote, .kind = REFUSAL_POLICY, .word = "policy.clients"};
        metric_add(&side->context.metrics.datagrams_refused, 1);
        refusals_log(&side->refusals, &note, "datagram_refused");
        return false;
    }
    *latest = (struct admitted){*remote, side->context.policy_epoch};
    return true;
}

static void datagram_on_datagram(void *context, struct udp_socket *socket,
                                 const struct datagram *datagram)
{
    (void)socket;
    struct listener *listener = context;
    struct arrival arrival = {.listener = listener, .datagram = datagram};
    if (admit_datagram(listener->side, &datagram->path.remote)) {
        arrive(&arrival);
    }
}

static void on_secure_datagram(void *context, struct dtls_session *session,
                               const struct datagram *datagram)
{
    struct arrival arrival = {.listener = context, .session = session, .datagram = datagram};
    arrive(&arrival);
}

static void log_session_closed(const struct dtls_session *session, const char *why)
{
    char client[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];
    if (log_is_on(LOG_DEBUG)) {
        log_event(LOG_DEBUG, "dtls_session_closed", "client=%s identity=%s reason=\"%s\"",
                  address_format(&dtls_session_path(session)->remote, client),
                  identity_format(dtls_session_identity(session), identity), why);
    }
}

/* A session that was replaced may be told as closed after the new one's first request. */
static void on_session_closed(void *context, struct dtls_session *session, const char *why)
{
    struct listener *listener = context;
    struct client_side *side = listener->side;
    const struct address *remote = &dtls_session_path(session)->remote;
    struct client *client =
        client_table_find_secure(&side->clients, remote, listener->index, session);
    log_session_closed(session, why);
    faults_forget(&side->context, session);
    struct closed_client *closed =
        closed_add(&side->closed_clients, dtls_session_identity(session));
    closed->client = *remote;
    closed->scheme = CRI_SCHEME_COAPS;
    closed->requests = client != NULL && client->session == session ? client->peer.requests : 0;
    closed->at_ms = context_now_ms(&side->context);
    closed->why = why;
    if (client != NULL && client->session == session) {
        client->peer.requests = 0;
        change_session(side, client, NULL);
    }
}

static bool is_believed(void *context, const struct address *remote)
{
    const struct listener *listener = context;
    return access_is_echo_exempt(listener->side->context.config->access, remote);
}

static void log_session_moved(const struct dtls_session *session, const struct udp_path *before)
{
    char client[ADDRESS_TEXT_MAX], old[ADDRESS_TEXT_MAX], identity[IDENTITY_TEXT_MAX];
    if (log_is_on(LOG_DEBUG)) {
        log_event(LOG_DEBUG, "dtls_session_moved", "client=%s before=%s identity=%s",
                  address_format(&dtls_session_path(session)->remote, client),
                  address_format(&before->remote, old),
                  identity_format(dtls_session_identity(session), identity));
    }
}

static void on_session_moved(void *context, struct dtls_session *session,
                             const struct udp_path *before)
{
    struct listener *listener = context;
    struct client_table *clients = &listener->side->clients;
    struct client *client =
        client_table_find_secure(clients, &before->remote, listener->index, session);
    log_session_moved(session, before);
    if (client != NULL && client->session == session) {
        client_table_move(clients, client, &dtls_session_path(session)->remote);
        if (client->device != NULL) {
            client->device->line.remote = dtls_session_path(session)->remote;
        }
    }
}

/* A client that cannot be reached: only a separate answer that is out cares. */
static void datagram_on_error(void *context, struct udp_socket *socket,
                              const struct address *remote, int error, const uint8_t *quoted,
                              size_t quoted_len)
{
    (void)socket;
    struct listener *listener = context;
    struct client_side *side = listener->side;
    const struct client *client = client_table_find(&side->clients, remote, listener->index);
    if (client == NULL || quoted_len < 4) {
        return;
    }
    if (client->device != NULL) {
        device_on_error(&side->origin, client->device, error, (struct bytes){quoted, quoted_len});
    }
    /* Of a cable that is out, or a route that is not there now: what is sent again may arrive. If
     * the answer were given up, a repetition would be acknowledged and never answered. */
    if (error == EHOSTUNREACH || error == ENETUNREACH) {
        return;
    }
    uint16_t mid = (uint16_t)(quoted[2] << 8 | quoted[3]);
    uint64_t key = key_of_client(side, KEY_CLIENT_RESPONSE, client, mid);
    struct hash_node *node = hash_map_find(&side->requests.map, key);
    if (node == NULL) {
        observer_on_error(side, key, (struct bytes){quoted, quoted_len});
        return;
    }
    struct request *request = HASH_ENTRY(node, struct request, by_message);
    /* A forger has to know more than a message id: all that is quoted (MSG-34). */
    size_t len = quoted_len < request->datagram_len ? quoted_len : request->datagram_len;
    if (len > 0 && memcmp(quoted, request->datagram, len) == 0) {
        request_drop(side, request, REASON_client_unreachable);
    }
}

static void datagram_on_failure(void *context, const struct handshake_failure *failure)
{
    const struct listener *listener = context;
    refusals_add_handshake(&listener->side->refusals, failure);
}

const struct udp_handler datagram_handler = {datagram_on_datagram, datagram_on_error};
/* A device that is reached by its session has to be waited for once that is closed. */
static bool session_is_of_device(void *context, const struct dtls_session *session)
{
    const struct listener *listener = context;
    const struct address *remote = &dtls_session_path(session)->remote;
    const struct client *client =
        client_table_find_secure(&listener->side->clients, remote, listener->index, session);
    return client != NULL && client->session == session && client->device != NULL;
}

const struct dtls_handler secure_datagram_handler = {
    .on_open = on_session_open,
    .on_datagram = on_secure_datagram,
    .on_close = on_session_closed,
    .is_believed = is_believed,
    .is_needed = session_is_of_device,
    .on_move = on_session_moved,
    .on_failure = datagram_on_failure,
};
