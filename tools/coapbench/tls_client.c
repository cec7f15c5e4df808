/* SPDX-License-Identifier: BSD-2-Clause */
#include "tls_client.h"

#include <inttypes.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>

/* OpenSSL's own six parameters. NOLINTNEXTLINE(readability-function-size) */
static unsigned on_psk(SSL *ssl, const char *hint, char *identity, unsigned identity_capacity,
                       unsigned char *key, unsigned key_capacity)
{
    const struct tls_client *client = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    uintptr_t number = (uintptr_t)SSL_get_app_data(ssl);
    size_t key_len = strlen(client->key);
    int len = number > 0 ? snprintf(identity, identity_capacity, "%s%" PRIuPTR, client->identity,
                                    number - 1)
                         : snprintf(identity, identity_capacity, "%s", client->identity);

    (void)hint;
    if (len < 0 || (unsigned)len >= identity_capacity || key_len > key_capacity) {
        return 0;
    }
    memcpy(key, client->key, key_len);
    return (unsigned)key_len;
}

SSL_CTX *tls_client_context(bool is_datagram, const struct tls_client *client)
{
    static const unsigned char alpn[] = "\x04"
                                        "coap";
    SSL_CTX *context = SSL_CTX_new(is_datagram ? DTLS_client_method() : TLS_client_method());
    int version = is_datagram ? DTLS1_2_VERSION : TLS1_2_VERSION;

    if (context == NULL) {
        return NULL;
    }
    SSL_CTX_set_security_level(context, 0); /* CCM_8 is below every other: see --suites */
    if (SSL_CTX_set_min_proto_version(context, version) != 1 ||
        SSL_CTX_set_max_proto_version(context, version) != 1 ||
        SSL_CTX_set_cipher_list(context, client->suites) != 1 ||
        (!is_datagram && SSL_CTX_set_alpn_protos(context, alpn, sizeof(alpn) - 1) != 0)) {
        SSL_CTX_free(context);
        ERR_clear_error();
        return NULL;
    }
    SSL_CTX_set_app_data(context, (void *)(uintptr_t)client);
    SSL_CTX_set_psk_client_callback(context, on_psk);
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    return context;
}
