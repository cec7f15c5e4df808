/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/block.h"
#include "coap/http_line.h"
#include "coap/http_request.h"
#include "coap/http_response.h"
#include "coap/observe.h"
#include "coap/option.h"
#include "net/entropy.h"
#include "net/web.h"
#include "origin/carrier.h"
#include "origin/origin.h"
#include "origin/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A CRI that a redirect leads to. */
#define REDIRECT_MAX 2048u

/* Failures in a row from which on an address is left alone. */
#define FAILURES_MAX 2u

/* --- the request as it was sent --------------------------------------------- */

static bool http_request_of(const struct sending *sending, struct message *ret_message)
{
    return message_decode(sending->datagram, sending->datagram_len, ret_message) == MESSAGE_OK;
}

/* Options of an answer: a Location of two kilobytes and some small ones. */
#define ANSWER_OPTIONS_MAX 2304u

/* The request as HTTP; its texts are freed with *ret_room. */
static enum reason make_http(struct origin_side *side, const struct sending *sending,
                             const struct message *message, const struct carrier_way *way,
                             char **ret_room, struct http_request *ret_request)
{
    size_t room = http_request_room(message);
    char *buffer = malloc(room);
    const struct http_request_source source = {
        .message = message,
        .scheme = sending->scheme,
        .host = way->host,
        .address = &sending->origin->address,
        .proxy_name = side->context.config->proxy_name,
        .via_token = process_token(),
        .tags = side->tags,
        .media = side->context.config->media_own,
        .may_have_slashes = side->context.config->http_slashes,
        .known = {sending->known_etag, sending->known_len},
    };
    if (buffer == NULL) {
        return REASON_proxy_busy;
    }
    enum reason reason = http_request_make(&source, buffer, room, ret_request);
    if (reason != REASON_none) {
        free(buffer);
        return reason;
    }
    *ret_room = buffer;
    return REASON_none;
}

/* --- what comes back ----------------------------------------------------------- */

static void note_reached(struct sending *sending)
{
    sending->origin->failures = 0;
}

static void note_unreached(struct origin_side *side, struct sending *sending)
{
    const struct config *config = side->context.config;
    struct origin *origin = sending->origin;
    uint64_t wait_ms = config->upstream_back_off;
    for (uint32_t i = FAILURES_MAX;
         i <= origin->failures && wait_ms < config->upstream_back_off_max; i++) {
        wait_ms *= 2;
    }
    wait_ms = wait_ms < config->upstream_back_off_max ? wait_ms : config->upstream_back_off_max;
    origin->failures++;
    if (origin->failures >= FAILURES_MAX) {
        origin->retry_ms = context_now_ms(&side->context) + wait_ms;
    }
}

static bool is_left_alone(const struct origin_side *side, const struct sending *sending)
{
    const struct origin *origin = sending->origin;
    return origin->failures >= FAILURES_MAX && context_now_ms(&side->context) < origin->retry_ms;
}

/* What a Location is relative to; NULL where there is none, or no memory. */
static const char *url_of(struct origin_side *side, struct sending *sending,
                          const struct message *request, const struct http_response *response,
                          char **ret_room)
{
    struct http_request text;
    struct carrier_way way;
    if (http_response_field(response, "Location") == NULL) {
        return NULL;
    }
    side->origins.calls->find_way(side, sending, &way);
    return make_http(side, sending, request, &way, ret_room, &text) == REASON_none ? text.url
                                                                                   : NULL;
}

/* How often the representation is asked for, where that is what a registration gets (CH-14). */
static uint32_t poll_s_of(const struct origin_side *side, const struct message *request)
{
    struct bytes observe;
    bool is_registration = option_find(request->options, OPTION_observe, &observe) &&
                           option_uint(observe) == OBSERVE_REGISTER;
    return is_registration ? (side->context.config->http_poll + 999) / 1000 : 0;
}

/* @return whether it was told where the answer leads. */
static bool go_where_it_leads(struct origin_side *side, struct sending *sending,
                              const struct message *request, const char *url,
                              const struct http_response *response)
{
    uint8_t buffer[REDIRECT_MAX];
    struct bytes cri;
    if (side->context.config->http_redirects == 0 || url == NULL ||
        !http_response_redirect(response, url, request->code, buffer, sizeof(buffer), &cri)) {
        return false;
    }
    sending_redirected(side, sending, cri);
    return true;
}

/* --- long bodies -------------------------------------------------------------------- */

/* The request is over, also where the server has more to say. Takes one that is. */
static void carrier_http_cancel(struct origin_side *side, struct sending *sending)
{
    if (sending->web != NULL) {
        web_cancel(side->web, sending->web);
        sending->web = NULL;
    }
    long_body_free(&side->long_bodies, sending->long_body);
    sending->long_body = NULL;
}

/* Which block of the answer is asked for; false: none, or it is a request for the whole. */
static bool find_asked_block(const struct message *request, struct block *ret_block)
{
    struct bytes value;
    if (request->code != CODE_GET || !option_find(request->options, OPTION_block2, &value)) {
        return false;
    }
    *ret_block = block_of(value);
    return true;
}

/* In parts of how many bytes the answer may come; 0: whole. */
static uint32_t part_bytes_for(const struct origin_side *side, const struct message *request)
{
    bool may_have_parts = request->code == CODE_GET && poll_s_of(side, request) == 0;
    return may_have_parts ? (uint32_t)long_body_part_bytes(side->context.config) : 0;
}

/*
 * Whether the part @p response can be given to its client, and with which ETag, if the server has
 * sent none. A body that is taken up again in the middle needs a validator.
 */
static enum reason check_part(struct origin_side *side, const struct sending *sending,
                              const struct message *request, const struct http_response *response,
                              uint8_t etag[HTTP_TAG_ETAG_MAX])
{
    uint64_t seed = side->changes->seed, random = entropy_u64(&side->context.entropy);
    struct block asked;
    bool has_block = find_asked_block(request, &asked);
    bool is_new = sending->long_body == NULL;
    block_make_etag(seed, (struct bytes){(const uint8_t *)&random, sizeof(random)}, etag);
    if (!is_new) {
        memcpy(etag, sending->long_body->etag, HTTP_TAG_ETAG_MAX);
    } else if (!http_response_can_resume(response, seed, etag) && response->offset > 0) {
        return REASON_block_gone;
    }
    bool is_behind = has_block && block_offset(&asked) >= response->offset + response->body.len;
    return is_behind ? REASON_block_range : REASON_none;
}

/* The rest of the body waits until its client asks for it. Without memory it is given up. */
static void leave_rest(struct origin_side *side, struct sending *sending,
                       const struct message *request, const struct http_response *response,
                       const uint8_t etag[HTTP_TAG_ETAG_MAX])
{
    struct carrier_way way;
    struct http_request text;
    char *room = NULL;
    side->origins.calls->find_way(side, sending, &way);
    if (sending->long_body == NULL &&
        make_http(side, sending, request, &way, &room, &text) == REASON_none) {
        uint64_t key = long_body_key(side, sending, &text, &way);
        sending->long_body = long_body_new(&side->long_bodies, key, &way.source);
        free(room);
    }
    if (sending->long_body == NULL) {
        carrier_http_cancel(side, sending);
        return;
    }
    memcpy(sending->long_body->etag, etag, HTTP_TAG_ETAG_MAX);
    long_body_wait(side, sending->long_body, sending->web, response->offset + response->body.len);
    sending->long_body = NULL;
    sending->web = NULL;
}

/* --- long uploads -------------------------------------------------------------------- */

/* A piece of a long body that the client uploads. */
struct upload_piece {
    uint64_t offset; /* where in the body it begins */
    struct bytes bytes;
    bool is_first; /* all of the body so far */
    bool is_last;
};

/*
 * Other uploads have no Block1 here: they have been joined. The first piece comes with the block
 * that has made it long enough, and no later one begins as early.
 *
 * @return false: the request is no such piece.
 */
static bool find_upload_piece(const struct origin_side *side, const struct sending *sending,
                              const struct message *request, struct upload_piece *ret_piece)
{
    struct bytes value;
    if (!option_find(request->options, OPTION_block1, &value)) {
        return false;
    }
    const struct block block = block_of(value);
    uint64_t offset = block_offset(&block);
    bool is_first =
        sending->body.data != NULL && offset < long_body_part_bytes(side->context.config);
    *ret_piece = (struct upload_piece){
        .offset = is_first ? 0 : offset,
        .bytes = sending->body.data != NULL ? sending->body : request->payload,
        .is_first = is_first,
        .is_last = !block.more,
    };
    return true;
}

/* The answer to a piece, with Block1 as it came. */
static void tell_piece(struct origin_side *side, struct sending *sending,
                       const struct message *request, const struct http_mapped *mapped)
{
    uint8_t buffer[ANSWER_OPTIONS_MAX + 8];
    struct message_writer writer = {.buffer = buffer, .capacity = sizeof(buffer)};
    struct option block1 = {.number = OPTION_block1};
    (void)option_find(request->options, OPTION_block1, &block1.value);
    message_writer_options(&writer, mapped->options, NULL, &block1);
    const struct message answer = {.type = MESSAGE_ACK,
                                   .code = mapped->code,
                                   .options = {buffer, writer.len},
                                   .payload = mapped->payload};
    sending->is_private = mapped->is_private;
    sending_answered(side, sending, &answer, false);
}

/* The HTTP request waits for the next block. @return false without memory */
static bool leave_upload(struct origin_side *side, struct sending *sending,
                         const struct message *request, const struct upload_piece *piece)
{
    struct carrier_way way;
    struct http_request text;
    char *room = NULL;
    side->origins.calls->find_way(side, sending, &way);
    if (sending->long_body == NULL &&
        make_http(side, sending, request, &way, &room, &text) == REASON_none) {
        uint64_t key = long_body_upload_key(side, request, &text, &way);
        sending->long_body = long_body_new(&side->long_bodies, key, &way.source);
        free(room);
    }
    if (sending->long_body == NULL) {
        return false;
    }
    long_body_wait(side, sending->long_body, sending->web, piece->offset + piece->bytes.len);
    sending->long_body = NULL;
    sending->web = NULL;
    return true;
}

static void fail_answer(struct origin_side *side, struct sending *sending, enum reason reason)
{
    carrier_http_cancel(side, sending);
    sending_failed(side, sending, reason, NULL);
}

static void carrier_http_on_taken(void *context, void *user)
{
    struct origin_side *side = context;
    struct sending *sending = user;
    struct message request;
    struct upload_piece piece;
    note_reached(sending);
    if (!http_request_of(sending, &request) ||
        !find_upload_piece(side, sending, &request, &piece)) {
        fail_answer(side, sending, REASON_internal);
    } else if (!leave_upload(side, sending, &request, &piece)) {
        fail_answer(side, sending, REASON_proxy_busy);
    } else {
        tell_piece(side, sending, &request, &(const struct http_mapped){.code = CODE(2, 31)});
    }
}

static void tell_http(struct origin_side *side, struct sending *sending,
                      const struct http_mapped *mapped)
{
    const struct message answer = {.type = MESSAGE_ACK,
                                   .code = mapped->code,
                                   .options = mapped->options,
                                   .payload = mapped->payload};
    sending->is_private = mapped->is_private;
    sending_answered(side, sending, &answer, false);
}

static void carrier_http_on_answer(void *context, void *user, const struct http_response *response)
{
    struct origin_side *side = context;
    struct sending *sending = user;
    struct message request;
    struct http_mapped mapped;
    uint8_t options[ANSWER_OPTIONS_MAX], etag[HTTP_TAG_ETAG_MAX];
    sending->web = response->more ? sending->web : NULL;
    note_reached(sending);
    if (!http_request_of(sending, &request)) {
        fail_answer(side, sending, REASON_internal);
        return;
    }
    bool is_part = response->more || response->offset > 0;
    enum reason reason =
        is_part ? check_part(side, sending, &request, response, etag) : REASON_none;
    if (reason != REASON_none) {
        fail_answer(side, sending, reason);
        return;
    }
    char *room = NULL;
    const char *url = url_of(side, sending, &request, response, &room);
    /* What has been sent of an upload is not here any more. */
    bool is_upload = option_find(request.options, OPTION_block1, &(struct bytes){0});
    if (!is_upload && go_where_it_leads(side, sending, &request, url, response)) {
        free(room);
        return;
    }
    const struct http_question question = {
        .request = &request,
        .url = url,
        .has_credentials = sending->has_credentials,
        .known = {sending->known_etag, sending->known_len},
        .is_elsewhere = sending->is_elsewhere,
        .poll_s = poll_s_of(side, &request),
        .refuses_unmapped = side->context.config->http_unmapped == HTTP_UNMAPPED_REFUSE,
        .tags = side->tags,
        .media = side->context.config->media_own,
        .part_tag = {etag, is_part ? sizeof(etag) : 0},
    };
    reason = http_response_map(response, &question, options, sizeof(options), &mapped);
    free(room);
    if (reason != REASON_none) {
        fail_answer(side, sending, reason);
        return;
    }
    if (response->more && mapped.code == CODE(2, 5)) {
        leave_rest(side, sending, &request, response, etag);
    } else {
        carrier_http_cancel(side, sending);
    }
    if (is_upload) {
        tell_piece(side, sending, &request, &mapped);
        return;
    }
    tell_http(side, sending, &mapped);
}

static enum reason reason_of_web(enum web_status status)
{
    static const enum reason reasons[WEB_STATUS_COUNT] = {
        [WEB_REFUSED] = REASON_origin_refused,
        [WEB_CONNECT_TIMEOUT] = REASON_connect_timeout,
        [WEB_HANDSHAKE_FAILED] = REASON_handshake_failed,
        [WEB_BAD_CERTIFICATE] = REASON_certificate_refused,
        [WEB_CERTIFICATE_EXPIRED] = REASON_certificate_expired,
        [WEB_CERTIFICATE_UNKNOWN] = REASON_certificate_unknown,
        [WEB_NAME_MISMATCH] = REASON_certificate_name,
        [WEB_CLOSED] = REASON_origin_closed,
        [WEB_INVALID] = REASON_origin_invalid,
        [WEB_TOO_LARGE] = REASON_response_too_large,
        [WEB_NO_MEMORY] = REASON_proxy_busy,
    };
    return reasons[status];
}

static void carrier_http_on_failure(void *context, void *user, const struct web_failure *failure)
{
    struct origin_side *side = context;
    struct sending *sending = user;
    enum reason reason = reason_of_web(failure->status);
    char text[PROBLEM_TEXT_MAX] = "";
    sending->web = NULL;
    carrier_http_cancel(side, sending);
    sending->is_sent = failure->was_sent;
    if (failure->status == WEB_REFUSED || failure->status == WEB_CONNECT_TIMEOUT) {
        note_unreached(side, sending);
    }
    if (failure->status == WEB_INVALID) {
        metric_add(&side->context.metrics.upstream_malformed, 1);
    }
    sending_event(side, sending, EVENT_session_failed, failure->was_sent ? 1 : 0);
    if (failure->why != NULL) {
        (void)snprintf(text, sizeof(text), "%s: %s", reason_row(reason)->diagnostic, failure->why);
    }
    sending_failed(side, sending, reason, text);
}

static const struct web_handler carrier_http_handler = {
    .on_answer = carrier_http_on_answer,
    .on_taken = carrier_http_on_taken,
    .on_failure = carrier_http_on_failure,
};

/* --- the client ------------------------------------------------------------------- */

static struct web_options web_options_of(const struct origin_side *side)
{
    const struct config *config = side->context.config;
    return (struct web_options){
        .connections_max = config->upstream_sessions,
        /* Those of long bodies keep no other request waiting; those have their window. */
        .connections_per_origin = config->http_connections_per_origin + config->http_long_bodies,
        .connect_ms = config->upstream_handshake_timeout,
        .idle_ms = config->upstream_idle_timeout,
        .head_bytes = (uint32_t)config->http_head_bytes,
        .body_bytes = config->block_body_bytes,
        .bodies_bytes = config->block_bodies_bytes,
    };
}

static struct web *web_of(struct origin_side *side)
{
    if (side->tags == NULL) {
        side->tags = http_tags_new(entropy_u64(&side->context.entropy));
    }
    if (side->web == NULL && side->tags != NULL) {
        const struct web_options options = web_options_of(side);
        struct long_bodies *bodies = &side->long_bodies;
        if (bodies->book.slots == NULL &&
            long_bodies_init(bodies, side->context.config->http_long_bodies, side->changes->seed) !=
                0) {
            long_bodies_clear(bodies);
            *bodies = (struct long_bodies){.waiting = 0};
            return NULL;
        }
        (void)web_new(side->context.loop, &options, &carrier_http_handler, side, &side->web);
    }
    return side->web;
}

static uint64_t carrier_http_turn(struct origin_side *side, uint64_t now_ms)
{
    uint64_t next_ms = web_turn(side->web, now_ms);
    const struct web_counters *counters = web_counters(side->web);
    struct metrics *metrics = &side->context.metrics;
    metric_set(&metrics->upstream_web_connections, metric_get(&counters->connections));
    metric_set(&metrics->upstream_web_opened, metric_get(&counters->connections_opened));
    metric_set(&metrics->upstream_web_paused, metric_get(&counters->paused));
    return next_ms;
}

static void carrier_http_set_config(struct origin_side *side)
{
    if (side->web != NULL) {
        const struct web_options options = web_options_of(side);
        web_set_options(side->web, &options);
    }
}

static void carrier_http_free(struct origin_side *side)
{
    web_free(side->web);
    long_bodies_clear(&side->long_bodies);
    free(side->tags);
    side->web = NULL;
    side->tags = NULL;
}

/* --- sending ---------------------------------------------------------------------- */

static enum carrier_result fail_http(struct sending *sending, enum reason reason)
{
    sending->reason = reason;
    return CARRIER_FAILED;
}

/* Those of the request, then those of the configuration. */
static size_t join_fields(const struct http_request *request, const struct carrier_way *way,
                          const char *fields[HTTP_REQUEST_FIELDS_MAX + HTTP_LINES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < request->field_count; i++) {
        fields[count++] = request->fields[i];
    }
    for (size_t i = 0; i < way->line_count && i < HTTP_LINES_MAX; i++) {
        fields[count++] = way->lines[i];
    }
    return count;
}

#define LOOK_MS 100u

static void http_on_timer(void *context, struct timer *timer, uint64_t now_ms);

static void await_http_until(struct origin_side *side, struct sending *sending, uint64_t at_ms)
{
    timer_set(&side->context.wheel, &sending->timer,
              at_ms < sending->deadline_ms ? at_ms : sending->deadline_ms, http_on_timer);
}

/*
 * Only now it is looked at how far the request has come: nothing is to be done for one that is
 * answered in time.
 */
static void http_on_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    struct origin_side *side = context;
    struct sending *sending = HASH_ENTRY(timer, struct sending, timer);
    uint64_t limit_ms = side->context.config->http_first_byte_timeout, since_ms;
    if (now_ms >= sending->deadline_ms) {
        sending_timed_out(side, sending);
    } else if (limit_ms == 0 || sending->web == NULL ||
               !web_awaits_first_byte(side->web, sending->web, &since_ms)) {
        sending_await_end(side, sending);
    } else if (now_ms >= since_ms + limit_ms) {
        side->origins.calls->on_timeout(side, sending, REASON_first_byte_timeout);
    } else if (since_ms < now_ms) {
        await_http_until(side, sending, since_ms + limit_ms);
    } else { /* it is not out: not in each ms, however short the limit */
        await_http_until(side, sending, now_ms + (limit_ms > LOOK_MS ? limit_ms : LOOK_MS));
    }
}

/* Sent, or about to be: the answer is waited for. */
static enum carrier_result await_http(struct origin_side *side, struct sending *sending)
{
    uint64_t limit_ms = side->context.config->http_first_byte_timeout;
    sending->again.count = 0;
    sending->is_sent = true;
    sending_event(side, sending, EVENT_http, 0);
    await_http_until(side, sending,
                     limit_ms > 0 ? context_now_ms(&side->context) + limit_ms : UINT64_MAX);
    return CARRIER_SENT;
}

/* Where in the body the block that is asked for is, from a whole unit of parts on. */
static uint64_t offset_of_ask(const struct message *request)
{
    struct block block;
    uint64_t offset = find_asked_block(request, &block) ? block_offset(&block) : 0;
    return offset - offset % WEB_PART_UNIT;
}

/* The long body that goes on with what is asked for, if one waits. */
static bool read_on(struct origin_side *side, struct sending *sending, uint64_t offset,
                    const struct http_request *request, const struct carrier_way *way)
{
    if (offset > 0 && side->long_bodies.waiting > 0) {
        uint64_t key = long_body_key(side, sending, request, way);
        sending->long_body = long_body_take(side, key, offset, &sending->web);
    }
    if (sending->long_body != NULL) {
        web_next(side->web, sending->web, sending);
    }
    return sending->long_body != NULL;
}

/*
 * A further piece of an upload, if that waits for it; the piece that it has had last comes again
 * when the answer to it was lost.
 */
static enum reason send_further_piece(struct origin_side *side, struct sending *sending,
                                      const struct upload_piece *piece, uint64_t key)
{
    struct bytes bytes = piece->bytes;
    sending->long_body = long_body_take(side, key, piece->offset, &sending->web);
    if (sending->long_body == NULL && !piece->is_last) {
        uint64_t end = piece->offset + piece->bytes.len;
        bytes.len = 0;
        sending->long_body = long_body_take(side, key, end, &sending->web);
    }
    if (sending->long_body == NULL) {
        return REASON_block_missing;
    }
    if (!web_more(side->web, sending->web, bytes, piece->is_last, sending)) {
        carrier_http_cancel(side, sending);
        return REASON_proxy_busy;
    }
    return REASON_none;
}

static enum carrier_result carrier_http_send(struct origin_side *side, struct sending *sending)
{
    struct web *web = web_of(side);
    struct message message;
    struct http_request request;
    struct carrier_way way;
    char *room = NULL;
    carrier_http_cancel(side, sending);
    sending->is_private = false;
    if (web == NULL || !http_request_of(sending, &message)) {
        return fail_http(sending, REASON_proxy_busy);
    }
    if (is_left_alone(side, sending)) {
        return fail_http(sending, REASON_origin_backing_off);
    }
    side->origins.calls->find_way(side, sending, &way);
    enum reason reason = make_http(side, sending, &message, &way, &room, &request);
    if (reason != REASON_none) {
        return fail_http(sending, reason);
    }
    uint64_t offset = offset_of_ask(&message);
    sending->has_credentials = way.line_count > 0 || way.shows_certificate;
    if (read_on(side, sending, offset, &request, &way)) {
        free(room);
        return await_http(side, sending);
    }
    struct upload_piece piece = {.is_first = false};
    bool is_upload = find_upload_piece(side, sending, &message, &piece);
    if (is_upload) {
        uint64_t key = long_body_upload_key(side, &message, &request, &way);
        if (piece.is_first) {
            long_body_give_up(side, key);
        } else {
            free(room);
            reason = send_further_piece(side, sending, &piece, key);
            return reason == REASON_none ? await_http(side, sending) : fail_http(sending, reason);
        }
    }
    uint32_t part_bytes = part_bytes_for(side, &message);
    if (part_bytes > 0 && offset > side->context.config->block_body_bytes) {
        free(room);
        return fail_http(sending, REASON_block_gone);
    }
    const char *fields[HTTP_REQUEST_FIELDS_MAX + HTTP_LINES_MAX];
    const struct web_ask ask = {
        .method = request.method,
        .url = request.url,
        .fields = fields,
        .field_count = join_fields(&request, &way, fields),
        .body = sending->body.data != NULL ? sending->body : message.payload,
        .has_body = request.takes_body,
        .body_goes_on = is_upload,
        .may_repeat = request.is_idempotent && !is_upload,
        .address = sending->origin->address,
        .credentials = way.credentials,
        .shows_certificate = way.shows_certificate,
        .part_bytes = part_bytes,
        .skip = offset,
    };
    sending->web = web_send(web, &ask, sending);
    free(room);
    if (sending->web == NULL) {
        return fail_http(sending, REASON_proxy_busy);
    }
    return await_http(side, sending);
}

/* TCP and libcurl find out by themselves whether the other side is alive. */
const struct carrier carrier_http = {
    .send = carrier_http_send,
    .cancel = carrier_http_cancel,
    .ping = NULL,
    .turn = carrier_http_turn,
    .set_config = carrier_http_set_config,
    .free = carrier_http_free,
};
