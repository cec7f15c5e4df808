/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram from a client is decoded, deduplicated, admitted, understood, and
 * becomes an exchange or an answer. RFC 7252 sections 4.2 to 4.5 say what is
 * rejected and what is ignored; a message that is no request never gets an
 * answer that an attacker could use.
 */
#include "front/request.h"

#include "front/local.h"
#include "front/reply.h"
#include "ops/trace.h"
#include "origin/forward.h"
#include "state.h"

#include <stdio.h>
#include <string.h>

#define METHOD_DETAIL_MAX 7u /* 0.07 iPATCH: the last that is defined (RFC 8132) */

/* --- options ------------------------------------------------------------ */

struct scan {
    const struct option_row *last_row; /* of the option before, to see repetitions */
    uint16_t bad;                      /* first option that must not pass; 0: none */
    bool bad_is_known;
};

static void collect(struct request_options *options, const struct option *option)
{
    switch (option->number) {
    case OPTION_uri_host:
        options->uri_host = option->value;
        break;
    case OPTION_uri_port:
        options->uri_port = option->value;
        break;
    case OPTION_proxy_cri:
        options->proxy_cri = option->value;
        break;
    case OPTION_proxy_uri:
        options->proxy_uri = option->value;
        break;
    case OPTION_proxy_scheme:
        options->proxy_scheme = option->value;
        break;
    case OPTION_proxy_scheme_number:
        options->proxy_scheme_number = option->value;
        break;
    case OPTION_hop_limit:
        options->hop_limit = option->value;
        break;
    case OPTION_no_response:
        options->no_response = option->value;
        break;
    case OPTION_uri_path:
    case OPTION_uri_query:
        options->has_uri_path_or_query = true;
        break;
    case OPTION_oscore:
    case OPTION_edhoc:
        /* Passed on to whom it is for; the proxy itself has no security context. */
        options->not_local = options->not_local == 0 ? option->number : options->not_local;
        break;
    default:
        break;
    }
}

static bool is_defined_for(const struct option_row *row, uint8_t code)
{
    if (row->number == OPTION_observe) {
        return code == CODE_GET || code == CODE_FETCH; /* RFC 7641 section 2, RFC 8132 */
    }
    return row->in_request != OPTION_USE_NONE;
}

static void scan_option(struct scan *scan, const struct message *message,
                        const struct option *option, struct request_options *options)
{
    const struct option_row *row = option_row(option->number);
    bool is_extra = row != NULL && row == scan->last_row && !row->repeats_in_request;
    bool is_recognised = row != NULL && is_defined_for(row, message->code) && !is_extra &&
                         option_length_is_good(row, option->value);
    scan->last_row = row;
    if (is_recognised) {
        collect(options, option);
        return;
    }
    if (scan->bad == 0 && option_is_unsafe(option->number)) {
        scan->bad = option->number;
        scan->bad_is_known = row != NULL;
    }
    if (options->not_local == 0 && option_is_critical(option->number)) {
        options->not_local = option->number;
    }
}

/* "option 235 (proxy-cri)": which one, for the sender (OPT-4). */
static void name_option(struct problem *problem, enum reason reason, const char *what,
                        uint16_t number)
{
    const struct option_row *row = option_row(number);
    problem->reason = reason;
    snprintf(problem->text, sizeof(problem->text), "%s %u%s%s%s", what, number,
             row != NULL ? " (" : "", row != NULL ? row->name : "", row != NULL ? ")" : "");
    for (char *at = problem->text; *at != '\0'; at++) {
        *at = *at == '_' ? '-' : *at;
    }
}

bool request_scan(const struct message *message, struct request_options *ret_options,
                  struct problem *ret_problem)
{
    struct option_iter iter;
    struct option option;
    struct scan scan = {0};
    *ret_options = (struct request_options){0};
    option_iter_init(&iter, message->options);
    while (option_iter_next(&iter, &option)) {
        scan_option(&scan, message, &option, ret_options);
    }
    if (scan.bad != 0) {
        name_option(
            ret_problem, scan.bad_is_known ? REASON_option_malformed : REASON_option_unknown,
            scan.bad_is_known ? "malformed or misplaced option" : "unrecognized option", scan.bad);
        return false;
    }
    return true;
}

/* --- one request -------------------------------------------------------- */

/* What has been found out about a request so far. */
struct request {
    const struct message *message;
    struct leg leg;
    struct request_options options;
    struct target target;
    uint8_t hop_limit; /* for the next hop; 0: send none */
};

static void refuse(struct engine *engine, struct request *request, const struct problem *problem)
{
    trace_refused(engine, &request->leg, request->message, problem);
    reply_reason_at_once(engine, &request->leg, problem->reason, problem->text);
}

/* Hop-Limit towards the next hop (RFC 8768 section 3). */
static enum reason take_hop(const struct engine *engine, struct request *request)
{
    if (request->options.hop_limit.data == NULL) {
        request->hop_limit = engine->config->proxy_hop_limit ? 16 : 0;
        return REASON_none;
    }
    uint32_t received = option_uint(request->options.hop_limit);
    if (received == 0) {
        return REASON_hop_limit_invalid;
    }
    request->hop_limit = (uint8_t)(received - 1);
    return request->hop_limit == 0 ? REASON_hop_limit_reached : REASON_none;
}

/* Copy what has to outlive the datagram: the token and the target's segments. */
static bool keep(struct exchange *exchange, const struct request *request)
{
    const struct target *target = &request->target;
    size_t token_len = request->leg.token.len;
    uint8_t *token = exchange_alloc(exchange, token_len);
    uint8_t *path = exchange_alloc(exchange, target->path.len);
    uint8_t *query = exchange_alloc(exchange, target->query.len);
    if (token == NULL || path == NULL || query == NULL) {
        return false;
    }
    if (token_len > 0) {
        memcpy(token, request->leg.token.data, token_len);
    }
    if (target->path.len > 0) {
        memcpy(path, target->path.packed, target->path.len);
    }
    if (target->query.len > 0) {
        memcpy(query, target->query.packed, target->query.len);
    }
    exchange->leg = request->leg;
    exchange->leg.token = (struct bytes){token, token_len};
    exchange->target = *target;
    exchange->target.path.packed = path;
    exchange->target.query.packed = query;
    exchange->hop_limit = request->hop_limit;
    exchange->not_local = request->options.not_local;
    return true;
}

/* Bytes that an exchange for this request needs: token, target, datagram. */
static size_t memory_needed(const struct request *request)
{
    const struct target *target = &request->target;
    size_t packed = target->path.len + target->query.len;
    /* Each option takes at most 3 bytes of head, one of which a segment has already. */
    size_t options =
        packed + 2 * (size_t)(target->path.count + target->query.count) + target->name_len + 8;
    size_t message =
        4 + EXCHANGE_TOKEN_LEN + request->message->options.len + request->message->payload.len + 1;
    /* Forwarding drops options, which can lengthen the delta of the next one by 2. */
    return request->leg.token.len + packed + options + message + 64;
}

static uint64_t token_key(const struct engine *engine, const struct client *client,
                          struct bytes token)
{
    uint64_t who = key_of_client(engine, KEY_CLIENT_TOKEN, client, 0);
    return hash_bytes(token.data, token.len, who ^ engine->exchanges.tokens.seed);
}

/* The exchange of @p client under @p token, or NULL. */
static struct exchange *by_token(const struct engine *engine, const struct leg *leg, uint64_t key)
{
    struct hash_node *node = hash_map_find(&engine->exchanges.tokens, key);
    for (; node != NULL; node = hash_map_find_next(node)) {
        struct exchange *exchange = HASH_ENTRY(node, struct exchange, by_token);
        const struct leg *other = &exchange->leg;
        if (other->client == leg->client && other->token.len == leg->token.len &&
            (leg->token.len == 0 ||
             memcmp(other->token.data, leg->token.data, leg->token.len) == 0)) {
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

/* Enter the exchange into the maps and start its clocks. */
static void begin(struct engine *engine, struct exchange *exchange)
{
    uint64_t now_ms = engine_now_ms(engine);
    const struct leg *leg = &exchange->leg;
    uint64_t key = token_key(engine, leg->client, leg->token);
    struct exchange *older = by_token(engine, leg, key);
    if (older != NULL) {
        exchange_drop(engine, older, REASON_client_replaced); /* MSG-26 */
    }
    leg->client->in_flight++;
    exchange->started_ms = now_ms;
    exchange->deadline_ms = now_ms + engine->config->proxy_request_timeout;
    hash_map_add(&engine->exchanges.tokens, &exchange->by_token, key);
    hash_map_add(&engine->exchanges.map, &exchange->by_request,
                 key_of_client(engine, KEY_CLIENT_REQUEST, leg->client, leg->mid));
    if (leg->confirmable) {
        timer_set(&engine->wheel, &exchange->ack_timer, now_ms + engine->config->proxy_ack_delay,
                  on_ack_due);
    }
    metric_set(&engine->metrics.exchanges, engine->exchanges.in_use);
}

static void proxy_request(struct engine *engine, struct request *request)
{
    struct problem problem = {.reason = take_hop(engine, request)};
    if (problem.reason != REASON_none) {
        if (problem.reason == REASON_hop_limit_reached) {
            /* Who stopped it: a name without spaces (RFC 8768 section 4). */
            snprintf(problem.text, sizeof(problem.text), "criproxy");
        }
        refuse(engine, request, &problem);
        return;
    }
    size_t needed = memory_needed(request);
    if (needed > engine->exchanges.large_bytes) {
        problem.reason = REASON_request_too_large;
        refuse(engine, request, &problem);
        return;
    }
    struct exchange *exchange = exchange_new(&engine->exchanges, needed);
    if (exchange == NULL) {
        problem.reason = REASON_proxy_busy;
        refuse(engine, request, &problem);
        return;
    }
    exchange_set_token(exchange, entropy_u64(&engine->entropy));
    if (!keep(exchange, request) || !forward_encode(engine, exchange, request->message)) {
        exchange_free(&engine->exchanges, exchange);
        problem.reason = REASON_request_too_large;
        refuse(engine, request, &problem);
        return;
    }
    begin(engine, exchange);
    forward_start(engine, exchange);
}

/* Too much of something? The limits come before anything is looked at closely. */
static enum reason admit(const struct engine *engine, const struct leg *leg)
{
    if (engine->is_draining) {
        return REASON_shutting_down;
    }
    if (leg->client->in_flight >= engine->config->limits_exchanges_per_client) {
        return REASON_client_busy;
    }
    return REASON_none;
}

/* RFC 7967 section 2: 2, 8 and 16 stand for no interest in 2.xx, 4.xx and 5.xx. */
static uint8_t unwanted_classes(struct bytes no_response)
{
    return no_response.data != NULL ? (uint8_t)option_uint(no_response) : 0;
}

static void handle_request(struct engine *engine, struct listener *listener,
                           struct request *request)
{
    const struct message *message = request->message;
    struct problem problem = {.reason = admit(engine, &request->leg)};
    metric_add(&engine->metrics.requests, 1);
    if (problem.reason == REASON_none &&
        message->token.len > engine->config->proxy_max_token_bytes) {
        problem.reason = REASON_token_too_long;
    } else if (problem.reason == REASON_none && CODE_DETAIL(message->code) > METHOD_DETAIL_MAX) {
        problem.reason = REASON_method_unknown;
    }
    if (problem.reason != REASON_none || !request_scan(message, &request->options, &problem)) {
        refuse(engine, request, &problem);
        return;
    }
    request->leg.unwanted = unwanted_classes(request->options.no_response);
    struct target_memory memory = {engine->target_memory, engine->target_memory_bytes};
    const struct address *bound = udp_local(listener->socket);
    struct address local =
        request->leg.path.local.family != ADDRESS_NONE ? request->leg.path.local : *bound;
    local.port = bound->port;
    if (!target_find(engine->config, message, &request->options, &local, memory, &request->target,
                     &problem)) {
        refuse(engine, request, &problem);
        return;
    }
    bool is_local =
        request->target.form == TARGET_FORM_NONE ||
        (!request->target.is_name && engine_is_own_address(engine, &request->target.address));
    if (!is_local) {
        proxy_request(engine, request);
    } else if (request->options.not_local != 0) {
        /* For ourselves critical options count, CON or NON (OPT-5, OPT-6). */
        name_option(&problem, REASON_option_unknown, "unrecognized critical option",
                    request->options.not_local);
        refuse(engine, request, &problem);
    } else {
        local_answer(engine, &request->leg, message, &request->target.path);
    }
}

/* --- the message layer's view ------------------------------------------- */

/* A repeated request: the same answer again, or word that it is being worked on. */
static bool is_duplicate(struct engine *engine, const struct leg *leg)
{
    uint64_t key = key_of_client(engine, KEY_CLIENT_REQUEST, leg->client, leg->mid);
    struct hash_node *node = hash_map_find(&engine->exchanges.map, key);
    struct bytes answer;
    if (node != NULL) {
        struct exchange *exchange = HASH_ENTRY(node, struct exchange, by_request);
        if (leg->confirmable) {
            reply_acknowledge(engine, exchange);
        }
    } else if (dedup_find(&engine->dedup, key, engine_now_ms(engine), &answer)) {
        if (leg->confirmable && answer.len > 0) {
            udp_send(leg->listener->socket, &leg->path, answer.data, answer.len);
        }
    } else {
        return false;
    }
    metric_add(&engine->metrics.requests_duplicate, 1);
    return true;
}

static bool is_safe_method(uint8_t code)
{
    return code == CODE_GET || code == CODE_FETCH;
}

static void on_request(struct engine *engine, struct listener *listener,
                       const struct datagram *datagram, const struct message *message)
{
    struct client *client =
        client_table_get(&engine->clients, &datagram->path.remote, listener->index,
                         (uint16_t)entropy_u64(&engine->entropy), engine_now_ms(engine));
    if (client == NULL) {
        metric_add(&engine->metrics.messages_ignored, 1);
        return;
    }
    struct request request = {
        .message = message,
        .leg =
            {
                .listener = listener,
                .client = client,
                .path = datagram->path,
                .token = message->token,
                .mid = message->mid,
                .confirmable = message->type == MESSAGE_CON,
                .is_safe = is_safe_method(message->code),
            },
    };
    if (is_duplicate(engine, &request.leg)) {
        return;
    }
    if (datagram->truncated) {
        struct problem problem = {.reason = REASON_request_too_large};
        refuse(engine, &request, &problem); /* MSG-36 */
        return;
    }
    handle_request(engine, listener, &request);
}

/* An ACK or RST for a message of ours: a separate answer. */
static void on_verdict(struct engine *engine, const struct listener *listener,
                       const struct datagram *datagram, const struct message *message)
{
    const struct client *client =
        client_table_find(&engine->clients, &datagram->path.remote, listener->index);
    if (client == NULL || message->code != CODE_EMPTY) {
        metric_add(&engine->metrics.messages_ignored, 1);
        return; /* MSG-11 */
    }
    uint64_t key = key_of_client(engine, KEY_CLIENT_RESPONSE, client, message->mid);
    struct hash_node *node = hash_map_find(&engine->exchanges.map, key);
    if (node == NULL) {
        metric_add(&engine->metrics.messages_ignored, 1);
        return;
    }
    reply_on_acknowledged(engine, HASH_ENTRY(node, struct exchange, by_message),
                          message->type == MESSAGE_RST);
}

/* What cannot be processed: a CON is rejected, everything else ignored (MSG-8, MSG-9). */
static void reject(struct listener *listener, const struct datagram *datagram,
                   const struct message *message)
{
    if (message->type == MESSAGE_CON) {
        reply_empty(listener, &datagram->path, MESSAGE_RST, message->mid);
    }
}

static void on_message(struct engine *engine, struct listener *listener,
                       const struct datagram *datagram, const struct message *message)
{
    if (message->type == MESSAGE_ACK || message->type == MESSAGE_RST) {
        on_verdict(engine, listener, datagram, message);
    } else if (message_is_request(message)) {
        on_request(engine, listener, datagram, message);
    } else {
        /* A ping, a response nobody asked for, or a reserved class. */
        if (message->code == CODE_EMPTY && message->type == MESSAGE_CON) {
            metric_add(&engine->metrics.pings, 1);
        } else {
            metric_add(&engine->metrics.messages_ignored, 1);
        }
        reject(listener, datagram, message);
    }
}

static void on_datagram(void *context, struct udp_socket *socket, const struct datagram *datagram)
{
    (void)socket;
    struct listener *listener = context;
    struct engine *engine = listener->engine;
    struct message message;
    switch (message_decode(datagram->data, datagram->len, &message)) {
    case MESSAGE_OK:
        on_message(engine, listener, datagram, &message);
        break;
    case MESSAGE_FORMAT_ERROR:
        metric_add(&engine->metrics.messages_malformed, 1);
        reject(listener, datagram, &message);
        break;
    case MESSAGE_TOO_SHORT:
    case MESSAGE_VERSION:
        metric_add(&engine->metrics.messages_ignored, 1);
        break;
    }
}

/* A client that cannot be reached: only a separate answer that is out cares. */
static void on_error(void *context, struct udp_socket *socket, const struct address *remote,
                     int error, const uint8_t *quoted, size_t quoted_len)
{
    (void)socket;
    (void)error;
    struct listener *listener = context;
    struct engine *engine = listener->engine;
    const struct client *client = client_table_find(&engine->clients, remote, listener->index);
    if (client == NULL || quoted_len < 4) {
        return;
    }
    uint16_t mid = (uint16_t)(quoted[2] << 8 | quoted[3]);
    struct hash_node *node = hash_map_find(&engine->exchanges.map,
                                           key_of_client(engine, KEY_CLIENT_RESPONSE, client, mid));
    if (node != NULL) {
        exchange_drop(engine, HASH_ENTRY(node, struct exchange, by_message),
                      REASON_client_unreachable);
    }
}

const struct udp_handler request_handler = {on_datagram, on_error};
