/* SPDX-License-Identifier: BSD-2-Clause */
/* The role towards an origin server: net/upstream_dtls_record.c, and functions here in place of
 * what is around it. There is no hand-over of these sessions. */
#include "record_play_end.h"

#include "net/upstream_dtls_internal.h"
#include "net/upstream_internal.h"

#include <stdlib.h>
#include <string.h>

static struct upstream *upstream;
static struct session client_session;
static struct dtls_end end;

/* ---- what is around it ---- */

void session_die(struct session *session, enum upstream_status cause, const char *why)
{
    (void)cause, (void)why;
    session->is_dead = true;
}

void session_heard(struct session *session)
{
    PLAY_MUST(!session->is_dead);
}

void upstream_message_input(struct session *session, const uint8_t *data, size_t len)
{
    PLAY_MUST(!session->is_dead);
    play_delivered(data, len);
}

bool upstream_dtls_put(struct session *session, const uint8_t *data, size_t len,
                       enum upstream_status *ret_status)
{
    (void)session, (void)ret_status;
    play_left(data, len);
    return true;
}

/* ---- the role ---- */

void play_client_init(void)
{
    upstream = calloc(1, sizeof *upstream);
    PLAY_MUST(upstream != NULL);
    upstream->dtls_box = calloc(1, sizeof *upstream->dtls_box);
    PLAY_MUST(upstream->dtls_box != NULL);
    upstream->dtls_box->crypto = record_crypto_new();
    PLAY_MUST(upstream->dtls_box->crypto != NULL);
}

void play_client_clear(void)
{
    record_crypto_free(upstream->dtls_box->crypto);
    free(upstream->dtls_box);
    free(upstream);
}

static void client_end_open(const struct records *records, uint32_t cid, bool has_flight)
{
    (void)cid, (void)has_flight;
    client_session = (struct session){.upstream = upstream, .dtls = &end};
    end = (struct dtls_end){.session = &client_session,
                            .fd = -1,
                            .records = *records,
                            .has_keys = true,
                            .is_open = true};
}

static struct records *client_end_records(void)
{
    return client_session.is_dead ? NULL : &end.records;
}

static void client_end_feed(const uint8_t *datagram, size_t len, bool is_elsewhere)
{
    if (!is_elsewhere && !client_session.is_dead) { /* its socket is connected */
        upstream_dtls_feed_records(&client_session, datagram, len);
    }
}

static void client_end_tell(const uint8_t *data, size_t len)
{
    enum upstream_status status;
    const struct bytes datagram = {.data = data, .len = len};

    (void)upstream_dtls_write(&client_session, datagram, &status);
}

static void client_end_wait(uint64_t ms)
{
    (void)ms;
}

static void client_end_hand_over(enum play_handover how, const uint8_t *datagram, size_t len)
{
    if (how == PLAY_LOST) {
        client_session.is_dead = true;
    }
    client_end_feed(datagram, len, false);
}

static void client_end_close(void)
{
    if (!client_session.is_dead) {
        upstream_dtls_goodbye(&client_session);
        client_session.is_dead = true;
    }
}

static void client_end_check(void)
{
    PLAY_MUST(end.ssl == NULL && client_session.out.first == NULL);
}

const struct play_end play_client = {
    .open = client_end_open,
    .records = client_end_records,
    .feed = client_end_feed,
    .tell = client_end_tell,
    .wait = client_end_wait,
    .hand_over = client_end_hand_over,
    .close = client_end_close,
    .check = client_end_check,
};
