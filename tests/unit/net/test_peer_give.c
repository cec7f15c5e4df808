/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sessions on their way to another replica, cut off at every byte in both directions: their keys
 * are never with both ends.
 */
#include "net/peer_give.h"
#include "net/peer_shares.h"
#include "support/test.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SESSIONS "the keys of some sessions, which nobody may have twice"

static const struct peer_offer offer = {.version = 5, .from = 1, .to = 2, .workers = 3};

/* One end; fails after so many bytes, put or got. */
struct end {
    int fd;
    size_t left;
};

static struct {
    bool giver_has, giver_seals, taker_has;
    bool is_begun, is_finished;
    enum peer_refusal refusal; /* of the taker; PEER_REFUSAL_COUNT: none */
    enum peer_refusal why;     /* what the taker's end says */
    unsigned both;             /* times when both could have sealed */
    struct end taker;
} play;

static bool end_put(void *context, const uint8_t *data, size_t len)
{
    struct end *end = context;
    size_t most = len < end->left ? len : end->left;

    end->left -= most;
    return send(end->fd, data, most, MSG_NOSIGNAL) == (ssize_t)most && most == len;
}

static bool end_get(void *context, uint8_t *ret_data, size_t len)
{
    struct end *end = context;

    if (len > end->left) {
        end->left = 0;
        return false;
    }
    end->left -= len;
    return recv(end->fd, ret_data, len, MSG_WAITALL) == (ssize_t)len;
}

static void note_owners(void)
{
    play.both += play.giver_has && play.taker_has;
}

static void giver_pack(void *context, struct pack *out)
{
    (void)context;
    play.giver_seals = false;
    pack_raw(out, SESSIONS, sizeof SESSIONS);
}

static void giver_forget(void *context)
{
    (void)context;
    assert_false(play.taker_has); /* it has no COMMIT */
    play.giver_has = false;
}

static enum peer_refusal taker_begin(void *context, const struct peer_offer *offered,
                                     uint32_t *ret_room)
{
    (void)context;
    *ret_room = 123456;
    assert_true(offered->version == 5 && offered->from == 1 && offered->to == 2 &&
                offered->workers == 3);
    play.is_begun = play.refusal == PEER_REFUSAL_COUNT;
    return play.refusal;
}

static struct peer_taken taker_take(void *context, struct unpack *sessions)
{
    (void)context;
    assert_true(sessions->left == sizeof SESSIONS &&
                memcmp(sessions->at, SESSIONS, sizeof SESSIONS) == 0);
    play.taker_has = true;
    note_owners();
    return (struct peer_taken){.taken = 7, .left_out = 2};
}

static void taker_finish(void *context)
{
    (void)context;
    play.is_finished = true;
}

static void *run_taker(void *context)
{
    const struct peer_taker taker = {
        .begin = taker_begin, .take = taker_take, .finish = taker_finish};
    const struct peer_channel channel = {&play.taker, end_put, end_get};
    (void)context;

    play.why = peer_take(&channel, &taker);
    (void)close(play.taker.fd);
    return NULL;
}

static enum peer_gift give(size_t giver_bytes, size_t taker_bytes, struct peer_taken *ret_taken,
                           enum peer_refusal *ret_why)
{
    const struct peer_giver giver = {.pack = giver_pack, .forget = giver_forget};
    int fds[2];
    pthread_t thread;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    play.giver_has = play.giver_seals = true;
    play.taker_has = play.is_begun = play.is_finished = false;
    play.both = 0;
    play.taker = (struct end){fds[1], taker_bytes};
    struct end end = {fds[0], giver_bytes};
    const struct peer_channel channel = {&end, end_put, end_get};
    assert_int_equal(pthread_create(&thread, NULL, run_taker, NULL), 0);
    uint32_t room = 0;
    enum peer_gift result = PEER_GIFT_KEPT;
    *ret_why = peer_offer(&channel, &offer, &room);
    if (*ret_why == PEER_REFUSAL_COUNT) {
        assert_int_equal(room, 123456);
        result = peer_give(&channel, &giver, ret_taken);
    }
    (void)close(fds[0]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    note_owners();
    assert_int_equal(play.both, 0);
    assert_true(play.is_finished == play.is_begun);
    return result;
}

static void check(enum peer_gift result)
{
    switch (result) {
    case PEER_GIFT_KEPT:
        assert_true(play.giver_has && !play.taker_has);
        break;
    case PEER_GIFT_GIVEN:
        assert_true(!play.giver_has && play.taker_has);
        break;
    case PEER_GIFT_UNSURE:
        assert_false(play.giver_has);
        break;
    }
}

static void test_cut_off_at_every_byte(void **state)
{
    struct peer_taken taken = {0};
    enum peer_refusal why;
    unsigned counts[3] = {0};
    (void)state;

    play.refusal = PEER_REFUSAL_COUNT;
    for (size_t bytes = 0; bytes < 200; bytes++) {
        for (unsigned side = 0; side < 2; side++) {
            enum peer_gift result =
                give(side == 0 ? bytes : SIZE_MAX, side == 1 ? bytes : SIZE_MAX, &taken, &why);
            check(result);
            counts[result]++;
        }
    }
    /* All three have been seen. */
    assert_true(counts[PEER_GIFT_KEPT] > 100 && counts[PEER_GIFT_UNSURE] > 10);
    assert_true(counts[PEER_GIFT_GIVEN] > 20);
    assert_true(taken.taken == 7 && taken.left_out == 2);
}

static void test_a_taker_that_refuses(void **state)
{
    struct peer_taken taken = {0};
    enum peer_refusal why;
    (void)state;

    play.refusal = PEER_REFUSAL_busy;
    assert_int_equal(give(SIZE_MAX, SIZE_MAX, &taken, &why), PEER_GIFT_KEPT);
    assert_true(why == PEER_REFUSAL_busy && play.why == PEER_REFUSAL_busy);
    assert_true(play.giver_seals && play.giver_has && !play.taker_has);
}

/* What a giver sends; the taker must take nothing. */
static enum peer_refusal take_bytes(const char *hex)
{
    uint8_t bytes[256];
    size_t len = test_hex(hex, bytes, sizeof bytes);
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    play.refusal = PEER_REFUSAL_COUNT;
    play.taker_has = play.is_begun = play.is_finished = false;
    assert_int_equal(send(fds[0], bytes, len, MSG_NOSIGNAL), (ssize_t)len);
    assert_int_equal(shutdown(fds[0], SHUT_WR), 0);
    play.taker = (struct end){fds[1], SIZE_MAX};
    (void)run_taker(NULL);
    (void)close(fds[0]);
    assert_false(play.taker_has);
    assert_true(play.is_finished == play.is_begun);
    return play.why;
}

#define OFFER "01 0000000a 00000005 01 02 00000003 "

static void test_hostile_givers(void **state)
{
    static const char *const rows[] = {
        "",
        "01",
        "01 0000000b 00000005 01 02 00000003 00",  /* an offer that is too long, */
        "01 00000009 00000005 01 02 000003",       /* or too short */
        "01 ffffffff 00",                          /* or has no end */
        "06 00000000",                             /* COMMIT first */
        OFFER "06 00000000",                       /* COMMIT without sessions */
        OFFER "04 00000003 010203",                /* no COMMIT */
        OFFER "04 00000003 010203 06 00000001 00", /* one with something in it */
        OFFER "04 00000003 010203 05 00000000",    /* another message in its place */
        OFFER "04 00000004 010203 06 00000000",    /* a length that swallows a part of it */
        OFFER "04 10000001 010203",                /* too much */
        OFFER "04 0fffffff 010203",                /* much that never comes: little memory */
        OFFER OFFER,
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(take_bytes(rows[i]), PEER_REFUSAL_broken);
    }
}

/* ---- to which of several ---- */

static void fill(struct peer_shares *shares, unsigned workers, const uint32_t *counts, size_t len)
{
    assert_true(peer_shares_init(shares, workers));
    for (size_t i = 0; i < len; i++) {
        shares->counts[i % workers * DTLS_SHARES + 0x0108 + i / workers] = counts[i];
    }
}

static uint64_t sum_for(const struct peer_shares *shares, uint8_t to)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < shares->worker_count * (size_t)DTLS_SHARES; i++) {
        sum += shares->takers[i % DTLS_SHARES] == to ? shares->counts[i] : 0;
    }
    return sum;
}

static void test_shares_are_divided_evenly(void **state)
{
    static const uint32_t counts[] = {10, 10, 10, 10, 10, 10, 10, 10};
    struct peer_shares shares;
    (void)state;

    fill(&shares, 1, counts, 8);
    peer_shares_choose(&shares, 2, 1000, 3);
    peer_shares_choose(&shares, 3, 1000, 2);
    peer_shares_choose(&shares, 4, 1000, 1);
    assert_true(sum_for(&shares, 2) == 20 && sum_for(&shares, 3) == 30);
    assert_true(sum_for(&shares, 4) == 30 && peer_shares_left(&shares) == 0);
    peer_shares_clear(&shares);
}

static void test_shares_of_one_that_fails_go_to_those_after_it(void **state)
{
    static const uint32_t counts[] = {1, 1, 1, 1};
    struct peer_shares shares;
    (void)state;

    fill(&shares, 1, counts, 4);
    peer_shares_choose(&shares, 2, 1000, 2);
    assert_int_equal(sum_for(&shares, 2), 2);
    peer_shares_return(&shares, 2);
    peer_shares_choose(&shares, 3, 1000, 1);
    assert_true(sum_for(&shares, 2) == 0 && sum_for(&shares, 3) == 4);
    peer_shares_clear(&shares);
}

static void test_shares_fit_into_each_worker_or_stay(void **state)
{
    static const uint32_t counts[] = {5, 0, 4, 1, 0, 6, 2, 2}; /* two workers, four shares */
    struct peer_shares shares;
    (void)state;

    fill(&shares, 2, counts, 8);
    peer_shares_choose(&shares, 2, 0, 2);
    assert_int_equal(sum_for(&shares, 2), 0); /* it is full */
    peer_shares_choose(&shares, 3, 7, 1);
    /* 5 and 0, 0 and 6, but neither 4 and 1 nor, in the first worker, all of 2 and 2 */
    assert_int_equal(shares.takers[0x0108], 3);
    assert_int_equal(shares.takers[0x0109], 0);
    assert_int_equal(shares.takers[0x010a], 3);
    assert_int_equal(shares.takers[0x010b], 0);
    assert_int_equal(peer_shares_left(&shares), 9);
    peer_shares_clear(&shares);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_off_at_every_byte),
        cmocka_unit_test(test_a_taker_that_refuses),
        cmocka_unit_test(test_hostile_givers),
        cmocka_unit_test(test_shares_are_divided_evenly),
        cmocka_unit_test(test_shares_of_one_that_fails_go_to_those_after_it),
        cmocka_unit_test(test_shares_fit_into_each_worker_or_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
