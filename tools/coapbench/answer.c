/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers to the load: finds the request of each, and checks that it is the right answer. */
#include "echo.h"
#include "load_state.h"

#include <string.h>

static void send_empty(struct load *load, uint32_t client, uint32_t endpoint, enum wire_type type,
                       uint16_t mid)
{
    uint8_t bytes[WIRE_HEADER_LEN];
    struct wire_writer writer;

    wire_begin(&writer, bytes, sizeof(bytes),
               &(struct wire_header){.type = type, .code = WIRE_EMPTY, .mid = mid});
    link_send(load->link, client, endpoint, bytes, writer.len);
}

static void count_reason(struct load_counters *counters, const struct wire_message *message)
{
    char text[LOAD_TEXT_MAX] = "";
    size_t len =
        message->payload.len < LOAD_TEXT_MAX - 1 ? message->payload.len : LOAD_TEXT_MAX - 1;
    unsigned at = 0;

    for (size_t i = 0; i < len; i++) {
        uint8_t byte = message->payload.data[i];
        text[i] = byte >= 0x20 && byte < 0x7f ? (char)byte : '?';
    }
    while (at < counters->reason_count && (counters->reasons[at].code != message->code ||
                                           strcmp(counters->reasons[at].text, text) != 0)) {
        at++;
    }
    if (at == LOAD_REASONS_MAX) {
        return; /* the codes are counted all the same */
    }
    if (at == counters->reason_count) {
        counters->reason_count++;
        counters->reasons[at].code = message->code;
        memcpy(counters->reasons[at].text, text, sizeof(text));
    }
    counters->reasons[at].count++;
}

/* Whether the payload repeats the request. Errors and 2.03 have no echo line. */
static bool answers(const struct load *load, const struct pending *request,
                    const struct wire_message *message)
{
    struct echo_line line;
    struct wording wording;

    if (!load->options->check || WIRE_CODE_CLASS(message->code) != 2 ||
        message->code == WIRE_CODE(2, 3)) {
        return true;
    }
    request_word(load->options, request, &wording);
    echo_begin(&line, request->method);
    for (unsigned i = 0; i < wording.resource.segment_count; i++) {
        echo_add_path(&line, wording.resource.segments[i]);
    }
    if (wording.resource.query.len > 0) {
        echo_add_query(&line, wording.resource.query);
    }
    echo_end(&line, wording.payload);
    return echo_matches(&line, message->payload);
}

/* Was @p key a token of an ended request: of this client, of another one? */
static void find_recent(const struct load *load, uint32_t client, uint64_t key, bool *ret_own,
                        bool *ret_other)
{
    const struct load_recent *set = &load->recent[random_mix(key) % LOAD_RECENT_SETS];
    uint32_t count = set->count < LOAD_RECENT_WAYS ? set->count : LOAD_RECENT_WAYS;

    *ret_own = false;
    *ret_other = false;
    for (uint32_t i = 0; i < count; i++) {
        if (set->token_keys[i] == key) {
            *(set->clients[i] == client ? ret_own : ret_other) = true;
        }
    }
}

/* An answer to no request of this client: repeated, late, or another client's. */
static void on_stray(struct load *load, uint32_t client, const struct wire_message *message,
                     bool is_pending_of_other)
{
    bool own;
    bool other;

    find_recent(load, client, pending_token_key(message->token), &own, &other);
    if (own) {
        load->result.counters.late++;
    } else if (other || is_pending_of_other) {
        load->result.counters.wrong_client++;
    } else {
        load->result.counters.unknown++;
    }
}

static void on_answer(struct load *load, uint32_t number, const struct wire_message *message)
{
    struct load_counters *counters = &load->result.counters;
    const struct pending *request = &load->pending.requests[number];

    counters->codes[message->code]++;
    if (WIRE_CODE_CLASS(message->code) >= 4) {
        count_reason(counters, message);
    }
    load_end_request(load, number, answers(load, request, message) ? END_ANSWERED : END_WRONG);
}

static void on_response(struct load *load, uint32_t client, uint32_t endpoint,
                        const struct wire_message *message)
{
    uint64_t key = pending_mid_key(client, endpoint, message->mid) + 1;
    uint64_t *acked = &load->acked[random_mix(key) % LOAD_ACKED];
    bool other;
    uint32_t number = pending_find_token(&load->pending, client, message->token, &other);

    if (message->type == WIRE_CON && *acked == key) {
        send_empty(load, client, endpoint, WIRE_ACK, message->mid); /* our ACK was lost */
        load->result.counters.late++;
        return;
    }
    if (number == INDEX_NONE) {
        on_stray(load, client, message, other);
        if (message->type == WIRE_CON) {
            send_empty(load, client, endpoint, WIRE_RST, message->mid);
        }
        return;
    }
    if (message->type == WIRE_ACK && load->pending.requests[number].mid != message->mid) {
        load->result.counters.wrong_mid++;
        return;
    }
    if (message->type == WIRE_CON) {
        *acked = key;
        send_empty(load, client, endpoint, WIRE_ACK, message->mid);
    }
    on_answer(load, number, message);
}

static void on_empty(struct load *load, uint32_t client, uint32_t endpoint,
                     const struct wire_message *message)
{
    uint32_t number = pending_find_mid(&load->pending, client, endpoint, message->mid);

    if (message->type == WIRE_CON) {
        send_empty(load, client, endpoint, WIRE_RST, message->mid); /* a ping */
    } else if (number != INDEX_NONE && message->type == WIRE_RST) {
        load_end_request(load, number, END_RESET);
    } else if (number != INDEX_NONE && message->type == WIRE_ACK &&
               load->pending.requests[number].state == PENDING_SENT) {
        load->pending.requests[number].state = PENDING_ACKED;
        load_set_timer(load, number, load->options->timeout_ns);
    }
}

void answer_on_message(void *context, uint32_t client, uint32_t endpoint, const uint8_t *data,
                       size_t len)
{
    struct load *load = context;
    struct wire_message message;

    if (!wire_decode(data, len, &message)) {
        load->result.counters.malformed++;
    } else if (message.code == WIRE_EMPTY) {
        on_empty(load, client, endpoint, &message);
    } else if (WIRE_CODE_CLASS(message.code) >= 2 && message.type != WIRE_RST) {
        on_response(load, client, endpoint, &message);
    } else {
        load->result.counters.malformed++; /* requests are not for the load */
    }
}
