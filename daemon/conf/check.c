/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules between keys, the listeners, and the file http.tokens-file. */
#include "base/escape.h"
#include "coap/http_uri.h"
#include "conf/access_format.h"
#include "conf/admin_listen.h"
#include "conf/loader.h"
#include "net/interfaces.h"
#include "net/raw_keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what the access log says -------------------------------------------------- */

static const char *const names[ACCESS_FIELD_COUNT] = {
#define ACCESS_FIELD(name, help) #name,
#include "conf/access_fields.def"
#undef ACCESS_FIELD
};

/* The names of all fields, with blanks between them. Static text. */
static const char *access_format_names(void)
{
    static const char all[] =
#define ACCESS_FIELD(name, help) #name " "
#include "conf/access_fields.def"
#undef ACCESS_FIELD
        "";

    return all;
}

static bool add_field(struct access_format *format, const char *word, size_t len)
{
    size_t at = 0;

    while (at < ACCESS_FIELD_COUNT &&
           (strlen(names[at]) != len || memcmp(names[at], word, len) != 0)) {
        at++;
    }
    if (at == ACCESS_FIELD_COUNT) {
        return false;
    }
    for (size_t i = 0; i < format->count; i++) {
        if (format->fields[i] == (enum access_field)at) {
            return false;
        }
    }
    format->fields[format->count++] = (enum access_field)at;
    return true;
}

/* @return false where a word is no field's name, or comes twice */
static bool access_format_parse(const char *text, struct access_format *ret_format)
{
    static const char blanks[] = " \t";
    struct access_format format = {.count = 0};

    for (text += strspn(text, blanks); *text != '\0'; text += strspn(text, blanks)) {
        size_t len = strcspn(text, blanks);
        if (!add_field(&format, text, len)) {
            return false;
        }
        text += len;
    }
    *ret_format = format;
    return true;
}

const struct place *check_place_of(const struct loader *loader, const char *section,
                                   const char *key)
{
    const struct config_row *row = schema_find(section, key);

    return row == NULL ? &loader->here : &loader->set_at[row - config_rows];
}

#define TRANSPORT(name, word, scheme, ...) " " scheme
static const char expected_uri[] = "expected coap://ADDRESS:PORT, or one of these for coap:"
#include "coap/transport.def"
    ;
#undef TRANSPORT

/* The error in @p uri as static text, or NULL. */
static const char *parse_listener(const char *uri, struct config_listener *ret_listener)
{
    static const char separator[] = "://";
    const char *authority = strstr(uri, separator);

    if (authority == NULL) {
        return expected_uri;
    }
    enum transport transport = transport_by_scheme(uri, (size_t)(authority - uri));
    if (transport == TRANSPORT_NONE) {
        return expected_uri;
    }
    authority += sizeof(separator) - 1;
    size_t len = strlen(authority);
    if (len > 0 && authority[len - 1] == '/') {
        len--;
    }
    struct address address;
    if (!address_parse(authority, len, transport_row(transport)->default_port, &address)) {
        return "expected coap://ADDRESS:PORT with an IPv4 address, an IPv6 address in brackets, or "
               "*";
    }
    if (address_is_multicast(&address)) {
        return "a multicast address cannot be listened on";
    }
    ret_listener->bind = address;
    ret_listener->transport = transport;
    return NULL;
}

/* Port 0 twice is two ports. */
static bool is_taken(const struct config_listener *listeners, size_t count,
                     const struct config_listener *listener)
{
    bool is_stream = transport_is_stream(listener->transport);

    for (size_t i = 0; i < count; i++) {
        if (listener->bind.port != 0 && address_equal(&listeners[i].bind, &listener->bind) &&
            transport_is_stream(listeners[i].transport) == is_stream) {
            return true;
        }
    }
    return false;
}

static bool lacks_credentials(const struct config *config, const struct config_listener *listener)
{
    return transport_is_secure(listener->transport) && config->tls_certificate.count == 0 &&
           config->tls_psk_file[0] == '\0' && config->tls_raw_key[0] == '\0';
}

static void refuse_listener(struct loader *loader, const char *uri, const char *why)
{
    char got[GOT_MAX];

    loader_error(loader, check_place_of(loader, "listen", "uri"), "listen", "uri", "%s, got %s",
                 why, got_text(got, uri, strlen(uri)));
}

/* Adds the listener of @p uri, if it is good. @p is_half: it is one of two that "*" stands for. */
static bool check_listener(struct loader *loader, struct config_listener *listeners,
                           const char *uri, bool is_half)
{
    struct config *config = loader->config;
    struct config_listener *listener = &listeners[config->listener_count];
    const char *wrong = parse_listener(uri, listener);
    const char *lacks = wrong == NULL ? transport_left_out(listener->transport) : NULL;
    char without[64];

    if (lacks != NULL) {
        (void)snprintf(without, sizeof(without), "built without %s", lacks);
        wrong = without;
    }
    if (wrong == NULL && is_taken(listeners, config->listener_count, listener)) {
        wrong = "address given twice";
    }
    if (wrong == NULL && is_half && listener->bind.port == 0) {
        wrong = "with * a port is needed, for it is one port of two sockets";
    }
    if (wrong == NULL && lacks_credentials(config, listener)) {
        wrong = "needs tls.certificate and tls.key, tls.raw-key or tls.psk-file";
    }
    if (wrong != NULL) {
        refuse_listener(loader, uri, wrong);
        return false;
    }
    listener->uri = uri;
    listener->is_default = check_place_of(loader, "listen", "uri")->kind == PLACE_PRESET;
    listener->may_lack = is_half || listener->is_default;
    config->listener_count++;
    return true;
}

/* @p uri with @p host for its "*", in the arena; NULL without memory. */
static const char *with_host(struct loader *loader, const char *uri, const char *host)
{
    const char *star = strchr(uri, '*');
    size_t before = (size_t)(star - uri), host_len = strlen(host), after = strlen(star + 1);
    char *text = arena_alloc(loader->config->arena, before + host_len + after + 1);

    if (text == NULL) {
        loader->no_memory = true;
        return NULL;
    }
    memcpy(text, uri, before);
    memcpy(text + before, host, host_len);
    memcpy(text + before + host_len, star + 1, after + 1);
    return text;
}

/* Whether the host is an asterisk: every address of both families. */
static bool has_any_host(const char *uri)
{
    const char *host = strstr(uri, "://");

    return host != NULL && host[3] == '*' && strchr(":/", host[4]) != NULL;
}

static void check_listeners(struct loader *loader)
{
    static const char *const halves[] = {"[::]", "0.0.0.0"};
    struct config *config = loader->config;
    const struct config_list *uris = &config->listen_uri;
    struct config_listener *listeners =
        arena_alloc(config->arena, 2 * uris->count * sizeof(struct config_listener));

    if (listeners == NULL) {
        loader->no_memory = true;
        return;
    }
    config->listeners = listeners;
    config->listener_count = 0;
    for (size_t i = 0; i < uris->count; i++) {
        bool is_pair = has_any_host(uris->items[i]);
        bool is_good = is_pair || check_listener(loader, listeners, uris->items[i], false);
        for (size_t k = 0; is_pair && is_good && k < sizeof(halves) / sizeof(halves[0]); k++) {
            const char *uri = with_host(loader, uris->items[i], halves[k]);
            is_good = uri != NULL && check_listener(loader, listeners, uri, true);
        }
    }
}

/* A token and a header have to leave room for an answer (RFC 8974 section 2.1). */
static void check_token(struct loader *loader)
{
    const struct config *config = loader->config;

    if (config->proxy_max_token_bytes > config->limits_datagram_bytes / 2) {
        const struct place *place = check_place_of(loader, "proxy", "max-token-bytes");
        if (place->kind == PLACE_PRESET) {
            place = check_place_of(loader, "limits", "datagram-bytes");
        }
        loader_error(loader, place, "proxy", "max-token-bytes",
                     "more than half of limits.datagram-bytes");
    }
}

/* Names in a 5.08 are separated by spaces (RFC 8768 section 4). */
static void check_name(struct loader *loader)
{
    const struct config_row *row = schema_find("proxy", "name");
    const char *name = loader->config->proxy_name;
    size_t len = strlen(name);
    bool is_good = len > 0 && row != NULL && len <= row->max;
    char got[GOT_MAX];

    for (size_t i = 0; i < len; i++) {
        is_good = is_good && name[i] > 0x20 && name[i] < 0x7f;
    }
    if (!is_good) {
        loader_error(loader, check_place_of(loader, "proxy", "name"), "proxy", "name",
                     "expected 1 to 64 printable ASCII characters without a space, got %s",
                     got_text(got, name, len));
    }
}

/* A server is not to be flooded, even by mistake. */
#define POLL_MIN_MS 1000u

static void check_http(struct loader *loader)
{
    const char *prefix = loader->config->http_prefix;
    const char *template = loader->config->http_template;
    const char *wrong = http_template_error(template);
    size_t len = strlen(prefix);
    bool is_path = len > 0 && prefix[0] == '/' && prefix[len - 1] == '/';
    char got[GOT_MAX];

    for (size_t i = 0; i < len; i++) {
        is_path = is_path && prefix[i] > 0x20 && prefix[i] < 0x7f &&
                  strchr("?#%\"<>;,", prefix[i]) == NULL;
    }
    if (!is_path) {
        loader_error(loader, check_place_of(loader, "http", "prefix"), "http", "prefix",
                     "expected a path that begins and ends with /, got %s",
                     got_text(got, prefix, len));
    }
    if (wrong != NULL) {
        loader_error(loader, check_place_of(loader, "http", "template"), "http", "template",
                     "%s, got %s", wrong, got_text(got, template, strlen(template)));
    }
    if (loader->config->http_poll > 0 && loader->config->http_poll < POLL_MIN_MS) {
        loader_error(loader, check_place_of(loader, "http", "poll"), "http", "poll",
                     "expected 0s, or 1s or more");
    }
}

/* Whether there is such an interface shows when it is asked for: it may come later. */
static void check_zone(struct loader *loader, const char *key, const char *zone)
{
    size_t len = strlen(zone);
    bool is_good = len > 0 && len < INTERFACE_NAME_MAX;
    char got[GOT_MAX];

    for (size_t i = 0; i < len; i++) {
        is_good = is_good && zone[i] > 0x20 && zone[i] < 0x7f && zone[i] != '/';
    }
    if (!is_good) {
        loader_error(loader, check_place_of(loader, "proxy", key), "proxy", key,
                     "expected the name or number of an interface, got %s",
                     got_text(got, zone, len));
    }
}

static void check_zones(struct loader *loader)
{
    const struct config *config = loader->config;

    for (size_t i = 0; i < config->proxy_zones.count; i++) {
        check_zone(loader, "zones", config->proxy_zones.items[i]);
    }
    if (config->proxy_default_zone[0] != '\0') {
        check_zone(loader, "default-zone", config->proxy_default_zone);
    }
}

/* The word alone leaves the list empty. c-ares knows no zones. */
static void check_servers(struct loader *loader)
{
    struct config_list *servers = &loader->config->resolve_servers;
    struct address address;
    char got[GOT_MAX];

    if (servers->count == 1 && strcmp(servers->items[0], "system") == 0) {
        servers->count = 0;
    }
    for (size_t i = 0; i < servers->count; i++) {
        const char *text = servers->items[i];
        bool is_good = address_parse(text, strlen(text), 53, &address) && address.port != 0 &&
                       address.scope == 0 && !address_is_multicast(&address) &&
                       !address_is_unspecified(&address);
        if (!is_good) {
            loader_error(loader, check_place_of(loader, "resolve", "servers"), "resolve", "servers",
                         "expected ADDRESS or ADDRESS:PORT, or system, got %s",
                         got_text(got, text, strlen(text)));
        }
    }
}

static void check_raw_key(struct loader *loader, const char *key, const char *value)
{
    if (value[0] != '\0' && !raw_keys_are_there()) {
        loader_error(loader, check_place_of(loader, "tls", key), "tls", key, "%s", RAW_KEYS_LACK);
    }
}

/* credentials_load() would refuse these, too, but without the place in the file. */
static void check_tls(struct loader *loader)
{
    const struct config *config = loader->config;
    bool has_own = config->tls_certificate.count > 0 || config->tls_raw_key[0] != '\0';

    if (config->tls_certificate.count > config->tls_key.count) {
        loader_error(loader, check_place_of(loader, "tls", "certificate"), "tls", "certificate",
                     "needs tls.key");
    }
    if (config->tls_certificate.count < config->tls_key.count) {
        loader_error(loader, check_place_of(loader, "tls", "key"), "tls", "key",
                     "needs tls.certificate");
    }
    check_raw_key(loader, "raw-key", config->tls_raw_key);
    check_raw_key(loader, "client-keys", config->tls_client_keys);
    if (!has_own && config->tls_client_ca[0] != '\0') {
        loader_error(loader, check_place_of(loader, "tls", "client-ca"), "tls", "client-ca",
                     "needs tls.certificate");
    }
    if (!has_own && config->tls_client_keys[0] != '\0') {
        loader_error(loader, check_place_of(loader, "tls", "client-keys"), "tls", "client-keys",
                     "needs tls.raw-key or tls.certificate");
    }
    if (config->tls_require_client_certificate && config->tls_client_ca[0] == '\0' &&
        config->tls_client_keys[0] == '\0') {
        loader_error(loader, check_place_of(loader, "tls", "require-client-certificate"), "tls",
                     "require-client-certificate", "needs tls.client-ca or tls.client-keys");
    }
}

/* The path of a socket has to fit sun_path (unix(7)). */
#define SOCKET_PATH_MAX 107u

static void check_admin(struct loader *loader)
{
    const struct config *config = loader->config;
    const char *where = config->admin_listen, *socket = config->admin_socket;
    struct admin_listen listen = {.path = NULL};
    char got[GOT_MAX];

    if (where[0] != '\0' && (!admin_listen_parse(where, &listen) ||
                             (listen.path != NULL && strlen(listen.path) > SOCKET_PATH_MAX))) {
        loader_error(loader, check_place_of(loader, "admin", "listen"), "admin", "listen",
                     "expected http://ADDRESS:PORT or unix:/PATH, got %s",
                     got_text(got, where, strlen(where)));
    }
    if (socket[0] != '\0' && (socket[0] != '/' || strlen(socket) > SOCKET_PATH_MAX)) {
        loader_error(loader, check_place_of(loader, "admin", "socket"), "admin", "socket",
                     "expected a path from / on, of up to %u bytes, got %s", SOCKET_PATH_MAX,
                     got_text(got, socket, strlen(socket)));
    }
}

static void check_log(struct loader *loader)
{
    struct config *config = loader->config;
    const char *format = config->log_access_format;
    char got[GOT_MAX];

    if (!access_format_parse(format, &config->access_format)) {
        loader_error(loader, check_place_of(loader, "log", "access-format"), "log", "access-format",
                     "expected any of %seach once, got %s", access_format_names(),
                     got_text(got, format, strlen(format)));
    }
}

/* --- the file http.tokens-file: a line identity:sha256 for each token ---------- */

#define TOKENS_MAX 10000u
#define LINE_MAX_BYTES 512u

struct token_reader {
    struct loader *loader;
    const char *name; /* of the file */
    unsigned line;
    struct config_token *tokens;
    size_t count, capacity;
};

static const struct place *tokens_place(const struct loader *loader)
{
    const struct config_row *row = schema_find("http", "tokens-file");
    return row == NULL ? &loader->here : &loader->set_at[row - config_rows];
}

static void token_error(const struct token_reader *reader, const char *what)
{
    loader_error(reader->loader, tokens_place(reader->loader), "http", "tokens-file", "%s:%u: %s",
                 reader->name, reader->line, what);
}

static bool read_digest(const char *text, uint8_t digest[CONFIG_TOKEN_DIGEST_LEN])
{
    if (strlen(text) != (size_t)2 * CONFIG_TOKEN_DIGEST_LEN) {
        return false;
    }
    for (size_t i = 0; i < CONFIG_TOKEN_DIGEST_LEN; i++) {
        int high = escape_hex_digit(text[2 * i]), low = escape_hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        digest[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool grow_tokens(struct token_reader *reader)
{
    size_t capacity = reader->capacity == 0 ? 16 : 2 * reader->capacity;
    if (reader->count < reader->capacity) {
        return true;
    }
    struct config_token *tokens = realloc(reader->tokens, capacity * sizeof(*tokens));
    if (tokens == NULL) {
        reader->loader->no_memory = true;
        return false;
    }
    reader->tokens = tokens;
    reader->capacity = capacity;
    return true;
}

static void read_token(struct token_reader *reader, char *line)
{
    char *colon = strrchr(line, ':');
    struct config_token token;
    if (line[0] == '\0' || line[0] == '#') {
        return;
    }
    if (colon == NULL || colon == line || !read_digest(colon + 1, token.digest)) {
        token_error(reader, "expected identity:sha256, the digest as 64 hexadecimal digits");
        return;
    }
    *colon = '\0';
    char *identity = arena_alloc(reader->loader->config->arena, strlen(line) + 1);
    if (identity == NULL || !grow_tokens(reader)) {
        reader->loader->no_memory = true;
        return;
    }
    memcpy(identity, line, strlen(line) + 1);
    token.identity = identity;
    reader->tokens[reader->count++] = token;
}

static void read_tokens(struct token_reader *reader, FILE *file)
{
    char line[LINE_MAX_BYTES];
    while (!reader->loader->no_memory && fgets(line, sizeof(line), file) != NULL) {
        size_t len = strcspn(line, "\r\n");
        reader->line++;
        if (line[len] == '\0' && len + 1 == sizeof(line)) {
            token_error(reader, "line too long");
            return;
        }
        line[len] = '\0';
        if (reader->count == TOKENS_MAX) {
            token_error(reader, "more than 10,000 tokens");
            return;
        }
        read_token(reader, line);
    }
}

static void check_tokens(struct loader *loader)
{
    struct config *config = loader->config;
    struct token_reader reader = {.loader = loader, .name = config->http_tokens_file};
    if (reader.name[0] == '\0') {
        return;
    }
    FILE *file = fopen(reader.name, "re");
    if (file == NULL) {
        loader_error(loader, tokens_place(loader), "http", "tokens-file", "%s cannot be read: %s",
                     reader.name, strerror(errno));
        return;
    }
    read_tokens(&reader, file);
    (void)fclose(file);
    size_t bytes = reader.count * sizeof(struct config_token);
    struct config_token *kept = arena_alloc(config->arena, bytes > 0 ? bytes : 1);
    if (kept == NULL) {
        loader->no_memory = true;
    } else if (bytes > 0) {
        memcpy(kept, reader.tokens, bytes);
        config->http_tokens = kept;
        config->http_token_count = reader.count;
    }
    free(reader.tokens);
}

/* --- all of them --------------------------------------------------------------- */

static void (*const rules[])(struct loader *loader) = {
#define RULE(function) function,
#define SHARED(function) function,
#include "conf/rules.def"
#undef RULE
#undef SHARED
};

void loader_check(struct loader *loader)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && !loader->no_memory; i++) {
        rules[i](loader);
    }
}
