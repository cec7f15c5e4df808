/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a session of OpenSSL carries besides its own: where the certificate of its peer led, or
 * which pre-shared key began it in TLS 1.3. It is in the session and so in its tickets, which only
 * the server can read and write: a resumed session has the facts of the session that it came from,
 * and which of several keys and tickets of a ClientHello is taken makes no difference.
 */
#ifndef CRIPROXY_SESSION_FACTS_H
#define CRIPROXY_SESSION_FACTS_H

#include "net/credentials.h"
#include "net/tls.h"

/** Keeps @p anchor in @p session. @return false without memory */
bool facts_note_anchor(SSL_SESSION *session, const uint8_t anchor[CREDENTIALS_ANCHOR_LEN]);

/** @return false where @p session has no anchor; then nothing is written */
bool facts_anchor(SSL_SESSION *session, uint8_t ret_anchor[CREDENTIALS_ANCHOR_LEN]);

/**
 * Keeps the identity of the pre-shared key that @p session begins with; TLS 1.3 alone needs it.
 *
 * @param identity 1 to PSK_IDENTITY_MAX bytes
 * @return false without memory
 */
bool facts_note_psk(SSL_SESSION *session, const char *identity);

/** The identity that facts_note_psk() has kept. @return false where there is none; then nothing is
 * written */
bool facts_psk(SSL_SESSION *session, char ret_identity[PSK_IDENTITY_MAX + 1]);

/**
 * The identity of the pre-shared key that the session of @p ssl began with, in every version: 1.2
 * has one that OpenSSL tells, 1.3 that of facts_psk().
 *
 * @return @p ret_identity, or NULL: it began with no such key
 */
const char *facts_psk_identity(const SSL *ssl, char ret_identity[PSK_IDENTITY_MAX + 1]);

#endif
