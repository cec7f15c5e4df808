/* SPDX-License-Identifier: BSD-2-Clause */
/* The Unix socket that criproxyctl talks to, on the main thread's loop: lines in and out. */
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

struct control_socket {
    struct server *server;
    struct control_group look, operate;
    struct conn_listener *listener;
    char *path;
};

/* A connection. */
struct socket_client {
    struct control_client client;
    struct conn *conn;
};

static struct socket_client *socket_client_of(struct control_client *client)
{
    return (struct socket_client *)(void *)client; /* its first member */
}

/* ---- the rights of a client ---- */

static bool is_in(const struct conn *conn, const struct control_group *group)
{
    return group->is_set && conn_process_has_group(conn, group->id);
}

static enum control_level level_of(const struct control_socket *control, const struct conn *conn)
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
static int find_groups(const struct config *config, struct control_socket *control)
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

static bool socket_send(struct control_client *client, const char *data, size_t len)
{
    return conn_send(socket_client_of(client)->conn, (const uint8_t *)data, len);
}

static void socket_end(struct control_client *client, const struct json_writer *last,
                       const char *error)
{
    (void)error;
    control_send(client, last);
    if (!client->is_full) {
        conn_pause(socket_client_of(client)->conn, false); /* the next request may have come */
    }
}

static void socket_listen(struct control_client *client)
{
    conn_pause(socket_client_of(client)->conn, false);
}

static int socket_descriptor(const struct control_client *client)
{
    return conn_descriptor(((const struct socket_client *)(const void *)client)->conn);
}

static const struct control_way socket_way = {
    .send = socket_send,
    .end = socket_end,
    .listen = socket_listen,
    .descriptor = socket_descriptor,
    .not_allowed = "not allowed: that takes root, or the group of admin.operate-group",
};

/* ---- lines in ---- */

static void take_line(struct socket_client *from, const char *line, size_t len)
{
    struct control_client *client = &from->client;
    char memory[REQUEST_MAX + 2 * JSON_MEMBERS_MAX];
    struct json_object object;
    struct control_request request = {.command = NULL};

    client->is_busy = true;
    conn_pause(from->conn, true);
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
    struct socket_client *from = context;
    const struct control_client *client = &from->client;
    size_t used = 0;

    (void)conn;
    control_stop(&from->client);
    while (!client->is_busy && !client->is_full && used < len) {
        const uint8_t *end = memchr(data + used, '\n', len - used);
        size_t line_len = end == NULL ? len - used : (size_t)(end - data) - used;
        if (line_len > REQUEST_MAX) {
            return SIZE_MAX;
        }
        if (end == NULL) {
            break;
        }
        take_line(from, (const char *)data + used, line_len);
        used += line_len + 1;
    }
    return used;
}

/* ---- connections ---- */

static void *control_on_open(void *listener_context, struct conn *conn)
{
    const struct control_socket *control = listener_context;

    enum control_level level = level_of(control, conn);

    if (level == CONTROL_NOTHING) {
        log_plain(LOG_WARNING, "control_refused");
        return NULL;
    }
    struct socket_client *client = calloc(1, sizeof(struct socket_client));
    if (client == NULL) {
        return NULL;
    }
    control_init(&client->client, control->server, &socket_way, level);
    client->conn = conn;
    return client;
}

static void control_on_drained(void *context, struct conn *conn)
{
    struct socket_client *from = context;

    control_drained(&from->client);
    if (!from->client.is_busy && !from->client.is_full) {
        conn_pause(conn, false);
    }
}

static void control_on_close(void *context, struct conn *conn, const char *why)
{
    struct socket_client *from = context;

    (void)conn;
    (void)why;
    control_clear(&from->client);
    free(from);
}

/* ---- the listener ---- */

int server_control_open(struct server *server)
{
    static const struct conn_handler handler = {.on_open = control_on_open,
                                                .on_input = control_on_input,
                                                .on_drained = control_on_drained,
                                                .on_close = control_on_close};
    const char *path = server_config(server)->admin_socket;
    struct control_socket *control =
        path[0] == '\0' ? NULL : calloc(1, sizeof(struct control_socket));

    if (control == NULL) {
        return path[0] == '\0' ? 0 : -ENOMEM;
    }
    control->server = server;
    server->control_socket = control;
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
    struct control_socket *control = server->control_socket;

    if (control == NULL) {
        return;
    }
    conn_close_listener(control->listener);
    if (control->path != NULL) {
        (void)unlink(control->path);
    }
    free(control->path);
    free(control);
    server->control_socket = NULL;
}
