/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cookie a client has to bring back (RFC 6347 section 4.2.1): a keyed hash of
 * both addresses. The key changes each minute and the last one is still good, so
 * a cookie lives for one to two minutes.
 */
#include "net/dtls_internal.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <string.h>

#define PERIOD_MS 60000u

int dtls_cookies_init(struct dtls_cookies *cookies, uint64_t now_ms)
{
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);

    cookies->mac = mac == NULL ? NULL : EVP_MAC_CTX_new(mac);
    EVP_MAC_free(mac); /* the context has a count of its own */
    cookies->period = now_ms / PERIOD_MS;
    if (cookies->mac == NULL ||
        RAND_bytes((unsigned char *)cookies->secrets, sizeof cookies->secrets) != 1) {
        return -ENOMEM;
    }
    return 0;
}

void dtls_cookies_clear(struct dtls_cookies *cookies)
{
    EVP_MAC_CTX_free(cookies->mac);
    OPENSSL_cleanse(cookies, sizeof *cookies);
}

static void rotate(struct dtls_cookies *cookies, uint64_t now_ms)
{
    uint64_t period = now_ms / PERIOD_MS;
    uint8_t fresh[2][sizeof cookies->secrets[0]];

    /* Where there is nothing random the old ones are secret still. */
    if (period == cookies->period || RAND_bytes((unsigned char *)fresh, sizeof fresh) != 1) {
        return;
    }
    /* After a long silence not even the last one is recent. */
    bool is_next = period == cookies->period + 1;
    memcpy(cookies->secrets[1], is_next ? cookies->secrets[0] : fresh[1], sizeof fresh[1]);
    memcpy(cookies->secrets[0], fresh[0], sizeof fresh[0]);
    OPENSSL_cleanse(fresh, sizeof fresh);
    cookies->period = period;
}

/* @return whether @p ret_cookie has been made */
static bool make(struct dtls_cookies *cookies, unsigned which, const struct udp_path *path,
                 uint8_t ret_cookie[DTLS_COOKIE_LEN])
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                 OSSL_PARAM_construct_end()};
    uint8_t full[EVP_MAX_MD_SIZE];
    size_t full_len = 0;

    /* struct address is bytes without padding. */
    if (EVP_MAC_init(cookies->mac, cookies->secrets[which], sizeof cookies->secrets[which],
                     params) != 1 ||
        EVP_MAC_update(cookies->mac, (const unsigned char *)path, sizeof *path) != 1 ||
        EVP_MAC_final(cookies->mac, full, &full_len, sizeof full) != 1 ||
        full_len < DTLS_COOKIE_LEN) {
        return false;
    }
    memcpy(ret_cookie, full, DTLS_COOKIE_LEN);
    return true;
}

static struct dtls_listener *listener_of(const SSL *ssl)
{
    return BIO_get_data(SSL_get_rbio(ssl));
}

int dtls_on_cookie_generate(SSL *ssl, unsigned char *cookie, unsigned *ret_len)
{
    struct dtls_listener *listener = listener_of(ssl);

    rotate(&listener->cookies, listener->now_ms);
    if (!make(&listener->cookies, 0, listener->io.path, cookie)) {
        return 0;
    }
    *ret_len = DTLS_COOKIE_LEN;
    return 1;
}

int dtls_on_cookie_verify(SSL *ssl, const unsigned char *cookie, unsigned len)
{
    struct dtls_listener *listener = listener_of(ssl);
    uint8_t wanted[DTLS_COOKIE_LEN];

    rotate(&listener->cookies, listener->now_ms);
    if (len != sizeof wanted) {
        return 0;
    }
    for (unsigned which = 0; which < 2; which++) {
        if (make(&listener->cookies, which, listener->io.path, wanted) &&
            CRYPTO_memcmp(cookie, wanted, sizeof wanted) == 0) {
            return 1;
        }
    }
    return 0;
}
