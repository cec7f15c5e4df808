/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/serve.h"

#include "cache/freshness.h"
#include "cache/key.h"
#include "client/admission.h"
#include "client/side.h"
#include "client/stream.h"
#include "coap/option.h"
#include "fetch/transfer.h"
#include "net/dtls.h"
#include "origin/long_body.h"

#include <stdio.h>
#include <string.h>

/* Room for the head of a frame or datagram and our own options, beside payload and token. */
#define OVERHEAD 32u

/* --- keys --------------------------------------------------------------- */

struct key {
    uint8_t *buffer;
    size_t len;
    bool overflow;
};

static void put_key_part(struct key *key, const void *data, size_t len)
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

uint64_t serve_query(const struct client_side *side, const struct message *request)
{
    if (request->code != CODE_FETCH || options_have(request->options, OPTION_block1)) {
        return 0; /* pieces: the Block2 requests that follow do not have them */
    }
    return hash_bytes(request->payload.data, request->payload.len, side->fetch.bodies.seed);
}

static struct bytes options_of_subject(const struct serve_subject *subject)
{
    struct message message = {0};
    if (subject->sent.len == 0) {
        return subject->options;
    }
    /* Our own encoding: it cannot be malformed. */
    (void)message_decode(subject->sent.data, subject->sent.len, &message);
    return message.options;
}

/*
 * The key under which a body of @p leg's client is kept: the client, method, target, and the
 * options that make a difference.
 *
 * @param tags whether Request-Tag is one of them: for uploads (RFC 9175 section 3.3).
 * @return its bytes in @p buffer; empty where they do not fit.
 */
static struct bytes serve_key(const struct client_side *side, const struct leg *leg,
                              const struct serve_subject *subject, bool tags,
                              uint8_t buffer[SERVE_KEY_MAX])
{
    struct cache_key target;
    struct option_iter iter;
    struct option option;
    struct key key = {.buffer = buffer};
    uint64_t who = leg_serial(side, leg);
    if (!cache_key_of_target(subject->target, buffer, SERVE_KEY_MAX, 0, &target)) {
        return (struct bytes){0};
    }
    key.len = target.len;
    put_key_part(&key, &who, sizeof(who));
    put_key_part(&key, &subject->code, 1);
    put_key_part(&key, &subject->query, sizeof(subject->query));
    option_iter_init(&iter, options_of_subject(subject));
    while (option_iter_next(&iter, &option)) {
        if (is_in_key(option.number, tags)) {
            uint16_t head[2] = {option.number, (uint16_t)option.value.len};
            put_key_part(&key, head, sizeof(head));
            put_key_part(&key, option.value.data, option.value.len);
        }
    }
    return (struct bytes){buffer, key.overflow ? 0 : key.len};
}

/* --- cutting ------------------------------------------------------------ */

/* Bytes of a message to the client in which an answer is sent whole, or else a block of it. */
static size_t message_max(const struct client_side *side, const struct leg *leg,
                          const struct reply *reply)
{
    size_t most = (size_t)side->context.config->block_whole_bytes;
    size_t limit = leg_message_max(side, leg);
    if (leg->kind == LEG_STREAM) {
        return stream_message_max(leg);
    }
    if (most < SERVE_OSCORE_WHOLE_BYTES && options_have(reply->options, OPTION_oscore)) {
        most = SERVE_OSCORE_WHOLE_BYTES;
    }
    if (leg->session != NULL) {
        most -= dtls_session_overhead(leg->session);
    }
    return most < limit ? most : limit;
}

/* Bytes of payload that one message to the client may have. */
static size_t piece_max(const struct client_side *side, const struct leg *leg,
                        const struct reply *reply)
{
    size_t most = message_max(side, leg, reply);
    size_t taken = OVERHEAD + leg->token.len + reply->options.len;
    return most > taken ? most - taken : 0;
}

/* The same place in the body, in blocks that the client takes and that have at most @p most bytes.
 */
static struct block shrink(const struct leg *leg, struct block block, size_t most)
{
    uint8_t szx = block_szx_for(most);
    if (block.szx == BLOCK_SZX_BERT && (!stream_takes_bert(leg) || most < 1024)) {
        block.szx = BLOCK_SZX_MAX; /* the same unit of 1,024 bytes */
    }
    if (block.szx != BLOCK_SZX_BERT && block.szx > szx) {
        block.num <<= block.szx - szx;
        block.szx = szx;
    }
    return block;
}

/* The block to answer with: what is asked for, in the size that both sides take (BLK-8). */
static struct block choose_block(const struct client_side *side, const struct leg *leg, size_t most)
{
    static const struct block first = {.szx = BLOCK_SZX_BERT};
    size_t size = side->context.config->block_size;
    return shrink(leg, leg->has_block2 ? leg->block2 : first,
                  leg->kind == LEG_STREAM || most < size ? most : size);
}

/* In one message, without blocks. */
static bool fits_whole(const struct client_side *side, const struct leg *leg,
                       const struct reply *reply)
{
    return leg->kind == LEG_STREAM
               ? reply_fits(side, leg, reply)
               : reply_fits_datagram(side, leg, reply, message_max(side, leg, reply));
}

/* An answer that does not fit whole, or of which the client asks for one block among several. */
static bool is_to_be_cut(const struct client_side *side, const struct leg *leg,
                         const struct reply *reply, bool is_asked_for)
{
    if (CODE_CLASS(reply->code) != 2 || reply->has_block2 || !leg_takes_blocks(leg)) {
        return false;
    }
    /* Of no use where it is the options that are too long. */
    const struct block block = choose_block(side, leg, piece_max(side, leg, reply));
    return is_asked_for || reply->payload.len > block_size(&block);
}

static bool is_of_whole(uint16_t number)
{
    return !option_is_of_piece(number);
}

/* The options of @p reply without those of blocks, and with @p etag, if it is not NULL. */
static bool serve_keep_options(struct client_side *side, struct kept_body *kept,
                               const struct reply *reply, const struct option *etag)
{
    struct message_writer writer = {.buffer = side->context.scratch,
                                    .capacity = side->context.scratch_bytes};
    message_writer_options(&writer, reply->options, is_of_whole, etag);
    return !writer.overflow && body_append(&side->fetch.bodies, &kept->options,
                                           (struct bytes){writer.buffer, writer.len}, kept);
}

static uint32_t max_age_of(const struct reply *reply)
{
    return reply->is_aged ? reply->max_age_s : freshness_max_age_s(reply->options);
}

/*
 * Keep the payload of @p reply for the client, which asks for it piece by piece. It is the body,
 * or the @p part of it that the origin server has sent; NULL: the whole. NULL where there is no
 * room.
 */
static struct kept_body *keep_body(struct client_side *side, const struct leg *leg,
                                   const struct serve_subject *subject, const struct reply *reply,
                                   const struct block *part)
{
    uint8_t buffer[SERVE_KEY_MAX], etag[BLOCK_ETAG_LEN];
    const struct option own = {OPTION_etag, {etag, sizeof(etag)}};
    struct bytes name = serve_key(side, leg, subject, false, buffer);
    uint64_t until_ms = context_now_ms(&side->context) + side->context.config->block_keep_time;
    const struct body_owner owner = limit_bodies(side, leg);
    struct kept_body *kept =
        name.len > 0 ? body_keep(&side->fetch.bodies, &owner, name, false, until_ms) : NULL;
    if (kept == NULL) {
        return NULL;
    }
    kept->code = reply->code;
    kept->made_ms = context_now_ms(&side->context);
    kept->max_age_s = max_age_of(reply);
    kept->begin = part != NULL ? block_offset(part) : 0;
    kept->more = part != NULL && part->more;
    /* An entity-tag made of a part would not be that of the next part. */
    bool needs_etag = part == NULL && !options_have(reply->options, OPTION_etag);
    block_make_etag(side->fetch.bodies.seed, reply->payload, etag);
    if (!serve_keep_options(side, kept, reply, needs_etag ? &own : NULL) ||
        !body_append(&side->fetch.bodies, &kept->bytes, reply->payload, kept)) {
        body_forget(&side->fetch.bodies, kept);
        return NULL;
    }
    return kept;
}

static struct kept_body *find_kept(struct client_side *side, const struct leg *leg,
                                   const struct serve_subject *subject)
{
    uint8_t buffer[SERVE_KEY_MAX];
    struct bytes name = serve_key(side, leg, subject, false, buffer);
    return name.len > 0
               ? body_find(&side->fetch.bodies, name, false, context_now_ms(&side->context))
               : NULL;
}

/* Options and code of what is kept, for any piece of it. */
static struct reply reply_of_kept(const struct client_side *side, const struct kept_body *kept)
{
    struct reply reply = {
        .code = kept->code,
        .options = {kept->options.data, kept->options.len},
        .has_block2 = true,
    };
    uint32_t age_s = (uint32_t)((context_now_ms(&side->context) - kept->made_ms) / 1000);
    /* An answer from the cache has its Max-Age beside its options (CACHE-8). */
    if (age_s > 0 || kept->max_age_s != MAX_AGE_DEFAULT_S) {
        reply.is_aged = true;
        reply.max_age_s = kept->max_age_s > age_s ? kept->max_age_s - age_s : 0;
    }
    return reply;
}

/* Whether a block that begins as @p block does is in what is kept, if that is a part of a body. */
static bool has_block(const struct kept_body *kept, const struct block *block)
{
    uint64_t offset = block_offset(block);
    uint32_t size = block_size(block);
    bool is_part = kept->begin > 0 || kept->more;
    return !is_part || (offset >= kept->begin && offset - kept->begin < kept->bytes.len &&
                        kept->begin % size == 0 && (!kept->more || kept->bytes.len % size == 0));
}

/* The piece of @p kept that the client wants, or 4.00 behind its end (BLK-14). */
static enum reason piece_of(const struct client_side *side, const struct kept_body *kept,
                            const struct block *block, size_t most, struct reply *ret_reply)
{
    struct reply reply = reply_of_kept(side, kept);
    const struct bytes bytes = {kept->bytes.data, kept->bytes.len};
    const uint32_t first = (uint32_t)(kept->begin / block_size(block));
    struct block asked = *block, given;
    asked.num -= first;
    if (!block_cut(&asked, bytes, most, &given, &reply.payload) ||
        given.num + first > BLOCK_NUM_MAX) {
        *ret_reply = reply_of(REASON_block_range, NULL);
        return REASON_block_range;
    }
    given.num += first;
    given.more = given.more || kept->more;
    reply.block2 = block_value(&given);
    if (given.num == 0 && !kept->more && bytes.len <= UINT32_MAX) {
        reply.size2 = (uint32_t)bytes.len; /* BLK-15 */
    }
    *ret_reply = reply;
    return REASON_none;
}
/* An answer that came whole: the piece of it that the client wants. False: it cannot be kept. */
static bool cut_whole(struct client_side *side, const struct leg *leg,
                      const struct serve_subject *subject, const struct reply *reply,
                      struct reply *ret_cut, enum reason *ret_reason)
{
    const struct kept_body *kept = keep_body(side, leg, subject, reply, NULL);
    if (kept == NULL) {
        return false;
    }
    struct reply all = reply_of_kept(side, kept);
    size_t most = piece_max(side, leg, &all);
    struct block asked = choose_block(side, leg, most);
    *ret_reason = piece_of(side, kept, &asked, most, ret_cut);
    if (*ret_reason == REASON_none) {
        ret_cut->has_observe = reply->has_observe;
        ret_cut->observe = reply->observe;
        ret_cut->has_block1 = reply->has_block1;
        ret_cut->block1 = reply->block1;
    }
    return true;
}

/*
 * The block to give of an answer that is @p block: the one that is asked for, where it is in it, or
 * the first one. @p ret_skip: where in the payload it begins, in bytes.
 */
static struct block first_in_part(const struct client_side *side, const struct leg *leg,
                                  const struct reply *reply, const struct block *block, size_t most,
                                  size_t *ret_skip)
{
    struct block asked = choose_block(side, leg, most);
    uint64_t begin = block_offset(block), offset = block_offset(&asked);
    *ret_skip = 0;
    if (!leg->has_block2 || offset < begin || offset - begin >= reply->payload.len) {
        return shrink(leg, *block, most);
    }
    *ret_skip = (size_t)(offset - begin);
    return asked;
}

/*
 * An answer that is a block of the origin server passes as it is, unless the client takes less
 * in one message: then it gets the first part of it, as a block that it takes, and asks for the
 * rest, which is kept (RFC 8323 section 5.3.1, RFC 7959 section 2.4).
 */
static void cut_block(struct client_side *side, const struct leg *leg,
                      const struct serve_subject *subject, const struct reply *reply,
                      const struct block *block, struct reply *ret_cut)
{
    bool is_bad_size = (block->szx == BLOCK_SZX_BERT && !stream_takes_bert(leg)) ||
                       (leg->has_block2 && leg->block2.szx < block->szx);
    if (CODE_CLASS(reply->code) != 2 || !leg_takes_blocks(leg) ||
        (!is_bad_size && reply_fits(side, leg, reply))) {
        /* Its later blocks are the origin server's: a body kept before is not this one. */
        struct kept_body *older =
            side->fetch.bodies.count > 0 ? find_kept(side, leg, subject) : NULL;
        if (older != NULL) {
            body_forget(&side->fetch.bodies, older);
        }
        return;
    }
    struct bytes size2 = {0};
    size_t most = piece_max(side, leg, reply), skip;
    struct block first = first_in_part(side, leg, reply, block, most, &skip);
    size_t size = block_size(&first), left = reply->payload.len - skip;
    size_t len = first.szx == BLOCK_SZX_BERT ? most - most % size : size;
    if (first.num > BLOCK_NUM_MAX) {
        return;
    }
    first.more = block->more || left > len;
    if (skip > 0 || left > len) {
        ret_cut->payload = (struct bytes){reply->payload.data + skip, left < len ? left : len};
        (void)keep_body(side, leg, subject, reply,
                        block); /* else the origin server is asked again */
    }
    (void)option_find(reply->options, OPTION_size2, &size2);
    ret_cut->has_block2 = true;
    ret_cut->block2 = block_value(&first);
    ret_cut->size2 = option_uint(size2);
}

/* Bytes of @p text, at most @p most of them, that end with a whole character of UTF-8. */
static size_t whole_characters(struct bytes text, size_t most)
{
    size_t len = text.len < most ? text.len : most;
    while (len > 0 && len < text.len && (text.data[len] & 0xc0u) == 0x80u) {
        len--;
    }
    return len;
}

/*
 * The answer fits in no way. An error is told without its payload, or with less of its diagnostic
 * text (RFC 7252 section 5.5.2); of anything else the client has to know that it is not there.
 */
static enum reason make_fit(const struct client_side *side, const struct leg *leg,
                            const struct reply *reply, struct reply *ret_cut)
{
    struct reply shorter = *reply;
    bool is_text = !options_have(reply->options, OPTION_content_format);
    shorter.payload.len =
        is_text ? whole_characters(reply->payload, piece_max(side, leg, reply)) : 0;
    if (CODE_CLASS(reply->code) > 2 && reply_fits(side, leg, &shorter)) {
        *ret_cut = shorter;
        return REASON_none;
    }
    /* ERR-17 */
    *ret_cut =
        reply_of(REASON_response_too_large, leg->is_safe || CODE_CLASS(reply->code) != 2
                                                ? NULL
                                                : "carried out, but the response is too large");
    return REASON_response_too_large;
}

enum reason serve_cut(struct client_side *side, const struct leg *leg,
                      const struct serve_subject *subject, const struct reply *reply,
                      struct reply *ret_cut)
{
    bool is_client = leg->kind == LEG_DATAGRAM || leg->kind == LEG_STREAM;
    bool is_asked_for =
        leg->has_block2 && (leg->block2.num > 0 || reply->payload.len > block_size(&leg->block2));
    struct bytes value;
    enum reason reason;
    *ret_cut = *reply;
    if (!is_client) {
        return REASON_none;
    }
    if (reply_find(reply, OPTION_block2, &value)) {
        const struct block block = block_of(value);
        cut_block(side, leg, subject, reply, &block, ret_cut);
    } else if (!is_asked_for && fits_whole(side, leg, reply)) {
        return REASON_none; /* as most do */
    } else if (is_to_be_cut(side, leg, reply, is_asked_for) &&
               cut_whole(side, leg, subject, reply, ret_cut, &reason)) {
        return reason;
    }
    if (reply_fits(side, leg, ret_cut)) {
        return REASON_none;
    }
    return make_fit(side, leg, reply, ret_cut);
}

enum reason serve_cut_request(struct client_side *side, const struct request *request,
                              const struct reply *reply, struct reply *ret_cut)
{
    const struct sending *sending = &request->fetch->sending;
    const struct serve_subject subject = {
        .target = &request->fetch->target,
        .code = sending->datagram[1],
        .query = request->query,
        .sent = {sending->datagram, sending->datagram_len},
    };
    return serve_cut(side, &request->leg, &subject, reply, ret_cut);
}

bool serve_kept(struct client_side *side, const struct leg *leg,
                const struct serve_subject *subject, struct reply *ret_reply,
                enum reason *ret_reason)
{
    const struct kept_body *kept = find_kept(side, leg, subject);
    if (kept == NULL) {
        return false;
    }
    struct reply all = reply_of_kept(side, kept);
    size_t most = piece_max(side, leg, &all);
    struct block asked = choose_block(side, leg, most);
    if (!has_block(kept, &asked)) {
        return false;
    }
    *ret_reason = piece_of(side, kept, &asked, most, ret_reply);
    return true;
}

/* --- blocks ------------------------------------------------------------- */

static bool is_bad(struct problem *problem, const char *words)
{
    problem->reason = REASON_block_invalid;
    snprintf(problem->text, sizeof(problem->text), "%s", words);
    return false;
}

bool blocks_check(const struct leg *leg, const struct message *message,
                  const struct request_options *options, struct problem *ret_problem)
{
    bool is_reliable = leg->kind == LEG_STREAM;
    if (options->block1.data != NULL) {
        struct block block = block_of(options->block1);
        if (block.szx == BLOCK_SZX_BERT && !is_reliable) {
            return is_bad(ret_problem, "block1: size 7 over datagrams");
        }
        if (!block_fits_payload(&block, message->payload.len)) {
            return is_bad(ret_problem, "block1: payload is not a block");
        }
    }
    if (options->block2.data != NULL && !is_reliable &&
        block_of(options->block2).szx == BLOCK_SZX_BERT) {
        return is_bad(ret_problem, "block2: size 7 over datagrams");
    }
    return true;
}

/* Block2 for the next hop: as it came, without what has no meaning there. */
static void blocks_add_block2(const struct block_request *request, struct additions *additions)
{
    struct block block = block_of(request->options->block2);
    bool is_bert = block.szx == BLOCK_SZX_BERT && request->is_datagram_hop;
    if (block.more || is_bert) {
        block.more = false; /* BLK-7 */
        block.szx = is_bert ? BLOCK_SZX_MAX : block.szx;
        additions->block2 = (struct own_option){true, true, block_value(&block)};
    }
}

/* --- BERT uploads -------------------------------------------------------- */

/* One option: Block1 as it came (RFC 7959 section 2.3). */
static struct reply continue_reply(const struct block *block)
{
    return (struct reply){.code = CODE(2, 31), .has_block1 = true, .block1 = block_value(block)};
}

static enum reason start_body(struct client_side *side, const struct leg *leg, struct bytes key,
                              struct bytes piece, struct kept_body **ret_kept)
{
    const struct body_owner owner = limit_bodies(side, leg);
    uint64_t until_ms = context_now_ms(&side->context) + side->context.config->block_keep_time;
    struct kept_body *kept = body_keep(&side->fetch.bodies, &owner, key, true, until_ms);
    *ret_kept = kept;
    if (kept == NULL) {
        return REASON_proxy_busy;
    }
    kept->made_ms = context_now_ms(&side->context);
    return body_append(&side->fetch.bodies, &kept->bytes, piece, kept) ? REASON_none
                                                                       : REASON_request_too_large;
}

/* Take one piece of an upload (BLK-16 to BLK-21). */
static enum reason take_piece(struct client_side *side, const struct leg *leg, struct bytes key,
                              const struct block *block, struct bytes piece,
                              struct kept_body **ret_kept)
{
    struct kept_body *kept =
        body_find(&side->fetch.bodies, key, true, context_now_ms(&side->context));
    uint64_t offset = block_offset(block);
    if (block->num == 0) {
        return start_body(side, leg, key, piece, ret_kept);
    }
    *ret_kept = kept;
    if (kept == NULL || (offset != kept->bytes.len && offset != kept->last_offset)) {
        return REASON_block_missing;
    }
    uint64_t now_ms = context_now_ms(&side->context);
    uint64_t last_ms = kept->made_ms + side->context.config->block_transfer_timeout;
    if (now_ms >= last_ms) {
        return REASON_block_missing; /* as if it had been forgotten: the client begins anew */
    }
    if (offset == kept->last_offset) {
        kept->bytes.len = kept->last_offset; /* the same block again: not twice (BLK-18) */
    }
    uint64_t until_ms = now_ms + side->context.config->block_keep_time;
    kept->expires_ms = until_ms < last_ms ? until_ms : last_ms;
    kept->last_offset = kept->bytes.len;
    return body_append(&side->fetch.bodies, &kept->bytes, piece, kept) ? REASON_none
                                                                       : REASON_request_too_large;
}

/* Of the upload that the request is a block of; of no bytes where it is too long. */
static struct bytes upload_key(const struct client_side *side, const struct block_request *request,
                               uint8_t buffer[SERVE_KEY_MAX])
{
    const struct serve_subject subject = {.target = request->target,
                                          .code = request->message->code,
                                          .options = request->message->options};
    return serve_key(side, request->leg, &subject, true, buffer);
}

/*
 * Whether the block is one of a body that is put together: each in BERT is, and what follows
 * those in blocks of any smaller size (RFC 7959 section 2.5). Block 0 of a smaller size begins
 * another upload, whose blocks pass as they are. To an HTTP server none passes.
 */
static bool is_of_assembled_body(struct client_side *side, const struct block_request *request)
{
    uint8_t buffer[SERVE_KEY_MAX];
    if (request->is_http_hop) {
        return true;
    }
    if (!request->is_datagram_hop) {
        return false;
    }
    struct block block = block_of(request->options->block1);
    if (block.szx == BLOCK_SZX_BERT) {
        return true;
    }
    struct bytes key = upload_key(side, request, buffer);
    struct kept_body *kept =
        key.len > 0 ? body_find(&side->fetch.bodies, key, true, context_now_ms(&side->context))
                    : NULL;
    if (kept != NULL && block.num == 0) {
        body_forget(&side->fetch.bodies, kept);
    }
    return kept != NULL && block.num > 0;
}

/* What is put together of an upload over HTTP before it is sent on; UINT64_MAX: all of it. */
static uint64_t joined_for_http(const struct client_side *side, const struct block_request *request)
{
    uint64_t bytes = long_body_part_bytes(side->context.config);
    uint8_t code = request->message->code;
    bool has_body =
        code == CODE_PUT || code == CODE_POST || code == CODE_PATCH || code == CODE_IPATCH;
    return request->is_http_hop && has_body && bytes > 0 ? bytes : UINT64_MAX;
}

/* Whether the block is behind what was put together: the carrier knows whether that is there. */
static bool goes_on_over_http(struct client_side *side, const struct block_request *request)
{
    uint8_t buffer[SERVE_KEY_MAX];
    const struct block block = block_of(request->options->block1);
    struct bytes key = upload_key(side, request, buffer);
    if (block_offset(&block) < joined_for_http(side, request) || key.len == 0) {
        return false;
    }
    struct kept_body *kept =
        body_find(&side->fetch.bodies, key, true, context_now_ms(&side->context));
    bool goes_on = kept == NULL || kept->goes_on;
    if (kept != NULL && kept->goes_on) {
        body_forget(&side->fetch.bodies, kept);
    }
    return goes_on;
}

static enum block_plan assemble(struct client_side *side, const struct block_request *request,
                                struct additions *additions, struct bytes *ret_payload,
                                struct reply *ret_reply, enum reason *ret_reason)
{
    uint8_t buffer[SERVE_KEY_MAX];
    struct block block = block_of(request->options->block1);
    struct bytes key = upload_key(side, request, buffer);
    struct kept_body *kept = NULL;
    enum reason reason =
        key.len > 0 ? take_piece(side, request->leg, key, &block, request->message->payload, &kept)
                    : REASON_request_too_large;
    if (reason != REASON_none) {
        if (kept != NULL) {
            body_forget(&side->fetch.bodies, kept);
        }
        *ret_reason = reason;
        *ret_reply = reply_refusal(side, reason, NULL);
        return BLOCK_PLAN_ANSWER;
    }
    bool has_condition = options_have(request->message->options, OPTION_if_none_match);
    if (block.num == 0) {
        kept->has_if_none_match = has_condition;
    }
    kept->goes_on = block.more && kept->bytes.len >= joined_for_http(side, request);
    if (block.more && !kept->goes_on) {
        *ret_reason = REASON_block_taken;
        *ret_reply = continue_reply(&block);
        return BLOCK_PLAN_ANSWER;
    }
    /* Kept until it expires or the next upload begins: the last block may come again. */
    *ret_payload = (struct bytes){kept->bytes.data, kept->bytes.len};
    additions->adds_if_none_match = kept->has_if_none_match && !has_condition;
    return kept->goes_on ? BLOCK_PLAN_PIECE : BLOCK_PLAN_TRANSFER;
}

/* What the proxy adds: header, token, Hop-Limit, Uri-Port, marker, and longer deltas. */
#define REQUEST_OWN_BYTES 48u

/*
 * An OSCORE message that needs no fragments is not cut: not every origin server knows Block
 * options outside of the protection. The estimate is above what the datagram will have.
 */
static bool passes_whole(const struct block_request *request)
{
    const struct target *target = request->target;
    size_t target_bytes = target->path.len + target->query.len + target->name_len +
                          2 * (size_t)(target->path.count + target->query.count);
    size_t at_most = REQUEST_OWN_BYTES + target_bytes + request->message->options.len +
                     request->message->payload.len;
    return at_most <= SERVE_OSCORE_WHOLE_BYTES - DTLS_RECORD_OVERHEAD &&
           options_have(request->message->options, OPTION_oscore);
}

enum block_plan blocks_plan(struct client_side *side, const struct block_request *request,
                            struct additions *additions, struct bytes *ret_payload,
                            struct reply *ret_reply, enum reason *ret_reason)
{
    const struct message *message = request->message;
    bool has_block1 = request->options->block1.data != NULL;
    bool has_block2 = request->options->block2.data != NULL;
    if (has_block2) {
        blocks_add_block2(request, additions);
    }
    bool is_further = has_block1 && request->is_http_hop && goes_on_over_http(side, request);
    if (is_further && request->is_datagram_hop) {
        *ret_payload = message->payload;
        return BLOCK_PLAN_PIECE; /* longer than a fetch holds */
    }
    if (has_block1 && !is_further && is_of_assembled_body(side, request)) {
        return assemble(side, request, additions, ret_payload, ret_reply, ret_reason);
    }
    bool is_too_long = request->leg->kind == LEG_STREAM && request->is_datagram_hop &&
                       message->payload.len > side->context.config->block_size &&
                       !passes_whole(request);
    if (is_too_long && !has_block1) {
        *ret_payload = message->payload;
        return BLOCK_PLAN_TRANSFER;
    }
    bool is_later_block2 = has_block2 && !request->leg->is_safe;
    if (has_block1 || is_later_block2) {
        /* The answer's later blocks are asked for under the upload's tag (BLK-31). */
        additions->request_tag =
            transfer_tag(&side->fetch, request->leg->asker.serial, message->options);
    }
    return BLOCK_PLAN_PASS;
}
