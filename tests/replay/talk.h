/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One client that asks, a proxy with a cache, and an origin server that answers: requests
 * and answers in the words of words.h, message ids and tokens by themselves.
 */
#ifndef CRIPROXY_REPLAY_TALK_H
#define CRIPROXY_REPLAY_TALK_H

#include "replay/replay.h"
#include "replay/words.h"

/* Proxy-Cri for coap://h/x, and what comes of it upstream. */
#define CRI "235:8320816168816178"
#define H_X "3=h 11=x"

struct talk {
    struct replay replay;
    unsigned mid;
};

/** With a cache of 1 MiB and up to two settings more; NULL: none. */
void talk_start_with(struct talk *talk, const char *a, const char *b);
void talk_start(struct talk *talk);
void talk_stop(struct talk *talk);

/** The client sends a request of @p code with the options of @p body. */
void talk_ask(struct talk *talk, unsigned code, const char *body);

/** Its answer is exactly that, and the origin server was not asked (again). */
void talk_expect(struct talk *talk, unsigned code, const char *body);

/** The origin server is asked with @p code and @p body, and answers. */
void talk_serve(struct talk *talk, unsigned code, const char *body, unsigned answer_code,
                const char *answer);

/** A GET for coap://h/x that goes upstream and is answered there. */
void talk_fetch(struct talk *talk, unsigned answer_code, const char *answer);

/** A GET for coap://h/x that the cache answers. */
void talk_hit(struct talk *talk, unsigned answer_code, const char *answer);

#endif
