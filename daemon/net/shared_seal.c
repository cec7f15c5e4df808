/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/shared_seal.h"

#include "net/derive.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <string.h>

#define VERSION_PLAIN 1u
#define VERSION_SEALED 2u

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

bool shared_keys_derive(struct bytes secret, struct shared_keys *keys)
{
    static const char *const labels[SHARED_KEYS] = {[SHARED_ENTRY] = "shared entries",
                                                    [SHARED_CHANGE] = "shared changes",
                                                    [SHARED_NAME] = "shared names"};
    bool is_good = true;

    shared_keys_clear(keys);
    keys->has_secret = secret.len > 0;
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
    *keys = (struct shared_keys){.has_secret = false};
}

/* HMAC-SHA-256 of the name, which may be NULL, and the body. */
static bool mac_of(EVP_MAC_CTX *context, const uint8_t *name, struct bytes body,
                   uint8_t ret_mac[DIGEST_LEN])
{
    size_t made = 0;
    bool is_good = context != NULL && EVP_MAC_init(context, NULL, 0, NULL) == 1 &&
                   (name == NULL || EVP_MAC_update(context, name, SHARED_NAME_LEN) == 1) &&
                   EVP_MAC_update(context, body.data, body.len) == 1 &&
                   EVP_MAC_final(context, ret_mac, &made, DIGEST_LEN) == 1;

    if (!is_good) {
        ERR_clear_error();
    }
    return is_good && made == DIGEST_LEN;
}

bool shared_name(const struct shared_keys *keys, struct bytes key,
                 uint8_t ret_name[SHARED_NAME_LEN])
{
    return mac_of(keys->macs[SHARED_NAME], NULL, key, ret_name);
}

size_t shared_head_len(const struct shared_keys *keys)
{
    return 1 + (keys->has_secret ? DIGEST_LEN : 0);
}

bool shared_seal(const struct shared_keys *keys, enum shared_kind kind, const uint8_t *name,
                 uint8_t *at, size_t len)
{
    size_t head = shared_head_len(keys);

    at[0] = keys->has_secret ? VERSION_SEALED : VERSION_PLAIN;
    return !keys->has_secret ||
           mac_of(keys->macs[kind], name, (struct bytes){at + head, len - head}, at + 1);
}

bool shared_unseal(const struct shared_keys *keys, enum shared_kind kind, const uint8_t *name,
                   struct bytes sealed, struct bytes *ret_body)
{
    uint8_t mac[DIGEST_LEN];
    size_t head = shared_head_len(keys);

    if (sealed.len < head ||
        sealed.data[0] != (keys->has_secret ? VERSION_SEALED : VERSION_PLAIN)) {
        return false;
    }
    *ret_body = (struct bytes){sealed.data + head, sealed.len - head};
    return !keys->has_secret || (mac_of(keys->macs[kind], name, *ret_body, mac) &&
                                 CRYPTO_memcmp(mac, sealed.data + 1, DIGEST_LEN) == 0);
}
