/* SPDX-License-Identifier: BSD-2-Clause */
#include "tls_fixture.h"

#include "base/log.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define PSK_TEXT                                                                                   \
    "# keys of the tests\n"                                                                        \
    "alice:000102030405060708090a0b0c0d0e0f\n"                                                     \
    "bob:ffeeddccbbaa\n"                                                                           \
    "urn:dev:mac:0024befffe804ff1:00ff\n"

/* A handshake that takes longer, in virtual time, has failed. */
#define SHAKE_MS 300000u
#define STEP_MS 10u

struct server server;
struct address server_address;
uint64_t server_seed = 1;

/* OpenSSL's DTLS asks this for its retransmission timer. */
int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    uint64_t now_ms = fake_net_now_ms() + UINT64_C(1700000000000);
    (void)zone;

    time->tv_sec = (time_t)(now_ms / 1000);
    time->tv_usec = (suseconds_t)(now_ms % 1000 * 1000);
    return 0;
}

const char *logged(void)
{
    static char text[16384];
    static int fd = -1;

    if (fd < 0) {
        fd = memfd_create("log", MFD_CLOEXEC);
        assert_true(fd >= 0);
        log_open(fd);
        log_set(LOG_DEBUG, false);
    }
    ssize_t got = pread(fd, text, sizeof text - 1, 0);
    assert_true(got >= 0);
    text[got] = '\0';
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return text;
}

/* ---- server ---- */

static void on_datagram(void *context, struct dtls_session *session,
                        const struct datagram *datagram)
{
    size_t len = datagram->len < sizeof server.last ? datagram->len : sizeof server.last - 1;

    assert_ptr_equal(context, &server);
    server.datagrams++;
    memcpy(server.last, datagram->data, len);
    server.last[len] = '\0';
    server.last_len = datagram->len;
    server.path = datagram->path;
    identity_release(server.identity);
    server.identity = identity_acquire(dtls_session_identity(session));
    server.session = session;
    if (server.on_datagram != NULL) {
        server.on_datagram(session);
    }
    if (!server.is_mute) {
        dtls_send(session, datagram->data, datagram->len);
    }
}

static void on_close(void *context, struct dtls_session *session, const char *why)
{
    assert_ptr_equal(context, &server);
    server.closes++;
    server.why = why;
    if (server.session == session) {
        server.session = NULL;
    }
}

static bool is_believed(void *context, const struct address *remote)
{
    (void)context;
    (void)remote;
    return server.believes;
}

static void on_move(void *context, struct dtls_session *session, const struct udp_path *before)
{
    (void)context;
    assert_false(address_equal(&before->remote, &dtls_session_path(session)->remote));
    server.moves++;
}

static uint64_t on_turn(void *context, uint64_t now_ms)
{
    (void)context;
    if (server.listener == NULL) {
        return UINT64_MAX;
    }
    uint64_t next_ms = dtls_turn(server.listener, now_ms);
    dtls_flush(server.listener);
    return next_ms;
}

struct credentials *credentials_must_load(const struct credentials_options *options)
{
    char error[512] = "";
    struct credentials *credentials = credentials_load(options, error, sizeof error);

    if (credentials == NULL) {
        fail_msg("%s", error);
    }
    return credentials;
}

struct credentials *credentials_psk(void)
{
    const struct credentials_options options = {.psk_file = file_write("psk", PSK_TEXT)};

    return credentials_must_load(&options);
}

static bool is_needed(void *context, const struct dtls_session *session)
{
    (void)context;
    return dtls_session_path(session)->remote.port == server.needed_port;
}

static const struct dtls_handler echo_handler = {.on_datagram = on_datagram,
                                                 .on_close = on_close,
                                                 .is_believed = is_believed,
                                                 .is_needed = is_needed,
                                                 .on_move = on_move};

static void open_listener(struct credentials *credentials, const struct dtls_options *options)
{
    server.options = *options;
    server.options.credentials = credentials;
    server.options.udp.fd = -1;
    server.options.has_openssl_records |= getenv("TLS_TEST_OPENSSL_RECORDS") != NULL;
    assert_true(address_parse(SERVER_TEXT, strlen(SERVER_TEXT), 0, &server_address));
    if (server.options.udp.bind.family == ADDRESS_NONE) {
        server.options.udp.bind = server_address;
    }
    assert_int_equal(
        dtls_listen(server.loop, &server.options, &echo_handler, &server, &server.listener), 0);
    credentials_release(credentials); /* the listener has a count of its own */
}

void server_replace(struct credentials *credentials, const struct dtls_options *options)
{
    struct dtls_listener *before = server.listener;

    server.listener = NULL;
    server.session = NULL;
    dtls_close_listener(before);
    fake_net_run(0);
    open_listener(credentials, options);
}

void server_start_with(struct credentials *credentials, const struct dtls_options *options)
{
    (void)logged(); /* of tests before */
    memset(&server, 0, sizeof server);
    fake_net_start(server_seed);
    assert_int_equal(loop_new(on_turn, NULL, &server.loop), 0);
    open_listener(credentials, options);
}

void server_start(struct credentials *credentials)
{
    const struct dtls_options options = {
        .sessions_max = 100, .handshakes_max = 10, .handshake_ms = 30000, .idle_ms = 3600000};

    server_start_with(credentials, &options);
}

void server_start_wildcard(struct credentials *credentials)
{
    static const char any[] = "0.0.0.0:5684";
    struct dtls_options options = {
        .sessions_max = 100, .handshakes_max = 10, .handshake_ms = 30000, .idle_ms = 3600000};

    options.udp.want_local = true;
    assert_true(address_parse(any, strlen(any), 0, &options.udp.bind));
    server_start_with(credentials, &options);
}

void server_stop(void)
{
    dtls_close_listener(server.listener);
    server.listener = NULL;
    fake_net_run(0);
    loop_free(server.loop);
    fake_net_stop();
    identity_release(server.identity);
    server.identity = NULL;
}

/* ---- clients: a BIO straight on a peer of the fake network ---- */

static int on_read(BIO *bio, char *buffer, int capacity)
{
    struct client *client = BIO_get_data(bio);
    static struct fake_datagram datagram;

    BIO_clear_retry_flags(bio);
    do {
        if (client->later_len > 0) {
            datagram.len = client->later_len;
            memcpy(datagram.data, client->later, client->later_len);
            client->later_len = 0;
        } else if (!fake_peer_take(client->peer, &datagram)) {
            BIO_set_retry_read(bio);
            return -1;
        }
        assert_true(datagram.len <= FAKE_DATAGRAM_MAX);
    } while (client->on_got != NULL && !client->on_got(client, datagram.data, datagram.len));
    if (client->got_len > 0) {
        datagram.len = client->got_len;
        memcpy(datagram.data, client->got, client->got_len);
        client->got_len = 0;
    }
    assert_true(capacity >= 0 && datagram.len <= (size_t)capacity);
    memcpy(buffer, datagram.data, datagram.len);
    return (int)datagram.len;
}

static int on_write(BIO *bio, const char *data, int len)
{
    struct client *client = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    assert_true(len > 0 && (size_t)len <= sizeof client->sent);
    client->sent_len = (size_t)len;
    memcpy(client->sent, data, (size_t)len);
    if (client->on_sent != NULL) {
        client->on_sent(client);
    }
    if (!client->is_held) {
        fake_peer_send_bytes(client->peer, &server_address, (const uint8_t *)data, (size_t)len);
    }
    client->is_held = false;
    return len;
}

static long on_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DGRAM_SET_NEXT_TIMEOUT ? 1 : 0;
}

static BIO *client_bio(struct client *client)
{
    static BIO_METHOD *method;

    if (method == NULL) {
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "client");
        assert_non_null(method);
        assert_int_equal(BIO_meth_set_read(method, on_read), 1);
        assert_int_equal(BIO_meth_set_write(method, on_write), 1);
        assert_int_equal(BIO_meth_set_ctrl(method, on_control), 1);
    }
    BIO *bio = BIO_new(method);
    assert_non_null(bio);
    BIO_set_data(bio, client);
    BIO_set_init(bio, 1);
    return bio;
}

static unsigned on_psk(SSL *ssl, const char *hint, char *identity, unsigned identity_capacity,
                       unsigned char *key, unsigned key_capacity)
{
    const struct client *client = SSL_get_app_data(ssl);
    (void)hint;

    assert_true(strlen(client->psk_identity) < identity_capacity);
    memcpy(identity, client->psk_identity, strlen(client->psk_identity) + 1);
    return (unsigned)test_hex(client->psk_key, key, key_capacity);
}

static void on_info(const SSL *ssl, int where, int value)
{
    struct client *client = SSL_get_app_data(ssl);

    if ((where & SSL_CB_READ_ALERT) == SSL_CB_READ_ALERT && value >> 8 == SSL3_AL_FATAL) {
        client->alert = value & 0xff;
    }
}

static int on_session(SSL *ssl, SSL_SESSION *session)
{
    struct client *client = SSL_get_app_data(ssl);

    SSL_SESSION_free(client->resume);
    client->resume = session;
    return 1;
}

static void client_make_ssl(struct client *client)
{
    BIO *bio = client_bio(client);

    client->ssl = SSL_new(client->context);
    assert_non_null(client->ssl);
    SSL_set_bio(client->ssl, bio, bio);
    SSL_set_app_data(client->ssl, client);
    SSL_set_connect_state(client->ssl);
    SSL_set_mtu(client->ssl, client->mtu);
    client->alert = 0;
}

static SSL_CTX *client_context(const struct client_wish *wish)
{
    SSL_CTX *context = SSL_CTX_new(DTLS_client_method());

    assert_non_null(context);
    SSL_CTX_set_security_level(context, 0); /* for the suites of 8 byte tags */
    SSL_CTX_set_options(context, SSL_OP_NO_QUERY_MTU);
    assert_int_equal(SSL_CTX_set_max_proto_version(context, wish->version), 1);
    assert_int_equal(
        SSL_CTX_set_cipher_list(context, wish->suites == NULL ? "PSK-AES128-CCM8" : wish->suites),
        1);
    SSL_CTX_set_session_cache_mode(context,
                                   SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
    SSL_CTX_sess_set_new_cb(context, on_session);
    SSL_CTX_set_info_callback(context, on_info);
    SSL_CTX_set_psk_client_callback(context, on_psk);
    if (wish->ca != NULL) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s.pem", wish->ca);
        assert_int_equal(SSL_CTX_load_verify_file(context, file_path(name)), 1);
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    }
    if (wish->certificate != NULL) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s.pem", wish->certificate);
        assert_int_equal(SSL_CTX_use_certificate_chain_file(context, file_path(name)), 1);
        (void)snprintf(name, sizeof name, "%s.key", wish->certificate);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(context, file_path(name), SSL_FILETYPE_PEM),
                         1);
    }
    return context;
}

void client_open(struct client *client, const struct client_wish *wish)
{
    memset(client, 0, sizeof *client);
    client->peer = wish->peer != NULL ? wish->peer : fake_peer_new(wish->address);
    client->psk_identity = wish->psk_identity == NULL ? "alice" : wish->psk_identity;
    client->psk_key = wish->psk_key == NULL ? "000102030405060708090a0b0c0d0e0f" : wish->psk_key;
    client->mtu = wish->mtu == 0 ? 1232 : wish->mtu;
    client->context = client_context(wish);
    if (wish->on_context != NULL) {
        wish->on_context(client->context, client);
    }
    client_make_ssl(client);
    if (wish->server_name != NULL) {
        char name[64]; /* OpenSSL's macro would cast a const away */
        (void)snprintf(name, sizeof name, "%s", wish->server_name);
        assert_int_equal(SSL_set_tlsext_host_name(client->ssl, name), 1);
    }
}

void client_close(struct client *client)
{
    SSL_free(client->ssl);
    SSL_SESSION_free(client->resume);
    SSL_CTX_free(client->context);
    memset(client, 0, sizeof *client);
}

void client_restart(struct client *client)
{
    /* Else OpenSSL holds the session for broken off, and will not resume it. */
    SSL_set_shutdown(client->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(client->ssl);
    client_make_ssl(client);
    if (client->resume != NULL) {
        assert_int_equal(SSL_set_session(client->ssl, client->resume), 1);
    }
}

void client_step(struct client *client)
{
    ERR_clear_error();
    (void)SSL_do_handshake(client->ssl);
    ERR_clear_error();
}

bool client_shake(struct client *client)
{
    uint64_t end_ms = fake_net_now_ms() + SHAKE_MS;

    while (fake_net_now_ms() < end_ms) {
        ERR_clear_error();
        int result = SSL_do_handshake(client->ssl);
        if (result == 1) {
            fake_net_run(0); /* so that the server has the last flight too */
            return true;
        }
        if (SSL_get_error(client->ssl, result) != SSL_ERROR_WANT_READ) {
            ERR_clear_error();
            return false;
        }
        fake_net_run(STEP_MS);
        (void)DTLSv1_handle_timeout(client->ssl);
    }
    return false;
}

size_t client_ask(struct client *client, const char *text, char *answer, size_t capacity)
{
    uint64_t end_ms = fake_net_now_ms() + 1000;

    ERR_clear_error();
    assert_true(SSL_write(client->ssl, text, (int)strlen(text)) > 0);
    while (fake_net_now_ms() <= end_ms) {
        fake_net_run(STEP_MS);
        int got = SSL_read(client->ssl, answer, (int)capacity - 1);
        if (got > 0) {
            answer[got] = '\0';
            return (size_t)got;
        }
        if (SSL_get_error(client->ssl, got) != SSL_ERROR_WANT_READ) {
            break;
        }
    }
    ERR_clear_error();
    return 0;
}

void client_must_talk(struct client *client, const char *text)
{
    char answer[2048];

    if (!client_shake(client)) {
        fail_msg("no handshake: alert %d", client->alert);
    }
    assert_int_equal(client_ask(client, text, answer, sizeof answer), strlen(text));
    assert_string_equal(answer, text);
}
