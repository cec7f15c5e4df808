/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between fetches and the cache: requests are answered from it, answers are kept in it.
 * What may be kept, and for how long, is cache/freshness.h's; where, cache/store.h's.
 *
 * Large bodies: one that is whole in the cache is cut for each client (client/serve.h), from
 * any block that it asks for. Blocks that pass through are kept one by one, under keys that
 * share their base, if they have an ETag; a block with another ETag makes the others stale, so
 * bodies are never mixed. A registration is never answered from here.
 */
#ifndef CRIPROXY_CACHED_H
#define CRIPROXY_CACHED_H

#include "coap/reply.h"
#include "fetch/route.h"
#include "fetch/ticket.h"
#include "policy/asker.h"

struct fetch_side;
struct fetch;
struct question;

/* What the cache has to say about a request that it does not answer. */
struct cached_lookup {
    bool has_key;
    bool is_unfit; /* an answer is there, but this client cannot have it */
    enum cache_answer answer;
    enum cache_sharing sharing;
    uint8_t hop_limit;
    struct cache_key key; /* its bytes are the engine's, until the next lookup */
    struct cache_candidates candidates;
    struct bytes etags[CACHE_REPRESENTATIONS_MAX]; /* of the candidates the client has not named */
    uint32_t etag_count;
};

/** Bytes that cached_begin() takes of a fetch's memory; 0 where the request has no key. */
size_t cached_bytes(const struct cached_lookup *lookup, const struct message *message);

/** Give a new fetch its ticket; @p lookup may be NULL. @return false: no room. */
bool cached_begin(struct fetch_side *side, struct fetch *fetch, const struct cached_lookup *lookup,
                  const struct message *message);

/**
 * What cached_look() has said to the request that @p fetch was made for, for one that has waited
 * for it and asks by itself with @p options. Borrows from the fetch and the cache. Cannot fail.
 */
void cached_lookup_again(const struct fetch_side *side, const struct fetch *fetch,
                         struct bytes options, struct cached_lookup *ret_lookup);

/**
 * The fetch is over: its pinned entries are released, no request joins it. Takes one that holds
 * nothing.
 */
void cached_release(struct fetch_side *side, struct fetch *fetch);

/**
 * Whether an unsafe request has changed its target since it began, or one whose hash shares the
 * slot of its target. @return false otherwise.
 */
bool cached_has_changed(const struct fetch_side *side, const struct fetch *fetch);

/**
 * The address that the answer of @p fetch came from, borrowed from the fetch; NULL where it is not
 * known, or a parent proxy resolves the name.
 */
const struct address *cached_source(const struct fetch *fetch);

/**
 * The origin server has answered: keep the answer, or what it says about kept answers, and give it
 * to all that wait. The fetch may be freed.
 *
 * @param reply options and payload as they came; copied where it is kept.
 */
void cached_answer(struct fetch_side *side, struct fetch *fetch, const struct reply *reply);

/** The same where nothing has been changed, or all that have to know of it do. */
void cached_give(struct fetch_side *side, struct fetch *fetch, const struct reply *reply);

/**
 * What the origin server says in an answer or a notification to a request of the proxy's own
 * that has a key: kept for others. For the request's owner, which has noted in the ticket which
 * changes of the target it is newer than.
 */
void cached_note(struct fetch_side *side, const struct fetch *fetch, const struct reply *reply);

/**
 * Whether an answer of @p code is a failure that a stale answer may stand in for (RFC 5861 section
 * 4).
 */
bool cached_is_failure(uint8_t code);

/**
 * It is to fail in a way that a stale answer helps: what was kept, where @p asker may have that
 * (cache.stale-if-error). Counted as given.
 *
 * @param ret_reply borrowed until the cache changes.
 * @return false: there is none.
 */
bool cached_help(struct fetch_side *side, const struct fetch *fetch, struct asker *asker,
                 struct reply *ret_reply);

/** Whether cached_help() may have something, for a client that may have it; counts nothing. */
bool cached_can_help(struct fetch_side *side, const struct fetch *fetch);

/**
 * Whether a request that names @p etags, encoded options, has the answer already: its ETag is among
 * them (RFC 7252 section 5.10.6.2); false where there is none.
 */
bool cached_validates(struct bytes etags, const struct reply *reply);

/**
 * Make @p reply, for which cached_validates() is true, a 2.03. Cannot fail.
 *
 * @param etag_option room for its option, which it borrows.
 */
void cached_make_valid(struct reply *reply, uint8_t etag_option[ETAG_OPTION_MAX]);

/*
 * What a client asks, before there is a fetch: whether it may be asked, whether an answer is
 * here, and which way it goes. In the order in which requests meet it; what is found out is kept
 * for fetch_make(), so that nothing is looked up twice.
 */

struct question {
    struct asker *asker;           /* the client; the rule that decides is noted in it */
    const struct target *target;   /* not the proxy itself by its form */
    const struct message *message; /* the request, and */
    const struct request_options *options;
    bool drops_echo;         /* its Echo was ours, and is not passed on */
    bool is_registrant;      /* a device is asked for its own links: no rule is about that */
    bool needs_echo;         /* refused until its client answers Echo, if by nothing else */
    bool is_registration;    /* to be answered by an observation */
    bool takes_blocks;       /* its client does */
    bool is_not_from_cache;  /* its client wants what the origin server says or validates, */
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
