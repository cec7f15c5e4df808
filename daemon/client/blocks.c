/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/blocks.h"

#include "client/admission.h"
#include "client/serve.h"
#include "client/side.h"
#include "coap/option.h"
#include "fetch/transfer.h"
#include "net/dtls.h"

#include <stdio.h>

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

static enum block_plan assemble(struct client_side *side, const struct block_request *request,
                                struct bytes *ret_payload, struct reply *ret_reply,
                                enum reason *ret_reason)
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
    if (block.more) {
        *ret_reason = REASON_block_taken;
        *ret_reply = continue_reply(&block);
        return BLOCK_PLAN_ANSWER;
    }
    /* Kept until it expires or the next upload begins: the last block may come again. */
    *ret_payload = (struct bytes){kept->bytes.data, kept->bytes.len};
    return BLOCK_PLAN_TRANSFER;
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
           message_has_option(request->message, OPTION_oscore);
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
    additions->etag_seed = side->fetch.bodies.seed;
    if (has_block1 && is_of_assembled_body(side, request)) {
        return assemble(side, request, ret_payload, ret_reply, ret_reason);
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
