/* SPDX-License-Identifier: BSD-2-Clause */
/* Between record_play.c and the two roles that it plays with. */
#ifndef CRIPROXY_RECORD_PLAY_END_H
#define CRIPROXY_RECORD_PLAY_END_H

#include "net/dtls_record.h"

#define PLAY_CID_BYTES 4u /* of our ids, where there are any */

/* An assertion that is there in every build. */
#define PLAY_MUST(condition) ((condition) ? (void)0 : play_fail(#condition, __FILE__, __LINE__))

_Noreturn void play_fail(const char *condition, const char *file, int line);

enum play_handover {
    PLAY_TAKEN,  /* by another listener, which goes on */
    PLAY_FAILED, /* destroyed: the old one goes on */
    PLAY_LOST,   /* the process dies with it: the session is gone */
};

/* One role. All calls are for the one session that there is. */
struct play_end {
    /* Begins with a copy of @p records; @p has_flight: the last flight of the handshake was ours.
     */
    void (*open)(const struct records *records, uint32_t cid, bool has_flight);
    struct records *(*records)(void); /* NULL: the session has ended */
    void (*feed)(const uint8_t *datagram, size_t len, bool is_elsewhere);
    void (*tell)(const uint8_t *data, size_t len);
    void (*wait)(uint64_t ms);
    void (*hand_over)(enum play_handover how, const uint8_t *datagram, size_t len);
    void (*close)(void); /* the session, if it is there, as the owner does */
    void (*check)(void); /* what is held, after each step */
};

extern const struct play_end play_listener, play_client;

/* The roles tell. */
void play_left(const uint8_t *datagram, size_t len);
void play_delivered(const uint8_t *data, size_t len);
void play_freeze(bool is_frozen); /* nothing may leave meanwhile */

void play_listener_init(void);
void play_listener_clear(void);
void play_client_init(void);
void play_client_clear(void);

#endif
