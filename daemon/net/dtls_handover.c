/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions on their way to another process (net/handover_file.h). Times are those of
 * CLOCK_MONOTONIC, which is one for all processes until the system is started anew.
 */
#include "net/dtls_internal.h"

#include "net/credentials.h"

#include <openssl/rand.h>
#include <string.h>

/* About as much as a session takes that has no flight to be repeated. */
#define PACKED_BYTES 350u

/* ---- out ---- */

static void pack_session(const struct dtls_session *session,
                         const struct credentials_marker *marker, struct pack *out)
{
    uint8_t mark[CREDENTIALS_MARK_LEN];

    credentials_mark(marker, session->identity, mark);
    pack_uint(out, 1, 1); /* another one */
    pack_address(out, &session->path.remote);
    pack_address(out, &session->path.local);
    pack_uint(out, session->path.via, 4);
    records_pack(&session->records, out);
    pack_uint(out, session->by_cid.key, 8);
    pack_uint(out, session->started_ms, 8);
    pack_uint(out, session->used_ms, 8);
    pack_uint(out, session->heard_s, 4);
    pack_uint(out, session->moves, 2);
    pack_raw(out, session->anchor, sizeof session->anchor);
    pack_raw(out, mark, sizeof mark);
    identity_pack(session->identity, out);
    own_pack_flight(session, out);
}

void dtls_hold(struct dtls_listener *listener, bool is_held)
{
    udp_hold(listener->socket, is_held);
}

/* Of the replica that gave the id with this number. */
static uint16_t tag_of_cid(uint64_t cid)
{
    return (uint16_t)(cid >> (8 * (DTLS_CID_MAX - DTLS_CID_TAGGED)));
}

static uint16_t share_of(const struct dtls_listener *listener, const struct dtls_session *session)
{
    return session->records.cid_len == DTLS_CID_MAX && dtls_has_tags(listener)
               ? tag_of_cid(session->by_cid.key)
               : (uint8_t)address_hash(&session->path.remote, 0);
}

static bool is_handed_over(const struct dtls_listener *listener, const struct dtls_session *session,
                           const struct dtls_gift *gift)
{
    return session->shake == NULL &&
           (gift == NULL || gift->takers[share_of(listener, session)] == gift->to);
}

void dtls_count_shares(const struct dtls_listener *listener, uint32_t *counts)
{
    for (const struct dtls_session *session = listener->established.first; session != NULL;
         session = session->next) {
        if (is_handed_over(listener, session, NULL)) {
            counts[share_of(listener, session)]++;
        }
    }
}

void dtls_hand_over(struct dtls_listener *listener, const struct dtls_gift *gift, struct pack *out)
{
    uint8_t salt[CREDENTIALS_ANCHOR_LEN];
    struct credentials_marker marker;

    listener->is_frozen = true;
    if (RAND_bytes(salt, (int)sizeof salt) != 1) {
        out->has_failed = true;
        return;
    }
    pack_expect(out, (size_t)listener->counters.sessions * PACKED_BYTES); /* tls.sessions at most */
    pack_raw(out, salt, sizeof salt);
    credentials_marker_open(&marker, listener->options.credentials, salt);
    for (struct dtls_session *session = listener->established.first; session != NULL;
         session = session->next) {
        if (is_handed_over(listener, session, gift)) {
            pack_session(session, &marker, out);
        }
    }
    credentials_marker_close(&marker);
    pack_uint(out, 0, 1);
}

uint32_t dtls_forget(struct dtls_listener *listener, const struct dtls_gift *gift)
{
    struct dtls_session *session = listener->established.first;
    uint32_t count = 0;

    while (session != NULL) {
        struct dtls_session *next = session->next;
        if (is_handed_over(listener, session, gift)) {
            records_clear(&session->records);
            session_doom(session, "given to another replica");
            dtls_count(&listener->counters.given);
            count++;
        }
        session = next;
    }
    return count;
}

void dtls_thaw(struct dtls_listener *listener)
{
    listener->is_frozen = false;
}

/* ---- in ---- */

/* A session as it was packed, but for its last flight. */
struct packed_session {
    struct udp_path path;
    struct records records;
    uint64_t cid, started_ms, used_ms;
    uint32_t heard_s;
    uint16_t moves;
    uint8_t anchor[CREDENTIALS_ANCHOR_LEN], mark[CREDENTIALS_MARK_LEN];
    struct identity *identity; /* held */
};

/* @return false: unreadable, or no memory; then nothing is held */
static bool unpack_session(struct unpack *in, struct packed_session *ret)
{
    ret->path.remote = unpack_address(in);
    ret->path.local = unpack_address(in);
    ret->path.via = (uint32_t)unpack_uint(in, 4);
    if (!records_unpack(in, &ret->records)) {
        return false;
    }
    ret->cid = unpack_uint(in, 8);
    ret->started_ms = unpack_uint(in, 8);
    ret->used_ms = unpack_uint(in, 8);
    ret->heard_s = (uint32_t)unpack_uint(in, 4);
    ret->moves = (uint16_t)unpack_uint(in, 2);
    unpack_raw(in, ret->anchor, sizeof ret->anchor);
    unpack_raw(in, ret->mark, sizeof ret->mark);
    ret->identity = identity_unpack(in);
    return ret->identity != NULL;
}

/* Beside other sessions: it has a place, and is not older than one of the same client. */
static bool fits_beside(const struct dtls_listener *listener, const struct packed_session *packed)
{
    return listener->counters.sessions < listener->options.sessions_max &&
           (packed->records.cid_len > 0 ||
            session_find(listener, &packed->path, SESSION_ESTABLISHED) == NULL);
}

/* Whether a session can go on here, and its peer would still be accepted. */
static bool can_adopt(const struct dtls_listener *listener, const struct packed_session *packed,
                      const struct credentials_marker *marker, const struct dtls_taking *how)
{
    uint8_t cid_len = packed->records.cid_len;

    if (how->is_beside && !fits_beside(listener, packed)) {
        return false;
    }

    return listener->crypto != NULL &&
           (cid_len == 0 || (cid_len == listener->options.cid_bytes &&
                             hash_map_find(&listener->cids, packed->cid) == NULL)) &&
           credentials_hold_mark(marker, packed->identity, packed->anchor, packed->mark);
}

/* Those packed first were idle for longest: they make room. */
static void leave_out_oldest(struct dtls_listener *listener)
{
    if (listener->counters.sessions >= listener->options.sessions_max) {
        session_doom(listener->established.first, "not taken over");
        dtls_count(&listener->counters.sessions_evicted);
    }
}

/* Takes over what @p packed holds. */
static struct dtls_session *adopt(struct dtls_listener *listener,
                                  const struct packed_session *packed)
{
    leave_out_oldest(listener);
    struct dtls_session *session =
        session_adopt(listener, &packed->path, &packed->records, packed->cid);
    if (session == NULL) {
        identity_release(packed->identity);
        return NULL;
    }
    if (packed->records.cid_len == DTLS_CID_MAX && dtls_has_tags(listener)) {
        listener->options.passing->on_held(listener->options.passing_context,
                                           tag_of_cid(packed->cid));
    }
    session->identity = packed->identity;
    session->started_ms = packed->started_ms;
    session->used_ms = packed->used_ms;
    session->heard_s = packed->heard_s;
    session->moves = packed->moves;
    memcpy(session->anchor, packed->anchor, sizeof session->anchor);
    return session;
}

/* For a session that is not here: its bytes, but nothing is kept. */
static bool skip_flight(struct unpack *in)
{
    size_t len = 0;

    if (unpack_uint(in, 1) != 0) {
        (void)unpack_uint(in, 8);
        (void)unpack_uint(in, 8);
        (void)unpack_uint(in, 8);
        (void)unpack_bytes(in, &len);
    }
    return !in->has_failed;
}

/* By the clock of this host; no time is before its start. */
static void shift_times(struct packed_session *packed, int64_t shift_ms)
{
    int64_t heard_s = (int64_t)packed->heard_s + shift_ms / 1000;

    packed->started_ms += (uint64_t)shift_ms;
    packed->used_ms += (uint64_t)shift_ms;
    packed->heard_s = heard_s < 0 ? 0 : heard_s > UINT32_MAX ? UINT32_MAX : (uint32_t)heard_s;
}

static bool take_session(struct dtls_listener *listener, struct unpack *in,
                         const struct credentials_marker *marker, const struct dtls_taking *how)
{
    struct packed_session packed = {0};
    struct dtls_session *session = NULL;

    if (!unpack_session(in, &packed)) {
        records_clear(&packed.records);
        return false;
    }
    shift_times(&packed, how->shift_ms);
    if (can_adopt(listener, &packed, marker, how)) {
        session = adopt(listener, &packed);
    } else {
        identity_release(packed.identity);
    }
    records_clear(&packed.records);
    dtls_count(session != NULL ? &listener->counters.taken_over
                               : &listener->counters.not_taken_over);
    bool was_read =
        session != NULL ? own_unpack_flight(session, in, how->shift_ms) : skip_flight(in);
    if (session != NULL && listener->handler->on_open != NULL) {
        listener->handler->on_open(listener->context, session);
    }
    return was_read;
}

bool dtls_take_over(struct dtls_listener *listener, struct unpack *in,
                    const struct dtls_taking *how)
{
    uint8_t salt[CREDENTIALS_ANCHOR_LEN];
    struct credentials_marker marker;

    unpack_raw(in, salt, sizeof salt);
    credentials_marker_open(&marker, listener->options.credentials, salt);
    while (unpack_uint(in, 1) == 1) {
        if (!take_session(listener, in, &marker, how)) {
            in->has_failed = true;
        }
    }
    credentials_marker_close(&marker);
    return !in->has_failed;
}
