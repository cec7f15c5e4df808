/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Metrics, health, the page for browsers and its JSON interface over HTTP, on the main thread's
 * loop. Reads the workers' counters, which any thread may; never waits for a worker.
 */
#include "server/admin_api.h"

#include "base/log.h"
#include "conf/admin_listen.h"
#include "net/http.h"
#include "ops/prometheus.h"
#include "server/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64u
#define IDLE_S 10u
#define SOCKET_MODE 0660u

struct admin_http {
    struct http_server *http;
    char *path;    /* of a Unix socket, to be removed; or NULL */
    bool is_local; /* only processes of this host reach it */
};

/* ---- what is told ---- */

static bool write_metrics(const struct server *server, struct http_answer *answer)
{
    struct metrics *sum = calloc(1, sizeof(struct metrics));
    FILE *out = sum == NULL ? NULL : open_memstream(&answer->body, &answer->body_len);

    if (out == NULL) {
        free(sum);
        return false;
    }
    struct process_status status = server_status(server);
    server_sum_metrics(server, sum);
    process_status_measure(&status);
    prometheus_write(out, sum, &status);
    server_write_certificates(server, out);
    free(sum);
    bool is_whole = ferror(out) == 0;
    return fclose(out) == 0 && is_whole;
}

static void say(struct http_answer *answer, unsigned status, const char *text)
{
    answer->status = status;
    answer->body = strdup(text); /* without memory it is a 500 */
    answer->body_len = strlen(text);
}

/* The whole file: it is small, and asked for once by each person who opens it. */
static void give_page(struct http_answer *answer, const struct page_file *file)
{
    answer->body = malloc(file->len);
    if (answer->body != NULL) { /* without memory it is a 500 */
        memcpy(answer->body, file->body, file->len);
        answer->body_len = file->len;
        answer->status = 200;
        answer->type = file->type;
        answer->security_policy = PAGE_SECURITY_POLICY;
    }
}

static void refuse_browser(struct http_answer *answer, unsigned status)
{
    say(answer, status,
        status == 400   ? "the query is malformed\n"
        : status == 403 ? "this is not for pages of other sites\n"
        : status == 404 ? "not found; " ADMIN_API "help lists the commands\n"
        : status == 405 ? "not by this method\n"
        : status == 421 ? "the host is not served: see admin.hosts\n"
        : status == 503 ? "too many requests at a time\n"
                        : "out of memory\n");
}

/* A link of another site may lead to the page, which cannot be put into a frame. */
static bool is_link(const struct http_request *request)
{
    return request->origin == NULL && request->fetch_mode != NULL &&
           strcmp(request->fetch_mode, "navigate") == 0 && strcmp(request->path, "/") == 0;
}

/* The page, its files, and the JSON interface. @p page NULL: it is that. */
static void answer_browser(struct server *server, const struct http_request *request,
                           const struct page_file *page, struct http_answer *answer)
{
    unsigned status = 0;

    if (!admin_is_own_host(server_config(server), request->host)) {
        status = 421;
    } else if (!admin_is_own_page(request) && (page == NULL || !is_link(request))) {
        status = 403;
    } else if (page == NULL) {
        status = admin_api_run(server, request, answer);
    } else if (request->method != HTTP_GET && request->method != HTTP_HEAD) {
        status = 405;
    } else {
        give_page(answer, page);
    }
    if (status != 0) {
        refuse_browser(answer, status);
    }
}

static bool has_page(const struct server *server)
{
    enum config_admin_page page = server_config(server)->admin_page;

    return page == ADMIN_PAGE_YES || (page == ADMIN_PAGE_LOCAL && server->http->is_local);
}

static void on_admin_request(void *context, const struct http_request *request,
                             struct http_answer *ret_answer)
{
    struct server *server = context;
    bool is_metrics = strcmp(request->path, "/metrics") == 0;
    bool is_health = strcmp(request->path, "/healthz") == 0;
    bool is_readiness = strcmp(request->path, "/readyz") == 0;
    bool is_api = strncmp(request->path, ADMIN_API, sizeof(ADMIN_API) - 1) == 0;
    const struct page_file *page = page_find(request->path);

    if ((page != NULL || is_api) && has_page(server)) {
        answer_browser(server, request, page, ret_answer);
    } else if (!is_metrics && !is_health && !is_readiness) {
        say(ret_answer, 404, "not found: /metrics, /healthz, /readyz\n");
    } else if (request->method != HTTP_GET && request->method != HTTP_HEAD) {
        say(ret_answer, 405, "GET or HEAD\n");
    } else if (is_metrics) {
        ret_answer->type = PROMETHEUS_TYPE;
        ret_answer->status = write_metrics(server, ret_answer) ? 200 : 500;
    } else if (is_readiness && server->is_draining) {
        say(ret_answer, 503, "draining\n");
    } else {
        /* The loop that answers runs when everything has been started. */
        say(ret_answer, 200, is_readiness ? "ready\n" : "ok\n");
    }
}

/* ---- the listener ---- */

static int open_socket(struct admin_http *admin, const struct admin_listen *listen)
{
    if (listen->path == NULL) {
        return bind_socket(BIND_STREAM, &listen->address, false);
    }
    admin->path = strdup(listen->path);
    if (admin->path == NULL) {
        return -ENOMEM;
    }
    int fd = bind_unix(listen->path, SOCKET_MODE);
    if (fd < 0) {
        free(admin->path);
        admin->path = NULL; /* what is there is not ours */
    }
    return fd;
}

static void log_admin_listener(const struct admin_http *admin, const struct address *address)
{
    char text[ADDRESS_TEXT_MAX];

    if (admin->path != NULL) {
        log_event(LOG_INFO, "admin_listening", "path=%s", admin->path);
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
    const char *where = server_config(server)->admin_listen;
    struct admin_listen listen = {.path = NULL};

    if (where[0] == '\0' || !admin_listen_parse(where, &listen)) {
        return 0;
    }
    struct admin_http *admin = calloc(1, sizeof(struct admin_http));
    if (admin == NULL) {
        return -ENOMEM;
    }
    server->http = admin;
    struct address address = listen.address;
    struct http_options options = {.connections_max = CONNECTIONS_MAX, .idle_s = IDLE_S};
    options.fd = open_socket(admin, &listen);
    int error = options.fd < 0 ? options.fd : 0;
    if (error == 0 && admin->path == NULL) {
        (void)bind_address_of(options.fd, &address);
    }
    admin->is_local = admin->path != NULL || address_is_loopback(&address);
    if (error == 0) {
        error = http_serve(server->loop, &options, on_admin_request, server, &admin->http);
    }
    if (error != 0) {
        log_event(LOG_ERROR, "admin_failed", "key=admin.listen value=%s error=\"%s\"", where,
                  strerror(-error));
        return error;
    }
    log_admin_listener(admin, &address);
    return 0;
}

void server_http_close(struct server *server)
{
    struct admin_http *admin = server->http;

    if (admin == NULL) {
        return;
    }
    http_close(admin->http);
    if (admin->path != NULL) {
        (void)unlink(admin->path);
    }
    free(admin->path);
    free(admin);
    server->http = NULL;
}
