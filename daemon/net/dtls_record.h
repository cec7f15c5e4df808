/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of DTLS 1.2 after the handshake (RFC 6347 section 4.1), also with connection ids (RFC
 * 9146): what OpenSSL would keep 22 KiB for fits 200 bytes, because all that is left of a session
 * is two keys, two numbers and a window.
 *
 * Who does what. OpenSSL does the handshake, and all cryptography: the key block is derived from
 * the master secret of its session with its TLS1-PRF (RFC 5246 section 6.3), records are sealed and
 * opened with its EVP ciphers. Ours are the headers, the nonces, the additional data, the sequence
 * numbers and the window against replays. Only AEAD suites: CCM and CCM_8 (RFC 6655), GCM (RFC
 * 5288), ChaCha20-Poly1305 (RFC 7905). records_begin() refuses others, and the caller stays on
 * OpenSSL's records; so does a process with OpenSSL's FIPS provider (record_crypto_new()).
 *
 * What it must never do, each with a test in tests/unit/tls/test_dtls_cid.c or
 * test_dtls_own.c:
 *
 *  - Seal two records with the same key and nonce. CCM and ChaCha20 make the nonce of the epoch and
 *    the sequence number, so `next` only grows, begins above what OpenSSL has used in epoch 1, and
 *    no record is sealed once its 48 bits are used up. GCM's nonce is a counter that OpenSSL
 *    begins at random: ours is `nonce_base` plus the sequence number, with the distance that the
 *    last record of OpenSSL had, so it goes on where OpenSSL stopped.
 *  - Believe a byte before its tag is verified. A record that does not open changes nothing: no
 *    window, no address, no timer, and nothing is sent.
 *  - Deliver a record twice. One whose number was seen, or is older than the window, is not opened.
 *    The window moves only for authenticated records.
 *  - Take anything but epoch 1 as protected, or act on a record of epoch 0 after the handshake: an
 *    alert or a handshake message in the clear may come from any sender.
 *  - Leave keys behind. records_clear() wipes them; key block and master secret are wiped as soon
 *    as they have been used. No key is logged, and none leaves this file but for the slot of its
 *    session, and for a hand-over file, which is used once at most (net/handover_file.h).
 *  - Keep a cipher context for each session: EVP contexts are shared, and the key is set for each
 *    record, which costs 0.4 us and saves more memory than all else takes.
 *
 * What is done with an opened record, and everything about addresses and handshakes, is in
 * dtls_own.c and dtls_session.c.
 */
#ifndef CRIPROXY_DTLS_RECORD_H
#define CRIPROXY_DTLS_RECORD_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DTLS_RECORD_HEADER 13u /* RFC 6347 section 4.1; a connection id comes on top */

/* Bytes around a plaintext that records_seal() may add: header, connection id, explicit nonce,
 * inner type, tag. */
#define RECORD_OVERHEAD_MAX (DTLS_RECORD_HEADER + RECORD_CID_MAX + 8u + 1u + 16u)

#define RECORD_KEY_MAX 32u
#define RECORD_IV_MAX 12u
#define RECORD_TAG_MAX 16u
#define RECORD_CID_MAX 32u /* of the peer; one with a longer one gets none */

/* How long a last flight may have to be repeated: twice the maximum segment lifetime of TCP, as
 * RFC 6347 section 4.2.4 has it. */
#define DTLS_FLIGHT_MS UINT64_C(240000)

/* Not more often: half of the shortest time-out, so that a peer that is a little early is heard. */
#define DTLS_FLIGHT_PAUSE_MS 500u

enum record_content {
    CONTENT_CHANGE_CIPHER_SPEC = 20,
    CONTENT_ALERT = 21,
    CONTENT_HANDSHAKE = 22,
    CONTENT_APPLICATION_DATA = 23,
    CONTENT_CID = 25, /* tls12_cid: the content's type is inside */
};

/* The key and the fixed part of the nonce for one direction. */
struct record_key {
    uint8_t key[RECORD_KEY_MAX], iv[RECORD_IV_MAX];
};

/* What is left of a session after its handshake. Zeroed: none. */
struct records {
    struct record_key ours, theirs; /* we seal with the first, and open with the second */
    uint64_t next;                  /* sequence number of the next record of ours, 48 bits */
    uint64_t nonce_base;            /* GCM: explicit nonce minus sequence number */
    uint64_t newest, seen;          /* highest number that was opened; bit i: newest - i was */
    uint8_t suite;                  /* a row of the table of suites */
    uint8_t cid_len;                /* of our connection id, which their records have; 0: none */
    bool has_cid;                   /* RFC 9146 was negotiated */
    uint8_t peer_cid_len;           /* may be 0: then our records are ordinary ones */
    uint8_t fragment;               /* RFC 6066 section 4: 0, or 1 to 4 for 512 to 4,096 bytes */
    uint8_t peer_cid[RECORD_CID_MAX];
};

/* One record of a datagram, as it lies there; borrowed. */
struct record_view {
    uint8_t type;
    uint16_t version, epoch;
    uint64_t number; /* without the epoch */
    const uint8_t *whole, *cid, *payload;
    size_t whole_len, cid_len, payload_len;
};

/* What was opened. */
struct record_content_of {
    uint8_t type;
    const uint8_t *data; /* borrowed */
    size_t len;
};

enum record_verdict {
    RECORD_OPENED,
    RECORD_REPLAYED, /* seen before, or older than the window; it was not opened */
    RECORD_UNOPENED, /* not sealed with this key, or none of epoch 1 */
};

/* What one end does with the extension connection_id (RFC 9146 section 3). */
struct cid_extension {
    /* Where the id that the peer of @p ssl gives is noted. NULL: connection ids are not used. */
    struct records *(*note_in)(const SSL *ssl);
    /* The value of ours, a length and an id; borrowed during the handshake. NULL: none is sent. */
    const uint8_t *(*ours)(const SSL *ssl);
};

struct pack;
struct record_crypto;
struct unpack;

/**
 * The EVP ciphers for all sessions of a thread.
 *
 * @return NULL without memory, and where OpenSSL's FIPS provider is loaded: there is a module that
 *         has to do all of it
 */
struct record_crypto *record_crypto_new(void);

/** Wipes and frees; takes NULL. */
void record_crypto_free(struct record_crypto *crypto);

/**
 * Handshakes of @p context offer connection_id, or answer it, as @p extension says, which is
 * static.
 *
 * @return false without memory
 */
bool records_add_cid_extension(SSL_CTX *context, const struct cid_extension *extension);

/**
 * The first record of @p data. Lengths are checked, content is not.
 *
 * @param cid_len of our connection ids, which records of type tls12_cid have; bytes
 * @return false where there is no whole record
 */
bool record_parse(const uint8_t *data, size_t len, size_t cid_len, struct record_view *ret_view);

/**
 * Derives the keys of our end of @p ssl, client or server, in whose handshake the master secret is
 * known already. @p ret_records, the caller's, is zeroed before but for its connection ids.
 *
 * @return false for a suite that is none of ours, and while there is no secret
 */
bool records_begin(struct record_crypto *crypto, const SSL *ssl, struct records *ret_records);

/** The name of its suite as OpenSSL's cipher, for example "AES-128-CCM8"; static. */
const char *records_suite_name(const struct records *records);

/** The most bytes that records_seal() takes: RFC 9146 section 5.3 counts the type in the record. */
size_t records_room(const struct records *records);

/** Wipes it; the struct is the caller's. */
void records_clear(struct records *records);

/** Appends all of it, keys included, for the next process (net/handover_file.h). */
void records_pack(const struct records *records, struct pack *out);

/** What records_pack() has written, into the caller's struct. @return false: no such suite here */
bool records_unpack(struct unpack *in, struct records *ret_records);

/** Whether @p view is as long as a record with @p plaintext_len bytes of content. */
bool records_may_hold(const struct records *records, const struct record_view *view,
                      size_t plaintext_len);

/**
 * Opens a record of the peer. The window is not moved: records_accept() does that.
 *
 * @param ret_plaintext has room for view->payload_len bytes
 * @param ret_type of the content, also where it was inside
 */
enum record_verdict records_open(struct record_crypto *crypto, const struct records *records,
                                 const struct record_view *view, uint8_t *ret_plaintext,
                                 size_t *ret_len, uint8_t *ret_type);

/** The record with @p number was authentic: it is not taken again. Cannot fail. */
void records_accept(struct records *records, uint64_t number);

/** @return whether @p number is higher than that of every record that was accepted before */
static inline bool records_is_newest(const struct records *records, uint64_t number)
{
    return number > records->newest || records->seen == 0;
}

/**
 * Seals a record under the next sequence number.
 *
 * @param len at most records_room() bytes
 * @param ret_record has room for @p len + RECORD_OVERHEAD_MAX bytes
 * @return its length; 0 where the numbers are used up or the cipher fails: the session has to end
 */
size_t records_seal(struct record_crypto *crypto, struct records *records, uint8_t type,
                    const uint8_t *data, size_t len, uint8_t *ret_record);

/**
 * For OpenSSL's eyes only, in a handshake: the record @p view, whose content was opened, as it
 * would have been without a connection id. It must not leave the process: it has the peer's nonce
 * again.
 *
 * @param ret_record has room for content->len + RECORD_OVERHEAD_MAX bytes
 * @return its length; 0 on failure
 */
size_t records_seal_theirs(struct record_crypto *crypto, const struct records *records,
                           const struct record_view *view, const struct record_content_of *content,
                           uint8_t *ret_record);

/**
 * Opens a record that OpenSSL has sealed in this session's epoch 1 with our key.
 *
 * @return false if it was not
 */
bool records_open_own(struct record_crypto *crypto, const struct records *records,
                      const struct record_view *view, uint8_t *ret_plaintext, size_t *ret_len);

/**
 * OpenSSL has sealed @p view in epoch 1: our numbers and nonces begin above it, at a distance of
 * at least @p gap numbers. To be called before records_begin() too, which may fail for want of
 * memory now and succeed later. Cannot fail.
 */
void records_note_own(struct records *records, const struct record_view *view, uint64_t gap);

#endif
