/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/credentials_internal.h"

#include "base/escape.h"
#include "base/hash.h"
#include "base/log.h"
#include "net/raw_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- pre-shared keys ---- */

/*
 * Pre-shared keys by identity, read from lines of "identity:hex-key": the last
 * colon of a line separates, so identities may have colons.
 */

/* An identity, a key in hexadecimal, a colon, blanks around. */
#define LINE_CAPACITY (PSK_IDENTITY_MAX + 2 * PSK_KEY_MAX + 64)

/* Of the key an unknown identity gets: that of most keys. */
#define UNKNOWN_KEY_LEN 16

struct psk {
    struct hash_node node;
    uint8_t key_len;
    uint8_t key[PSK_KEY_MAX];
    char identity[PSK_IDENTITY_MAX + 1];
};

/* Keys are in blocks, so that they do not move while the file is read. */
#define BLOCK_KEYS 256

struct psk_block {
    struct psk_block *next;
    size_t count;
    struct psk psks[BLOCK_KEYS];
};

struct psk_table {
    struct hash_map map;
    struct psk_block *blocks; /* the one being filled first */
    size_t count;
    uint8_t secret[32]; /* secret from which keys of unknown identities are derived */
};

/* ---- reading ---- */

struct psk_reader {
    struct psk_table *table;
    const char *file;
    unsigned line;
    const struct error_text *error;
};

static bool psk_fail(const struct psk_reader *reader, const char *what)
{
    (void)snprintf(reader->error->text, reader->error->capacity, "%s:%u: %s", reader->file,
                   reader->line, what);
    return false;
}

static bool parse_key(const char *hex, size_t hex_len, struct psk *psk)
{
    if (hex_len == 0 || hex_len % 2 != 0 || hex_len / 2 > sizeof psk->key) {
        return false;
    }
    for (size_t i = 0; i < hex_len / 2; i++) {
        int high = escape_hex_digit(hex[2 * i]);
        int low = escape_hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        psk->key[i] = (uint8_t)(high * 16 + low);
    }
    psk->key_len = (uint8_t)(hex_len / 2);
    return true;
}

static uint64_t psk_key_of(const struct psk_table *table, const char *identity)
{
    return hash_bytes((const uint8_t *)identity, strlen(identity), table->map.seed);
}

static const struct psk *psk_find(const struct psk_table *table, const char *identity)
{
    struct hash_node *node = hash_map_find(&table->map, psk_key_of(table, identity));

    for (; node != NULL; node = hash_map_find_next(node)) {
        const struct psk *psk = HASH_ENTRY(node, struct psk, node);
        if (strcmp(psk->identity, identity) == 0) {
            return psk;
        }
    }
    return NULL;
}

static struct psk *add_slot(struct psk_table *table)
{
    struct psk_block *block = table->blocks;

    if (block == NULL || block->count == BLOCK_KEYS) {
        block = calloc(1, sizeof *block);
        if (block == NULL) {
            return NULL;
        }
        block->next = table->blocks;
        table->blocks = block;
    }
    return &block->psks[block->count];
}

static bool psk_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool psk_take_line(struct psk_reader *reader, const char *line, size_t len)
{
    struct psk_table *table = reader->table;

    while (len > 0 && psk_is_blank(line[len - 1])) {
        len--;
    }
    while (len > 0 && psk_is_blank(line[0])) {
        line++;
        len--;
    }
    if (len == 0 || line[0] == '#') {
        return true;
    }
    const char *colon = memrchr(line, ':', len);
    size_t identity_len = colon == NULL ? 0 : (size_t)(colon - line);
    if (identity_len == 0 || memchr(line, '\0', len) != NULL) {
        return psk_fail(reader, "expected identity:hex-key");
    }
    if (identity_len > PSK_IDENTITY_MAX) {
        return psk_fail(reader, "identity longer than 128 bytes");
    }
    struct psk *psk = table->count < PSK_COUNT_MAX ? add_slot(table) : NULL;
    if (psk == NULL) {
        return psk_fail(reader, "too many keys");
    }
    if (!parse_key(colon + 1, len - identity_len - 1, psk)) {
        return psk_fail(reader, "expected a key of 1 to 64 bytes in hexadecimal after the colon");
    }
    memcpy(psk->identity, line, identity_len);
    psk->identity[identity_len] = '\0';
    if (psk_find(table, psk->identity) != NULL) {
        return psk_fail(reader, "identity given before");
    }
    hash_map_add(&table->map, &psk->node, psk_key_of(table, psk->identity));
    table->blocks->count++;
    table->count++;
    return true;
}

/* Into memory of our own: getline() would leave keys in memory that it frees. */
static bool read_lines(struct psk_reader *reader, FILE *file)
{
    char line[LINE_CAPACITY];
    bool good = true;

    while (good && fgets(line, sizeof line, file) != NULL) {
        size_t len = strlen(line);
        reader->line++;
        if (len == sizeof line - 1 && line[len - 1] != '\n') {
            good = psk_fail(reader, "line too long");
        } else {
            good = psk_take_line(reader, line, len);
        }
    }
    if (good && ferror(file) != 0) {
        good = psk_fail(reader, strerror(errno));
    }
    OPENSSL_cleanse(line, sizeof line);
    return good;
}

/* ---- the table ---- */

static struct psk_table *table_new(size_t capacity)
{
    struct psk_table *table = calloc(1, sizeof *table);
    uint64_t seed = 0;

    if (table == NULL) {
        return NULL;
    }
    if (RAND_bytes((unsigned char *)&seed, sizeof seed) != 1 ||
        RAND_bytes(table->secret, sizeof table->secret) != 1 ||
        hash_map_init(&table->map, capacity, seed) != 0) {
        free(table);
        return NULL;
    }
    return table;
}

/* Enough buckets for a file of this size, so that they need not grow. */
static size_t capacity_of(FILE *file)
{
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    size_t lines = size > 0 ? (size_t)size / 24 : 0;

    rewind(file);
    return lines < 64 ? 64 : lines > PSK_COUNT_MAX ? PSK_COUNT_MAX : lines;
}

static void warn_of_keys(const struct psk_table *table, const char *file)
{
    size_t weak = 0, shortest = PSK_KEY_MAX;
    char shown[512];

    for (const struct psk_block *block = table->blocks; block != NULL; block = block->next) {
        for (size_t i = 0; i < block->count; i++) {
            size_t len = block->psks[i].key_len;
            weak += len < PSK_KEY_STRONG ? 1 : 0;
            shortest = len < shortest ? len : shortest;
        }
    }
    escape_value(shown, sizeof shown, file, strlen(file));
    if (table->count == 0) {
        log_event(LOG_WARNING, "psk_file_empty", "file=%s", shown);
    } else if (weak > 0) {
        log_event(LOG_WARNING, "psk_weak", "file=%s keys=%zu shortest_bytes=%zu wanted_bytes=%d",
                  shown, weak, shortest, PSK_KEY_STRONG);
    }
}

/* @return NULL on error. Free with psk_table_free(). */
static void psk_table_free(struct psk_table *table)
{
    if (table == NULL) {
        return;
    }
    while (table->blocks != NULL) {
        struct psk_block *block = table->blocks;
        table->blocks = block->next;
        OPENSSL_cleanse(block, sizeof *block);
        free(block);
    }
    hash_map_clear(&table->map);
    OPENSSL_cleanse(table, sizeof *table);
    free(table);
}

/* @return NULL on error. Free with psk_table_free(). */
static struct psk_table *psk_table_load(const char *file, const struct error_text *error)
{
    char buffer[4096];
    FILE *stream = fopen(file, "rbe");

    if (stream == NULL) {
        (void)credentials_fail(error, file, strerror(errno));
        return NULL;
    }
    (void)setvbuf(stream, buffer, _IOFBF, sizeof buffer);
    struct psk_table *table = table_new(capacity_of(stream));
    struct psk_reader reader = {.table = table, .file = file, .error = error};
    bool good = table != NULL ? read_lines(&reader, stream)
                              : credentials_fail(error, file, "out of memory");
    (void)fclose(stream);
    OPENSSL_cleanse(buffer, sizeof buffer);
    if (table == NULL || !good) {
        psk_table_free(table);
        return NULL;
    }
    warn_of_keys(table, file);
    return table;
}

bool psk_tables_agree(const struct psk_table *a, const struct psk_table *b, const char *identity)
{
    const struct psk *left = a == NULL ? NULL : psk_find(a, identity);
    const struct psk *right = b == NULL ? NULL : psk_find(b, identity);

    return left != NULL && right != NULL && left->key_len == right->key_len &&
           CRYPTO_memcmp(left->key, right->key, left->key_len) == 0;
}

bool psk_table_look(const struct psk_table *table, const char *identity, const uint8_t **ret_key,
                    size_t *ret_key_len)
{
    const struct psk *psk = table == NULL ? NULL : psk_find(table, identity);

    if (psk == NULL) {
        return false;
    }
    *ret_key = psk->key;
    *ret_key_len = psk->key_len;
    return true;
}

bool psk_table_find(const struct psk_table *table, const char *identity,
                    uint8_t ret_key[PSK_KEY_MAX], size_t *ret_key_len)
{
    unsigned char made[EVP_MAX_MD_SIZE] = {0};
    size_t made_len = sizeof made;

    /*
     * Also derived for known identities, so that both take the same time (SEC-13). An unknown
     * identity always gets the same key, so it fails in the same way each time.
     */
    if (EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, table->secret, sizeof table->secret,
                  (const unsigned char *)identity, strlen(identity), made, sizeof made,
                  &made_len) == NULL &&
        RAND_bytes(made, UNKNOWN_KEY_LEN) != 1) {
        *ret_key_len = 0; /* no key is no handshake */
        return false;
    }
    const struct psk *psk = strlen(identity) <= PSK_IDENTITY_MAX ? psk_find(table, identity) : NULL;
    *ret_key_len = psk != NULL ? psk->key_len : UNKNOWN_KEY_LEN;
    memcpy(ret_key, psk != NULL ? psk->key : made, *ret_key_len);
    OPENSSL_cleanse(made, sizeof made);
    return psk != NULL;
}

/* ---- raw public keys ---- */

/*
 * Raw public keys of a listener (RFC 7250). In a handshake the two sides are apart: which kind each
 * shows follows from what the client offers, and both is decided before certificates are chosen.
 *
 *  - A client that takes raw keys of servers gets ours, if there is one; any other the certificate.
 *  - A client that can show a raw key is asked for it, if there is a file of clients' keys. Any
 * other is asked for a certificate as before: if there are client CAs, or one of both is required.
 */

/* OpenSSL's error is of the first thing that went wrong. */
static bool fail_of_raw_key(const struct error_text *error, const char *file)
{
    unsigned long code = ERR_peek_error();
    const char *what = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code))
                                              : "not a private key in PEM without a passphrase";

    ERR_clear_error();
    return credentials_fail(error, file, what);
}

/* Loads the raw keys of both sides. False with a text in @p error. */
static bool credentials_load_raw_keys(struct credentials *credentials,
                                      const struct credentials_options *options,
                                      const struct error_text *error)
{
    bool is_asked_for = options->raw_key_file != NULL || options->client_keys_file != NULL;

    if (is_asked_for && !raw_keys_are_there()) {
        return credentials_fail(error, "tls", RAW_KEYS_LACK);
    }
    if (options->raw_key_file != NULL) {
        ERR_clear_error();
        credentials->raw_key = raw_key_read(options->raw_key_file);
        if (credentials->raw_key == NULL) {
            return fail_of_raw_key(error, options->raw_key_file);
        }
        credentials_check_secrecy(options->raw_key_file);
    }
    if (options->client_keys_file != NULL) {
        credentials->client_keys =
            raw_keys_load(options->client_keys_file, error->text, error->capacity);
    }
    return options->client_keys_file == NULL || credentials->client_keys != NULL;
}

/* Frees what credentials_load_raw_keys() has loaded. */
static void credentials_free_raw_keys(struct credentials *credentials)
{
    raw_keys_free(credentials->client_keys);
    EVP_PKEY_free(credentials->raw_key);
}

bool credentials_hold_raw_key(const struct credentials *credentials,
                              const struct identity *identity, const uint8_t *anchor,
                              size_t anchor_len)
{
    const char *name = raw_keys_find(credentials->client_keys, anchor, anchor_len);
    char proved[RAW_KEY_NAME_MAX + 1];

    return name != NULL && identity_unescape(identity->names, proved, sizeof proved) &&
           strcmp(name, proved) == 0;
}

#if OPENSSL_VERSION_NUMBER >= RAW_KEYS_OPENSSL
/* OpenSSL's SSL_CTX_set_cert_cb(): both certificate types have been agreed upon. */
static int on_certificate(SSL *ssl, void *context)
{
    const struct credentials *credentials = context;
    bool asks_for_raw = credentials->client_keys != NULL &&
                        SSL_get_negotiated_client_cert_type(ssl) == TLSEXT_cert_type_rpk;

    if (!asks_for_raw && !credentials->has_client_ca && !credentials->requires_client) {
        SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL); /* a certificate would be refused */
    }
    if (SSL_get_negotiated_server_cert_type(ssl) == TLSEXT_cert_type_rpk &&
        credentials->raw_key != NULL) {
        SSL_certs_clear(ssl);
        return SSL_use_PrivateKey(ssl, credentials->raw_key);
    }
    if (!credentials->has_certificate) {
        SSL_certs_clear(ssl); /* pre-shared keys are left */
    }
    return 1;
}

bool credentials_use_raw_keys(const struct credentials *credentials, SSL_CTX *context)
{
    /* In the order of our choice: what is smaller, and is known by itself, first. */
    static const unsigned char both[] = {TLSEXT_cert_type_rpk, TLSEXT_cert_type_x509};

    if (credentials->raw_key == NULL && credentials->client_keys == NULL) {
        return true;
    }
    SSL_CTX_set_cert_cb(context, on_certificate, (void *)(uintptr_t)credentials);
    return (credentials->raw_key == NULL ||
            SSL_CTX_set1_server_cert_type(context, both, sizeof both) == 1) &&
           (credentials->client_keys == NULL ||
            SSL_CTX_set1_client_cert_type(context, both, sizeof both) == 1);
}
#else
bool credentials_use_raw_keys(const struct credentials *credentials, SSL_CTX *context)
{
    (void)credentials;
    (void)context;
    return true;
}
#endif

/* ---- credentials as a whole ---- */

bool credentials_fail(const struct error_text *error, const char *place, const char *what)
{
    (void)snprintf(error->text, error->capacity, "%s: %s", place, what);
    return false;
}

static bool check_options(const struct credentials_options *options, const struct error_text *error)
{
    if (options->certificate_file != NULL && options->key_file == NULL) {
        return credentials_fail(error, options->certificate_file, "a certificate needs its key");
    }
    if (options->certificate_file == NULL && options->other_count > 0) {
        return credentials_fail(error, "tls", "further certificates need a first one");
    }
    if (options->certificate_file == NULL && options->key_file != NULL) {
        return credentials_fail(error, options->key_file, "a key needs its certificate");
    }
    if (options->certificate_file == NULL && options->psk_file == NULL &&
        options->raw_key_file == NULL) {
        return credentials_fail(error, "tls", "neither a certificate nor a file of keys");
    }
    return true;
}

/* What is asked of clients needs something of our own, and the other way round. */
static bool check_client_options(const struct credentials_options *options,
                                 const struct error_text *error)
{
    bool has_own = options->certificate_file != NULL || options->raw_key_file != NULL;

    if (options->require_client_certificate && options->client_ca_file == NULL &&
        options->client_keys_file == NULL) {
        return credentials_fail(error, "tls",
                                "client certificates are required, but there is no client CA");
    }
    if (options->client_ca_file != NULL && !has_own) {
        return credentials_fail(error, options->client_ca_file,
                                "a client CA needs a certificate of our own");
    }
    if (options->client_keys_file != NULL && !has_own) {
        return credentials_fail(error, options->client_keys_file,
                                "keys of clients need a certificate or a raw key of our own");
    }
    return true;
}

/* Other programs add to the same file, so each line is one write at its end. */
static bool open_keylog(struct credentials *credentials, const char *file,
                        const struct error_text *error)
{
    credentials->keylog_fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (credentials->keylog_fd < 0) {
        return credentials_fail(error, file, strerror(errno));
    }
    return true;
}

/* SEC-25. A lab may not care, so it is said and not refused. */
void credentials_check_secrecy(const char *file)
{
    struct stat status;
    char name[256];

    if (file != NULL && stat(file, &status) == 0 && (status.st_mode & S_IRWXO) != 0) {
        escape_value(name, sizeof name, file, strlen(file));
        log_event(LOG_WARNING, "key_file_open_to_others", "file=%s mode=%03o", name,
                  (unsigned)status.st_mode & 0777u);
    }
}

static bool load_credential_files(struct credentials *credentials,
                                  const struct credentials_options *options,
                                  const struct error_text *error)
{
    if (!check_options(options, error) || !check_client_options(options, error) ||
        !credentials_load_raw_keys(credentials, options, error)) {
        return false;
    }
    if (options->psk_file != NULL) {
        credentials->psks = psk_table_load(options->psk_file, error);
        if (credentials->psks == NULL) {
            return false;
        }
    }
    if (options->other_count > 0) {
        credentials->others = certificate_table_load(options->others, options->other_count, error);
        if (credentials->others == NULL) {
            return false;
        }
    }
    if (options->keylog_file != NULL && !open_keylog(credentials, options->keylog_file, error)) {
        return false;
    }
    credentials_check_secrecy(options->key_file);
    credentials_check_secrecy(options->psk_file);
    for (size_t i = 0; i < options->other_count; i++) {
        credentials_check_secrecy(options->others[i].key_file);
    }
    credentials->has_certificate = options->certificate_file != NULL;
    credentials->has_client_ca = options->client_ca_file != NULL;
    credentials->requires_client = options->require_client_certificate;
    return credentials_make_contexts(credentials, options, error);
}

static void destroy(struct credentials *credentials)
{
    SSL_CTX_free(credentials->dtls);
    SSL_CTX_free(credentials->tls);
    psk_table_free(credentials->psks);
    certificate_table_free(credentials->others);
    credentials_free_raw_keys(credentials);
    if (credentials->keylog_fd >= 0) {
        (void)close(credentials->keylog_fd);
    }
    OPENSSL_cleanse(credentials->cookie_secret, sizeof credentials->cookie_secret);
    free(credentials);
}

struct credentials *credentials_load(const struct credentials_options *options, char *ret_error,
                                     size_t error_capacity)
{
    const struct error_text error = {.text = ret_error, .capacity = error_capacity};
    struct credentials *credentials = calloc(1, sizeof *credentials);

    if (credentials == NULL) {
        (void)credentials_fail(&error, "tls", "out of memory");
        return NULL;
    }
    atomic_init(&credentials->count, 1);
    credentials->keylog_fd = -1;
    if (!load_credential_files(credentials, options, &error)) {
        destroy(credentials);
        return NULL;
    }
    return credentials;
}

struct credentials *credentials_acquire(struct credentials *credentials)
{
    atomic_fetch_add_explicit(&credentials->count, 1, memory_order_relaxed);
    return credentials;
}

void credentials_release(struct credentials *credentials)
{
    if (credentials != NULL &&
        atomic_fetch_sub_explicit(&credentials->count, 1, memory_order_acq_rel) == 1) {
        destroy(credentials);
    }
}

SSL_CTX *credentials_dtls(const struct credentials *credentials)
{
    return credentials->dtls;
}

SSL_CTX *credentials_tls(const struct credentials *credentials)
{
    return credentials->tls;
}

struct bytes credentials_cookie_secret(const struct credentials *credentials)
{
    return credentials->is_clustered
               ? (struct bytes){credentials->cookie_secret, sizeof credentials->cookie_secret}
               : (struct bytes){0};
}

const struct raw_keys *credentials_client_keys(const struct credentials *credentials)
{
    return credentials->client_keys;
}
