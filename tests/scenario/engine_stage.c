/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine_stage.h"

#include "replay/passers.h"
#include "support/fake_client.h"
#include "support/fake_conn.h"
#include "support/fake_dtls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECURE_PROXY "192.0.2.9:5684"

/* The actors that are there without being declared, and those that are without an address. */
static const struct {
    const char *name, *address;
} addresses[] = {
    {"a", "192.0.2.7:40001"},  {"b", "192.0.2.8:40001"}, {"c", "192.0.2.10:40001"},
    {"d", "192.0.2.11:40001"}, {"h", "192.0.2.5:5683"},
};

bool engine_stage_has_workers;

/* All workers share an address where the kernel gives each client to one; here each has a port. */
static struct address address_of_worker(unsigned number)
{
    struct address address;
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &address));
    address.port = (uint16_t)(address.port + 100 * (number - 1));
    return address;
}

/* Which of the settings is wrong: the first that no more of them would make good. */
static size_t setting_at_fault(const char **list, size_t count)
{
    while (count > 0) {
        const char *setting = list[--count];
        list[count] = NULL;
        bool is_good = replay_settings_fault(list) == NULL;
        list[count] = is_good ? setting : NULL;
        if (is_good) {
            break;
        }
    }
    return count;
}

/* What is wrong with the settings of the engine. @param list ends with NULL; is changed then. */
static const char *settings_fault(struct engine_stage *engine, const char **list, size_t *ret_at)
{
    const char *fault = replay_settings_fault(list);
    if (fault != NULL) {
        fault = pool_format(&engine->pool, "%s", fault);
        *ret_at = setting_at_fault(list, engine->setting_count);
    }
    return fault;
}

static const char *stage_start(void *context, char *const *settings, size_t count, size_t *ret_at)
{
    struct engine_stage *engine = context;
    const char *list[PLAY_SETTINGS_MAX + 1] = {NULL};
    size_t places[PLAY_SETTINGS_MAX + 1] = {0}, at = 0; /* of those in the list */
    for (size_t i = 0; i < count; i++) {
        if (strcmp(settings[i], "passers") == 0) {
            engine->has_passers = true;
            continue;
        }
        if (strncmp(settings[i], "workers=", 8) == 0) {
            engine->workers = (unsigned)strtoul(settings[i] + 8, NULL, 10);
            continue;
        }
        places[engine->setting_count] = i;
        engine->settings[engine->setting_count] = settings[i];
        list[engine->setting_count++] = settings[i];
    }
    const char *fault = settings_fault(engine, list, &at);
    if (fault != NULL) {
        *ret_at = places[at];
        return fault;
    }
    fake_net_interface("", 0);
    engine_session_begin();
    engine->workers = engine->workers == 0 ? 1u + engine_stage_has_workers : engine->workers;
    replay_start_workers(&engine->replay, list, engine->workers);
    for (unsigned i = 2; i <= engine->workers; i++) {
        struct udp_options listen = {.fd = -1, .bind = address_of_worker(i)};
        assert_int_equal(listen_udp(&replay_worker(&engine->replay, i)->client, &listen, NULL), 0);
    }
    engine->is_started = true;
    if (engine->has_passers) {
        passers_start(&engine->replay);
    }
    return NULL;
}

/* The settings from the start, and these over them; after "none" these alone. */
static const char *stage_reload(void *context, char *const *settings, size_t count)
{
    struct engine_stage *engine = context;
    const char *list[2 * PLAY_SETTINGS_MAX + 1] = {NULL};
    bool is_afresh = count > 0 && strcmp(settings[0], "none") == 0;
    size_t before = is_afresh ? 0 : engine->setting_count;
    for (size_t i = 0; i < before; i++) {
        list[i] = engine->settings[i];
    }
    for (size_t i = is_afresh; i < count; i++) {
        list[before + i - is_afresh] = settings[i];
    }
    const char *fault = replay_settings_fault(list);
    if (fault != NULL) {
        return pool_format(&engine->pool, "%s", fault);
    }
    replay_reload(&engine->replay, list);
    return NULL;
}

static enum transport transport_of(enum actor_way way)
{
    switch (way) {
    case WAY_DTLS:
        return TRANSPORT_DTLS;
    case WAY_TCP:
        return TRANSPORT_TCP;
    case WAY_TLS:
        return TRANSPORT_TLS;
    case WAY_WS:
        return TRANSPORT_WS;
    case WAY_WSS:
        return TRANSPORT_WSS;
    case WAY_HTTP:
        return TRANSPORT_HTTP;
    case WAY_WEB:
    case WAY_DEFAULT:
    case WAY_UDP:
    case WAY_SESSION:
        break;
    }
    return TRANSPORT_UDP;
}

static void listen_at(struct engine_stage *engine, enum actor_way way,
                      const struct address *address)
{
    struct conn_options options = {
        .transport = transport_of(way), .fd = -1, .connections_max = 2000, .bind = *address};
    engine->is_listening[way] = true;
    for (unsigned i = 1; i <= engine->workers; i++) {
        assert_int_equal(listen_stream(&replay_worker(&engine->replay, i)->client, &options, NULL),
                         0);
    }
    engine->has_streams = true;
}

const char *engine_stage_listen(struct engine_stage *engine, const char *way,
                                const struct address *address)
{
    static const char *const ways[] = {[WAY_TCP] = "tcp",
                                       [WAY_TLS] = "tls",
                                       [WAY_WS] = "ws",
                                       [WAY_WSS] = "wss",
                                       [WAY_HTTP] = "http"};
    for (unsigned i = WAY_TCP; i <= WAY_HTTP; i++) {
        if (strcmp(ways[i], way) == 0 && !engine->is_listening[i]) {
            listen_at(engine, (enum actor_way)i, address);
            return NULL;
        }
    }
    return "tcp, tls, ws, wss or http, before the first such client";
}

/* One listener for each transport that a client uses. */
static void listen_for(struct engine_stage *engine, enum actor_way way)
{
    struct address address;
    if (engine->is_listening[way]) {
        return;
    }
    if (way == WAY_DTLS) {
        engine->is_listening[way] = true;
        struct dtls_options dtls = {.sessions_max = 100, .handshakes_max = 10};
        assert_true(address_parse(SECURE_PROXY, strlen(SECURE_PROXY), 0, &dtls.udp.bind));
        for (unsigned i = 1; i <= engine->workers; i++) {
            assert_int_equal(listen_dtls(&replay_worker(&engine->replay, i)->client, &dtls, NULL),
                             0);
        }
        engine->has_dtls = true;
        return;
    }
    assert_true(address_parse(PROXY, strlen(PROXY), 0, &address));
    listen_at(engine, way, &address);
}

static const char *address_of(struct engine_stage *engine, const struct actor *actor)
{
    for (size_t i = 0; actor->address == NULL && i < sizeof(addresses) / sizeof(addresses[0]);
         i++) {
        if (strcmp(addresses[i].name, actor->name) == 0) {
            return addresses[i].address;
        }
    }
    if (actor->address == NULL) { /* further clients, one address each */
        unsigned number = ++engine->client_count;
        return pool_format(&engine->pool, "198.51.%u.%u:40001", 101 + number / 250,
                           1 + number % 250);
    }
    const char *port = actor->role == ACTOR_CLIENT ? "40001" : "5683";
    bool is_ipv6 = strchr(actor->address, ':') != strrchr(actor->address, ':');
    bool has_port = is_ipv6 ? actor->address[0] == '[' : strchr(actor->address, ':') != NULL;
    return has_port
               ? actor->address
               : pool_format(&engine->pool, is_ipv6 ? "[%s]:%s" : "%s:%s", actor->address, port);
}

/* A server can be reached by its name. */
static void name_server(struct engine_stage *engine, const struct actor *actor, const char *address)
{
    struct address parsed;
    if (actor->role == ACTOR_CLIENT || !address_parse(address, strlen(address), 0, &parsed)) {
        return;
    }
    const char *from = address + (address[0] == '[');
    size_t len = address[0] == '[' ? strcspn(from, "]") : strcspn(from, ":");
    fake_net_name(actor->name, 0, RESOLVE_OK, pool_text(&engine->pool, from, len));
}

static const char *stage_open(void *context, struct actor *actor)
{
    struct engine_stage *engine = context;
    struct endpoint *endpoint = pool_alloc(&engine->pool, sizeof(*endpoint));
    actor->end = endpoint;
    endpoint->name = actor->name;
    endpoint->next = engine->endpoints;
    engine->endpoints = endpoint;
    endpoint->worker = actor->worker > 0 ? actor->worker : !actor->is_device ? 1 : engine->workers;
    if (endpoint->worker > engine->workers) {
        return "config workers=N says how many there are";
    }
    if (endpoint->worker > 1) {
        endpoint->is_elsewhere = true;
        endpoint->proxy = address_of_worker(endpoint->worker);
    }
    if (actor->way == WAY_SESSION) {
        return NULL;
    }
    const char *address = address_of(engine, actor);
    (void)snprintf(endpoint->address, sizeof(endpoint->address), "%s", address);
    if (actor->way == WAY_WEB) {
        name_server(engine, actor, address);
        return NULL;
    }
    if (actor->way != WAY_DEFAULT && actor->way != WAY_UDP) {
        listen_for(engine, actor->way);
        return NULL;
    }
    if (strcmp(address, "192.0.2.7:40001") == 0) {
        endpoint->peer = engine->replay.client;
    } else if (strcmp(address, "192.0.2.5:5683") == 0) {
        endpoint->peer = engine->replay.origin;
    } else {
        endpoint->peer = fake_peer_new(address);
    }
    name_server(engine, actor, address);
    return NULL;
}

void engine_stage_establish(const struct actor *actor)
{
    const struct endpoint *endpoint = actor->end;
    if (actor->identity != NULL) {
        fake_dtls_identify(endpoint->session, actor->identity, actor->host);
    } else if (actor->certificate != NULL) {
        fake_dtls_certify(endpoint->session, actor->certificate);
    }
    fake_dtls_establish(endpoint->session);
}

/* The loop of its worker; NULL: there is one. */
static const struct loop *loop_of(const struct engine_stage *engine,
                                  const struct endpoint *endpoint)
{
    return engine->workers == 1    ? NULL
           : endpoint->worker == 1 ? engine->replay.loop
                                   : engine->replay.more[endpoint->worker - 2].loop;
}

static const char *stage_connect(void *context, struct actor *actor)
{
    const struct engine_stage *engine = context;
    struct endpoint *endpoint = actor->end;
    if (actor->way == WAY_DTLS) {
        endpoint->session = fake_dtls_open_at(endpoint->worker - 1, endpoint->address);
        engine_stage_establish(actor);
        return NULL;
    }
    endpoint->stream = fake_stream_connect_at(transport_of(actor->way), loop_of(engine, endpoint),
                                              endpoint->address);
    if (endpoint->stream == NULL) {
        return "the proxy refuses the connection";
    }
    if (actor->host != NULL) {
        fake_stream_set_host(endpoint->stream, actor->host);
    }
    if (actor->identity != NULL) {
        fake_stream_identify(endpoint->stream, actor->identity);
    }
    return NULL;
}

bool engine_stage_is_refused(const struct actor *actor)
{
    const struct endpoint *endpoint = actor->end;
    return fake_stream_connect(transport_of(actor->way), endpoint->address) == NULL;
}

static void send_on_stream(struct fake_stream *stream, struct wire_bytes bytes, bool is_slow)
{
    for (size_t i = 0; is_slow && i < bytes.len; i++) {
        fake_stream_send_bytes(stream, bytes.data + i, 1);
    }
    if (!is_slow) {
        fake_stream_send_bytes(stream, bytes.data, bytes.len);
    }
}

/* A fake session takes hex. */
static void send_on_session(const struct endpoint *endpoint, struct wire_bytes bytes)
{
    char *hex = calloc(2, bytes.len + 1);
    assert_non_null(hex);
    for (size_t i = 0; i < bytes.len; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", bytes.data[i]);
    }
    if (endpoint->moved_to != NULL) {
        fake_dtls_send_from(endpoint->session, endpoint->moved_to, hex);
    } else {
        fake_dtls_send(endpoint->session, hex);
    }
    free(hex);
}

static bool is_zero(const struct play_peer *peer)
{
    static const struct play_peer none;
    return memcmp(peer->raw, none.raw, sizeof(none.raw)) == 0;
}

static const char *stage_send(void *context, struct actor *actor, const struct play_peer *to,
                              struct wire_bytes bytes, bool is_slow)
{
    struct endpoint *endpoint = actor->end;
    struct address address;
    (void)context;
    if (actor->way == WAY_SESSION) {
        uint64_t number;
        memcpy(&number, to->raw, sizeof(number));
        if (!fake_client_choose(number)) {
            return "the proxy does not wait for this answer any more";
        }
        fake_client_answer_bytes(bytes.data, bytes.len);
        fake_net_run(0);
    } else if (endpoint->stream != NULL) {
        send_on_stream(endpoint->stream, bytes, is_slow);
    } else if (endpoint->session != NULL) {
        send_on_session(endpoint, bytes);
    } else {
        memcpy(&address, to->raw, sizeof(address));
        if (is_zero(to)) {
            assert_true(address_parse(PROXY, strlen(PROXY), 0, &address));
            address = endpoint->is_elsewhere ? endpoint->proxy : address;
        }
        fake_peer_send_bytes(endpoint->peer, &address, bytes.data, bytes.len);
    }
    return NULL;
}

static enum arrival take_datagram(struct endpoint *endpoint, unsigned long long wait_ms,
                                  uint8_t *buffer, size_t *ret_len, struct play_peer *ret_from)
{
    _Static_assert(sizeof(struct address) <= sizeof(ret_from->raw), "an address fits");
    if (!fake_peer_wait(endpoint->peer, wait_ms)) {
        return ARRIVAL_NOTHING;
    }
    (void)fake_peer_take(endpoint->peer, &endpoint->last);
    assert_true(endpoint->last.len <= FAKE_DATAGRAM_MAX);
    if (endpoint->is_elsewhere && !address_equal(&endpoint->last.from, &endpoint->proxy)) {
        fail_msg("a datagram from another address of the proxy than was used");
    }
    *ret_len = endpoint->last.len;
    memcpy(buffer, endpoint->last.data, endpoint->last.len);
    memcpy(ret_from->raw, &endpoint->last.from, sizeof(endpoint->last.from));
    ret_from->at_ms = endpoint->last.at_ms;
    return ARRIVAL_MESSAGE;
}

/* What there is at this moment, of all but plain datagrams. */
static enum arrival take_now(const struct actor *actor, uint8_t *buffer, size_t capacity,
                             size_t *ret_len, struct play_peer *ret_from)
{
    struct endpoint *endpoint = actor->end;
    const uint8_t *bytes;
    fake_net_run(0);
    if (actor->way == WAY_SESSION) {
        uint64_t number = fake_client_take(actor->session, &bytes, ret_len);
        memcpy(ret_from->raw, &number, sizeof(number));
        if (number != 0) {
            memcpy(buffer, bytes, *ret_len);
        }
        return number != 0 ? ARRIVAL_MESSAGE : ARRIVAL_NOTHING;
    }
    if (endpoint->session != NULL) {
        bool is_there = fake_dtls_take(endpoint->session, buffer, capacity, ret_len);
        ret_from->at_ms = is_there ? fake_dtls_taken_ms(endpoint->session) : 0;
        return is_there                               ? ARRIVAL_MESSAGE
               : fake_dtls_is_open(endpoint->session) ? ARRIVAL_NOTHING
                                                      : ARRIVAL_CLOSED;
    }
    *ret_len = fake_stream_take_message(endpoint->stream, buffer, capacity);
    return *ret_len > 0                              ? ARRIVAL_MESSAGE
           : fake_stream_is_closed(endpoint->stream) ? ARRIVAL_CLOSED
                                                     : ARRIVAL_NOTHING;
}

static enum arrival wait_on_session(struct actor *actor, unsigned long long wait_ms,
                                    uint8_t *buffer, size_t capacity, size_t *ret_len,
                                    struct play_peer *ret_from)
{
    for (unsigned long long passed_ms = 0;; passed_ms++) {
        enum arrival arrival = take_now(actor, buffer, capacity, ret_len, ret_from);
        if (arrival != ARRIVAL_NOTHING || passed_ms >= wait_ms) {
            return arrival;
        }
        fake_net_run(1);
    }
}

static enum arrival stage_receive(void *context, struct actor *actor, unsigned long long wait_ms,
                                  uint8_t *buffer, size_t capacity, size_t *ret_len,
                                  struct play_peer *ret_from)
{
    struct endpoint *endpoint = actor->end;
    const struct engine_stage *engine = context;
    enum arrival arrival = ARRIVAL_NOTHING;
    if (endpoint->peer != NULL) {
        arrival = take_datagram(endpoint, wait_ms, buffer, ret_len, ret_from);
    } else {
        arrival = wait_on_session(actor, wait_ms, buffer, capacity, ret_len, ret_from);
    }
    bool is_asked = actor->role != ACTOR_CLIENT || actor->is_device;
    if (engine->has_passers && arrival == ARRIVAL_MESSAGE && is_asked) {
        passers_pass();
    }
    return arrival;
}

static void stage_wait(void *context, unsigned long long ms)
{
    (void)context;
    fake_net_run(ms);
}

static unsigned long long stage_now_ms(void *context)
{
    (void)context;
    return fake_net_now_ms();
}

/* Servers are known to the proxy's resolver by their names. */
static bool stage_authority(void *context, struct actor *actor, char host[static 64],
                            unsigned *ret_port)
{
    (void)context;
    (void)actor;
    (void)host;
    (void)ret_port;
    return false;
}

void engine_stage_init(struct engine_stage *engine, struct stage *ret_stage)
{
    *engine = (struct engine_stage){0};
    *ret_stage = (struct stage){
        .context = engine,
        .form = SPEC_PROXY_CRI,
        .start = stage_start,
        .reload = stage_reload,
        .open = stage_open,
        .connect = stage_connect,
        .send = stage_send,
        .receive = stage_receive,
        .wait = stage_wait,
        .now_ms = stage_now_ms,
        .act = engine_stage_act,
        .authority = stage_authority,
    };
}

void engine_stage_stop(struct engine_stage *engine)
{
    if (engine->is_started) {
        replay_stop(&engine->replay);
        engine_session_end();
        fake_dtls_free();
        fake_streams_free();
    }
    pool_clear(&engine->pool);
}
