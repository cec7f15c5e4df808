/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/peer_tls.h"

#include "net/sockaddr.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct peer_tls {
    SSL_CTX *context;
};

struct peer_tls_link {
    int fd, stop_fd;
    SSL *ssl;
    uint64_t deadline_ms;
};

static uint64_t monotonic_ms(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- certificate, key and CA ---- */

struct peer_tls *peer_tls_load(const char *certificate_file, const char *key_file,
                               const char *ca_file, char *ret_error, size_t error_capacity)
{
    struct peer_tls *tls = calloc(1, sizeof *tls);
    SSL_CTX *context = tls == NULL ? NULL : SSL_CTX_new(TLS_method());
    const char *failed = NULL;

    if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) {
        failed = "TLS 1.3";
    } else if (SSL_CTX_use_certificate_chain_file(context, certificate_file) != 1) {
        failed = certificate_file;
    } else if (SSL_CTX_use_PrivateKey_file(context, key_file, SSL_FILETYPE_PEM) != 1 ||
               SSL_CTX_check_private_key(context) != 1) {
        failed = key_file;
    } else if (SSL_CTX_load_verify_file(context, ca_file) != 1) {
        failed = ca_file;
    }
    if (failed != NULL) {
        const char *why = ERR_reason_error_string(ERR_peek_last_error());
        (void)snprintf(ret_error, error_capacity, "%s: %s", failed,
                       why != NULL ? why : "no memory");
        ERR_clear_error();
        SSL_CTX_free(context);
        free(tls);
        return NULL;
    }
    /* No session is resumed: each has to show its certificate. */
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_num_tickets(context, 0);
    (void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE);
    (void)SSL_CTX_set_options(context, SSL_OP_CLEANSE_PLAINTEXT); /* keys are in it */
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    tls->context = context;
    return tls;
}

void peer_tls_free(struct peer_tls *tls)
{
    if (tls != NULL) {
        SSL_CTX_free(tls->context);
        free(tls);
    }
}

/* ---- waiting ---- */

/* @return false when time is up, or it is to stop */
static bool wait_for_link(const struct peer_tls_link *link, short events)
{
    struct pollfd fds[] = {{.fd = link->fd, .events = events},
                           {.fd = link->stop_fd, .events = POLLIN}};
    uint64_t now_ms = monotonic_ms();
    int left_ms = now_ms >= link->deadline_ms            ? 0
                  : link->deadline_ms - now_ms > INT_MAX ? INT_MAX
                                                         : (int)(link->deadline_ms - now_ms);
    int count = poll(fds, link->stop_fd >= 0 ? 2 : 1, left_ms);

    return (count > 0 && (link->stop_fd < 0 || fds[1].revents == 0)) ||
           (count < 0 && errno == EINTR && left_ms > 0);
}

/* After a call of OpenSSL that gave @p result. @return whether it is to be made again */
static bool may_try_again(const struct peer_tls_link *link, int result)
{
    int error = SSL_get_error(link->ssl, result);

    ERR_clear_error();
    return (error == SSL_ERROR_WANT_READ && wait_for_link(link, POLLIN)) ||
           (error == SSL_ERROR_WANT_WRITE && wait_for_link(link, POLLOUT));
}

/* ---- connections ---- */

static struct peer_tls_link *peer_tls_link_new(const struct peer_tls *tls, int fd, int stop_fd,
                                               uint32_t within_ms)
{
    struct peer_tls_link *link = calloc(1, sizeof *link);

    if (link == NULL) {
        (void)close(fd);
        return NULL;
    }
    *link = (struct peer_tls_link){.fd = fd,
                                   .stop_fd = stop_fd,
                                   .ssl = SSL_new(tls->context),
                                   .deadline_ms = monotonic_ms() + within_ms};
    if (link->ssl == NULL || SSL_set_fd(link->ssl, fd) != 1 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
        peer_tls_close(link);
        return NULL;
    }
    return link;
}

/* With the state that was set before. @return whether the other end is a replica */
static bool shake_hands(struct peer_tls_link *link)
{
    int result = 0;

    ERR_clear_error();
    do {
        result = SSL_do_handshake(link->ssl);
    } while (result != 1 && may_try_again(link, result));
    return result == 1 && SSL_get_verify_result(link->ssl) == X509_V_OK;
}

static bool is_connected(const struct peer_tls_link *link)
{
    int error = 0;
    socklen_t len = sizeof error;

    return wait_for_link(link, POLLOUT) &&
           getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0;
}

void peer_tls_set_time(struct peer_tls_link *link, uint32_t within_ms)
{
    link->deadline_ms = monotonic_ms() + within_ms;
}

/* @return the link, or NULL where it is closed */
static struct peer_tls_link *authenticate(struct peer_tls_link *link)
{
    if (!shake_hands(link)) {
        peer_tls_close(link);
        return NULL;
    }
    return link;
}

struct peer_tls_link *peer_tls_connect(const struct peer_tls *tls, const struct address *to,
                                       uint32_t within_ms)
{
    union sockaddr_any name;
    socklen_t name_len = sockaddr_from_address(to, &name);
    int fd = socket(name.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct peer_tls_link *link = fd < 0 ? NULL : peer_tls_link_new(tls, fd, -1, within_ms);

    if (link == NULL) {
        return NULL;
    }
    if ((connect(fd, &name.any, name_len) != 0 && errno != EINPROGRESS) || !is_connected(link)) {
        peer_tls_close(link);
        return NULL;
    }
    SSL_set_connect_state(link->ssl);
    return authenticate(link);
}

struct peer_tls_link *peer_tls_accept(const struct peer_tls *tls, int fd, int stop_fd,
                                      uint32_t within_ms)
{
    struct peer_tls_link *link = peer_tls_link_new(tls, fd, stop_fd, within_ms);

    if (link == NULL) {
        return NULL;
    }
    SSL_set_accept_state(link->ssl);
    return authenticate(link);
}

void peer_tls_close(struct peer_tls_link *link)
{
    if (link == NULL) {
        return;
    }
    if (link->ssl != NULL && SSL_is_init_finished(link->ssl)) {
        (void)SSL_shutdown(link->ssl);
    }
    SSL_free(link->ssl);
    ERR_clear_error();
    (void)close(link->fd);
    free(link);
}

/* ---- bytes ---- */

/* After a call of OpenSSL that moved @p done bytes. @return whether there may be more */
static bool go_on(const struct peer_tls_link *link, int result, size_t done, size_t *at)
{
    if (result == 1) {
        *at += done;
        return true;
    }
    return may_try_again(link, result);
}

static bool peer_tls_put(void *context, const uint8_t *data, size_t len)
{
    struct peer_tls_link *link = context;
    size_t at = 0, put = 0;

    while (at < len) {
        int result = SSL_write_ex(link->ssl, data + at, len - at, &put);
        if (!go_on(link, result, put, &at)) {
            return false;
        }
    }
    return true;
}

static bool peer_tls_get(void *context, uint8_t *ret_data, size_t len)
{
    struct peer_tls_link *link = context;
    size_t at = 0, got = 0;

    while (at < len) {
        int result = SSL_read_ex(link->ssl, ret_data + at, len - at, &got);
        if (!go_on(link, result, got, &at)) {
            return false;
        }
    }
    return true;
}

struct peer_channel peer_tls_channel(struct peer_tls_link *link)
{
    return (struct peer_channel){.context = link, .put = peer_tls_put, .get = peer_tls_get};
}
