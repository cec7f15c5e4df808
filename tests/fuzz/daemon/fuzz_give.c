/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a replica sends that has authenticated itself for a hand-over and misbehaves
 * (net/peer_give.h): behind TLS, so as a stream of bytes in both directions. Input: a byte, then
 * what the other end says. The lowest bit says which end it is, the next one whether a taker
 * agrees; with the third bit the stream goes on with COMMIT, or TAKEN, forever: repetition.
 * Whatever comes, nothing is taken without COMMIT behind HAVE, nothing is given twice, nothing is
 * sealed by both, and the rules about what follows what hold.
 */
#include "net/peer_give.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SESSIONS "keys"

static struct {
    const uint8_t *in;
    size_t in_len;
    const uint8_t *again; /* what follows; NULL: the end */
    size_t again_at, again_left;
    uint8_t out[256];
    size_t out_len;
    unsigned packed, forgotten, begun, taken, finished;
    bool has_failed, agrees;
} give;

static bool give_put(void *context, const uint8_t *data, size_t len)
{
    (void)context;
    assert(!give.has_failed && len <= sizeof give.out - give.out_len);
    memcpy(give.out + give.out_len, data, len);
    give.out_len += len;
    return true;
}

static uint8_t next_byte(void)
{
    if (give.in_len > 0) {
        give.in_len--;
        return *give.in++;
    }
    give.again_left--;
    return give.again[give.again_at++ % 5];
}

static bool give_get(void *context, uint8_t *ret_data, size_t len)
{
    size_t more = give.again != NULL ? give.again_left : 0;
    (void)context;

    assert(!give.has_failed && len > 0);
    if (len > give.in_len + more) {
        give.has_failed = true;
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        ret_data[i] = next_byte();
    }
    return true;
}

/* Whether the last message that was put has this type, and no body. */
static bool has_said_last(uint8_t type)
{
    const uint8_t head[5] = {type};

    return give.out_len >= sizeof head &&
           memcmp(give.out + give.out_len - sizeof head, head, sizeof head) == 0;
}

/* ---- this end gives ---- */

static void on_pack(void *context, struct pack *out)
{
    (void)context;
    give.packed++;
    pack_raw(out, SESSIONS, sizeof SESSIONS);
}

static void on_forget(void *context)
{
    (void)context;
    assert(give.packed == 1 && !has_said_last(6)); /* COMMIT comes after it */
    give.forgotten++;
}

static void play_giver(const struct peer_channel *channel)
{
    static const struct peer_giver giver = {.pack = on_pack, .forget = on_forget};
    const struct peer_offer offer = {.version = 1, .from = 1, .to = 2, .workers = 1};
    struct peer_taken taken = {0};
    uint32_t room = 0;

    enum peer_refusal why = peer_offer(channel, &offer, &room);
    assert(why <= PEER_REFUSAL_COUNT && give.packed == 0);
    if (why != PEER_REFUSAL_COUNT) {
        return;
    }
    enum peer_gift result = peer_give(channel, &giver, &taken);
    assert(give.packed == 1);
    assert(give.forgotten == (result == PEER_GIFT_KEPT ? 0 : 1));
    assert(has_said_last(6) == (result != PEER_GIFT_KEPT));
}

/* ---- this end takes ---- */

static enum peer_refusal on_begin(void *context, const struct peer_offer *offer, uint32_t *ret_room)
{
    (void)context;
    (void)offer;
    assert(give.out_len == 0);
    give.begun++;
    *ret_room = 7;
    return give.agrees ? PEER_REFUSAL_COUNT : PEER_REFUSAL_busy;
}

static struct peer_taken on_take(void *context, struct unpack *sessions)
{
    (void)context;
    assert(give.agrees && has_said_last(5)); /* HAVE */
    while (sessions->left > 0) {             /* all of it can be read */
        (void)unpack_uint(sessions, 1);
    }
    give.taken++;
    return (struct peer_taken){.taken = 1};
}

static void on_finish(void *context)
{
    (void)context;
    give.finished++;
}

static void play_taker(const struct peer_channel *channel)
{
    static const struct peer_taker taker = {
        .begin = on_begin, .take = on_take, .finish = on_finish};

    enum peer_refusal why = peer_take(channel, &taker);
    assert(give.begun <= 1 && give.finished == (give.agrees ? give.begun : 0));
    assert(give.taken == (why == PEER_REFUSAL_COUNT ? 1 : 0));
    assert(why != PEER_REFUSAL_busy || !give.agrees);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t commit[5] = {6}, taken[5] = {7};
    const struct peer_channel channel = {.put = give_put, .get = give_get};

    if (size == 0) {
        return 0;
    }
    memset(&give, 0, sizeof give);
    give.in = data + 1;
    give.in_len = size - 1;
    give.agrees = (data[0] & 2) != 0;
    if ((data[0] & 4) != 0) {
        give.again = (data[0] & 1) != 0 ? commit : taken;
        give.again_left = 1 << 20;
    }
    if ((data[0] & 1) != 0) {
        play_taker(&channel);
    } else {
        play_giver(&channel);
    }
    return 0;
}
