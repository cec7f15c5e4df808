/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Follows the init functions of the tables; tests/allocations compares it with what engine_new()
 * allocates. What a session or a connection takes at most was measured or is a limit given to
 * OpenSSL, see docs/PERFORMANCE.md and docs/SECURITY.md.
 */
#include "engine/budget.h"

#include "client/http_front.h"
#include "coap/transport.h"
#include "engine/engine.h"
#include "origin/flights.h"
#include "origin/switchboard.h"
#include "origin/watches.h"

#define KIB UINT64_C(1024)

/* OpenSSL's tables, the log's and the control socket's buffers. */
#define PROCESS_BYTES (4096 * KIB)
/* Its stack, and room for a turn's datagrams (net/udp.c), each as long as the kernel makes it. */
#define WORKER_BYTES (6656 * KIB)
#define SOCKET_BYTES (200 * KIB) /* a UDP socket's output, see net/udp_internal.h */

#define OBSERVATION_FLAGS 1024u    /* targets that are known not to be observable */
#define CACHE_BYTES_MIN (64 * KIB) /* of a cache that is not off */
#define PORT_USERS_MAX 256u        /* origin servers that are sent to from several ports */

/* A DTLS session with its identity; the names of a certificate are the longest part. */
#define DTLS_SESSION_BYTES (1 * KIB)
#define CERTIFICATE_NAMES_BYTES (4 * KIB)
#define DTLS_HANDSHAKE_BYTES (200 * KIB)
/* A connection with its parser; TLS; waiting output in times of stream.output-bytes. */
#define CONNECTION_BYTES (4 * KIB)
#define TLS_BYTES (96 * KIB)
#define OUTPUT_FACTOR 4u
/* Towards origin servers OpenSSL takes handshake messages of up to 100 KB, in fragments. */
#define UPSTREAM_SESSION_BYTES (1280 * KIB + SOCKET_BYTES)
#define WEB_CONNECTION_BYTES (128 * KIB) /* libcurl's, on TLS */

static uint64_t map_bytes(uint64_t capacity)
{
    uint64_t buckets = 16;
    while (buckets < capacity) {
        buckets *= 2;
    }
    return buckets * sizeof(struct hash_node *);
}

static uint64_t book_bytes(uint64_t holdings, uint64_t amount)
{
    while (amount >= ACCOUNT_RANKS_MAX) {
        amount /= 2;
    }
    uint64_t ranks = amount + 1;
    return holdings * sizeof(struct account) + ranks * sizeof(struct account *) +
           map_bytes(holdings);
}

static uint64_t longest_message(const struct config *config)
{
    return config->limits_datagram_bytes > config->limits_stream_message_bytes
               ? config->limits_datagram_bytes
               : config->limits_stream_message_bytes;
}

static uint64_t request_bytes(const struct config *config)
{
    const uint64_t count = config->limits_exchanges;
    uint64_t requests = count * (sizeof(struct request) + REQUEST_MEMORY_BYTES + sizeof(uint32_t));
    uint64_t fetches = count * (sizeof(struct fetch) + FETCH_MEMORY_BYTES + sizeof(uint32_t));
    uint64_t large = MEMORY_LARGE_COUNT * (4 * config->limits_datagram_bytes) +
                     book_bytes(MEMORY_LARGE_COUNT, MEMORY_LARGE_COUNT);
    /* by message, by token, by the one that leads equal ones, by the token to the origin server */
    return requests + fetches + large + map_bytes(2 * count) + 3 * map_bytes(count) +
           book_bytes(count, count);
}

/* Rounded up as these tables are. */
static uint64_t power_of_two(uint64_t count)
{
    uint64_t rounded = 1;
    while (rounded < count) {
        rounded *= 2;
    }
    return rounded;
}

static uint64_t peer_bytes(const struct config *config)
{
    uint64_t names = config->resolve_names;
    return config->limits_clients * sizeof(struct client) + map_bytes(config->limits_clients) +
           config->limits_origins * sizeof(struct origin) + map_bytes(config->limits_origins) +
           PORT_FAMILIES * (uint64_t)config->limits_origin_ports * sizeof(struct port) +
           names * sizeof(struct name) + map_bytes(names) + book_bytes(names, names) +
           power_of_two(config->limits_addresses) * sizeof(struct source) +
           power_of_two(config->limits_throttled) * sizeof(struct throttle) +
           RELAY_TURNS * sizeof(struct queue_turn) + map_bytes(RELAY_TURNS) +
           sizeof(struct switchboard) + sizeof(struct switchboard_worker) +
           map_bytes(SWITCHBOARD_NAMES);
}

static uint64_t observation_bytes(const struct config *config)
{
    const uint64_t observers = config->observe_max, half = config->limits_exchanges / 2;
    const uint64_t targets = config->observe_targets < half ? config->observe_targets : half;

    if (observers == 0) {
        return 0;
    }
    return observers * (sizeof(struct observer) + sizeof(struct watcher)) +
           2 * book_bytes(observers, observers) + 2 * map_bytes(observers) +
           map_bytes(observers / 8 + 1) + targets * sizeof(struct observation) +
           OBSERVATION_FLAGS * sizeof(struct unobservable) + map_bytes(targets) +
           book_bytes(targets, targets) + book_bytes(targets, config->observe_bytes);
}

static uint64_t body_table_bytes(const struct config *config)
{
    const uint64_t most = config->block_bodies_bytes, count = config->block_bodies;
    return map_bytes(count) + book_bytes(count, 2 * most) +
           book_bytes(config->limits_exchanges, most) +
           book_bytes(most / HTTP_BODY_BYTES_MIN, most);
}

/* The longest record twice beside what is given for everything. */
static uint64_t cache_bytes(const struct config *config)
{
    uint64_t most =
        config->cache_max_bytes < CACHE_BYTES_MIN ? CACHE_BYTES_MIN : config->cache_max_bytes;
    uint64_t record =
        most / 8 < config->cache_max_entry_bytes ? most / 8 : config->cache_max_entry_bytes;
    return config->cache_max_bytes == 0 ? 0 : most + 2 * record;
}

uint64_t budget_tables_bytes(const struct config *config)
{
    uint64_t scratch = longest_message(config) + config->proxy_max_token_bytes +
                       2 * config->limits_datagram_bytes + 8 * KIB;
    return sizeof(struct engine) + sizeof(struct changes) + scratch + request_bytes(config) +
           peer_bytes(config) + observation_bytes(config) + body_table_bytes(config) +
           config->limits_dedup_bytes + cache_bytes(config);
}

/* What clients' sessions and connections on one listener may take in one worker. */
static uint64_t listener_bytes(const struct config *config, enum transport transport)
{
    bool is_secure = transport_is_secure(transport);

    if (!transport_is_stream(transport)) {
        uint64_t names = config->tls_client_ca[0] != '\0' ? CERTIFICATE_NAMES_BYTES : 0;
        uint64_t sessions = config->tls_sessions * (DTLS_SESSION_BYTES + names) +
                            config->tls_handshakes * DTLS_HANDSHAKE_BYTES;
        return SOCKET_BYTES + (is_secure ? sessions : 0);
    }
    /* What clients of HTTP upload, of all such listeners together: counted for each. */
    uint64_t bodies = transport_is_http(transport) ? config->block_bodies_bytes : 0;
    return bodies + config->stream_connections * (CONNECTION_BYTES + (is_secure ? TLS_BYTES : 0) +
                                                  config->limits_stream_message_bytes +
                                                  OUTPUT_FACTOR * config->stream_output_bytes);
}

/* Whether there are targets on HTTP: their connections are not pooled as sessions are. */
static bool asks_http(const struct config *config)
{
    for (size_t i = 0; i < config->scheme_count; i++) {
        if (transport_is_http(config->schemes[i].transport)) {
            return true;
        }
    }
    return false;
}

/* Those that are kept only while their table is full (base/slot_book.h, origin/room.h). */
static uint64_t books_of_full(const struct config *config)
{
    const uint64_t clients = config->limits_clients, origins = config->limits_origins;
    const uint64_t queued = config->limits_exchanges;
    uint64_t waits = config->devices_wait > 0 ? book_bytes(queued, config->devices_wait_bytes) : 0;
    return (clients + origins) * (sizeof(struct holding) + sizeof(struct slot_age)) +
           book_bytes(clients, clients) + book_bytes(origins, origins) +
           book_bytes(queued, queued) + waits;
}

/* Bodies, states of observed resources, and whatever is open towards origin servers. */
static uint64_t changing_bytes(const struct config *config)
{
    uint64_t sessions =
        config->upstream_sessions * (UPSTREAM_SESSION_BYTES + longest_message(config));
    uint64_t queued = config->limits_exchanges * (uint64_t)FETCH_MEMORY_BYTES +
                      MEMORY_LARGE_COUNT * 4 * config->limits_datagram_bytes;
    uint64_t web = asks_http(config) ? config->block_bodies_bytes +
                                           (config->limits_exchanges + config->http_long_bodies) *
                                               (uint64_t)WEB_CONNECTION_BYTES
                                     : 0;
    uint64_t ports = config->limits_origin_ports *
                     (PORT_FAMILIES * SOCKET_BYTES + PORT_USERS_MAX * sizeof(struct mid_space));
    return config->block_bodies_bytes + config->observe_bytes + sessions + queued + web + ports +
           books_of_full(config);
}

/* What workers have to follow each other by. */
static uint64_t following_bytes(const struct config *config, unsigned workers)
{
    const uint64_t fetches = workers * (uint64_t)config->limits_exchanges;
    const bool is_off = workers < 2 || config->cache_shared[0] == '\0';

    return is_off ? 0 : flights_bytes_max(fetches) + watches_bytes_max(fetches / 2);
}

uint64_t budget_bytes(const struct config *config, unsigned workers)
{
    uint64_t each = WORKER_BYTES + budget_tables_bytes(config) + changing_bytes(config);

    for (size_t i = 0; i < config->listener_count; i++) {
        each += listener_bytes(config, config->listeners[i].transport);
    }
    return PROCESS_BYTES + following_bytes(config, workers) + workers * each;
}
