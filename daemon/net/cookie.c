/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/cookie.h"

#include "net/derive.h"
#include "net/loop.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_MS 60000u

#define PERIOD_S (PERIOD_MS / 1000u)

struct cookies {
    const struct loop *loop;
    EVP_MAC_CTX *mac;
    uint64_t period;                     /* that the first secret is of */
    bool is_shared;                      /* periods are those of the wall clock */
    unsigned count;                      /* of the secrets */
    uint8_t secrets[3][DERIVED_KEY_LEN]; /* this period's, the last one's; shared: the next one's */
    uint8_t root[DERIVED_KEY_LEN];       /* shared: they are derived from it */
};

/* NULL: no memory. */
static EVP_MAC_CTX *cookie_mac_new(void)
{
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = mac == NULL ? NULL : EVP_MAC_CTX_new(mac);
    EVP_MAC_free(mac); /* the context has a count of its own */
    return context;
}

/* The secret of a minute. @return false without memory */
static bool derive_period(const struct cookies *cookies, uint64_t period, uint8_t *ret_secret)
{
    uint8_t number[8];

    for (unsigned i = 0; i < sizeof number; i++) {
        number[i] = (uint8_t)(period >> (56 - 8 * i));
    }
    return derive_key((struct bytes){cookies->root, sizeof cookies->root}, "minute",
                      (struct bytes){number, sizeof number}, ret_secret, DERIVED_KEY_LEN);
}

/* Those of @p period and both of its neighbours, or none. */
static bool derive_secrets(struct cookies *cookies, uint64_t period)
{
    uint8_t fresh[3][DERIVED_KEY_LEN];
    bool is_good = derive_period(cookies, period, fresh[0]) &&
                   derive_period(cookies, period - 1, fresh[1]) &&
                   derive_period(cookies, period + 1, fresh[2]);
    if (is_good) {
        memcpy(cookies->secrets, fresh, sizeof(fresh));
        cookies->period = period;
    }
    OPENSSL_cleanse(fresh, sizeof(fresh));
    return is_good;
}

static bool make_secrets(struct cookies *cookies, uint64_t now_ms, struct bytes shared,
                         const char *label)
{
    cookies->is_shared = shared.len > 0;
    if (cookies->is_shared) {
        cookies->count = 3;
        return derive_key(shared, label, (struct bytes){0}, cookies->root, sizeof cookies->root) &&
               derive_secrets(cookies, loop_wall_s(cookies->loop) / PERIOD_S);
    }
    cookies->count = 2;
    cookies->period = now_ms / PERIOD_MS;
    return RAND_bytes((unsigned char *)cookies->secrets, sizeof(cookies->secrets)) == 1;
}

int cookies_new(const struct loop *loop, uint64_t now_ms, struct bytes shared, const char *label,
                struct cookies **ret_cookies)
{
    struct cookies *cookies = calloc(1, sizeof(*cookies));
    if (cookies != NULL) {
        cookies->loop = loop;
        cookies->mac = cookie_mac_new();
    }
    if (cookies == NULL || cookies->mac == NULL || !make_secrets(cookies, now_ms, shared, label)) {
        cookies_free(cookies);
        return -ENOMEM;
    }
    *ret_cookies = cookies;
    return 0;
}

void cookies_free(struct cookies *cookies)
{
    if (cookies == NULL) {
        return;
    }
    EVP_MAC_CTX_free(cookies->mac);
    OPENSSL_cleanse(cookies, sizeof(*cookies));
    free(cookies);
}

static void rotate(struct cookies *cookies, uint64_t now_ms)
{
    uint64_t period =
        cookies->is_shared ? loop_wall_s(cookies->loop) / PERIOD_S : now_ms / PERIOD_MS;
    uint8_t fresh[2][sizeof(cookies->secrets[0])];
    if (cookies->is_shared && period != cookies->period) {
        (void)derive_secrets(cookies, period); /* or the old ones stay for a while */
        return;
    }
    /* Where there is nothing random the old ones are secret still. */
    if (period == cookies->period || RAND_bytes((unsigned char *)fresh, sizeof(fresh)) != 1) {
        return;
    }
    /* After a long silence not even the last one is recent. */
    bool is_next = period == cookies->period + 1;
    memcpy(cookies->secrets[1], is_next ? cookies->secrets[0] : fresh[1], sizeof(fresh[1]));
    memcpy(cookies->secrets[0], fresh[0], sizeof(fresh[0]));
    OPENSSL_cleanse(fresh, sizeof(fresh));
    cookies->period = period;
}

static bool make(struct cookies *cookies, unsigned which, const struct udp_path *path,
                 uint8_t ret_cookie[COOKIE_LEN])
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                 OSSL_PARAM_construct_end()};
    struct udp_path hashed = *path;
    uint8_t full[EVP_MAX_MD_SIZE];
    size_t full_len = 0;
    if (cookies->mac == NULL && (cookies->mac = cookie_mac_new()) == NULL) {
        return false;
    }
    hashed.via = 0; /* the client may come by way of another replica with it */
    if (cookies->is_shared) {
        hashed.remote.scope = 0; /* each replica numbers its interfaces */
        memset(&hashed.local, 0, sizeof hashed.local);
    }
    /* struct address is bytes without padding. */
    if (EVP_MAC_init(cookies->mac, cookies->secrets[which], sizeof(cookies->secrets[which]),
                     params) != 1 ||
        EVP_MAC_update(cookies->mac, (const unsigned char *)&hashed, sizeof(hashed)) != 1 ||
        EVP_MAC_final(cookies->mac, full, &full_len, sizeof(full)) != 1 || full_len < COOKIE_LEN) {
        /* Out of memory. OpenSSL 3.5 crashes where such a context is used once more. */
        EVP_MAC_CTX_free(cookies->mac);
        cookies->mac = NULL;
        return false;
    }
    memcpy(ret_cookie, full, COOKIE_LEN);
    return true;
}

bool cookie_make(struct cookies *cookies, uint64_t now_ms, const struct udp_path *path,
                 uint8_t ret_cookie[COOKIE_LEN])
{
    rotate(cookies, now_ms);
    return make(cookies, 0, path, ret_cookie);
}

bool cookie_is_good(struct cookies *cookies, uint64_t now_ms, const struct udp_path *path,
                    const uint8_t *cookie, size_t len)
{
    uint8_t wanted[COOKIE_LEN];
    rotate(cookies, now_ms);
    if (len < COOKIE_LEN_MIN || len > COOKIE_LEN) {
        return false;
    }
    for (unsigned which = 0; which < cookies->count; which++) {
        if (make(cookies, which, path, wanted) && CRYPTO_memcmp(cookie, wanted, len) == 0) {
            return true;
        }
    }
    return false;
}
