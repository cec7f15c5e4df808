/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of the administration, whatever brings them: what their answers are made of.
 *
 * A list is asked of the workers one piece after the other, each when the client has
 * taken the one before: a slow client costs no worker anything. A question that is out
 * knows its client by number only, so the client may go meanwhile.
 */
#include "server/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines out ---- */

void control_send(struct control_client *client, const struct json_writer *lines)
{
    if (lines->len > 0 && !client->way->send(client, lines->buffer, lines->len)) {
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
    (void)json_end(&line); /* always fits: errors are short */
    client->is_busy = false;
    client->way->end(client, &line, error); /* may free the client */
}

void control_end(struct control_client *client, const char *error)
{
    end_with_limit(client, error, "");
}

/* ---- lists ---- */

static struct control_client *find_client(const struct server *server, uint64_t id)
{
    struct control_client *client = server->control.clients;

    while (client != NULL && client->id != id) {
        client = client->next;
    }
    return client;
}

static void ask_on(struct control_client *client, struct worker_ask *ask)
{
    if (client->is_full) {
        client->ask = ask; /* control_drained() goes on with it */
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
    const struct server *server = ask->context;
    struct control_client *client = find_client(server, ask->id);

    if (client == NULL) {
        free(ask);
        return;
    }
    control_send(client, &ask->out);
    if (ask->is_done) {
        ask->worker = ask->is_of_one_worker ? NULL : next_worker(server, ask->worker);
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
    struct server *server = client->server;
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
    ask->context = server;
    ask->id = client->id;
    ask->answer_to = server->loop;
    ask->worker = server->workers[0];
    memcpy(ask->argument, argument, strlen(argument) + 1);
    ask_on(client, ask);
}

/* ---- answers that come later ---- */

void control_finish(struct server *server, uint64_t id, const char *error)
{
    struct control_client *client = find_client(server, id);

    if (client != NULL) {
        control_end(client, error);
    }
}

void control_tell(struct server *server, uint64_t id, const struct json_writer *line)
{
    struct control_client *client = find_client(server, id);

    if (client != NULL) {
        control_send(client, line);
    }
}

int control_descriptor(const struct server *server, uint64_t id)
{
    const struct control_client *client = find_client(server, id);

    return client != NULL ? client->way->descriptor(client) : -1;
}

/* ---- the live trace ---- */

/* What was left out since the client was last told. */
static void send_lost(struct control_client *client)
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

/* Not while the client is not reading. */
static void tell_lost(struct control_client *client)
{
    if (client->lost > 0 && !client->is_full) {
        send_lost(client);
    }
}

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
    struct control_client *client = find_client(block->context, block->id);
    static char buffer[65536]; /* the main thread's alone */
    struct json_writer line;

    if (client != NULL && client->is_tracing && block->is_lost_alone) {
        client->lost += block->lost;
        tell_lost(client);
    } else if (client != NULL && client->is_tracing && client->is_full) {
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
    struct server *server = client->server;
    struct worker_tap tap = {.id = client->id,
                             .per_s = filter->per_s,
                             .answer_to = server->loop,
                             .on_block = on_block,
                             .context = server};

    if (server->control.tracing_count == TRACE_TAPS_MAX) {
        control_end(client, "too many traces are running");
        return;
    }
    if (!take_filter(tap.client, filter->client) || !take_filter(tap.target, filter->target) ||
        !take_filter(tap.reason, filter->reason) || !take_filter(tap.identity, filter->identity)) {
        control_end(client, "filter too long");
        return;
    }
    client->is_tracing = true;
    server->control.tracing_count++;
    for (unsigned i = 0; i < server->worker_count; i++) {
        (void)worker_tap(server->workers[i], &tap);
    }
    client->way->listen(client);
}

static void stop_tracing(struct control_client *client)
{
    struct server *server = client->server;

    if (!client->is_tracing) {
        return;
    }
    client->is_tracing = false;
    server->control.tracing_count--;
    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_untap(server->workers[i], client->id);
    }
}

/* ---- filters ---- */

bool control_begins_address(const char *text)
{
    const char *zone = strchr(text, '%');
    size_t len = zone != NULL ? (size_t)(zone - text) : strlen(text);

    return strspn(text, "0123456789abcdef.:[]") >= len;
}

bool control_is_reason(const char *name)
{
    for (int i = REASON_none + 1; i < REASON_COUNT; i++) {
        if (strcmp(reason_row((enum reason)i)->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- messages ---- */

/* As many as the client reads; the others wait, as many as their worker lets (worker/capture.c). */
static void send_lines(struct control_client *client)
{
    while (client->lines != NULL && !client->is_full) {
        struct worker_lines *lines = client->lines;
        client->lines = lines->next;
        client->lost += worker_lines_lost(lines);
        control_send(client, &lines->out);
        tell_lost(client);
        worker_lines_free(lines);
    }
}

static void on_lines(struct worker_lines *lines)
{
    struct control_client *client = find_client(lines->context, lines->id);

    if (client == NULL || !client->is_capturing) {
        worker_lines_free(lines);
        return;
    }
    *(client->lines == NULL ? &client->lines : client->lines_end) = lines;
    client->lines_end = &lines->next;
    send_lines(client);
}

static void drop_lines(struct control_client *client)
{
    while (client->lines != NULL) {
        struct worker_lines *lines = client->lines;
        client->lines = lines->next;
        client->lost += lines->count + worker_lines_lost(lines);
        worker_lines_free(lines);
    }
}

void control_capture(struct control_client *client, const struct control_capture *wanted)
{
    struct server *server = client->server;
    struct worker_capture capture = {.id = client->id,
                                     .has_clients = wanted->has_clients,
                                     .has_origins = wanted->has_origins,
                                     .has_answers = wanted->has_answers,
                                     .answer_to = server->loop,
                                     .on_lines = on_lines,
                                     .context = server};

    if (server->control.capturing_count == CAPTURE_TAPS_MAX) {
        control_end(client, "too many captures are running");
        return;
    }
    if (!take_filter(capture.client, wanted->client) ||
        !take_filter(capture.origin, wanted->origin) ||
        !take_filter(capture.target, wanted->target)) {
        control_end(client, "filter too long");
        return;
    }
    client->is_capturing = true;
    server->control.capturing_count++;
    for (unsigned i = 0; i < server->worker_count; i++) {
        (void)worker_capture(server->workers[i], &capture);
    }
    client->way->listen(client);
    send_lost(client); /* none yet: criproxyctl knows by it that no error comes */
}

static void stop_capturing(struct control_client *client)
{
    struct server *server = client->server;

    if (!client->is_capturing) {
        return;
    }
    client->is_capturing = false;
    drop_lines(client);
    server->control.capturing_count--;
    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_uncapture(server->workers[i], client->id);
    }
}

/* ---- life of a client ---- */

void control_init(struct control_client *client, struct server *server,
                  const struct control_way *way, enum control_level level)
{
    struct control_clients *all = &server->control;

    *client = (struct control_client){.server = server,
                                      .way = way,
                                      .level = level,
                                      .next = all->clients,
                                      .link = &all->clients,
                                      .id = ++all->last_id};
    if (all->clients != NULL) {
        all->clients->link = &client->next;
    }
    all->clients = client;
}

void control_clear(struct control_client *client)
{
    stop_tracing(client);
    stop_capturing(client);
    *client->link = client->next;
    if (client->next != NULL) {
        client->next->link = client->link;
    }
    free(client->ask);
}

void control_stop(struct control_client *client)
{
    if (client->is_tracing || client->is_capturing) {
        stop_tracing(client);
        stop_capturing(client);
        tell_lost(client);
        client->lost = 0;
        control_end(client, NULL);
    }
}

void control_drained(struct control_client *client)
{
    struct worker_ask *ask = client->ask;

    client->is_full = false;
    client->ask = NULL;
    send_lines(client);
    if (ask != NULL) {
        ask_on(client, ask);
    } else {
        tell_lost(client);
    }
}
