/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Snapshots of the configuration. A reload reads everything anew, keys and
 * certificates too, binds the listeners that are new, and only then changes
 * anything: what cannot be had leaves all as it was. A snapshot that was replaced is
 * kept until every worker uses the newest.
 */
#include "server/internal.h"

#include "base/arena.h"
#include "base/escape.h"
#include "base/log.h"
#include "conf/recording.h"
#include "fetch/keyring.h"
#include "net/certificate.h"
#include "net/credentials.h"
#include "ops/notify.h"
#include "server/server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- certificates of our own run out ---- */

/*
 * Their times are read with each snapshot of the configuration; a monitoring system sees them as a
 * metric and as days left, and the log warns of those that are not valid now. They are served all
 * the same: it is for the client to refuse them, whose clock may be another.
 */

#define DAY_S 86400

static void note_certificate(struct server_certificates *certificates, const char *file)
{
    for (size_t i = 0; i < certificates->count; i++) {
        if (strcmp(certificates->items[i].file, file) == 0) {
            return;
        }
    }
    if (file[0] != '\0' &&
        certificate_read_times(file, &certificates->items[certificates->count])) {
        certificates->count++;
    }
}

/* Those that @p config names; the result lives as long as it. @return 0 or -ENOMEM. */
static int server_read_certificates(const struct config *config, struct server_certificates *ret)
{
    const struct config_list *own = &config->tls_certificate;
    size_t room = own->count + config->upstream_count + 1;
    struct server_certificates certificates = {
        .items = arena_alloc(config->arena, room * sizeof(certificates.items[0]))};

    if (certificates.items == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < own->count; i++) {
        note_certificate(&certificates, own->items[i]);
    }
    note_certificate(&certificates, config->upstream_certificate);
    for (size_t i = 0; i < config->upstream_count; i++) {
        note_certificate(&certificates, config->upstreams[i].certificate);
    }
    *ret = certificates;
    return 0;
}

/* Whole days, rounded down: below zero for one that has expired. */
static int64_t days_until(int64_t then_s, int64_t now_s)
{
    int64_t left_s = then_s - now_s;

    return left_s >= 0 ? left_s / DAY_S : -((DAY_S - 1 - left_s) / DAY_S);
}

/*
 * Logs a warning for each certificate that has expired or is not valid yet. Failures are ignored.
 */
static void server_warn_of_certificates(const struct server_certificates *certificates)
{
    int64_t now_s = (int64_t)server_wall_clock_s();
    char file[512];

    for (size_t i = 0; i < certificates->count; i++) {
        const struct certificate_times *times = &certificates->items[i];
        escape_value(file, sizeof(file), times->file, strlen(times->file));
        if (now_s >= times->not_after_s) {
            log_event(LOG_WARNING, "certificate_expired", "file=%s days_left=%" PRId64, file,
                      days_until(times->not_after_s, now_s));
        } else if (now_s < times->not_before_s) {
            log_event(LOG_WARNING, "certificate_not_yet_valid", "file=%s days=%" PRId64, file,
                      days_until(times->not_before_s, now_s));
        }
    }
}

bool server_certificate_days(const struct server *server, int64_t *ret_days)
{
    const struct server_certificates *certificates = &server->newest->certificates;
    int64_t first_s = INT64_MAX;

    for (size_t i = 0; i < certificates->count; i++) {
        if (certificates->items[i].not_after_s < first_s) {
            first_s = certificates->items[i].not_after_s;
        }
    }
    *ret_days = days_until(first_s, (int64_t)server_wall_clock_s());
    return certificates->count > 0;
}

/* As the text format wants label values. */
static void write_label(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\' || *text == '"') {
            (void)fputc('\\', out);
        }
        if (*text == '\n') {
            (void)fputs("\\n", out);
        } else {
            (void)fputc(*text, out);
        }
    }
}

void server_write_certificates(const struct server *server, FILE *out)
{
    static const char name[] = "criproxyd_certificate_expiry_timestamp_seconds";
    const struct server_certificates *certificates = &server->newest->certificates;

    if (certificates->count == 0) {
        return;
    }
    (void)fprintf(out, "# HELP %s When a certificate of the proxy expires, in Unix time.\n", name);
    (void)fprintf(out, "# TYPE %s gauge\n", name);
    for (size_t i = 0; i < certificates->count; i++) {
        (void)fprintf(out, "%s{file=\"", name);
        write_label(out, certificates->items[i].file);
        (void)fprintf(out, "\"} %" PRId64 "\n", certificates->items[i].not_after_s);
    }
}

/* ---- snapshots ---- */

/* A worker that takes longer is told of in the log, and switches all the same. */
#define RELOAD_WAIT_S 5

static void log_credentials_failure(const char *why)
{
    char shown[2 * RELOAD_ERROR_MAX];

    escape_value(shown, sizeof(shown), why, strlen(why));
    log_event(LOG_ERROR, "credentials_failed", "error=%s", shown);
}

/* Loads the credentials for origin servers. An error is logged, and copied to @p why. */
static int load_keyring(struct config *config, struct keyring **ret_keyring,
                        char why[RELOAD_ERROR_MAX])
{
    for (size_t i = 0; i < config->secret_files.count; i++) {
        credentials_check_secrecy(config->secret_files.items[i]);
    }
    /* Files that hold no credentials of a listener or an origin server; "" where there is none. */
    const char *const others[] = {config->cluster_secret_file, config->cache_shared_password_file,
                                  config->cache_shared_key, config->http_tokens_file};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        credentials_check_secrecy(others[i]);
    }
    *ret_keyring = keyring_load(config, why, RELOAD_ERROR_MAX);
    if (*ret_keyring == NULL) {
        log_credentials_failure(why);
        return -EINVAL;
    }
    config->keyring = *ret_keyring;
    return 0;
}

/*
 * A route that comes back, or moves among the others, goes on with the counters of its name.
 * When all labels are given out, routes with new names share the last one.
 */
static void label_routes(struct server *server, const struct config *config)
{
    for (size_t i = 0; i < config->route_count; i++) {
        struct config_route *route = &config->routes[i];
        unsigned label = 1; /* 0 is no route */
        while (label < ROUTE_LABEL_OTHER && server->route_names[label] != NULL &&
               strcmp(server->route_names[label], route->name) != 0) {
            label++;
        }
        if (label < ROUTE_LABEL_OTHER && server->route_names[label] == NULL) {
            server->route_names[label] = strdup(route->name);
            label = server->route_names[label] != NULL ? label : ROUTE_LABEL_OTHER;
        }
        route->label = (uint8_t)label;
    }
}

static int push_snapshot(struct server *server, struct config *config,
                         struct credentials *credentials)
{
    struct snapshot *snapshot = calloc(1, sizeof(struct snapshot));

    if (snapshot == NULL) {
        return -ENOMEM;
    }
    int error = server_read_certificates(config, &snapshot->certificates);
    if (error == 0) {
        error = load_keyring(config, &snapshot->keyring, server->reload_error);
    }
    if (error != 0) {
        free(snapshot);
        return error;
    }
    server_warn_of_certificates(&snapshot->certificates);
    label_routes(server, config);
    snapshot->older = server->newest;
    snapshot->config = config;
    snapshot->credentials = credentials;
    server->newest = snapshot;
    return 0;
}

static void free_chain(struct snapshot *snapshot)
{
    while (snapshot != NULL) {
        struct snapshot *older = snapshot->older;
        keyring_free(snapshot->keyring);
        config_free(snapshot->config);
        credentials_release(snapshot->credentials);
        free(snapshot);
        snapshot = older;
    }
}

void server_free_snapshots(struct server *server)
{
    free_chain(server->newest);
    server->newest = NULL;
}

void server_sweep_snapshots(struct server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        if (worker_config(server->workers[i]) != server_config(server)) {
            return;
        }
    }
    free_chain(server->newest->older);
    server->newest->older = NULL;
}

/*
 * Loads the credentials of the section [tls]; *ret_credentials is NULL where it names none.
 * An error is logged, and copied to @p why.
 */
static int load_credentials(const struct config *config, struct credentials **ret_credentials,
                            char why[RELOAD_ERROR_MAX])
{
    const char *keylog = config->tls_keylog ? getenv("SSLKEYLOGFILE") : NULL;
    const struct config_list *certificates = &config->tls_certificate, *keys = &config->tls_key;
    struct credentials_pair others[CONFIG_LIST_MAX];
    size_t count = certificates->count; /* of both: check.c has seen to it */
    for (size_t i = 1; i < count; i++) {
        others[i - 1] = (struct credentials_pair){certificates->items[i], keys->items[i]};
    }
    const struct credentials_options options = {
        .certificate_file = count > 0 ? certificates->items[0] : NULL,
        .key_file = count > 0 ? keys->items[0] : NULL,
        .others = others,
        .other_count = count > 1 ? count - 1 : 0,
        .client_ca_file = config->tls_client_ca[0] != '\0' ? config->tls_client_ca : NULL,
        .require_client_certificate = config->tls_require_client_certificate,
        .raw_key_file = config->tls_raw_key[0] != '\0' ? config->tls_raw_key : NULL,
        .client_keys_file = config->tls_client_keys[0] != '\0' ? config->tls_client_keys : NULL,
        .psk_file = config->tls_psk_file[0] != '\0' ? config->tls_psk_file : NULL,
        .cluster_secret = {config->cluster_secret, config->cluster_secret_len},
        .keylog_file = keylog,
    };

    *ret_credentials = NULL;
    if (options.certificate_file == NULL && options.psk_file == NULL &&
        options.raw_key_file == NULL) {
        return 0;
    }
    *ret_credentials = credentials_load(&options, why, RELOAD_ERROR_MAX);
    if (*ret_credentials == NULL) {
        log_credentials_failure(why);
        return -EINVAL;
    }
    return 0;
}

/* Whether policy.clients has all addresses of the family. */
static bool serves_any(const struct config *config, bool is_ipv6)
{
    const struct config_list *clients = &config->policy_clients;

    for (size_t i = 0; i < clients->count; i++) {
        if (strcmp(clients->items[i], "any") == 0 ||
            strcmp(clients->items[i], is_ipv6 ? "::/0" : "0.0.0.0/0") == 0) {
            return true;
        }
    }
    return false;
}

/* Whether clients need a key of their own: without a certificate or a raw key of the proxy's there
 * are only pre-shared keys. */
static bool needs_credentials(const struct config *config, enum transport transport)
{
    return transport_is_secure(transport) &&
           ((config->tls_certificate.count == 0 && config->tls_raw_key[0] == '\0') ||
            config->tls_require_client_certificate);
}

/* Such a proxy serves the internet as soon as a router lets it: seldom what is meant. */
static void warn_of_open_listeners(const struct config *config)
{
    char uri[160];

    for (size_t i = 0; i < config->listener_count; i++) {
        const struct config_listener *listener = &config->listeners[i];
        if (address_is_unspecified(&listener->bind) &&
            !needs_credentials(config, listener->transport) &&
            config->policy_targets == POLICY_TARGETS_ALLOW &&
            serves_any(config, listener->bind.family == ADDRESS_IPV6)) {
            escape_value(uri, sizeof(uri), listener->uri, strlen(listener->uri));
            log_event(LOG_WARNING, "open_to_everybody", "uri=%s key=policy.clients", uri);
        }
    }
}

/* What may be meant, but not on a proxy that others rely on. */
static void warn_of_config(const struct config *config)
{
    warn_of_open_listeners(config);
    for (size_t i = 0; i < config->route_count; i++) {
        const struct config_route *route = &config->routes[i];
        if (route->recording != NULL) {
            log_event(LOG_WARNING, "route_recording", "route=%s requests=%u speed=%u", route->name,
                      route->recording->entry_count, (unsigned)route->speed);
        }
    }
    if (config->lab_enabled) {
        log_event(LOG_WARNING, "lab_enabled", "faults=%zu key=lab.enabled", config->fault_count);
    }
    for (size_t i = 0; i < config->fault_count; i++) {
        char why[128];
        if (config_fault_is_idle(config, &config->faults[i], why, sizeof(why))) {
            log_event(LOG_WARNING, "fault_without_effect", "fault=%s why=\"%s\"",
                      config->faults[i].name, why);
        }
    }
}

bool server_check_credentials(struct config *config)
{
    struct credentials *credentials = NULL;
    struct keyring *keyring = NULL;
    char why[RELOAD_ERROR_MAX] = ""; /* logged already */
    bool is_good = load_credentials(config, &credentials, why) == 0;

    is_good = load_keyring(config, &keyring, why) == 0 && is_good; /* tells of both */
    warn_of_config(config);
    struct server_certificates certificates;
    if (server_read_certificates(config, &certificates) == 0) {
        server_warn_of_certificates(&certificates);
    }
    credentials_release(credentials);
    keyring_free(keyring);
    config->keyring = NULL;
    return is_good;
}

static void apply_log(const struct config *config)
{
    log_set((enum log_level)config->log_level, config->log_format == LOG_FORMAT_JSON);
}

int server_first_snapshot(struct server *server, struct config *config)
{
    struct credentials *credentials = NULL;

    apply_log(config);
    int error = config->log_file[0] == '\0' ? 0 : log_open_file(config->log_file);
    if (error != 0) {
        log_event(LOG_ERROR, "log_failed", "key=log.file file=%s error=\"%s\"", config->log_file,
                  strerror(-error));
    } else {
        error = load_credentials(config, &credentials, server->reload_error);
    }
    if (error == 0) {
        error = push_snapshot(server, config, credentials);
    }
    if (error != 0) {
        credentials_release(credentials);
        config_free(config);
    } else {
        warn_of_config(config);
    }
    return error;
}

/* ---- reload ---- */

static void on_key_kept(void *context, const char *key)
{
    struct server *server = context;
    size_t used = strlen(server->restart_keys);

    (void)snprintf(server->restart_keys + used, sizeof(server->restart_keys) - used, "%s%s",
                   used > 0 ? " " : "", key);
    log_event(LOG_WARNING, "restart_needed", "key=%s", key);
}

/* The first error is what the user is told; the log has all of them. */
static void note_error(struct server *server, const char *text)
{
    if (server->reload_error[0] == '\0') {
        (void)snprintf(server->reload_error, sizeof(server->reload_error), "%s", text);
    }
}

static void log_refusal(struct server *server, const struct config_errors *errors)
{
    note_error(server, errors->text[0]);
    for (size_t i = 0; i < errors->count && i < CONFIG_ERRORS_MAX; i++) {
        char text[2 * CONFIG_ERROR_TEXT_MAX];
        escape_value(text, sizeof(text), errors->text[i], strlen(errors->text[i]));
        log_event(LOG_ERROR, "reload_refused", "error=%s", text);
    }
}

/* The new snapshot, with what needs a restart as it was; NULL with the reason logged. */
static struct config *load_anew(struct server *server)
{
    struct config_errors *errors = calloc(1, sizeof(struct config_errors));
    struct config *config = NULL;

    if (errors == NULL) {
        note_error(server, strerror(ENOMEM));
        server_log_failure("reload_failed", -ENOMEM);
        return NULL;
    }
    int error = config_load(server->source, errors, &config);
    if (error == -EINVAL) {
        log_refusal(server, errors);
    } else if (error == 0) {
        error = config_keep_started(config, server_config(server), on_key_kept, server);
    }
    free(errors);
    if (error == 0) {
        return config;
    }
    if (error != -EINVAL) {
        note_error(server, strerror(-error));
        server_log_failure("reload_failed", error);
    }
    config_free(config);
    return NULL;
}

/* So that a client that hears of the end of the reload meets the new configuration at each worker.
 */
static void wait_for_workers(struct server *server)
{
    struct timespec deadline;

    (void)clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += RELOAD_WAIT_S;
    for (unsigned i = 0; i < server->worker_count; i++) {
        worker_fence(server->workers[i]);
    }
    for (unsigned i = 0; i < server->worker_count; i++) {
        if (!worker_wait(server->workers[i], &deadline)) {
            log_event(LOG_WARNING, "reload_slow", "worker=%u", i);
        }
    }
}

/* In the order that the workers need: a listener that is new finds its credentials. */
static void hand_out(struct server *server, struct listen_change *change)
{
    const struct snapshot *newest = server->newest;

    for (unsigned i = 0; i < server->worker_count; i++) {
        int error = worker_set_config(server->workers[i], newest->config, newest->credentials);
        if (error != 0) {
            /* It stays with the snapshot it has, which is kept for it. */
            note_error(server, "taken over, but not by every worker: see the log");
            log_event(LOG_ERROR, "reload_failed", "worker=%u error=\"%s\"", i, strerror(-error));
        }
    }
    server_listen_commit(server, change);
    wait_for_workers(server);
    apply_log(newest->config);
}

/* False with everything as it was, and the reason logged. */
static bool take_over(struct server *server, struct config *config)
{
    struct credentials *credentials = NULL;
    struct listen_change change = {0};

    if (load_credentials(config, &credentials, server->reload_error) != 0) {
        return false;
    }
    int error = server_listen_prepare(server, config, &change);
    if (error == 0) {
        error = push_snapshot(server, config, credentials);
    }
    if (error != 0) {
        note_error(server, strerror(-error));
        server_log_failure("reload_failed", error);
        server_listen_cancel(&change);
        credentials_release(credentials);
        return false;
    }
    hand_out(server, &change);
    warn_of_config(config);
    return true;
}

static void note_restart(struct server *server)
{
    char text[sizeof(server->restart_keys) + 64];

    (void)snprintf(text, sizeof(text), "taken over, but these keys need a restart: %s",
                   server->restart_keys);
    note_error(server, text);
}

bool server_reload(struct server *server)
{
    server->reload_error[0] = server->restart_keys[0] = '\0';
    notify_manager(NOTIFY_RELOADING, NULL);
    struct config *config = load_anew(server);
    bool is_taken = config != NULL && take_over(server, config);
    if (is_taken) {
        if (server->restart_keys[0] != '\0') {
            note_restart(server);
        }
        server->reloaded_s = server_wall_clock_s();
        log_plain(LOG_INFO, "reloaded");
    } else {
        config_free(config);
    }
    server->was_reload_good = is_taken && server->reload_error[0] == '\0';
    server_notify_ready(server);
    return server->was_reload_good;
}
