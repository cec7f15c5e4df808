/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Metrics and health over HTTP, on the main thread's loop. Reads the workers'
 * counters, which any thread may; never waits for a worker. Connections are bounded
 * in number, in idle time and in what waits for a slow reader.
 */
#include "server_internal.h"

#include "conf/place.h"
#include "net/conn.h"
#include "net/loop.h"
#include "ops/http.h"
#include "ops/log.h"
#include "ops/prometheus.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64u
#define IDLE_MS 60000u
#define REQUEST_MS 10000u /* the first request of a connection has to be whole by then */
#define WRITE_MS 10000u
#define OUTPUT_MAX (256u * 1024u)
#define SOCKET_MODE 0660u

struct http_server {
    struct server *server;
    struct conn_listener *listener;
    char *path; /* of a Unix socket, to be removed; or NULL */
};

/* A body, made by open_memstream(). */
struct body {
    char *text;
    size_t len;
};

/* ---- what is told ---- */

static bool write_metrics(const struct server *server, struct body *ret_body)
{
    struct metrics *sum = calloc(1, sizeof(struct metrics));
    FILE *out = sum == NULL ? NULL : open_memstream(&ret_body->text, &ret_body->len);

    if (out == NULL) {
        free(sum);
        return false;
    }
    struct process_status status = server_status(server);
    server_sum_metrics(server, sum);
    process_status_measure(&status);
    prometheus_write(out, sum, &status);
    free(sum);
    bool is_whole = ferror(out) == 0;
    return fclose(out) == 0 && is_whole;
}

static bool copy_text(const char *text, struct body *ret_body)
{
    ret_body->text = strdup(text);
    ret_body->len = strlen(text);
    return ret_body->text != NULL;
}

/* The status; @p ret_body is to be freed. */
static unsigned answer(const struct server *server, const struct http_request *request,
                       struct body *ret_body, const char **ret_type)
{
    bool is_metrics = strcmp(request->path, "/metrics") == 0;
    bool is_health = strcmp(request->path, "/healthz") == 0;
    bool is_readiness = strcmp(request->path, "/readyz") == 0;

    *ret_type = is_metrics ? PROMETHEUS_TYPE : "text/plain; charset=utf-8";
    if (!is_metrics && !is_health && !is_readiness) {
        return copy_text("not found: /metrics, /healthz, /readyz\n", ret_body) ? 404 : 500;
    }
    if (request->method == HTTP_OTHER) {
        return copy_text("GET or HEAD\n", ret_body) ? 405 : 500;
    }
    if (is_metrics) {
        return write_metrics(server, ret_body) ? 200 : 500;
    }
    if (is_health) {
        return copy_text("ok\n", ret_body) ? 200 : 500;
    }
    /* The loop that answers runs when everything has been started: there is no third case. */
    bool serves = !server->is_draining;
    return !copy_text(serves ? "ready\n" : "draining\n", ret_body) ? 500 : serves ? 200 : 503;
}

/* ---- connections ---- */

static bool send_response(const struct http_server *http, struct conn *conn,
                          const struct http_request *request)
{
    struct body body = {.text = NULL};
    const char *type;
    char head[HTTP_HEAD_MAX];
    unsigned status = answer(http->server, request, &body, &type);
    size_t body_len = body.text == NULL ? 0 : body.len;
    bool keep_alive = request->keep_alive && status != 500;
    size_t head_len = http_format_head(head, status, type, body_len, keep_alive);
    bool goes_on = conn_send(conn, (const uint8_t *)head, head_len);

    if (request->method != HTTP_HEAD && body_len > 0) {
        goes_on = conn_send(conn, (const uint8_t *)body.text, body_len) && goes_on;
    }
    free(body.text);
    /* Who does not take what it has asked for is not answered more. */
    return keep_alive && goes_on;
}

static void *on_open(void *listener_context, struct conn *conn)
{
    (void)conn;
    return listener_context;
}

static size_t on_input(void *context, struct conn *conn, const uint8_t *data, size_t len)
{
    const struct http_server *http = context;
    struct http_request request;
    size_t used = 0, request_len = 0;

    while (used < len) {
        char head[HTTP_HEAD_MAX];
        switch (http_parse(data + used, len - used, &request_len, &request)) {
        case HTTP_MORE:
            return used;
        case HTTP_BAD:
            request_len = http_format_head(head, 400, "text/plain; charset=utf-8", 0, false);
            (void)conn_send(conn, (const uint8_t *)head, request_len);
            conn_close(conn);
            return len;
        case HTTP_OK:
            used += request_len;
            if (!send_response(http, conn, &request)) {
                conn_close(conn);
                return len;
            }
            break;
        }
    }
    return used;
}

static void on_drained(void *context, struct conn *conn)
{
    (void)context;
    (void)conn;
}

static void on_close(void *context, struct conn *conn, const char *why)
{
    (void)context;
    (void)conn;
    (void)why;
}

/* ---- the listener ---- */

static int open_socket(struct http_server *http, const struct config_place *place)
{
    if (place->path == NULL) {
        return bind_stream(&place->address, false);
    }
    http->path = strdup(place->path);
    if (http->path == NULL) {
        return -ENOMEM;
    }
    int fd = bind_unix(place->path, SOCKET_MODE);
    if (fd < 0) {
        free(http->path);
        http->path = NULL; /* what is there is not ours */
    }
    return fd;
}

static void log_place(const struct http_server *http)
{
    const struct address *address = conn_listener_local(http->listener);
    char text[ADDRESS_TEXT_MAX];

    if (http->path != NULL) {
        log_event(LOG_INFO, "admin_listening", "path=%s", http->path);
        return;
    }
    (void)address_format(address, text);
    log_event(LOG_INFO, "admin_listening", "uri=http://%s", text);
    if (!address_is_loopback(address)) {
        log_event(LOG_WARNING, "admin_exposed", "uri=http://%s", text);
    }
}

int server_http_open(struct server *server)
{
    static const struct conn_handler handler = {
        .on_open = on_open, .on_input = on_input, .on_drained = on_drained, .on_close = on_close};
    const char *where = server_config(server)->admin_listen;
    struct config_place place = {.path = NULL};

    if (where[0] == '\0' || !config_place_parse(where, &place)) {
        return 0;
    }
    struct http_server *http = calloc(1, sizeof(struct http_server));
    if (http == NULL) {
        return -ENOMEM;
    }
    http->server = server;
    server->http = http;
    int fd = open_socket(http, &place);
    const struct conn_options options = {
        .kind = CONN_TCP,
        .fd = fd,
        .connections_max = CONNECTIONS_MAX,
        .handshake_ms = REQUEST_MS,
        .idle_ms = IDLE_MS,
        .input_max = HTTP_REQUEST_MAX,
        .output_max = OUTPUT_MAX,
        .write_ms = WRITE_MS,
    };
    int error = fd < 0 ? fd : conn_listen(server->loop, &options, &handler, http, &http->listener);
    if (error != 0) {
        log_event(LOG_ERROR, "admin_failed", "key=admin.listen error=\"%s\"", strerror(-error));
        return error;
    }
    log_place(http);
    return 0;
}

void server_http_close(struct server *server)
{
    struct http_server *http = server->http;

    if (http == NULL) {
        return;
    }
    conn_close_listener(http->listener);
    if (http->path != NULL) {
        (void)unlink(http->path);
    }
    free(http->path);
    free(http);
    server->http = NULL;
}
