/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by client_coap.c (sessions on DTLS) and client_coap_events.c (libcoap's callbacks). */
#ifndef CRIPROXY_CLIENT_COAP_INTERNAL_H
#define CRIPROXY_CLIENT_COAP_INTERNAL_H

#include "net/client_internal.h"

#include <coap3/coap.h>

struct event;

/* The state of a session of this kind. Its context's application data is the session. */
struct coap_end {
    coap_context_t *context;
    coap_session_t *session;
    struct event *event;
    int fd; /* its socket, which stays libcoap's; -1: not found */
    bool is_wrong_name;
};

/**
 * Register the callbacks for the session of @p context.
 *
 * @return false without memory
 */
bool client_coap_listen(coap_context_t *context);

/** The descriptor that the next socket will probably have, or -1. */
int client_coap_next_socket(const struct session *session);

/** The socket that libcoap has opened, of which client_coap_next_socket() said @p expected; or -1.
 */
int client_coap_find_socket(const struct session *session, int expected);

/** Whether the network has refused a packet since the last call. */
bool client_coap_is_refused(const struct session *session);

/* libcoap's questions during a handshake; the last parameter is the session. */

/** Whether a certificate is good. libcoap's own seven parameters. */
/* NOLINTNEXTLINE(readability-function-size) */
int client_coap_on_certificate(const char *name, const uint8_t *certificate, size_t certificate_len,
                               coap_session_t *coap, unsigned depth, int is_good, void *context);

/**
 * libcoap's callback for the pre-shared key: identity and key are borrowed from the session's
 * credentials, the struct lives until the next call in the same thread. With a callback the
 * handshake has TLS 1.2 at most, see credentials_apply().
 */
const coap_dtls_cpsk_info_t *client_coap_on_psk(coap_str_const_t *hint, coap_session_t *coap,
                                                void *context);

#endif
