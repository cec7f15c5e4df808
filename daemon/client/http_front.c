/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/http_front.h"

#include "client/handle.h"
#include "client/http_front_internal.h"
#include "client/http_status.h"
#include "client/http_token.h"
#include "client/side.h"
#include "coap/block.h"
#include "coap/media.h"
#include "coap/option.h"
#include "conf/config.h"
#include "net/entropy.h"

#include <cri/cri.h>
#include <cri/uri.h>
#include <stdlib.h>
#include <time.h>

/* --- http exchange ------------------------------------------------------ */

/* The target as a URI, which a Location is relative to; "/" of our own paths; "" where it has none.
 */
static size_t target_text(const struct http_ask *ask, char text[HTTP_URI_MAX])
{
    const struct cri_slice encoded = {(const uint8_t *)ask->uri.text, ask->uri.len};
    struct cri cri;
    size_t len = 0;
    if (ask->uri.kind == HTTP_URI_OWN) {
        text[0] = '/';
        return 1;
    }
    if (ask->uri.kind == HTTP_URI_TARGET) {
        memcpy(text, ask->uri.text, ask->uri.len);
        return ask->uri.len;
    }
    bool has_uri =
        ask->uri.kind == HTTP_URI_CRI && cri_decode(encoded, NULL, &cri, NULL) == CRI_OK &&
        cri_uri_format(&cri, &ask->config->scheme_table, text, HTTP_URI_MAX, &len, NULL) == CRI_OK;
    return has_uri ? len : 0;
}

/* @return NULL without memory, or where @p ret_fits says that the options do not; free with free().
 */
static struct http_exchange *http_exchange_new(const struct http_ask *ask, bool *ret_fits)
{
    uint8_t buffer[HTTP_OPTIONS_MAX];
    struct bytes options = http_ask_options(ask, http_ask_has_body(ask), buffer);
    char target[HTTP_URI_MAX];
    size_t target_len = target_text(ask, target), origin_len = strlen(ask->origin);
    *ret_fits = options.len > 0;
    if (!*ret_fits) {
        return NULL;
    }
    struct http_exchange *exchange =
        malloc(sizeof(*exchange) + options.len + target_len + origin_len + 2);
    if (exchange == NULL) {
        return NULL;
    }
    *exchange = (struct http_exchange){
        .code = ask->code,
        .is_head = ask->is_head,
        .is_1_0 = ask->line.is_1_0,
        .wants_events = ask->wants_events && ask->uri.kind != HTTP_URI_CORE,
        .keeps_alive = ask->line.keeps_alive,
        .is_absolute = ask->uri.is_absolute,
        .is_passed_on = ask->is_passed_on,
        .wants_none = ask->if_none_match_any && !ask->wants_events &&
                      (ask->code == CODE_GET || ask->code == CODE_FETCH),
        .cache_wish =
            (uint8_t)((ask->no_cache ? LEG_NO_CACHE : 0) | (ask->no_store ? LEG_NO_STORE : 0) |
                      (ask->only_if_cached ? LEG_ONLY_IF_CACHED : 0)),
        .options_len = options.len,
    };
    memcpy(exchange->options, options.data, options.len);
    exchange->target = (char *)exchange->options + options.len;
    memcpy(exchange->target, target, target_len);
    exchange->target[target_len] = '\0';
    exchange->origin = exchange->target + target_len + 1;
    memcpy(exchange->origin, ask->origin, origin_len + 1);
    return exchange;
}

/* Nothing of a first request that the one for a later block, or to a group, does not have. */
static bool is_kept_for_block(uint16_t number)
{
    return number != OPTION_observe && number != OPTION_etag && number != OPTION_block2;
}

/*
 * Encoded options of its CoAP request, or of the one for @p block of the answer (NULL: the first,
 * or the one to a group).
 *
 * @return borrowed from the exchange or @p buffer; empty where they do not fit.
 */
static struct bytes http_exchange_options(const struct http_exchange *exchange,
                                          const struct block *block,
                                          uint8_t buffer[HTTP_OPTIONS_MAX])
{
    struct message_writer writer = {.buffer = buffer, .capacity = HTTP_OPTIONS_MAX};
    struct bytes options = {exchange->options, exchange->options_len};
    if (block == NULL && exchange->group_s == 0) {
        return options;
    }
    /* Both are less than 2^24: blocks by their format, seconds by multicast.timeout-max. */
    uint32_t value = block != NULL ? block_value(block) : exchange->group_s;
    const uint8_t number[] = {(uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    size_t skip = value > 0xffffu ? 0 : value > 0xffu ? 1 : value > 0 ? 2 : 3;
    const struct option own = {block != NULL ? OPTION_block2 : OPTION_multicast_timeout,
                               {number + skip, sizeof(number) - skip}};
    message_writer_options(&writer, options, is_kept_for_block, &own);
    return (struct bytes){buffer, writer.overflow ? 0 : writer.len};
}

/* --- http front --------------------------------------------------------- */

static struct http_fronts *fronts_of(const struct http_front *front)
{
    return &front->stream->side->http;
}

/* --- at the end of the turn ------------------------------------------------- */

void front_make_ready(struct http_front *front)
{
    if (!front->is_ready) {
        front->is_ready = true;
        list_add(&fronts_of(front)->ready, &front->ready);
    }
}

static void front_leave_ready(struct http_front *front)
{
    if (front->is_ready) {
        front->is_ready = false;
        list_remove(&fronts_of(front)->ready, &front->ready);
    }
}

/* --- bodies of requests ------------------------------------------------------ */

void front_drop_body(struct http_front *front)
{
    http_body_clear(&front->body, front->stream->side);
    timer_cancel(&front->stream->side->context.wheel, &front->timer);
}

static void front_displace(struct http_front *front);

/* The sources that hold most make room for @p len bytes in all, where there is none. */
static void make_body_room(struct http_front *front, size_t len)
{
    struct http_body *other = NULL;
    while ((other = http_body_in_the_way(&front->body, front->stream->side, len)) != NULL) {
        front_displace(HASH_ENTRY(other, struct http_front, body));
    }
}

static bool front_on_body(void *context, struct bytes piece)
{
    struct http_front *front = context;
    struct client_side *side = front->stream->side;
    const struct http_upload *upload = &front->exchange->upload;
    size_t len = front->body.len + piece.len;
    if (!upload->is_on && len > front_joined_max(front)) {
        (void)front_begin_upload(front, 0); /* in chunks */
    }
    /* Of one that is sent on, body_step() has chosen how much is read. */
    if (!upload->is_on && len > side->fetch.bodies.body_max) {
        return false;
    }
    make_body_room(front, len);
    return http_body_add(&front->body, side, piece);
}

static void front_on_field(void *context, struct bytes name, struct bytes value)
{
    struct http_front *front = context;
    http_ask_field(front->ask, name, value);
}

static const struct http_parse_calls parse_calls = {
    .on_field = front_on_field,
    .on_body = front_on_body,
};

/* --- dates ----------------------------------------------------------------------- */

#define DATE_MAX_S UINT64_C(253402300799) /* the end of the year 9999 */

/* @p seconds since 1970 as an HTTP-date in @p text; the last one that fits for what has more than
 * four digits of years. Not strftime(): its names are those of the locale. */
static void http_date_format(uint64_t seconds, char text[HTTP_DATE_BYTES])
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t at = (time_t)(seconds < DATE_MAX_S ? seconds : DATE_MAX_S);
    struct tm tm = {0};
    (void)gmtime_r(&at, &tm);
    /* The remainders change nothing, but a compiler sees by them that it all fits. */
    (void)snprintf(text, HTTP_DATE_BYTES, "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
                   days[tm.tm_wday], (unsigned)tm.tm_mday % 100u, months[tm.tm_mon],
                   (unsigned)(tm.tm_year + 1900) % 10000u, (unsigned)tm.tm_hour % 100u,
                   (unsigned)tm.tm_min % 100u, (unsigned)tm.tm_sec % 100u);
}

const char *front_date(struct http_front *front)
{
    struct http_fronts *fronts = fronts_of(front);
    uint64_t now_s = loop_wall_s(front->stream->side->context.loop);
    if (fronts->date_s != now_s || fronts->date[0] == '\0') {
        http_date_format(now_s, fronts->date);
        fronts->date_s = now_s;
    }
    return fronts->date;
}

/* --- the end of an exchange --------------------------------------------------- */

void front_end_exchange(struct http_front *front, bool keeps_alive)
{
    struct stream *stream = front->stream;
    free(front->exchange);
    front->exchange = NULL;
    front_drop_body(front);
    front->scanned = 0;
    front->has_blank = false;
    if (!keeps_alive || stream->state != STREAM_OPEN) {
        front->state = FRONT_CLOSING;
        stream_close(stream, "done");
        return;
    }
    front->state = FRONT_HEAD;
    stream_pause(stream, false);
}

void front_put_length(struct http_text *text, size_t len, bool keeps_alive)
{
    http_put(text, "Content-Length: %zu\r\n%s\r\n", len,
             keeps_alive ? "" : "Connection: close\r\n");
}

/* For the log and criproxyctl why, as the client is told it. */
static void note_http_refusal(const struct http_front *front, int status, const char *why)
{
    const struct stream *stream = front->stream;
    const struct refusal_note note = {
        .client = conn_remote(stream->conn),
        .kind = REFUSAL_MESSAGE,
        .word = http_status_word(status),
        .identity = stream->identity != NULL ? stream->identity : conn_identity(stream->conn),
        .detail = why};
    refusals_log(&stream->side->refusals, &note, "http_refused");
}

void front_refuse(struct http_front *front, int status, const char *why, const char *origin,
                  bool keeps_alive)
{
    struct http_text text;
    metric_add(&front->stream->side->context.metrics.http_refused, 1);
    note_http_refusal(front, status, why);
    http_put_start(&text, front_config(front), front_date(front), status,
                   http_status_phrase(status), origin);
    http_put(&text, "Cache-Control: no-store\r\nContent-Type: text/plain;charset=utf-8\r\n%s",
             status == 401 ? "WWW-Authenticate: Bearer\r\n" : "");
    bool is_head = front->ask != NULL        ? front->ask->is_head
                   : front->exchange != NULL ? front->exchange->is_head
                                             : false;
    front_put_length(&text, is_head ? 0 : strlen(why) + 1, keeps_alive);
    if (!is_head) {
        http_put(&text, "%s\n", why);
    }
    stream_send_bytes(front->stream, text.data, text.len);
    front_end_exchange(front, keeps_alive);
}

/* Its body makes room for another. */
static void front_displace(struct http_front *front)
{
    if (front->body.is_spare) {
        front_drop_body(front);
        return;
    }
    account_note_displaced(&front->body.holding);
    front_refuse(front, 503, "the body made room for others", front->exchange->origin, false);
}

/* --- requests ----------------------------------------------------------------------- */

static void next_token(struct http_front *front)
{
    for (size_t i = 0; i < sizeof(front->token) && ++front->token[i] == 0; i++) {
    }
}

/* Whether the request is somewhere from where an answer will come. */
static bool is_answer_due(const struct http_front *front)
{
    const struct peer *peer = &front->stream->peer;
    const struct http_exchange *exchange = front->exchange;
    return front->is_ready || peer->in_flight > 0 ||
           (exchange != NULL &&
            (exchange->wants_block || exchange->upload.is_due || exchange->is_held ||
             (exchange->has_events && peer->watcher != NULL)));
}

static void refuse_unanswered(struct http_front *front)
{
    const struct http_exchange *exchange = front->exchange;
    if (front->state != FRONT_WAITING || exchange == NULL || is_answer_due(front)) {
        return;
    }
    if (exchange->is_started && exchange->group_s != 0) {
        front_end_chunks(front); /* the time for its answers is over */
    } else if (exchange->is_started) {
        front_cut(front);
    } else {
        front_refuse(front, 503, "the request was given up", exchange->origin, false);
    }
}

static void on_body_due(void *context, struct timer *timer, uint64_t now_ms)
{
    (void)context;
    (void)now_ms;
    struct http_front *front = HASH_ENTRY(timer, struct http_front, timer);
    front_refuse(front, 408, "the body took too long", "", false);
    /* Not only when the connection has closed: it may take long to send what is queued. */
    request_leave_all(front->stream->side, &front->stream->peer);
}

/* For the next piece of its body @p step_ms at most; transfer-timeout for all of them. */
static void set_body_timer(struct http_front *front, uint64_t step_ms)
{
    struct client_side *side = front->stream->side;
    uint64_t now_ms = context_now_ms(&side->context);
    uint64_t until_ms = front->body.begun_ms + side->context.config->block_transfer_timeout;
    uint64_t due_ms = step_ms > 0 ? now_ms + step_ms : until_ms;
    timer_set(&side->context.wheel, &front->timer, due_ms < until_ms ? due_ms : until_ms,
              on_body_due);
}

void front_wait_for_body(struct http_front *front)
{
    set_body_timer(front, front_config(front)->stream_message_timeout);
}

/*
 * The request as a message, but for its token: the first one, the one for @p block of the answer,
 * or one with the next block of the body. @return false where that has too many blocks.
 */
static bool make_message(struct http_front *front, const struct block *block,
                         uint8_t buffer[HTTP_OPTIONS_MAX], struct message *ret_message)
{
    const struct http_exchange *exchange = front->exchange;
    *ret_message = (struct message){.type = MESSAGE_CON, .code = exchange->code};
    if (exchange->upload.is_on) {
        set_body_timer(front, 0);
        return front_take_block(front, buffer, ret_message);
    }
    ret_message->options = http_exchange_options(exchange, block, buffer);
    if (block == NULL && exchange->code != CODE_GET && exchange->code != CODE_DELETE) {
        ret_message->payload = (struct bytes){front->body.data, front->body.len};
    }
    return true;
}

static void front_ask(struct http_front *front, const struct block *block)
{
    uint8_t buffer[HTTP_OPTIONS_MAX], echoed[HTTP_ECHOED_MAX];
    struct stream *stream = front->stream;
    struct leg leg = stream_make_leg(stream);
    struct message message;
    leg.goes_on =
        block != NULL || front->exchange->upload.offset > 0 || front->exchange->echo_len > 0;
    if (!make_message(front, block, buffer, &message)) {
        front_refuse(front, 413, "the body has too many blocks", front->exchange->origin, false);
        return;
    }
    front_put_echo(front, echoed, &message);
    front->state = FRONT_WAITING;
    leg.outlives = !front->exchange->wants_events;
    leg.is_part = front->exchange->upload.is_on && !front->exchange->upload.is_last;
    leg.cache_wish = front->exchange->cache_wish;
    leg.asker.is_passed_on = front->exchange->is_passed_on;
    leg.asker.is_http = true;
    next_token(front);
    uint8_t token[FRONT_TOKEN_LEN];
    memcpy(token, front->token, sizeof(token));
    message.token = (struct bytes){token, sizeof(token)};
    front->is_asking = true;
    request_handle(stream->side, &leg, &message, conn_local(stream->conn));
    front->is_asking = false;
    if (front->exchange != NULL && !front->exchange->has_events && !front->exchange->upload.is_on) {
        front_keep_body(front); /* the fetch or transfer has a copy */
    }
    refuse_unanswered(front);
}

/* Of a head, and of the fields behind a body in chunks. */
static struct http_head_limits head_limits(const struct http_front *front)
{
    const struct config *config = front_config(front);
    return (struct http_head_limits){(size_t)config->http_head_bytes, config->http_fields};
}

static void begin_body(struct http_front *front, const struct http_ask *ask)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct client_side *side = front->stream->side;
    front->state = FRONT_BODY;
    const struct http_head_limits limits = head_limits(front);
    http_body_begin(&front->body, &ask->line, &limits, conn_remote(front->stream->conn),
                    context_now_ms(&side->context));
    uint64_t room = ask->line.length;
    const char *why = NULL;
    if (ask->line.length > front_joined_max(front)) {
        why = front_begin_upload(front, ask->line.length) ? NULL : "the body has too many blocks";
        room = HTTP_BODY_BYTES_MIN;
    } else if (ask->line.length > side->fetch.bodies.body_max) {
        why = "the body is longer than block.body-bytes";
    }
    if (why != NULL) {
        front_refuse(front, 413, why, ask->origin, false);
        return;
    }
    make_body_room(front, (size_t)room);
    if (!http_body_reserve(&front->body, side, (size_t)room)) {
        front_refuse(front, 503, "no room for the body", ask->origin, false);
        return;
    }
    if (ask->wants_continue && !ask->line.is_1_0) {
        stream_send_bytes(front->stream, go_on, sizeof(go_on) - 1);
    }
    front_wait_for_body(front);
}

/* CORS: what a page that may use the proxy is told before it asks (HC-14). */
static void answer_preflight(struct http_front *front, const struct http_ask *ask)
{
    struct http_text text;
    bool keeps_alive = ask->line.keeps_alive && !http_ask_has_body(ask);
    http_put_start(&text, front_config(front), front_date(front), 204, http_status_phrase(204),
                   ask->origin);
    http_put(&text,
             "Access-Control-Allow-Methods: GET, HEAD, POST, PUT, PATCH, DELETE\r\n"
             "Access-Control-Allow-Headers: Accept, Authorization, Cache-Control, Content-Type, "
             "If-Match, If-None-Match\r\nAccess-Control-Max-Age: 600\r\n%s\r\n",
             keeps_alive ? "" : "Connection: close\r\n");
    stream_send_bytes(front->stream, text.data, text.len);
    front_end_exchange(front, keeps_alive);
}

/* CoAP over WebSockets on the same port (RFC 8323 section 8.3). */
static void front_upgrade(struct http_front *front, const struct http_ask *ask, struct bytes head)
{
    bool is_asked = ask->line.is_upgrade && !http_ask_has_body(ask);
    int status = is_asked ? conn_upgrade(front->stream->conn, head.data, head.len) : 400;
    if (status == 101) {
        front->state = FRONT_SOCKET;
    } else {
        front_refuse(front, status, "here are WebSockets", ask->origin, false);
    }
}

static void front_begin(struct http_front *front, const struct http_ask *ask, struct bytes head)
{
    bool has_body = http_ask_has_body(ask);
    bool is_last = ++front->requests >= front_config(front)->http_requests;
    if (ask->status != 0) {
        front_refuse(front, ask->status, ask->why, ask->origin,
                     ask->line.keeps_alive && !has_body && !is_last);
        return;
    }
    if (ask->is_preflight) {
        answer_preflight(front, ask);
        return;
    }
    if (ask->uri.kind == HTTP_URI_SOCKET) {
        front_upgrade(front, ask, head);
        return;
    }
    bool fits = false;
    front->exchange = http_exchange_new(ask, &fits);
    if (front->exchange == NULL) {
        front_refuse(front, fits ? 503 : 431,
                     fits ? "no room for the request" : "more entity-tags than fit beside the path",
                     ask->origin, false);
        return;
    }
    front->exchange->keeps_alive = ask->line.keeps_alive && !is_last;
    front_note_fresh(front, ask);
    if (has_body) {
        begin_body(front, ask);
    } else {
        front_ask(front, NULL);
    }
}

/* --- input ---------------------------------------------------------------------------- */

/*
 * One empty line before a request, which old clients send behind a body (RFC 9112 section 2.2).
 *
 * @return how many bytes of it have come in whole; 0: what is there is none.
 */
static size_t take_blank_line(struct http_front *front, struct bytes input)
{
    bool is_blank = !front->has_blank && front->scanned == 0 && input.len >= 2 &&
                    input.data[0] == '\r' && input.data[1] == '\n';
    front->has_blank = front->has_blank || is_blank;
    return is_blank ? 2 : 0;
}

static size_t take_head(struct http_front *front, struct bytes input)
{
    const struct config *config = front_config(front);
    const struct http_head_limits limits = head_limits(front);
    struct http_ask ask;
    struct http_line line;
    size_t len = take_blank_line(front, input);
    if (len > 0 || (!front->has_blank && input.len == 1 && input.data[0] == '\r')) {
        return len;
    }
    int status = http_head_check(input, &limits, &front->scanned, &len);
    if (status == HTTP_HEAD_PARTIAL) {
        return 0;
    }
    const char *via = process_token();
    ask = (struct http_ask){
        .config = config,
        .why = "",
        .accept = MEDIA_NONE,
        .via_token = {(const uint8_t *)via, strlen(via)},
    };
    /* cppcheck-suppress autoVariables ; it is taken back below */
    front->ask = &ask;
    int parsed = status == HTTP_HEAD_GOOD
                     ? http_parse_head(front->parse, (struct bytes){input.data, len}, &line)
                     : status;
    if (parsed != 0) {
        front_refuse(front, parsed, "the request is malformed, or too long", "", false);
    } else {
        http_ask_finish(&ask, &line);
        int refused = http_token_take(front->stream, ask.bearer);
        if (refused != 0 && ask.status == 0) {
            ask.status = refused;
            ask.why = "the token is not accepted";
        }
        front_begin(front, &ask, (struct bytes){input.data, len});
    }
    front->ask = NULL;
    return status == HTTP_HEAD_GOOD ? len : input.len;
}

/* How many bytes of a body may be read at once; a block is sent before there is no room for any. */
static size_t body_step(const struct http_front *front)
{
    size_t len = front->exchange->upload.is_on ? front->body.len : 0;
    return len < HTTP_BODY_BYTES_MIN ? HTTP_BODY_BYTES_MIN - len : 1;
}

static size_t take_body(struct http_front *front, struct bytes input)
{
    size_t most = body_step(front);
    input.len = input.len < most ? input.len : most;
    size_t len = http_body_check(&front->body, input);
    if (len == HTTP_CHUNKS_BAD || len == HTTP_CHUNKS_LONG) {
        bool is_long = len == HTTP_CHUNKS_LONG;
        front_refuse(front, is_long ? 431 : 400,
                     is_long ? "too many trailer fields" : "a chunk is malformed", "", false);
        return input.len;
    }
    if (!http_parse_body(front->parse, (struct bytes){input.data, len})) {
        front_refuse(front, 413, "the body is malformed, or there is no room for it", "", false);
        return input.len;
    }
    bool is_whole = http_body_is_whole(&front->body);
    front->exchange->upload.is_whole = is_whole;
    if (is_whole || front_has_block(front)) {
        timer_cancel(&front->stream->side->context.wheel, &front->timer);
        front_ask(front, NULL);
    } else {
        front_wait_for_body(front);
    }
    return len;
}

/* A pipelined request waits; after an answer without an end there can be none. */
static size_t keep_input(struct http_front *front, size_t len)
{
    if (front->exchange->has_events) {
        front_cut(front);
        return len;
    }
    stream_pause(front->stream, true);
    return 0;
}

size_t http_front_input(struct http_front *front, const uint8_t *data, size_t len)
{
    size_t used = 0;
    while (used < len) {
        struct bytes input = {data + used, len - used};
        size_t step = 0;
        switch (front->state) {
        case FRONT_HEAD:
            step = take_head(front, input);
            break;
        case FRONT_BODY:
            step = take_body(front, input);
            break;
        case FRONT_WAITING:
            step = keep_input(front, input.len);
            break;
        case FRONT_SOCKET:
            return used;
        case FRONT_CLOSING:
            return len;
        }
        used += step;
        if (step == 0) {
            break;
        }
    }
    return used;
}

/* --- of all -------------------------------------------------------------------------------- */

int http_fronts_init(struct http_fronts *fronts, uint64_t bytes_max, uint64_t seed)
{
    *fronts = (struct http_fronts){.body_bytes = 0};
    return account_book_init(&fronts->bodies, (uint32_t)(bytes_max / HTTP_BODY_BYTES_MIN),
                             bytes_max, ACCOUNT_IPV6_BITS, seed);
}

/* --- for the stream ---------------------------------------------------------------------- */

struct http_front *http_front_new(struct stream *stream)
{
    struct http_front *front = calloc(1, sizeof(*front));
    if (front == NULL) {
        return NULL;
    }
    front->stream = stream;
    front->opened_ms = context_now_ms(&stream->side->context);
    front->parse = http_parse_new(&parse_calls, front);
    if (front->parse == NULL) {
        free(front);
        return NULL;
    }
    return front;
}

void http_front_free(struct http_front *front)
{
    if (front == NULL) {
        return;
    }
    front_leave_ready(front);
    front_drop_body(front);
    free(front->exchange);
    free(front->parse);
    free(front);
}

void http_front_drained(struct http_front *front)
{
    if (front->exchange != NULL && front->exchange->wants_block) {
        front_make_ready(front);
    }
}

bool http_front_is_busy(const struct http_front *front)
{
    return front->exchange != NULL;
}

bool http_front_is_socket(const struct http_front *front)
{
    return front->state == FRONT_SOCKET;
}

bool http_front_has_events(const struct http_front *front)
{
    return front->exchange != NULL && front->exchange->has_events;
}

void http_front_release(struct http_front *front)
{
    if (front->exchange == NULL && front->state != FRONT_CLOSING) {
        front_end_exchange(front, false);
    } else if (front->exchange != NULL) {
        front->exchange->keeps_alive = false;
    }
}

void http_front_settle(struct http_front *front)
{
    if (front->state == FRONT_WAITING && !front->is_asking && !is_answer_due(front)) {
        front_make_ready(front);
    }
}

bool http_front_can_wait(const struct http_front *front, const struct leg *leg)
{
    return front->exchange != NULL && !leg->goes_on && front->exchange->group_s == 0;
}

void http_front_hold(struct http_front *front)
{
    front->exchange->is_held = true;
}

void http_front_on_late(struct http_front *front, struct leg *leg, const struct message *message,
                        const struct address *local)
{
    const struct bytes token = {front->token, sizeof(front->token)};
    if (front->exchange == NULL || !front->exchange->is_held || front->state != FRONT_WAITING ||
        !bytes_equal(message->token, token)) {
        return; /* it has been given up */
    }
    front->exchange->is_held = false;
    front->is_asking = true;
    request_handle(front->stream->side, leg, message, local);
    front->is_asking = false;
    refuse_unanswered(front);
}

bool http_front_takes_blocks(const struct http_front *front)
{
    return front->exchange != NULL && front->exchange->code == CODE_GET &&
           !front->exchange->wants_events;
}

bool http_front_sends_blocks(const struct http_front *front)
{
    return front->exchange != NULL && front->exchange->upload.is_on;
}

/* Once more, as it turned out that the target is a group. */
static void front_ask_group(struct http_front *front)
{
    front->exchange->wants_group = false;
    front_ask(front, NULL);
    if (front->exchange != NULL && front->state == FRONT_WAITING && is_answer_due(front)) {
        front_begin_group(front);
    }
}

/* The output that waits is looked at first: on_drained follows when it has left. */
static void front_turn(struct http_front *front)
{
    struct http_exchange *exchange = front->exchange;
    if (exchange == NULL || front->state != FRONT_WAITING) {
        return;
    }
    if (exchange->wants_group) {
        front_ask_group(front);
        return;
    }
    if (exchange->upload.is_due || exchange->is_due) {
        exchange->upload.is_due = false;
        exchange->is_due = false;
        front_ask(front, NULL);
        return;
    }
    if (!exchange->wants_block) {
        refuse_unanswered(front);
        return;
    }
    if (conn_is_behind(front->stream->conn)) {
        return;
    }
    const struct block block = {.num = exchange->block_num, .szx = exchange->block_szx};
    exchange->wants_block = false;
    if (exchange->block_num > BLOCK_NUM_MAX) {
        front_cut(front);
    } else {
        front_ask(front, &block);
    }
}

void http_fronts_turn(struct client_side *side)
{
    while (side->http.ready.first != NULL) {
        struct http_front *front = HASH_ENTRY(side->http.ready.first, struct http_front, ready);
        front_leave_ready(front);
        front_turn(front);
    }
}
