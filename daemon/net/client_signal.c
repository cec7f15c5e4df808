/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages on a connection to an origin server, signals included (RFC 8323 section 5), on every
 * reliable transport. */
#include "net/client_stream_internal.h"

#include "coap/frame.h"
#include "coap/signal.h"

/* ---- out ---- */

/* @p option 0: none. */
static void send_signal(struct session *session, uint8_t code, struct bytes token, uint16_t option,
                        struct bytes value)
{
    uint8_t buffer[64];
    struct message_writer writer;

    frame_writer_init(&writer, buffer, sizeof buffer, token);
    if (option != 0) {
        message_writer_option(&writer, option, value);
    }
    (void)stream_write(session, frame_finish(&writer, code, token, stream_is_ws(session)));
}

void stream_send_csm(struct session *session)
{
    uint8_t buffer[32];
    struct message_writer writer;
    struct bytes none = {0};

    frame_writer_init(&writer, buffer, sizeof buffer, none);
    message_writer_option_uint(&writer, CSM_MAX_MESSAGE_SIZE,
                               session->upstream->options.message_bytes);
    message_writer_option(&writer, CSM_BLOCK_WISE_TRANSFER, none);
    (void)stream_write(session, frame_finish(&writer, CODE_CSM, none, stream_is_ws(session)));
}

void stream_send_ping(struct session *session)
{
    send_signal(session, CODE_PING, (struct bytes){0}, 0, (struct bytes){0});
}

void stream_send_release(struct session *session)
{
    send_signal(session, CODE_RELEASE, (struct bytes){0}, 0, (struct bytes){0});
}

void stream_fail(struct session *session, const char *why)
{
    session_die(session,
                session->state == SESSION_CONNECTING ? UPSTREAM_HANDSHAKE_FAILED : UPSTREAM_CLOSED,
                why);
}

void stream_abort(struct session *session, const char *why, uint16_t bad_option)
{
    uint8_t number[2] = {(uint8_t)(bad_option >> 8), (uint8_t)bad_option};
    struct bytes value = {number + (bad_option < 256), bad_option < 256 ? 1 : 2};

    send_signal(session, CODE_ABORT, (struct bytes){0}, bad_option != 0 ? ABORT_BAD_CSM_OPTION : 0,
                value);
    stream_fail(session, why);
}

/* ---- in ---- */

/* A later CSM replaces the values of an earlier one (TCP-7). */
static void on_csm(struct session *session, const struct message *message)
{
    struct stream_end *end = session->stream;
    bool takes_blocks; /* blocks pass through: origin servers that do none get none */

    signal_read_csm(message, &end->peer_max, &takes_blocks);
    end->is_open = true;
    session->is_up = true;
    session_set_due(session);
}

static void on_signal(struct session *session, const struct message *message)
{
    bool has_custody = message_has_option(message, PING_CUSTODY);
    uint32_t number;

    if (signal_has_critical(message, &number)) {
        bool is_csm = message->code == CODE_CSM;
        stream_abort(session,
                     is_csm ? "unknown critical option in CSM"
                            : "unknown critical option in a signal",
                     is_csm ? (uint16_t)number : 0);
        return;
    }
    switch (message->code) {
    case CODE_CSM:
        on_csm(session, message);
        break;
    case CODE_PING:
        send_signal(session, CODE_PONG, message->token, has_custody ? PING_CUSTODY : 0,
                    (struct bytes){0});
        break;
    case CODE_PONG:
        session_pong(session);
        break;
    case CODE_RELEASE:
        session->is_leaving = true;
        session_set_due(session);
        break;
    case CODE_ABORT:
        session_die(session, session->stream->is_open ? UPSTREAM_CLOSED : UPSTREAM_HANDSHAKE_FAILED,
                    "aborted by the other side");
        break;
    default: /* signals to come (TCP-15) */
        break;
    }
}

void stream_on_message(struct session *session, const struct message *message)
{
    session_heard(session);
    if (CODE_CLASS(message->code) == 7) {
        if (!session->stream->is_open && message->code != CODE_CSM && message->code != CODE_ABORT) {
            stream_abort(session, "CSM expected first", 0); /* TCP-6 */
        } else {
            on_signal(session, message);
        }
    } else if (message->code == CODE_EMPTY) {
        return; /* TCP-16 */
    } else if (!session->stream->is_open) {
        stream_abort(session, "CSM expected first", 0);
    } else if (message_is_request(message)) {
        send_signal(session, CODE(5, 1), message->token, 0, (struct bytes){0}); /* TCP-20 */
    } else {
        (void)session_on_response(session, message); /* a response without a request is dropped */
    }
}
