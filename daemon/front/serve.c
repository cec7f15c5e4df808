/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/serve.h"

#include "cache/freshness.h"
#include "cache/key.h"
#include "coap/option.h"
#include "front/limit.h"
#include "front/stream.h"
#include "net/dtls.h"
#include "state.h"

#include <string.h>

#define ETAG_LEN 8u

/* Room for the head of a frame or datagram and our own options, beside payload and token. */
#define OVERHEAD 32u

/* --- keys --------------------------------------------------------------- */

struct key {
    uint8_t *buffer;
    size_t len;
    bool overflow;
};

static void put(struct key *key, const void *data, size_t len)
{
    if (key->overflow || len > SERVE_KEY_MAX - key->len) {
        key->overflow = true;
    } else if (len > 0) {
        memcpy(key->buffer + key->len, data, len);
        key->len += len;
    }
}

/* Options that make two requests ask for different bodies. */
static bool is_in_key(uint16_t number, bool tags)
{
    const struct option_row *row = option_row(number);
    switch (number) {
    case OPTION_block1:
    case OPTION_block2:
    case OPTION_size1:
    case OPTION_size2:
    case OPTION_etag:
    case OPTION_if_match:
    case OPTION_if_none_match:
    case OPTION_echo:
        return false;
    case OPTION_request_tag:
        return tags;
    default:
        return row == NULL ? !option_is_no_cache_key(number)
                           : row->in_request == OPTION_USE_FORWARD;
    }
}

uint64_t serve_query(const struct engine *engine, const struct message *request)
{
    if (request->code != CODE_FETCH || message_has_option(request, OPTION_block1)) {
        return 0; /* pieces: the Block2 requests that follow do not have them */
    }
    return hash_bytes(request->payload.data, request->payload.len, engine->bodies.seed);
}

struct bytes serve_key(const struct engine *engine, const struct leg *leg,
                       const struct serve_subject *subject, bool tags,
                       uint8_t buffer[SERVE_KEY_MAX])
{
    struct cache_key target;
    struct option_iter iter;
    struct option option;
    struct key key = {.buffer = buffer};
    uint64_t who = leg_serial(engine, leg);
    if (!cache_key_of_target(subject->target, buffer, SERVE_KEY_MAX, 0, &target)) {
        return (struct bytes){0};
    }
    key.len = target.len;
    put(&key, &who, sizeof(who));
    put(&key, &subject->code, 1);
    put(&key, &subject->query, sizeof(subject->query));
    option_iter_init(&iter, subject->options);
    while (option_iter_next(&iter, &option)) {
        if (is_in_key(option.number, tags)) {
            uint16_t head[2] = {option.number, (uint16_t)option.value.len};
            put(&key, head, sizeof(head));
            put(&key, option.value.data, option.value.len);
        }
    }
    return (struct bytes){buffer, key.overflow ? 0 : key.len};
}

/* --- entity-tags of our own --------------------------------------------- */

/* Half of it says what the body is, half that it is ours. */
static void make_etag(uint64_t seed, struct bytes body, uint8_t etag[ETAG_LEN])
{
    uint32_t content = (uint32_t)hash_bytes(body.data, body.len, seed);
    uint32_t proof = (uint32_t)hash_mix(content, seed);
    memcpy(etag, &content, sizeof(content));
    memcpy(etag + sizeof(content), &proof, sizeof(proof));
}

bool serve_is_own_etag(uint64_t seed, struct bytes etag)
{
    uint32_t content, proof;
    if (etag.len != ETAG_LEN) {
        return false;
    }
    memcpy(&content, etag.data, sizeof(content));
    memcpy(&proof, etag.data + sizeof(content), sizeof(proof));
    return proof == (uint32_t)hash_mix(content, seed);
}

/* --- cutting ------------------------------------------------------------ */

/* Bytes of a message to the client in which an answer is sent whole, or else a block of it. */
static size_t message_max(const struct engine *engine, const struct leg *leg,
                          const struct reply *reply)
{
    size_t most = (size_t)engine->config->block_whole_bytes;
    size_t limit = (size_t)engine->config->limits_datagram_bytes;
    if (leg->kind == LEG_STREAM) {
        return stream_message_max(leg);
    }
    if (most < SERVE_OSCORE_WHOLE_BYTES && options_have(reply->options, OPTION_oscore)) {
        most = SERVE_OSCORE_WHOLE_BYTES;
    }
    if (leg->session != NULL) {
        most -= DTLS_RECORD_OVERHEAD;
    }
    return most < limit ? most : limit;
}

/* Bytes of payload that one message to the client may have. */
static size_t piece_max(const struct engine *engine, const struct leg *leg,
                        const struct reply *reply)
{
    size_t most = message_max(engine, leg, reply);
    size_t taken = OVERHEAD + leg->token.len + reply->options.len;
    return most > taken ? most - taken : 0;
}

/* The block to answer with: what is asked for, in the size that both sides take (BLK-8). */
static struct block choose(const struct engine *engine, const struct leg *leg, size_t most)
{
    struct block block = {.szx = BLOCK_SZX_BERT};
    bool is_bert = leg->kind == LEG_STREAM && stream_takes_bert(leg);
    size_t size = engine->config->block_size;
    uint8_t szx = block_szx_for(leg->kind == LEG_STREAM || most < size ? most : size);
    if (leg->has_block2) {
        block = leg->block2;
    }
    if (block.szx == BLOCK_SZX_BERT && (!is_bert || most < 1024)) {
        block.szx = BLOCK_SZX_MAX; /* the same unit of 1,024 bytes */
    }
    if (block.szx != BLOCK_SZX_BERT && block.szx > szx) {
        block.num <<= block.szx - szx;
        block.szx = szx;
    }
    return block;
}

static bool fits_whole(const struct engine *engine, const struct leg *leg,
                       const struct reply *reply)
{
    return leg->kind == LEG_STREAM
               ? reply_fits(engine, leg, reply)
               : reply_fits_datagram(engine, leg, reply, message_max(engine, leg, reply));
}

static bool is_to_be_cut(const struct engine *engine, const struct leg *leg,
                         const struct reply *reply)
{
    bool takes_blocks = leg->kind == LEG_DATAGRAM || stream_takes_blocks(leg);
    if (CODE_CLASS(reply->code) != 2 || reply->has_block2 || !takes_blocks) {
        return false;
    }
    if (leg->has_block2 && (leg->block2.num > 0 || reply->payload.len > block_size(&leg->block2))) {
        return true;
    }
    /* Of no use where it is the options that are too long. */
    struct block block = choose(engine, leg, piece_max(engine, leg, reply));
    return reply->payload.len > block_size(&block) && !fits_whole(engine, leg, reply);
}

static bool is_of_whole(uint16_t number)
{
    return !option_is_of_piece(number);
}

/* The options of @p reply without those of blocks, with an ETag of ours if it has none. */
static bool keep_options(struct engine *engine, struct kept_body *kept, const struct reply *reply)
{
    uint8_t etag[ETAG_LEN];
    const struct option own = {OPTION_etag, {etag, sizeof(etag)}};
    struct message_writer writer = {.buffer = engine->scratch, .capacity = engine->scratch_bytes};
    make_etag(engine->bodies.seed, reply->payload, etag);
    message_writer_options(&writer, reply->options, is_of_whole,
                           options_have(reply->options, OPTION_etag) ? NULL : &own);
    return !writer.overflow && body_append(&engine->bodies, &kept->options,
                                           (struct bytes){writer.buffer, writer.len}, kept);
}

static uint32_t max_age_of(const struct reply *reply)
{
    return reply->is_aged ? reply->max_age_s : freshness_max_age_s(reply->options);
}

static struct kept_body *keep(struct engine *engine, const struct leg *leg,
                              const struct serve_subject *subject, const struct reply *reply)
{
    uint8_t buffer[SERVE_KEY_MAX];
    struct bytes name = serve_key(engine, leg, subject, false, buffer);
    uint64_t until_ms = engine_now_ms(engine) + engine->config->block_keep_time;
    const struct body_owner owner = limit_bodies(engine, leg);
    struct kept_body *kept =
        name.len > 0 ? body_keep(&engine->bodies, &owner, name, false, until_ms) : NULL;
    if (kept == NULL) {
        return NULL;
    }
    kept->code = reply->code;
    kept->made_ms = engine_now_ms(engine);
    kept->max_age_s = max_age_of(reply);
    if (!keep_options(engine, kept, reply) ||
        !body_append(&engine->bodies, &kept->bytes, reply->payload, kept)) {
        body_forget(&engine->bodies, kept);
        return NULL;
    }
    return kept;
}

/* The piece of @p kept that the client wants, or 4.00 behind its end (BLK-14). */
static enum reason piece_of(struct engine *engine, const struct leg *leg,
                            const struct kept_body *kept, struct reply *ret_reply)
{
    struct reply reply = {
        .code = kept->code,
        .options = {kept->options.data, kept->options.len},
        .has_block2 = true,
    };
    struct bytes whole = {kept->bytes.data, kept->bytes.len};
    uint32_t age_s = (uint32_t)((engine_now_ms(engine) - kept->made_ms) / 1000);
    size_t most = piece_max(engine, leg, &reply);
    struct block asked = choose(engine, leg, most), given;
    if (!block_cut(&asked, whole, most, &given, &reply.payload) || given.num > BLOCK_NUM_MAX) {
        *ret_reply = reply_of(REASON_block_range, NULL);
        return REASON_block_range;
    }
    reply.block2 = block_value(&given);
    reply.size2 = given.num == 0 && whole.len <= UINT32_MAX ? (uint32_t)whole.len : 0; /* BLK-15 */
    /* An answer from the cache has its Max-Age beside its options (CACHE-8). */
    if (age_s > 0 || kept->max_age_s != MAX_AGE_DEFAULT_S) {
        reply.is_aged = true;
        reply.max_age_s = kept->max_age_s > age_s ? kept->max_age_s - age_s : 0;
    }
    *ret_reply = reply;
    return REASON_none;
}

enum reason serve_cut(struct engine *engine, const struct leg *leg,
                      const struct serve_subject *subject, const struct reply *reply,
                      struct reply *ret_cut)
{
    bool is_client = leg->kind == LEG_DATAGRAM || leg->kind == LEG_STREAM;
    *ret_cut = *reply;
    if (!is_client) {
        return REASON_none;
    }
    if (is_to_be_cut(engine, leg, reply) && !options_have(reply->options, OPTION_block2)) {
        const struct kept_body *kept = keep(engine, leg, subject, reply);
        if (kept != NULL) {
            enum reason reason = piece_of(engine, leg, kept, ret_cut);
            if (reply->has_observe && reason == REASON_none) {
                ret_cut->has_observe = true;
                ret_cut->observe = reply->observe;
            }
            return reason;
        }
    }
    if (reply_fits(engine, leg, reply)) {
        return REASON_none;
    }
    *ret_cut = reply_of(REASON_response_too_large, NULL); /* ERR-17 */
    return REASON_response_too_large;
}

enum reason serve_cut_exchange(struct engine *engine, const struct exchange *exchange,
                               const struct reply *reply, struct reply *ret_cut)
{
    struct message message = {0};
    struct serve_subject subject = {.target = &exchange->target, .query = exchange->query};
    /* Its own encoding: it cannot be malformed. */
    (void)message_decode(exchange->datagram, exchange->datagram_len, &message);
    subject.code = message.code;
    subject.options = message.options;
    return serve_cut(engine, &exchange->leg, &subject, reply, ret_cut);
}

bool serve_kept(struct engine *engine, const struct leg *leg, const struct serve_subject *subject,
                struct reply *ret_reply, enum reason *ret_reason)
{
    uint8_t buffer[SERVE_KEY_MAX];
    struct bytes name = serve_key(engine, leg, subject, false, buffer);
    struct kept_body *kept =
        name.len > 0 ? body_find(&engine->bodies, name, false, engine_now_ms(engine)) : NULL;
    if (kept == NULL) {
        return false;
    }
    *ret_reason = piece_of(engine, leg, kept, ret_reply);
    return true;
}
