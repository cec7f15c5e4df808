/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/inspect.h"

#include "base/escape.h"
#include "base/log.h"
#include "client/trace.h"
#include "engine/engine.h"
#include "net/dtls.h"
#include "net/upstream.h"

#include <stdio.h>
#include <string.h>

/* Slots that are looked at in one piece; most may be free. */
#define PIECE_SLOTS 4096u

/*
 * Cursors of sessions: after all slots of the client table DTLS sessions, by listener, then
 * connections, then what is closed.
 */
#define DTLS_FROM (UINT64_C(1) << 58)
#define DTLS_LISTENER_SHIFT 48u
#define STREAMS_FROM (UINT64_C(1) << 60)
#define CLOSED_FROM (UINT64_C(1) << 61)

static const char *inspected_scheme(const struct engine *engine, uint32_t number)
{
    const struct scheme *scheme = config_scheme_by_number(engine->context.config, number);
    return scheme != NULL ? scheme->name : "unknown";
}

static void add_identity(struct json_writer *out, const struct identity *identity)
{
    char text[IDENTITY_TEXT_MAX];
    if (identity_is_known(identity)) {
        json_text(out, "identity", identity_format(identity, text));
    }
}

/* --- sessions ----------------------------------------------------------- */

static bool add_client(const struct engine *engine, const struct client *client,
                       struct json_writer *out)
{
    char text[ADDRESS_TEXT_MAX];
    uint64_t now_s = context_now_ms(&engine->context) / 1000;
    json_begin(out);
    json_uint(out, "worker", engine->context.worker_index);
    json_text(out, "scheme", "coap");
    json_text(out, "client", address_format(&client->address, text));
    json_text(out, "state", "open");
    json_uint(out, "in_flight", client->peer.in_flight);
    json_uint(out, "requests", client->peer.requests);
    json_uint(out, "idle_s", now_s - client->seen_s);
    return json_end(out);
}

#define CID_TEXT_MAX 80u

/* At most 32 bytes of hexadecimal digits, in the caller's buffer. */
static const char *format_cid(const uint8_t *cid, uint8_t len, char text[CID_TEXT_MAX])
{
    for (unsigned i = 0; i < len && 2 * i + 3 <= CID_TEXT_MAX; i++) {
        (void)snprintf(text + 2 * (size_t)i, 3, "%02x", cid[i]);
    }
    return len > 0 ? text : "-";
}

/* One that has sent no message yet is no client yet. */
static bool add_dtls(const struct engine *engine, const struct listener *listener,
                     const struct dtls_session *session, struct json_writer *out)
{
    char text[ADDRESS_TEXT_MAX], cid[CID_TEXT_MAX];
    const struct address *remote = &dtls_session_path(session)->remote;
    const struct client *client =
        client_table_find_secure(&engine->client.clients, remote, listener->index, session);
    bool is_client = client != NULL && client->session == session;
    const struct dtls_session_view view = dtls_session_look(session);
    json_begin(out);
    json_uint(out, "worker", engine->context.worker_index);
    json_text(out, "scheme", "coaps");
    json_text(out, "client", address_format(remote, text));
    add_identity(out, dtls_session_identity(session));
    json_text(out, "state", "open");
    json_uint(out, "in_flight", is_client ? client->peer.in_flight : 0);
    json_uint(out, "requests", is_client ? client->peer.requests : 0);
    json_uint(out, "idle_s", view.heard_ms / 1000);
    json_uint(out, "age_s", view.age_ms / 1000);
    json_text(out, "suite", view.suite);
    json_text(out, "cid", format_cid(view.cid, view.cid_len, cid));
    json_uint(out, "moved", view.moves);
    return json_end(out);
}

static bool add_stream(const struct engine *engine, const struct stream_view *view,
                       struct json_writer *out)
{
    char text[ADDRESS_TEXT_MAX];
    json_begin(out);
    json_uint(out, "worker", engine->context.worker_index);
    json_text(out, "scheme", inspected_scheme(engine, view->scheme));
    json_text(out, "client", address_format(view->remote, text));
    add_identity(out, view->identity);
    json_text(out, "state", view->state);
    json_uint(out, "in_flight", view->in_flight);
    json_uint(out, "requests", view->requests);
    return json_end(out);
}

static bool list_clients(const struct engine *engine, uint64_t *cursor, struct json_writer *out)
{
    uint64_t end = *cursor + PIECE_SLOTS;
    for (; *cursor < engine->client.clients.used; (*cursor)++) {
        const struct client *client = &engine->client.clients.slots[*cursor];
        bool is_used = client->address.family != ADDRESS_NONE && !client->is_secure;
        if (*cursor == end || (is_used && !add_client(engine, client, out))) {
            return false;
        }
    }
    *cursor = DTLS_FROM;
    return true;
}

static bool list_dtls(const struct engine *engine, uint64_t *cursor, struct json_writer *out)
{
    const uint64_t mask = (UINT64_C(1) << DTLS_LISTENER_SHIFT) - 1;
    while (*cursor < DTLS_FROM + ((uint64_t)LISTENERS_MAX << DTLS_LISTENER_SHIFT)) {
        uint64_t from = *cursor & ~mask, at = *cursor & mask;
        const struct listener *listener =
            &engine->client.listeners[(from - DTLS_FROM) >> DTLS_LISTENER_SHIFT];
        const struct dtls_session *session =
            listener->dtls != NULL ? dtls_next(listener->dtls, &at) : NULL;
        if (session != NULL && !add_dtls(engine, listener, session, out)) {
            return false; /* again from here */
        }
        *cursor = session != NULL ? from | at : from + mask + 1;
    }
    *cursor = STREAMS_FROM;
    return true;
}

static bool add_closed(const struct engine *engine, const struct closed_client *row,
                       struct json_writer *out)
{
    char text[ADDRESS_TEXT_MAX];
    json_begin(out);
    json_uint(out, "worker", engine->context.worker_index);
    json_text(out, "scheme", inspected_scheme(engine, row->scheme));
    json_text(out, "client", address_format(&row->client, text));
    if (row->identity[0] != '\0') {
        json_text(out, "identity", row->identity);
    }
    json_text(out, "state", "closed");
    json_uint(out, "in_flight", 0);
    json_uint(out, "requests", row->requests);
    json_uint(out, "idle_s", (context_now_ms(&engine->context) - row->at_ms) / 1000);
    json_text(out, "why", row->why);
    return json_end(out);
}

/* The newest last. */
static bool list_closed(const struct engine *engine, uint64_t *cursor, struct json_writer *out)
{
    const struct closed_clients *closed = &engine->client.closed_clients;
    for (; *cursor < CLOSED_FROM + CLOSED_MAX; (*cursor)++) {
        const struct closed_client *row =
            &closed->rows[(closed->next + *cursor - CLOSED_FROM) % CLOSED_MAX];
        if (row->client.family != ADDRESS_NONE && !add_closed(engine, row, out)) {
            return false;
        }
    }
    return true;
}

bool inspect_sessions(struct engine *engine, const char *argument, uint64_t *cursor,
                      struct json_writer *out)
{
    struct stream_view views[64];
    const size_t most = sizeof(views) / sizeof(views[0]);
    (void)argument;
    if ((*cursor < DTLS_FROM && !list_clients(engine, cursor, out)) ||
        (*cursor < STREAMS_FROM && !list_dtls(engine, cursor, out))) {
        return false;
    }
    if (*cursor >= CLOSED_FROM) {
        return list_closed(engine, cursor, out);
    }
    size_t count = stream_list(&engine->client, (size_t)(*cursor - STREAMS_FROM), views, most);
    for (size_t i = 0; i < count; i++) {
        if (!add_stream(engine, &views[i], out)) {
            return false;
        }
        (*cursor)++;
    }
    if (count < most) {
        *cursor = CLOSED_FROM;
        return list_closed(engine, cursor, out);
    }
    return false;
}

/* --- origins ------------------------------------------------------------ */

static bool add_origin(const struct engine *engine, const struct origin *origin,
                       struct json_writer *out)
{
    char text[ADDRESS_TEXT_MAX];
    uint64_t now_s = context_now_ms(&engine->context) / 1000;
    json_begin(out);
    json_uint(out, "worker", engine->context.worker_index);
    json_text(out, "origin", device_format(&engine->origin, &origin->address, text));
    json_text(out, "transport", transport_row(origin->transport)->word);
    json_uint(out, "in_flight", origin->fetches);
    json_uint(out, "outstanding", origin->window.outstanding);
    json_uint(out, "window", origin->window.size_x256 / 256);
    json_uint(out, "rtt_ms", window_rtt_ms(&origin->window));
    json_uint(out, "queue", origin->queue.count);
    json_uint(out, "requests", origin->requests);
    json_uint(out, "answers", origin->answers);
    json_uint(out, "resent", origin->retransmitted);
    json_uint(out, "idle_s", now_s - origin->seen_s);
    return json_end(out);
}

bool inspect_origins(struct engine *engine, const char *argument, uint64_t *cursor,
                     struct json_writer *out)
{
    uint64_t end = *cursor + PIECE_SLOTS;
    (void)argument;
    for (; *cursor < engine->origin.origins.used; (*cursor)++) {
        const struct origin *origin = &engine->origin.origins.slots[*cursor];
        bool is_used = origin->address.family != ADDRESS_NONE;
        if (*cursor == end || (is_used && !add_origin(engine, origin, out))) {
            return false;
        }
    }
    return true;
}

/* --- sessions towards origin servers ------------------------------------ */

static bool add_upstream(const struct engine *engine, const struct upstream_view *view,
                         struct json_writer *out)
{
    char text[ADDRESS_TEXT_MAX], host[160], cid[CID_TEXT_MAX];
    json_begin(out);
    json_uint(out, "worker", engine->context.worker_index);
    json_text(out, "scheme", transport_row(view->transport)->scheme);
    json_text(out, "origin", address_format(view->address, text));
    if (view->host != NULL) {
        json_text(out, "host", escape_text(host, sizeof(host), view->host, strlen(view->host)));
    }
    json_text(out, "state", view->state);
    json_uint(out, "in_flight", view->out);
    json_uint(out, "waiting", view->waiting);
    json_uint(out, "failures", view->failures);
    json_text(out, "suite", view->suite != NULL ? view->suite : "-");
    json_text(out, "cid", format_cid(view->cid, view->cid_len, cid));
    json_bool(out, "resumed", view->is_resumed);
    return json_end(out);
}

bool inspect_upstreams(struct engine *engine, const char *argument, uint64_t *cursor,
                       struct json_writer *out)
{
    struct upstream_view views[64];
    const size_t most = sizeof(views) / sizeof(views[0]);
    (void)argument;
    if (engine->origin.upstream == NULL) {
        return true;
    }
    size_t count = upstream_list(engine->origin.upstream, (size_t)*cursor, views, most);
    for (size_t i = 0; i < count; i++) {
        if (!add_upstream(engine, &views[i], out)) {
            return false;
        }
        (*cursor)++;
    }
    return count < most;
}

/* --- exchanges ---------------------------------------------------------- */

/* A request with its fetch, or either alone. */
struct exchange_row {
    const struct trail *trail;
    const struct address *client; /* NULL: the proxy itself */
    const struct fetch *fetch;    /* NULL: its answer is being delivered */
    uint8_t retransmit_count;
};

static bool add_exchange(const struct engine *engine, const struct exchange_row *row,
                         struct json_writer *out)
{
    char text[TARGET_TEXT_MAX], address[ADDRESS_TEXT_MAX];
    const struct fetch *fetch = row->fetch;
    json_begin(out);
    json_uint(out, "exchange", row->trail->id);
    json_text(out, "state", fetch != NULL ? fetch_state_name(fetch->state) : "delivering");
    json_text(out, "client", row->client != NULL ? address_format(row->client, address) : "-");
    if (fetch != NULL) {
        json_text(out, "target", describe_target(&fetch->target, text, sizeof(text)));
    }
    if (fetch != NULL && fetch->sending.origin != NULL) {
        json_text(out, "origin",
                  device_format(&engine->origin, &fetch->sending.origin->address, address));
    }
    json_uint(out, "retransmissions", row->retransmit_count);
    json_uint(out, "ms", (context_now_us(&engine->context) - row->trail->started_us) / 1000);
    return json_end(out);
}

static bool add_request(const struct engine *engine, const struct request *request,
                        struct json_writer *out)
{
    const struct fetch *fetch = request->fetch;
    const struct exchange_row row = {&request->trail, &request->leg.asker.path.remote, fetch,
                                     fetch != NULL ? fetch->sending.again.count
                                                   : request->again.count};
    return !request->is_used || add_exchange(engine, &row, out);
}

static bool add_own_fetch(const struct engine *engine, const struct fetch *fetch,
                          struct json_writer *out)
{
    const struct exchange_row row = {fetch->trail, NULL, fetch, fetch->sending.again.count};
    return fetch->state == FETCH_free || request_of_fetch(fetch) != NULL ||
           add_exchange(engine, &row, out);
}

/* Requests have the first places, the fetches' begin after their capacity. */
static bool add_exchange_at(const struct engine *engine, uint64_t place, struct json_writer *out)
{
    const uint64_t requests = engine->client.requests.free.capacity;
    return place < requests
               ? add_request(engine, &engine->client.requests.slots[place], out)
               : add_own_fetch(engine, &engine->fetch.fetches.slots[place - requests], out);
}

bool inspect_exchanges(struct engine *engine, const char *argument, uint64_t *cursor,
                       struct json_writer *out)
{
    const uint64_t requests = engine->client.requests.free.capacity;
    uint64_t end = *cursor + PIECE_SLOTS;
    (void)argument;
    for (; *cursor < requests + engine->fetch.fetches.free.used; (*cursor)++) {
        if (*cursor >= engine->client.requests.free.used && *cursor < requests) {
            end += requests - *cursor;
            *cursor = requests;
        }
        if (*cursor >= requests + engine->fetch.fetches.free.used) {
            break;
        }
        if (*cursor == end || !add_exchange_at(engine, *cursor, out)) {
            return false;
        }
    }
    return true;
}

/* --- refusals ----------------------------------------------------------- */

static bool add_refusal(const struct engine *engine, const struct refusal_row *row,
                        struct json_writer *out)
{
    char text[ADDRESS_TEXT_MAX], time[LOG_TIME_MAX];
    json_begin(out);
    json_text(out, "time", log_time_format(context_now_us(&engine->context) - row->at_us, time));
    json_text(out, "client", address_format(&row->client, text));
    json_text(out, "what", refusal_kind_name(row->kind));
    json_text(out, "reason", row->word);
    json_uint(out, "count", row->count);
    if (row->identity[0] != '\0') {
        json_text(out, "identity", row->identity);
    }
    if (row->detail[0] != '\0') {
        json_text(out, "detail", row->detail);
    }
    return json_end(out);
}

/* The argument has been checked: an address, or "" for all. */
bool inspect_why(struct engine *engine, const char *argument, uint64_t *cursor,
                 struct json_writer *out)
{
    const struct refusals *refusals = &engine->client.refusals;
    struct address wanted = {0};
    bool is_wanted = address_parse(argument, strlen(argument), 0, &wanted);
    for (; *cursor < REFUSALS_MAX; (*cursor)++) {
        const struct refusal_row *row = &refusals->rows[(refusals->next + *cursor) % REFUSALS_MAX];
        bool is_of_it = !is_wanted || (address_same_host(&row->client, &wanted) &&
                                       (wanted.port == 0 || wanted.port == row->client.port));
        if (row->word != NULL && is_of_it && !add_refusal(engine, row, out)) {
            return false;
        }
    }
    return true;
}

/* --- observations ------------------------------------------------------- */

static const char *observation_state_name(enum observation_state state)
{
    static const char *const names[] = {
        [OBSERVATION_FREE] = "free",           [OBSERVATION_REGISTERING] = "registering",
        [OBSERVATION_OBSERVING] = "observing", [OBSERVATION_CANCELLING] = "cancelling",
        [OBSERVATION_ENDED] = "ended",
    };
    return names[state];
}

static bool add_observation(const struct engine *engine, const struct observation *observation,
                            struct json_writer *out)
{
    const struct observed_state *latest = &observation->latest;
    char text[TARGET_TEXT_MAX];
    json_begin(out);
    json_text(out, "target",
              observation->fetch == NULL
                  ? "-"
                  : describe_target(&observation->fetch->target, text, sizeof(text)));
    json_text(out, "state", observation_state_name(observation->state));
    json_uint(out, "observers", observation->observer_count);
    if (latest->code != CODE_EMPTY) {
        json_uint(out, "states", latest->number);
        json_uint(out, "bytes", latest->payload_len);
        json_uint(out, "age_s", (context_now_ms(&engine->context) - latest->received_ms) / 1000);
        json_uint(out, "max_age_s", latest->max_age_s);
    }
    return json_end(out);
}

bool inspect_observations(struct engine *engine, const char *argument, uint64_t *cursor,
                          struct json_writer *out)
{
    uint32_t at = (uint32_t)*cursor;
    (void)argument;
    for (unsigned i = 0; i < PIECE_SLOTS; i++) {
        const struct observation *observation = observation_next(&engine->client, &at);
        if (observation == NULL) {
            return true;
        }
        if (!add_observation(engine, observation, out)) {
            return false; /* again from here */
        }
        *cursor = at;
    }
    return false;
}
