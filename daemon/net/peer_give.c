/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/peer_give.h"

#include <string.h>

#define HEAD_BYTES 5u   /* type, length */
#define SHORT_BYTES 16u /* of the body of every message but SESSIONS */
#define OFFER_BYTES 10u
#define READY_BYTES 4u
#define TAKEN_BYTES 8u
#define PIECE_BYTES 16384u /* memory follows what has come, not what was said to come */

enum give_message {
    GIVE_OFFER = 1,
    GIVE_READY,
    GIVE_REFUSED,
    GIVE_SESSIONS,
    GIVE_HAVE,
    GIVE_COMMIT,
    GIVE_TAKEN,
};

static bool put_give_message(const struct peer_channel *channel, enum give_message type,
                             const uint8_t *body, size_t len)
{
    const uint8_t head[HEAD_BYTES] = {(uint8_t)type, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
                                      (uint8_t)(len >> 8), (uint8_t)len};

    return channel->put(channel->context, head, sizeof head) &&
           (len == 0 || channel->put(channel->context, body, len));
}

/* @return its type; 0: none has come whole */
static uint8_t get_head(const struct peer_channel *channel, uint32_t *ret_len)
{
    uint8_t head[HEAD_BYTES];

    if (!channel->get(channel->context, head, sizeof head)) {
        return 0;
    }
    *ret_len = (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
    return head[0];
}

/* A short message. @return its type, @p ret_body has @p ret_len bytes; 0: none has come */
static uint8_t get_short(const struct peer_channel *channel, uint8_t ret_body[SHORT_BYTES],
                         uint32_t *ret_len)
{
    uint8_t type = get_head(channel, ret_len);

    return type != 0 && *ret_len <= SHORT_BYTES &&
                   (*ret_len == 0 || channel->get(channel->context, ret_body, *ret_len))
               ? type
               : 0;
}

/* ---- the giver ---- */

static bool put_offer(const struct peer_channel *channel, const struct peer_offer *offer)
{
    struct pack body = {0};

    pack_uint(&body, offer->version, 4);
    pack_uint(&body, offer->from, 1);
    pack_uint(&body, offer->to, 1);
    pack_uint(&body, offer->workers, 4);
    bool is_put = !body.has_failed && put_give_message(channel, GIVE_OFFER, body.data, body.len);
    pack_clear(&body);
    return is_put;
}

enum peer_refusal peer_offer(const struct peer_channel *channel, const struct peer_offer *offer,
                             uint32_t *ret_room)
{
    uint8_t body[SHORT_BYTES];
    uint32_t len = 0;

    if (!put_offer(channel, offer)) {
        return PEER_REFUSAL_broken;
    }
    switch (get_short(channel, body, &len)) {
    case GIVE_READY: {
        struct unpack in = {.at = body, .left = len};
        *ret_room = (uint32_t)unpack_uint(&in, READY_BYTES);
        return len == READY_BYTES ? PEER_REFUSAL_COUNT : PEER_REFUSAL_broken;
    }
    case GIVE_REFUSED:
        return len == 1 && body[0] < PEER_REFUSAL_COUNT ? (enum peer_refusal)body[0]
                                                        : PEER_REFUSAL_broken;
    default:
        return PEER_REFUSAL_broken;
    }
}

enum peer_gift peer_give(const struct peer_channel *channel, const struct peer_giver *giver,
                         struct peer_taken *ret_taken)
{
    struct pack sessions = {0};
    uint8_t body[SHORT_BYTES];
    uint32_t len = 0;

    giver->pack(giver->context, &sessions);
    bool is_there = !sessions.has_failed && sessions.len <= PEER_SESSIONS_BYTES_MAX &&
                    put_give_message(channel, GIVE_SESSIONS, sessions.data, sessions.len) &&
                    get_short(channel, body, &len) == GIVE_HAVE && len == 0;
    pack_clear(&sessions);
    if (!is_there) {
        return PEER_GIFT_KEPT;
    }
    giver->forget(giver->context); /* before COMMIT, whatever becomes of that */
    if (!put_give_message(channel, GIVE_COMMIT, NULL, 0) ||
        get_short(channel, body, &len) != GIVE_TAKEN || len != TAKEN_BYTES) {
        return PEER_GIFT_UNSURE;
    }
    struct unpack in = {.at = body, .left = len};
    ret_taken->taken = (uint32_t)unpack_uint(&in, 4);
    ret_taken->left_out = (uint32_t)unpack_uint(&in, 4);
    return PEER_GIFT_GIVEN;
}

/* ---- the taker ---- */

static bool get_offer(const struct peer_channel *channel, struct peer_offer *ret_offer)
{
    uint8_t body[SHORT_BYTES];
    uint32_t len = 0;

    if (get_short(channel, body, &len) != GIVE_OFFER || len != OFFER_BYTES) {
        return false;
    }
    struct unpack in = {.at = body, .left = len};
    ret_offer->version = (uint32_t)unpack_uint(&in, 4);
    ret_offer->from = (uint8_t)unpack_uint(&in, 1);
    ret_offer->to = (uint8_t)unpack_uint(&in, 1);
    ret_offer->workers = (uint32_t)unpack_uint(&in, 4);
    return true;
}

static bool get_sessions(const struct peer_channel *channel, struct pack *ret_sessions)
{
    static const uint8_t nothing[PIECE_BYTES];
    uint32_t left = 0;

    if (get_head(channel, &left) != GIVE_SESSIONS || left > PEER_SESSIONS_BYTES_MAX) {
        return false;
    }
    while (left > 0) {
        size_t piece = left < PIECE_BYTES ? left : PIECE_BYTES, at = ret_sessions->len;
        pack_raw(ret_sessions, nothing, piece);
        if (ret_sessions->has_failed ||
            !channel->get(channel->context, ret_sessions->data + at, piece)) {
            return false;
        }
        left -= (uint32_t)piece;
    }
    return true;
}

static enum peer_refusal take_them(const struct peer_channel *channel,
                                   const struct peer_taker *taker, uint32_t room,
                                   struct pack *sessions)
{
    const uint8_t ready[READY_BYTES] = {(uint8_t)(room >> 24), (uint8_t)(room >> 16),
                                        (uint8_t)(room >> 8), (uint8_t)room};
    uint8_t body[SHORT_BYTES];
    uint32_t len = 0;
    struct pack said = {0};

    if (!put_give_message(channel, GIVE_READY, ready, sizeof ready) ||
        !get_sessions(channel, sessions) || !put_give_message(channel, GIVE_HAVE, NULL, 0) ||
        get_short(channel, body, &len) != GIVE_COMMIT || len != 0) {
        return PEER_REFUSAL_broken;
    }
    struct unpack in = {.at = sessions->data, .left = sessions->len};
    struct peer_taken taken = taker->take(taker->context, &in);
    pack_uint(&said, taken.taken, 4);
    pack_uint(&said, taken.left_out, 4);
    if (!said.has_failed) { /* they are here in any case */
        (void)put_give_message(channel, GIVE_TAKEN, said.data, said.len);
    }
    pack_clear(&said);
    return PEER_REFUSAL_COUNT;
}

enum peer_refusal peer_take(const struct peer_channel *channel, const struct peer_taker *taker)
{
    struct peer_offer offer;
    struct pack sessions = {0};
    uint32_t room = 0;

    if (!get_offer(channel, &offer)) {
        return PEER_REFUSAL_broken;
    }
    enum peer_refusal why = taker->begin(taker->context, &offer, &room);
    if (why != PEER_REFUSAL_COUNT) {
        const uint8_t body = (uint8_t)why;
        (void)put_give_message(channel, GIVE_REFUSED, &body, 1);
        return why;
    }
    why = take_them(channel, taker, room, &sessions);
    pack_clear(&sessions); /* wipes them: taken over, or never */
    taker->finish(taker->context);
    return why;
}
