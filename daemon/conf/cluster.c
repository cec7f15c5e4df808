/* SPDX-License-Identifier: BSD-2-Clause */
/* What replicas have in common: cluster.secret-file, and the server of cache.shared. */
#include "coap/message.h"
#include "conf/loader.h"
#include "net/resolve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SECRET_BYTES_MIN 32u
#define SECRET_BYTES_MAX 1024u
#define PASSWORD_BYTES_MIN 1u
#define PASSWORD_BYTES_MAX 512u

#define REDIS_PORT 6379u
#define DATABASE_MAX 65535u
#define SHARED_PATH_MAX 107u /* bytes of a Unix socket's path */

/* A key that names a file with a secret of so many bytes. */
struct secret_file {
    const char *section, *key, *name;
    size_t bytes_min, bytes_max;
};

/* Of what was read, without the end of the line that an editor or a tool adds. */
static size_t secret_len_of(const uint8_t *bytes, size_t len)
{
    while (len > 0 && (bytes[len - 1] == '\n' || bytes[len - 1] == '\r')) {
        len--;
    }
    return len;
}

/*
 * The bytes are in the snapshot's arena, with a NUL after them, also after an error: config_free()
 * wipes them. Whether others may read the file is checked with the files of other secrets.
 */
static struct bytes read_secret(struct loader *loader, const struct secret_file *secret)
{
    const struct place *place = check_place_of(loader, secret->section, secret->key);
    size_t room = secret->bytes_max + 3;
    uint8_t *bytes = arena_alloc(loader->config->arena, room + 1);
    FILE *file = bytes == NULL ? NULL : fopen(secret->name, "re");
    if (file == NULL) {
        loader->no_memory |= bytes == NULL;
        loader_error(loader, place, secret->section, secret->key, "%s cannot be read: %s",
                     secret->name, strerror(errno));
        return (struct bytes){0};
    }
    (void)setvbuf(file, NULL, _IONBF, 0); /* or a copy would stay behind */
    size_t got = fread(bytes, 1, room, file);
    size_t len = secret_len_of(bytes, got);
    memset(bytes + len, 0, room + 1 - len);
    if (ferror(file) != 0) {
        loader_error(loader, place, secret->section, secret->key, "%s cannot be read: %s",
                     secret->name, strerror(errno));
    } else if (len < secret->bytes_min || len > secret->bytes_max) {
        loader_error(loader, place, secret->section, secret->key,
                     "%s: expected %zu to %zu bytes, got %s%zu", secret->name, secret->bytes_min,
                     secret->bytes_max, got > secret->bytes_max ? "more than " : "",
                     got > secret->bytes_max ? secret->bytes_max : len);
    }
    (void)fclose(file);
    return (struct bytes){bytes, len};
}

/* ---- the other replicas ---- */

static void cluster_error(struct loader *loader, const char *key, const char *expected,
                          const char *text)
{
    char got[GOT_MAX];
    loader_error(loader, check_place_of(loader, "cluster", key), "cluster", key, "%s, got %s",
                 expected, got_text(got, text, strlen(text)));
}

/* Of a host, with a port. */
static bool is_endpoint(const char *text, struct address *ret_address)
{
    return address_parse(text, strlen(text), 0, ret_address) && ret_address->port != 0 &&
           !address_is_multicast(ret_address);
}

/* NUMBER=ADDRESS:PORT */
static bool parse_peer(const char *text, struct config_peer *ret_peer)
{
    unsigned number = 0;
    size_t len = strspn(text, "0123456789");

    if (len == 0 || len > 3 || text[len] != '=') {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        number = 10 * number + (unsigned)(text[i] - '0');
    }
    ret_peer->number = (uint8_t)number;
    return number >= 1 && number <= UINT8_MAX && is_endpoint(text + len + 1, &ret_peer->address) &&
           !address_is_unspecified(&ret_peer->address);
}

static bool is_number_taken(const struct config *config, const struct config_peer *peers,
                            size_t count, uint8_t number)
{
    bool is_taken = number == config->cluster_number;

    for (size_t i = 0; i < count; i++) {
        is_taken |= peers[i].number == number;
    }
    return is_taken;
}

static void check_peers(struct loader *loader)
{
    struct config *config = loader->config;
    const struct config_list *texts = &config->cluster_peers;
    struct config_peer *peers = arena_alloc(config->arena, (texts->count + 1) * sizeof *peers);
    bool is_none = texts->count == 1 && strcmp(texts->items[0], "-") == 0; /* as in the example */
    size_t count = is_none ? 0 : texts->count;

    if (peers == NULL) {
        loader->no_memory = true;
        return;
    }
    memset(peers, 0, (texts->count + 1) * sizeof *peers);
    for (size_t i = 0; i < count; i++) {
        if (!parse_peer(texts->items[i], &peers[i])) {
            cluster_error(loader, "peers",
                          "expected NUMBER=ADDRESS:PORT with a number from 1 to 255",
                          texts->items[i]);
        } else if (is_number_taken(config, peers, i, peers[i].number)) {
            cluster_error(loader, "peers", "expected another number for each replica",
                          texts->items[i]);
        }
    }
    if (count > CONFIG_PEERS_MAX) {
        cluster_error(loader, "peers", "expected 32 replicas at most", texts->items[0]);
    }
    config->cluster.peers = peers;
    config->cluster.peer_count = count;
}

/* All three or none. */
static void check_cluster_files(struct loader *loader)
{
    const struct config *config = loader->config;
    bool has_some = config->cluster_certificate[0] != '\0' || config->cluster_key[0] != '\0' ||
                    config->cluster_ca[0] != '\0';
    bool has_all = config->cluster_certificate[0] != '\0' && config->cluster_key[0] != '\0' &&
                   config->cluster_ca[0] != '\0' && config->cluster_number != 0;

    if (has_some && !has_all) {
        cluster_error(loader, "certificate",
                      "expected cluster.number, cluster.key and cluster.ca with it",
                      config->cluster_certificate);
    }
}

/* The keys that cluster.number needs. */
static void check_replica(struct loader *loader)
{
    struct config *config = loader->config;
    const char *needed = config->cluster_secret_file[0] == '\0' ? "cluster.secret-file"
                         : config->cluster_listen[0] == '\0'    ? "cluster.listen"
                         : config->cluster.peer_count == 0      ? "cluster.peers"
                         : config->tls_cid_bytes != 8           ? "tls.cid-bytes = 8"
                                                                : NULL;

    if (needed != NULL) {
        loader_error(loader, check_place_of(loader, "cluster", "number"), "cluster", "number",
                     "it needs %s", needed);
    }
}

static void check_cluster_peers(struct loader *loader)
{
    struct config *config = loader->config;

    if (config->cluster_listen[0] != '\0' &&
        !is_endpoint(config->cluster_listen, &config->cluster.listen)) {
        cluster_error(loader, "listen",
                      "expected ADDRESS:PORT with an IPv4 address or an IPv6 address in brackets",
                      config->cluster_listen);
    }
    check_peers(loader);
    check_cluster_files(loader);
    if (config->cluster_number != 0) {
        check_replica(loader);
    } else {
        config->cluster.listen = (struct address){.family = ADDRESS_NONE};
    }
}

void loader_check_cluster(struct loader *loader)
{
    struct config *config = loader->config;
    const struct secret_file secret = {"cluster", "secret-file", config->cluster_secret_file,
                                       SECRET_BYTES_MIN, SECRET_BYTES_MAX};
    if (secret.name[0] != '\0') {
        struct bytes bytes = read_secret(loader, &secret);
        config->cluster_secret = bytes.data;
        config->cluster_secret_len = bytes.len;
    }
    check_cluster_peers(loader);
}

/* Digits only, up to DATABASE_MAX; none are 0. */
static bool parse_database(const char *text, uint32_t *ret_database)
{
    uint32_t number = 0;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || number > DATABASE_MAX) {
            return false;
        }
        number = number * 10 + (uint32_t)(*text - '0');
    }
    *ret_database = number;
    return number <= DATABASE_MAX;
}

/* An address, or a name that a resolver takes for no address. @return false for anything else */
static bool parse_shared_host(struct loader *loader, const char *text, size_t len,
                              struct config_shared *shared)
{
    if (address_parse(text, len, REDIS_PORT, &shared->address)) {
        return !address_is_multicast(&shared->address) && shared->address.port != 0;
    }
    const char *colon = memchr(text, ':', len);
    size_t name_len = colon == NULL ? len : (size_t)(colon - text);
    uint32_t port = REDIS_PORT;
    char digits[8] = "";
    if (colon != NULL) {
        size_t digit_count = len - name_len - 1;
        if (digit_count == 0 || digit_count >= sizeof(digits)) {
            return false;
        }
        memcpy(digits, colon + 1, digit_count);
        if (!parse_database(digits, &port) || port == 0) {
            return false;
        }
    }
    char *name = arena_alloc(loader->config->arena, name_len + 1);
    if (name == NULL || !resolve_is_host_name(text, name_len)) {
        return false;
    }
    memcpy(name, text, name_len);
    name[name_len] = '\0';
    shared->host = name;
    shared->address = (struct address){.family = ADDRESS_NONE, .port = (uint16_t)port};
    return true;
}

static bool parse_shared(struct loader *loader, const char *text, struct config_shared *ret_shared)
{
    static const char unix_prefix[] = "unix:", redis_prefix[] = "redis://",
                      tls_prefix[] = "rediss://";
    struct config_shared shared = {.path = NULL};

    if (strncmp(text, unix_prefix, sizeof(unix_prefix) - 1) == 0) {
        shared.path = text + sizeof(unix_prefix) - 1;
        *ret_shared = shared;
        return shared.path[0] == '/' && strlen(shared.path) <= SHARED_PATH_MAX;
    }
    shared.has_tls = strncmp(text, tls_prefix, sizeof(tls_prefix) - 1) == 0;
    if (!shared.has_tls && strncmp(text, redis_prefix, sizeof(redis_prefix) - 1) != 0) {
        return false;
    }
    text += shared.has_tls ? sizeof(tls_prefix) - 1 : sizeof(redis_prefix) - 1;
    size_t len = strcspn(text, "/");
    if (!parse_shared_host(loader, text, len, &shared) ||
        (text[len] == '/' && !parse_database(text + len + 1, &shared.database))) {
        return false;
    }
    *ret_shared = shared;
    return true;
}

static void shared_error(struct loader *loader, const char *key, const char *expected,
                         const char *text)
{
    char got[GOT_MAX];
    loader_error(loader, check_place_of(loader, "cache", key), "cache", key, "%s, got %s", expected,
                 got_text(got, text, strlen(text)));
}

static bool is_prefix(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._:-";
    return text[strspn(text, letters)] == '\0';
}

void loader_check_shared(struct loader *loader)
{
    struct config *config = loader->config;
    const char *where = config->cache_shared;
    const struct secret_file password = {"cache", "shared-password-file",
                                         config->cache_shared_password_file, PASSWORD_BYTES_MIN,
                                         PASSWORD_BYTES_MAX};

    if (!CRI_WITH_REDIS && where[0] != '\0') {
        shared_error(loader, "shared", "built without Redis", where);
    } else if (where[0] != '\0' && !parse_shared(loader, where, &config->shared)) {
        shared_error(loader, "shared",
                     "expected redis://HOST:PORT/DB or rediss://HOST:PORT/DB with a name, an IPv4 "
                     "address or an IPv6 address in brackets, or unix:/PATH",
                     where);
    } else if (config->shared.has_tls && !CRI_WITH_TLS) {
        shared_error(loader, "shared", "built without TLS", where);
    }
    if ((config->cache_shared_certificate[0] == '\0') != (config->cache_shared_key[0] == '\0')) {
        shared_error(loader, "shared-certificate",
                     "expected cache.shared-certificate and cache.shared-key together",
                     config->cache_shared_certificate);
    }
    if (!is_prefix(config->cache_shared_prefix)) {
        shared_error(loader, "shared-prefix", "expected letters, digits, and . _ : -",
                     config->cache_shared_prefix);
    }
    if (config->cache_shared_private && config->cluster_secret_file[0] == '\0') {
        shared_error(loader, "shared-private", "expected cluster.secret-file with it", "yes");
    }
    if (password.name[0] != '\0') {
        config->shared.password = (const char *)read_secret(loader, &password).data;
    } else if (config->cache_shared_user[0] != '\0') {
        shared_error(loader, "shared-user", "expected cache.shared-password-file with it",
                     config->cache_shared_user);
    }
}
