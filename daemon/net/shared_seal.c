/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/shared_seal.h"

#include "net/derive.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <string.h>

#define VERSION_PLAIN 1u
#define VERSION_MAC 2u
#define VERSION_SEALED 3u /* and the kind is authenticated with it */

/* A context for HMAC-SHA-256 that keeps its key: looking it up costs more than a short digest. */
static EVP_MAC_CTX *keyed(const uint8_t key[DIGEST_LEN])
{
    char digest[] = "SHA256";
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = hmac == NULL ? NULL : EVP_MAC_CTX_new(hmac);
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string("digest", digest, 0),
        OSSL_PARAM_construct_end(),
    };

    EVP_MAC_free(hmac);
    if (context != NULL && EVP_MAC_init(context, key, DIGEST_LEN, params) != 1) {
        EVP_MAC_CTX_free(context);
        context = NULL;
    }
    return context;
}

/* For SipHash: its key is set for each name, as no context of OpenSSL 3.0 keeps it. */
static EVP_MAC_CTX *for_names(void)
{
    EVP_MAC *siphash = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    EVP_MAC_CTX *context = siphash == NULL ? NULL : EVP_MAC_CTX_new(siphash);

    EVP_MAC_free(siphash);
    return context;
}

static bool prepare_names(struct bytes secret, struct shared_keys *keys)
{
    keys->digest = EVP_MD_CTX_new();
    keys->names = for_names();
    return keys->digest != NULL && EVP_DigestInit_ex(keys->digest, EVP_sha256(), NULL) == 1 &&
           keys->names != NULL &&
           (secret.len == 0 || (derive_key(secret, "shared targets", (struct bytes){0},
                                           keys->target_key, sizeof keys->target_key) &&
                                derive_key(secret, "shared names", (struct bytes){0},
                                           keys->entry_key, sizeof keys->entry_key)));
}

bool shared_keys_derive(struct bytes secret, struct shared_keys *keys)
{
    static const char *const labels[SHARED_KEYS] = {[SHARED_ENTRY] = "shared entries",
                                                    [SHARED_PRIVATE_ENTRY] = "shared private",
                                                    [SHARED_CHANGE] = "shared changes",
                                                    [SHARED_SIGN] = "shared signs"};
    shared_keys_clear(keys);
    keys->has_secret = secret.len > 0;
    keys->cipher = EVP_CIPHER_CTX_new();
    bool is_good = prepare_names(secret, keys) && keys->cipher != NULL &&
                   EVP_CipherInit_ex(keys->cipher, EVP_aes_256_gcm(), NULL, NULL, NULL, 1) == 1;
    for (unsigned i = 0; i < SHARED_KEYS && is_good; i++) {
        uint8_t key[DIGEST_LEN] = {0};
        is_good =
            secret.len == 0 || derive_key(secret, labels[i], (struct bytes){0}, key, DIGEST_LEN);
        keys->macs[i] = is_good ? keyed(key) : NULL;
        is_good = keys->macs[i] != NULL;
        OPENSSL_cleanse(key, sizeof key);
    }
    if (!is_good) {
        ERR_clear_error();
        shared_keys_clear(keys);
        keys->has_secret = true; /* so that nothing opens that has no MAC */
    }
    return is_good;
}

void shared_keys_clear(struct shared_keys *keys)
{
    for (unsigned i = 0; i < SHARED_KEYS; i++) {
        EVP_MAC_CTX_free(keys->macs[i]);
    }
    EVP_CIPHER_CTX_free(keys->cipher);
    EVP_MD_CTX_free(keys->digest);
    EVP_MAC_CTX_free(keys->names);
    OPENSSL_cleanse(keys->target_key, sizeof keys->target_key);
    OPENSSL_cleanse(keys->entry_key, sizeof keys->entry_key);
    *keys = (struct shared_keys){.has_secret = false};
}

/*
 * HMAC-SHA-256 of a cache key, which may be empty, and the body. The length of the key comes first:
 * a server chooses generations, with which bodies begin, and must not move the border.
 */
static bool mac_of(EVP_MAC_CTX *context, struct bytes key, struct bytes body,
                   uint8_t ret_mac[DIGEST_LEN])
{
    const uint8_t key_len[] = {(uint8_t)(key.len >> 24), (uint8_t)(key.len >> 16),
                               (uint8_t)(key.len >> 8), (uint8_t)key.len};
    size_t made = 0;
    bool is_good = context != NULL && EVP_MAC_init(context, NULL, 0, NULL) == 1 &&
                   EVP_MAC_update(context, key_len, sizeof key_len) == 1 &&
                   (key.len == 0 || EVP_MAC_update(context, key.data, key.len) == 1) &&
                   EVP_MAC_update(context, body.data, body.len) == 1 &&
                   EVP_MAC_final(context, ret_mac, &made, DIGEST_LEN) == 1;

    if (!is_good) {
        ERR_clear_error();
    }
    return is_good && made == DIGEST_LEN;
}

static bool siphash_of(const struct shared_keys *keys, const uint8_t with[SHARED_NAMES_KEY_LEN],
                       struct bytes key, uint8_t ret_name[SHARED_TARGET_LEN])
{
    size_t made = 0;
    bool is_good = keys->names != NULL &&
                   EVP_MAC_init(keys->names, with, SHARED_NAMES_KEY_LEN, NULL) == 1 &&
                   EVP_MAC_update(keys->names, key.data, key.len) == 1 &&
                   EVP_MAC_final(keys->names, ret_name, &made, SHARED_TARGET_LEN) == 1;

    if (!is_good) {
        ERR_clear_error();
    }
    return is_good && made == SHARED_TARGET_LEN;
}

bool shared_name(const struct shared_keys *keys, struct bytes key,
                 uint8_t ret_name[SHARED_NAME_LEN])
{
    if (keys->has_secret) {
        memset(ret_name + SHARED_TARGET_LEN, 0, SHARED_NAME_LEN - SHARED_TARGET_LEN);
        return siphash_of(keys, keys->entry_key, key, ret_name);
    }
    /* Nothing in the entry says whose it is. */
    if (keys->digest != NULL && EVP_DigestInit_ex(keys->digest, NULL, NULL) == 1 &&
        EVP_DigestUpdate(keys->digest, key.data, key.len) == 1 &&
        EVP_DigestFinal_ex(keys->digest, ret_name, NULL) == 1) {
        return true;
    }
    ERR_clear_error();
    return false;
}

bool shared_target_name(const struct shared_keys *keys, struct bytes key,
                        uint8_t ret_name[SHARED_TARGET_LEN])
{
    return siphash_of(keys, keys->target_key, key, ret_name);
}

/* ---- what is encrypted ---- */

static bool is_encrypted(const struct shared_keys *keys, enum shared_kind kind)
{
    return keys->has_secret && (kind == SHARED_PRIVATE_ENTRY || kind == SHARED_CHANGE);
}

/* What belongs to an encrypted text. */
struct sealing {
    enum shared_kind kind;
    struct bytes key; /* of the cache; empty: none */
    const uint8_t *salt;
    uint8_t *tag; /* written, or compared */
};

/* Encrypts or decrypts @p from to @p to, which may be the same, with the key of the salt. */
static bool crypt_sealed(const struct shared_keys *keys, const struct sealing *with, bool encrypts,
                         struct bytes from, uint8_t *to)
{
    enum shared_kind kind = with->kind;
    struct bytes of = with->key;
    static const uint8_t nonce[12]; /* no key is used twice */
    const uint8_t marks[2] = {VERSION_SEALED, (uint8_t)kind};
    EVP_CIPHER_CTX *cipher = keys->cipher;
    uint8_t key[DIGEST_LEN];
    int len;

    bool is_good =
        cipher != NULL && from.len <= INT_MAX && of.len <= INT_MAX &&
        mac_of(keys->macs[kind], (struct bytes){0}, (struct bytes){with->salt, SHARED_SALT_LEN},
               key) &&
        EVP_CipherInit_ex(cipher, NULL, NULL, key, nonce, encrypts) == 1 &&
        (encrypts ||
         EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, (int)SHARED_TAG_LEN, with->tag) == 1) &&
        EVP_CipherUpdate(cipher, NULL, &len, marks, (int)sizeof marks) == 1 &&
        (of.len == 0 || EVP_CipherUpdate(cipher, NULL, &len, of.data, (int)of.len) == 1) &&
        EVP_CipherUpdate(cipher, to, &len, from.data, (int)from.len) == 1 &&
        EVP_CipherFinal_ex(cipher, to + from.len, &len) == 1 &&
        (!encrypts ||
         EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, (int)SHARED_TAG_LEN, with->tag) == 1);
    OPENSSL_cleanse(key, sizeof key);
    if (!is_good) {
        ERR_clear_error();
    }
    return is_good;
}

/* ---- the head ---- */

static uint8_t version_of(const struct shared_keys *keys, enum shared_kind kind)
{
    if (!keys->has_secret) {
        return VERSION_PLAIN;
    }
    return is_encrypted(keys, kind) ? VERSION_SEALED : VERSION_MAC;
}

size_t shared_head_len(const struct shared_keys *keys, enum shared_kind kind)
{
    static const size_t lengths[] = {[VERSION_PLAIN] = 1,
                                     [VERSION_MAC] = 1 + DIGEST_LEN,
                                     [VERSION_SEALED] = 1 + SHARED_SALT_LEN + SHARED_TAG_LEN};

    return lengths[version_of(keys, kind)];
}

bool shared_seal(const struct shared_keys *keys, enum shared_kind kind, struct bytes key,
                 uint8_t *at, size_t len)
{
    size_t head = shared_head_len(keys, kind);
    uint8_t *salt = at + 1, *body = at + head;

    at[0] = version_of(keys, kind);
    if (at[0] == VERSION_PLAIN) {
        return kind != SHARED_PRIVATE_ENTRY;
    }
    if (at[0] == VERSION_MAC) {
        return mac_of(keys->macs[kind], key, (struct bytes){body, len - head}, at + 1);
    }
    return RAND_bytes(salt, (int)SHARED_SALT_LEN) == 1 &&
           crypt_sealed(keys, &(const struct sealing){kind, key, salt, salt + SHARED_SALT_LEN},
                        true, (struct bytes){body, len - head}, body);
}

bool shared_unseal(const struct shared_keys *keys, enum shared_kind kind, struct bytes key,
                   struct bytes sealed, struct shared_room room, struct bytes *ret_body)
{
    uint8_t mac[DIGEST_LEN], tag[SHARED_TAG_LEN];
    size_t head = shared_head_len(keys, kind);
    uint8_t version = version_of(keys, kind);

    if (sealed.len < head || sealed.data[0] != version) {
        return false;
    }
    const struct bytes body = {sealed.data + head, sealed.len - head};
    *ret_body = body;
    if (version == VERSION_PLAIN) {
        return kind != SHARED_PRIVATE_ENTRY;
    }
    if (version == VERSION_MAC) {
        return mac_of(keys->macs[kind], key, body, mac) &&
               CRYPTO_memcmp(mac, sealed.data + 1, DIGEST_LEN) == 0;
    }
    memcpy(tag, sealed.data + 1 + SHARED_SALT_LEN, SHARED_TAG_LEN);
    *ret_body = (struct bytes){room.at, body.len};
    return body.len <= room.bytes &&
           crypt_sealed(keys, &(const struct sealing){kind, key, sealed.data + 1, tag}, false, body,
                        room.at);
}
