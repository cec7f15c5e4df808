/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A DTLS 1.2 server for one client with connection ids (RFC 9146), for tests, on Mbed TLS. It knows
 * nothing of CoAP, and answers to where the last authentic record came from:
 *
 *     cid_server 127.0.0.1 sensor-1 736573616d65 TLS-PSK-WITH-AES-128-CCM-8 0a0b0c
 *
 * Arguments: the address to listen at, identity and key (hex) of the client, the suite, and the id
 * that the client is to use for us (hex; "none": ids are not taken up).
 *
 * It prints "port" and its port; after the handshake "ready", the length of the id that the client
 * wants in what it is sent (-1: there are none), and the suite; then each record that comes, as the
 * client's port and hex. Each line of hex on standard input goes out as one record. It ends with
 * the input. Where Mbed TLS has no ids of RFC 9146: "none" and status 77.
 */
#include <arpa/inet.h>
#include <errno.h>
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
#include <sys/socket.h>

#if defined(MBEDTLS_SSL_DTLS_CONNECTION_ID) && MBEDTLS_SSL_DTLS_CONNECTION_ID_COMPAT == 0

#define SERVED_BYTES_MAX 4096u

static struct {
    int fd;
    struct sockaddr_in came_from, client; /* the last datagram, and the last authentic one */
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    mbedtls_ssl_config config;
    mbedtls_ssl_context ssl;
    mbedtls_timing_delay_context timer;
    int suites[2];
} server;

static void must_serve(int result, const char *what)
{
    if (result != 0) {
        fprintf(stderr, "cid_server: %s: -0x%04x\n", what, (unsigned)-result);
        exit(1);
    }
}

/* @return how many bytes, at most SERVED_BYTES_MAX */
static size_t bytes_of_hex(const char *hex, unsigned char *ret_bytes)
{
    size_t len = 0;
    unsigned byte = 0;

    for (; len < SERVED_BYTES_MAX && sscanf(hex, "%2x", &byte) == 1; hex += 2) {
        ret_bytes[len++] = (unsigned char)byte;
    }
    return len;
}

static int on_read(void *context, unsigned char *buffer, size_t capacity)
{
    socklen_t len = sizeof server.came_from;
    (void)context;

    ssize_t got = recvfrom(server.fd, buffer, capacity, MSG_DONTWAIT,
                           (struct sockaddr *)&server.came_from, &len);
    if (got < 0) {
        return errno == EAGAIN ? MBEDTLS_ERR_SSL_WANT_READ : MBEDTLS_ERR_NET_RECV_FAILED;
    }
    if (server.client.sin_port == 0) {
        server.client = server.came_from;
    }
    return (int)got;
}

static int on_write(void *context, const unsigned char *data, size_t len)
{
    (void)context;
    (void)sendto(server.fd, data, len, 0, (struct sockaddr *)&server.client, sizeof server.client);
    return (int)len;
}

static void configure_server(char **arguments)
{
    unsigned char bytes[SERVED_BYTES_MAX];
    size_t key_len = bytes_of_hex(arguments[2], bytes);

    server.suites[0] = mbedtls_ssl_get_ciphersuite_id(arguments[3]);
    must_serve(server.suites[0] == 0 ? -1 : 0, "suite");
    mbedtls_ctr_drbg_init(&server.random);
    mbedtls_entropy_init(&server.entropy);
    must_serve(
        mbedtls_ctr_drbg_seed(&server.random, mbedtls_entropy_func, &server.entropy, NULL, 0),
        "random numbers");
    mbedtls_ssl_config_init(&server.config);
    must_serve(mbedtls_ssl_config_defaults(&server.config, MBEDTLS_SSL_IS_SERVER,
                                           MBEDTLS_SSL_TRANSPORT_DATAGRAM,
                                           MBEDTLS_SSL_PRESET_DEFAULT),
               "configuration");
    mbedtls_ssl_conf_rng(&server.config, mbedtls_ctr_drbg_random, &server.random);
    mbedtls_ssl_conf_ciphersuites(&server.config, server.suites);
    mbedtls_ssl_conf_dtls_cookies(&server.config, NULL, NULL, NULL);
    must_serve(mbedtls_ssl_conf_psk(&server.config, bytes, key_len,
                                    (const unsigned char *)arguments[1], strlen(arguments[1])),
               "key");
    bool has_cid = strcmp(arguments[4], "none") != 0;
    size_t cid_len = has_cid ? bytes_of_hex(arguments[4], bytes) : 0;
    must_serve(
        has_cid ? mbedtls_ssl_conf_cid(&server.config, cid_len, MBEDTLS_SSL_UNEXPECTED_CID_IGNORE)
                : 0,
        "length of the id");
    mbedtls_ssl_init(&server.ssl);
    must_serve(mbedtls_ssl_setup(&server.ssl, &server.config), "setup");
    mbedtls_ssl_set_timer_cb(&server.ssl, &server.timer, mbedtls_timing_set_delay,
                             mbedtls_timing_get_delay);
    mbedtls_ssl_set_bio(&server.ssl, NULL, on_write, on_read, NULL);
    must_serve(has_cid ? mbedtls_ssl_set_cid(&server.ssl, MBEDTLS_SSL_CID_ENABLED, bytes, cid_len)
                       : 0,
               "id");
}

static void listen_at(const char *address)
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t len = sizeof name;

    server.fd = socket(AF_INET, SOCK_DGRAM, 0);
    must_serve(inet_pton(AF_INET, address, &name.sin_addr) == 1 ? 0 : -1, "address");
    must_serve(bind(server.fd, (struct sockaddr *)&name, sizeof name), "bind");
    must_serve(getsockname(server.fd, (struct sockaddr *)&name, &len), "port");
    printf("port %u\n", ntohs(name.sin_port));
}

/* As far as it comes with what is there. @return whether it is done */
static bool shake_hands_as_server(void)
{
    unsigned char theirs[MBEDTLS_SSL_CID_OUT_LEN_MAX];
    size_t len = 0;
    int is_used = 0, result = mbedtls_ssl_handshake(&server.ssl);

    if (result == MBEDTLS_ERR_SSL_WANT_READ) {
        return false;
    }
    must_serve(result, "handshake");
    must_serve(mbedtls_ssl_get_peer_cid(&server.ssl, &is_used, theirs, &len), "id of the client");
    printf("ready %d %s\n", is_used == MBEDTLS_SSL_CID_ENABLED ? (int)len : -1,
           mbedtls_ssl_get_ciphersuite(&server.ssl));
    return true;
}

static void print_records(void)
{
    unsigned char bytes[SERVED_BYTES_MAX];
    int len = 0;

    while ((len = mbedtls_ssl_read(&server.ssl, bytes, sizeof bytes)) > 0) {
        server.client = server.came_from;
        printf("%u ", ntohs(server.client.sin_port));
        for (int i = 0; i < len; i++) {
            printf("%02x", bytes[i]);
        }
        putchar('\n');
    }
    must_serve(len == MBEDTLS_ERR_SSL_WANT_READ ? 0 : len, "read");
}

int main(int argc, char **argv)
{
    static char line[2 * SERVED_BYTES_MAX + 2];
    unsigned char bytes[SERVED_BYTES_MAX];
    bool is_ready = false;

    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stdin, NULL, _IONBF, 0); /* poll() is to know of every line */
    must_serve(argc == 6 ? 0 : -1, "five arguments");
    must_serve(psa_crypto_init(), "cryptography");
    configure_server(argv + 1);
    listen_at(argv[1]);
    for (;;) {
        struct pollfd polled[] = {{.fd = 0, .events = POLLIN}, {.fd = server.fd, .events = POLLIN}};
        must_serve(poll(polled, 2, is_ready ? -1 : 100) >= 0 ? 0 : -1, "poll");
        is_ready = is_ready || shake_hands_as_server();
        if (is_ready) {
            print_records();
        }
        if (polled[0].revents == 0) {
            continue;
        }
        if (fgets(line, sizeof line, stdin) == NULL) {
            return 0;
        }
        size_t len = bytes_of_hex(line, bytes);
        must_serve(mbedtls_ssl_write(&server.ssl, bytes, len) == (int)len ? 0 : -1, "write");
    }
}

#else

int main(void)
{
    puts("none");
    return 77;
}

#endif
