/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by upstream_dtls.c (sockets, handshakes) and upstream_dtls_record.c (records, and what is
 * in them that is not CoAP).
 */
#ifndef CRIPROXY_UPSTREAM_DTLS_INTERNAL_H
#define CRIPROXY_UPSTREAM_DTLS_INTERNAL_H

#include "net/dtls_bio.h"
#include "net/dtls_record.h"
#include "net/upstream_message.h"

struct event;

#define END_PLAINTEXT_MAX 16384u /* of a record, RFC 6347 section 4.1.1 */

/* What all DTLS sessions of one worker share, as one is at work after the other. Owned by struct
 * upstream, as long as there is such a session. */
struct dtls_box {
    struct record_crypto *crypto; /* NULL: sessions stay on OpenSSL's records */
    uint32_t sessions;            /* that use it */
    uint8_t input[65536];
    uint8_t plaintext[END_PLAINTEXT_MAX];
    uint8_t message[END_PLAINTEXT_MAX]; /* that is being encoded */
    uint8_t sealed[END_PLAINTEXT_MAX + RECORD_OVERHEAD_MAX];
};

#define END_FINISHED_LEN 24u /* its header and verify_data of TLS 1.2 */

/*
 * Our last flight of a resumed handshake, in which the client sends last: ChangeCipherSpec and this
 * Finished, until the origin server shows that it has them. RFC 6347 section 4.2.4.
 */
struct end_flight {
    uint8_t finished[END_FINISHED_LEN]; /* plaintext */
    bool is_kept;
    uint64_t first_ms, sent_ms; /* when it was sent for the first time, and for the last */
    uint64_t next_plain;        /* number of our next record in epoch 0 */
};

/* A session of this kind. */
struct dtls_end {
    struct session *session;
    int fd; /* -1: none */
    struct event *event;
    SSL *ssl;              /* of the handshake, or with OpenSSL's records; NULL */
    struct dtls_pipe pipe; /* what OpenSSL may read now, and where it writes */
    struct timer timer;    /* OpenSSL's next retransmission */
    struct records records;
    struct message_layer layer;
    struct end_flight flight;
    uint8_t early_records; /* that OpenSSL may keep until it can open them */
    bool has_keys;         /* records is ready */
    bool is_open;          /* the handshake is done */
    bool is_resumed;       /* and it was without a key exchange */
    bool is_wrong_name;    /* of the certificate */
    bool was_cut;          /* by a fatal alert: no close_notify */
};

/* ---- upstream_dtls.c ---- */

/** Sends a datagram, borrowed for the call. False with @p ret_status, as in struct message_layer.
 */
bool upstream_dtls_put(struct session *session, const uint8_t *data, size_t len,
                       enum upstream_status *ret_status);

/* ---- upstream_dtls_record.c ---- */

/**
 * A datagram of OpenSSL's, borrowed: in a handshake with connection ids its protected records are
 * sealed again, under numbers of ours and with the origin server's id (RFC 9146).
 */
void upstream_dtls_put_openssl(struct session *session, const uint8_t *data, size_t len);

/** As upstream_dtls_feed(), for a session that is open, on our records; @p data is borrowed. */
void upstream_dtls_feed_records(struct session *session, const uint8_t *data, size_t len);

/** The same for one on OpenSSL's records; @p data is borrowed. */
void upstream_dtls_feed_openssl(struct session *session, const uint8_t *data, size_t len);

/** For struct message_layer: seals and sends the datagram, borrowed. False with @p ret_status. */
bool upstream_dtls_write(struct session *session, struct bytes datagram,
                         enum upstream_status *ret_status);

/** Sends close_notify where the session is open; a failure to send it is ignored. */
void upstream_dtls_goodbye(struct session *session);

#endif
