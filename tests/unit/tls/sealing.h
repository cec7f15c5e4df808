/* SPDX-License-Identifier: BSD-2-Clause */
/* A client of the fixture that has the keys of its session and seals what it likes, and a record of
 * all that the server has sent it. */
#ifndef SEALING_H
#define SEALING_H

#include "tls_fixture.h"

#include "net/dtls_internal.h"

#define SEEN_MAX 4096

/* Each record of the server in epoch 1: its number, and what stands in the nonce's place. */
struct seen {
    uint64_t number, nonce;
    uint8_t type;
};
extern struct seen seen[SEEN_MAX];
extern size_t seen_count;

/* Of a listener that has room for all. */
extern const struct dtls_options plenty;

/** on_got of a client whose records are seen. @return true: it gets the datagram */
bool look(struct client *client, const uint8_t *data, size_t len);

/** From now on. */
void look_at(struct client *client);

/** No number twice. For GCM and CCM no explicit nonce twice; for CCM it is the number. */
void assert_no_nonce_twice(const char *suite);

/** The other end of the session's records. */
struct records turned(const struct dtls_session *session);

/** What seals and opens; sealing_free() frees it, after the last test. */
struct record_crypto *sealing_crypto(void);
void sealing_free(void);

void send_record(struct client *client, struct records *records, uint8_t type, const uint8_t *data,
                 size_t len);
void send_finished(struct client *client, struct records *records);
void send_alert(struct client *client, struct records *records, uint8_t level, uint8_t what);

/** @return how many records in epoch 1 have come, of @p type */
size_t take_all(struct client *client, uint8_t type);

/** Begins a handshake with @p suites, or the default ones; its records are seen. */
void open_session(struct client *client, const char *suites);

/** The session takes the next record, and answers it. */
void assert_served(struct client *client, struct records *records);

/** It answers the client. */
void assert_alive(struct client *client);

/** With that certificate of the fixture, and a key of alice's. The caller's. */
struct credentials *credentials_both(const char *certificate);

#endif
