/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/raw_keys.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN_PUBLIC_KEY "-----BEGIN PUBLIC KEY-----"
#define END_PUBLIC_KEY "-----END PUBLIC KEY-----"

/* PEM of the longest public key that is taken: RSA of 16,384 bits has 2,900 bytes. */
#define PEM_MAX 4096u
#define LINE_MAX_LEN 256u

/* As OpenSSL's security level 2, that of the handshakes. */
#define SECURITY_BITS_MIN 112

struct raw_key {
    uint8_t digest[RAW_KEY_DIGEST_LEN];
    char name[RAW_KEY_NAME_MAX + 1];
};

struct raw_keys {
    struct raw_key *items; /* by digest, once they are all there */
    size_t count, capacity;
};

/* ---- reading ---- */

struct raw_key_reader {
    struct raw_keys *keys;
    const char *file;
    unsigned line;
    char *error;
    size_t error_capacity;
    char name[RAW_KEY_NAME_MAX + 1]; /* of the key that comes next; "": none yet */
    bool is_inside;                  /* a key */
    size_t pem_len;
    char pem[PEM_MAX];
};

static bool raw_fail(const struct raw_key_reader *reader, const char *what)
{
    (void)snprintf(reader->error, reader->error_capacity, "%s:%u: %s", reader->file, reader->line,
                   what);
    return false;
}

static struct raw_key *raw_add(struct raw_keys *keys)
{
    if (keys->count == keys->capacity) {
        size_t capacity = keys->capacity == 0 ? 16 : 2 * keys->capacity;
        struct raw_key *larger = realloc(keys->items, capacity * sizeof *larger);
        if (larger == NULL) {
            return NULL;
        }
        keys->items = larger;
        keys->capacity = capacity;
    }
    return &keys->items[keys->count];
}

/* The key whose last line has been read. */
static bool take_raw_key(struct raw_key_reader *reader)
{
    BIO *bio = BIO_new_mem_buf(reader->pem, (int)reader->pem_len);
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
    struct raw_key *item = reader->keys->count < RAW_KEYS_MAX ? raw_add(reader->keys) : NULL;
    bool is_good = false;

    if (item == NULL) {
        (void)raw_fail(reader, "too many keys");
    } else if (key == NULL) {
        (void)raw_fail(reader, "not a public key that OpenSSL can read");
    } else if (EVP_PKEY_get_security_bits(key) < SECURITY_BITS_MIN) {
        (void)raw_fail(reader, "the key has less than 112 bits of strength");
    } else if (!raw_key_digest(key, item->digest)) {
        (void)raw_fail(reader, "out of memory");
    } else {
        memcpy(item->name, reader->name, sizeof item->name);
        reader->keys->count++;
        is_good = true;
    }
    EVP_PKEY_free(key);
    BIO_free(bio);
    ERR_clear_error();
    reader->name[0] = '\0';
    reader->is_inside = false;
    return is_good;
}

static bool add_pem_line(struct raw_key_reader *reader, const char *line, size_t len)
{
    if (len + 1 > sizeof reader->pem - reader->pem_len) {
        return raw_fail(reader, "the key is too long");
    }
    memcpy(reader->pem + reader->pem_len, line, len);
    reader->pem[reader->pem_len + len] = '\n';
    reader->pem_len += len + 1;
    return strcmp(line, END_PUBLIC_KEY) != 0 || take_raw_key(reader);
}

static bool begin_raw_key(struct raw_key_reader *reader, const char *line, size_t len)
{
    if (strcmp(line, BEGIN_PUBLIC_KEY) != 0) {
        return raw_fail(reader, "expected " BEGIN_PUBLIC_KEY);
    }
    if (reader->name[0] == '\0') {
        return raw_fail(reader, "expected the key's name on a line before it");
    }
    reader->is_inside = true;
    reader->pem_len = 0;
    return add_pem_line(reader, line, len);
}

/* @p line without blanks around it. */
static bool take_raw_line(struct raw_key_reader *reader, const char *line, size_t len)
{
    if (reader->is_inside) {
        return add_pem_line(reader, line, len);
    }
    if (len == 0 || line[0] == '#') {
        return true;
    }
    if (strncmp(line, "-----", 5) == 0) {
        return begin_raw_key(reader, line, len);
    }
    if (reader->name[0] != '\0') {
        return raw_fail(reader, "expected " BEGIN_PUBLIC_KEY " after the name");
    }
    if (len > RAW_KEY_NAME_MAX) {
        return raw_fail(reader, "name longer than 127 bytes");
    }
    memcpy(reader->name, line, len + 1);
    return true;
}

static bool read_raw_lines(struct raw_key_reader *reader, FILE *file)
{
    static const char blanks[] = " \t\r\n";
    char line[LINE_MAX_LEN];

    while (fgets(line, sizeof line, file) != NULL) {
        size_t len = strlen(line);
        reader->line++;
        if (len == sizeof line - 1 && line[len - 1] != '\n') {
            return raw_fail(reader, "line too long");
        }
        while (len > 0 && strchr(blanks, line[len - 1]) != NULL) {
            line[--len] = '\0';
        }
        size_t skip = strspn(line, blanks);
        if (!take_raw_line(reader, line + skip, len - skip)) {
            return false;
        }
    }
    if (ferror(file) != 0) {
        return raw_fail(reader, strerror(errno));
    }
    return (!reader->is_inside && reader->name[0] == '\0') ||
           raw_fail(reader, reader->is_inside ? "expected " END_PUBLIC_KEY
                                              : "expected " BEGIN_PUBLIC_KEY " after the name");
}

/* ---- the table ---- */

static int compare_raw_keys(const void *a, const void *b)
{
    return memcmp(((const struct raw_key *)a)->digest, ((const struct raw_key *)b)->digest,
                  RAW_KEY_DIGEST_LEN);
}

/* By digest, each once: with two names it would not be known which one holds. */
static bool sort_raw_keys(const struct raw_key_reader *reader)
{
    struct raw_key *items = reader->keys->items;
    size_t count = reader->keys->count;

    if (count > 1) {
        qsort(items, count, sizeof items[0], compare_raw_keys);
    }
    for (size_t i = 1; i < count; i++) {
        if (compare_raw_keys(&items[i - 1], &items[i]) == 0) {
            (void)snprintf(reader->error, reader->error_capacity,
                           "%s: the key of %s is there twice", reader->file, items[i].name);
            return false;
        }
    }
    return true;
}

struct raw_keys *raw_keys_load(const char *file, char *ret_error, size_t error_capacity)
{
    struct raw_key_reader reader = {
        .file = file, .error = ret_error, .error_capacity = error_capacity};
    FILE *stream = fopen(file, "rbe");

    if (stream == NULL) {
        (void)snprintf(ret_error, error_capacity, "%s: %s", file, strerror(errno));
        return NULL;
    }
    reader.keys = calloc(1, sizeof *reader.keys);
    bool is_good = reader.keys != NULL ? read_raw_lines(&reader, stream) && sort_raw_keys(&reader)
                                       : raw_fail(&reader, "out of memory");
    (void)fclose(stream);
    if (!is_good) {
        raw_keys_free(reader.keys);
        return NULL;
    }
    return reader.keys;
}

void raw_keys_free(struct raw_keys *keys)
{
    if (keys != NULL) {
        free(keys->items);
        free(keys);
    }
}

const char *raw_keys_find(const struct raw_keys *keys, const uint8_t *digest, size_t len)
{
    size_t first = 0, last = keys == NULL ? 0 : keys->count;

    while (first < last) {
        size_t middle = first + (last - first) / 2;
        int order = memcmp(keys->items[middle].digest, digest, len);
        if (order == 0) {
            return keys->items[middle].name;
        }
        if (order < 0) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return NULL;
}

/* ---- one key ---- */

const char *raw_key_format(const uint8_t digest[RAW_KEY_DIGEST_LEN], char text[RAW_KEY_URI_MAX])
{
    static const char prefix[] = "ni:///sha-256;";
    char *at = text + sizeof prefix - 1;

    memcpy(text, prefix, sizeof prefix);
    (void)EVP_EncodeBlock((unsigned char *)at, digest, RAW_KEY_DIGEST_LEN);
    for (; *at != '\0' && *at != '='; at++) { /* base64url without padding, RFC 6920 section 3 */
        *at = *at == '+' ? '-' : *at == '/' ? '_' : *at;
    }
    *at = '\0';
    return text;
}

bool raw_key_digest(const EVP_PKEY *key, uint8_t ret_digest[RAW_KEY_DIGEST_LEN])
{
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(key, &der);
    unsigned digest_len = 0;
    bool is_good = len > 0 &&
                   EVP_Digest(der, (size_t)len, ret_digest, &digest_len, EVP_sha256(), NULL) == 1 &&
                   digest_len == RAW_KEY_DIGEST_LEN;

    OPENSSL_free(der);
    return is_good;
}

/* Without this OpenSSL would ask for a passphrase on the terminal. */
static int raw_on_passphrase(char *buffer, int capacity, int writing, void *context)
{
    (void)buffer;
    (void)capacity;
    (void)writing;
    (void)context;
    return -1;
}

EVP_PKEY *raw_key_read(const char *file)
{
    BIO *bio = BIO_new_file(file, "re");
    EVP_PKEY *key =
        bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, raw_on_passphrase, NULL) : NULL;

    BIO_free(bio);
    return key;
}

/* ---- in handshakes ---- */

#if OPENSSL_VERSION_NUMBER >= RAW_KEYS_OPENSSL
EVP_PKEY *raw_key_of_peer(const SSL *ssl)
{
    return SSL_get0_peer_rpk(ssl);
}

EVP_PKEY *raw_key_in_question(X509_STORE_CTX *store)
{
    /* The other objection is a key too weak for the security level. */
    return X509_STORE_CTX_get_error(store) == X509_V_ERR_RPK_UNTRUSTED
               ? X509_STORE_CTX_get0_rpk(store)
               : NULL;
}

bool raw_key_is_unknown(long verdict)
{
    return verdict == X509_V_ERR_RPK_UNTRUSTED;
}
#else
EVP_PKEY *raw_key_of_peer(const SSL *ssl)
{
    (void)ssl;
    return NULL;
}

EVP_PKEY *raw_key_in_question(X509_STORE_CTX *store)
{
    (void)store;
    return NULL;
}

bool raw_key_is_unknown(long verdict)
{
    (void)verdict;
    return false;
}
#endif
