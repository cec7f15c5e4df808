/* SPDX-License-Identifier: BSD-2-Clause */
#include "fetch/keyring.h"

#include "conf/oscore_file.h"
#include "context/target.h"
#include "fetch/redirect.h"
#include "net/upstream.h"
#include "policy/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct keyring {
    /*
     * Where [upstream] says nothing of its own, what it stands for (the system's trust
     * anchors) is loaded when the first session needs it: most proxies have none, and
     * OpenSSL's tables are larger than the rest of an idle one.
     */
    bool is_plain_late;
    size_t count;
    struct {
        struct upstream_credentials *credentials;
        struct upstream_oscore *oscore; /* NULL: the section has none */
    } entries[];                        /* of [upstream]; then as config->upstreams */
};

static const char *or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static struct upstream_credentials_options plain_options(const struct config *config)
{
    return (struct upstream_credentials_options){
        .ca_file = or_null(config->upstream_ca),
        .certificate_file = or_null(config->upstream_certificate),
        .key_file = or_null(config->upstream_key),
        .raw_key_file = or_null(config->upstream_raw_key),
        .server_keys_file = or_null(config->upstream_server_keys),
        .psk_identity = or_null(config->upstream_psk_identity),
        .psk_key_hex = or_null(config->upstream_psk_key),
        .psk_key_file = or_null(config->upstream_psk_key_file),
    };
}

static struct upstream_credentials_options named_options(const struct config_upstream *upstream)
{
    return (struct upstream_credentials_options){
        .ca_file = or_null(upstream->ca),
        .certificate_file = or_null(upstream->certificate),
        .key_file = or_null(upstream->key),
        .raw_key_file = or_null(upstream->raw_key),
        .server_keys_file = or_null(upstream->server_keys),
        .psk_identity = or_null(upstream->psk_identity),
        .psk_key_hex = or_null(upstream->psk_key),
        .psk_key_file = or_null(upstream->psk_key_file),
    };
}

static bool is_empty(const struct upstream_credentials_options *options)
{
    return options->ca_file == NULL && options->certificate_file == NULL &&
           options->key_file == NULL && options->psk_identity == NULL &&
           options->psk_key_hex == NULL && options->psk_key_file == NULL &&
           options->raw_key_file == NULL && options->server_keys_file == NULL;
}

static enum upstream_engine engine_of(const struct config *config)
{
    return config->upstream_engine == UPSTREAM_NATIVE ? UPSTREAM_ENGINE_NATIVE
                                                      : UPSTREAM_ENGINE_LIBCOAP;
}

/* Said when the configuration is read, and not by the first request. */
static bool check_engine(const struct config *config, char *ret_error, size_t error_capacity)
{
    bool is_there = upstream_has(engine_of(config), TRANSPORT_DTLS);

    if (!is_there && strcmp(upstream_version(), "none") == 0) {
        (void)snprintf(ret_error, error_capacity, "upstream.engine: built without libcoap");
    } else if (!is_there) {
        (void)snprintf(ret_error, error_capacity, "upstream.engine: libcoap %s has no OpenSSL",
                       upstream_version());
    }
    return is_there;
}

/* Patterns of targets and schemes say nothing about what is built in: this does. */
static bool check_routes(const struct config *config, char *ret_error, size_t error_capacity)
{
    for (size_t i = 0; i < config->route_count; i++) {
        const struct config_route *route = &config->routes[i];
        const struct scheme *scheme =
            route->kind == ROUTE_KIND_PARENT
                ? config_scheme_by_number(config, route->parent.scheme_number)
                : NULL;
        if (scheme != NULL && transport_has_session(scheme->transport) &&
            !upstream_has(engine_of(config), scheme->transport)) {
            (void)snprintf(ret_error, error_capacity,
                           "route %s: via: no %s: libcoap %s has no OpenSSL", route->name,
                           scheme->name, upstream_version());
            return false;
        }
    }
    return true;
}

/* The security context of a section with that key. */
static struct upstream_oscore *load_oscore(const struct config *config, const char *file, char *why,
                                           size_t why_capacity)
{
    const char *lack = oscore_lack();
    struct oscore_keys keys;

    if (lack != NULL) {
        (void)snprintf(why, why_capacity, "oscore: %s", lack);
        return NULL;
    }
    char wrong[240] = "";
    struct upstream_oscore *oscore = NULL;
    if (oscore_file_read(file, &keys, wrong, sizeof wrong)) {
        oscore = upstream_oscore_load(&keys, config->upstream_oscore_state, wrong, sizeof wrong);
        explicit_bzero(&keys, sizeof keys);
    }
    if (oscore == NULL) {
        (void)snprintf(why, why_capacity, "oscore: %s", wrong);
    }
    return oscore;
}

/* What section @p i has: 0 is [upstream], others count from 1. */
static bool load_section(struct keyring *keyring, const struct config *config, size_t i, char *why,
                         size_t why_capacity)
{
    const struct config_upstream *upstream = i > 0 ? &config->upstreams[i - 1] : NULL;
    const struct upstream_credentials_options options =
        upstream == NULL ? plain_options(config) : named_options(upstream);

    if (upstream != NULL && upstream->oscore[0] != '\0' && !oscore_is_elsewhere(config, upstream)) {
        keyring->entries[i].oscore = load_oscore(config, upstream->oscore, why, why_capacity);
        if (keyring->entries[i].oscore == NULL) {
            return false;
        }
    }
    if (upstream == NULL && is_empty(&options)) {
        keyring->is_plain_late = true;
        return true;
    }
    keyring->entries[i].credentials = upstream_credentials_load(&options, why, why_capacity);
    return keyring->entries[i].credentials != NULL;
}

struct keyring *keyring_load(const struct config *config, char *ret_error, size_t error_capacity)
{
    size_t count = config->upstream_count + 1;
    char why[256] = "";

    if (!check_engine(config, ret_error, error_capacity) ||
        !check_routes(config, ret_error, error_capacity)) {
        return NULL;
    }
    struct keyring *keyring = calloc(1, sizeof *keyring + count * sizeof keyring->entries[0]);
    if (keyring == NULL) {
        (void)snprintf(ret_error, error_capacity, "upstream: out of memory");
        return NULL;
    }
    keyring->count = count;
    for (size_t i = 0; i < count; i++) {
        if (!load_section(keyring, config, i, why, sizeof why)) {
            (void)snprintf(ret_error, error_capacity, "upstream%s%s: %s", i > 0 ? " " : "",
                           i > 0 ? config->upstreams[i - 1].name : "", why);
            keyring_free(keyring);
            return NULL;
        }
    }
    return keyring;
}

void keyring_free(struct keyring *keyring)
{
    if (keyring == NULL) {
        return;
    }
    for (size_t i = 0; i < keyring->count; i++) {
        upstream_credentials_release(keyring->entries[i].credentials);
        upstream_oscore_release(keyring->entries[i].oscore);
    }
    free(keyring);
}

/* A parent proxy as if it were the target. */
static struct target target_of(const struct next_hop *hop)
{
    struct target target = {
        .scheme = hop->scheme,
        .is_name = hop->is_name,
        .address = hop->address,
        .port = hop->port,
    };
    if (hop->is_name && hop->name.len <= sizeof target.name) {
        memcpy(target.name, hop->name.data, hop->name.len);
        target.name_len = (uint8_t)hop->name.len;
    }
    return target;
}

static bool keyring_matches(const struct config_upstream *upstream, const struct target *target,
                            const struct address *address)
{
    for (size_t i = 0; i < upstream->pattern_count; i++) {
        if (target_pattern_matches_address(&upstream->patterns[i], target, address)) {
            return true;
        }
    }
    return false;
}

/* The section that is for the next hop of @p fetch: 0 is [upstream], others count from 1. */
static size_t section_of(const struct config *config, const struct fetch *fetch)
{
    const struct address *address = &fetch->candidates[fetch->candidate];
    const struct target *target = redirect_target(fetch);
    struct target parent;
    if (fetch->hop.is_parent) {
        parent = target_of(&fetch->hop);
        target = &parent;
    }
    for (size_t i = 0; i < config->upstream_count; i++) {
        if (keyring_matches(&config->upstreams[i], target, address)) {
            return i + 1;
        }
    }
    return 0;
}

struct upstream_credentials *keyring_find(const struct config *config, const struct fetch *fetch)
{
    struct keyring *keyring = config->keyring;
    size_t section = keyring != NULL ? section_of(config, fetch) : 0;
    if (keyring == NULL) {
        return NULL;
    }
    return section == 0 && keyring->is_plain_late
               ? upstream_credentials_late(&keyring->entries[0].credentials)
               : keyring->entries[section].credentials;
}

struct upstream_oscore *keyring_find_oscore(const struct config *config, const struct fetch *fetch)
{
    const struct keyring *keyring = config->keyring;
    const struct config_upstream *section = target_oscore_section(config, &fetch->target);
    return keyring != NULL && section != NULL
               ? keyring->entries[section - config->upstreams + 1].oscore
               : NULL;
}

bool keyring_has_certificate(const struct config *config, const struct fetch *fetch)
{
    size_t section = section_of(config, fetch);
    return (section > 0 ? config->upstreams[section - 1].certificate
                        : config->upstream_certificate)[0] != '\0';
}

/* As it is named: the owner of a DNS zone chooses the addresses. In the clear only if said. */
static bool takes_lines(const struct config_upstream *upstream, const struct target *target)
{
    bool is_secure = transport_is_secure(target->scheme->transport);
    for (size_t i = 0; i < upstream->pattern_count; i++) {
        const struct target_pattern *pattern = &upstream->patterns[i];
        if ((is_secure || pattern->scheme != PATTERN_SCHEME_ANY) &&
            target_pattern_matches(pattern, target)) {
            return true;
        }
    }
    return false;
}

const char *const *keyring_lines(const struct config *config, const struct fetch *fetch,
                                 size_t *ret_count)
{
    size_t section = section_of(config, fetch);
    const struct config_upstream *upstream = section > 0 ? &config->upstreams[section - 1] : NULL;
    bool has_lines = upstream != NULL && upstream->line_count > 0 &&
                     takes_lines(upstream, redirect_target(fetch));
    *ret_count = has_lines ? upstream->line_count : 0;
    return has_lines ? upstream->lines : NULL;
}
