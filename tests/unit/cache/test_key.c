/* SPDX-License-Identifier: BSD-2-Clause */
/* Which requests ask for the same, and which answers are for one request alone. */
#include "support/test.h"

#include "cache/key.h"
#include "client/scan.h"
#include "coap/option.h"
#include "replay/words.h"

#include <stdio.h>
#include <string.h>

#define SEED UINT64_C(0x1234567890abcdef)
#define GET 0x01
#define FETCH 0x05

static const struct scheme coap = {.name = "coap", .number = 0, .default_port = 5683};
static const struct scheme coaps = {.name = "coaps", .number = 1, .default_port = 5684};

/* coap://h/x */
static struct target target_of_test(void)
{
    static const uint8_t path[] = {1, 'x'};
    struct target target = {.scheme = &coap, .is_name = true, .name_len = 1, .port = 5683};
    target.name[0] = 'h';
    target.path = (struct segments){path, sizeof(path), 1};
    return target;
}

/* A key and the bytes under it. */
struct made {
    bool is_made;
    struct cache_key key;
    uint8_t bytes[2048], message[2048];
};

/* From the options that a scan has noted the key is the same as from all of them. */
static void check_noted(const struct message *message, struct cache_key_source *source,
                        const struct made *made)
{
    struct request_options options;
    struct problem problem;
    uint8_t bytes[sizeof(made->bytes)];
    struct cache_key key;
    if (scan_options(message, &options, &problem)) {
        source->passed = &options.passed;
        assert_int_equal(cache_key_make(source, bytes, sizeof(bytes), SEED, &key), made->is_made);
        assert_true(!made->is_made || cache_key_equal(&key, &made->key));
    }
}

/* The key of a request for @p target with the options and payload of @p body. */
static void make(struct made *made, const struct target *target, unsigned code, const char *body,
                 const char *audience)
{
    char head[16];
    struct message message;
    snprintf(head, sizeof(head), "40 %02x 0001", code);
    size_t len = test_hex(words(head, body), made->message, sizeof(made->message));
    assert_int_equal(message_decode(made->message, len, &message), MESSAGE_OK);
    struct cache_key_source source = {
        .target = target,
        .code = message.code,
        .options = message.options,
        .payload = message.payload,
        .audience = {(const uint8_t *)audience, strlen(audience)},
    };
    made->is_made = cache_key_make(&source, made->bytes, sizeof(made->bytes), SEED, &made->key);
    check_noted(&message, &source, made);
}

struct pair {
    const char *id;
    unsigned code_a;
    const char *a;
    unsigned code_b;
    const char *b;
};

static const struct pair equal[] = {
    {"nothing", GET, "", GET, ""},
    {"TGT-13 the forms share a key", GET, "235:8320816168816178", GET, "3=h 11=x 239:"},
    {"CACHE-2 ETag", GET, "4:01", GET, "4:02 4:03"},
    {"CACHE-28 Observe", GET, "6:", GET, ""},
    {"HOP-8 Hop-Limit", GET, "16:10", GET, "16:03"},
    {"CACHE-2 Size2 and Size1", GET, "28: 60:0400", GET, ""},
    {"CACHE-2 No-Response", GET, "258:02", GET, ""},
    {"CACHE-26 Request-Tag", FETCH, "292:01 /61", FETCH, "/61"},
    {"CACHE-2 unknown, NoCacheKey", GET, "2044:01", GET, "2044:02"},
    {"payload of a GET", GET, "/61", GET, ""},
    {"BLK-7 M of a Block2", GET, "23:0e", GET, "23:06"},
    {"BLK-7 NUM 0, 16 bytes in two spellings", GET, "23:", GET, "23:00"},
};

static const struct pair different[] = {
    {"CACHE-5 method", GET, "", FETCH, ""},
    {"CACHE-5 FETCH bodies", FETCH, "/61", FETCH, "/62"},
    {"CACHE-5 FETCH without a body", FETCH, "", FETCH, "/61"},
    {"CACHE-5 Content-Format", FETCH, "12:28 /61", FETCH, "12:29 /61"},
    {"CACHE-1 Accept", GET, "17:32", GET, "17:3c"},
    {"CACHE-1 no Accept", GET, "17:", GET, ""},
    {"CACHE-1 Accept 0 in another spelling is another", GET, "17:", GET, "17:00"},
    {"CACHE-2 If-Match", GET, "1:01", GET, ""},
    {"CACHE-2 If-None-Match", GET, "5:", GET, ""},
    {"CACHE-2 unknown, elective, safe", GET, "2048:01", GET, "2048:02"},
    {"CACHE-2 unknown, critical, safe", GET, "2049:01", GET, ""},
    {"CACHE-2 unknown, moved to another number", GET, "2048:01", GET, "2049:01"},
    {"CACHE-2 unknown, in two", GET, "2048:0102", GET, "2048:01 2048:02"},
    {"OPT-10 an ETag of 9 bytes is unknown", GET, "4:010203040506070809", GET, ""},
    {"OPT-10 an empty ETag is unknown", GET, "4:", GET, ""},
    {"OPT-10 Hop-Limit of two bytes is unknown", GET, "16:0001", GET, ""},
    {"OPT-10 the second Hop-Limit is unknown", GET, "16:01 16:01", GET, "16:01"},
    {"CACHE-29 blocks", GET, "23:16", GET, "23:06"},
    {"CACHE-29 block sizes", GET, "23:06", GET, "23:05"},
    {"an option and a payload that spell the same", FETCH, "2048:61", FETCH, "/61"},
};

static void test_equal_keys(void **state)
{
    (void)state;
    struct target target = target_of_test();
    static struct made a, b;
    for (size_t i = 0; i < sizeof(equal) / sizeof(equal[0]); i++) {
        print_message("    %s\n", equal[i].id);
        make(&a, &target, equal[i].code_a, equal[i].a, "");
        make(&b, &target, equal[i].code_b, equal[i].b, "");
        assert_true(a.is_made && b.is_made);
        assert_true(cache_key_equal(&a.key, &b.key));
        assert_true(a.key.hash == b.key.hash);
    }
}

static void test_different_keys(void **state)
{
    (void)state;
    struct target target = target_of_test();
    static struct made a, b;
    for (size_t i = 0; i < sizeof(different) / sizeof(different[0]); i++) {
        print_message("    %s\n", different[i].id);
        make(&a, &target, different[i].code_a, different[i].a, "");
        make(&b, &target, different[i].code_b, different[i].b, "");
        assert_true(a.is_made && b.is_made);
        assert_false(cache_key_equal(&a.key, &b.key));
        /* And not only because their hashes differ. */
        assert_false(a.key.len == b.key.len && memcmp(a.bytes, b.bytes, a.key.len) == 0);
        assert_true(cache_key_same_target(&a.key, &b.key)); /* CACHE-19 */
    }
}

/* A change to coap://h/x, and whether the target is another one by it. */
static void test_targets(void **state)
{
    (void)state;
    static const uint8_t longer[] = {2, 'x', 'y'}, split[] = {1, 'x', 0};
    struct target targets[11];
    size_t count = 0;
    for (; count < 11; count++) {
        targets[count] = target_of_test();
    }
    targets[1].scheme = &coaps;
    targets[2].port = 5684;
    targets[3].name[0] = 'i';
    targets[4].path = (struct segments){longer, sizeof(longer), 1};
    targets[5].path = (struct segments){split, sizeof(split), 2};
    targets[6].query = targets[6].path;
    targets[6].path = (struct segments){0};
    targets[7].is_name = false;
    address_set_ip(&targets[7].address, (const uint8_t[]){192, 0, 2, 5}, 4, 5683);
    /* One link-local address on two links is two hosts (RFC 4007 section 6). */
    static const uint8_t link_local[16] = {0xfe, 0x80, [15] = 7};
    for (size_t i = 8; i < count; i++) {
        targets[i].is_name = false;
        address_set_ip(&targets[i].address, link_local, 16, 5683);
        targets[i].address.scope = i == 8 ? 2 : i == 9 ? 3 : 0x02000000;
    }
    static struct made made[11];
    for (size_t i = 0; i < count; i++) {
        make(&made[i], &targets[i], GET, "", "");
        for (size_t j = 0; j < i; j++) {
            assert_false(cache_key_equal(&made[i].key, &made[j].key));
            assert_false(cache_key_same_target(&made[i].key, &made[j].key));
        }
    }
    /* The form that named the target is no part of it, nor what is left of a name. */
    struct target other = targets[0];
    other.form = TARGET_FORM_PROXY_URI;
    other.name[1] = 'z';
    make(&made[1], &other, GET, "", "");
    assert_true(cache_key_equal(&made[0].key, &made[1].key));
}

/* Which options a scan notes as passed on, or as a part of the key. */
static void test_which_options_are_noted(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        uint16_t noted[PASSED_MAX];
        bool are_repeated;
    } rows[] = {
        {"", {0}, false},
        {"235:8320816168816178", {0}, false},
        {"3=h 6: 7:1633 11=x 15=q 16:10 39=coap 258:02", {0}, false},
        {"2: 235:8320816168816178", {2}, false}, /* a group has no key */
        {"4:01", {4}, false},
        {"17:32 235:8320816168816178", {17}, false},
        {"16:10 16:10", {16}, true}, /* the second is passed on (OPT-10) */
        {"2048:01", {2048}, false},
        {"2044:01 2108:01", {2044, 2108}, false},
        {"1:01 4:02 5: 11=x 12:00 17:00 23:00 35=y 292:01 2048:01",
         {1, 4, 5, 12, 17, 23, 292, 2048},
         false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t bytes[128];
        struct message message;
        struct request_options options;
        struct problem problem;
        print_message("    %s\n", rows[i].body);
        size_t len = test_hex(words("40 01 0001", rows[i].body), bytes, sizeof(bytes));
        assert_int_equal(message_decode(bytes, len, &message), MESSAGE_OK);
        assert_true(scan_options(&message, &options, &problem));
        assert_ptr_equal(options.passed.of, message.options.data);
        for (size_t k = 0; k < PASSED_MAX; k++) {
            bool is_noted = k < options.passed.count;
            assert_int_equal(is_noted ? options.passed.items[k].number : 0, rows[i].noted[k]);
            assert_true(!is_noted || options.passed.items[k].is_repeated == rows[i].are_repeated);
        }
    }
}

/* One more than there is room for: nothing is noted, and all are walked. */
static void test_too_many_options_are_walked(void **state)
{
    (void)state;
    static struct made made;
    uint8_t bytes[64];
    struct message message;
    struct request_options options;
    struct problem problem;
    struct target target = target_of_test();
    const char *body = "1:01 1:02 1:03 1:04 1:05 1:06 1:07 1:08 17:32";
    size_t len = test_hex(words("40 01 0001", body), bytes, sizeof(bytes));
    assert_int_equal(message_decode(bytes, len, &message), MESSAGE_OK);
    assert_true(scan_options(&message, &options, &problem));
    assert_null(options.passed.of);
    make(&made, &target, GET, body, "");
    assert_true(made.is_made);
    /* An index of other bytes than those is not used. */
    struct cache_key_source source = {
        .target = &target, .code = GET, .options = message.options, .passed = &options.passed};
    struct cache_key key;
    uint8_t key_bytes[sizeof(made.bytes)];
    options.passed = (struct passed_options){.of = made.message};
    assert_true(cache_key_make(&source, key_bytes, sizeof(key_bytes), SEED, &key));
    assert_true(cache_key_equal(&key, &made.key));
}

static void test_an_audience_has_keys_of_its_own(void **state)
{
    (void)state;
    struct target target = target_of_test();
    static struct made everybody, ann, bob;
    make(&everybody, &target, GET, "", "");
    make(&ann, &target, GET, "", "ann");
    make(&bob, &target, GET, "", "bob");
    assert_false(cache_key_equal(&everybody.key, &ann.key));
    assert_false(cache_key_equal(&ann.key, &bob.key));
    assert_true(cache_key_same_target(&ann.key, &bob.key));
}

static void test_requests_without_a_key(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        unsigned code;
        const char *body;
    } rows[] = {
        {"CACHE-4 POST", 0x02, ""},           {"CACHE-4 PUT", 0x03, ""},
        {"CACHE-4 DELETE", 0x04, ""},         {"CACHE-4 PATCH", 0x06, ""},
        {"CACHE-4 iPATCH", 0x07, ""},         {"CACHE-23 OSCORE", GET, "9:"},
        {"CACHE-23 OSCORE", FETCH, "9:01"},   {"CACHE-23 EDHOC", GET, "21:"},
        {"CACHE-27 Echo", GET, "252:01"},     {"a body in parts", FETCH, "27:08 /61"},
        {"a body's last part", FETCH, "27:"}, {"a group", GET, "2:01"},
    };
    struct target target = target_of_test();
    static struct made made;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("    %s\n", rows[i].id);
        make(&made, &target, rows[i].code, rows[i].body, "");
        assert_false(made.is_made);
    }
}

static void test_blocks_share_their_base(void **state)
{
    (void)state;
    struct target target = target_of_test();
    static struct made whole, first, second, other;
    make(&whole, &target, GET, "17:32", "");
    make(&first, &target, GET, "17:32 23:06", "");
    make(&second, &target, GET, "17:32 23:16", "");
    make(&other, &target, GET, "17:3c 23:16", "");
    assert_int_equal(whole.key.len, whole.key.base_len);
    assert_true(cache_key_same_base(&whole.key, &first.key));
    assert_true(cache_key_same_base(&first.key, &second.key));
    assert_false(cache_key_same_base(&second.key, &other.key));
}

static void assert_segments_equal(const struct segments *a, const struct segments *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->len, b->len);
    assert_memory_equal(a->packed, b->packed, b->len);
}

/* criproxyctl cache shows it, and access rules are asked about it. */
static void test_the_target_of_a_key(void **state)
{
    (void)state;
    static const uint8_t link_local[16] = {0xfe, 0x80, [15] = 7}, query[] = {1, 'a', 2, 'b', 'c'};
    struct target targets[2] = {target_of_test(), target_of_test()}, read;
    static struct made made;
    uint32_t scheme;
    targets[1].is_name = false;
    targets[1].name_len = 0;
    targets[1].scheme = &coaps;
    targets[1].port = 61616;
    targets[1].query = (struct segments){query, sizeof(query), 2};
    address_set_ip(&targets[1].address, link_local, 16, 61616);
    targets[1].address.scope = 0x01020304;
    for (size_t i = 0; i < 2; i++) {
        make(&made, &targets[i], GET, "17:32", "");
        assert_true(made.is_made);
        cache_key_read_target(&made.key, &read, &scheme);
        assert_int_equal(scheme, targets[i].scheme->number);
        assert_int_equal(read.port, targets[i].port);
        assert_int_equal(read.is_name, targets[i].is_name);
        assert_int_equal(read.name_len, targets[i].name_len);
        assert_memory_equal(read.name, targets[i].name, read.name_len);
        assert_true(address_equal(&read.address, &targets[i].address));
        assert_segments_equal(&read.path, &targets[i].path);
        assert_segments_equal(&read.query, &targets[i].query);
    }
}

static void test_a_key_that_does_not_fit(void **state)
{
    (void)state;
    struct target target = target_of_test();
    uint8_t bytes[256];
    struct cache_key key;
    struct cache_key_source source = {.target = &target, .code = GET};
    assert_true(cache_key_make(&source, bytes, sizeof(bytes), SEED, &key));
    uint32_t len = key.len;
    for (size_t capacity = 0; capacity < len; capacity++) {
        assert_false(cache_key_make(&source, bytes, capacity, SEED, &key));
    }
    assert_true(cache_key_make(&source, bytes, len, SEED, &key));
    struct cache_key copy = cache_key_copy(&key, bytes + 128);
    memset(bytes, 0xff, len);
    assert_false(cache_key_equal(&copy, &key));
    assert_int_equal(copy.hash, key.hash);
}

static void test_etags(void **state)
{
    (void)state;
    uint8_t message[64], copy[64];
    struct message decoded;
    size_t len = test_hex(words("40 01 0001", "3=h 4: 4:01 4:0203 4:010203040506070809 11=x"),
                          message, sizeof(message));
    assert_int_equal(message_decode(message, len, &decoded), MESSAGE_OK);
    struct bytes one = {(const uint8_t[]){1}, 1}, two = {(const uint8_t[]){2, 3}, 2};
    struct bytes none = {(const uint8_t[]){2}, 1}, empty = {0};
    assert_int_equal(etags_copy(decoded.options, copy, sizeof(copy)), 5);
    assert_memory_equal(copy, ((const uint8_t[]){0x41, 1, 0x02, 2, 3}), 5);
    struct bytes lists[] = {decoded.options, {copy, 5}};
    for (size_t i = 0; i < 2; i++) {
        assert_true(etag_is_among(lists[i], one));
        assert_true(etag_is_among(lists[i], two));
        assert_false(etag_is_among(lists[i], none));
        assert_false(etag_is_among(lists[i], empty));
    }
    assert_int_equal(etags_copy(decoded.options, copy, 4), 0);
    assert_int_equal(etags_copy(empty, copy, sizeof(copy)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_keys),
        cmocka_unit_test(test_different_keys),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_which_options_are_noted),
        cmocka_unit_test(test_too_many_options_are_walked),
        cmocka_unit_test(test_an_audience_has_keys_of_its_own),
        cmocka_unit_test(test_requests_without_a_key),
        cmocka_unit_test(test_blocks_share_their_base),
        cmocka_unit_test(test_the_target_of_a_key),
        cmocka_unit_test(test_a_key_that_does_not_fit),
        cmocka_unit_test(test_etags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
