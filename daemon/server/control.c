/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Unix socket that criproxyctl talks to, on the main thread's loop.
 *
 * A list is asked of the workers one piece after the other, each when the client has
 * taken the one before: a slow client costs no worker anything. A question that is out
 * knows its client by number only, so the client may go meanwhile.
 */
#include "server/control.h"

#include "base/log.h"
#include "net/conn.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS_MAX 16u
#define REQUEST_MAX 4096u
#define REQUEST_MS 60000u /* for the first request of a connection */
#define IDLE_MS 3600000u
#define WRITE_MS 30000u
#define OUTPUT_MAX (128u * 1024u)
#define SOCKET_MODE 0660u
#define SOCKET_MODE_FOR_GROUPS 0666u

/* A group of processes that may ask; it need not be there. */
struct control_group {
    bool is_set;
    gid_t id;
};

struct control {
    struct server *server;
    struct control_group look, operate;
    struct conn_listener *listener;
    struct control_client *clients;
    uint64_t last_id;
    unsigned tracing_count, capturing_count;
    char *path;
};

/* ---- the rights of a client ---- */

static bool is_in(const struct conn *conn, const struct control_group *group)
{
    return group->is_set && conn_process_has_group(conn, group->id);
}

static enum control_level level_of(const struct control *control, const struct conn *conn)
{
    if (conn_is_own_process(conn) || is_in(conn, &control->operate)) {
        return CONTROL_OPERATE;
    }
    return is_in(conn, &control->look) ? CONTROL_LOOK : CONTROL_NOTHING;
}

/* @p name is a name, or a number. */
static int find_group(const char *key, const char *name, struct control_group *ret_group)
{
    struct group entry, *found = NULL;
    char buffer[16384];
    char *end = NULL;

    if (name[0] == '\0') {
        return 0;
    }
    unsigned long number = strtoul(name, &end, 10);
    int error = *end == '\0' ? 0 : getgrnam_r(name, &entry, buffer, sizeof(buffer), &found);
    if (error == 0 && (*end == '\0' ? number >= UINT32_MAX : found == NULL)) {
        error = ENOENT;
    }
    if (error != 0) {
        log_event(LOG_ERROR, "admin_failed", "key=admin.%s value=%s error=\"no such group\"", key,
                  name);
        return -error;
    }
    *ret_group = (struct control_group){true, found != NULL ? found->gr_gid : (gid_t)number};
    return 0;
}

/* Where no group is named the proxy's own may do all, as it may do what the proxy may. */
static int find_groups(const struct config *config, struct control *control)
{
    int error = find_group("operate-group", config->admin_operate_group, &control->operate);

    if (error == 0) {
        error = find_group("look-group", config->admin_look_group, &control->look);
    }
    if (error == 0 && !control->operate.is_set && !control->look.is_set) {
        control->operate = (struct control_group){true, getegid()};
    }
    return error;
}

/* ---- lines out ---- */

void control_send(struct control_client *client, const struct json_writer *lines)
{
    if (lines->len > 0 && !conn_send(client->conn, (const uint8_t *)lines->buffer, lines->len)) {
        client->is_full = true;
    }
}

static void end_with_limit(struct control_client *client, const char *error, const char *limit)
{
    char buffer[1024];
    struct json_writer line;

    json_writer_init(&line, buffer, sizeof(buffer));
    json_begin(&line);
    json_text(&line, "end", error == NULL ? "ok" : "error");
    if (error != NULL) {
        json_text(&line, "error", error);
    }
    if (limit[0] != '\0') {
        json_text(&line, "limit", limit);
    }
    if (!json_end(&line)) { /* cannot be: errors are short */
        conn_close(client->conn);
        return;
    }
    control_send(client, &line);
    client->is_busy = false;
    if (!client->is_full) {
        conn_pause(client->conn, false); /* the next request may have come already */
    }
}

void control_end(struct control_client *client, const char *error)
{
    end_with_limit(client, error, "");
}

/* ---- lists ---- */

static struct control_client *find_client(const struct control *control, uint64_t id)
{
    struct control_client *client = control->clients;

    while (client != NULL && client->id != id) {
        client = client->next;
    }
    return client;
}

static void ask_on(struct control_client *client, struct worker_ask *ask)
{
    if (client->is_full) {
        client->ask = ask; /* control_on_drained() goes on with it */
        return;
    }
    int error = worker_ask(ask->worker, ask);
    if (error != 0) {
        free(ask);
        control_end(client, strerror(-error));
    }
}

/* The worker after that of @p ask, or NULL. */
static struct worker *next_worker(const struct server *server, const struct worker *worker)
{
    for (unsigned i = 0; i + 1 < server->worker_count; i++) {
        if (server->workers[i] == worker) {
            return server->workers[i + 1];
        }
    }
    return NULL;
}

static void on_answer(struct worker_ask *ask)
{
    struct control *control = ask->context;
    struct control_client *client = find_client(control, ask->id);

    if (client == NULL) {
        free(ask);
        return;
    }
    control_send(client, &ask->out);
    if (ask->is_done) {
        ask->worker = ask->is_of_one_worker ? NULL : next_worker(control->server, ask->worker);
        ask->cursor = 0;
    }
    if (ask->worker == NULL) {
        end_with_limit(client, NULL, ask->limit);
        free(ask);
        return;
    }
    ask_on(client, ask);
}

void control_list(struct control_client *client, const struct control_listing *listing)
{
    const char *argument = listing->argument;
    struct server *server = client->control->server;
    struct worker_ask *ask = calloc(1, sizeof(struct worker_ask));

    if (ask == NULL || strlen(argument) >= sizeof(ask->argument)) {
        free(ask);
        control_end(client, ask == NULL ? "out of memory" : "argument too long");
        return;
    }
    ask->run = listing->run;
    ask->is_of_one_worker = listing->is_of_one_worker;
    if (listing->limit != NULL) {
        (void)snprintf(ask->limit, sizeof(ask->limit), "%s for each of %u worker%s", listing->limit,
                       server->worker_count, server->worker_count == 1 ? "" : "s");
    }
    ask->on_answer = on_answer;
    ask->context = client->control;
    ask->id = client->id;
    ask->answer_to = server->loop;
    ask->worker = server->workers[0];
    memcpy(ask->argument, argument, strlen(argument) + 1);
    ask_on(client, ask);
}

/* ---- answers that come later ---- */

void control_finish(struct server *server, uint64_t id, const char *error)
{
    struct control_client *client =
        server->control != NULL ? find_client(server->control, id) : NULL;

    if (client != NULL) {
        control_end(client, error);
    }
}

int control_descriptor(const struct server *server, uint64_t id)
{
    const struct control_client *client =
        server->control != NULL ? find_client(server->control, id) : NULL;

    return client != NULL ? conn_descriptor(client->conn) : -1;
}

/* ---- the live trace ---- */

static void put_known(struct json_writer *line, const char *key, const char *text)
{
    if (text[0] != '\0') {
        json_text(line, key, text);
    }
}

static void put_fields(struct json_writer *line, const struct worker_block *block)
{
    char ms[32];

    json_text(line, "client", block->client);
    put_known(line, "identity", block->identity);
    json_text(line, "target", block->target);
    json_text(line, "reason", block->reason);
    put_known(line, "code", block->code);
    put_known(line, "method", block->method);
    put_known(line, "form", block->form);
    put_known(line, "rule", block->rule);
    put_known(line, "route", block->route);
    put_known(line, "cache", block->cache);
    put_known(line, "origin", block->origin);
    if (block->exchange != 0) {
        json_uint(line, "exchange", block->exchange);
        (void)snprintf(ms, sizeof(ms), "%llu.%03u", (unsigned long long)(block->us / 1000),
                       (unsigned)(block->us % 1000));
        json_text(line, "ms", ms);
    }
}

static void on_block(struct worker_block *block)
{
    struct control *control = block->context;
    struct control_client *client = find_client(control, block->id);
    static char buffer[65536]; /* the main thread's alone */
    struct json_writer line;

    if (client != NULL && client->is_tracing && client->is_full) {
        client->lost += 1 + block->lost;
    } else if (client != NULL && client->is_tracing) {
        json_writer_init(&line, buffer, sizeof(buffer));
        json_begin(&line);
        put_fields(&line, block);
        json_uint(&line, "lost", client->lost + block->lost);
        json_text_len(&line, "text", block->text, block->text_len);
        (void)json_end(&line);
        client->lost = 0;
        control_send(client, &line);
    }
    worker_block_free(block);
}

static bool take_filter(char to[TRACE_FILTER_MAX], const char *text)
{
    size_t len = strlen(text);

    if (len < TRACE_FILTER_MAX) {
        memcpy(to, text, len + 1);
    }
    return len < TRACE_FILTER_MAX;
}

void control_trace(struct control_client *client, const struct control_filter *filter)
{
    struct control *control = client->control;
    struct worker_tap tap = {.id = client->id,
                             .answer_to = control->server->loop,
                             .on_block = on_block,
                             .context = control};

    if (control->tracing_count == TRACE_TAPS_MAX) {
        control_end(client, "too many traces are running");
        return;
    }
    if (!take_filter(tap.client, filter->client) || !take_filter(tap.target, filter->target) ||
        !take_filter(tap.reason, filter->reason) || !take_filter(tap.identity, filter->identity)) {
        control_end(client, "filter too long");
        return;
    }
    client->is_tracing = true;
    control->tracing_count++;
    for (unsigned i = 0; i < control->server->worker_count; i++) {
        (void)worker_tap(control->server->workers[i], &tap);
    }
    conn_pause(client->conn, false); /* to hear when it goes */
}

static void stop_tracing(struct control_client *client)
{
    struct control *control = client->control;

    if (!client->is_tracing) {
        return;
    }
    client->is_tracing = false;
    control->tracing_count--;
    for (unsigned i = 0; i < control->server->worker_count; i++) {
        worker_untap(control->server->workers[i], client->id);
    }
}

/* ---- messages ---- */

static void put_lost(struct control_client *client)
{
    char buffer[64];
    struct json_writer line;

    json_writer_init(&line, buffer, sizeof(buffer));
    json_begin(&line);
    json_uint(&line, "lost", client->lost);
    (void)json_end(&line);
    client->lost = 0;
    control_send(client, &line);
}

static void on_lines(struct worker_lines *lines)
{
    struct control *control = lines->context;
    struct control_client *client = find_client(control, lines->id);

    if (client != NULL && client->is_capturing && client->is_full) {
        client->lost += lines->count;
    } else if (client != NULL && client->is_capturing) {
        if (client->lost > 0) {
            put_lost(client);
        }
        control_send(client, &lines->out);
    }
    worker_lines_free(lines);
}

void control_capture(struct control_client *client, const struct control_capture *wanted)
{
    struct control *control = client->control;
    struct worker_capture capture = {.id = client->id,
                                     .has_clients = wanted->has_clients,
                                     .has_origins = wanted->has_origins,
                                     .answer_to = control->server->loop,
                                     .on_lines = on_lines,
                                     .context = control};

    if (control->capturing_count == CAPTURE_TAPS_MAX) {
        control_end(client, "too many captures are running");
        return;
    }
    if (!take_filter(capture.client, wanted->client) ||
        !take_filter(capture.origin, wanted->origin)) {
        control_end(client, "filter too long");
        return;
    }
    client->is_capturing = true;
    control->capturing_count++;
    for (unsigned i = 0; i < control->server->worker_count; i++) {
        (void)worker_capture(control->server->workers[i], &capture);
    }
    conn_pause(client->conn, false); /* to hear when it goes */
}

static void stop_capturing(struct control_client *client)
{
    struct control *control = client->control;

    if (!client->is_capturing) {
        return;
    }
    client->is_capturing = false;
    control->capturing_count--;
    for (unsigned i = 0; i < control->server->worker_count; i++) {
        worker_uncapture(control->server->workers[i], client->id);
    }
}

/* ---- lines in ---- */

static void take_line(struct control_client *client, const char *line, size_t len)
{
    char memory[REQUEST_MAX + 2 * JSON_MEMBERS_MAX];
    struct json_object object;
    struct control_request request = {.command = NULL};

    client->is_busy = true;
    conn_pause(client->conn, true);
    if (json_read(line, len, memory, sizeof(memory), &object)) {
        request.command = json_get(&object, "command");
    }
    if (request.command == NULL) {
        control_end(client, "expected one JSON object with a command");
        return;
    }
    for (size_t i = 0; i < CONTROL_ARGUMENTS_MAX; i++) {
        char key[24];
        (void)snprintf(key, sizeof(key), "argument%zu", i + 1);
        const char *argument = json_get(&object, key);
        request.arguments[i] = argument == NULL ? "" : argument;
        request.argument_count = argument == NULL ? request.argument_count : i + 1;
    }
    control_run(client, &request);
}

static size_t control_on_input(void *context, struct conn *conn, const uint8_t *data, size_t len)
{
    struct control_client *client = context;
    size_t used = 0;

    (void)conn;
    if (client->is_tracing || client->is_capturing) {
        stop_tracing(client);
        stop_capturing(client);
        control_end(client, NULL);
    }
    while (!client->is_busy && !client->is_full && used < len) {
        const uint8_t *end = memchr(data + used, '\n', len - used);
        size_t line_len = end == NULL ? len - used : (size_t)(end - data) - used;
        if (line_len > REQUEST_MAX) {
            return SIZE_MAX;
        }
        if (end == NULL) {
            break;
        }
        take_line(client, (const char *)data + used, line_len);
        used += line_len + 1;
    }
    return used;
}

/* ---- connections ---- */

static void *control_on_open(void *listener_context, struct conn *conn)
{
    struct control *control = listener_context;

    enum control_level level = level_of(control, conn);

    if (level == CONTROL_NOTHING) {
        log_plain(LOG_WARNING, "control_refused");
        return NULL;
    }
    struct control_client *client = calloc(1, sizeof(struct control_client));
    if (client == NULL) {
        return NULL;
    }
    *client = (struct control_client){.server = control->server,
                                      .control = control,
                                      .level = level,
                                      .next = control->clients,
                                      .link = &control->clients,
                                      .conn = conn,
                                      .id = ++control->last_id};
    if (control->clients != NULL) {
        control->clients->link = &client->next;
    }
    control->clients = client;
    return client;
}

static void control_on_drained(void *context, struct conn *conn)
{
    struct control_client *client = context;
    struct worker_ask *ask = client->ask;

    (void)conn;
    client->is_full = false;
    client->ask = NULL;
    if (ask != NULL) {
        ask_on(client, ask);
    } else if (!client->is_busy) {
        conn_pause(client->conn, false);
    }
}

static void control_on_close(void *context, struct conn *conn, const char *why)
{
    struct control_client *client = context;

    (void)conn;
    (void)why;
    stop_tracing(client);
    stop_capturing(client);
    *client->link = client->next;
    if (client->next != NULL) {
        client->next->link = client->link;
    }
    free(client->ask);
    free(client);
}

/* ---- the listener ---- */

int server_control_open(struct server *server)
{
    static const struct conn_handler handler = {.on_open = control_on_open,
                                                .on_input = control_on_input,
                                                .on_drained = control_on_drained,
                                                .on_close = control_on_close};
    const char *path = server_config(server)->admin_socket;
    struct control *control = path[0] == '\0' ? NULL : calloc(1, sizeof(struct control));

    if (control == NULL) {
        return path[0] == '\0' ? 0 : -ENOMEM;
    }
    control->server = server;
    server->control = control;
    int error = find_groups(server_config(server), control);
    if (error != 0) {
        return error;
    }
    /* A file has one group. With groups of their own, all may connect: the level of a client
     * decides. */
    bool has_groups = server_config(server)->admin_operate_group[0] != '\0' ||
                      server_config(server)->admin_look_group[0] != '\0';
    int fd = bind_unix(path, has_groups ? SOCKET_MODE_FOR_GROUPS : SOCKET_MODE);
    const struct conn_options options = {
        .transport = TRANSPORT_TCP,
        .fd = fd,
        .connections_max = CLIENTS_MAX,
        .handshake_ms = REQUEST_MS,
        .idle_ms = IDLE_MS,
        .input_max = 2 * REQUEST_MAX,
        .output_max = OUTPUT_MAX,
        .write_ms = WRITE_MS,
    };
    error = fd;
    if (fd >= 0) {
        control->path = strdup(path); /* ours to remove from now on */
        error = conn_listen(server->loop, &options, &handler, control, &control->listener);
    }
    if (error != 0) {
        log_event(LOG_ERROR, "admin_failed", "key=admin.socket value=%s error=\"%s\"", path,
                  strerror(-error));
        return error;
    }
    log_event(LOG_INFO, "control_listening", "path=%s", path);
    return 0;
}

void server_control_close(struct server *server)
{
    struct control *control = server->control;

    if (control == NULL) {
        return;
    }
    conn_close_listener(control->listener);
    if (control->path != NULL) {
        (void)unlink(control->path);
    }
    free(control->path);
    free(control);
    server->control = NULL;
}
