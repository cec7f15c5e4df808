/* SPDX-License-Identifier: BSD-2-Clause */
/* Block1 and Block2 as values and as pieces of a body (RFC 7959 section 2.2, RFC 8323 6). */
#include "support/test.h"

#include "coap/block.h"
#include "fetch/body.h"

#include <string.h>

/* BLK-2: the examples of the conformance list, and the borders. */
static void test_values(void **state)
{
    static const struct {
        const char *hex;
        uint32_t num;
        bool more;
        uint8_t szx;
        uint32_t size;
        uint64_t offset;
    } rows[] = {
        {"", 0, false, 0, 16, 0},
        {"\x0e", 0, true, 6, 1024, 0},
        {"\x21", 2, false, 1, 32, 64},
        {"\x3f", 3, true, 7, 1024, 3072},
        {"\xff\xff\xf7", 0xfffff, false, 7, 1024, UINT64_C(1073740800)},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bytes value = {(const uint8_t *)rows[i].hex, strlen(rows[i].hex)};
        struct block block = block_of(value);
        assert_int_equal(block.num, rows[i].num);
        assert_int_equal(block.more, rows[i].more);
        assert_int_equal(block.szx, rows[i].szx);
        assert_int_equal(block_size(&block), rows[i].size);
        assert_int_equal(block_offset(&block), rows[i].offset);
        assert_int_equal(block_value(&block), option_uint(value));
    }
}

/* BLK-6, BLK-33 */
static void test_payloads(void **state)
{
    struct block block = {.more = true, .szx = 0};
    (void)state;
    assert_true(block_fits_payload(&block, 16));
    assert_false(block_fits_payload(&block, 10));
    assert_false(block_fits_payload(&block, 17));
    block.more = false;
    assert_true(block_fits_payload(&block, 0));
    assert_true(block_fits_payload(&block, 16));
    assert_false(block_fits_payload(&block, 17));
    block = (struct block){.more = true, .szx = BLOCK_SZX_BERT};
    assert_true(block_fits_payload(&block, 3072));
    assert_false(block_fits_payload(&block, 3000));
    assert_false(block_fits_payload(&block, 0));
    block.more = false;
    assert_true(block_fits_payload(&block, 4711));
}

static void test_szx_for(void **state)
{
    (void)state;
    assert_int_equal(block_szx_for(0), 0);
    assert_int_equal(block_szx_for(16), 0);
    assert_int_equal(block_szx_for(31), 0);
    assert_int_equal(block_szx_for(32), 1);
    assert_int_equal(block_szx_for(1023), 5);
    assert_int_equal(block_szx_for(1024), 6);
    assert_int_equal(block_szx_for(100000), 6);
}

/* Every size, whole body: the pieces in order are the body. */
static void test_pieces_make_the_body(void **state)
{
    static uint8_t body[10000], joined[10000];
    (void)state;
    for (size_t i = 0; i < sizeof(body); i++) {
        body[i] = (uint8_t)(i * 7 + i / 251);
    }
    for (uint8_t szx = 0; szx <= BLOCK_SZX_BERT; szx++) {
        for (size_t len = 0; len <= sizeof(body); len += 1009) {
            struct block block = {.szx = szx}, given;
            struct bytes piece;
            size_t at = 0;
            do {
                block.num = (uint32_t)(at / block_size(&block));
                assert_true(block_cut(&block, (struct bytes){body, len}, 3000, &given, &piece));
                assert_true(block_fits_payload(&given, piece.len));
                memcpy(joined + at, piece.data, piece.len);
                at += piece.len;
            } while (given.more);
            assert_int_equal(at, len);
            assert_memory_equal(joined, body, len);
            block.num = (uint32_t)(len / block_size(&block)) + 1;
            assert_false(block_cut(&block, (struct bytes){body, len}, 3000, &given, &piece));
        }
    }
}

static void put_of(struct body_store *store, uint64_t owner_serial, const char *name, size_t len,
                   bool expected)
{
    const struct body_owner owner = {owner_serial, 2, {0}};
    static const uint8_t bytes[4096];
    struct bytes key = {(const uint8_t *)name, strlen(name)};
    struct kept_body *kept = body_keep(store, &owner, key, false, 1000);
    assert_non_null(kept);
    assert_int_equal(body_append(store, &kept->bytes, (struct bytes){bytes, len}, kept), expected);
    if (!expected) {
        body_forget(store, kept);
    }
}

static void put(struct body_store *store, const char *name, size_t len, bool expected)
{
    static uint64_t serial; /* each is another client's */
    put_of(store, ++serial, name, len, expected);
}

static bool has(struct body_store *store, const char *name, uint64_t now_ms)
{
    struct bytes key = {(const uint8_t *)name, strlen(name)};
    return body_find(store, key, false, now_ms) != NULL;
}

/* BLK-20: one body's limit, the budget of all, their number, their time. */
static void test_budget_of_kept_bodies(void **state)
{
    struct body_store store;
    (void)state;
    assert_int_equal(body_store_init(&store, 8192, 4096, 3, 8, 1), 0);
    put(&store, "a", 4097, false);
    assert_int_equal(store.bytes, 0);
    put(&store, "a", 3000, true);
    put(&store, "b", 2000, true);
    assert_true(has(&store, "a", 0) && has(&store, "b", 999));
    put(&store, "c", 4000, true); /* at the cost of the oldest */
    assert_false(has(&store, "a", 0));
    assert_true(has(&store, "b", 0) && has(&store, "c", 0));
    assert_int_equal(store.evicted, 1);
    assert_true(store.bytes <= store.bytes_max);
    put(&store, "b", 10, true); /* in place of the other one */
    put(&store, "d", 10, true);
    put(&store, "e", 10, true); /* the fourth */
    assert_false(has(&store, "c", 0));
    assert_false(has(&store, "b", 1000));
    /* A store of uploads is another one, under the same key. */
    assert_null(body_find(&store, (struct bytes){(const uint8_t *)"e", 1}, true, 0));
    body_store_clear(&store);
    assert_int_equal(store.bytes, 0);
}

/* BLK-20: one client's share: its oldest goes, no other client's. */
static void test_bodies_of_one_client(void **state)
{
    struct body_store store;
    (void)state;
    assert_int_equal(body_store_init(&store, 65536, 4096, 100, 8, 1), 0);
    put_of(&store, 1000, "other", 10, true);
    put_of(&store, 2000, "a", 10, true);
    put_of(&store, 2000, "b", 10, true);
    put_of(&store, 2000, "c", 10, true);
    assert_false(has(&store, "a", 0));
    assert_true(has(&store, "b", 0) && has(&store, "c", 0) && has(&store, "other", 0));
    body_store_clear(&store);
}

static void put_from(struct body_store *store, const char *from, const char *name, size_t len)
{
    struct body_owner owner = {1, 100, {0}};
    static const uint8_t bytes[4096];
    struct bytes key = {(const uint8_t *)name, strlen(name)};
    assert_true(address_parse(from, strlen(from), 0, &owner.remote));
    struct kept_body *kept = body_keep(store, &owner, key, false, 1000);
    assert_non_null(kept);
    assert_true(body_append(store, &kept->bytes, (struct bytes){bytes, len}, kept));
}

/* BLK-20: the address that has most makes room, be it of bytes or by their number. */
static void test_bodies_of_the_largest_address_make_room(void **state)
{
    struct body_store store;
    (void)state;
    assert_int_equal(body_store_init(&store, 12288, 8192, 4, 8, 1), 0);
    put_from(&store, "192.0.2.1:1", "oldest", 1000);
    put_from(&store, "192.0.2.2:1", "a", 4000);
    put_from(&store, "192.0.2.2:2", "b", 4000);
    put_from(&store, "192.0.2.3:1", "c", 4000);
    assert_int_equal(store.evicted, 1);
    assert_true(has(&store, "oldest", 0) && has(&store, "b", 0));
    assert_false(has(&store, "a", 0));
    body_store_clear(&store);

    assert_int_equal(body_store_init(&store, 16384, 8192, 4, 8, 1), 0);
    put_from(&store, "192.0.2.1:1", "large", 3000);
    put_from(&store, "192.0.2.2:1", "a", 10);
    put_from(&store, "192.0.2.2:2", "b", 10);
    put_from(&store, "192.0.2.2:3", "c", 10);
    put_from(&store, "192.0.2.3:1", "d", 10); /* the fifth */
    assert_true(has(&store, "large", 0) && has(&store, "b", 0));
    assert_false(has(&store, "a", 0));
    body_store_clear(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_payloads),
        cmocka_unit_test(test_szx_for),
        cmocka_unit_test(test_pieces_make_the_body),
        cmocka_unit_test(test_budget_of_kept_bodies),
        cmocka_unit_test(test_bodies_of_one_client),
        cmocka_unit_test(test_bodies_of_the_largest_address_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
