/* SPDX-License-Identifier: BSD-2-Clause */
#include "coap/endpoint.h"

#include "coap/option.h"

#include <stdlib.h>
#include <string.h>

/* At most, beside token and words: header, one option with a number, and the marker. */
#define SIGNAL_ROOM (FRAME_HEAD_MAX + 7u + 1u)

/* Signals of the usual length need no allocation; a Pong repeats a token of up to 65,804 bytes. */
#define SIGNAL_USUAL 256u

/* ---- out ---- */

/* @p option 0: none; its value is a number, and empty where that is 0. */
static void send_signal(const struct endpoint *endpoint, uint8_t code, struct bytes token,
                        uint16_t option, uint32_t value, const char *words)
{
    struct bytes payload = {(const uint8_t *)words, strlen(words)};
    size_t len = SIGNAL_ROOM + token.len + payload.len;
    uint8_t usual[SIGNAL_USUAL];
    uint8_t *buffer = len <= sizeof(usual) ? usual : malloc(len);
    struct message_writer writer;
    if (buffer == NULL) {
        return;
    }
    frame_writer_init(&writer, buffer, len, token);
    if (option != 0) {
        message_writer_option_uint(&writer, option, value);
    }
    if (len <= endpoint->peer_max) {
        message_writer_payload(&writer, payload);
    }
    endpoint->handler->write(endpoint->context,
                             frame_finish(&writer, code, token, endpoint->is_ws));
    if (buffer != usual) {
        free(buffer);
    }
}

void endpoint_send(const struct endpoint *endpoint, uint8_t code, struct bytes token,
                   const char *words)
{
    send_signal(endpoint, code, token, 0, 0, words);
}

void endpoint_start(struct endpoint *endpoint)
{
    const struct bytes none = {0};
    uint8_t buffer[64];
    struct message_writer writer;
    endpoint->peer_max = FRAME_BASE_MESSAGE_SIZE;
    frame_writer_init(&writer, buffer, sizeof(buffer), none);
    message_writer_option_uint(&writer, CSM_MAX_MESSAGE_SIZE, endpoint->message_max);
    message_writer_option(&writer, CSM_BLOCK_WISE_TRANSFER, none);
    if (endpoint->token_max > ENDPOINT_BASE_TOKEN) {
        message_writer_option_uint(&writer, CSM_EXTENDED_TOKEN_LENGTH, endpoint->token_max);
    }
    endpoint->handler->write(endpoint->context,
                             frame_finish(&writer, CODE_CSM, none, endpoint->is_ws));
}

/* Tells the peer what it did wrong (section 5.6). @p bad_csm_option 0: none. */
static void abort_connection(const struct endpoint *endpoint, uint16_t bad_csm_option,
                             const char *why)
{
    send_signal(endpoint, CODE_ABORT, (struct bytes){0},
                bad_csm_option != 0 ? ABORT_BAD_CSM_OPTION : 0, bad_csm_option, why);
    endpoint->handler->on_fault(endpoint->context, why);
}

/* ---- in ---- */

/*
 * The critical option for which the connection has to be aborted (section 5.2), or 0, which is
 * elective. All that are known are elective, so a critical one is not understood, whatever the
 * signal. An Abort is not answered, so that two ends do not abort each other in turn.
 */
static uint16_t find_critical(const struct message *signal)
{
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, signal->options);
    while (signal->code != CODE_ABORT && option_iter_next(&iter, &option)) {
        if (option_is_critical(option.number)) {
            return option.number;
        }
    }
    return 0;
}

/* Settings that a CSM leaves out stay as an earlier one has them (section 5.3). */
static void take_csm(struct endpoint *endpoint, const struct message *csm)
{
    struct option_iter iter;
    struct option option;
    option_iter_init(&iter, csm->options);
    while (option_iter_next(&iter, &option)) {
        /* One with a length out of range is as good as unknown (RFC 7252 section 5.4.3). */
        if (option.number == CSM_MAX_MESSAGE_SIZE && option.value.len <= sizeof(uint32_t)) {
            endpoint->peer_max = option_uint(option.value);
        } else if (option.number == CSM_BLOCK_WISE_TRANSFER) {
            endpoint->takes_blocks = true;
        }
    }
    endpoint->is_open = true;
}

static void take_signal(struct endpoint *endpoint, const struct message *signal)
{
    uint16_t critical = find_critical(signal);
    if (critical != 0) {
        bool is_csm = signal->code == CODE_CSM;
        abort_connection(endpoint, is_csm ? critical : 0,
                         is_csm ? "unknown critical option in CSM"
                                : "unknown critical option in a signal");
        return;
    }
    switch (signal->code) {
    case CODE_PING:
        /* Custody may be confirmed at once: what came before has been taken over. */
        send_signal(endpoint, CODE_PONG, signal->token,
                    options_have(signal->options, PING_CUSTODY) ? PING_CUSTODY : 0, 0, "");
        break;
    case CODE_CSM:
        take_csm(endpoint, signal);
        endpoint->handler->on_signal(endpoint->context, CODE_CSM);
        break;
    case CODE_PONG:
    case CODE_RELEASE:
    case CODE_ABORT:
        endpoint->handler->on_signal(endpoint->context, signal->code);
        break;
    default:
        break; /* signals to come (TCP-15) */
    }
}

static void take_message(struct endpoint *endpoint, const struct message *message)
{
    /* Empty messages may be sent at any time, to keep alive (section 3.4). */
    bool may_be_first =
        message->code == CODE_CSM || message->code == CODE_ABORT || message->code == CODE_EMPTY;
    if (!endpoint->is_open && !may_be_first) {
        abort_connection(endpoint, 0, "CSM expected first");
    } else if (CODE_CLASS(message->code) == 7) {
        take_signal(endpoint, message);
    } else if (message_is_request(message)) {
        endpoint->handler->on_request(endpoint->context, message);
    } else {
        endpoint->handler->on_response(endpoint->context, message);
    }
}

size_t endpoint_input(struct endpoint *endpoint, const uint8_t *data, size_t len)
{
    struct message message;
    size_t used = 0, frame_len;
    if (endpoint->is_ws) {
        if (frame_decode_ws(data, len, endpoint->token_max, &message) == FRAME_OK) {
            take_message(endpoint, &message);
        } else {
            abort_connection(endpoint, 0, "malformed message");
        }
        return len;
    }
    while (endpoint->handler->may_read(endpoint->context)) {
        switch (frame_decode(data + used, len - used, endpoint->message_max, endpoint->token_max,
                             &frame_len, &message)) {
        case FRAME_OK:
            used += frame_len;
            take_message(endpoint, &message);
            break;
        case FRAME_MORE:
            return used;
        case FRAME_TOO_LARGE:
            abort_connection(endpoint, 0, "message larger than Max-Message-Size");
            return used;
        case FRAME_MALFORMED:
            abort_connection(endpoint, 0, "malformed message");
            return used;
        }
    }
    return used;
}
