/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a client asks, before there is a fetch: whether it may be asked, whether an answer is
 * here, and which way it goes. In the order in which requests meet it; what is found out is kept
 * for fetch_make(), so that nothing is looked up twice.
 */
#ifndef CRIPROXY_QUESTION_H
#define CRIPROXY_QUESTION_H

#include "coap/reply.h"
#include "fetch/cached.h"
#include "fetch/route.h"

struct question {
    struct asker *asker;           /* the client; the rule that decides is noted in it */
    const struct target *target;   /* not the proxy itself by its form */
    const struct message *message; /* the request, and */
    const struct request_options *options;
    bool drops_echo;         /* its Echo was ours, and is not passed on */
    bool needs_echo;         /* refused until its client answers Echo, if by nothing else */
    bool is_registration;    /* to be answered by an observation */
    bool takes_blocks;       /* its client does */
    bool is_not_from_cache;  /* its client wants an answer of the origin server's, */
    bool is_not_stored;      /* or one that is not kept, */
    bool is_only_from_cache; /* or none from there */
    bool waits; /* question_ask() does not look yet: its caller has something to do before */
};

/* What is known of it. Nothing in here is cleared: what a function sets stands beside it. */
struct finding {
    bool has_looked;    /* question_ask() has done what question_look() does */
    bool has_reply;     /* there is an answer, which the rest does not count for: */
    struct reply reply; /* borrowed until the cache changes, */
    uint8_t etag_option[ETAG_OPTION_MAX]; /* and from here */
    uint8_t hop_limit;                    /* for the next hop; 0: send none */
    struct cached_lookup lookup;
    uint32_t throttled_s; /* for how long its origin server wants none; with that reason */
    const struct config_route *route; /* the section that decided, or NULL, */
    struct next_hop hop;              /* and the way; borrows from target and configuration */
};

/**
 * Whether it may be asked; then, unless it waits or there has to be made room for it, what
 * question_look() finds.
 *
 * @param ret_finding set: has_looked, hop_limit, and what question_look() sets if it has.
 * @return REASON_none; REASON_local: it leads to a listener, and is for the proxy itself; or why
 *         not.
 */
enum reason question_ask(struct fetch_side *side, const struct question *question,
                         struct finding *ret_finding);

/**
 * Look for an answer that is fresh and that its client may have; else go on as
 * question_pass_on().
 *
 * @param finding of question_ask(); set: has_reply, and either reply or the rest.
 * @return REASON_none, or why not, as question_pass_on().
 */
enum reason question_look(struct fetch_side *side, const struct question *question,
                          struct finding *finding);

/**
 * The answer that was found does not fit its client's messages: it goes on, for itself alone.
 * Set: all but reply.
 *
 * @return REASON_none; REASON_origin_throttles, with throttled_s; REASON_not_cached; or those of
 *         route_find().
 */
enum reason question_pass_on(struct fetch_side *side, const struct question *question,
                             struct finding *finding);

#endif
