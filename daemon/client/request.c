/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request, whatever carried it: admitted, understood, and made into an exchange
 * or an answer.
 */
#include "client/request.h"

#include "client/admit.h"
#include "client/blocks.h"
#include "client/echo.h"
#include "client/hops.h"
#include "client/limit.h"
#include "client/local.h"
#include "client/registration.h"
#include "client/reply.h"
#include "client/scan.h"
#include "client/serve.h"
#include "client/trace.h"
#include "coap/option.h"
#include "engine/state.h"
#include "fetch/cached.h"
#include "fetch/coalesce.h"
#include "fetch/group.h"
#include "fetch/make.h"
#include "fetch/room.h"
#include "fetch/transfer.h"
#include "origin/forward.h"
#include "origin/route.h"

#include <stdio.h>
#include <string.h>

#define METHOD_DETAIL_MAX 7u /* 0.07 iPATCH: the last that is defined (RFC 8132) */

/* What the request to the next hop may have more than the client's: header, token, options. */
#define EXCHANGE_OVERHEAD 512u

/* What has been found out about a request so far. */
struct request {
    const struct message *message;
    struct leg *leg;
    struct request_options options;
    struct target target;
    const struct target *found; /* that target, once it is known and not the proxy itself */
    uint8_t hop_limit;          /* for the next hop; 0: send none */
    bool drops_echo;            /* its Echo was ours */
};

/* --- answers of the proxy's own ----------------------------------------- */

static void refuse(struct engine *engine, struct request *request, const struct problem *problem)
{
    trace_refused(engine, request->leg, request->found, request->message, problem);
    /* Nothing was done, so refusing it twice does no harm: the store for unsafe requests is
     * for those that did something (MSG-17). */
    request->leg->is_safe = true;
    reply_reason_at_once(engine, request->leg, problem->reason, problem->text);
}

/* An answer of the proxy's own that is more than words about a problem. */
static void answer_here(struct engine *engine, struct request *request, const struct reply *reply,
                        enum reason reason)
{
    const struct problem problem = {.reason = reason};
    trace_answered(engine, request->leg, request->found, request->message, &problem, reply->code);
    request->leg->is_safe = true; /* see refuse() */
    reply_at_once(engine, request->leg, reply);
}

/* --- exchanges ---------------------------------------------------------- */

/* The exchange of the client of @p leg under its token, or NULL. */
static struct exchange *by_token(const struct engine *engine, const struct leg *leg)
{
    const struct hash_map *tokens = &engine->exchanges.tokens;
    struct hash_node *node = hash_map_find(tokens, leg_token_key(leg, tokens->seed));
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct exchange *exchange = HASH_ENTRY(node, struct exchange, by_token);
        if (leg_has_same_token(&exchange->leg, leg)) {
            return exchange;
        }
    }
    return NULL;
}

static void on_ack_due(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    struct engine *engine = context;
    metric_add(&engine->metrics.acknowledgements, 1);
    reply_acknowledge(engine, HASH_ENTRY(timer, struct exchange, ack_timer));
}

/*
 * What waits under the token that the client uses again waits no more (MSG-26), whether or not
 * an exchange comes of the new request: a deregistration that the cache answers ends a
 * registration under way (OBS-24).
 */
static void replace_older(struct engine *engine, const struct leg *leg)
{
    struct peer *peer = leg->peer;
    struct exchange *older = peer->in_flight > 0 ? by_token(engine, leg) : NULL;
    if (older != NULL) {
        peer->in_flight++; /* its connection is not through: there is the new request */
        exchange_drop(engine, older, REASON_client_replaced);
        peer->in_flight--;
    }
}

/* Enter the exchange into the maps and start its clocks. */
static void begin(struct engine *engine, struct exchange *exchange)
{
    uint64_t now_ms = engine_now_ms(engine);
    const struct leg *leg = &exchange->leg;
    exchange_join(exchange, leg->peer);
    hash_map_add(&engine->exchanges.tokens, &exchange->by_token,
                 leg_token_key(leg, engine->exchanges.tokens.seed));
    if (leg->kind == LEG_DATAGRAM) {
        hash_map_add(&engine->exchanges.map, &exchange->by_request,
                     key_of_client(engine, KEY_CLIENT_REQUEST, leg->client, leg->mid));
    }
    if (leg->confirmable) {
        timer_set(&engine->wheel, &exchange->ack_timer, now_ms + engine->config->proxy_ack_delay,
                  on_ack_due);
    }
    metric_set(&engine->metrics.exchanges, engine->exchanges.in_use);
}

/* --- may it go ---------------------------------------------------------- */

/* Whether the request is for a later block of a body that is kept for this client. */
static bool is_served(struct engine *engine, struct request *request)
{
    const struct serve_subject subject = {&request->target, request->message->code,
                                          request->message->options,
                                          serve_query(engine, request->message)};
    struct reply reply;
    enum reason reason;
    if (!request->leg->has_block2 || request->leg->block2.num == 0 ||
        !serve_kept(engine, request->leg, &subject, &reply, &reason)) {
        return false;
    }
    answer_here(engine, request, &reply, reason == REASON_none ? REASON_block_served : reason);
    return true;
}

/*
 * A request of our own that came back: its token is one that we have given to a request
 * which is still out, and those are random. Loops by way of other proxies, which give
 * tokens of their own, end by Hop-Limit (ERR-14).
 */
static bool is_own_request(const struct engine *engine, const struct message *message)
{
    return message->token.len == EXCHANGE_TOKEN_LEN &&
           exchange_by_token(&engine->exchanges, message->token) != NULL;
}

/* Whether the request may go on, to where it wants. */
static enum reason check(struct engine *engine, struct request *request)
{
    if (is_own_request(engine, request->message)) {
        return REASON_loop_detected;
    }
    enum reason reason = group_check(engine->config, &request->target, &request->options);
    if (reason != REASON_none) {
        return reason;
    }
    reason = hops_take(engine->config, request->options.hop_limit, &request->hop_limit);
    if (reason == REASON_none) {
        reason = admit_target(engine, request->leg, &request->target, request->message->code,
                              ADMIT_RESOLVER_BY_ROUTE);
    }
    if (reason == REASON_none && echo_is_required(request->leg, &request->options)) {
        reason = REASON_echo_required;
    }
    return reason;
}

static bool may_go(struct engine *engine, struct request *request)
{
    struct problem problem = {.reason = check(engine, request)};
    if (problem.reason == REASON_none) {
        return true;
    }
    if (problem.reason == REASON_option_unknown) { /* where no group is meant */
        scan_name_option(&problem, REASON_option_unknown, "unrecognized option",
                         OPTION_multicast_timeout);
    }
    if (problem.reason == REASON_echo_required) {
        uint8_t options[ECHO_OPTIONS_MAX];
        struct reply reply = echo_challenge(engine, request->leg, options);
        answer_here(engine, request, &reply, problem.reason);
        return false;
    }
    if (reason_row(problem.reason)->code == CODE(5, 8)) {
        /* Who stopped it: the first name of the trail (HOP-5). */
        snprintf(problem.text, sizeof(problem.text), "%s", engine->config->proxy_name);
    }
    refuse(engine, request, &problem);
    return false;
}

/* --- to the next hop ---------------------------------------------------- */

static bool is_in_cache(struct engine *engine, const struct request *request,
                        struct cached_lookup *ret_lookup)
{
    const struct cached_request asked = {
        .leg = request->leg,
        .target = &request->target,
        .message = request->message,
        .hop_limit = request->hop_limit,
        .drops_echo = request->drops_echo,
        .is_registration = registration_is_one(engine, &request->options),
    };
    return cached_look(engine, &asked, ret_lookup);
}

/* Whether the origin server is told what the client does not want to hear (NOR-4). */
static bool forwards_no_response(const struct engine *engine, const struct request *request)
{
    return engine->config->proxy_no_response == NO_RESPONSE_FORWARD && !request->leg->is_safe &&
           request->leg->unwanted != 0;
}

/* What the exchange is made from, but for the way, which is the caller's to fill in. */
static struct exchange_recipe recipe_of(const struct engine *engine, const struct request *request,
                                        const struct cached_lookup *lookup)
{
    bool is_forwarded = forwards_no_response(engine, request);
    return (struct exchange_recipe){
        .leg = request->leg,
        .target = &request->target,
        .message = request->message,
        .additions = {.hop_limit = request->hop_limit,
                      .etags = lookup->etags,
                      .etag_count = lookup->etag_count,
                      .no_response = {true, is_forwarded, request->leg->unwanted},
                      .drops_echo = request->drops_echo},
        .may_stay_unanswered = is_forwarded,
        .is_group = request->options.multicast_timeout.data != NULL,
        .group_timeout_s = option_uint(request->options.multicast_timeout),
        .not_local = request->options.not_local,
        .lookup = lookup,
    };
}

/*
 * Whether a client on a reliable transport can send more at once than the next hop takes: that
 * is reached with datagrams; or is to be treated as if it were, as what the client has sent is
 * longer than an exchange holds.
 */
static bool is_datagram_hop(const struct engine *engine, const struct request *request,
                            const struct next_hop *hop)
{
    const struct message *message = request->message;
    bool is_long = message->options.len + message->payload.len + EXCHANGE_OVERHEAD >
                   engine->config->limits_datagram_bytes;
    return request->leg->kind == LEG_STREAM && (config_is_datagram(hop->scheme) || is_long);
}

/* What its blocks ask for; BLOCK_PLAN_ANSWER has been answered. */
static enum block_plan plan_blocks(struct engine *engine, struct request *request,
                                   struct exchange_recipe *recipe, struct bytes *ret_body)
{
    const struct block_request blocks = {
        .leg = request->leg,
        .message = request->message,
        .options = &request->options,
        .target = &request->target,
        .is_datagram_hop = is_datagram_hop(engine, request, recipe->hop),
    };
    struct reply reply;
    enum reason reason;
    enum block_plan plan =
        blocks_plan(engine, &blocks, &recipe->additions, ret_body, &reply, &reason);
    if (plan == BLOCK_PLAN_ANSWER) {
        answer_here(engine, request, &reply, reason);
    }
    return plan;
}

/* Whether its origin server has asked not to be asked this now: it is told so here (RATE-5). */
static bool is_throttled(struct engine *engine, struct request *request,
                         const struct cached_lookup *lookup)
{
    uint8_t method = request->message->code;
    if (engine_now_ms(engine) >= engine->throttles.latest_ms) {
        return false;
    }
    /* What a lookup has made lies where another key would be made. */
    uint32_t left_s = lookup->has_key ? throttle_left_of_s(engine, lookup->key.target_hash, method)
                                      : throttle_left_s(engine, &request->target, method);
    if (left_s == 0) {
        return false;
    }
    struct reply reply = reply_of(REASON_origin_throttles, NULL);
    reply.max_age_s = left_s;
    answer_here(engine, request, &reply, REASON_origin_throttles);
    return true;
}

/* Not answered here: an exchange, which observes, follows an equal one, or goes its own way. */
static void proxy_request(struct engine *engine, struct request *request)
{
    struct cached_lookup lookup;
    if (is_in_cache(engine, request, &lookup) || is_throttled(engine, request, &lookup)) {
        return;
    }
    struct exchange_recipe recipe = recipe_of(engine, request, &lookup);
    struct next_hop hop;
    struct problem problem = {
        .reason = route_find(engine->config, &request->target, &hop, &recipe.route)};
    request->leg->route_label = recipe.route != NULL ? recipe.route->label : 0;
    if (problem.reason == REASON_scheme_unsupported) { /* a known one, without a transport */
        snprintf(problem.text, sizeof(problem.text), "%s: %s",
                 reason_row(problem.reason)->diagnostic, request->target.scheme->name);
    }
    if (problem.reason != REASON_none) {
        refuse(engine, request, &problem);
        return;
    }
    recipe.hop = &hop;
    struct bytes body;
    enum block_plan plan = plan_blocks(engine, request, &recipe, &body);
    if (plan == BLOCK_PLAN_ANSWER) {
        return;
    }
    struct message bodiless = *request->message;
    bodiless.payload = (struct bytes){0};
    recipe.message = plan == BLOCK_PLAN_TRANSFER ? &bodiless : request->message;
    struct exchange *exchange;
    problem.reason = exchange_make(engine, &recipe, &exchange);
    if (problem.reason != REASON_none) {
        refuse(engine, request, &problem);
        return;
    }
    exchange->query = serve_query(engine, request->message);
    begin(engine, exchange);
    if (plan == BLOCK_PLAN_TRANSFER) {
        transfer_send(engine, exchange, body, request->options.block1);
    } else if (!registration_take(engine, exchange, &recipe, &request->options) &&
               !coalesce_enter(engine, exchange)) {
        forward_start(engine, exchange);
    }
}

/* --- what comes in ------------------------------------------------------ */

/* What can be said without a look at the options: who asks, how much, and in which form. */
static enum reason admit(struct engine *engine, const struct request *request)
{
    struct leg *leg = request->leg;
    enum reason reason = admit_client(engine, leg);
    if (reason != REASON_none) {
        return reason;
    }
    if (engine->is_draining || (leg->listener != NULL && leg->listener->is_retiring)) {
        return REASON_shutting_down;
    }
    reason = limit_take(engine, leg);
    if (reason == REASON_none &&
        request->message->token.len > engine->config->proxy_max_token_bytes) {
        reason = REASON_token_too_long;
    } else if (reason == REASON_none && CODE_DETAIL(request->message->code) > METHOD_DETAIL_MAX) {
        reason = REASON_method_unknown;
    }
    return reason;
}

/* RFC 7967 section 2: 2, 8 and 16 stand for no interest in 2.xx, 4.xx and 5.xx. */
static uint8_t unwanted_classes(struct bytes no_response)
{
    return no_response.data != NULL ? (uint8_t)option_uint(no_response) : 0;
}

/* Its options, and what those mean that are between the client and us. */
static bool take_options(struct engine *engine, struct request *request,
                         struct problem *ret_problem)
{
    struct request_options *options = &request->options;
    struct leg *leg = request->leg;
    if (!scan_options(request->message, options, ret_problem)) {
        return false;
    }
    registration_on_request(engine, leg, options);
    request->drops_echo = echo_take(engine, leg, options->echo);
    leg->unwanted = unwanted_classes(options->no_response);
    if (!blocks_check(leg, request->message, options, ret_problem)) {
        return false;
    }
    leg->has_block2 = options->block2.data != NULL;
    if (leg->has_block2) {
        leg->block2 = block_of(options->block2);
    }
    return true;
}

/* Where the request came to; port 0 for the default of the scheme that it came over (PXO-22). */
static struct address received_at(const struct engine *engine, const struct leg *leg,
                                  const struct address *local)
{
    const struct config_scheme *scheme = config_scheme_by_number(engine->config, leg->scheme);
    struct address at = *local;
    if (scheme != NULL && at.port == scheme->default_port) {
        at.port = 0;
    }
    return at;
}

/*
 * Early Stop: the client wants no more answers of a group (draft-ietf-core-groupcomm-proxy
 * section 5.1.3). Nothing is said to that, a CON gets its ACK.
 */
static bool is_early_stop(struct engine *engine, struct request *request)
{
    static const struct reply nothing = {.code = CODE(2, 5)};
    struct leg *leg = request->leg;
    bool is_stop = request->target.form == TARGET_FORM_NONE && request->message->code == CODE_GET &&
                   request->options.multicast_timeout.data != NULL &&
                   option_uint(request->options.multicast_timeout) == 0;
    struct exchange *exchange = is_stop ? by_token(engine, leg) : NULL;
    if (exchange == NULL || exchange->state != EXCHANGE_collecting) {
        return false;
    }
    exchange_drop(engine, exchange, REASON_group_done);
    leg->unwanted = UINT8_MAX;
    answer_here(engine, request, &nothing, REASON_local);
    return true;
}

/* The interface of a link-local target; most are not, and cost nothing here. */
static bool find_zone(struct engine *engine, const struct address *local, struct target *target,
                      struct problem *ret_problem)
{
    bool is_plain =
        target->zone[0] == '\0' && (target->is_name || !zones_concern(&target->address));
    return is_plain || zones_apply(zones_of(engine), local, target, ret_problem);
}

static bool find_target(struct engine *engine, struct request *request, const struct address *local,
                        struct problem *ret_problem)
{
    struct target_memory memory = {engine->target_memory, engine->target_memory_bytes};
    struct address at = received_at(engine, request->leg, local);
    request->options.default_host = leg_default_host(request->leg);
    if (!target_find(engine->config, request->message, &request->options, &at, memory,
                     &request->target, ret_problem)) {
        return false;
    }
    request->found = request->target.form != TARGET_FORM_NONE ? &request->target : NULL;
    return find_zone(engine, local, &request->target, ret_problem);
}

/* For the proxy as an endpoint: critical options count, CON or NON (OPT-5, OPT-6). */
static void serve_locally(struct engine *engine, struct request *request)
{
    struct problem problem;
    if (request->options.not_local == 0) {
        local_answer(engine, request->leg, request->message, &request->target.path);
        return;
    }
    scan_name_option(&problem, REASON_option_unknown, "unrecognized critical option",
                     request->options.not_local);
    refuse(engine, request, &problem);
}

static bool is_for_proxy(struct engine *engine, const struct target *target)
{
    return target->form == TARGET_FORM_NONE ||
           (!target->is_name && engine_is_own_address(engine, target->scheme, &target->address));
}

static void handle(struct engine *engine, struct request *request, const struct address *local)
{
    struct problem problem = {.reason = admit(engine, request)};
    metric_add(&engine->metrics.requests, 1);
    request->leg->peer->requests++;
    if (problem.reason == REASON_client_busy && limit_is_silent(engine, request->leg)) {
        return;
    }
    if (problem.reason != REASON_none || !take_options(engine, request, &problem) ||
        !find_target(engine, request, local, &problem)) {
        refuse(engine, request, &problem);
        return;
    }
    if (target_is_mixed(&request->options)) {
        metric_add(&engine->metrics.overridden_targets, 1); /* AMB-18 */
    }
    if (is_early_stop(engine, request)) {
        return;
    }
    replace_older(engine, request->leg);
    if (is_for_proxy(engine, &request->target)) {
        serve_locally(engine, request);
    } else if (may_go(engine, request) && !is_served(engine, request)) {
        const struct message *message = request->message;
        room_make(engine, request->leg, message->options.len + message->payload.len);
        proxy_request(engine, request);
    }
}

static bool is_safe_method(uint8_t code)
{
    return code == CODE_GET || code == CODE_FETCH;
}

void request_handle(struct engine *engine, struct leg *leg, const struct message *message,
                    const struct address *local)
{
    struct request request = {.message = message, .leg = leg};
    leg->token = message->token;
    leg->is_safe = is_safe_method(message->code);
    handle(engine, &request, local);
}

void request_refuse(struct engine *engine, struct leg *leg, const struct message *message,
                    enum reason reason)
{
    struct request request = {.message = message, .leg = leg};
    struct problem problem = {.reason = reason};
    metric_add(&engine->metrics.requests, 1);
    leg->token = message->token;
    leg->is_safe = is_safe_method(message->code);
    refuse(engine, &request, &problem);
}
