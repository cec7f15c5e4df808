/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client with connection ids (RFC 9146). It is OpenSSL's; what net/dtls.c does for the
 * server is done for it here: records get and lose their ids between its SSL and the network.
 */
#ifndef CRIPROXY_MOVER_H
#define CRIPROXY_MOVER_H

#include "tls_fixture.h"

#include "net/dtls_internal.h"

#define CID_BYTES 6u /* of the server's ids */

/* A client with ids. */
struct mover {
    struct client client; /* first: what on_sent and on_got are called with */
    struct records records;
    bool has_keys, has_answer;
    bool is_packed;    /* what begins in epoch 1 goes out behind a record of epoch 0 */
    uint8_t offer[64]; /* the extension: a length, and the id that the server is to use */
    size_t offer_len;
    unsigned with_id, without; /* records in epoch 1 that have come */
};

/** For all clients; made at the first call. @return borrowed until mover_crypto_free() */
struct record_crypto *mover_crypto(void);
void mover_crypto_free(void);

/**
 * Opens a client that wants an id of @p id_len bytes in what it receives. @p suite as in a struct
 * client_wish.
 */
void mover_open(struct mover *mover, const char *address, const char *suite, uint8_t id_len);

/** client_restart(), with keys and ids to come. */
void mover_restart(struct mover *mover);

/** The client's on_got, for tests that have another one for a while. */
bool mover_on_got(struct client *client, const uint8_t *data, size_t len);

#endif
