/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A DTLS 1.2 client with connection ids (RFC 9146) for tests, on Mbed TLS, which has no line in
 * common with what is tested. It knows nothing of CoAP:
 *
 *     cid_client 127.0.0.1 5684 sensor-1 736573616d65 TLS-PSK-WITH-AES-128-CCM-8 0a0b0c
 *
 * Arguments: address and port of the server, identity and key (hex), the suite, and the id that the
 * server is to use for us (hex; "" for one of length 0; "none": ids are not offered).
 *
 * After the handshake it prints "ready", the length of the id that the server has given (-1: none)
 * and the suite. Each line of hex on standard input goes out as one record, each record that comes
 * is printed as one line of hex. "again" on standard input ends the session without a word and
 * begins one with the old one's secrets. At the end of the input it sends close_notify and ends
 * with 0. Where Mbed TLS has no ids of RFC 9146: "none" and status 77.
 */
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_ciphersuites.h>
#include <mbedtls/timing.h>
#include <poll.h>
#include <psa/crypto.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(MBEDTLS_SSL_DTLS_CONNECTION_ID) && MBEDTLS_SSL_DTLS_CONNECTION_ID_COMPAT == 0

#define LINE_MAX_LEN 8192u

struct cid_client {
    mbedtls_net_context net;
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    mbedtls_ssl_config config;
    mbedtls_ssl_context ssl;
    mbedtls_timing_delay_context timer;
    int suites[2];
    bool has_cid;
    unsigned char cid[MBEDTLS_SSL_CID_IN_LEN_MAX];
    size_t cid_len;
};

static void must(int result, const char *what)
{
    if (result != 0) {
        fprintf(stderr, "cid_client: %s: -0x%04x\n", what, (unsigned)-result);
        exit(1);
    }
}

/* @return how many bytes; @p capacity + 1 where it is no hex, or too much */
static size_t from_hex(const char *hex, unsigned char *ret_bytes, size_t capacity)
{
    size_t len = strlen(hex) / 2;

    if (strspn(hex, "0123456789abcdef") != 2 * len || hex[2 * len] != '\0' || len > capacity) {
        return capacity + 1;
    }
    for (size_t i = 0; i < len; i++) {
        const char digits[] = {hex[2 * i], hex[2 * i + 1], '\0'};
        ret_bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return len;
}

static void configure(struct cid_client *client, char **arguments)
{
    unsigned char key[64];
    size_t key_len = from_hex(arguments[3], key, sizeof key);
    const char *identity = arguments[2];

    client->has_cid = strcmp(arguments[5], "none") != 0;
    client->cid_len = client->has_cid ? from_hex(arguments[5], client->cid, sizeof client->cid) : 0;
    client->suites[0] = mbedtls_ssl_get_ciphersuite_id(arguments[4]);
    must(key_len > sizeof key || client->cid_len > sizeof client->cid || client->suites[0] == 0,
         "arguments");
    mbedtls_ctr_drbg_init(&client->random);
    mbedtls_entropy_init(&client->entropy);
    must(mbedtls_ctr_drbg_seed(&client->random, mbedtls_entropy_func, &client->entropy, NULL, 0),
         "random numbers");
    mbedtls_ssl_config_init(&client->config);
    must(mbedtls_ssl_config_defaults(&client->config, MBEDTLS_SSL_IS_CLIENT,
                                     MBEDTLS_SSL_TRANSPORT_DATAGRAM, MBEDTLS_SSL_PRESET_DEFAULT),
         "configuration");
    mbedtls_ssl_conf_rng(&client->config, mbedtls_ctr_drbg_random, &client->random);
    mbedtls_ssl_conf_ciphersuites(&client->config, client->suites);
    mbedtls_ssl_conf_handshake_timeout(&client->config, 1000, 30000);
    must(mbedtls_ssl_conf_psk(&client->config, key, key_len, (const unsigned char *)identity,
                              strlen(identity)),
         "key");
    if (client->has_cid) {
        must(mbedtls_ssl_conf_cid(&client->config, client->cid_len,
                                  MBEDTLS_SSL_UNEXPECTED_CID_IGNORE),
             "length of the id");
    }
    mbedtls_ssl_init(&client->ssl);
    must(mbedtls_ssl_setup(&client->ssl, &client->config), "setup");
    mbedtls_ssl_set_timer_cb(&client->ssl, &client->timer, mbedtls_timing_set_delay,
                             mbedtls_timing_get_delay);
}

static void shake_hands(struct cid_client *client)
{
    unsigned char theirs[MBEDTLS_SSL_CID_OUT_LEN_MAX];
    size_t len = 0;
    int is_used = 0, result = 0;

    mbedtls_ssl_set_bio(&client->ssl, &client->net, mbedtls_net_send, NULL,
                        mbedtls_net_recv_timeout);
    must(mbedtls_net_set_block(&client->net), "socket");
    if (client->has_cid) {
        must(mbedtls_ssl_set_cid(&client->ssl, MBEDTLS_SSL_CID_ENABLED, client->cid,
                                 client->cid_len),
             "id");
    }
    do {
        result = mbedtls_ssl_handshake(&client->ssl);
    } while (result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE);
    must(result, "handshake");
    must(mbedtls_ssl_get_peer_cid(&client->ssl, &is_used, theirs, &len), "id of the server");
    printf("ready %d %s\n", is_used == MBEDTLS_SSL_CID_ENABLED ? (int)len : -1,
           mbedtls_ssl_get_ciphersuite(&client->ssl));
    mbedtls_ssl_set_bio(&client->ssl, &client->net, mbedtls_net_send, mbedtls_net_recv, NULL);
    must(mbedtls_net_set_nonblock(&client->net), "socket");
}

static void begin_again(struct cid_client *client)
{
    mbedtls_ssl_session old;

    mbedtls_ssl_session_init(&old);
    must(mbedtls_ssl_get_session(&client->ssl, &old), "session");
    must(mbedtls_ssl_session_reset(&client->ssl), "reset");
    must(mbedtls_ssl_set_session(&client->ssl, &old), "old session");
    mbedtls_ssl_session_free(&old);
    shake_hands(client);
}

static void take_line(struct cid_client *client, char *line)
{
    unsigned char bytes[LINE_MAX_LEN / 2];

    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, "again") == 0) {
        begin_again(client);
        return;
    }
    size_t len = from_hex(line, bytes, sizeof bytes);
    must(len == 0 || len > sizeof bytes, "line of input");
    must(mbedtls_ssl_write(&client->ssl, bytes, len) == (int)len ? 0 : -1, "write");
}

/* All that has come. */
static void take_records(struct cid_client *client)
{
    unsigned char bytes[LINE_MAX_LEN / 2];
    int len = 0;

    while ((len = mbedtls_ssl_read(&client->ssl, bytes, sizeof bytes)) > 0) {
        for (int i = 0; i < len; i++) {
            printf("%02x", bytes[i]);
        }
        putchar('\n');
    }
    must(len == MBEDTLS_ERR_SSL_WANT_READ ? 0 : len, "read");
}

int main(int argc, char **argv)
{
    static struct cid_client client;
    static char line[LINE_MAX_LEN];

    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stdin, NULL, _IONBF, 0); /* poll() is to know of every line */
    must(argc == 7 ? 0 : -1, "six arguments");
    must(psa_crypto_init(), "cryptography");
    configure(&client, argv + 1);
    mbedtls_net_init(&client.net);
    must(mbedtls_net_connect(&client.net, argv[1], argv[2], MBEDTLS_NET_PROTO_UDP), "socket");
    shake_hands(&client);
    for (;;) {
        struct pollfd polled[] = {{.fd = 0, .events = POLLIN},
                                  {.fd = client.net.fd, .events = POLLIN}};
        must(poll(polled, 2, -1) > 0 ? 0 : -1, "poll");
        take_records(&client);
        if (polled[0].revents == 0) {
            continue;
        }
        if (fgets(line, sizeof line, stdin) == NULL) {
            break;
        }
        take_line(&client, line);
    }
    return mbedtls_ssl_close_notify(&client.ssl) == 0 ? 0 : 1;
}

#else

int main(void)
{
    puts("none");
    return 77;
}

#endif
