/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames of RFC 8323 section 3.2, by their bytes. */
#include "frame.h"
#include "support/test.h"

#include <string.h>

#define BYTES_MAX 2000

/* Both ways: the datagram, a NON with message id 0, is the frame's other form. */
static void test_heads(void **state)
{
    static const struct {
        const char *datagram, *frame;
    } rows[] = {
        {"50 43 0000", "00 43"},                     /* 2.03, nothing else */
        {"51 43 0000 7f", "01 43 7f"},               /* its token */
        {"52 01 0000 aabb b178", "22 01 aabb b178"}, /* an option */
        {"50 45 0000 ff 3031323334353637383930", "c0 45 ff 3031323334353637383930"},
        {"50 45 0000 ff 303132333435363738393031", "d0 00 45 ff 303132333435363738393031"},
        {"5d 45 0000 00 30313233343536373839303132", "0d 45 00 30313233343536373839303132"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t datagram[BYTES_MAX], frame[BYTES_MAX], made[BYTES_MAX];
        size_t datagram_len = test_hex(rows[i].datagram, datagram, sizeof(datagram));
        size_t frame_len = test_hex(rows[i].frame, frame, sizeof(frame));
        size_t used = 0, made_len = 0;
        assert_int_equal(frame_of_datagram(datagram, datagram_len, made, sizeof(made)), frame_len);
        assert_memory_equal(made, frame, frame_len);
        for (size_t cut = 0; cut < frame_len; cut++) {
            assert_int_equal(frame_to_datagram(frame, cut, &used, made, sizeof(made), &made_len),
                             FRAME_MORE);
        }
        assert_int_equal(
            frame_to_datagram(frame, sizeof(frame), &used, made, sizeof(made), &made_len),
            FRAME_WHOLE);
        assert_int_equal(used, frame_len);
        assert_int_equal(made_len, datagram_len);
        assert_memory_equal(made, datagram, datagram_len);
    }
}

static void test_lengths_at_their_edges(void **state)
{
    static const size_t lengths[] = {12, 13, 268, 269, 1400};
    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint8_t datagram[BYTES_MAX] = {0x50, 0x45, 0, 0, 0xff}, frame[BYTES_MAX], back[BYTES_MAX];
        size_t used = 0, back_len = 0, len = 4 + lengths[i];
        memset(datagram + 5, 'x', lengths[i] - 1);
        size_t frame_len = frame_of_datagram(datagram, len, frame, sizeof(frame));
        assert_int_equal(frame_len, lengths[i] + (lengths[i] < 13 ? 2 : lengths[i] < 269 ? 3 : 4));
        assert_int_equal(frame_to_datagram(frame, frame_len, &used, back, sizeof(back), &back_len),
                         FRAME_WHOLE);
        assert_int_equal(back_len, len);
        assert_memory_equal(back, datagram, len);
    }
}

static void test_what_is_refused(void **state)
{
    static const char *const frames[] = {
        "0f 45",          /* reserved token length */
        "f0 00000000 45", /* 65,805 bytes and more */
        "e0 ffff 45",     /* more than there is room for */
    };
    uint8_t bytes[64], made[64];
    size_t used = 0, made_len = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        size_t len = test_hex(frames[i], bytes, sizeof(bytes));
        assert_int_equal(frame_to_datagram(bytes, len, &used, made, sizeof(made), &made_len),
                         FRAME_MALFORMED);
    }
    assert_int_equal(frame_of_datagram((const uint8_t *)"\x50\x45\x00", 3, made, sizeof(made)), 0);
    assert_int_equal(frame_of_datagram((const uint8_t *)"\x52\x45\x00\x00\xaa", 5, made, 64), 0);
    assert_int_equal(frame_of_datagram((const uint8_t *)"\x50\x45\x00\x00", 4, made, 5), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_lengths_at_their_edges),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
