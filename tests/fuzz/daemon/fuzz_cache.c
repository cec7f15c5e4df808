/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any two messages as a stored answer and the 2.03 that confirms it, and as requests: what
 * is kept of options can be read again, is in order and no longer than it was; what is merged
 * has each replacing option once over; equal keys have equal bytes, and a key leads back to
 * its target.
 *
 * Input: a byte that says where the second message begins, then both.
 */
#include "cache/freshness.h"
#include "cache/key.h"
#include "client/scan.h"
#include "coap/option.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct scheme coap = {.name = "coap", .number = 0, .default_port = 5683};

/* How many options of that number there are; all of them have to be readable, in order. */
static size_t count(struct bytes options, uint16_t number)
{
    struct option_iter iter;
    struct option option;
    uint16_t last = 0;
    size_t found = 0;
    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option)) {
        assert(option.number >= last);
        last = option.number;
        found += option.number == number;
    }
    assert(iter.left == 0);
    return found;
}

static struct bytes keep(const struct message *message, uint8_t *buffer)
{
    struct bytes options = message->options;
    struct bytes kept = {buffer, freshness_keep_options(options, freshness_is_partial(options),
                                                        buffer, options.len)};
    assert(kept.len <= message->options.len);
    assert(count(kept, OPTION_max_age) == 0 && count(kept, OPTION_observe) == 0);
    assert(count(kept, OPTION_etag) == count(message->options, OPTION_etag));
    return kept;
}

static void check_merge(struct bytes stored, struct bytes update, uint8_t *buffer, size_t capacity)
{
    struct bytes merged = {buffer, freshness_merge_options(stored, update, buffer, capacity)};
    size_t fresh = count(update, OPTION_etag), old = count(stored, OPTION_etag);
    assert(count(merged, OPTION_etag) == (fresh > 0 ? fresh : old));
    assert(count(merged, OPTION_max_age) == 0);
    if (freshness_etag(update).len > 0) {
        assert(etag_is_among(merged, freshness_etag(update)));
    }
}

static bool make_key(const struct message *message, uint8_t *buffer, struct cache_key *ret_key)
{
    static const uint8_t path[] = {1, 'x', 0};
    struct target target = {.scheme = &coap, .is_name = true, .name_len = 1, .port = 5683};
    target.name[0] = 'h';
    target.path = (struct segments){path, sizeof(path), 2};
    struct cache_key_source source = {
        .target = &target,
        .code = message->code,
        .options = message->options,
        .payload = message->payload,
    };
    struct request_options options;
    struct problem problem;
    struct cache_key noted; /* of the options that the scan has noted: the same */
    bool is_scanned = scan_options(message, &options, &problem);
    source.passed = &options.passed;
    bool is_noted = is_scanned && cache_key_make(&source, buffer, KEY_MAX, 7, &noted);
    source.passed = NULL;
    if (!cache_key_make(&source, buffer, KEY_MAX, 7, ret_key)) {
        assert(!is_noted);
        return false;
    }
    assert(is_noted == is_scanned);
    assert(!is_noted || (noted.len == ret_key->len && noted.hash == ret_key->hash));
    struct target found;
    uint32_t scheme;
    cache_key_read_target(ret_key, &found, &scheme);
    assert(scheme == 0 && found.port == 5683 && found.name_len == 1 && found.path.count == 2);
    struct cache_key base = cache_key_base(ret_key);
    assert(base.len == ret_key->base_len && cache_key_same_base(&base, ret_key));
    return true;
}

static void check_etags(struct bytes options, uint8_t *buffer)
{
    struct bytes copy = {buffer, etags_copy(options, buffer, options.len)};
    assert(copy.len <= options.len);
    assert(count(copy, OPTION_etag) <= count(options, OPTION_etag));
}

/* As the walk that checks an answer says it. */
static uint64_t absent_of(struct bytes options)
{
    struct option_iter iter;
    struct option option;
    uint64_t present = 0;
    option_iter_init(&iter, options);
    while (option_iter_next(&iter, &option)) {
        present |= reply_bit(option.number);
    }
    return ~present;
}

static void check_facts(const struct message *message)
{
    const struct answer_facts facts = freshness_facts(message->code, message->options, 0);
    const struct answer_facts same =
        freshness_facts(message->code, message->options, absent_of(message->options));
    assert(facts.is_partial == freshness_is_partial(message->options));
    assert(facts.max_age_s == freshness_max_age_s(message->options));
    assert(bytes_equal(facts.etag, freshness_etag(message->options)));
    assert(same.use == facts.use && same.is_partial == facts.is_partial);
    assert(same.max_age_s == facts.max_age_s && bytes_equal(same.etag, facts.etag));
}

static void check(const struct message *a, const struct message *b, uint8_t *buffers[3])
{
    struct cache_key keys[2];
    struct bytes stored = keep(a, buffers[0]);
    check_merge(stored, b->options, buffers[1], KEY_MAX);
    check_facts(a);
    check_etags(a->options, buffers[2]);
    if (make_key(a, buffers[0], &keys[0]) && make_key(b, buffers[1], &keys[1])) {
        bool is_equal =
            keys[0].len == keys[1].len && memcmp(keys[0].bytes, keys[1].bytes, keys[0].len) == 0;
        assert(cache_key_equal(&keys[0], &keys[1]) == is_equal);
        assert(cache_key_same_target(&keys[0], &keys[1]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct message a, b;
    uint8_t *buffers[3];
    if (size < 1 || size > 4096 || data[0] > size - 1) {
        return 0;
    }
    for (size_t i = 0; i < 3; i++) {
        buffers[i] = malloc(KEY_MAX);
    }
    if (buffers[0] != NULL && buffers[1] != NULL && buffers[2] != NULL &&
        message_decode(data + 1, data[0], &a) == MESSAGE_OK &&
        message_decode(data + 1 + data[0], size - 1 - data[0], &b) == MESSAGE_OK) {
        check(&a, &b, buffers);
    }
    for (size_t i = 0; i < 3; i++) {
        free(buffers[i]);
    }
    return 0;
}
