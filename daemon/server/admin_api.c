/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The JSON interface of admin.listen: commands of criproxyctl over HTTP, with the lines that it
 * gets, too (server/control.h). docs/ADMIN.md describes it.
 */
#include "server/admin_api.h"

#include "base/address.h"
#include "server/control.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LINES_TYPE "application/x-ndjson"
#define EVENTS_TYPE "text/event-stream"

/* In the name of a field of an event stream, and behind it. */
#define EVENT_BEGIN "data: "
#define EVENT_END "\n\n"

/* A request, to the end of its answer. */
struct api_client {
    struct control_client client;
    struct http_stream *stream;
    bool has_begun, is_events;
};

/* ---- whose requests are answered ---- */

/* "h", "h:80": without the port. 0: what is behind the name is none. */
static size_t host_name_len(const char *host)
{
    size_t len = strcspn(host, ":");
    const char *port = host + len + (host[len] != '\0');
    return port[strspn(port, "0123456789")] == '\0' ? len : 0;
}

bool admin_is_own_host(const struct config *config, const char *host)
{
    struct address address;
    size_t len = host == NULL ? 0 : host_name_len(host);

    if (host == NULL) {
        return false;
    }
    if (address_parse(host, strlen(host), 80, &address) ||
        (len == strlen("localhost") && strncasecmp(host, "localhost", len) == 0)) {
        return true;
    }
    for (size_t i = 0; i < config->admin_hosts.count; i++) {
        const char *own = config->admin_hosts.items[i];
        if (len == strlen(own) && len > 0 && strncasecmp(host, own, len) == 0) {
            return true;
        }
    }
    return false;
}

bool admin_is_own_page(const struct http_request *request)
{
    static const char scheme[] = "http://";

    if (request->origin != NULL &&
        (strncmp(request->origin, scheme, sizeof(scheme) - 1) != 0 ||
         strcasecmp(request->origin + sizeof(scheme) - 1, request->host) != 0)) {
        return false;
    }
    return request->fetch_site == NULL || strcmp(request->fetch_site, "same-origin") == 0 ||
           strcmp(request->fetch_site, "none") == 0;
}

/* ---- answers ---- */

/* Each line as an event; false without memory. */
static bool send_events(struct http_stream *stream, const char *lines, size_t len)
{
    const size_t more = sizeof(EVENT_BEGIN) - 1 + sizeof(EVENT_END) - 1;
    size_t count = 0, used = 0;

    for (size_t i = 0; i < len; i++) {
        count += lines[i] == '\n';
    }
    char *events = malloc(len + count * more + 1);
    if (events == NULL) {
        return false;
    }
    for (size_t at = 0; at < len;) {
        const char *end = memchr(lines + at, '\n', len - at);
        size_t line_len = end == NULL ? len - at : (size_t)(end - lines) - at;
        memcpy(events + used, EVENT_BEGIN, sizeof(EVENT_BEGIN) - 1);
        memcpy(events + used + sizeof(EVENT_BEGIN) - 1, lines + at, line_len);
        used += sizeof(EVENT_BEGIN) - 1 + line_len;
        memcpy(events + used, EVENT_END, sizeof(EVENT_END) - 1);
        used += sizeof(EVENT_END) - 1;
        at += line_len + 1;
    }
    bool has_room = http_stream_send(stream, events, used);
    free(events);
    return has_room;
}

static void api_begin(struct api_client *api, unsigned status)
{
    if (!api->has_begun) {
        api->has_begun = true;
        http_stream_begin(api->stream, status, api->is_events ? EVENTS_TYPE : LINES_TYPE,
                          api->is_events);
    }
}

static bool api_send(struct control_client *client, const char *data, size_t len)
{
    struct api_client *api = (struct api_client *)(void *)client;

    api_begin(api, 200);
    return api->is_events ? send_events(api->stream, data, len)
                          : http_stream_send(api->stream, data, len);
}

/* Of events the status is known before their end is: it has an event of its own. */
static void api_end(struct control_client *client, const struct json_writer *last,
                    const char *error)
{
    struct api_client *api = (struct api_client *)(void *)client;
    bool is_allowed = error == NULL || strcmp(error, client->way->not_allowed) != 0;

    api_begin(api, error == NULL || api->is_events ? 200 : is_allowed ? 400 : 403);
    if (api->is_events) {
        static const char name[] = "event: end\n";
        (void)http_stream_send(api->stream, name, sizeof(name) - 1);
        (void)send_events(api->stream, last->buffer, last->len);
    } else {
        (void)http_stream_send(api->stream, last->buffer, last->len);
    }
    http_stream_end(api->stream);
    control_clear(client);
    free(api);
}

/* The head tells the client that it is heard. */
static void api_listen(struct control_client *client)
{
    api_begin((struct api_client *)(void *)client, 200);
}

static int api_descriptor(const struct control_client *client)
{
    (void)client;
    return -1;
}

static const struct control_way api_way = {
    .send = api_send,
    .end = api_end,
    .listen = api_listen,
    .descriptor = api_descriptor,
    .not_allowed = "not allowed: that takes POST, and admin.operate = yes",
};

static void api_on_drained(void *context)
{
    struct api_client *api = context;

    control_drained(&api->client);
}

static void api_on_gone(void *context)
{
    struct api_client *api = context;

    control_clear(&api->client);
    free(api);
}

static const struct http_stream_handler api_handler = {
    .on_drained = api_on_drained,
    .on_gone = api_on_gone,
};

/* ---- requests ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* In place, as forms of web pages are encoded; false where it is not, or has a NUL. */
static bool decode_in_place(char *text)
{
    char *to = text;

    for (const char *at = text; *at != '\0'; to++) {
        bool is_escape = *at == '%';
        int high = is_escape ? hex_digit(at[1]) : 0;
        int low = is_escape && high >= 0 ? hex_digit(at[2]) : 0;
        if (high < 0 || low < 0 || (is_escape && high + low == 0)) {
            return false;
        }
        *to = is_escape ? (char)(high * 16 + low) : *at == '+' ? ' ' : *at;
        at += is_escape ? 3 : 1;
    }
    *to = '\0';
    return true;
}

/*
 * "argument=A&key=B" as the arguments "A" and "key=B". @p query is changed, and borrowed by the
 * request. False where it is malformed, or there are too many.
 */
static bool take_query(char *query, struct control_request *request)
{
    static const char plain[] = "argument=";
    char *rest = query, *part;

    for (size_t i = 0; i < CONTROL_ARGUMENTS_MAX; i++) {
        request->arguments[i] = "";
    }
    while ((part = strsep(&rest, "&")) != NULL) {
        bool is_plain = strncmp(part, plain, sizeof(plain) - 1) == 0;
        if (part[0] == '\0') {
            continue;
        }
        if (request->argument_count == CONTROL_ARGUMENTS_MAX || !decode_in_place(part)) {
            return false;
        }
        request->arguments[request->argument_count++] = part + (is_plain ? sizeof(plain) - 1 : 0);
    }
    return true;
}

static bool fits_method(enum control_web web, enum http_method method)
{
    return (method == HTTP_GET && web != WEB_POST) ||
           (method == HTTP_POST && (web == WEB_POST || web == WEB_BOTH));
}

/* 0, or the status with which it is refused. */
static unsigned run_over_http(struct server *server, const struct http_request *request,
                              const char *name, char *query)
{
    struct control_request asked = {.command = name};
    bool is_operator = request->method == HTTP_POST && server_config(server)->admin_operate;

    if (!take_query(query, &asked)) {
        return 400;
    }
    struct api_client *api = calloc(1, sizeof(*api));
    struct http_stream *stream = api == NULL ? NULL : http_stream_open(request, &api_handler, api);
    if (stream == NULL) {
        free(api);
        return 503;
    }
    control_init(&api->client, server, &api_way, is_operator ? CONTROL_OPERATE : CONTROL_LOOK);
    api->stream = stream;
    api->is_events = control_web_of(name) == WEB_EVENTS;
    api->client.is_busy = true;
    control_run(&api->client, &asked);
    return 0;
}

unsigned admin_api_run(struct server *server, const struct http_request *request,
                       struct http_answer *answer)
{
    const char *name = request->path + sizeof(ADMIN_API) - 1;
    enum control_web web = control_web_of(name);

    if (web == WEB_NO) {
        return 404;
    }
    if (!fits_method(web, request->method)) {
        answer->allow = web == WEB_POST ? "POST" : web == WEB_BOTH ? "GET, POST" : "GET";
        return 405;
    }
    char *query = strdup(request->query);
    unsigned status = query == NULL ? 500 : run_over_http(server, request, name, query);
    free(query);
    answer->is_streamed = status == 0;
    return status;
}
