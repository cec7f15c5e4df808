/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DTLS of the fake network: sessions without any cryptography, same symbols as
 * net/dtls.h. A test opens a session and sends CoAP over it in the clear.
 */
#ifndef CRIPROXY_FAKE_DTLS_H
#define CRIPROXY_FAKE_DTLS_H

#include "net/dtls.h"

/** A session with the one DTLS listener from @p from; an older one from there is closed. */
struct dtls_session *fake_dtls_open(const char *from);

/** The same with the listener that was made as the one of @p number, from 0. */
struct dtls_session *fake_dtls_open_at(unsigned number, const char *from);

/** From now on the peer is the owner of the key of @p psk_identity; @p server_name may be NULL. */
void fake_dtls_identify(struct dtls_session *session, const char *psk_identity,
                        const char *server_name);

/** The same with a certificate that has the one name @p name; NULL: none. */
void fake_dtls_certify(struct dtls_session *session, const char *name);

/** Its handshake is done: the engine is told, once the peer is identified. */
void fake_dtls_establish(struct dtls_session *session);

/** From now on messages to the client have at most @p bytes, as it may ask (RFC 6066). */
void fake_dtls_set_room(struct dtls_session *session, size_t bytes);

/** Another session from where @p older is from, at once; that it is gone is told a turn later. */
struct dtls_session *fake_dtls_replace(struct dtls_session *older);

/** Whether it is; a session that is not can only be freed. */
bool fake_dtls_is_open(const struct dtls_session *session);

/** The oldest datagram on the session that was not looked at; false: there is none. */
bool fake_dtls_take(struct dtls_session *session, uint8_t *buffer, size_t capacity,
                    size_t *ret_len);

/** When what fake_dtls_take() gave last was sent, in ms of fake_net_now_ms(). */
uint64_t fake_dtls_taken_ms(const struct dtls_session *session);

/** Whether the proxy says that it needs the session, where it has too many. */
bool fake_dtls_is_needed(const struct dtls_session *session);

/** Whether what fake_dtls_take() gave last was sent to @p at, an address with its port. */
bool fake_dtls_was_at(const struct dtls_session *session, const char *at);

/** The peer goes: the engine hears of it in its next turn. */
void fake_dtls_close(struct dtls_session *session);

/** A datagram of the peer; one that is longer than the listener takes is lost. */
void fake_dtls_send(struct dtls_session *session, const char *hex);

/**
 * The same from another address, by its connection id: the session moves there if the listener's
 * handler believes it.
 */
void fake_dtls_send_from(struct dtls_session *session, const char *from, const char *hex);

/** fake_dtls_expect(), and it was sent to @p to. */
void fake_dtls_expect_to(struct dtls_session *session, const char *to, const char *pattern);

/** The next datagram on the session is exactly @p pattern ('?' is any nibble). */
void fake_dtls_expect(struct dtls_session *session, const char *pattern);
void fake_dtls_expect_nothing(struct dtls_session *session);

/** Frees all sessions, after the engine has gone. */
void fake_dtls_free(void);

#endif
