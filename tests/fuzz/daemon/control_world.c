/* SPDX-License-Identifier: BSD-2-Clause */
#include "control_world.h"

#include "base/log.h"
#include "coap/message.h"
#include "coap/option.h"
#include "engine/engine.h"
#include "fetch/keyring.h"
#include "net/bind.h"
#include "net/libraries.h"
#include "server/internal.h"
#include "support/fake_net.h"
#include "worker/internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROXY "192.0.2.9:5683"
#define LOOK_GROUP 4711u /* the client's; it is root's as well where it may operate */

static struct world {
    struct server server;
    struct snapshot snapshot;
    struct worker worker;
    struct resolver *resolver;
    struct fake_peer *client, *origin;
    http_answer_fn answer;
    void *answer_context;
    struct http_stream *stream; /* of the request under way; NULL: it has none, or it has ended */
    char *streamed;             /* what came by it, with a NUL; on the heap */
    size_t streamed_len;
    unsigned streamed_status;
    uint16_t mid;
    bool may_operate;
} world;

/* --- what the main thread asks of others -------------------------------- */

static void ask_back(void *context)
{
    struct worker_ask *ask = context;
    ask->on_answer(ask);
}

static void ask_engine(void *context)
{
    struct worker_ask *ask = context;
    json_writer_init(&ask->out, ask->buffer, sizeof(ask->buffer));
    ask->is_done = ask->run(ask->worker->engine, ask->argument, &ask->cursor, &ask->out);
    assert(loop_post(ask->answer_to, ask_back, ask) == 0);
}

int worker_ask(struct worker *worker, struct worker_ask *ask)
{
    ask->worker = worker;
    return loop_post(worker->loop, ask_engine, ask);
}

void server_sum_metrics(const struct server *server, struct metrics *sum)
{
    metrics_add(sum, engine_metrics(server->workers[0]->engine));
}

struct process_status server_status(const struct server *server)
{
    return (struct process_status){.version = CRIPROXYD_VERSION,
                                   .workers = server->worker_count,
                                   .listeners = (unsigned)server->listener_count,
                                   .is_ready = !server->is_draining,
                                   .was_reload_good = server->was_reload_good,
                                   .libraries = libraries()};
}

double server_wall_clock_s(void)
{
    return (double)fake_net_now_ms() / 1000;
}

bool server_certificate_days(const struct server *server, int64_t *ret_days)
{
    *ret_days = server->is_draining ? -1 : 30;
    return true;
}

void server_write_certificates(const struct server *server, FILE *out)
{
    (void)server;
    (void)out;
}

/* The first one succeeds. */
bool server_reload(struct server *server)
{
    bool is_good = !server->was_reload_good;
    server->was_reload_good = is_good;
    (void)snprintf(server->reload_error, sizeof(server->reload_error), "nothing has changed");
    return is_good;
}

/* Answered by way of the client's number, as it is when a trial has ended. */
const char *server_restart(struct server *server, uint64_t client)
{
    server->restart.client++;
    if (server->restart.client % 2 == 0) {
        return "a restart is in progress";
    }
    control_finish(server, client, "nothing has changed");
    return NULL;
}

int conn_descriptor(const struct conn *conn)
{
    (void)conn;
    return -1;
}

/* Not called: there are no other replicas. */
const char *server_give(struct server *server, uint64_t client, bool ends_process)
{
    (void)server;
    (void)client;
    (void)ends_process;
    return "there are no other replicas";
}

void server_drain(struct server *server, const char *why)
{
    (void)why;
    server->is_draining = true;
    server->is_ending = true;
    engine_drain(server->workers[0]->engine);
}

int server_pause(struct server *server, bool is_paused)
{
    server->is_draining = is_paused;
    engine_refuse_newcomers(server->workers[0]->engine, is_paused);
    return 0;
}

const struct library *libraries(void)
{
    static const struct library rows[] = {{"fake", "1.0", NULL}, {NULL, NULL, NULL}};
    return rows;
}

/* --- sockets ------------------------------------------------------------ */

int bind_unix(const char *path, unsigned mode)
{
    (void)path;
    (void)mode;
    return 0; /* the fake connections have no descriptors */
}

int bind_socket(enum bind_type type, const struct address *address, bool reuse_port)
{
    (void)type;
    (void)address;
    (void)reuse_port;
    return 0;
}

int bind_address_of(int fd, struct address *ret_address)
{
    (void)fd;
    (void)ret_address;
    return 0;
}

bool conn_is_own_process(const struct conn *conn)
{
    (void)conn;
    return world.may_operate;
}

bool conn_process_has_group(const struct conn *conn, gid_t group)
{
    (void)conn;
    return group == LOOK_GROUP;
}

int http_serve(struct loop *loop, const struct http_options *options, http_answer_fn answer,
               void *context, struct http_server **ret_server)
{
    (void)loop;
    (void)options;
    world.answer = answer;
    world.answer_context = context;
    *ret_server = NULL;
    return 0;
}

void http_close(struct http_server *server)
{
    (void)server;
}

/* One at a time, whose reader never takes anything before the answer is over. */
struct http_stream {
    const struct http_stream_handler *handler;
    void *context;
    bool has_begun, is_full;
};

struct http_stream *http_stream_open(const struct http_request *request,
                                     const struct http_stream_handler *handler, void *context)
{
    (void)request;
    assert(world.stream == NULL);
    world.stream = calloc(1, sizeof(struct http_stream));
    assert(world.stream != NULL);
    world.stream->handler = handler;
    world.stream->context = context;
    return world.stream;
}

void http_stream_begin(struct http_stream *stream, unsigned status, const char *type,
                       bool is_endless)
{
    assert(stream == world.stream && !stream->has_begun);
    assert(is_endless == (strcmp(type, "text/event-stream") == 0));
    stream->has_begun = true;
    world.streamed_status = status;
}

bool http_stream_send(struct http_stream *stream, const char *data, size_t len)
{
    assert(stream == world.stream && stream->has_begun);
    world.streamed = realloc(world.streamed, world.streamed_len + len + 1);
    assert(world.streamed != NULL);
    memcpy(world.streamed + world.streamed_len, data, len);
    world.streamed_len += len;
    world.streamed[world.streamed_len] = '\0';
    stream->is_full = true;
    return false;
}

void http_stream_end(struct http_stream *stream)
{
    assert(stream == world.stream && stream->has_begun);
    world.stream = NULL;
    free(stream);
}

/* --- clients and an origin server --------------------------------------- */

/* GET of a URI, with Observe 0 where it is to be observed. */
static void ask_for(const char *uri, bool is_observed)
{
    uint8_t datagram[512];
    uint8_t token[2] = {(uint8_t)(world.mid >> 8), (uint8_t)world.mid};
    struct message_writer writer;
    struct address proxy;
    assert(address_parse(PROXY, strlen(PROXY), 0, &proxy));
    message_writer_init(&writer, datagram, sizeof(datagram), MESSAGE_CON, CODE_GET, world.mid++,
                        (struct bytes){token, sizeof(token)});
    if (is_observed) {
        message_writer_option_uint(&writer, OPTION_observe, 0);
    }
    message_writer_option(&writer, OPTION_proxy_uri,
                          (struct bytes){(const uint8_t *)uri, strlen(uri)});
    assert(!writer.overflow);
    fake_peer_send_bytes(world.client, &proxy, datagram, writer.len);
    fake_net_run(0);
}

/* All is answered, and can be observed, but for /slow. */
static void on_origin(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    uint8_t answer[128];
    struct message_writer writer;
    struct message request;
    (void)context;
    if (message_decode(datagram->data, datagram->len, &request) != MESSAGE_OK ||
        request.code != CODE_GET || memmem(datagram->data, datagram->len, "slow", 4) != NULL) {
        return;
    }
    message_writer_init(&writer, answer, sizeof(answer), MESSAGE_ACK, CODE(2, 5), request.mid,
                        request.token);
    if (memmem(datagram->data, datagram->len, "watched", 7) != NULL) {
        message_writer_option_uint(&writer, OPTION_observe, 1);
    }
    assert(!writer.overflow);
    fake_peer_send_bytes(peer, &datagram->from, answer, writer.len);
}

static void on_client(void *context, struct fake_peer *peer, const struct fake_datagram *datagram)
{
    (void)context;
    (void)peer;
    (void)datagram;
}

void control_world_go_on(void)
{
    ask_for("coap://h/kept?secret", false);
    ask_for("coap://192.0.2.66/x", false);
    ask_for("coap://h\x1b[2J\n\xff\"\\/", false);
    ask_for("coap://h/%1b%0a%ff%22", false);
}

/* --- life --------------------------------------------------------------- */

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    (void)context;
    return world.worker.engine != NULL ? engine_turn(world.worker.engine, now_ms) : UINT64_MAX;
}

static struct config *load(void)
{
    static const char *const sets[] = {
        "log.access=off",
        "policy.clients=any",
        "policy.ports=any",
        "policy.echo-exempt=any",
        "policy.require-secure-leg=no",
        "limits.exchanges=16",
        "limits.clients=16",
        "limits.origins=16",
        "limits.dedup-bytes=64KiB",
        "resolve.names=16",
        "limits.origin-ports=2",
        "limits.datagram-bytes=1280B",
        "block.bodies=16",
        "block.bodies-bytes=64KiB",
        "block.body-bytes=1KiB",
        "observe.max=16",
        "observe.targets=16",
        "observe.bytes=64KiB",
        "limits.addresses=1024",
        "limits.throttled=64",
        "cache.max-bytes=64KiB",
        "admin.look-group=4711",
        "admin.socket=/nowhere/socket",
        "admin.listen=http://127.0.0.1:9683",
        "access no.target=coap://192.0.2.66",
        "lab.enabled=yes",
        "admin.operate=yes",
    };
    static const char *const listens[] = {"coap://" PROXY};
    const struct config_source source = {.sets = sets,
                                         .set_count = sizeof(sets) / sizeof(sets[0]),
                                         .listens = listens,
                                         .listen_count = 1};
    struct config_errors errors;
    struct config *config = NULL;
    char why[128];
    if (config_load(&source, &errors, &config) != 0) {
        config_errors_print(&errors, "", stderr);
        abort();
    }
    config->keyring = keyring_load(config, why, sizeof(why));
    assert(config->keyring != NULL);
    return config;
}

static void start_engine(const struct config *config)
{
    struct udp_options udp = {.fd = -1};
    assert(loop_new(on_turn, NULL, &world.worker.loop) == 0);
    assert(resolver_new(world.worker.loop, NULL, &world.resolver) == 0);
    const struct engine_options options = {
        .config = config, .loop = world.worker.loop, .resolver = world.resolver};
    assert(engine_new(&options, &world.worker.engine) == 0);
    assert(address_parse(PROXY, strlen(PROXY), 0, &udp.bind));
    assert(listen_udp(&world.worker.engine->client, &udp, NULL) == 0);
    world.server.listeners[0] =
        (struct server_listener){.transport = TRANSPORT_UDP, .wanted = udp.bind, .bound = udp.bind};
}

static void start_peers(void)
{
    fake_net_name("h", 0, RESOLVE_OK, "192.0.2.5");
    world.client = fake_peer_new("192.0.2.7:40001");
    world.origin = fake_peer_new("192.0.2.5:5683");
    fake_peer_on_datagram(world.client, on_client, NULL);
    fake_peer_on_datagram(world.origin, on_origin, NULL);
    control_world_go_on();
    ask_for("coap://h/watched", true);
    ask_for("coap://h/slow", false);
}

void control_world_start(bool may_operate)
{
    memset(&world, 0, sizeof(world));
    world.may_operate = may_operate;
    log_set(LOG_ERROR, false);
    fake_net_start(1);
    world.snapshot.config = load();
    world.server.newest = &world.snapshot;
    world.server.workers[0] = &world.worker;
    world.server.worker_count = 1;
    world.server.listener_count = 1;
    start_engine(world.snapshot.config);
    world.server.loop = world.worker.loop;
    start_peers();
    assert(server_control_open(&world.server) == 0);
    assert(server_http_open(&world.server) == 0);
}

struct fake_stream *control_world_connect(void)
{
    struct fake_stream *stream = fake_stream_connect(TRANSPORT_TCP, "192.0.2.99:1");
    assert(stream != NULL);
    return stream;
}

bool control_world_is_traced(void)
{
    return world.worker.taps[0].id != 0 || world.worker.captures[0].id != 0;
}

void control_world_http(const struct http_request *request, struct http_answer *ret_answer)
{
    world.answer(world.answer_context, request, ret_answer);
    fake_net_run(0);
    for (unsigned i = 0; i < 1000 && world.stream != NULL && world.stream->is_full; i++) {
        world.stream->is_full = false;
        world.stream->handler->on_drained(world.stream->context);
        fake_net_run(0);
        if (i == 0) {
            control_world_go_on(); /* seen by traces */
        }
    }
    if (!ret_answer->is_streamed) {
        return;
    }
    if (world.stream != NULL) { /* one without an end: its reader goes */
        struct http_stream *stream = world.stream;
        world.stream = NULL;
        stream->handler->on_gone(stream->context);
        free(stream);
    }
    ret_answer->status = world.streamed_status;
    ret_answer->body = world.streamed;
    ret_answer->body_len = world.streamed_len;
    world.streamed = NULL;
}

void control_world_stop(void)
{
    struct config *config = world.snapshot.config;
    server_http_close(&world.server);
    server_control_close(&world.server);
    fake_net_run(0);
    assert(!control_world_is_traced());
    engine_free(world.worker.engine);
    resolver_free(world.resolver);
    loop_free(world.worker.loop);
    fake_net_stop();
    fake_streams_free();
    keyring_free(config->keyring);
    config_free(config);
}
