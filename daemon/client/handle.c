/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request, whatever carried it: admitted, understood, and made into a request that waits
 * or an answer.
 */
#include "client/handle.h"

#include "client/admission.h"
#include "client/directory.h"
#include "client/echo.h"
#include "client/faulty.h"
#include "client/local.h"
#include "client/observer.h"
#include "client/registration.h"
#include "client/reply.h"
#include "client/request.h"
#include "client/scan.h"
#include "client/serve.h"
#include "client/side.h"
#include "client/stream.h"
#include "client/trace.h"
#include "coap/option.h"
#include "context/target.h"
#include "fetch/admit.h"
#include "fetch/cached.h"
#include "fetch/coalesce.h"
#include "fetch/follow.h"
#include "fetch/forward.h"
#include "fetch/make.h"
#include "fetch/published.h"
#include "fetch/self.h"
#include "fetch/transfer.h"

#include <stdio.h>
#include <string.h>

/* --- room --------------------------------------------------------------- */

/*
 * Room for one more request where the tables that it needs are full: the source that holds
 * most of one loses its oldest request there (base/account.h).
 */

/*
 * Where all sources hold as much as the newcomer will, what has waited for so long makes room
 * all the same: longer than the retransmission of a request, an answer and what lies between,
 * so that a proxy with too much to do still gets it done.
 */
#define PATIENCE_MS 5000u

/* What a request has more in memory than in its datagram: target, token, key. */
#define EXTRA_BYTES 512u

/*
 * Others that wait for its fetch wait on. Its client is told once: to say so again until it is
 * acknowledged would take the place that is needed.
 */
static void displace(struct client_side *side, struct request *request)
{
    uint64_t id = request->trail.id;
    if (request->is_delivering) {
        metric_add(&side->context.metrics.deliveries_cut, 1);
        request_drop(side, request, REASON_client_unreachable);
        return;
    }
    fetch_fail_one(&side->fetch, request->fetch, &request->waiter, REASON_displaced);
    if (request->is_delivering && request->trail.id == id) {
        reply_nothing(side, request);
    }
}

void request_displace_all(struct client_side *side, struct peer *peer)
{
    observers_displace(side, peer);
    while (peer->pending != NULL) {
        displace(side, peer->pending);
    }
}

/* The request whose @p member is the holding that makes room in @p book, or NULL. */
static struct request *choose_request(const struct client_side *side,
                                      const struct account_book *book, size_t member,
                                      const struct leg *leg)
{
    /* Answers that wait for their acknowledgement make room by themselves (client/handle), but for
     * no fetch. */
    bool is_urgent =
        side->requests.delivering.first == NULL || fetch_table_is_full(&side->fetch.fetches);
    bool is_owed;
    struct holding *holding = account_yield(book, &leg->asker.path.remote, 1, &is_owed);
    if (holding == NULL) {
        return NULL;
    }
    struct request *request = (struct request *)(void *)((char *)holding - member);
    bool has_waited = context_now_ms(&side->context) - request->trail.started_ms >= PATIENCE_MS;
    bool goes = is_owed || (has_waited && is_urgent);
    if (goes) {
        account_note_displaced(holding);
    }
    return goes ? request : NULL;
}

static bool is_short_of_memory(const struct client_side *side, const struct leg *leg, size_t bytes)
{
    return side->fetch.large.free_count == 0 &&
           (2 * bytes + EXTRA_BYTES > FETCH_MEMORY_BYTES || leg->token.len > REQUEST_MEMORY_BYTES);
}

/* Transfers that have taken most of the budget for bodies: they end until there is room again. */
static void reclaim_bodies(struct client_side *side, const struct leg *leg, size_t bytes)
{
    struct body_store *store = &side->fetch.bodies;
    while (!fetch_has_room_for_bodies(&side->fetch)) {
        bool is_owed;
        struct holding *holding =
            account_yield(&store->transfers, &leg->asker.path.remote, bytes, &is_owed);
        if (holding == NULL) {
            return;
        }
        struct fetch *fetch = HASH_ENTRY(holding, struct body_share, holding)->fetch;
        if (!is_owed && context_now_ms(&side->context) - fetch->trail->started_ms < PATIENCE_MS) {
            return;
        }
        account_note_displaced(holding);
        const struct transfer *transfer = fetch->transfer;
        struct request *request;
        while (fetch->transfer == transfer && (request = request_of_fetch(fetch)) != NULL) {
            displace(side, request);
        }
        if (fetch->transfer == transfer) {
            fetch_fail(&side->fetch, fetch, REASON_displaced, NULL);
        }
    }
}

/* Of a table of slots or of large blocks: one. */
static void reclaim_request(struct client_side *side, const struct leg *leg, size_t bytes)
{
    struct request *request = NULL;
    if (request_table_is_full(&side->requests)) {
        request =
            choose_request(side, &side->requests.accounts, offsetof(struct request, holding), leg);
    } else if (is_short_of_memory(side, leg, bytes)) {
        request =
            choose_request(side, &side->fetch.large.accounts, offsetof(struct request, large), leg);
    }
    if (request != NULL) {
        displace(side, request);
    }
}

/*
 * Observations and transfers have fetches of their own, so there can be none left while there is
 * room for requests; of those, the ones whose answer is being delivered have none to give back.
 */
static void reclaim_fetch(struct client_side *side, const struct leg *leg)
{
    const size_t member = offsetof(struct request, holding);
    while (fetch_table_is_full(&side->fetch.fetches)) {
        struct request *request = choose_request(side, &side->requests.accounts, member, leg);
        if (request == NULL) {
            return;
        }
        displace(side, request);
    }
}

/*
 * Whether there is room for a request over @p leg, of @p bytes, as far as the client side knows;
 * its fetch needs room as well (fetch_has_room()).
 */
static bool room_is_there(const struct client_side *side, const struct leg *leg, size_t bytes)
{
    return !request_table_is_full(&side->requests) && !is_short_of_memory(side, leg, bytes);
}

/*
 * Make room for a request over @p leg, of @p bytes, where its source holds less than the largest
 * one, or where an entry has waited for long. If neither is so, nothing is done and the allocation
 * that follows fails. May end and free any request, of this client too, and uses the engine's
 * memory for keys and messages: nothing may be half made.
 */
static void room_make(struct client_side *side, struct leg *leg, size_t bytes)
{
    if (room_is_there(side, leg, bytes) && fetch_has_room(&side->fetch)) {
        return;
    }
    leg->peer->in_flight++; /* its connection is not through: there is the new request */
    reclaim_request(side, leg, bytes);
    reclaim_fetch(side, leg);
    reclaim_bodies(side, leg, bytes);
    leg->peer->in_flight--;
}

/* --- handle ------------------------------------------------------------- */

#define METHOD_DETAIL_MAX 7u /* 0.07 iPATCH: the last that is defined (RFC 8132) */

/* What the request to the next hop may have more than the client's: header, token, options. */
#define FETCH_OVERHEAD 512u

/* @p reason in its own words. Only the first byte of the text is cleared. */
static void problem_set(struct problem *problem, enum reason reason)
{
    problem->reason = reason;
    problem->text[0] = '\0';
}

/* What has been found out about a request so far. */
struct incoming {
    const struct message *message;
    struct leg *leg;
    struct request_options options;
    struct target target;
    const struct target *found; /* that target, once it is known and not the proxy itself */
    bool drops_echo;            /* its Echo was ours */
};

/* --- answers of the proxy's own ----------------------------------------- */

static void refuse_request(struct client_side *side, struct incoming *incoming,
                           const struct problem *problem)
{
    trace_answered(side, incoming->leg, incoming->found, incoming->message, problem,
                   reason_row(problem->reason)->code);
    /* Nothing was done, so refusing it twice does no harm: the store for unsafe requests is
     * for those that did something (MSG-17). */
    incoming->leg->is_safe = true;
    reply_reason_at_once(side, incoming->leg, problem->reason, problem->text);
}

/* An answer of the proxy's own that is more than words about a problem. */
static void answer_here(struct client_side *side, struct incoming *incoming,
                        const struct reply *reply, enum reason reason)
{
    const struct problem problem = {.reason = reason};
    trace_answered(side, incoming->leg, incoming->found, incoming->message, &problem, reply->code);
    incoming->leg->is_safe = true; /* see refuse_request() */
    reply_at_once(side, incoming->leg, reply);
}

/* --- requests ----------------------------------------------------------- */

/* The request of the client of @p leg under its token, or NULL. */
static struct request *request_of_token(const struct client_side *side, const struct leg *leg)
{
    const struct hash_map *tokens = &side->requests.tokens;
    struct hash_node *node = hash_map_find(tokens, leg_token_key(leg, tokens->seed));
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct request *request = HASH_ENTRY(node, struct request, by_token);
        if (leg_has_same_token(&request->leg, leg)) {
            return request;
        }
    }
    return NULL;
}

/*
 * What waits under the token that the client uses again waits no more (MSG-26), whether or not
 * the new one is kept: a deregistration that the cache answers ends a
 * registration under way (OBS-24).
 */
static void replace_older(struct client_side *side, const struct leg *leg)
{
    struct peer *peer = leg->peer;
    struct request *older = request_of_token(side, leg);
    if (older != NULL) {
        peer->in_flight++; /* its connection is not through: there is the new request */
        request_drop(side, older, REASON_client_replaced);
        peer->in_flight--;
    }
}

/* --- may it go ---------------------------------------------------------- */

static struct serve_subject subject_of(const struct client_side *side,
                                       const struct incoming *incoming)
{
    return (struct serve_subject){
        .target = &incoming->target,
        .code = incoming->message->code,
        .options = incoming->message->options,
        .query = serve_query(side, incoming->message),
    };
}

/* Whether the request is for a later block of a body that is kept for this client. */
static bool is_served(struct client_side *side, struct incoming *incoming)
{
    struct reply reply;
    enum reason reason;
    if (!incoming->leg->has_block2 || incoming->leg->block2.num == 0) {
        return false;
    }
    const struct serve_subject subject = subject_of(side, incoming);
    if (!serve_kept(side, incoming->leg, &subject, &reply, &reason)) {
        return false;
    }
    answer_here(side, incoming, &reply, reason == REASON_none ? REASON_block_served : reason);
    return true;
}

/* It is not sent on, for @p reason: one of question_ask() and what follows it. */
static void turn_down(struct client_side *side, struct incoming *incoming, enum reason reason,
                      const struct finding *finding)
{
    struct problem problem = {.reason = reason};
    struct reply reply;
    if (reason == REASON_echo_required) {
        uint8_t options[ECHO_OPTIONS_MAX];
        reply = echo_challenge(side, incoming->leg, options);
        answer_here(side, incoming, &reply, reason);
        return;
    }
    if (reason == REASON_origin_throttles) {
        reply = reply_of(reason, NULL);
        reply.max_age_s = finding->throttled_s;
        answer_here(side, incoming, &reply, reason);
        return;
    }
    if (reason == REASON_option_unknown) { /* where no group is meant */
        scan_name_option(&problem, reason, "unrecognized option", OPTION_multicast_timeout);
    } else if (reason == REASON_scheme_unsupported) { /* a known one, without a transport */
        snprintf(problem.text, sizeof(problem.text), "%s: %s", reason_row(reason)->diagnostic,
                 incoming->target.scheme->name);
    } else if (reason_row(reason)->code == CODE(5, 8)) {
        /* This proxy stopped it: the first name of the trail (HOP-5). */
        snprintf(problem.text, sizeof(problem.text), "%s", side->context.config->proxy_name);
    }
    refuse_request(side, incoming, &problem);
}

/* --- to the next hop ---------------------------------------------------- */

/* Answer with what the cache had. @return false where it does not fit its client's messages. */
static bool answer_from_cache(struct client_side *side, struct incoming *incoming,
                              const struct reply *reply)
{
    struct reply cut, done;
    const struct serve_subject subject = subject_of(side, incoming);
    if (incoming->leg->registers != LEG_REGISTERS_NOT) {
        done = directory_done();
        reply = &done;
    }
    if (serve_cut(side, incoming->leg, &subject, reply, &cut) == REASON_response_too_large) {
        return false;
    }
    metric_add(&side->context.metrics.cache_hits, 1);
    trace_hit(side, incoming->leg, &incoming->target, incoming->message, cut.code);
    reply_at_once(side, incoming->leg, &cut);
    return true;
}

/* What the fetch is made from. */
static struct fetch_recipe recipe_of(const struct client_side *side,
                                     const struct incoming *incoming, const struct finding *finding)
{
    const struct cached_lookup *lookup = &finding->lookup;
    const struct leg *leg = incoming->leg;
    /* The origin server is told what the client does not want to hear (NOR-4). */
    bool tells_unwanted = side->context.config->proxy_no_response == NO_RESPONSE_FORWARD &&
                          !leg->is_safe && leg->unwanted != 0;
    return (struct fetch_recipe){
        .mirrors_non = leg->kind == LEG_DATAGRAM && !leg->confirmable,
        .is_safe = leg->is_safe,
        .target = &incoming->target,
        .message = incoming->message,
        .hop = &finding->hop,
        .route = finding->route,
        .additions = {.hop_limit = finding->hop_limit,
                      .etags = lookup->etags,
                      .etag_count = lookup->etag_count,
                      .no_response = {true, tells_unwanted, leg->unwanted},
                      .passed = &incoming->options.passed,
                      .drops_echo = incoming->drops_echo,
                      .etag_seed = side->fetch.bodies.seed},
        .may_stay_unanswered = tells_unwanted,
        .asks_for_block = leg->has_block2,
        .is_group = incoming->options.multicast_timeout.data != NULL,
        .group_timeout_s = option_uint(incoming->options.multicast_timeout),
        .not_local = incoming->options.not_local,
        .lookup = lookup,
    };
}

/*
 * What its blocks ask for; BLOCK_PLAN_ANSWER has been answered. A client on a reliable transport
 * can send more at once than a next hop takes that is reached with datagrams; one to which the
 * client has sent more than a fetch holds is treated as if it were.
 */
static enum block_plan plan_blocks(struct client_side *side, struct incoming *incoming,
                                   struct fetch_recipe *recipe, struct bytes *ret_body)
{
    const struct message *message = incoming->message;
    enum transport transport = recipe->hop->scheme->transport;
    bool is_long = message->options.len + message->payload.len + FETCH_OVERHEAD >
                   side->context.config->limits_datagram_bytes;
    const struct block_request blocks = {
        .leg = incoming->leg,
        .message = message,
        .options = &incoming->options,
        .target = &incoming->target,
        .is_datagram_hop =
            incoming->leg->kind == LEG_STREAM && (transport_is_datagram(transport) || is_long),
        .is_http_hop = transport_is_http(transport),
    };
    struct reply reply;
    enum reason reason;
    enum block_plan plan =
        blocks_plan(side, &blocks, &recipe->additions, ret_body, &reply, &reason);
    if (plan == BLOCK_PLAN_ANSWER) {
        answer_here(side, incoming, &reply, reason);
    }
    return plan;
}

/*
 * The request has its fetch, of @p recipe, but what it registers for is not observed: it is a
 * request like others.
 *
 * @return whether it waits for another one's fetch instead
 */
static bool join_unobserved(struct client_side *side, struct request *request,
                            const struct fetch_recipe *recipe)
{
    struct fetch_recipe plain = *recipe;
    struct cached_lookup lookup = *recipe->lookup;
    lookup.key = request->fetch->ticket.key; /* the lookup's bytes may be others by now */
    plain.lookup = &lookup;
    return !request->fetch->memory.is_large && request_join(side, request, &plain);
}

/* Not answered here: a request, which observes, joins an equal one, or goes its own way. */
static void send_on(struct client_side *side, struct incoming *incoming,
                    const struct question *question, const struct finding *finding)
{
    const struct request_options *options = &incoming->options;
    struct fetch_recipe recipe = recipe_of(side, incoming, finding);
    struct bytes body = {0};
    enum block_plan plan = BLOCK_PLAN_PASS;
    if (options->block1.data != NULL || options->block2.data != NULL ||
        incoming->leg->kind == LEG_STREAM) {
        plan = plan_blocks(side, incoming, &recipe, &body);
    }
    if (plan == BLOCK_PLAN_ANSWER) {
        return;
    }
    struct message bodiless;
    if (plan != BLOCK_PLAN_PASS) {
        bodiless = *incoming->message;
        bodiless.payload = (struct bytes){0};
        recipe.message = &bodiless;
    }
    struct problem problem;
    problem_set(&problem, REASON_proxy_busy);
    struct request *request = request_make(side, incoming->leg, incoming->message);
    bool is_plain = plan == BLOCK_PLAN_PASS && !question->is_registration;
    if (request != NULL) {
        problem.reason = request_ask(side, request, &recipe, is_plain);
    }
    if (problem.reason != REASON_none) {
        if (request != NULL) {
            request_abandon(side, request);
        }
        refuse_request(side, incoming, &problem);
        return;
    }
    if (plan != BLOCK_PLAN_PASS) {
        transfer_send(&side->fetch, request->fetch, body, options->block1,
                      plan == BLOCK_PLAN_PIECE);
        return;
    }
    bool waits_for_another = is_plain ? request->joined_id != 0
                                      : registration_take(side, request, &recipe) ||
                                            join_unobserved(side, request, &recipe);
    if (!waits_for_another) {
        coalesce_open(&side->fetch, request->fetch);
        if (side->fetch.shared == NULL) {
            forward_start(&side->fetch, request->fetch);
        } else {
            follow_or_start(&side->fetch, request->fetch);
        }
    }
}

/* For the proxy as an endpoint: critical options count, CON or NON (OPT-5, OPT-6). */
static void serve_locally(struct client_side *side, struct incoming *incoming)
{
    struct problem problem;
    if (incoming->options.not_local == 0) {
        local_answer(side, incoming->leg, incoming->message, &incoming->target);
        return;
    }
    scan_name_option(&problem, REASON_option_unknown, "unrecognized critical option",
                     incoming->options.not_local);
    refuse_request(side, incoming, &problem);
}

static struct question question_of(const struct client_side *side, struct incoming *incoming,
                                   size_t bytes)
{
    struct leg *leg = incoming->leg;
    const struct request_options *options = &incoming->options;
    bool is_later_block = leg->has_block2 && leg->block2.num > 0;
    /* A safe request that asks for one answer is challenged later, if at all (AMP-9, AMP-12). */
    bool needs_echo = leg->is_unverified && (!leg->is_safe || options->observe.data != NULL ||
                                             options->multicast_timeout.data != NULL);
    return (struct question){
        .asker = &leg->asker,
        .target = &incoming->target,
        .message = incoming->message,
        .options = &incoming->options,
        .drops_echo = incoming->drops_echo,
        .is_registrant = leg->registers != LEG_REGISTERS_NOT,
        .needs_echo = needs_echo,
        .is_registration =
            incoming->options.observe.data != NULL && registration_is_one(side, &incoming->options),
        .takes_blocks = leg_takes_blocks(leg),
        .is_not_from_cache = (leg->cache_wish & LEG_NO_CACHE) != 0,
        .is_not_stored = (leg->cache_wish & LEG_NO_STORE) != 0,
        .is_only_from_cache = (leg->cache_wish & LEG_ONLY_IF_CACHED) != 0,
        .waits = is_later_block || !room_is_there(side, leg, bytes),
    };
}

/* A request for a target elsewhere, or at one of our own listeners. */
static void proxy_request(struct client_side *side, struct incoming *incoming)
{
    if (transport_is_http(incoming->target.scheme->transport) &&
        transport_is_http(transport_by_number(incoming->leg->asker.scheme))) {
        /* No open proxy for the web, in whatever form the target was named (HC-3). */
        refuse_request(side, incoming, &(struct problem){.reason = REASON_scheme_unsupported});
        return;
    }
    const struct message *message = incoming->message;
    size_t bytes = message->options.len + message->payload.len;
    const struct question question = question_of(side, incoming, bytes);
    struct finding finding; /* half a kilobyte that is written as it is found out */
    enum reason reason = question_ask(&side->fetch, &question, &finding);
    if (reason == REASON_local) {
        serve_locally(side, incoming);
        return;
    }
    if (reason == REASON_none && !finding.has_looked) {
        if (is_served(side, incoming)) {
            return;
        }
        room_make(side, incoming->leg, bytes);
        reason = question_look(&side->fetch, &question, &finding);
        finding.has_looked = true;
    }
    if (reason == REASON_none && finding.has_reply) {
        if (answer_from_cache(side, incoming, &finding.reply)) {
            return;
        }
        reason = question_pass_on(&side->fetch, &question, &finding);
    }
    if (finding.has_looked) {
        incoming->leg->route_label = finding.route != NULL ? finding.route->label : 0;
    }
    if (reason == REASON_none) {
        send_on(side, incoming, &question, &finding);
    } else {
        turn_down(side, incoming, reason, &finding);
    }
}

/*
 * A device that is to be reached under its name: if it may, it is asked for its links, and is
 * answered when it has answered (RFC 9176 section 5.1).
 */
static void register_device(struct client_side *side, struct incoming *incoming)
{
    struct problem problem = {.reason = REASON_none};
    struct directory_question links;
    const struct directory_request request = {incoming->message, &incoming->target.query,
                                              incoming->options.echo};
    if (!directory_take(side, incoming->leg, &request, &links, &problem)) {
        if (problem.reason == REASON_echo_required) {
            turn_down(side, incoming, problem.reason, NULL);
        } else {
            refuse_request(side, incoming, &problem);
        }
        return;
    }
    struct incoming asking = {
        .message = &links.message, .leg = incoming->leg, .target = links.target};
    asking.found = &asking.target;
    asking.leg->is_safe = true;
    asking.leg->has_block2 = false;
    proxy_request(side, &asking);
}

static bool is_registration(const struct client_side *side, const struct incoming *incoming)
{
    return side->context.config->device_range_count > 0 && incoming->options.not_local == 0 &&
           self_is_directory(&incoming->target.path);
}

/* --- what comes in ------------------------------------------------------ */

/* The checks before the options: the client, its limits, token and method. */
static enum reason admit_request(struct client_side *side, const struct incoming *incoming)
{
    struct leg *leg = incoming->leg;
    enum reason reason = admit_client(side, leg);
    if (reason != REASON_none) {
        return reason;
    }
    if (side->is_draining || (leg->listener != NULL && leg->listener->is_retiring)) {
        return REASON_shutting_down;
    }
    reason = limit_take(side, leg);
    if (reason == REASON_none &&
        incoming->message->token.len > side->context.config->proxy_max_token_bytes) {
        reason = REASON_token_too_long;
    } else if (reason == REASON_none && CODE_DETAIL(incoming->message->code) > METHOD_DETAIL_MAX) {
        reason = REASON_method_unknown;
    }
    return reason;
}

/* Its options, and what those mean that are between the client and us. */
static bool take_options(struct client_side *side, struct incoming *incoming,
                         struct problem *ret_problem)
{
    struct request_options *options = &incoming->options;
    struct leg *leg = incoming->leg;
    if (!scan_options(incoming->message, options, ret_problem)) {
        return false;
    }
    if (leg->peer->watcher != NULL) { /* it observes something */
        registration_on_request(side, leg, options);
    }
    incoming->drops_echo = options->echo.data != NULL && echo_take(side, leg, options->echo);
    /* RFC 7967 section 2: 2, 8 and 16 stand for no interest in 2.xx, 4.xx and 5.xx. */
    if (options->no_response.data != NULL) {
        leg->unwanted = (uint8_t)option_uint(options->no_response);
    }
    bool has_blocks = options->block1.data != NULL || options->block2.data != NULL;
    if (has_blocks && !blocks_check(leg, incoming->message, options, ret_problem)) {
        return false;
    }
    leg->has_block2 = options->block2.data != NULL;
    if (leg->has_block2) {
        leg->block2 = block_of(options->block2);
    }
    return true;
}

/*
 * Early Stop: the client wants no more answers of a group (draft-ietf-core-groupcomm-proxy
 * section 5.1.3). Nothing is said to that, a CON gets its ACK.
 */
static bool is_early_stop(struct client_side *side, struct incoming *incoming)
{
    static const struct reply nothing = {.code = CODE(2, 5)};
    struct leg *leg = incoming->leg;
    bool is_stop = incoming->target.form == TARGET_FORM_NONE &&
                   incoming->message->code == CODE_GET &&
                   option_uint(incoming->options.multicast_timeout) == 0;
    struct request *request = is_stop ? request_of_token(side, leg) : NULL;
    if (request == NULL || request->fetch == NULL || request->fetch->state != FETCH_collecting) {
        return false;
    }
    request_drop(side, request, REASON_group_done);
    leg->unwanted = UINT8_MAX;
    answer_here(side, incoming, &nothing, REASON_local);
    return true;
}

/* What it is for, and through which interface if that is link-local; it came to @p local. */
static bool find_target(struct client_side *side, struct incoming *incoming,
                        const struct address *local, struct problem *ret_problem)
{
    const struct config *config = side->context.config;
    const struct scheme *scheme = config_scheme_by_number(config, incoming->leg->asker.scheme);
    struct target_memory memory = {side->context.target_memory, side->context.target_memory_bytes};
    struct target *target = &incoming->target;
    struct address at = *local;
    if (scheme != NULL && at.port == scheme->default_port) {
        at.port = 0; /* the default of the scheme that it came over (PXO-22) */
    }
    /* Datagrams in the clear come without a handshake that could have named a host. */
    bool had_handshake = incoming->leg->kind == LEG_STREAM || incoming->leg->asker.identity != NULL;
    incoming->options.default_host =
        had_handshake ? leg_default_host(incoming->leg) : (struct bytes){0};
    if (!target_find(config, incoming->message, &incoming->options, &at, memory, target,
                     ret_problem)) {
        return false;
    }
    incoming->found = target->form != TARGET_FORM_NONE ? target : NULL;
    bool needs_zone =
        target->zone[0] != '\0' || (!target->is_name && address_needs_scope(&target->address));
    return !needs_zone || zones_apply(zones_of(&side->fetch), local, target, ret_problem);
}

/* A path of the proxy's own may stand for a target elsewhere (RFC 7252 section 5.7.3). */
static bool take_published(struct client_side *side, struct incoming *incoming,
                           const struct address *local, struct problem *ret_problem)
{
    const struct config *config = side->context.config;
    struct target_memory memory = {side->context.target_memory, side->context.target_memory_bytes};
    struct target *target = &incoming->target;
    const struct config_publish *published =
        admit_is_own(&side->fetch, target) ? published_find(config, &target->path) : NULL;
    if (published == NULL) {
        return true;
    }
    enum reason reason = published_take(published, incoming->message->code, memory, target);
    if (reason != REASON_none) {
        *ret_problem = (struct problem){.reason = reason};
        return false;
    }
    target_note_oscore(side->context.config, incoming->message->options, target);
    metric_add(&side->context.metrics.published_requests, 1);
    incoming->leg->is_published = true;
    incoming->found = target;
    bool needs_zone =
        target->zone[0] != '\0' || (!target->is_name && address_needs_scope(&target->address));
    return !needs_zone || zones_apply(zones_of(&side->fetch), local, target, ret_problem);
}

/* What has yet to be found out is not cleared: options and target are most of a kilobyte. */
static void incoming_begin(struct incoming *incoming, struct leg *leg,
                           const struct message *message)
{
    leg->token = message->token;
    leg->is_safe = message->code == CODE_GET || message->code == CODE_FETCH;
    incoming->message = message;
    incoming->leg = leg;
    incoming->found = NULL;
    incoming->drops_echo = false;
}

/* Whether a fault of a lab has taken it. */
__attribute__((cold, noinline)) static bool handle_lab(struct client_side *side, struct leg *leg,
                                                       const struct message *message,
                                                       const struct address *local)
{
    if (side->context.faults != NULL && faulty_request(side, leg, message, local)) {
        return true;
    }
    if (side->context.capture != NULL && leg->kind == LEG_STREAM) {
        stream_capture(leg, message, false);
    }
    return false;
}

void request_handle(struct client_side *side, struct leg *leg, const struct message *message,
                    const struct address *local)
{
    if (side->context.lab != 0 && handle_lab(side, leg, message, local)) {
        return;
    }
    struct incoming made, *incoming = &made;
    struct problem problem;
    incoming_begin(incoming, leg, message);
    problem_set(&problem, admit_request(side, incoming));
    metric_add(&side->context.metrics.requests, 1);
    incoming->leg->peer->requests++;
    if (problem.reason == REASON_client_busy && limit_is_silent(side, incoming->leg)) {
        return;
    }
    if (problem.reason != REASON_none || !take_options(side, incoming, &problem) ||
        !find_target(side, incoming, local, &problem)) {
        refuse_request(side, incoming, &problem);
        return;
    }
    if (target_is_mixed(&incoming->options)) {
        metric_add(&side->context.metrics.overridden_targets, 1); /* AMB-18 */
    }
    if (incoming->options.multicast_timeout.data != NULL && is_early_stop(side, incoming)) {
        return;
    }
    if (incoming->leg->peer->in_flight > 0) {
        replace_older(side, incoming->leg);
    }
    if (side->context.config->publish_count > 0 &&
        !take_published(side, incoming, local, &problem)) {
        refuse_request(side, incoming, &problem);
    } else if (incoming->target.form == TARGET_FORM_NONE && is_registration(side, incoming)) {
        register_device(side, incoming);
    } else if (incoming->target.form == TARGET_FORM_NONE) {
        serve_locally(side, incoming);
    } else {
        proxy_request(side, incoming);
    }
}

void request_refuse(struct client_side *side, struct leg *leg, const struct message *message,
                    enum reason reason)
{
    struct incoming incoming;
    struct problem problem = {.reason = reason};
    incoming_begin(&incoming, leg, message);
    metric_add(&side->context.metrics.requests, 1);
    refuse_request(side, &incoming, &problem);
}
