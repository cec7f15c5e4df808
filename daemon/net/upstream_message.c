/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/upstream_message.h"

#include "coap/option.h"
#include "net/loop.h"

/* EXCHANGE_LIFETIME of RFC 7252 section 4.8.2: no message id comes twice within it. */
#define LIFETIME_MS 247000u

static uint64_t now_of(const struct session *session)
{
    return loop_now_ms(session->upstream->loop);
}

void upstream_message_begin(struct session *session, struct message_layer *layer)
{
    session->messages = layer;
    mid_space_init(&layer->mids, (uint16_t)entropy_u64(&session->upstream->entropy));
}

/* ---- what goes ---- */

static uint64_t key_of_mid(const struct session *session, uint16_t mid)
{
    return hash_mix((uint64_t)(uintptr_t)session, (uint64_t)mid + 1);
}

/* @p request: NULL, as in upstream_message_send(). */
static bool write_message(struct session *session, const struct message *message,
                          const struct upstream_request *request, enum upstream_status *ret_status)
{
    const struct message_layer *layer = session->messages;
    const struct upstream *upstream = session->upstream;
    struct message_writer writer;

    message_writer_init(&writer, layer->room, layer->room_len, message->type, message->code,
                        message->mid, message->token);
    message_writer_all_options(&writer, message->options);
    message_writer_payload(&writer, message->payload);
    if (writer.overflow) {
        *ret_status = UPSTREAM_MESSAGE_TOO_LARGE;
        return false;
    }
    if (!layer->write(session, (struct bytes){writer.buffer, writer.len}, ret_status)) {
        return false;
    }
    if (request != NULL && upstream->handler->on_sent != NULL) {
        upstream->handler->on_sent(upstream->context, request->user, writer.len);
    }
    return true;
}

static void write_empty(struct session *session, enum message_type type, uint16_t mid)
{
    uint8_t empty[MESSAGE_HEADER_LEN];
    enum upstream_status status;

    message_write_empty(empty, type, mid);
    (void)session->messages->write(session, (struct bytes){empty, sizeof empty}, &status);
}

/* No acknowledgement is waited for any more. */
static void settle(struct upstream_request *request)
{
    if (request->is_unacknowledged) {
        request->is_unacknowledged = false;
        request->session->messages->unacknowledged--;
    }
    timer_cancel(&request->session->upstream->wheel, &request->timer);
}

void upstream_message_forget(struct upstream_request *request)
{
    if (request->session->messages != NULL) {
        settle(request);
        hash_map_remove(&request->by_mid);
    }
}

static void on_message_timer(void *context, struct timer *timer, uint64_t now_ms);

static void await_acknowledgement(struct upstream_request *request, uint64_t now_ms)
{
    timer_set(&request->pool->upstream->wheel, &request->timer, now_ms + request->again.timeout_ms,
              on_message_timer);
}

static void tell_loss(const struct upstream_request *request, uint64_t now_ms, bool is_sent_again)
{
    const struct upstream *upstream = request->session->upstream;

    if (upstream->handler->on_loss != NULL) {
        upstream->handler->on_loss(upstream->context, request->user,
                                   now_ms - request->again.timeout_ms, is_sent_again);
    }
}

/* NON: whether the origin server is there at all, a Ping finds out. */
static void ask_for_life(struct session *session, const struct upstream_request *request)
{
    if (session->heard_ms <= request->sent_ms && !session->messages->is_pinging) {
        (void)upstream_message_ping(session);
    }
}

static void on_message_timer(void *context, struct timer *timer, uint64_t now_ms)
{
    struct upstream_request *request = HASH_ENTRY(timer, struct upstream_request, timer);
    struct session *session = request->session;
    const struct upstream_target *target = &session->pool->target;
    enum upstream_status status;
    (void)context;

    if (request->message.type == MESSAGE_NON) {
        tell_loss(request, now_ms, false);
        settle(request);
        ask_for_life(session, request);
        session_set_due(session);
        return;
    }
    if (retransmission_is_over(&request->again, target->max_retransmit)) {
        tell_loss(request, now_ms, false);
        upstream_on_failure(session, request,
                            request->has_malformed ? UPSTREAM_INVALID : UPSTREAM_TIMEOUT, NULL);
        return;
    }
    tell_loss(request, now_ms, true);
    retransmission_next(&request->again);
    await_acknowledgement(request, now_ms);
    (void)write_message(session, &request->message, request, &status); /* the next copy may leave */
}

bool upstream_message_send(struct session *session, const struct message *message,
                           struct upstream_request *request, enum upstream_status *ret_status)
{
    struct message_layer *layer = session->messages;
    const struct upstream_target *target = &session->pool->target;
    struct message sent = *message;
    uint64_t now_ms = now_of(session);

    sent.type = request != NULL && message->type == MESSAGE_CON ? MESSAGE_CON : MESSAGE_NON;
    if (!mid_space_take(&layer->mids, now_ms, LIFETIME_MS, &sent.mid)) {
        *ret_status = UPSTREAM_CLOSED;
        session->is_leaving = true;
        session_set_due(session);
        return false;
    }
    if (!write_message(session, &sent, request, ret_status)) {
        return false;
    }
    if (request == NULL) {
        return true;
    }
    request->message.mid = sent.mid;
    request->has_malformed = false;
    request->is_unacknowledged = sent.type == MESSAGE_CON;
    layer->unacknowledged += request->is_unacknowledged;
    hash_map_add(&session->upstream->messages, &request->by_mid, key_of_mid(session, sent.mid));
    retransmission_begin(&request->again, target->ack_timeout_ms, target->ack_random_factor,
                         entropy_u64(&session->upstream->entropy));
    await_acknowledgement(request, now_ms);
    return true;
}

bool upstream_message_ping(struct session *session)
{
    struct message_layer *layer = session->messages;

    session->has_pong = false;
    if (!mid_space_take(&layer->mids, now_of(session), LIFETIME_MS, &layer->ping_mid)) {
        return false;
    }
    layer->unacknowledged += !layer->is_pinging;
    layer->is_pinging = true;
    write_empty(session, MESSAGE_CON, layer->ping_mid);
    return !session->is_dead;
}

void upstream_message_probe(struct session *session)
{
    const struct message_layer *layer = session->messages;

    if (layer != NULL && (layer->is_pinging || !upstream_message_ping(session))) {
        session_die(session, UPSTREAM_CLOSED, "no answer to a Ping");
    }
}

bool upstream_message_is_acknowledged(const struct session *session)
{
    return session->messages->unacknowledged == 0;
}

/* ---- what comes ---- */

static struct upstream_request *find_by_mid(const struct session *session, uint16_t mid)
{
    struct hash_node *node = hash_map_find(&session->upstream->messages, key_of_mid(session, mid));

    for (; node != NULL; node = hash_map_find_next(node)) {
        struct upstream_request *request = HASH_ENTRY(node, struct upstream_request, by_mid);
        if (request->session == session && request->message.mid == mid) {
            return request;
        }
    }
    return NULL;
}

/* Whatever has come is the sign of life that the Ping asked for. */
static void settle_ping(struct message_layer *layer)
{
    layer->unacknowledged -= layer->is_pinging;
    layer->is_pinging = false;
}

/* An answer was promised. */
static void take_promise(struct session *session, struct upstream_request *request)
{
    const struct upstream *upstream = session->upstream;

    if (!request->is_unacknowledged) {
        return; /* a copy */
    }
    settle(request);
    if (upstream->handler->on_acknowledged != NULL) {
        upstream->handler->on_acknowledged(upstream->context, request->user);
    }
}

/* ACK and RST: the verdict on a message of ours, perhaps with the answer (MSG-11, MSG-12). */
static void take_verdict(struct session *session, const struct message *message)
{
    struct upstream_request *request = find_by_mid(session, message->mid);
    bool is_empty = message->code == CODE_EMPTY;
    bool is_ack = message->type == MESSAGE_ACK;

    if (request == NULL) {
        if (is_empty && session->messages->is_pinging &&
            session->messages->ping_mid == message->mid) {
            session_pong(session);
            pool_tell_heard(session->pool);
        }
    } else if (is_empty && is_ack) {
        take_promise(session, request);
    } else if (is_empty) {
        pool_tell_heard(session->pool);
        upstream_on_failure(session, request, UPSTREAM_RESET, NULL);
    } else if (is_ack && message_is_response(message) &&
               bytes_equal(message->token, request->message.token)) {
        upstream_message_forget(request);
        upstream_on_response(session, request, message);
    }
}

static bool was_seen(const struct message_layer *layer, uint16_t mid, uint32_t now_s)
{
    for (size_t i = 0; i < MESSAGE_SEEN_MAX; i++) {
        if (layer->seen[i].mid == mid && layer->seen[i].until_s > now_s) {
            return true;
        }
    }
    return false;
}

static void note_seen(struct message_layer *layer, uint16_t mid, uint32_t now_s)
{
    layer->seen[layer->seen_next] = (struct message_seen){now_s + LIFETIME_MS / 1000 + 1, mid};
    layer->seen_next = (uint8_t)((layer->seen_next + 1) % MESSAGE_SEEN_MAX);
}

/* A separate response; a CON one is acknowledged, as often as it comes (MSG-20). */
static void take_separate(struct session *session, const struct message *message)
{
    struct message_layer *layer = session->messages;
    bool is_con = message->type == MESSAGE_CON;
    uint32_t now_s = (uint32_t)(now_of(session) / 1000);

    if (is_con && was_seen(layer, message->mid, now_s)) {
        write_empty(session, MESSAGE_ACK, message->mid);
        return;
    }
    struct upstream_request *request = session_find_request(session, message->token);
    if (request == NULL) {
        /* OBS-27; to a NON, too, where it is a notification (RFC 7641 section 3.6). */
        if (is_con || options_have(message->options, OPTION_observe)) {
            write_empty(session, MESSAGE_RST, message->mid);
        }
        return;
    }
    if (is_con) {
        write_empty(session, MESSAGE_ACK, message->mid);
        note_seen(layer, message->mid, now_s);
    }
    upstream_message_forget(request);
    upstream_on_response(session, request, message);
}

/*
 * What cannot be read is dropped: a good one may follow. If none does, the acknowledgement tells
 * whose request it was (ERR-11).
 */
static void take_malformed(struct session *session, const struct message *message)
{
    struct upstream_request *request =
        message->type == MESSAGE_ACK ? find_by_mid(session, message->mid) : NULL;

    if (request != NULL) {
        request->has_malformed = true;
    }
    if (message->type == MESSAGE_CON) {
        write_empty(session, MESSAGE_RST, message->mid);
    }
}

void upstream_message_input(struct session *session, const uint8_t *data, size_t len)
{
    struct message message;
    enum message_error error = message_decode(data, len, &message);

    if (error == MESSAGE_TOO_SHORT || error == MESSAGE_VERSION) {
        return;
    }
    if (error != MESSAGE_OK) {
        take_malformed(session, &message);
    } else if (message.type == MESSAGE_ACK || message.type == MESSAGE_RST) {
        take_verdict(session, &message);
    } else if (message_is_response(&message)) {
        take_separate(session, &message);
    } else if (message.type == MESSAGE_CON) {
        write_empty(session, MESSAGE_RST, message.mid); /* a Ping, or a request (TCP-20) */
    }
    settle_ping(session->messages);
}
