/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sequences of events on the records of one DTLS session after its handshake, in both roles: the
 * listener's (net/dtls*.c) and that towards an origin server (net/upstream_dtls_record.c), over a
 * network and a clock of this harness. Bytes say what happens: play_step() in record_play.c has the
 * table. The peer is here, too, and seals with the keys of its end.
 *
 * Each sequence is judged as it goes, by assertions:
 *
 *  - each record that leaves opens with our key, and has a higher number than all before it under
 *    that key; explicit nonces are those of the number. So no nonce occurs twice;
 *  - what is delivered was sealed by the peer under the keys of this session, and is delivered
 * once;
 *  - between a snapshot and its end nothing leaves, and after a crash nothing of the old session is
 *    delivered;
 *  - records that do not open take no memory, and all is given back at the end.
 */
#ifndef CRIPROXY_RECORD_PLAY_H
#define CRIPROXY_RECORD_PLAY_H

#include <stddef.h>
#include <stdint.h>

#define PLAY_SUITES 7u

/* Of all sequences so far. */
struct play_counts {
    uint64_t sequences, sealed, delivered, flights, replays, forged, moves;
    uint64_t handovers, handovers_failed, crashes, ends;
};

extern struct play_counts play_counts;

/** Before all else that uses OpenSSL, whose memory is counted. Aborts where it fails. */
void record_play_init(void);

/** Frees what record_play_init() has made. */
void record_play_clear(void);

/** One sequence; borrows @p data. Any bytes are one. Aborts at what must not be. */
void record_play(const uint8_t *data, size_t len);

#endif
