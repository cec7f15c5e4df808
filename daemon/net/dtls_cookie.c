/* SPDX-License-Identifier: BSD-2-Clause */
/* The cookie that a DTLS client has to bring back (RFC 6347 section 4.2.1), for OpenSSL. */
#include "net/cookie.h"
#include "net/dtls_internal.h"

#include <string.h>

static struct dtls_listener *listener_of(const SSL *ssl)
{
    return dtls_listener_of(BIO_get_data(SSL_get_rbio(ssl)));
}

int dtls_on_cookie_generate(SSL *ssl, unsigned char *cookie, unsigned *ret_len)
{
    struct dtls_listener *listener = listener_of(ssl);
    uint8_t whole[COOKIE_LEN];
    if (!cookie_make(listener->cookies, listener->now_ms, listener->io.path, whole)) {
        return 0;
    }
    memcpy(cookie, whole, DTLS_COOKIE_LEN);
    *ret_len = DTLS_COOKIE_LEN;
    return 1;
}

int dtls_on_cookie_verify(SSL *ssl, const unsigned char *cookie, unsigned len)
{
    struct dtls_listener *listener = listener_of(ssl);
    return len == DTLS_COOKIE_LEN &&
           cookie_is_good(listener->cookies, listener->now_ms, listener->io.path, cookie, len);
}
