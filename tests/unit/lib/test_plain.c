/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The freestanding build's CBOR beside libcbor's: cbor_plain.c is compiled here under other
 * names, and has to read and write the same.
 */
#include "hex.h"

#include <stdlib.h>

#include "internal.h"

enum cri_error plain_read_item(struct cri__reader *reader, struct cri_fault *ret_fault);
void plain_put_head(struct cri_writer *writer, enum cri__major major, uint64_t arg);

#define CRI_FREESTANDING
#define cri__read_item plain_read_item
#define cri__put_head plain_put_head
#include "cbor_plain.c"
#undef cri__read_item
#undef cri__put_head

#define INPUT_LEN 12u

static void assert_same(const uint8_t *data, size_t len)
{
    /* The head is judged before either sees it. */
    struct cri__reader judged = {.data = data, .len = len};
    struct cri__reader by_libcbor = judged;
    struct cri__reader by_plain = judged;
    struct cri_fault fault = {0, NULL};
    struct cri_fault plain_fault = {0, NULL};
    enum cri_error error = cri__read_long(&by_libcbor, &fault);
    enum cri_error plain_error = CRI_ERR_TRUNCATED;
    uint64_t arg;
    size_t head_len = cri__head(data, len, &arg);
    unsigned major = (unsigned)data[0] >> 5;
    bool counts = head_len > 0 && major >= 2 && major <= 5;

    if (!counts || arg <= (major == 5 ? (len - head_len) / 2 : len - head_len)) {
        plain_error = plain_read_item(&by_plain, &plain_fault);
        /* It is said in the same words, but for what libcbor cannot tell apart. */
        if (error != plain_error || (error != CRI_OK && fault.offset != plain_fault.offset)) {
            fail_msg("%s: %s, %s", hex_of(data, len), cri_strerror(error),
                     cri_strerror(plain_error));
        }
    }
    assert_int_equal(error, plain_error);
    if (error != CRI_OK) {
        return;
    }
    bool has_arg = by_plain.kind < CRI__BYTES || by_plain.kind == CRI__ARRAY ||
                   by_plain.kind == CRI__MAP || by_plain.kind == CRI__TAG ||
                   by_plain.kind == CRI__SIMPLE;
    if (by_libcbor.kind != by_plain.kind || by_libcbor.pos != by_plain.pos ||
        (has_arg && by_libcbor.arg != by_plain.arg)) {
        fail_msg("%s: kind %d or %d, at %zu or %zu", hex_of(data, len), (int)by_libcbor.kind,
                 (int)by_plain.kind, by_libcbor.pos, by_plain.pos);
    }
    if (by_plain.kind == CRI__BYTES || by_plain.kind == CRI__TEXT) {
        assert_int_equal(by_libcbor.string.len, by_plain.string.len);
        assert_ptr_equal(by_libcbor.string.data, by_plain.string.data);
    }
}

/* Every initial byte with every byte behind it, cut off everywhere. */
static void test_heads_are_read_alike(void **state)
{
    (void)state;
    for (unsigned initial = 0; initial < 256; initial++) {
        for (unsigned second = 0; second < 256; second++) {
            uint8_t data[INPUT_LEN] = {(uint8_t)initial, (uint8_t)second, [8] = 1};
            for (size_t len = 1; len <= sizeof data; len++) {
                assert_same(data, len);
            }
        }
    }
}

static void test_arguments_are_read_alike(void **state)
{
    static const uint64_t args[] = {
        0,         1,   2,   3,     5,     11,         23,
        24,        255, 256, 65535, 65536, UINT32_MAX, (uint64_t)UINT32_MAX + 1,
        UINT64_MAX};
    (void)state;
    for (unsigned major = 0; major < 8; major++) {
        for (size_t i = 0; i < ROW_COUNT(args); i++) {
            for (unsigned info = 24; info < 28; info++) {
                uint8_t data[INPUT_LEN + 64] = {(uint8_t)(major << 5 | info)};
                size_t arg_len = (size_t)1 << (info - 24);
                for (size_t k = 0; k < arg_len; k++) {
                    data[1 + k] = (uint8_t)(args[i] >> (8 * (arg_len - 1 - k)));
                }
                for (size_t len = 1; len <= sizeof data; len++) {
                    assert_same(data, len);
                }
            }
        }
    }
}

static void test_heads_are_written_alike(void **state)
{
    static const enum cri__major majors[] = {CRI__MAJOR_UINT, CRI__MAJOR_NINT,  CRI__MAJOR_BYTES,
                                             CRI__MAJOR_TEXT, CRI__MAJOR_ARRAY, CRI__MAJOR_TAG};
    (void)state;
    for (size_t i = 0; i < ROW_COUNT(majors); i++) {
        for (unsigned bits = 0; bits < 64; bits++) {
            for (uint64_t more = 0; more < 3; more++) {
                uint64_t arg = (UINT64_C(1) << bits) - 1 + more;
                /* What counts bytes or items is a size_t with libcbor, as in memory. */
                bool counts = majors[i] >= CRI__MAJOR_BYTES && majors[i] <= CRI__MAJOR_ARRAY;
                if (counts && arg > SIZE_MAX) {
                    continue;
                }
                uint8_t head[9];
                uint8_t plain_head[9];
                struct cri_writer writer = {head, sizeof head, 0};
                struct cri_writer plain = {plain_head, sizeof plain_head, 0};
                cri__put_head(&writer, majors[i], arg);
                plain_put_head(&plain, majors[i], arg);
                assert_int_equal(writer.len, plain.len);
                assert_memory_equal(head, plain_head, plain.len);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads_are_read_alike),
        cmocka_unit_test(test_arguments_are_read_alike),
        cmocka_unit_test(test_heads_are_written_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
