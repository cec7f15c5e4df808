/* SPDX-License-Identifier: BSD-2-Clause */
/* What criproxyctl can ask for; one function a row of ops/commands.def. */
#include "server/control.h"

#include "base/arena.h"
#include "base/arguments.h"
#include "base/log.h"
#include "client/explain.h"
#include "net/libraries.h"
#include "ops/closed.h"
#include "ops/sketch.h"
#include "policy/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_BYTES 65536u

#define CANNOT_STAY "the proxy is stopping: only drain stay can be taken back"

typedef void (*command_fn)(struct control_client *client, const struct control_request *request);

struct command {
    const char *name, *arguments, *help;
    enum control_level level;
    enum control_web web;
    command_fn run;
};

/* Where the values begin in what explain_target() writes. */
#define EXPLAIN_COLUMN 11u

/* ---- what the main thread knows ---- */

/* Until the first certificate of ours expires; since then, where it has. */
static void put_certificate_days(struct json_writer *line, const struct server *server)
{
    int64_t days = 0;

    if (!server_certificate_days(server, &days)) {
        return;
    }
    json_bool(line, "certificate_expired", days < 0);
    json_uint(line, "certificate_days_left", days < 0 ? 0 : (uint64_t)days);
}

static void run_status(struct control_client *client, const struct control_request *request)
{
    struct server *server = client->server;
    struct process_status status = server_status(server);
    struct metrics *sum = calloc(1, sizeof(struct metrics));
    char buffer[2048];
    struct json_writer line;

    (void)request;
    if (sum == NULL) {
        control_end(client, "out of memory");
        return;
    }
    server_sum_metrics(server, sum);
    process_status_measure(&status);
    json_writer_init(&line, buffer, sizeof(buffer));
    json_begin(&line);
    json_text(&line, "version", status.version);
    json_text(&line, "state", server->is_draining ? "draining" : "ready");
    json_uint(&line, "uptime_s", (uint64_t)(server_wall_clock_s() - status.started_s));
    json_uint(&line, "workers", status.workers);
    json_uint(&line, "listeners", status.listeners);
    json_bool(&line, "last_reload_good", status.was_reload_good);
    json_uint(&line, "requests", metric_get(&sum->requests));
    json_uint(&line, "requests_answered", metrics_answered(sum));
    json_uint(&line, "requests_in_flight", metric_get(&sum->exchanges));
    json_uint(&line, "clients", metric_get(&sum->clients));
    json_uint(&line, "connections", metric_get(&sum->streams));
    json_uint(&line, "origins", metric_get(&sum->origins));
    json_uint(&line, "resident_bytes", status.resident_bytes);
    json_uint(&line, "descriptors", status.descriptors);
    put_certificate_days(&line, server);
    (void)json_end(&line);
    free(sum);
    control_send(client, &line);
    control_end(client, NULL);
}

static void put_stat(struct json_writer *lines, const char *name, uint64_t value, const char *unit,
                     const char *help)
{
    json_begin(lines);
    json_text(lines, "name", name);
    json_uint(lines, "value", value);
    json_text(lines, "unit", unit);
    json_text(lines, "help", help);
    (void)json_end(lines);
}

static void put_stats(struct json_writer *lines, const struct metrics *sum)
{
    size_t count;
    const struct metric_row *rows = metric_rows(&count);

    for (size_t i = 0; i < count; i++) {
        const _Atomic uint64_t *value =
            (const _Atomic uint64_t *)(const void *)((const char *)sum + rows[i].offset);
        put_stat(lines, rows[i].name, metric_get(value), rows[i].unit, rows[i].help);
    }
    for (int i = REASON_none + 1; i < REASON_COUNT; i++) {
        const struct reason_row *row = reason_row((enum reason)i);
        char name[80];
        (void)snprintf(name, sizeof(name), "ended_%s", row->name);
        put_stat(lines, name, metric_get(&sum->ended[i]), "requests", row->help);
    }
    for (int i = 0; i < HANDSHAKE_COUNT; i++) {
        char name[80];
        (void)snprintf(name, sizeof(name), "handshakes_failed_%s", handshake_rows[i].name);
        put_stat(lines, name, metric_get(&sum->handshakes_failed[i]), "handshakes",
                 handshake_rows[i].help);
    }
    for (int i = 0; i < HANDOVER_REFUSAL_COUNT; i++) {
        char name[80];
        (void)snprintf(name, sizeof(name), "handovers_refused_%s", handover_refusals[i].name);
        put_stat(lines, name, metric_get(&sum->handovers_refused[i]), "hand-overs",
                 handover_refusals[i].help);
    }
    for (int i = 0; i < PEER_REFUSAL_COUNT; i++) {
        char name[80];
        (void)snprintf(name, sizeof(name), "peers_refused_%s", peer_refusals[i].name);
        put_stat(lines, name, metric_get(&sum->peers_refused[i]), "messages",
                 peer_refusals[i].help);
    }
}

static void run_stats(struct control_client *client, const struct control_request *request)
{
    struct metrics *sum = calloc(1, sizeof(struct metrics));
    char *buffer = malloc(LINES_BYTES);
    struct json_writer lines;

    (void)request;
    if (sum == NULL || buffer == NULL) {
        control_end(client, "out of memory");
    } else {
        server_sum_metrics(client->server, sum);
        json_writer_init(&lines, buffer, LINES_BYTES);
        put_stats(&lines, sum);
        control_send(client, &lines);
        control_end(client, NULL);
    }
    free(buffer);
    free(sum);
}

static void run_fronts(struct control_client *client, const struct control_request *request)
{
    (void)request;
    control_fronts(client);
}

static void run_version(struct control_client *client, const struct control_request *request)
{
    char buffer[512];
    struct json_writer line;

    (void)request;
    json_writer_init(&line, buffer, sizeof(buffer));
    json_begin(&line);
    json_text(&line, "version", CRIPROXYD_VERSION);
    for (const struct library *library = libraries(); library->name != NULL; library++) {
        json_text(&line, library->name, library->version);
    }
    (void)json_end(&line);
    control_send(client, &line);
    control_end(client, NULL);
}

/* ---- explain ---- */

/* One "key        value" a line; what begins with blanks goes on with the value before. */
static void put_explanation(struct json_writer *line, const char *text)
{
    char key[EXPLAIN_COLUMN + 1] = "outcome";

    json_begin(line);
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        size_t key_len = len < EXPLAIN_COLUMN ? len : EXPLAIN_COLUMN;
        while (key_len > 0 && text[key_len - 1] == ' ') {
            key_len--;
        }
        if (key_len > 0) {
            memcpy(key, text, key_len);
            key[key_len] = '\0';
        } else {
            memcpy(key, "help", sizeof("help"));
        }
        if (len > EXPLAIN_COLUMN) {
            json_text_len(line, key, text + EXPLAIN_COLUMN, len - EXPLAIN_COLUMN);
        }
        text += len + (text[len] == '\n');
    }
    (void)json_end(line);
}

/* As the options of --explain; NULL, or what is wrong. */
static const char *take_asking(const struct config *config, const struct control_request *request,
                               struct explain_options *ret_asking)
{
    struct explain_options asking = {.client = NULL};

    for (size_t i = 1; i < request->argument_count; i++) {
        const char *argument = request->arguments[i];
        const char *client = control_value_of(argument, "client");
        const char *method = control_value_of(argument, "method");
        const char *address = control_value_of(argument, "resolves-to");
        if (client == NULL && method == NULL && address == NULL) {
            return "expected client=CLIENT, method=METHOD or resolves-to=ADDRESS";
        }
        asking.client = client != NULL ? client : asking.client;
        asking.method = method != NULL ? method : asking.method;
        asking.address = address != NULL ? address : asking.address;
    }
    *ret_asking = asking;
    return explain_check(config, &asking);
}

static void run_explain(struct control_client *client, const struct control_request *request)
{
    const struct config *config = server_config(client->server);
    struct explain_options asking;
    const char *wrong = take_asking(config, request, &asking);

    if (wrong != NULL) {
        control_end(client, wrong);
        return;
    }
    char *text = NULL, *buffer = malloc(LINES_BYTES);
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    struct json_writer line;

    if (out == NULL || buffer == NULL) {
        control_end(client, "out of memory");
    } else {
        (void)explain_target(config, &asking, request->arguments[0], out);
        (void)fflush(out);
        json_writer_init(&line, buffer, LINES_BYTES);
        put_explanation(&line, text == NULL ? "" : text);
        control_send(client, &line);
        control_end(client, NULL);
    }
    if (out != NULL) {
        (void)fclose(out);
    }
    free(text);
    free(buffer);
}

/* ---- what changes something ---- */

static void run_log_level(struct control_client *client, const struct control_request *request)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    const struct config *config = server_config(client->server);

    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strcmp(request->arguments[0], levels[i]) == 0) {
            log_set((enum log_level)i, config->log_format == LOG_FORMAT_JSON);
            control_end(client, NULL);
            return;
        }
    }
    control_end(client, "expected error, warning, info or debug");
}

static void run_reload(struct control_client *client, const struct control_request *request)
{
    struct server *server = client->server;

    (void)request;
    if (server->is_ending) {
        control_end(client, "draining");
    } else {
        control_end(client, server_reload(server) ? NULL : server->reload_error);
    }
}

/* The answer comes when the new program serves, or was refused. */
static void run_restart(struct control_client *client, const struct control_request *request)
{
    const char *why = server_restart(client->server, client->id);

    (void)request;
    if (why != NULL) {
        control_end(client, why);
    }
}

static void run_drain(struct control_client *client, const struct control_request *request)
{
    struct server *server = client->server;
    bool stays = strcmp(request->arguments[0], "stay") == 0;

    if (request->argument_count > 0 && !stays) {
        control_end(client, "expected stay, or nothing");
    } else if (stays && server->is_ending) {
        control_end(client, CANNOT_STAY);
    } else if (server->sessions != NULL && !server->is_ending) {
        const char *why = server_give(server, client->id, !stays);
        if (why != NULL) {
            control_end(client, why);
        }
    } else if (stays) {
        int error = server->is_draining ? 0 : server_pause(server, true);
        control_end(client, error == 0 ? NULL : strerror(-error));
    } else {
        control_end(client, NULL);
        if (!server->is_ending) {
            server_drain(server, "criproxyctl");
        }
    }
}

static void run_undrain(struct control_client *client, const struct control_request *request)
{
    struct server *server = client->server;

    (void)request;
    if (server->is_ending) {
        control_end(client, CANNOT_STAY);
    } else if (server->giving.is_on) {
        control_end(client, "sessions are being given to another replica");
    } else {
        int error = server->is_draining ? server_pause(server, false) : 0;
        control_end(client, error == 0 ? NULL : strerror(-error));
    }
}

/* ---- what the workers know ---- */

/* @p limit: how many rows a worker has room for, in words. */
static void list_for(struct control_client *client, inspect_fn *run, const char *argument,
                     const char *limit)
{
    control_list(client,
                 &(const struct control_listing){.run = run, .argument = argument, .limit = limit});
}

static void run_sessions(struct control_client *client, const struct control_request *request)
{
    const struct config *config = server_config(client->server);
    char limit[96];
    (void)request;
    (void)snprintf(limit, sizeof(limit), "%u clients on UDP and DTLS, %u closed ones",
                   config->limits_clients, CLOSED_MAX);
    list_for(client, inspect_sessions, "", limit);
}

static void run_origins(struct control_client *client, const struct control_request *request)
{
    const struct config *config = server_config(client->server);
    char limit[96];

    (void)request;
    (void)snprintf(limit, sizeof(limit), "%u", config->limits_origins);
    list_for(client, inspect_origins, "", limit);
}

static void run_upstreams(struct control_client *client, const struct control_request *request)
{
    const struct config *config = server_config(client->server);
    char limit[96];

    (void)request;
    (void)snprintf(limit, sizeof(limit), "%u", config->upstream_sessions);
    list_for(client, inspect_upstreams, "", limit);
}

static void run_devices(struct control_client *client, const struct control_request *request)
{
    const struct config *config = server_config(client->server);
    char limit[96];

    (void)request;
    (void)snprintf(limit, sizeof(limit), "%zu", config->device_count);
    list_for(client, inspect_devices, "", limit);
}

static void run_exchanges(struct control_client *client, const struct control_request *request)
{
    const struct config *config = server_config(client->server);
    char limit[96];

    (void)request;
    (void)snprintf(limit, sizeof(limit), "%u", config->limits_exchanges);
    list_for(client, inspect_exchanges, "", limit);
}

static void run_sources(struct control_client *client, const struct control_request *request)
{
    char limit[96];

    (void)request;
    (void)snprintf(limit, sizeof(limit), "%u", INSPECT_SOURCES_MAX);
    list_for(client, inspect_sources, "", limit);
}

static void run_busiest(struct control_client *client, const struct control_request *request)
{
    char limit[96];

    (void)request;
    (void)snprintf(limit, sizeof(limit), "%u clients, %u targets", SKETCH_SLOTS, SKETCH_SLOTS);
    list_for(client, inspect_busiest, "", limit);
}

static void run_observations(struct control_client *client, const struct control_request *request)
{
    const struct config *config = server_config(client->server);
    char limit[96];

    (void)request;
    (void)snprintf(limit, sizeof(limit), "%u", config->observe_targets);
    list_for(client, inspect_observations, "", limit);
}

static void run_config(struct control_client *client, const struct control_request *request)
{
    const struct control_listing listing = {
        .run = inspect_config, .argument = request->arguments[0], .is_of_one_worker = true};

    control_list(client, &listing);
}

static void run_listeners(struct control_client *client, const struct control_request *request)
{
    const struct server *server = client->server;
    char buffer[128 * SERVER_LISTENERS_MAX], text[ADDRESS_TEXT_MAX];
    struct json_writer lines;

    (void)request;
    json_writer_init(&lines, buffer, sizeof(buffer));
    for (size_t i = 0; i < server->listener_count; i++) {
        const struct server_listener *listener = &server->listeners[i];
        json_begin(&lines);
        json_text(&lines, "scheme", transport_row(listener->transport)->scheme);
        json_text(&lines, "address", address_format(&listener->bound, text));
        json_bool(&lines, "inherited", listener->is_inherited);
        (void)json_end(&lines);
    }
    control_send(client, &lines);
    control_end(client, NULL);
}

#define ADDRESS_EXPECTED "expected an address: 192.0.2.1, 2001:db8::1 or [2001:db8::1]:5683"

/* An IPv6 address may stand without brackets; @p bracketed has room for them. */
static const char *with_brackets(const char *text, char bracketed[ADDRESS_TEXT_MAX])
{
    if (strchr(text, ':') == NULL || text[0] == '[' || strchr(text, '.') != NULL) {
        return text;
    }
    (void)snprintf(bracketed, ADDRESS_TEXT_MAX, "[%s]", text);
    return bracketed;
}

static void run_why(struct control_client *client, const struct control_request *request)
{
    char bracketed[ADDRESS_TEXT_MAX];
    const char *text = with_brackets(request->arguments[0], bracketed);
    struct address address;

    if (request->argument_count > 0 && !address_parse(text, strlen(text), 0, &address)) {
        control_end(client, ADDRESS_EXPECTED);
    } else {
        list_for(client, inspect_why, text, "256");
    }
}

/* Whether it names one, of a kind that a session can have. */
static bool is_identity(const char *text)
{
    enum identity_kind kind;

    text += text[0] == '"'; /* as lists and the log have it where a name has blanks */
    return identity_take_kind(text, &kind) != NULL;
}

static void run_close(struct control_client *client, const struct control_request *request)
{
    char bracketed[ADDRESS_TEXT_MAX];
    const char *identity = control_value_of(request->arguments[0], "identity");
    const char *text =
        identity != NULL ? request->arguments[0] : with_brackets(request->arguments[0], bracketed);
    struct address address;

    if (identity != NULL && !is_identity(identity)) {
        control_end(client, "expected identity=psk:NAME, identity=certificate:NAME or "
                            "identity=public-key:NAME");
    } else if (identity == NULL && !address_parse(text, strlen(text), 0, &address)) {
        control_end(client, ADDRESS_EXPECTED ", or identity=IDENTITY");
    } else {
        list_for(client, inspect_close, text, NULL);
    }
}

/* Whether it is one, by the schemes of the configuration; else the request is answered. */
static bool is_pattern(struct control_client *client, const char *text)
{
    struct config_arena *arena = arena_new();
    struct target_pattern pattern;
    struct pattern_error error = {.what = "out of memory"};
    char words[160];
    int failed = arena == NULL ? -ENOMEM
                               : target_pattern_parse(text, strlen(text),
                                                      &server_config(client->server)->scheme_table,
                                                      arena, &pattern, &error);

    arena_free(arena);
    if (failed != 0) {
        (void)snprintf(words, sizeof(words), "pattern: byte %zu: %s", error.offset, error.what);
        control_end(client, words);
    }
    return failed == 0;
}

static void run_cache(struct control_client *client, const struct control_request *request)
{
    bool is_flush = strcmp(request->arguments[0], "flush") == 0;

    if (!is_flush && strcmp(request->arguments[0], "lookup") != 0) {
        control_end(client, "expected lookup or flush");
    } else if (is_flush && client->level < CONTROL_OPERATE) {
        control_end(client, client->way->not_allowed);
    } else if (is_pattern(client, request->arguments[1])) {
        list_for(client, is_flush ? inspect_cache_flush : inspect_cache, request->arguments[1],
                 NULL);
    }
}

/* ---- faults ---- */

/* The arguments as inspect_fault() takes them; false where they are too long, or no text. */
static bool join_parts(const struct control_request *request, char *text, size_t capacity)
{
    size_t len = 0;

    for (size_t i = 0; i < request->argument_count; i++) {
        const char *part = request->arguments[i];
        for (const char *at = part; *at != '\0'; at++) {
            if ((unsigned char)*at < 0x20) {
                return false;
            }
        }
        int wrote = snprintf(text + len, capacity - len, "%s%s", i > 0 ? FAULT_PART : "", part);
        if (wrote < 0 || (size_t)wrote >= capacity - len) {
            return false;
        }
        len += (size_t)wrote;
    }
    return true;
}

/* Whether it is a fault; else the request is answered. */
static bool is_fault(struct control_client *client, const char *parts)
{
    char error[CONFIG_ERROR_TEXT_MAX];
    struct config *config =
        fault_config_load(server_config(client->server), parts, error, sizeof(error));
    if (config == NULL) {
        control_end(client, error);
        return false;
    }
    config_free(config);
    return true;
}

static void run_fault(struct control_client *client, const struct control_request *request)
{
    const char *word = request->arguments[0];
    bool is_add = strcmp(word, "add") == 0, is_list = strcmp(word, "list") == 0;
    size_t most = is_list ? 1 : 2;
    char text[sizeof(((struct worker_ask *)NULL)->argument)];

    if (!is_add && !is_list && strcmp(word, "clear") != 0) {
        control_end(client, "expected add, list or clear");
    } else if (is_add ? request->argument_count < 3 : request->argument_count > most) {
        control_end(client, "expected add NAME KEY=VALUE..., list, or clear [NAME]");
    } else if (!is_list && client->level < CONTROL_OPERATE) {
        control_end(client, client->way->not_allowed);
    } else if (!server_config(client->server)->lab_enabled) {
        control_end(client, "faults are for labs: lab.enabled = no");
    } else if (!join_parts(request, text, sizeof(text))) {
        control_end(client, "too long, or not printable");
    } else if (!is_add || is_fault(client, text + sizeof("add"))) {
        list_for(client, inspect_fault, text, NULL);
    }
}

/* ---- the table ---- */

static void run_help(struct control_client *client, const struct control_request *request);

static const struct command commands[] = {
#define COMMAND(name, shape, level, web, arguments, help)                                          \
    {#name, arguments, help, CONTROL_##level, WEB_##web, run_##name},
#include "ops/commands.def"
#undef COMMAND
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

/* People write '-' where C has '_'. */
static bool is_named(const struct command *command, const char *name)
{
    size_t i = 0;

    while (name[i] != '\0' && command->name[i] == (name[i] == '-' ? '_' : name[i])) {
        i++;
    }
    return name[i] == '\0' && command->name[i] == '\0' && strchr(name, '_') == NULL;
}

static void run_help(struct control_client *client, const struct control_request *request)
{
    char buffer[8192], name[32];
    struct json_writer lines;

    (void)request;
    json_writer_init(&lines, buffer, sizeof(buffer));
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        (void)snprintf(name, sizeof(name), "%s", commands[i].name);
        for (char *at = strchr(name, '_'); at != NULL; at = strchr(at, '_')) {
            *at = '-';
        }
        json_begin(&lines);
        json_text(&lines, "command", name);
        json_text(&lines, "arguments", commands[i].arguments);
        json_text(&lines, "help", commands[i].help);
        (void)json_end(&lines);
    }
    control_send(client, &lines);
    control_end(client, NULL);
}

enum control_web control_web_of(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (is_named(&commands[i], name)) {
            return commands[i].web;
        }
    }
    return WEB_NO;
}

void control_run(struct control_client *client, const struct control_request *request)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        char error[128];
        if (!is_named(&commands[i], request->command)) {
            continue;
        }
        if (commands[i].level > client->level) {
            control_end(client, client->way->not_allowed);
            return;
        }
        if (arguments_fit(commands[i].arguments, request->argument_count)) {
            commands[i].run(client, request);
            return;
        }
        (void)snprintf(error, sizeof(error), "expected arguments: %s",
                       commands[i].arguments[0] == '\0' ? "none" : commands[i].arguments);
        control_end(client, error);
        return;
    }
    control_end(client, "no such command; see help");
}
